"""Ops that do right for few entries and something else for many, and some that do so on purpose."""

import functools

import torch
from torch import Tensor

from pytest_customop import tensor

from . import registry
from .variants import MANY, ORDER, PARTS

specimen = functools.partial(registry.specimen, backend="aot_eager")
SIGNAL = tensor(6)
HUNDRED = tensor(100)
MATRIX = tensor(4, 6)


def op(name, kernel, fake=None):
    """An op of one tensor of floating-point numbers; without `fake`, its result is like it."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def operator(x: Tensor) -> Tensor:
        if not x.is_floating_point() or x.dim() == 0 or x.numel() == 0:
            raise ValueError("at least one floating-point number, please")
        return kernel(x)

    operator.register_fake(fake or torch.empty_like)
    return operator


def _number(x):
    return x.new_empty(())


def _whole_number(x):
    return x.new_empty((), dtype=torch.int64)


def _byte_count(x, bits):
    """How many numbers are positive, counted in so many bits."""
    return (x > 0).sum() % 2**bits


@specimen((tensor(600, low=-1, high=1),), expected=PARTS)
def positive_counted_in_a_byte():
    """Counts the positive numbers in 8 bits."""
    return op("positive_counted_in_a_byte", lambda x: _byte_count(x, 8), _whole_number)


@specimen((tensor(600, low=-1, high=1),), twin_of="positive_counted_in_a_byte")
def positive_counted():
    """Counts the positive numbers."""
    return op("positive_counted", lambda x: _byte_count(x, 62), _whole_number)


def _spread(x, count):
    """The variance of the first `count(n)` of n numbers."""
    return x.reshape(-1)[: count(x.numel())].var(correction=0)


@specimen((tensor(8),), variant_findings=ORDER, shown_by="odd")
def variance_of_full_vectors():
    """The variance of all numbers but those behind the last full vector of four."""
    return op("variance_of_full_vectors", lambda x: _spread(x, lambda n: n // 4 * 4), _number)


@specimen((tensor(8),), twin_of="variance_of_full_vectors")
def variance_of_every_number():
    """The variance of all numbers."""
    return op("variance_of_every_number", lambda x: _spread(x, lambda n: n), _number)


def _online(x, rescaled):
    """log(sum(exp(x))), block by block; `rescaled` is whether the sum so far follows the new peak."""
    peak, total = x.new_tensor(-torch.inf), x.new_zeros(())
    for block in x.reshape(-1).split(512):
        higher = torch.maximum(peak, block.amax())
        if rescaled:
            total = total * (peak - higher).exp()
        total = total + (block - higher).exp().sum()
        peak = higher
    return peak + total.log()


@specimen((SIGNAL,), variant_notes=MANY, shown_by="long")
def forgets_the_peak_before():
    """A logarithm of summed exponentials whose sum is not rescaled where a block has a higher peak."""
    return op("forgets_the_peak_before", lambda x: _online(x, False), _number)


@specimen((SIGNAL,), twin_of="forgets_the_peak_before")
def rescales_by_the_peak_before():
    """A logarithm of summed exponentials, rescaled at each block."""
    return op("rescales_by_the_peak_before", lambda x: _online(x, True), _number)


def _squared(name, part):
    """Squares; the gradient of rows beyond `part(rows)` is 0."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def squared(x: Tensor) -> Tensor:
        if x.dim() != 2:
            raise ValueError("a matrix, please")
        return x.square()

    squared.register_fake(torch.empty_like)

    def setup(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        counts = torch.arange(x.shape[0], device=x.device) < part(x.shape[0])
        return 2 * x * grad * counts[:, None]

    squared.register_autograd(backward, setup_context=setup)
    return squared


BACKWARD = {"gradcheck.backward": "gradient-mismatch"}


@specimen((MATRIX,), variant_findings=MANY | BACKWARD, shown_by="large0")
def gradient_of_the_first_rows():
    """The gradient of rows from the 4096th on is 0."""
    return _squared("gradient_of_the_first_rows", lambda rows: 4096)


@specimen((MATRIX,), twin_of="gradient_of_the_first_rows")
def gradient_of_all_rows():
    """The gradient of every row."""
    return _squared("gradient_of_all_rows", lambda rows: rows)


@specimen((tensor(40),))
def clipped_by_the_norm():
    """Correct: divided by the norm where that is above 10, so that it depends on all numbers there."""
    return op("clipped_by_the_norm", lambda x: x / (torch.linalg.vector_norm(x) / 10).clamp(min=1))


@specimen((HUNDRED,))
def ranks_of_numbers():
    """Correct: the rank of each number; of equal ones, which are few, the first comes first."""
    rank = lambda x: x.argsort(dim=-1, stable=True).argsort(-1)  # noqa: E731
    return op("ranks_of_numbers", rank, lambda x: torch.empty_like(x, dtype=torch.int64))


@specimen((HUNDRED,))
def first_of_equal_numbers():
    """Correct: whether a number, rounded to a third, has not come before."""

    def kernel(x):
        rounded = (3 * x).round()
        return ~(rounded[..., None] == rounded[..., None, :]).tril(-1).any(-1)

    return op("first_of_equal_numbers", kernel, lambda x: torch.empty_like(x, dtype=torch.bool))


def _blocks_of_softmax(x, rest):
    """The softmax of all full blocks of 64 numbers, where there is one; `rest` is what others are."""
    full = x.shape[-1] if x.shape[-1] < 64 else x.shape[-1] // 64 * 64
    blocks = x[..., :full].softmax(-1)
    return torch.cat([blocks, rest(x[..., full:])], -1)


@specimen((HUNDRED,), expected=ORDER)
def softmax_of_full_blocks():
    """A softmax of the numbers in full blocks of 64; those behind them are 0."""
    kernel = lambda x: _blocks_of_softmax(x, torch.zeros_like)  # noqa: E731
    return op("softmax_of_full_blocks", kernel)


@specimen((HUNDRED,), twin_of="softmax_of_full_blocks")
def softmax_of_many():
    """A softmax of all numbers, in which each depends on all of them, in any order."""
    return op("softmax_of_many", lambda x: x.softmax(-1))


@specimen((tensor(70),))
def quantized_by_blocks():
    """Correct: each block of 32 numbers has a scale of its own."""

    def kernel(x):
        padded = torch.nn.functional.pad(x.reshape(-1), (0, -x.numel() % 32)).view(-1, 32)
        scale = padded.abs().amax(1, keepdim=True).clamp(min=1e-12) / 127
        return ((padded / scale).round() * scale).reshape(-1)[: x.numel()].reshape(x.shape)

    return op("quantized_by_blocks", kernel)


@specimen((HUNDRED,))
def largest_so_far():
    """Correct: the largest number so far, which depends on the order."""
    return op("largest_so_far", lambda x: x.cummax(-1).values)


@specimen((HUNDRED,))
def median_of_numbers():
    """Correct: of an even number of them the mean of both in the middle."""

    def kernel(x):
        ordered = x.reshape(-1).sort().values
        middle = x.numel() // 2
        return (ordered[middle] + ordered[(x.numel() - 1) // 2]) / 2

    return op("median_of_numbers", kernel, _number)


def _levels_of(name, rest):
    """Numbers rounded to levels, eight at a time; `rest(x)` rounds what remains of a row."""

    def check(x, bits):
        if x.dim() != 2 or x.dtype not in (torch.float32, torch.float64) or not 2 <= bits <= 8:
            raise ValueError("a matrix of float32 or float64 and 2 to 8 bits, please")

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def levels(x: Tensor, bits: int) -> Tensor:
        check(x, bits)
        count = x.shape[1] // 8 * 8
        scaled = (x * 2 ** (bits - 3)).clamp(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        parts = [scaled[:, :count].round(), rest(scaled[:, count:])]
        return torch.cat(parts, 1).to(torch.int8)

    @levels.register_fake
    def _(x, bits):
        check(x, bits)
        return x.new_empty(x.shape, dtype=torch.int8)

    return levels


LEVELS = (tensor(4, 16, low=-3, high=3), 8)


@specimen(LEVELS, variant_findings=PARTS, shown_by="odd")
def truncates_the_rest_of_a_row():
    """Rounds what remains behind the last eight numbers toward zero; 8 is the number of bits, too."""
    return _levels_of("truncates_the_rest_of_a_row", torch.trunc)


@specimen(LEVELS, twin_of="truncates_the_rest_of_a_row")
def rounds_the_rest_of_a_row():
    """Rounds all numbers alike."""
    return _levels_of("rounds_the_rest_of_a_row", torch.round)


def _unequal_bytes(name, compared):
    """How many bytes of each row differ; `compared(width)` of them are looked at."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def unequal(one: Tensor, other: Tensor) -> Tensor:
        if one.shape != other.shape or one.dim() != 2 or {one.dtype, other.dtype} != {torch.uint8}:
            raise ValueError("two matrices of bytes, please")
        width = compared(one.shape[1])
        return (one[:, :width] != other[:, :width]).sum(1)

    unequal.register_fake(lambda one, other: one.new_empty(one.shape[0], dtype=torch.int64))
    return unequal


def _letters(text):
    return torch.tensor(list(text), dtype=torch.uint8).reshape(2, 8)


BYTES = (_letters(b"gradientoperator"), _letters(b"graduateoperands"))


@specimen(BYTES, variant_findings=PARTS, variant_notes=ORDER, shown_by="odd")
def compares_whole_words():
    """Compares whole words, and forgets the bytes behind the last one."""
    return _unequal_bytes(
        "compares_whole_words", lambda width: width - width % torch.int64.itemsize
    )


@specimen(BYTES, twin_of="compares_whole_words")
def compares_every_byte():
    """Compares all bytes."""
    return _unequal_bytes("compares_every_byte", lambda width: width)
