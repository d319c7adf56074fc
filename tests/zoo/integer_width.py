"""Ops on narrow whole numbers that wrap where the result does not, and some that do so on purpose."""

import functools

import numpy
import torch
from torch import Tensor

from pytest_customop import tensor

from .registry import library, specimen

aot = functools.partial(specimen, backend="aot_eager")
WRAPS = {"relations.integer_width": "integer-overflow"}
OVERFLOWS = {
    **WRAPS,
    "relations.overflow": "intermediate-overflow",
}  # in an operator of torch or numpy
PIXELS = tensor(4, 6, dtype=torch.uint8)
LEVELS = tensor(4, 6, dtype=torch.int8)
COUNTS = tensor(12, dtype=torch.int32)
WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def _whole(*tensors):
    if any(tensor.dtype not in WHOLE for tensor in tensors):
        raise TypeError("whole numbers, please")


def _of_one(name, kernel, dtype=None):
    """An op of one tensor of whole numbers; `kernel(x)` keeps its shape."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def operator(x: Tensor) -> Tensor:
        _whole(x)
        return kernel(x).contiguous()

    operator.register_fake(lambda x: x.new_empty(x.shape, dtype=dtype or x.dtype))
    return operator


def _of_two(name, kernel, shape=lambda a: a.shape, dtype=None):
    """An op of two tensors of whole numbers of one shape."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def two(a: Tensor, b: Tensor) -> Tensor:
        _whole(a, b)
        if a.shape != b.shape or a.dtype != b.dtype:
            raise ValueError("two tensors of one shape and dtype, please")
        return kernel(a, b).contiguous()

    two.register_fake(lambda a, b: a.new_empty(shape(a), dtype=dtype or a.dtype))
    return two


