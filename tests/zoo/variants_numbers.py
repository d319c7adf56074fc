"""Ops that are right for the example, and wrong with another number, string, dtype or list beside it."""

import threading
from typing import List, Optional

import torch
from torch import Tensor

from pytest_customop import tensor

from .memory import library_op
from .variants import DTYPE, MATRIX, SHAPE, specimen
from .variants_arguments import ALIAS

GRADIENT = {"gradcheck.backward": "gradient-mismatch"}
MUTATION = {"values.mutation": "undeclared-mutation"}


def _windows(name, width_of):
    """The sums of windows of each row; `width_of(width)` is what the fake kernel takes for the width."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def windows(x: Tensor, width: int = 2) -> Tensor:
        if x.dim() != 2 or not 0 < width <= x.shape[1]:
            raise ValueError("a matrix and windows that fit into its rows, please")
        return x.unfold(1, width, 1).sum(-1).contiguous()

    windows.register_fake(
        lambda x, width=2: x.new_empty(x.shape[0], x.shape[1] - width_of(width) + 1)
    )
    return windows


@specimen((MATRIX,), variant_findings=SHAPE, shown_by=("width.more", "width.less"))
def fake_has_one_width():
    """The fake kernel takes every window to be as wide as by default."""
    return _windows("fake_has_one_width", lambda width: 2)


@specimen((MATRIX,), twin_of="fake_has_one_width")
def fake_has_any_width():
    """Both kernels look at the width."""
    return _windows("fake_has_any_width", lambda width: width)


def _descent(name, decayed):
    """A step of gradient descent; `decayed(grad, x, decay)` adds the decay of weights."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=("x",))
    def descent(x: Tensor, grad: Tensor, rate: float = 0.1, decay: float = 0.0) -> None:
        if grad.shape != x.shape:
            raise ValueError("a gradient for each element, please")
        x.sub_(decayed(grad, x, decay) if decay else grad, alpha=rate)

    descent.register_fake(lambda x, grad, rate=0.1, decay=0.0: None)
    return descent


@specimen((MATRIX, MATRIX), variant_findings=MUTATION, shown_by="decay.0.1")
def decays_in_the_gradient():
    """Adds the decay to the gradient in place, which is 0 by default."""
    return _descent("decays_in_the_gradient", lambda grad, x, decay: grad.add_(x, alpha=decay))


@specimen((MATRIX, MATRIX), twin_of="decays_in_the_gradient")
def decays_in_a_copy():
    """Adds the decay to the gradient in a tensor of its own."""
    return _descent("decays_in_a_copy", lambda grad, x, decay: grad.add(x, alpha=decay))


def _multiplied(name, shortcut):
    """A product with a number; `shortcut(x)` where that is one."""

    def kernel(x, factor=0.5):
        return shortcut(x) if factor == 1.0 else x * factor

    schema = "(Tensor x, float factor=0.5) -> Tensor"
    return library_op(name, schema, kernel, lambda x, factor=0.5: torch.empty_like(x))


@specimen((MATRIX,), variant_findings=ALIAS, shown_by="factor.doubled")
def factor_of_one_is_the_input():
    """Returns the very tensor for a factor of one."""
    return _multiplied("factor_of_one_is_the_input", lambda x: x)


@specimen((MATRIX,), twin_of="factor_of_one_is_the_input")
def factor_of_one_is_a_copy():
    """Returns a copy for a factor of one."""
    return _multiplied("factor_of_one_is_a_copy", torch.clone)


_REDUCTIONS = {"mean": lambda count: count, "sum": lambda count: 1}


