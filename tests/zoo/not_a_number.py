"""Ops that give NaN for finite inputs, against their docstring or as torch does."""

import functools

import torch
from torch import Tensor

from pytest_customop import tensor

from . import registry

specimen = functools.partial(registry.specimen, backend="aot_eager", requires_grad=[False])

NAN = {"values.finite": "result-is-nan"}
LARGEST = torch.finfo(torch.float8_e4m3fn).max
BAGS = (tensor(6, 3), torch.tensor([2, 1, 3]))


def _means(name, kernel, doc):
    """The mean of the rows of each bag; `kernel(sums, lengths)` divides."""

    def check(x, lengths):
        if x.dim() != 2 or lengths.dim() != 1 or not x.is_floating_point():
            raise ValueError("rows, and the lengths of bags, please")
        if lengths.dtype != torch.int64:
            raise TypeError("lengths are int64")

    def means(x: Tensor, lengths: Tensor) -> Tensor:
        check(x, lengths)
        if lengths.numel() and (int(lengths.min()) < 0 or int(lengths.sum()) != len(x)):
            raise ValueError("the lengths add up to the number of rows, please")
        bags = torch.arange(len(lengths)).repeat_interleave(lengths)
        sums = x.new_zeros(len(lengths), x.shape[1]).index_add_(0, bags, x[: len(bags)])
        return kernel(sums, lengths[:, None])

    means.__doc__ = doc
    op = torch.library.custom_op(f"zoo::{name}", means, mutates_args=())

    @op.register_fake
    def _(x, lengths):
        check(x, lengths)
        return x.new_empty(lengths.shape[0], x.shape[1])

    return op


NO_SIZE = {"fake.symbolic": "no-second-size"}
GIVES_ZERO = "The mean of the rows of each bag. Zero-length bags give zeros."


@specimen(BAGS, variant_findings=NAN, shown_by="lengths.empty_first", skips=NO_SIZE)
def mean_of_no_rows():
    """Divides by the length, which is 0 for the bags that its docstring speaks of."""
    return _means("mean_of_no_rows", lambda sums, lengths: sums / lengths, GIVES_ZERO)


@specimen(
    BAGS,
    (tensor(6, 3), torch.tensor([2, 0, 4])),
    twin_of=("mean_of_no_rows", "mean_of_an_empty_bag", "mean_of_no_rows_as_in_torch"),
    skips=NO_SIZE,
)
def mean_of_no_rows_is_zero():
    """Divides by 1 at least."""
    return _means(
        "mean_of_no_rows_is_zero", lambda sums, lengths: sums / lengths.clamp(min=1), GIVES_ZERO
    )


@specimen(
    (tensor(6, 3), torch.tensor([2, 0, 4])),
    expected=NAN,
    skips={**NO_SIZE, "opcheck.test_aot_dispatch_dynamic": "checker-limit"},
)
def mean_of_an_empty_bag():
    """The same for a sample that has an empty bag."""
    return _means("mean_of_an_empty_bag", lambda sums, lengths: sums / lengths, GIVES_ZERO)


@specimen(BAGS, variant_notes=NAN, shown_by="lengths.empty_first", skips=NO_SIZE)
def mean_of_no_rows_as_in_torch():
    """The same without a word about empty bags."""
    return _means(
        "mean_of_no_rows_as_in_torch",
        lambda sums, lengths: sums / lengths,
        "The mean of the rows of each bag, of as many rows as `lengths` says; a length may be 0.",
    )


@specimen(BAGS, skips=NO_SIZE)
def mean_of_no_rows_is_nan_on_purpose():
    """Correct: the docstring says NaN."""
    return _means(
        "mean_of_no_rows_is_nan_on_purpose",
        lambda sums, lengths: sums / lengths,
        "The mean of the rows of each bag, NaN for empty bags.",
    )


def _quantised(name, scale):
    """Rows in eight bits; `scale(largest)` gives the scale of each."""

    def check(x):
        if x.dim() != 2 or 0 in x.shape or not x.is_floating_point():
            raise ValueError("rows of floating-point numbers, please")

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def quantised(x: Tensor) -> tuple[Tensor, Tensor]:
        check(x)
        scales = scale(x.float().abs().amax(1, keepdim=True) / LARGEST)
        scaled = (x.float() / scales).clamp(-LARGEST, LARGEST)
        return scaled.to(torch.float8_e4m3fn).contiguous(), scales

    @quantised.register_fake
    def _(x):
        check(x)
        scales = x.new_empty(x.shape[0], 1, dtype=torch.float32)
        return torch.empty(x.shape, dtype=torch.float8_e4m3fn, device=x.device), scales

    return quantised


@specimen((tensor(4, 8),), variant_findings=NAN, shown_by="zeros")
def quantises_zeros_to_nan():
    """Divides a row of zeros by its scale, which is 0."""
    return _quantised("quantises_zeros_to_nan", lambda scales: scales)


@specimen((tensor(4, 8),), twin_of="quantises_zeros_to_nan")
def quantises_zeros_to_zeros():
    """Has a scale above 0 for a row of zeros."""
    return _quantised("quantises_zeros_to_zeros", lambda scales: scales.clamp(min=1e-12))