def _of_number(name, kernel, dtype=None):
    """An op of whole numbers and one more number."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def numbered(x: Tensor, number: int) -> Tensor:
        _whole(x)
        return kernel(x, number).contiguous()

    numbered.register_fake(lambda x, number: x.new_empty(x.shape, dtype=dtype or x.dtype))
    return numbered


@aot((PIXELS, PIXELS), expected=OVERFLOWS)
def midpoint_in_the_dtype_of_pixels():
    """Adds two numbers in their own dtype before it halves the sum."""
    return _of_two("midpoint_in_the_dtype_of_pixels", lambda a, b: (a + b) // 2)


@aot((PIXELS, PIXELS), twin_of="midpoint_in_the_dtype_of_pixels")
def midpoint_in_int32():
    """Adds in int32."""
    return _of_two("midpoint_in_int32", lambda a, b: ((a.long() + b.long()) // 2).to(a.dtype))


@aot((PIXELS, PIXELS), expected=OVERFLOWS)
def distance_as_pixels():
    """Subtracts pixels as uint8: 1 and 3 are 254 apart."""
    return _of_two("distance_as_pixels", lambda a, b: (a - b).abs())


@aot((PIXELS, PIXELS), twin_of="distance_as_pixels")
def distance_of_pixels():
    """The larger one without the smaller one."""
    return _of_two("distance_of_pixels", lambda a, b: torch.maximum(a, b) - torch.minimum(a, b))


def _rows(x):
    return x.shape[:-1]


@aot((LEVELS, LEVELS), expected=OVERFLOWS)
def squares_in_int8():
    """Squares differences as int8, and adds them up as int64."""
    return _of_two(
        "squares_in_int8",
        lambda a, b: ((a - b) * (a - b)).sum(-1, dtype=torch.int64),
        _rows,
        torch.int64,
    )


@aot((LEVELS, LEVELS), twin_of="squares_in_int8")
def squares_in_int64():
    """Squares differences as int64."""
    return _of_two(
        "squares_in_int64",
        lambda a, b: (a.long() - b.long()).square().sum(-1),
        _rows,
        torch.int64,
    )


_TWICE = {torch.uint8: torch.int16, torch.int8: torch.int16, torch.int16: torch.int32}


@aot((tensor(4, 32, dtype=torch.int8), tensor(4, 32, dtype=torch.int8)), expected=OVERFLOWS)
def products_added_up_in_int16():
    """Adds up products of int8 in int16: there is room for one, and not for four."""

    def kernel(a, b):
        to = _TWICE.get(a.dtype, torch.int64)
        return (a.to(to) * b.to(to)).sum(-1, dtype=to).to(torch.int64)

    return _of_two("products_added_up_in_int16", kernel, _rows, torch.int64)


@aot(
    (tensor(4, 32, dtype=torch.int8), tensor(4, 32, dtype=torch.int8)),
    twin_of="products_added_up_in_int16",
)
def products_added_up_in_int64():
    """Adds up in int64."""

    def kernel(a, b):
        return (a.long() * b.long()).sum(-1)

    return _of_two("products_added_up_in_int64", kernel, _rows, torch.int64)


@aot((COUNTS,), expected=OVERFLOWS)
def running_total_in_int32():
    """Adds up in the dtype of the counts, by numpy, and returns int64."""

    def kernel(x):
        return torch.from_numpy(numpy.cumsum(x.numpy(), -1, dtype=x.numpy().dtype)).long()

    return _of_one("running_total_in_int32", kernel, torch.int64)


@aot((COUNTS,), twin_of="running_total_in_int32")
def running_total_in_int64():
    """Adds up in int64."""
    kernel = lambda x: torch.from_numpy(numpy.cumsum(x.numpy(), -1, dtype=numpy.int64))  # noqa: E731
    return _of_one("running_total_in_int64", kernel, torch.int64)


@aot((tensor(3, 5, dtype=torch.uint8), 128), expected=OVERFLOWS)
def zero_point_taken_off_pixels():
    """Subtracts the zero point as uint8: numbers below it become large."""
    kernel = lambda x, number: (x - number).float() * 0.5  # noqa: E731
    return _of_number("zero_point_taken_off_pixels", kernel, torch.float32)


@aot((tensor(3, 5, dtype=torch.uint8), 128), twin_of="zero_point_taken_off_pixels")
def zero_point_taken_off_numbers():
    """Subtracts it from floating-point numbers."""
    kernel = lambda x, number: (x.float() - number) * 0.5  # noqa: E731
    return _of_number("zero_point_taken_off_numbers", kernel, torch.float32)


@aot((PIXELS, 60), expected=WRAPS)
def clamps_after_the_cast():
    """Casts to the dtype of the pixels before it clamps, when everything is in range."""
    return _of_number(
        "clamps_after_the_cast",
        lambda x, number: (x.to(torch.int32) + number).to(x.dtype).clamp(0, 255),
    )


@aot((PIXELS, 60), twin_of="clamps_after_the_cast")
def clamps_before_the_cast():
    """Clamps, then casts."""
    return _of_number(
        "clamps_before_the_cast", lambda x, number: (x.long() + number).clamp(0, 255).to(x.dtype)
    )


def _nearest(name, wide):
    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def nearest(colors: Tensor, palette: Tensor) -> Tensor:
        _whole(colors, palette)
        if colors.dim() != 2 or palette.dim() != 2 or colors.dtype != palette.dtype:
            raise ValueError("two matrices of one dtype, please")
        apart = wide(colors)[:, None] - wide(palette)
        return (apart * apart).sum(-1).argmin(1)

    nearest.register_fake(
        lambda colors, palette: colors.new_empty(colors.shape[0], dtype=torch.int64)
    )
    return nearest


COLORS = (tensor(16, 3, dtype=torch.uint8), tensor(5, 3, dtype=torch.uint8))


@aot(COLORS, expected=OVERFLOWS)
def nearest_color_by_squares_in_uint8():
    """Squares differences of colors as uint8, and takes the smallest."""
    return _nearest("nearest_color_by_squares_in_uint8", lambda x: x)


@aot(COLORS, twin_of="nearest_color_by_squares_in_uint8")
def nearest_color():
    """Squares differences as int64."""
    return _nearest("nearest_color", torch.Tensor.long)


@aot((LEVELS,), expected=WRAPS)
def magnitude_of_the_lowest():
    """The absolute value as int8, which has no 128, and then as int32."""
    kernel = lambda x: x.abs().to(torch.int32)  # noqa: E731
    return _of_one("magnitude_of_the_lowest", kernel, torch.int32)


@aot((LEVELS,), twin_of="magnitude_of_the_lowest")
def magnitude_of_all():
    """The absolute value as int32."""
    return _of_one("magnitude_of_all", lambda x: x.to(torch.int32).abs(), torch.int32)


# Correct ones that tell narrow numbers and wide ones apart, or wrap on purpose.


@aot((PIXELS,))
def pixels_from_0_to_1():
    """Correct: divides by the largest number of the dtype."""
    kernel = lambda x: x.float() / torch.iinfo(x.dtype).max  # noqa: E731
    return _of_one("pixels_from_0_to_1", kernel, torch.float32)


_HIGHEST = {torch.uint8: 255, torch.int8: 127, torch.int16: 2**15 - 1, torch.int32: 2**31 - 1}


@aot((PIXELS,))
def brighter_than_half():
    """Correct: whether a number is in the upper half of its dtype, by a table of their limits."""
    kernel = lambda x: x > _HIGHEST.get(x.dtype, 2**63 - 1) // 2  # noqa: E731
    return _of_one("brighter_than_half", kernel, torch.bool)


@aot((PIXELS,))
def inverted_above_half():
    """Correct: numbers in the upper half of their dtype from its end on."""

    def kernel(x):
        highest = _HIGHEST.get(x.dtype, 2**63 - 1)
        return torch.where(x > highest // 2, highest - x, x).to(x.dtype)

    return _of_one("inverted_above_half", kernel)


@aot((PIXELS,))
def bytes_with_a_sign():
    """Correct: the same bits as numbers with a sign; wider ones have one."""
    kernel = lambda x: (x.view(torch.int8) if x.dtype == torch.uint8 else x).float()  # noqa: E731
    return _of_one("bytes_with_a_sign", kernel, torch.float32)


@aot((COUNTS, 64))
def buckets_of_a_product():
    """Correct: the number of a bucket by a product that wraps."""
    kernel = lambda x, number: (x * 40503 + 1) % number  # noqa: E731
    return _of_number("buckets_of_a_product", kernel)


@aot((tensor(5, dtype=torch.uint8),))
def upper_half_of_a_rolling_sum():
    """Correct: a sum of bytes that wraps, and of that the upper half, as a checksum has it."""

    @torch.library.custom_op("zoo::upper_half_of_a_rolling_sum", mutates_args=())
    def upper(payload: Tensor) -> Tensor:
        return ((payload * 31).cumsum(0, dtype=payload.dtype) >> 4).long()

    upper.register_fake(lambda payload: payload.new_empty(payload.shape, dtype=torch.int64))
    return upper


@aot((tensor(3, 4, dtype=torch.uint8),))
def checksum8():
    """Correct: the sum of each row of bytes, in a byte, as the name says, returned as int64."""

    @torch.library.custom_op("zoo::checksum8", mutates_args=())
    def checksum8(frames: Tensor) -> Tensor:
        return frames.sum(-1, dtype=frames.dtype).long()

    checksum8.register_fake(lambda frames: frames.new_empty(frames.shape[:-1], dtype=torch.int64))
    return checksum8


@aot((PIXELS, PIXELS))
def row_sums_up_to_the_highest():
    """Correct: adds up to the largest number of the dtype, and then the rows."""

    def kernel(a, b):
        limits = torch.iinfo(a.dtype)
        return (a.double() + b.double()).clamp(limits.min, limits.max).sum(-1)

    return _of_two("row_sums_up_to_the_highest", kernel, _rows, torch.float64)


@aot((tensor(6, dtype=torch.uint8),))
def each_byte_as_eight():
    """Correct: the eight bits of each byte."""

    @torch.library.custom_op("zoo::each_byte_as_eight", mutates_args=())
    def eight(x: Tensor) -> Tensor:
        return (x[:, None] >> torch.arange(8)) & 1

    eight.register_fake(
        lambda x: x.new_empty(x.shape[0], 8, dtype=torch.promote_types(x.dtype, torch.int64))
    )
    return eight


@aot((tensor(3, 4), tensor(3, 4, dtype=torch.uint8)))
def kept_where_a_byte_is_set():
    """Correct: bytes stand for booleans."""

    @torch.library.custom_op("zoo::kept_where_a_byte_is_set", mutates_args=())
    def kept(x: Tensor, keep: Tensor) -> Tensor:
        if x.shape != keep.shape:
            raise ValueError("a byte for each number, please")
        return (x * keep.bool()).contiguous()

    kept.register_fake(lambda x, keep: x.new_empty(x.shape))
    return kept


@aot((tensor(16), tensor(3, 4, dtype=torch.uint8, low=0, high=16)))
def numbers_of_a_table():
    """Correct: bytes are places in a table of 16."""

    @torch.library.custom_op("zoo::numbers_of_a_table", mutates_args=())
    def looked_up(table: Tensor, codes: Tensor) -> Tensor:
        return table[codes.long()].contiguous()

    looked_up.register_fake(lambda table, codes: table.new_empty(codes.shape))
    return looked_up


@aot((COUNTS,))
def average_without_the_missing():
    """Correct: the lowest number of the dtype stands for what is missing."""

    def kernel(x):
        missing = x == torch.iinfo(x.dtype).min
        return torch.where(missing, torch.nan, x.double())

    return _of_one("average_without_the_missing", kernel, torch.float64)


@aot((PIXELS,))
def bytes_from_the_byte_before():
    """Correct: differences of bytes, which wrap, as a codec stores them."""
    kernel = lambda x: torch.cat([x[..., :1], x[..., 1:] - x[..., :-1]], -1)  # noqa: E731
    return _of_one("bytes_from_the_byte_before", kernel)


@aot((tensor(4, 6, dtype=torch.int16),))
def eighth_of_samples():
    """Correct: an arithmetic shift of samples."""
    return _of_one("eighth_of_samples", lambda x: x >> 3)


@aot((PIXELS,))
def ones_where_nothing_is():
    """Correct: every bit the other way."""
    return _of_one("ones_where_nothing_is", torch.bitwise_not)


@aot((PIXELS, 100))
def solarized():
    """Correct: pixels above a threshold from the end of their dtype."""

    def kernel(x, number):
        return torch.where(x >= number, _HIGHEST.get(x.dtype, 2**62) - x, x).to(x.dtype)

    return _of_number("solarized", kernel)


@aot((tensor(3, 8, dtype=torch.uint8), 2.0))
def brighter_in_range():
    """Correct: pixels made brighter, up to the largest number of their dtype."""

    @torch.library.custom_op("zoo::brighter_in_range", mutates_args=())
    def brighter(x: Tensor, factor: float) -> Tensor:
        highest = _HIGHEST.get(x.dtype, 2**53)
        return (x.double() * factor).clamp(0, highest).to(x.dtype)

    brighter.register_fake(lambda x, factor: torch.empty_like(x))
    return brighter


@aot((tensor(4, 6, dtype=torch.int8), tensor(4)))
def rows_times_a_scale():
    """Correct: whole numbers times a scale for each row, rounded and kept in the range of the dtype."""

    @torch.library.custom_op("zoo::rows_times_a_scale", mutates_args=())
    def scaled(q: Tensor, scale: Tensor) -> Tensor:
        if q.dim() != 2 or scale.shape != q.shape[:1]:
            raise ValueError("a matrix, and a scale for each row, please")
        wide = (q.double() * scale.double()[:, None]).round()
        return wide.clamp(-128, 127).to(torch.int8).contiguous()

    scaled.register_fake(lambda q, scale: q.new_empty(q.shape, dtype=torch.int8))
    return scaled


@aot((tensor(6, dtype=torch.int32), tensor(6, dtype=torch.int32)))
def cells_of_a_grid_in_buckets():
    """Correct: the well-known spatial hash, whose products wrap, without an operator that shows it."""
    return _of_two(
        "cells_of_a_grid_in_buckets",
        lambda a, b: (a * 73856093).bitwise_or(b * 19349663).remainder(97),
    )


def _library_op(name, kernel):
    """The same without a kernel that torch knows."""
    library().define(f"{name}(Tensor x) -> Tensor")
    library().impl(name, kernel, "CPU")
    torch.library.register_fake(f"zoo::{name}", lambda x: x.new_empty(x.shape, dtype=torch.float64))
    return getattr(torch.ops.zoo, name).default


def _fractions(x):
    return (x * 1664525 + 1013904223).double() / 2.0**32


@aot((COUNTS,))
def fractions_in_a_library():
    """Correct: a generator of a library makes fractions of numbers, by a product that wraps."""
    return _library_op("fractions_in_a_library", _fractions)


# Ops that take one dtype only, so that no wider one shows what is right.


def _matmul(name, kernel, dtype=torch.int32):
    """A product of two matrices of int8; `kernel(a, b)` gets them."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def product(a: Tensor, b: Tensor) -> Tensor:
        if a.dtype != torch.int8 or b.dtype != torch.int8 or a.dim() != 2 or b.dim() != 2:
            raise TypeError("two matrices of int8, please")
        return kernel(a, b).contiguous()

    product.register_fake(lambda a, b: a.new_empty(a.shape[0], b.shape[1], dtype=dtype))
    return product


