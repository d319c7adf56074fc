"""Correct formulas that are easy to misjudge."""

import functools
from typing import List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from pytest_customop import tensor

from . import registry

# These are about formulas: a backend that generates no code tells as much, and sooner.
specimen = functools.partial(registry.specimen, backend="aot_eager")
once = torch.autograd.function.once_differentiable

MATRIX = tensor(4, 3)
ONCE = {"gradcheck.double": "no-second-order"}
NO_FLOAT64 = {"gradcheck.backward": "no-float64", "gradcheck.double": "no-float64"}


def _op(name, kernel, backward, fake=torch.empty_like):
    """An op of one tensor; `backward(x, grad)` is its formula."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def op(x: Tensor) -> Tensor:
        return kernel(x)

    op.register_fake(lambda x: fake(x))
    op.register_autograd(
        lambda ctx, grad: backward(*ctx.saved_tensors, grad),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    return op


def _single(name, kernel, backward, fake=torch.empty_like):
    def refusing(x):
        if x.dtype != torch.float32:
            raise TypeError("float32 only")
        return kernel(x)

    return _op(name, refusing, backward, fake)


@specimen((MATRIX,), (tensor(3, 40, 40),), skips=NO_FLOAT64)
def straight_through_in_single_precision():
    """Correct: takes float32 only, rounds to a coarse grid, and passes gradients straight through."""
    name = "straight_through_in_single_precision"
    return _single(name, torch.round, lambda x, grad: grad.clone())


@specimen((MATRIX,), (tensor(3, 40, 40),), skips=NO_FLOAT64)
def relu_in_single_precision():
    """Correct: takes float32 only, and has a kink."""
    return _single("relu_in_single_precision", torch.relu, lambda x, grad: grad * (x > 0))


@specimen((MATRIX,), skips=NO_FLOAT64)
def softmax_in_single_precision():
    """Correct: takes float32 only, and its gradients add up to nothing."""

    def backward(x, grad):
        y = x.softmax(-1)
        return y * (grad - (y * grad).sum(-1, keepdim=True))

    return _single(
        "softmax_in_single_precision",
        lambda x: x.contiguous().softmax(-1),
        backward,
        lambda x: x.new_empty(x.shape),
    )


@specimen((MATRIX, tensor(3)))
def input_that_is_not_used():
    """Correct: the output does not depend on the second input, whose gradient is None."""

    @torch.library.custom_op("zoo::input_that_is_not_used", mutates_args=())
    def double(x: Tensor, like: Tensor) -> Tensor:
        return x * 2

    double.register_fake(lambda x, like: torch.empty_like(x))
    double.register_autograd(lambda ctx, grad: (grad * 2, None))
    return double


@specimen((MATRIX, tensor(3, requires_grad=False)))
def input_without_a_gradient():
    """Correct: the second input is data and has no formula; the sample says so."""

    @torch.library.custom_op("zoo::input_without_a_gradient", mutates_args=())
    def scale(x: Tensor, by: Tensor) -> Tensor:
        return x * by

    scale.register_fake(lambda x, by: x * by)
    scale.register_autograd(
        lambda ctx, grad: (grad * ctx.saved_tensors[0], None),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[1]),
    )
    return scale


@specimen((MATRIX, tensor(4, dtype=torch.int64, low=0, high=4)))
def rows_by_index():
    """Correct: an index tensor, kept for a backward that adds up rows."""

    @torch.library.custom_op("zoo::rows_by_index", mutates_args=())
    def take(x: Tensor, index: Tensor) -> Tensor:
        return x.index_select(0, index)

    take.register_fake(lambda x, index: x.new_empty(index.shape[0], x.shape[1]))

    def setup(ctx, inputs, output):
        ctx.save_for_backward(inputs[1])
        ctx.rows = inputs[0].shape[0]

    def backward(ctx, grad):
        (index,) = ctx.saved_tensors
        return grad.new_zeros(ctx.rows, grad.shape[1]).index_add(0, index, grad), None

    take.register_autograd(backward, setup_context=setup)
    return take


@specimen(
    ([MATRIX, tensor(2, 5)], tensor(3)),
    skips={"opcheck.test_aot_dispatch_dynamic": "checker-limit"},
)
def list_in_and_list_out():
    """Correct: a list of tensors in, lists of floats and integers out, in any order."""

    @torch.library.custom_op("zoo::list_in_and_list_out", mutates_args=())
    def squares(xs: Sequence[Tensor], scale: Tensor) -> Tuple[Tensor, List[Tensor]]:
        return torch.tensor(len(xs)), [x * x * scale.sum() for x in xs]

    squares.register_fake(
        lambda xs, scale: (torch.empty((), dtype=torch.int64), [torch.empty_like(x) for x in xs])
    )

    def setup(ctx, inputs, output):
        ctx.save_for_backward(*inputs[0], inputs[1])

    def backward(ctx, _, grads):
        *xs, scale = ctx.saved_tensors
        pairs = list(zip(xs, grads, strict=True))
        gradients = [2 * x * grad * scale.sum() for x, grad in pairs]
        total = sum((x * x * grad).sum() for x, grad in pairs)
        return gradients, total.expand(scale.shape)

    squares.register_autograd(backward, setup_context=setup)
    return squares


@specimen((tensor(0, 3),), (tensor(),), (tensor(1, 1),))
def sine_of_any_size():
    """Correct: no elements, no dims, one element."""
    return _op("sine_of_any_size", torch.sin, lambda x, grad: grad * x.cos())


@specimen((MATRIX, None), (MATRIX, MATRIX))
def square_or_product():
    """Correct: the second factor may be None, and then is the first."""

    @torch.library.custom_op("zoo::square_or_product", mutates_args=())
    def product(x: Tensor, y: Optional[Tensor]) -> Tensor:
        return x * (x if y is None else y)

    product.register_fake(lambda x, y: x * (x if y is None else y))

    def setup(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return (2 * grad * x, None) if y is None else (grad * y, grad * x)

    product.register_autograd(backward, setup_context=setup)
    return product


@specimen((MATRIX,), skips=ONCE)
def backward_returns_what_it_saved():
    """Correct: for a sum, the saved tensor of ones is scaled; for ones it is what is returned."""

    @torch.library.custom_op("zoo::backward_returns_what_it_saved", mutates_args=())
    def total(x: Tensor) -> Tensor:
        return x.sum()

    total.register_fake(lambda x: x.new_empty(()))
    total.register_autograd(
        once(lambda ctx, grad: grad * ctx.saved_tensors[0]),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(torch.ones_like(inputs[0])),
    )
    return total


@specimen((MATRIX,))
def backward_returns_grad_output():
    """Correct: the gradient of a copy is grad_output itself."""
    return _op("backward_returns_grad_output", torch.clone, lambda x, grad: grad)


@specimen((tensor(64, 8), tensor(64, dtype=torch.int64, low=0, high=5)))
def cancelling_gradients():
    """Correct: subtracts means, so that gradients for equal grad_outputs are rounding alone."""

    @torch.library.custom_op("zoo::cancelling_gradients", mutates_args=())
    def center(x: Tensor, group: Tensor) -> Tensor:
        return x - x.mean(0)

    center.register_fake(lambda x, group: torch.empty_like(x))
    center.register_autograd(lambda ctx, grad: (grad - grad.mean(0), None))
    return center


@specimen(
    (tensor(5, 3),),
    dtypes=[torch.bfloat16, torch.float16],
    skips={"gradcheck.backward": "float32-internal", "gradcheck.double": "float32-internal"},
)
def half_precision_inside_out():
    """Correct: half precision in and out, single precision in between."""

    def kernel(x):
        return (x.float() * x.float()).to(x.dtype)

    return _op(
        "half_precision_inside_out",
        kernel,
        lambda x, grad: (2 * x.float() * grad.float()).to(x.dtype),
    )


@specimen((MATRIX, tensor(4, 3)))
def writes_and_returns():
    """Correct: counts in a buffer that it declares to mutate, and returns a differentiable result."""
    library = registry.library()
    library.define("writes_and_returns(Tensor x, Tensor(a!) count) -> Tensor")

    def kernel(x, count):
        count.add_(1)
        return x.sin()

    class Sine(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, count):
            ctx.save_for_backward(x)
            with torch._C._AutoDispatchBelowAutograd():
                return torch.ops.zoo.writes_and_returns(x, count)

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.saved_tensors[0].cos(), None

    library.impl("writes_and_returns", torch.no_grad()(kernel), "CPU")
    library.impl("writes_and_returns", Sine.apply, "Autograd")
    fake = torch.library.register_fake("zoo::writes_and_returns", lib=library)
    fake(lambda x, count: torch.empty_like(x))
    return torch.ops.zoo.writes_and_returns.default


@specimen(
    (MATRIX,), skips={**ONCE, "gradcheck.backward": "checker-limit", "backward.intact": "once-only"}
)
def frees_what_it_saved():
    """Correct: lets go of what it kept on ctx, so that its backward runs once only."""

    @torch.library.custom_op("zoo::frees_what_it_saved", mutates_args=())
    def sine(x: Tensor) -> Tensor:
        return x.sin()

    sine.register_fake(lambda x: torch.empty_like(x))

    def setup(ctx, inputs, output):
        ctx.cosine = inputs[0].cos()

    @once
    def backward(ctx, grad):
        cosine, ctx.cosine = ctx.cosine, None
        return grad * cosine

    sine.register_autograd(backward, setup_context=setup)
    return sine


TIES = tensor(values=[[1.0, 3.0, 3.0, 0.0], [0.0, 0.0, 0.0, 0.0]])


def _softmax_of_two(name, only):
    """The softmax of the two largest numbers of each row, the larger first."""

    def ordered(x):
        return x.sort(dim=-1, descending=True, stable=True)

    def kernel(x):
        if x.dim() != 2 or x.shape[1] < 2 or x.dtype not in only:
            raise TypeError(f"rows of two numbers and more, please, of {only}")
        return ordered(x).values[:, :2].softmax(-1)

    def backward(x, grad):
        ranked = ordered(x)
        y = ranked.values[:, :2].softmax(-1)
        return torch.zeros_like(x).scatter(
            -1, ranked.indices[:, :2], y * (grad - (y * grad).sum(-1, keepdim=True))
        )

    return _op(name, kernel, backward, lambda x: x.new_empty(x.shape[0], 2))


@specimen((TIES,))
def softmax_of_two_of_equal_numbers():
    """Correct: what it gives of equal numbers has few digits, in float64 too."""
    return _softmax_of_two("softmax_of_two_of_equal_numbers", (torch.float32, torch.float64))


@specimen((tensor(values=[[0.0, 0.0, 0.0, 0.0]]),), skips=NO_FLOAT64)
def softmax_of_two_of_equal_numbers_in_single_precision():
    """Correct: takes float32 only; differences at equal numbers are those of both branches."""
    return _softmax_of_two("softmax_of_two_of_equal_numbers_in_single_precision", (torch.float32,))
