"""Variants with values of several magnitudes, and with equal values.

Values stay in the range that the author gave.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import torch

from ...cases.argument_names import names_exact
from ...cases.documented import is_softmax, promises_digits
from ...core.seeds import seed_of
from ...declare.variant import Step
from .sample_view import MOST_LISTED, SampleView, TensorArgument

_LOWEST, _HIGHEST = 1e-3, 1e3
_MODERATE = 30.0  # float16 can hold a sum of some squares of such numbers, and e**30 is finite
_TAIL = 6.0  # activations and losses have their limits there, beyond normally distributed samples
_WIDE = 300.0  # exponentials of differences of such numbers vanish in float32, but not in float64
_RATIO = 10.0  # the smallest ratio of the largest magnitude to the smallest
_SHARE = 0.4  # of the bounds: one sign is enough
_ANY = (-math.inf, math.inf)
_BURST = 1e4
_SMALL = 1e-4  # its square is lost beside 1 in float32
_TINY = 4e-5
_AXES = 4  # coordinates, or the numbers of a quaternion
_LONG = 16  # elements of a dim that some are few of
_UNEVEN = 0.25  # the share by which equal values change
_MOST_ALONE = 3  # tensors, each alone


def magnitudes(view: SampleView) -> Iterator[Step]:
    """Every floating-point tensor with values from 1e-3 to 1e3, with large ones, with nearly equal ones.

    For a softmax, also with values far below 0, where exponentials vanish. If a docstring promises digits,
    also with some values among many that are much larger, with rows that are nearly parallel, and with one
    tensor near 0.
    """
    yield from _spread(view, "magnitudes", _HIGHEST, 5)
    yield from _uniform(view, "wide", (-_WIDE, _WIDE), 6)
    yield from _uniform(view, "shifted", (_HIGHEST, _HIGHEST + 1), 6)
    if is_softmax(view.op):
        yield from _uniform(view, "lowered", (-_HIGHEST - 1, -_HIGHEST), 7)
    if promises_digits(view.op):
        yield from _burst(view)
        yield from _parallel(view)
        yield from _tiny(view)


def _tiny(view: SampleView) -> Iterator[Step]:
    """One tensor with values near 0, where differences such as 1 - exp(-x) lose their digits."""
    floats = [tensor for tensor in view.tensors if tensor.dtype in (torch.float32, torch.float64)]
    for tensor in floats[:_MOST_ALONE]:
        values = None if tensor.mutated else _near_zero(tensor)
        if values is not None:
            spec = replace(tensor.spec, low=None, high=None, fill=None, values=values)
            description = f"{tensor.path}: values of at most {_TINY:g}"
            yield Step(
                f"{tensor.path}.tiny", description, {tensor.path: spec}, 6, reads_beyond=True
            )


def _near_zero(tensor: TensorArgument) -> torch.Tensor | None:
    """Values near 0, which are sorted if those of the sample are; None if its range has none."""
    if not 1 < math.prod(tensor.shape) <= MOST_LISTED:
        return None
    if tensor.spec.values is not None and tensor.value_limits is None:
        listed = tensor.listed.to(torch.float64)
        low, high = float(listed.min()), float(listed.max())
        in_range = math.isfinite(high) and (low == 0 or (low > 0 and tensor.at_least_zero))
        return listed * (_TINY / high) if in_range and high > _TINY else None
    low, high = tensor.value_limits or _ANY
    if (low > _TINY / 4 and not tensor.at_least_zero) or high < _TINY:
        return None
    drawn = torch.rand(tensor.shape, generator=_generator(tensor), dtype=torch.float64)
    return _TINY * (1 + 3 * drawn) / 4


def _burst(view: SampleView) -> Iterator[Step]:
    """Every floating-point tensor with a few large values early in its last dim."""
    changes = {}
    for tensor in _free(view):
        low, high = tensor.value_limits or _ANY
        has_room = min(-low, high) >= _BURST and tensor.dtype.itemsize > 2
        if has_room and math.prod(tensor.shape) <= MOST_LISTED and tensor.shape[-1] >= _LONG:
            drawn = torch.rand(tensor.shape, generator=_generator(tensor), dtype=torch.float64)
            values = 2 * drawn - 1
            start = tensor.shape[-1] // 8
            values[..., start : start + max(1, tensor.shape[-1] // 30)] *= _BURST
            spec = replace(tensor.spec, low=None, high=None, values=values)
            changes[tensor.path] = spec
    if changes:
        description = f"some values {_BURST:g} times as large as the others"
        yield Step("burst", description, changes, 6, reads_beyond=True)


def _parallel(view: SampleView) -> Iterator[Step]:
    """Rows that are nearly along the first axis, then the last: small angles, rotations that are small."""
    rows = [tensor for tensor in _free(view) if tensor.dtype.itemsize > 2 and tensor.shape]
    for name, at in (("parallel_first", 0), ("parallel_last", -1)):
        changes = {}
        for tensor in rows:
            low, high = tensor.value_limits or _ANY
            has_axes = 1 < tensor.shape[-1] <= _AXES and math.prod(tensor.shape) <= MOST_LISTED
            if has_axes and low <= 0 and high >= 1:
                values = torch.rand(tensor.shape, generator=_generator(tensor), dtype=torch.float64)
                values *= _SMALL
                values[..., at] = 1.0
                changes[tensor.path] = replace(tensor.spec, low=None, high=None, values=values)
        if changes:
            axis = "last" if at else "first"
            description = f"rows that are nearly along the {axis} axis"
            yield Step(name, description, changes, 6, reads_beyond=True)


def _uniform(view: SampleView, name: str, bounds: tuple[float, float], rank: int) -> Iterator[Step]:
    """Values between some bounds, for every floating-point tensor whose range covers enough of them."""
    changes = {}
    for tensor in _free(view):
        limits = tensor.value_limits or _ANY
        low, high = max(limits[0], bounds[0]), min(limits[1], bounds[1])
        enough = high - low >= _SHARE * (bounds[1] - bounds[0])
        if enough and tensor.dtype.itemsize > 2 and math.prod(tensor.shape) <= MOST_LISTED:
            drawn = torch.rand(tensor.shape, generator=_generator(tensor), dtype=torch.float64)
            values = low + drawn * (high - low)
            changes[tensor.path] = replace(tensor.spec, low=None, high=None, values=values)
    if changes:
        description = f"values from {bounds[0]:g} to {bounds[1]:g}"
        yield Step(name, description, changes, rank, reads_beyond=True)


def steps(view: SampleView) -> Iterator[Step]:
    """The same with moderate values; values from -6 to 6; all values equal; all rows equal."""
    yield from _spread(view, "spread", _MODERATE, 9)
    yield from _uniform(view, "tails", (-_TAIL, _TAIL), 7)
    floats = _free(view)
    if floats:
        equal = {tensor.path: _filled(tensor) for tensor in floats}
        yield Step("equal", "every value of a tensor the same", equal, 8)
    rows = [tensor for tensor in floats if len(tensor.shape) > 1 and tensor.shape[0] > 1]
    if rows and all(math.prod(tensor.shape) <= MOST_LISTED for tensor in rows):
        changes = {tensor.path: _with_equal_rows(tensor) for tensor in rows}
        yield Step("equal_rows", "every row of a tensor the same", changes, 9)


def uneven(view: SampleView) -> Iterator[Step]:
    """Values that are all equal in the sample become slightly unequal, one tensor at a time.

    `torch.ones` for weights, `torch.zeros` for a first state, and a constant matrix, which is symmetric,
    hide mistakes.
    """
    constants = [(tensor, _constant(tensor)) for tensor in view.tensors]
    known = [(tensor, value) for tensor, value in constants if value is not None]
    for tensor, value in known[:_MOST_ALONE]:
        drawn = _UNEVEN * torch.rand(
            tensor.shape, generator=_generator(tensor), dtype=torch.float64
        )
        values = value * (1 - drawn) if value else drawn
        spec = replace(tensor.spec, fill=None, values=values)
        description = f"{tensor.path}: unequal values close to {value:g}"
        yield Step(f"{tensor.path}.uneven", description, {tensor.path: spec}, 5, reads_beyond=True)


def _constant(tensor: TensorArgument) -> float | None:
    """The one finite number that all values are; None if it may have to be exact, as in a mask."""
    if not tensor.dtype.is_floating_point or tensor.dtype.itemsize < 2 or tensor.mutated:
        return None
    if not 1 < math.prod(tensor.shape) <= MOST_LISTED or names_exact(tensor.path):
        return None
    value = _equal_value(tensor)
    return value if isinstance(value, (int, float)) and math.isfinite(value) else None


def _equal_value(tensor: TensorArgument) -> object:
    """The number that all values are; None if they differ or are drawn."""
    if tensor.spec.fill is not None or tensor.spec.values is None:
        return tensor.spec.fill
    listed = tensor.listed.flatten()
    return listed[0].item() if listed.numel() and bool((listed == listed[0]).all()) else None


def _free(view: SampleView) -> list[TensorArgument]:
    """The floating-point tensors with several elements; none if one has no range for its values.

    Tensors whose values are all equal, as weights of 1, keep them.
    """
    floats = [tensor for tensor in view.tensors if tensor.dtype.is_floating_point]
    without_range = [tensor for tensor in floats if tensor.value_limits is None]
    if any(_equal_value(tensor) is None for tensor in without_range):
        return []
    return [
        tensor
        for tensor in floats
        if tensor.value_limits is not None and math.prod(tensor.shape) > 1
    ]


def _spread(view: SampleView, name: str, highest: float, rank: int) -> Iterator[Step]:
    floats = _free(view)
    changes = {}
    for tensor in floats:
        most = highest if tensor.dtype.itemsize > 2 else min(highest, _MODERATE)
        low, high = tensor.value_limits or _ANY
        if math.prod(tensor.shape) > MOST_LISTED or tensor.dtype.itemsize < 2:
            return
        top = min(most, max(-low, high))
        bottom = max(_LOWEST, low, -high)
        if top < _RATIO * bottom:
            continue
        changes[tensor.path] = replace(
            tensor.spec,
            low=None,
            high=None,
            values=_numbers(tensor, bottom, top, (low, high)),
        )
    if changes:
        description = f"values of magnitudes from {_LOWEST:g} to {highest:g}"
        yield Step(name, description, changes, rank, reads_beyond=True)


def _generator(tensor: TensorArgument) -> torch.Generator:
    return torch.Generator().manual_seed(seed_of("spread", tensor.path, tensor.shape))


def _numbers(
    tensor: TensorArgument, bottom: float, top: float, limits: tuple[float, float]
) -> torch.Tensor:
    """Numbers whose magnitudes are spread evenly over the powers of ten, in random order."""
    low, high = limits
    count = math.prod(tensor.shape)
    generator = _generator(tensor)
    share = torch.linspace(0, 1, count, dtype=torch.float64)[
        torch.randperm(count, generator=generator)
    ]
    size = bottom * (0.999 * top / bottom) ** share
    sign = torch.randint(0, 2, (count,), generator=generator) * 2 - 1
    value = size * sign
    value = torch.where((value < low) | (value >= high), size, value)
    value = torch.where((value < low) | (value >= high), -size, value)
    return value.reshape(tensor.shape)


def _filled(tensor: TensorArgument) -> object:
    """The same number everywhere, from inside the range."""
    low, high = tensor.value_limits or _ANY
    low = low if math.isfinite(low) else min(-1.0, high - 2)
    high = high if math.isfinite(high) else max(2.0, low + 2)
    fill = low + 0.75 * (high - low)
    return replace(tensor.spec, low=None, high=None, values=None, fill=fill)


def _with_equal_rows(tensor: TensorArgument) -> object:
    low, high = tensor.value_limits or _ANY
    low = low if math.isfinite(low) else min(-9.0, high - 2)
    high = high if math.isfinite(high) else max(9.0, low + 2)
    row = torch.rand(tensor.shape[1:], generator=_generator(tensor), dtype=torch.float64)
    values = (low + row * (high - low)).expand(tensor.shape).clone()
    return replace(tensor.spec, low=None, high=None, values=values)