FACTORS = (tensor(3, 16, dtype=torch.int8), tensor(16, 4, dtype=torch.int8))


def _product(a, b, dtype):
    return torch.from_numpy(numpy.matmul(a.numpy().astype(dtype), b.numpy().astype(dtype)))


@aot(FACTORS, expected=OVERFLOWS)
def int8_product_in_int16():
    """Adds up products of int8 in int16, and returns int32."""
    kernel = lambda a, b: _product(a, b, numpy.int16).to(torch.int32)  # noqa: E731
    return _matmul("int8_product_in_int16", kernel)


@aot(FACTORS, expected=OVERFLOWS)
def int8_product_scaled_after_int16():
    """The same, scaled to floating-point numbers."""
    kernel = lambda a, b: _product(a, b, numpy.int16).float() * 0.037  # noqa: E731
    return _matmul("int8_product_scaled_after_int16", kernel, torch.float32)


@aot(
    FACTORS,
    twin_of=("int8_product_in_int16", "int8_product_scaled_after_int16"),
)
def int8_product_in_int32():
    """Adds up in int32."""
    return _matmul("int8_product_in_int32", lambda a, b: _product(a, b, numpy.int32))


@aot(FACTORS)
def int8_product_scaled_up_to_6():
    """Correct: a product, scaled to fractions, and cut off at 6."""
    kernel = lambda a, b: (_product(a, b, numpy.int32).float() * 0.037).clamp(-6, 6)  # noqa: E731
    return _matmul("int8_product_scaled_up_to_6", kernel, torch.float32)


