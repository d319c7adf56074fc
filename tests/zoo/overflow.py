"""Ops in which a number overflows on the way to the result, and some in which that does no harm."""

import functools

import torch
from torch import Tensor

from pytest_customop import tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager")
OVERFLOWS = {"relations.overflow": "intermediate-overflow"}
WRAPS = {"relations.integer_width": "integer-overflow"}
POINTS = tensor(20, 3, low=0, high=20)
BASES = tensor(2, 30, dtype=torch.uint8, low=0, high=4)
LEVELS = tensor(4, 32, dtype=torch.int8, low=-128, high=128)
BOXES = tensor(6, 2, low=1, high=100)


def _cells(name, dtype):
    """The number of the cell of each point in a grid; it is computed in `dtype`."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def cells(points: Tensor, depth: int, height: int, width: int) -> Tensor:
        """The number of the cell of each point, int64."""
        if points.dim() != 2 or points.shape[1] != 3 or min(depth, height, width) < 1:
            raise ValueError("points (N, 3) and a grid, please")
        last = torch.tensor([depth, height, width], dtype=torch.float64) - 1
        z, y, x = points.double().clamp(min=0).minimum(last).to(dtype).unbind(1)
        return ((z * height + y) * width + x).to(torch.int64)

    cells.register_fake(
        lambda points, depth, height, width: points.new_empty(points.shape[0], dtype=torch.int64)
    )
    return cells


@aot((POINTS, 20, 24, 28), expected=OVERFLOWS)
def cells_in_int32():
    """A grid of more than 2**31 cells has numbers that int32 does not hold; the cast comes after."""
    return _cells("cells_in_int32", torch.int32)


@aot((POINTS, 20, 24, 28), twin_of="cells_in_int32")
def cells_in_int64():
    """The cast comes before the product."""
    return _cells("cells_in_int64", torch.int64)


PAIRS = torch.tensor([[0, 2, 1, 2, 0], [3, 0, 3, 1, 3]], dtype=torch.int32)


def _pair_keys(name, dtype):
    """One number for each pair of a row and a column; it is computed in `dtype`."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def pair_keys(rows: Tensor, cols: Tensor, n_cols: int) -> Tensor:
        """A number for each pair, int64; rows and cols: int32, cols < n_cols."""
        if rows.shape != cols.shape or rows.dtype != torch.int32 or cols.dtype != torch.int32:
            raise ValueError("rows and cols of one size, please")
        if n_cols < 1:
            raise ValueError("at least one column, please")
        return (rows.to(dtype) * n_cols + cols).to(torch.int64, copy=True)

    pair_keys.register_fake(lambda rows, cols, n_cols: torch.empty_like(rows, dtype=torch.int64))
    return pair_keys


@aot((PAIRS[0].clone(), PAIRS[1].clone(), 4), expected=OVERFLOWS)
def pair_keys_in_int32():
    """The keys of a large table exceed 2**31, if it has many rows and many columns."""
    return _pair_keys("pair_keys_in_int32", torch.int32)


@aot((PAIRS[0].clone(), PAIRS[1].clone(), 4), twin_of="pair_keys_in_int32")
def pair_keys_in_int64():
    """The cast comes before the product."""
    return _pair_keys("pair_keys_in_int64", torch.int64)


