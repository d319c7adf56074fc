"""Picture how two tensors differ: expected, actual and difference, each in few pixels."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from typing import Any

import torch

from ..core.png import Colour, png, ramp
from .tensors import gaps, readable

_FEWEST = 6  # elements: for fewer, a message is as good
_MOST = 2**22  # elements
_SIDE = 64  # pixels
_LEVELS = 32

# Viridis and inferno, from dark to light, so that they are readable without colours; and the colour of NaN.
_NAN = (255, 0, 200)
_VALUES = [
    *ramp([(68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (253, 231, 37)], _LEVELS),
    _NAN,
]
_GAPS = ramp([(0, 0, 4), (87, 16, 110), (188, 55, 84), (249, 142, 9), (252, 255, 164)], _LEVELS)


def picture_of(name: str, actual: Any, expected: Any) -> dict[str, Any] | None:
    """The picture as in the report; None where there is nothing to see.

    It shows the last two dims at the place of the largest difference, and three channels as colours. If
    there are more than 64 rows or columns, some are left out, but never the largest difference.

    Args:
        name: of the tensor.
        actual, expected: of any shape.

    Returns:
        `of`: what is shown; `shape`; `at`: the index of the largest difference; `rows`, `columns`: in
        pixels; `worst`: the row and the column of the largest difference; `low`, `high`: the values of the
        darkest and the lightest colour; `largest`: the largest difference, None if it is not finite; and
        `expected`, `actual` and `difference`: PNG files in base64.
    """
    if not (isinstance(actual, torch.Tensor) and isinstance(expected, torch.Tensor)):
        return None
    if actual.is_nested or expected.is_nested or actual.shape != expected.shape:
        return None
    if not _FEWEST <= actual.numel() <= _MOST:
        return None
    try:
        got, want = (readable(tensor).cpu() for tensor in (actual, expected))
        return _picture(name, got, want) if bool((got != want).any()) else None
    except RuntimeError:  # torch's, for a kind of tensor without these ops
        return None


def _picture(name: str, got: torch.Tensor, want: torch.Tensor) -> dict[str, Any]:
    wide = torch.complex128 if got.is_complex() or want.is_complex() else torch.float64
    got, want = got.to(wide), want.to(wide)
    shape, gap = got.shape, gaps(got, want)
    at = [int(index) for index in torch.unravel_index(gap.argmax(), gap.shape)]
    if wide.is_complex:
        got, want = got.abs(), want.abs()
    title, worst = _shown(name, at, got.shape)
    got, want, gap = (_plane(values, at) for values in (got, want, gap))
    steps = [math.ceil(size / _SIDE) for size in got.shape[1:]]
    rows, columns = (
        _chosen(size, step, index)
        for size, step, index in zip(got.shape[1:], steps, worst, strict=True)
    )
    got, want = (values[:, rows][:, :, columns] for values in (got, want))
    blocks = torch.nn.functional.max_pool2d(gap.amax(0)[None], steps, ceil_mode=True)
    low, high = _limits(torch.cat([got, want]))
    largest = float(gap.max())
    return {
        "of": title,
        "shape": list(shape),
        "at": at,
        "rows": len(rows),
        "columns": len(columns),
        "worst": [index // step for index, step in zip(worst, steps, strict=True)],
        "low": low,
        "high": high,
        "largest": largest if math.isfinite(largest) else None,
        "expected": _encoded(want, low, high, _VALUES),
        "actual": _encoded(got, low, high, _VALUES),
        "difference": _encoded(blocks, 0.0, _limits(blocks)[1], _GAPS),
    }


def _is_image(shape: Sequence[int]) -> bool:
    """Whether a tensor is a picture itself: three channels, first or last, of some rows and columns."""
    return len(shape) == 3 and (_channels_first(shape) or shape[2] == 3) and min(shape[1:]) >= 3


def _channels_first(shape: Sequence[int]) -> bool:
    return shape[0] == 3 and min(shape[1:]) > 3


def _shown(name: str, at: Sequence[int], shape: Sequence[int]) -> tuple[str, list[int]]:
    """What is shown, and the row and the column of the largest difference in it."""
    if len(shape) < 2:
        return name, [0, *at]
    if _is_image(shape):
        return name, [*(at[1:] if _channels_first(shape) else at[:2])]
    leading = "".join(f"{index}, " for index in at[:-2])
    return f"{name}[{leading}:, :]" if leading else name, [*at[-2:]]


def _plane(tensor: torch.Tensor, at: Sequence[int]) -> torch.Tensor:
    """Channels, rows and columns of what is shown: float64[1 or 3, rows, columns]."""
    if tensor.dim() < 2:
        return tensor.reshape(1, 1, -1)
    if _is_image(tensor.shape):
        return tensor if _channels_first(tensor.shape) else tensor.movedim(-1, 0)
    return tensor[tuple(at[:-2])][None]


def _chosen(size: int, step: int, worst: int) -> list[int]:
    """The first of every `step` rows or columns; in the largest difference's group, its own."""
    indices = list(range(0, size, step))
    indices[worst // step] = worst
    return indices


def _limits(values: torch.Tensor) -> tuple[float, float]:
    """The smallest and the largest finite value; zeros where there is none."""
    finite = values[values.isfinite()]
    return (float(finite.min()), float(finite.max())) if finite.numel() else (0.0, 0.0)


def _encoded(values: torch.Tensor, low: float, high: float, palette: Sequence[Colour]) -> str:
    """A picture in base64: one channel in the colours of a palette, three as they are."""
    share = ((values - low) / (high - low or 1.0)).clamp(0.0, 1.0)
    columns = values.shape[-1]
    if values.shape[0] == 3:
        levels = (255 * share).nan_to_num(0.0).round().to(torch.uint8).movedim(0, -1)
        file = png(bytes(levels.flatten().tolist()), columns)
    else:
        levels = ((_LEVELS - 1) * share).round().nan_to_num(float(len(palette) - 1))
        file = png(bytes(levels.to(torch.uint8).flatten().tolist()), columns, palette)
    return base64.b64encode(file).decode()