def _resampled(name, shortcut):
    """Every element held for `new / old` steps; `shortcut(x)` where both rates are equal."""

    def kernel(x, old, new):
        if old < 1 or new < 1 or new % old:
            raise ValueError("a multiple of the old rate, please")
        return shortcut(x) if old == new else x.repeat_interleave(new // old, -1)

    return library_op(
        name,
        "(Tensor x, int old, int new) -> Tensor",
        kernel,
        lambda x, old, new: x.new_empty(*x.shape[:-1], x.shape[-1] * (new // old)),
    )


@specimen((MATRIX, 2, 10), variant_findings=ALIAS, shown_by="new.is.old")
def equal_rates_are_the_input():
    """Returns the input itself where both rates are equal."""
    return _resampled("equal_rates_are_the_input", lambda x: x)


@specimen((MATRIX, 2, 10), twin_of="equal_rates_are_the_input")
def equal_rates_are_a_copy():
    """Returns a copy where both rates are equal."""
    return _resampled(
        "equal_rates_are_a_copy", lambda x: x.clone(memory_format=torch.contiguous_format)
    )


def _loss(name, divisor):
    """A squared error; `divisor(reduction, count)` is what its backward divides by."""
    signature = '(Tensor x, Tensor y, str reduction="mean") -> Tensor'  # torch 2.4 infers none

    @torch.library.custom_op(f"zoo::{name}", mutates_args=(), schema=signature)
    def loss(x: Tensor, y: Tensor, reduction: str = "mean") -> Tensor:
        if (x.shape, x.dtype) != (y.shape, y.dtype) or reduction not in _REDUCTIONS:
            raise ValueError("tensors of one shape and dtype, and mean or sum, please")
        return ((x - y) ** 2).sum() / _REDUCTIONS[reduction](x.numel())

    loss.register_fake(lambda x, y, reduction="mean": x.new_empty(()))

    def setup(ctx, inputs, output):
        x, y, ctx.reduction = inputs
        ctx.save_for_backward(x, y)

    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        towards = 2 * grad * (x - y) / divisor(ctx.reduction, x.numel())
        return towards, -towards, None

    loss.register_autograd(backward, setup_context=setup)
    return loss


@specimen((MATRIX, MATRIX), variant_findings=GRADIENT, shown_by="reduction.sum")
def backward_takes_the_mean():
    """The backward divides by the number of elements, also of a sum."""
    return _loss("backward_takes_the_mean", lambda reduction, count: count)


@specimen((MATRIX, MATRIX), twin_of="backward_takes_the_mean")
def backward_reduces_as_asked():
    """The backward divides by what the forward divides by."""
    return _loss(
        "backward_reduces_as_asked", lambda reduction, count: _REDUCTIONS[reduction](count)
    )


def _centred(name, dtype_of):
    """Rows without their mean, in float32 for whole numbers; `dtype_of(x)` is that of the fake kernel."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def centred(x: Tensor) -> Tensor:
        x = x if x.is_floating_point() else x.float()
        return x - x.mean(-1, keepdim=True)

    centred.register_fake(lambda x: torch.empty_like(x, dtype=dtype_of(x)))
    return centred


@specimen((MATRIX,), variant_findings=DTYPE, shown_by="int64")
def fake_centres_whole_numbers_as_such():
    """The fake kernel keeps the dtype of whole numbers."""
    return _centred("fake_centres_whole_numbers_as_such", lambda x: x.dtype)


@specimen((MATRIX,), twin_of="fake_centres_whole_numbers_as_such")
def fake_centres_in_floats():
    """Both kernels take whole numbers for float32."""
    return _centred(
        "fake_centres_in_floats", lambda x: x.dtype if x.is_floating_point() else torch.float32
    )


def _halved_by_dtype(name, dtype_of):
    """Halves, in float64 for whole numbers; `dtype_of(x)` is that of the fake kernel."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def halved(x: Tensor) -> Tensor:
        if x.dtype not in (torch.float32, torch.float64, torch.int32, torch.int64):
            raise TypeError("float32, float64, int32 or int64, please")
        wide = x.double() if x.dtype in (torch.int32, torch.int64) else x
        return wide.contiguous() / 2

    halved.register_fake(lambda x: x.new_empty(x.shape, dtype=dtype_of(x)))
    return halved


@specimen((MATRIX,), variant_findings=DTYPE, shown_by=("int32", "int64"))
def fake_halves_whole_numbers_as_such():
    """The fake kernel keeps the dtype of whole numbers."""
    return _halved_by_dtype("fake_halves_whole_numbers_as_such", lambda x: x.dtype)


@specimen((MATRIX,), twin_of="fake_halves_whole_numbers_as_such")
def fake_halves_in_float64():
    """Both kernels take whole numbers for float64."""
    return _halved_by_dtype(
        "fake_halves_in_float64",
        lambda x: torch.float64 if x.dtype in (torch.int32, torch.int64) else x.dtype,
    )


def _narrowed(name, dtype_of):
    signature = "(Tensor x, ScalarType dtype=15) -> Tensor"  # bfloat16; torch 2.4 infers none

    @torch.library.custom_op(f"zoo::{name}", mutates_args=(), schema=signature)
    def narrowed(x: Tensor, dtype: torch.dtype = torch.bfloat16) -> Tensor:
        return x.to(dtype, copy=True)

    narrowed.register_fake(
        lambda x, dtype=torch.bfloat16: torch.empty_like(x, dtype=dtype_of(dtype))
    )
    return narrowed


@specimen((MATRIX,), variant_findings=DTYPE, shown_by=("dtype.float64", "dtype.float32"))
def fake_narrows_by_default():
    """The fake kernel says the default dtype, whichever is asked for."""
    return _narrowed("fake_narrows_by_default", lambda dtype: torch.bfloat16)


@specimen((MATRIX,), twin_of="fake_narrows_by_default")
def fake_narrows_as_asked():
    """Both kernels convert to the dtype that is asked for."""
    return _narrowed("fake_narrows_as_asked", lambda dtype: dtype)


def _shifted(name, of_bias):
    """Rows with a bias that may be given; `of_bias(grad)` is its gradient."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def shifted(x: Tensor, bias: Optional[Tensor] = None) -> Tensor:
        if x.dim() != 2 or (bias is not None and bias.shape != x.shape[1:]):
            raise ValueError("a matrix and a bias for each column, please")
        return x.clone() if bias is None else x + bias

    shifted.register_fake(lambda x, bias=None: torch.empty_like(x))

    def setup(ctx, inputs, output):
        ctx.biased = inputs[1] is not None

    def backward(ctx, grad):
        return grad.clone(), of_bias(grad) if ctx.biased else None

    shifted.register_autograd(backward, setup_context=setup)
    return shifted


@specimen(
    (MATRIX,),
    variant_findings={"gradcheck.backward": "gradient-missing"},
    shown_by="bias.row",
)
def backward_forgets_an_option():
    """The backward returns no gradient for an optional tensor."""
    return _shifted("backward_forgets_an_option", lambda grad: None)


@specimen((MATRIX,), twin_of="backward_forgets_an_option")
def backward_has_an_option():
    """The backward sums up the gradient of the optional tensor."""
    return _shifted("backward_has_an_option", lambda grad: grad.sum(0))


def _per_channel(name, of_factor):
    """Channels with factors that may be given; `of_factor(grad)` is their gradient."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def scaled(x: Tensor, factor: Optional[Tensor] = None) -> Tensor:
        if x.dim() != 3 or (factor is not None and factor.shape != x.shape[1:2]):
            raise ValueError("[batch, channels, length] and a factor for each channel, please")
        return x.clone() if factor is None else x * factor[:, None]

    scaled.register_fake(lambda x, factor=None: torch.empty_like(x))

    def setup(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    def backward(ctx, grad):
        x, factor = ctx.saved_tensors
        if factor is None:
            return grad.clone(), None
        return grad * factor[:, None], of_factor(grad * x)

    scaled.register_autograd(backward, setup_context=setup)
    return scaled


@specimen(
    (tensor(2, 3, 5),),
    variant_findings={"gradcheck.backward": "gradient-mismatch"},
    shown_by="factor.channels",
)
def sums_the_batch_alone():
    """The gradient of a factor for each channel is that of the first element."""
    return _per_channel("sums_the_batch_alone", lambda grad: grad.sum(0)[:, 0].clone())


@specimen((tensor(2, 3, 5),), twin_of="sums_the_batch_alone")
def sums_batch_and_length():
    """The gradient of a factor adds up the channel."""
    return _per_channel("sums_batch_and_length", lambda grad: grad.sum((0, 2)))


def _summed(name, counted):
    """Sums over several dims; `counted(dim, dims)` is a dim as the fake kernel counts it."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def summed(x: Tensor, dims: List[int]) -> Tensor:
        return x.sum(dims).contiguous()

    @summed.register_fake
    def _(x, dims):
        gone = [counted(dim, x.dim()) for dim in dims]
        return x.new_empty([size for dim, size in enumerate(x.shape) if dim not in gone])

    return summed


@specimen((tensor(2, 3, 4), [0, 2]), variant_findings=SHAPE, shown_by="dims.negated")
def fake_takes_no_negative_dims():
    """The fake kernel takes every dim of a list as counted from the front."""
    return _summed("fake_takes_no_negative_dims", lambda dim, dims: dim)


@specimen((tensor(2, 3, 4), [0, 2]), twin_of="fake_takes_no_negative_dims")
def fake_takes_negative_dims():
    """Both kernels take dims counted from either end."""
    return _summed("fake_takes_negative_dims", lambda dim, dims: dim % dims)


def _tiled(name, times):
    """The tensor repeated along each dim; `times(repeats)` is how often the fake kernel does so."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def tiled(x: Tensor, repeats: List[int]) -> Tensor:
        if len(repeats) != x.dim() or min(repeats) < 1:
            raise ValueError("a number of repetitions for each dim, please")
        return x.repeat(repeats).contiguous()

    @tiled.register_fake
    def _(x, repeats):
        return x.new_empty([size * n for size, n in zip(x.shape, times(repeats), strict=True)])

    return tiled


@specimen((MATRIX, [3, 3]), variant_findings=SHAPE, shown_by="repeats.more")
def fake_repeats_three_times():
    """The fake kernel repeats as often as in the example."""
    return _tiled("fake_repeats_three_times", lambda repeats: [3 for _ in repeats])


@specimen((MATRIX, [3, 3]), twin_of="fake_repeats_three_times")
def fake_repeats_as_asked():
    """Both kernels repeat as often as asked."""
    return _tiled("fake_repeats_as_asked", lambda repeats: repeats)


def _picked(name, count_of):
    """The mean of one element of each row; `count_of(valid)` is what its backward divides by."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def picked(x: Tensor, target: Tensor, ignored_index: int = -1) -> Tensor:
        valid = target != ignored_index
        if x.dim() != 2 or target.shape != x.shape[:1] or x.shape[1] == 0:
            raise ValueError("a matrix with columns, and a position for each row, please")
        values = x.gather(1, torch.where(valid, target, 0)[:, None])[:, 0]
        return torch.where(valid, values, 0).sum() / valid.sum().clamp(min=1)

    picked.register_fake(lambda x, target, ignored_index=-1: x.new_empty(()))

    def setup(ctx, inputs, output):
        x, target, ctx.ignored = inputs
        ctx.save_for_backward(target)
        ctx.columns = x.shape[1]

    def backward(ctx, grad):
        (target,) = ctx.saved_tensors
        valid = target != ctx.ignored
        hot = torch.where(valid, target, 0)[:, None] == torch.arange(
            ctx.columns, device=grad.device
        )
        return grad * hot * valid[:, None] / count_of(valid), None, None

    picked.register_autograd(backward, setup_context=setup)
    return picked


ROWS = (MATRIX, tensor(4, dtype=torch.int64, low=0, high=6))


@specimen(ROWS, variant_findings=GRADIENT, shown_by="target.has.ignored_index")
def backward_counts_what_is_ignored():
    """The backward divides by the number of rows, also where some are ignored."""
    return _picked("backward_counts_what_is_ignored", lambda valid: valid.numel())


@specimen(ROWS, twin_of="backward_counts_what_is_ignored")
def backward_leaves_out_what_is_ignored():
    """The backward divides by the number of rows that count."""
    return _picked("backward_leaves_out_what_is_ignored", lambda valid: valid.sum().clamp(min=1))


def _high(name, shifted):
    """Numbers below 16 in the upper half of a byte; `shifted(bytes)` moves them there."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def high(x: Tensor) -> Tensor:
        return shifted(x.to(torch.uint8)).clone()

    high.register_fake(lambda x: torch.empty_like(x, dtype=torch.uint8))
    return high


SMALL = tensor(4, 6, dtype=torch.int32, low=0, high=16)


@specimen((SMALL,), variant_notes=MUTATION, shown_by="uint8", variant_set="full")
def shifts_bytes_in_place():
    """Shifts in place what a conversion returned, which is the argument where it already is bytes."""
    return _high("shifts_bytes_in_place", lambda x: x.bitwise_left_shift_(4))


@specimen((SMALL,), twin_of="shifts_bytes_in_place")
def shifts_bytes():
    """Shifts into memory of its own."""
    return _high("shifts_bytes", lambda x: x.bitwise_left_shift(4))


def _of_length(name, same):
    """Rows cut or padded to a length; `same(x)` is returned where they have it."""

    def of_length(x: Tensor, length: int) -> Tensor:
        if x.dim() != 2 or length < 0:
            raise ValueError("a matrix and a length, please")
        more = length - x.shape[1]
        return torch.nn.functional.pad(x, (0, more)).clone() if more else same(x)

    fake = lambda x, length: x.new_empty(x.shape[0], length)  # noqa: E731
    return library_op(name, "(Tensor x, int length) -> Tensor", of_length, fake)


@specimen((MATRIX, 9), variant_findings=ALIAS, shown_by="length.size_6")
def returns_rows_of_that_length():
    """Returns the argument itself where its rows have the length already."""
    return _of_length("returns_rows_of_that_length", lambda x: x)


@specimen((MATRIX, 9), twin_of="returns_rows_of_that_length")
def copies_rows_of_that_length():
    """Copies the argument where its rows have the length already."""
    return _of_length(
        "copies_rows_of_that_length", lambda x: x.clone(memory_format=torch.contiguous_format)
    )


_KEPT = threading.local()


def _cubed(name, end):
    """Third powers in float64, in a workspace of each thread; `end(result, dtype)` is returned."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def cubed(x: Tensor) -> Tensor:
        if not hasattr(_KEPT, "workspace"):
            _KEPT.workspace = torch.empty(2**20, dtype=torch.float64)
        if x.numel() > _KEPT.workspace.numel():
            raise ValueError("up to a million numbers, please")
        work = _KEPT.workspace[: x.numel()].view(x.shape)
        work.copy_(x).pow_(3)
        return end(work, x.dtype)

    cubed.register_fake(lambda x: x.new_empty(x.shape))
    return cubed


@specimen((MATRIX,), variant_findings={"values.repeat": "output-memory-reused"}, shown_by="float64")
def float64_lies_in_the_workspace():
    """The result for float64 is the workspace itself, which the next call overwrites."""
    return _cubed("float64_lies_in_the_workspace", lambda work, dtype: work.to(dtype))


@specimen((MATRIX,), twin_of="float64_lies_in_the_workspace")
def float64_is_copied():
    """The result is a copy in every dtype."""
    return _cubed("float64_is_copied", lambda work, dtype: work.to(dtype, copy=True))


def _stretched(name, taken):
    """A picture stretched to numbers from 0 to 1; `taken(picture)` is the memory that is written to."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def stretched(picture: Tensor) -> Tensor:
        if picture.dtype not in (torch.uint8, torch.float32) or not picture.numel():
            raise TypeError("a picture of uint8 or float32, please")
        out = taken(picture)
        out.sub_(out.min().clone())
        return out.div_(out.max().clamp(min=1e-6)).clone(memory_format=torch.contiguous_format)

    stretched.register_fake(lambda picture: picture.new_empty(picture.shape, dtype=torch.float32))
    return stretched


PICTURE = tensor(4, 5, dtype=torch.uint8, low=0, high=256)


@specimen(
    (PICTURE,),
    backend="aot_eager",
    variant_findings={"values.mutation": "undeclared-mutation"},
    shown_by="float32",
)
def stretches_its_argument():
    """Of a picture in float32 no copy is made, and it is written to."""
    return _stretched("stretches_its_argument", lambda picture: picture.to(torch.float32))


@specimen((PICTURE,), backend="aot_eager", twin_of="stretches_its_argument")
def stretches_a_copy():
    """Writes to a copy in any dtype."""
    copied = lambda picture: picture.to(torch.float32, copy=True)  # noqa: E731
    return _stretched("stretches_a_copy", copied)


def _rows_but_padding(name, pads):
    """The sums of rows at positions, without those of padding; `pads(number)` is the backward's test."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def summed(table: Tensor, index: Tensor, padding_idx: Optional[int] = None) -> Tensor:
        if table.dim() != 2 or index.dim() != 2:
            raise ValueError("a table, and positions for each sum, please")
        kept = torch.ones_like(index) if padding_idx is None else (index != padding_idx).long()
        return (table[index] * kept[:, :, None]).sum(1)

    @summed.register_fake
    def _(table, index, padding_idx=None):
        if table.dim() != 2 or index.dim() != 2:
            raise ValueError("a table, and positions for each sum, please")
        return table.new_empty(index.shape[0], table.shape[1])

    def setup(ctx, inputs, output):
        table, index, ctx.padding = inputs
        ctx.rows = table.shape[0]
        ctx.save_for_backward(index)

    def backward(ctx, grad):
        (index,) = ctx.saved_tensors
        kept = (index != ctx.padding) if pads(ctx.padding) else torch.ones_like(index)
        rows = grad[:, None] * kept[:, :, None].to(grad.dtype)
        into = grad.new_zeros(ctx.rows, grad.shape[1])
        return into.index_add(0, index.flatten(), rows.flatten(0, 1)), None, None

    summed.register_autograd(backward, setup_context=setup)
    return summed


PADDED = (tensor(5, 3), torch.tensor([[0, 2, 4], [1, 4, 4]]), 4)


@specimen(
    PADDED,
    variant_findings={"gradcheck.backward": "gradient-mismatch"},
    shown_by="padding_idx.0",
)
def takes_position_0_for_no_padding():
    """The backward writes `if padding_idx:`, which is false for 0."""
    return _rows_but_padding("takes_position_0_for_no_padding", bool)


@specimen(PADDED, twin_of="takes_position_0_for_no_padding")
def compares_padding_with_none():
    """It compares with None."""
    return _rows_but_padding("compares_padding_with_none", lambda number: number is not None)


LAST_ROW_PADS = (tensor(5, 3), torch.tensor([[1, 2, 4], [1, 4, 4]]), 4)


@specimen(
    LAST_ROW_PADS,
    variant_findings={"gradcheck.backward": "gradient-mismatch"},
    shown_by="padding_idx.0_with_elements",
)
def first_row_never_pads():
    """The backward writes `if padding_idx:`, and no position of the example is 0."""
    return _rows_but_padding("first_row_never_pads", bool)


@specimen(LAST_ROW_PADS, twin_of="first_row_never_pads")
def first_row_may_pad():
    """It compares with None."""
    return _rows_but_padding("first_row_may_pad", lambda number: number is not None)


def _balanced(name, weights):
    """A loss of two kinds of elements; `weights(share)` is what its backward takes for them."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def balanced(x: Tensor, share: float = 0.25) -> Tensor:
        """The squares of numbers, weighted by their sign.

        Args:
            x: numbers of any shape.
            share: weight of the numbers from 0 on; the others have `1 - share`. In [0, 1]; a negative
                value turns the weights off.
        """
        if share > 1 or not x.is_floating_point():
            raise ValueError("floating-point numbers and a share of at most 1, please")
        high, low = (share, 1 - share) if share >= 0 else (1.0, 1.0)
        return x.square() * torch.where(x >= 0, high, low).to(x.dtype)

    balanced.register_fake(lambda x, share=0.25: torch.empty_like(x))

    def setup(ctx, inputs, output):
        x, ctx.share = inputs
        ctx.save_for_backward(x)

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        high, low = weights(ctx.share)
        return 2 * grad * x * torch.where(x >= 0, high, low).to(x.dtype), None

    balanced.register_autograd(backward, setup_context=setup)
    return balanced


@specimen((MATRIX,), variant_findings=GRADIENT, shown_by="share.-1.0")
def weights_off_in_the_forward():
    """A negative share turns the weights off, but not in the backward."""
    return _balanced("weights_off_in_the_forward", lambda share: (share, 1 - share))


@specimen((MATRIX,), twin_of="weights_off_in_the_forward")
def weights_off_in_both():
    """A negative share turns the weights off in both."""
    return _balanced(
        "weights_off_in_both", lambda share: (share, 1 - share) if share >= 0 else (1.0, 1.0)
    )


def _trimmed(name, unchanged):
    """Letters of low quality overwritten; `unchanged(letters)` where the threshold is 0."""

    def fake(letters, quality, threshold=4):
        """Letters, with -1 where the quality is low.

        Args:
            letters: integers.
            quality: of each letter.
            threshold: quality below which a letter is overwritten; 0 turns it off.
        """
        return letters.new_empty(letters.shape)

    def kernel(letters, quality, threshold=4):
        if letters.shape != quality.shape or letters.is_floating_point() or threshold < 0:
            raise ValueError("letters, a quality each, and a threshold from 0, please")
        if threshold == 0:
            return unchanged(letters)
        return torch.where(quality < threshold, -1, letters).contiguous()

    schema = "(Tensor letters, Tensor quality, int threshold=4) -> Tensor"
    return library_op(name, schema, kernel, fake)


LETTERS = (torch.tensor([0, 3, 1, 2, 2]), torch.tensor([7, 3, 5, 1, 6]))


@specimen(LETTERS, variant_findings=ALIAS, shown_by="threshold.0")
def nothing_to_trim_is_the_input():
    """Returns the letters themselves where a threshold of 0 turns it off."""
    return _trimmed("nothing_to_trim_is_the_input", lambda letters: letters)


@specimen(LETTERS, twin_of="nothing_to_trim_is_the_input")
def nothing_to_trim_is_a_copy():
    """Returns a copy where a threshold of 0 turns it off."""
    return _trimmed(
        "nothing_to_trim_is_a_copy",
        lambda letters: letters.clone(memory_format=torch.contiguous_format),
    )