def _codes(name, dtype):
    """Each window of digits from 0 to 3 as one number; the places have `dtype`."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def codes(digits: Tensor, count: int) -> Tensor:
        """The number that each window of `count` digits stands for, in base 4, as int64."""
        if digits.dtype != torch.uint8 or digits.dim() != 2 or not 1 <= count <= 31:
            raise ValueError("a uint8 matrix and at most 31 digits, please")
        if digits.shape[1] < count:
            raise ValueError("too few digits")
        places = torch.pow(4, torch.arange(count - 1, -1, -1, dtype=dtype))
        return (digits.unfold(1, count, 1).to(dtype) * places).sum(-1)

    codes.register_fake(
        lambda digits, count: digits.new_empty(
            digits.shape[0], digits.shape[1] - count + 1, dtype=torch.int64
        )
    )
    return codes


@aot(
    (BASES, 5),
    variant_findings=OVERFLOWS,
    notes={"relations.window_reach": "window-cut-off"},
    shown_by="count.size_30",
)
def places_in_int32():
    """Places have room for 15 digits, codes for 31; no argument is int32."""
    return _codes("places_in_int32", torch.int32)


@aot((BASES, 5), twin_of="places_in_int32")
def places_in_int64():
    """Places have room for all digits."""
    return _codes("places_in_int64", torch.int64)


def _product(name, dtype):
    """The product of int8 matrices as int32, by way of `dtype`."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def product(a: Tensor, b: Tensor) -> Tensor:
        """a (M, K) and b (N, K), both int8: their exact product (M, N), int32."""
        if a.dtype != torch.int8 or b.dtype != torch.int8 or a.dim() != 2 or b.dim() != 2:
            raise TypeError("int8 matrices, please")
        if a.shape[1] != b.shape[1]:
            raise ValueError("rows of one length, please")
        return (a.to(dtype)[:, None] * b.to(dtype)).sum(-1).round().to(torch.int32)

    product.register_fake(lambda a, b: a.new_empty(a.shape[0], b.shape[0], dtype=torch.int32))
    return product


@aot((LEVELS, LEVELS), variant_findings=OVERFLOWS, shown_by="long")
def product_in_float32():
    """float32 holds integers up to 2**24, which rows of more than 1040 numbers exceed."""
    return _product("product_in_float32", torch.float32)


@aot((LEVELS, LEVELS), twin_of="product_in_float32")
def product_in_float64():
    """float64 holds integers up to 2**53."""
    return _product("product_in_float64", torch.float64)


def _by_area(name, widened):
    """The order of boxes by their areas, for which `widened` makes the sizes wide enough."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def by_area(boxes: Tensor) -> Tensor:
        """The order of boxes by area.

        boxes: widths and heights (N, 2), floating point.
        """
        if boxes.dim() != 2 or boxes.shape[1] != 2:
            raise ValueError("widths and heights, please")
        width, height = widened(boxes).unbind(1)
        return (width * height).argsort(stable=True)

    by_area.register_fake(lambda boxes: boxes.new_empty(boxes.shape[0], dtype=torch.int64))
    return by_area


@aot((BOXES,), expected=OVERFLOWS)
def areas_in_float16():
    """In float16 the areas of large boxes are infinite, and so equal."""
    return _by_area("areas_in_float16", lambda boxes: boxes)


@aot((BOXES,), twin_of="areas_in_float16")
def areas_in_float32():
    """Areas are computed in float32 at least."""
    return _by_area("areas_in_float32", lambda boxes: boxes.to(boxes.dtype).float())


GROWING = torch.tensor([[3.0, 4.0], [10.0, 12.0], [5.0, 5.0], [16.5, 17.0], [18.0, 19.0]])


def _largest_kept(name, widened):
    """Whether a box is larger than all before it, decided box by box."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def largest_kept(boxes: Tensor) -> Tensor:
        """Which boxes are larger than all boxes before them.

        boxes: widths and heights (N, 2), floating point.
        """
        if boxes.dim() != 2 or boxes.shape[1] != 2:
            raise ValueError("widths and heights, please")
        kept = torch.zeros(boxes.shape[0], dtype=torch.bool)
        largest = None
        for place, area in enumerate(widened(boxes).prod(1)):
            if largest is None or area > largest:
                kept[place], largest = True, area
        return kept

    largest_kept.register_fake(lambda boxes: boxes.new_empty(boxes.shape[0], dtype=torch.bool))
    return largest_kept


@aot((GROWING,), expected=OVERFLOWS)
def branches_on_areas_in_float16():
    """An infinite area is not larger than another one; no result is computed from it, but a branch is."""
    return _largest_kept("branches_on_areas_in_float16", lambda boxes: boxes)