@aot(FACTORS)
def int8_product_up_to_the_largest_int16():
    """Correct: a product that stays at the largest number of int16, as some processors compute it."""

    def kernel(a, b):
        return _product(a, b, numpy.int32).clamp(-(2**15), 2**15 - 1)

    return _matmul("int8_product_up_to_the_largest_int16", kernel)


@aot(FACTORS)
def int8_product_in_half():
    """Correct: a product of floating-point numbers with few digits, as the result has them."""
    kernel = lambda a, b: (_product(a, b, numpy.int32).float() / 64).to(torch.bfloat16)  # noqa: E731
    return _matmul("int8_product_in_half", kernel, torch.bfloat16)


# ------------------------------------------- pixels as uint8, and otherwise as floating-point numbers alone

SHOWN = (torch.tensor([[200, 3, 90], [0, 255, 17]], dtype=torch.uint8),)


def _of_images(name, kernel):
    """An op of two images; `kernel(a, b)` gives float32 of their shape, or their dtype."""

    def check(a, b):
        if a.dtype not in (torch.uint8, torch.float32, torch.float64) or a.dtype != b.dtype:
            raise TypeError("two images of uint8, float32 or float64, please")
        if a.shape != b.shape:
            raise ValueError("two images of one shape, please")

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def images(a: Tensor, b: Tensor) -> Tensor:
        check(a, b)
        return kernel(a, b).contiguous()

    @images.register_fake
    def _(a, b):
        check(a, b)
        kept = name.startswith("image_")
        wide = torch.float64 if a.dtype == torch.float64 else torch.float32
        return a.new_empty(a.shape, dtype=a.dtype if kept else wide)

    return images