def _rounded_to_steps(name, scale):
    """Rows rounded to 127 steps, in their own dtype; `scale(largest)` gives the size of a step."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def rounded(x: Tensor) -> Tensor:
        if x.dim() != 2 or 0 in x.shape or not x.is_floating_point():
            raise ValueError("rows of floating-point numbers, please")
        steps = scale(x.abs().amax(1, keepdim=True) / 127)
        return ((x / steps).round() * steps).contiguous()

    @rounded.register_fake
    def _(x):
        if x.dim() != 2 or 0 in x.shape or not x.is_floating_point():
            raise ValueError("rows of floating-point numbers, please")
        return torch.empty(x.shape, dtype=x.dtype, device=x.device)

    return rounded


@specimen((tensor(4, 8),), variant_findings=NAN, shown_by="zeros")
def fake_quantize_of_zeros():
    """Gives NaN for a row of zeros, in float32."""
    return _rounded_to_steps("fake_quantize_of_zeros", lambda steps: steps)


@specimen((tensor(4, 8),), twin_of=("fake_quantize_of_zeros", "rounding_of_zeros"))
def fake_quantize_with_a_least_step():
    """Has a step above 0 for a row of zeros."""
    return _rounded_to_steps(
        "fake_quantize_with_a_least_step", lambda steps: steps.clamp(min=1e-12)
    )


@specimen((tensor(4, 8),), variant_notes=NAN, shown_by="zeros")
def rounding_of_zeros():
    """The same under a name that says nothing: a note."""
    return _rounded_to_steps("rounding_of_zeros", lambda steps: steps)


def _normalized(name, kernel):
    """Rows divided by their length; `kernel(x, eps)`."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def normalized(x: Tensor, eps: float = 1e-6) -> Tensor:
        if x.dim() != 2 or not x.is_floating_point():
            raise ValueError("rows of floating-point numbers, please")
        return kernel(x, eps).contiguous()

    @normalized.register_fake
    def _(x, eps=1e-6):
        if x.dim() != 2 or not x.is_floating_point():
            raise ValueError("rows of floating-point numbers, please")
        return torch.empty(x.shape, dtype=x.dtype, device=x.device)

    return normalized


@specimen((tensor(4, 8),), variant_findings=NAN, shown_by="zeros")
def leaves_out_its_eps():
    """Divides by the length, and not by eps where that is 0."""
    return _normalized("leaves_out_its_eps", lambda x, eps: x / x.norm(dim=1, keepdim=True))


@specimen((tensor(4, 8),), twin_of="leaves_out_its_eps")
def divides_by_eps_at_least():
    """Divides by eps where the length is less."""
    return _normalized(
        "divides_by_eps_at_least", lambda x, eps: x / x.norm(dim=1, keepdim=True).clamp(min=eps)
    )


def _row_softmax(name, least):
    """The softmax of rows; `least(x)` begins the search for the maximum of each row."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def softmax(x: Tensor) -> Tensor:
        if x.dim() != 2 or not x.shape[1] or not x.is_floating_point():
            raise ValueError("rows of floating-point numbers, please")
        highest = torch.maximum(x.amax(1, keepdim=True), least(x))
        weights = (x - highest).exp()
        return (weights / weights.sum(1, keepdim=True)).contiguous()

    @softmax.register_fake
    def _(x):
        if x.dim() != 2 or not x.shape[1] or not x.is_floating_point():
            raise ValueError("rows of floating-point numbers, please")
        return torch.empty(x.shape, dtype=x.dtype, device=x.device)

    return softmax


@specimen(
    (tensor(4, 8),),
    expected={"relations.softmax_shift": "softmax-depends-on-shift"},
    variant_findings=NAN,
    shown_by="lowered",
)
def row_softmax_from_zero():
    """The maximum starts at 0: far below 0, all exponentials vanish."""
    return _row_softmax("row_softmax_from_zero", lambda x: x.new_zeros(()))


@specimen((tensor(4, 8),), twin_of="row_softmax_from_zero")
def row_softmax_from_infinity():
    """The maximum starts at -infinity."""
    return _row_softmax("row_softmax_from_infinity", lambda x: x.new_full((), -float("inf")))


@specimen(
    (tensor(32, low=1, high=2), torch.bfloat16),
    skips={"opcheck.test_aot_dispatch_dynamic": "checker-limit"},  # it compares NaN with NaN
)
def quantize_signs_into_storage():
    """Packs signs into bytes, and returns them in a dtype that an argument gives: some are NaN there."""

    @torch.library.custom_op("zoo::quantize_signs_into_storage", mutates_args=())
    def packed(x: Tensor, storage: torch.dtype) -> Tensor:
        if x.dim() != 1 or x.numel() % (8 * storage.itemsize):
            raise ValueError("a row that fills whole numbers of the storage, please")
        bits = (x > 0).reshape(-1, 8) * 2 ** torch.arange(8, device=x.device)
        return bits.sum(1).to(torch.uint8).view(storage)

    @packed.register_fake
    def _(x, storage):
        if x.dim() != 1 or x.numel() % (8 * storage.itemsize):
            raise ValueError("a row that fills whole numbers of the storage, please")
        return x.new_empty(x.numel() // 8 // storage.itemsize, dtype=storage)

    return packed