@aot((GROWING,), twin_of="branches_on_areas_in_float16")
def branches_on_areas_in_float32():
    """Areas are computed in float32 at least."""
    return _largest_kept(
        "branches_on_areas_in_float32", lambda boxes: boxes.to(boxes.dtype).float()
    )


def _of_bytes(name, kernel, dtype=torch.uint8):
    """An op of two uint8 tensors; `kernel(a, b)` keeps their shape."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def operator(a: Tensor, b: Tensor) -> Tensor:
        if a.dtype != torch.uint8 or b.dtype != torch.uint8 or a.shape != b.shape:
            raise TypeError("two uint8 tensors of one shape, please")
        return kernel(a, b).contiguous()

    operator.register_fake(lambda a, b: a.new_empty(a.shape, dtype=dtype))
    return operator


BYTES = (tensor(4, 6, dtype=torch.uint8), tensor(4, 6, dtype=torch.uint8))


@aot(BYTES)
def sum_that_is_undone():
    """The sum wraps, and the difference wraps back."""
    return _of_bytes("sum_that_is_undone", lambda a, b: (a + b) - b)


@aot(BYTES)
def sum_modulo_256():
    """The result has eight bits, like its arguments: it has no room for another sum."""
    return _of_bytes("sum_modulo_256", lambda a, b: a + b)


@aot(BYTES)
def difference_that_is_masked_out():
    """The difference counts only where it does not wrap."""
    return _of_bytes(
        "difference_that_is_masked_out",
        lambda a, b: torch.where(a > b, a - b, 0).to(torch.int64),
        torch.int64,
    )


@aot(BYTES)
def sum_that_saturates():
    """Sums are written into a part of a buffer, and replaced by 255 where they wrapped."""

    def kernel(a, b):
        out = torch.zeros(2, *a.shape, dtype=torch.uint8)
        out[1] = a + b
        out[1][out[1] < a] = 255
        return out[1].long()

    return _of_bytes("sum_that_saturates", kernel, torch.int64)


@aot(BYTES)
def mixed_bits():
    """A product that wraps, and whose bits are then mixed: nobody reads it as a number."""
    return _of_bytes(
        "mixed_bits",
        lambda a, b: ((a * 167) ^ (b * 13) ^ ((a * 91) >> 3)).to(torch.int64),
        torch.int64,
    )


@aot((tensor(4, 6, dtype=torch.int32, low=0, high=10**6),))
def noise_by_a_product():
    """Numbers between 0 and 1, by a product with a large odd number that wraps in int32."""

    @torch.library.custom_op("zoo::shades", mutates_args=())
    def shades(x: Tensor) -> Tensor:
        if x.dtype != torch.int32:
            raise TypeError("int32, please")
        return (x * 1664525 + 1013904223).double().div(2.0**32).add(0.5).contiguous()

    shades.register_fake(lambda x: x.new_empty(x.shape, dtype=torch.float64))
    return shades


def _queues(name, dtype_of):
    """The place of each row in the queue of its best column; counted in `dtype_of(x)`."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def queues(x: Tensor) -> Tensor:
        """The place of each row in the queue of its best column.

        x: scores (rows, columns), floating point
        """
        if x.dim() != 2 or not x.shape[1] or not x.is_floating_point():
            raise ValueError("rows of scores, please")
        chosen = torch.nn.functional.one_hot(x.argmax(1), x.shape[1]).to(dtype_of(x))
        return ((chosen.cumsum(0) - 1) * chosen).sum(1).to(torch.int64)

    queues.register_fake(lambda x: x.new_empty(x.shape[0], dtype=torch.int64))
    return queues


SCORES = tensor(12, 2, dtype=torch.bfloat16)


@aot((SCORES,), variant_findings=OVERFLOWS, shown_by="long_before")
def places_counted_in_bfloat16():
    """In bfloat16 no count exceeds 256."""
    return _queues("places_counted_in_bfloat16", lambda x: x.dtype)