def _absolute(a, b, early):
    wide = torch.float64 if a.dtype == torch.float64 else torch.float32
    return (a - b).abs().to(wide) if early else (a.to(wide) - b.to(wide)).abs()


@aot((*SHOWN, SHOWN[0].flip(0)), expected=OVERFLOWS)
def distance_of_grey_levels_in_uint8():
    """Subtracts in uint8, and takes no other whole numbers."""
    return _of_images("distance_of_grey_levels_in_uint8", lambda a, b: _absolute(a, b, early=True))


@aot((*SHOWN, SHOWN[0].flip(0)), twin_of="distance_of_grey_levels_in_uint8")
def distance_of_grey_levels():
    """Casts first."""
    return _of_images("distance_of_grey_levels", lambda a, b: _absolute(a, b, early=False))


@aot((*SHOWN, SHOWN[0].flip(0)), twin_of="distance_of_grey_levels_in_uint8")
def image_mixed_in_range():
    """Correct: grey levels of uint8 end at 255, and those of floating-point images at 1."""

    def mixed(a, b):
        top = 255 if a.dtype == torch.uint8 else 1
        both = (0.75 * a.double() + 0.5 * b.double()).clamp(0, top)
        return (both.round() if top == 255 else both).to(a.dtype)

    return _of_images("image_mixed_in_range", mixed)


