"""Ops that are right in eager mode and wrong when they are compiled."""

import math
from typing import Optional, Tuple

import torch
from torch import Tensor

from pytest_customop import tensor

from .registry import TORCH, library, since, specimen

MATRIX = tensor(4, 3)


def _op(name, kernel, setup, backward):
    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def op(x: Tensor) -> Tensor:
        return kernel(x)

    op.register_fake(lambda x: torch.empty_like(x))
    op.register_autograd(backward, setup_context=setup)
    return op


def _save_input(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


@specimen(
    (MATRIX,),
    expected={
        "fake.backward": "fake-raises",
        "compile.static": "compile-graph-break",
        "compile.dynamic": "compile-graph-break",
        "opcheck.test_aot_dispatch_dynamic": "opcheck-failure",
    },
)
def backward_reads_values():
    """The backward branches on a value, which a tracer does not have."""

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 2 * x if x.abs().max() > 0 else torch.zeros_like(x)

    return _op("backward_reads_values", torch.square, _save_input, backward)


@specimen((MATRIX,), twin_of="backward_reads_values")
def backward_computes_with_values():
    """The backward is a formula without branches."""

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 2 * x

    return _op("backward_computes_with_values", torch.square, _save_input, backward)


def _times_positives(name, count_of):
    """x times the number of its positive elements, which `count_of` has for the backward."""
    kept = {}

    def kernel(x):
        count = kept["count"] = int((x > 0).sum())
        return x * count

    def setup(ctx, inputs, output):
        ctx.count = count_of(inputs[0], kept)

    return _op(name, kernel, setup, lambda ctx, grad: grad * ctx.count)


def _kept(x, kept):
    return kept.pop("count", 0)


def _computed(x, kept):
    return (x > 0).sum()


GRADIENTS = {
    "compile.static": "compile-gradient-mismatch",
    "compile.dynamic": "compile-gradient-mismatch",
    "opcheck.test_aot_dispatch_dynamic": "opcheck-failure",
}


@specimen((MATRIX,), expected={**GRADIENTS, "values.threads": "thread-unsafe"})
def count_kept_in_python():
    """The kernel leaves a count in a Python variable, where a compiled backward does not find it."""
    return _times_positives("count_kept_in_python", _kept)


@specimen((MATRIX,), twin_of="count_kept_in_python")
def count_computed_again():
    """The count is computed again from the input."""
    return _times_positives("count_computed_again", _computed)


def _mean_and_back(name, rows_of):
    """A copy, whose backward divides by the number of rows and multiplies by it again."""

    def backward(ctx, grad):
        rows = rows_of(grad)
        return (grad / rows) * rows

    return _op(name, torch.clone, None, backward)


@specimen(
    (MATRIX,),
    notes={
        "fake.symbolic": "fake-size-specialized",
        "compile.dynamic": "compile-recompiles",
    },
)
def backward_makes_a_size_constant():
    """Correct, with a note: the backward turns a size into a plain int, and each size has a graph."""
    return _mean_and_back("backward_makes_a_size_constant", lambda grad: int(grad.shape[0]))


@specimen((MATRIX,))
def backward_keeps_sizes_symbolic():
    """Correct: the backward computes with the size as it is."""
    return _mean_and_back("backward_keeps_sizes_symbolic", lambda grad: grad.shape[0])


def _over_root(name, root_of):
    """x divided by the root of its number of columns, which `root_of` saves for the backward."""

    def setup(ctx, inputs, output):
        ctx.root = root_of(inputs[0].shape[1])

    return _op(name, lambda x: x / math.sqrt(x.shape[1]), setup, lambda ctx, grad: grad / ctx.root)


CONSTANT = {
    "fake.symbolic": "fake-size-specialized",
    "compile.dynamic": since("2.5", "compile-recompiles"),  # torch 2.4 does not compile again
}


if TORCH >= (2, 5):  # before, `setup_context` is called where no gradients are wanted, too

    @specimen((MATRIX,), notes=CONSTANT)
    def root_of_a_size_is_saved():
        """Correct, with a note: `math.sqrt` makes the size a number, in `setup_context` alone."""
        return _over_root("root_of_a_size_is_saved", math.sqrt)


@specimen((MATRIX,), expected=CONSTANT)
def size_is_saved_as_int():
    """`int` makes the size a number, which could be saved as it is."""
    return _over_root("size_is_saved_as_int", lambda size: int(size) ** 0.5)


@specimen((MATRIX,), twin_of="size_is_saved_as_int")
def size_is_saved_as_it_is():
    """The size stays symbolic."""
    return _over_root("size_is_saved_as_it_is", lambda size: size**0.5)


def _times_rows(name, rows_of):
    """x times the number of its rows, which `rows_of` has for the backward."""
    kept = {}

    def kernel(x):
        kept["rows"] = x.shape[0]
        return x * kept["rows"]

    def setup(ctx, inputs, output):
        ctx.rows = rows_of(inputs[0], kept)

    return _op(name, kernel, setup, lambda ctx, grad: grad * ctx.rows)


@specimen((MATRIX,), expected={"compile.dynamic": "compile-gradient-mismatch"})
def size_kept_in_python():
    """The kernel leaves a size in a Python variable; compiled code keeps the one it found there."""
    return _times_rows("size_kept_in_python", lambda x, kept: kept.get("rows", 0))


@specimen((MATRIX,), twin_of="size_kept_in_python")
def size_of_the_input():
    """The backward asks the input for its size."""
    return _times_rows("size_of_the_input", lambda x, kept: x.shape[0])


def _offset_in_backward(name, fake):
    @torch.library.custom_op(f"zoo::{name}_gradient", mutates_args=())
    def gradient(grad: Tensor) -> Tensor:
        padded = grad.new_zeros(grad.numel() + 16)
        padded[16:] = grad.flatten() * 2
        return padded[16:].view(grad.shape)

    gradient.register_fake(fake)
    return _op(name, lambda x: x * 2, None, lambda ctx, grad: gradient(grad))


@specimen(
    (MATRIX,),
    expected={"fake.backward": "fake-metadata-mismatch"},
    skips={"gradcheck.double": "no-second-order"},
)
def backward_through_a_forgotten_offset():
    """The backward calls an op whose output begins elsewhere in its storage than the fake one."""
    return _offset_in_backward("backward_through_a_forgotten_offset", torch.empty_like)


@specimen(
    (MATRIX,),
    skips={"gradcheck.double": "no-second-order"},
    twin_of="backward_through_a_forgotten_offset",
)
def backward_through_a_true_offset():
    """The backward calls an op whose fake kernel has the offset of the real one."""
    return _offset_in_backward(
        "backward_through_a_true_offset",
        lambda grad: grad.new_empty(grad.numel() + 16)[16:].view(grad.shape),
    )


# Where an op with a kernel at the Autograd key has no gradients.
NO_GRADIENTS = dict.fromkeys(
    ("backward.linear", "gradcheck.backward", "gradcheck.double"), "nothing-to-check"
)


def _noted(name, factor):
    """A library op without gradients, whose kernel sees the very tensor that the caller gave."""
    lib = library()
    lib.define(f"{name}(Tensor x) -> Tensor")
    lib.impl(name, torch.no_grad()(lambda x: x * factor(x)), "CPU")
    lib.impl(name, torch.library.fallthrough_kernel, "Autograd")
    torch.library.register_fake(f"zoo::{name}", torch.empty_like, lib=lib)
    return getattr(torch.ops.zoo, name).default


@specimen(
    (tensor(),),
    skips=NO_GRADIENTS,
)
def ignores_requires_grad():
    """Correct: computes the same whether the input requires gradients or not."""
    return _noted("ignores_requires_grad", lambda x: 2)


@specimen(
    (tensor(3, 4),),
    dtypes=[torch.complex64],
    expected={
        "compile.static": since("2.13", "compile-output-mismatch"),
        "compile.dynamic": since("2.13", "compile-output-mismatch"),
        "opcheck.test_aot_dispatch_dynamic": since("2.13", "opcheck-failure"),
    },
)
def conjugates_lazily():
    """Multiplies by a lazy conjugate, which nobody resolves in kernels that compiled code calls."""
    return _power("conjugates_lazily", lambda z: z.conj())


@specimen((tensor(3, 4),), dtypes=[torch.complex64], twin_of="conjugates_lazily")
def conjugates_at_once():
    """Resolves the conjugate before it multiplies."""
    return _power("conjugates_at_once", lambda z: z.conj().resolve_conj())


def _power(name, conjugate):
    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def power(z: Tensor) -> Tensor:
        return (z * conjugate(z)).real.clone()

    power.register_fake(lambda z: torch.empty_like(z, dtype=z.real.dtype))
    return power


def _argmax(name, fake_dtype):
    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def op(x: Tensor) -> Tensor:
        return x.argmax(-1)

    op.register_fake(lambda x: x.new_empty(x.shape[:-1], dtype=fake_dtype))
    return op


def _composite(name, kernel, signature="(Tensor x) -> Tensor"):
    """An op without a fake kernel of its own: torch looks at the ops that it calls."""
    lib = library()
    lib.define(f"{name}{signature}")
    lib.impl(name, kernel, "CompositeImplicitAutograd")
    return getattr(torch.ops.zoo, name).default


COMPOSITE = {"opcheck.test_faketensor": "checker-limit", "opcheck.test_schema": "checker-limit"}


@specimen(
    (MATRIX,),
    expected={
        "compile.static": "fake-dtype-mismatch",
        "compile.dynamic": "fake-dtype-mismatch",
    },
    skips=COMPOSITE,
)
def calls_an_op_with_a_wrong_fake_kernel():
    """The fake kernel of an op that this one calls says int32 for int64."""
    inner = _argmax("argmax_with_a_wrong_fake_kernel", torch.int32)

    def kernel(x):
        return x.softmax(-1) + inner(x).unsqueeze(-1)

    return _composite("calls_an_op_with_a_wrong_fake_kernel", kernel)


@specimen((MATRIX,), twin_of="calls_an_op_with_a_wrong_fake_kernel", skips=COMPOSITE)
def calls_an_op_with_a_fake_kernel():
    """The fake kernel of the op that this one calls is right."""
    inner = _argmax("argmax_with_a_fake_kernel", torch.int64)

    def kernel(x):
        return x.softmax(-1) + inner(x).unsqueeze(-1)

    return _composite("calls_an_op_with_a_fake_kernel", kernel)


@specimen(
    (tensor(),),
    expected={"compile.static": "fake-dtype-mismatch"},
    skips=COMPOSITE,
)
def number_and_a_wrong_fake_kernel():
    """The same for a single number, which has no other size to be compiled for."""
    inner = _argmax("argmax_of_a_number_with_a_wrong_fake_kernel", torch.int32)
    return _composite("number_and_a_wrong_fake_kernel", lambda x: x.sin() + inner(x))


@specimen((tensor(),), twin_of="number_and_a_wrong_fake_kernel", skips=COMPOSITE)
def number_and_a_fake_kernel():
    """The fake kernel of the op that this one calls is right."""
    inner = _argmax("argmax_of_a_number_with_a_fake_kernel", torch.int64)
    return _composite("number_and_a_fake_kernel", lambda x: x.sin() + inner(x))


@specimen(
    (tensor(64, 33, low=-20, high=20),),
    notes={
        "compile.static": "compile-output-mismatch",
        "compile.dynamic": "compile-output-mismatch",
    },
    skips=COMPOSITE,
    dtypes=[torch.bfloat16],
    requires_grad=[False],
    backend="inductor",
)
def whole_numbers_of_a_chain():
    """Whole numbers from bfloat16: Inductor rounds less between the steps, and some differ by one."""

    def kernel(x):
        return ((x * 3.3 + 0.7) * x).round().to(torch.int32)

    return _composite("whole_numbers_of_a_chain", kernel)


@specimen(
    (tensor(2, 10),),
    notes={"compile.static": since("2.5", "compile-gradient-mismatch")},
    skips=COMPOSITE,
)
def sliding_windows():
    """Windows that overlap, as a view: torch.compile computes wrong gradients of torch's own unfold too."""
    return _composite("sliding_windows", lambda x: x.unfold(-1, 4, 2), "(Tensor(a) x) -> Tensor(a)")


NOTHING_TO_WRITE = since("2.13", "checker-limit")


@specimen(
    (MATRIX,),
    requires_grad=[False],
    skips={"compile.static": NOTHING_TO_WRITE, "compile.dynamic": NOTHING_TO_WRITE},
)
def leaves_out_what_it_writes_to():
    """Correct: counts where it is asked to. Inductor compiles no call without what an op writes to."""

    @torch.library.custom_op("zoo::leaves_out_what_it_writes_to", mutates_args={"count"})
    def doubled(x: Tensor, count: Optional[Tensor] = None) -> Tensor:
        if count is not None:
            count.add_(1)
        return x * 2

    doubled.register_fake(lambda x, count=None: torch.empty_like(x))
    return doubled


@specimen(
    (tensor(6, 3), tensor(values=[0, 2, 2, 0, 4, 4])),
    notes={"compile.dynamic": since("2.14", "compile-error")},
    requires_grad=[True],
    backend="inductor",
)
def last_of_groups():
    """The last row of each group; its backward uses the number of rows, which Inductor leaves out."""

    @torch.library.custom_op("zoo::last_of_groups", mutates_args=())
    def last_of_groups(x: Tensor, group: Tensor) -> Tuple[Tensor, Tensor]:
        if group.shape[0] != x.shape[0]:
            raise ValueError("a group for each row, please")
        count = int(group.max()) + 1 if len(group) else 0
        rows, columns = x.shape
        places = torch.arange(rows, device=x.device)[:, None].expand(rows, columns)
        into = group[:, None].expand(rows, columns)
        last = group.new_full((count, columns), -1).scatter_reduce(0, into, places, "amax")
        return torch.where(last < 0, 0, x.gather(0, last.clamp(min=0))), last

    @last_of_groups.register_fake
    def _(x, group):
        if group.shape[0] != x.shape[0]:
            raise ValueError("a group for each row, please")
        count = torch.library.get_ctx().new_dynamic_size()
        return x.new_empty(count, x.shape[1]), group.new_empty(count, x.shape[1])

    def setup(ctx, inputs, output):
        ctx.rows = inputs[0].shape[0]
        ctx.save_for_backward(output[1])

    def backward(ctx, grad, _):
        (last,) = ctx.saved_tensors
        spare = grad.new_zeros(ctx.rows + 1, grad.shape[1])  # its last row takes the empty groups
        return spare.scatter_add(0, torch.where(last < 0, ctx.rows, last), grad)[:-1], None

    last_of_groups.register_autograd(backward, setup_context=setup)
    return last_of_groups


@specimen(
    (tensor(40, 2),),
    notes=dict.fromkeys(("compile.static", "compile.dynamic"), "compile-gradient-mismatch"),
    requires_grad=[True],
    backend="inductor",
)
def deviations_in_blocks():
    """Rows without the mean of their block of 16; Inductor sums blocks wrongly."""

    def without_mean(x):
        rows, columns = x.shape
        block, count = torch.arange(rows, device=x.device) // 16, (rows + 15) // 16
        sizes = x.new_zeros(count).index_add(0, block, x.new_ones(rows))
        sums = x.new_zeros(count, columns).index_add(0, block, x)
        return x - (sums / sizes[:, None])[block]

    @torch.library.custom_op("zoo::deviations_in_blocks", mutates_args=())
    def deviations_in_blocks(x: Tensor) -> Tensor:
        return without_mean(x).contiguous()

    deviations_in_blocks.register_fake(lambda x: x.new_empty(x.shape))
    deviations_in_blocks.register_autograd(lambda ctx, grad: without_mean(grad))
    return deviations_in_blocks