@aot((SCORES,), twin_of="places_counted_in_bfloat16")
def places_counted_in_int64():
    """Counts in int64."""
    return _queues("places_counted_in_int64", lambda x: torch.int64)


def _shifts(name, differences):
    """For each row of an image, the shift to the right that makes it most like the next row."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def shifts(image: Tensor) -> Tensor:
        """For each row but the last, the shift that makes it most like the next row.

        image: (H, W), uint8 or floating point
        """
        if image.dim() != 2 or min(image.shape) < 2:
            raise ValueError("an image, please")
        moved = torch.stack([image[:-1].roll(shift, 1) for shift in (0, 1)])
        return differences(moved, image[1:]).abs().float().sum(2).argmin(0)

    shifts.register_fake(lambda image: image.new_empty(image.shape[0] - 1, dtype=torch.int64))
    return shifts


IMAGE = tensor(6, 9, low=0, high=1)


@aot((IMAGE,), variant_findings=OVERFLOWS | WRAPS, shown_by="uint8")
def differences_of_bytes():
    """Differences of uint8 wrap, which an image of floating-point numbers does not show."""
    return _shifts("differences_of_bytes", lambda one, other: one - other)


@aot((IMAGE,), twin_of="differences_of_bytes")
def differences_of_wider_numbers():
    """Bytes are widened first."""
    return _shifts("differences_of_wider_numbers", lambda one, other: one.float() - other.float())


@aot(
    (
        tensor(3, 8, dtype=torch.uint8, low=0, high=256),
        tensor(3, 8, low=0, high=255),
        tensor(3, 8, low=50, high=150),
    ),
    twin_of="areas_in_float16",
)
def running_variance():
    """A state in float16, too: only decisions are compared with those for float32."""

    @torch.library.custom_op("zoo::running_variance", mutates_args=("mean", "variance"))
    def running_variance(frame: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Update a background, and return which pixels were far from it.

        frame: uint8 or float
        mean, variance: float, of the same sizes
        """
        if frame.shape != mean.shape or mean.shape != variance.shape:
            raise ValueError("three images of one size, please")
        difference = frame.to(mean.dtype) - mean
        far = difference.square() > 9 * variance
        weight = (~far).to(mean.dtype) * 0.1
        mean.add_(difference * weight)
        variance.mul_(1 - weight).add_(weight * difference.square())
        return far.contiguous()

    running_variance.register_fake(
        lambda frame, mean, variance: frame.new_empty(frame.shape, dtype=torch.bool)
    )
    return running_variance


def _brightness(name, above):
    """How far pixels are above a threshold; `above(pixels, threshold)` subtracts whole numbers."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def brightness(pixels: Tensor, threshold: int, span: int) -> Tensor:
        """How far pixels are above a threshold, from 0 to 1.

        Args:
            pixels: int32, int16 or uint8, as the sensor gives them.
            threshold: what counts as 0.
            span: how far above it counts as 1.
        """
        if pixels.dtype not in (torch.int32, torch.int16, torch.uint8) or span < 1:
            raise TypeError("whole numbers, and a span of at least 1, please")
        return (above(pixels, threshold).float() / span).clamp(0, 1)

    brightness.register_fake(
        lambda pixels, threshold, span: torch.empty_like(pixels, dtype=torch.float32)
    )
    return brightness


PIXELS = (torch.tensor([[-90, 310, 700], [20, 450, 999]], dtype=torch.int16), 120, 600)


@aot(PIXELS, variant_findings=OVERFLOWS, shown_by="uint8")
def dark_bytes_become_bright():
    """Widens int16 alone: bytes below the threshold become bright."""

    def above(pixels, least):
        return (pixels.int() if pixels.dtype == torch.int16 else pixels) - least

    return _brightness("dark_bytes_become_bright", above)


@aot(PIXELS, twin_of="dark_bytes_become_bright")
def dark_bytes_stay_dark():
    """Subtracts in int32."""
    return _brightness("dark_bytes_stay_dark", lambda pixels, least: pixels.int() - least)