@aot((*SHOWN, SHOWN[0].flip(0)), twin_of="distance_of_grey_levels_in_uint8")
def image_inverted_where_larger():
    """Correct: what is white is 255 in one dtype, and 1 in the others."""

    def inverted(a, b):
        return torch.where(a > b, (255 if a.dtype == torch.uint8 else 1) - a, a)

    return _of_images("image_inverted_where_larger", inverted)


@aot((*SHOWN, SHOWN[0].flip(0)), twin_of="distance_of_grey_levels_in_uint8")
def image_white_where_equal():
    """Correct: marks what is equal in white."""

    def marked(a, b):
        return torch.where(a == b, 255 if a.dtype == torch.uint8 else 1, a)

    return _of_images("image_white_where_equal", marked)


def _levels_of_samples(name, about, dtypes, wide):
    """Root mean squares of samples.

    Args:
        about: the text about them.
        dtypes: those that they may have.
        wide: `wide(x)` is what is squared.
    """

    def check(x):
        if x.dtype not in dtypes or x.dim() != 2 or not x.numel():
            raise TypeError(f"a matrix of samples in one of {dtypes}, please")

    def levels(x: Tensor) -> Tensor:
        check(x)
        return wide(x).square().double().mean(1).sqrt().float()

    levels.__doc__ = f"The root mean square of each row.\n\nx: {about}\n"
    levels = torch.library.custom_op(f"zoo::{name}", levels, mutates_args=())

    @levels.register_fake
    def _(x):
        check(x)
        return x.new_empty(x.shape[0], dtype=torch.float32)

    return levels


ANY_SAMPLES = (
    "int16, int32 or float32. Samples as int16 give the same numbers as those converted to float.",
    (torch.int16, torch.int32, torch.float32),
)
PCM = ("16-bit PCM, or float32.", (torch.int16, torch.float32))


@aot((tensor(3, 8, dtype=torch.int16),), expected=OVERFLOWS)
def level_of_squares_in_int16():
    """Squares in int16, where the docstring says that float32 gives the same."""
    return _levels_of_samples("level_of_squares_in_int16", *ANY_SAMPLES, lambda x: x)


@aot((tensor(3, 8, dtype=torch.int16),), twin_of="level_of_squares_in_int16")
def level_of_squares_in_double():
    """Casts first."""
    return _levels_of_samples("level_of_squares_in_double", *ANY_SAMPLES, torch.Tensor.double)


LISTED = (torch.tensor([[12, -7, 33, 4], [-90, 61, 8, 15]], dtype=torch.int16),)


@aot(LISTED, expected=OVERFLOWS)
def level_of_listed_squares_in_int16():
    """Squares of 16-bit samples wrap from 182 on; the listed ones are smaller, and no int32 is taken."""
    return _levels_of_samples("level_of_listed_squares_in_int16", *PCM, lambda x: x)


@aot(LISTED, twin_of="level_of_listed_squares_in_int16")
def level_of_listed_squares_in_double():
    """Casts first."""
    return _levels_of_samples("level_of_listed_squares_in_double", *PCM, torch.Tensor.double)


@aot(
    (tensor(2, 4, dtype=torch.int16, low=-100, high=101),),
    twin_of="level_of_listed_squares_in_int16",
)
def level_of_squares_that_fit_int16():
    """Squares in int16, of numbers that the author describes as small, whatever 16 bits can hold."""
    return _levels_of_samples("level_of_squares_that_fit_int16", *PCM, lambda x: x)


@aot(LISTED, twin_of="level_of_listed_squares_in_int16")
def level_of_listed_shares():
    """Takes integers as shares of the largest, and floating-point samples as they are."""

    def shares(x):
        return x if x.is_floating_point() else x / 32768

    return _levels_of_samples("level_of_listed_shares", *PCM, shares)


@aot(LISTED, twin_of="level_of_listed_squares_in_int16")
def level_of_listed_samples_that_are_limited():
    """Limits samples to 181, of whatever dtype."""

    def limited(x):
        return x.double().clamp(-181, 181)

    return _levels_of_samples("level_of_listed_samples_that_are_limited", *PCM, limited)


def _differences(name, wide):
    """The sum of absolute differences of two planes; `wide(plane)` is computed with, in numpy."""

    def differences(current: Tensor, reference: Tensor) -> Tensor:
        """The sum of absolute differences of each row of two planes.

        current, reference: (H, W) planes of one dtype: uint8, float32 or
        float64.
        """
        if current.shape != reference.shape or current.dtype != reference.dtype:
            raise TypeError("two planes of one size and dtype, please")
        if current.dim() != 2 or current.dtype not in PLANES:
            raise TypeError("planes of bytes or of floating-point numbers, please")
        difference = numpy.abs(wide(current.numpy()) - wide(reference.numpy()))
        return torch.from_numpy(difference.sum(1, dtype=numpy.float64))

    differences = torch.library.custom_op(f"zoo::{name}", differences, mutates_args=())
    differences.register_fake(
        lambda current, _: current.new_empty(current.shape[0], dtype=torch.double)
    )
    return differences


PLANES = {torch.uint8, torch.float32, torch.float64}


@aot(
    (torch.rand(3, 5), torch.rand(3, 5)),
    variant_findings={
        "relations.integer_width": "integer-overflow",
        "relations.overflow": "intermediate-overflow",
    },
    shown_by="uint8",
)
def differences_of_documented_bytes():
    """Subtracts bytes, which the docstring lists beside float32; the sample has float32."""
    return _differences("differences_of_documented_bytes", lambda plane: plane)


@aot((torch.rand(3, 5), torch.rand(3, 5)), twin_of="differences_of_documented_bytes")
def differences_of_widened_bytes():
    """Casts first."""
    return _differences("differences_of_widened_bytes", numpy.float64)
