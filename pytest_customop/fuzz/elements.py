"""Draw the elements of one tensor: a few numbers of both signs, or positions, that repeat."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import isfinite, prod
from typing import Any

import torch
from hypothesis import strategies as st

from ..declare.inputs import TensorSpec
from ..declare.variant import Step
from ..plan.variants.sample_view import SampleView, TensorArgument
from ..plan.variants.values import counts_sizes, range_of, why_beyond

_MOST = 2**10  # elements of a larger tensor are drawn by a seed
_NUMBERS = 8  # the most distinct numbers; they are repeated until the tensor is full
_LARGEST = 30.0  # its square is finite in float16, and so is the sum of a few such
_WHOLE = 8  # integers up to this are drawn often
_SPECIAL = (float("nan"), float("inf"), float("-inf"))

Draw = Callable[[st.SearchStrategy[Any]], Any]


def element_steps(draw: Draw, view: SampleView, kind: str) -> Step | None:
    """The step to other elements of one tensor; None if the sample has no such tensor.

    Args:
        kind: `values`, of floating-point tensors; `special`, with elements that are not finite;
            `positions`, of integers and booleans.
    """
    able = [argument for argument in view.tensors if _is_drawable(argument, kind)]
    if not able:
        return None
    argument = able[draw(st.integers(0, len(able) - 1))]
    spec = with_elements(draw, argument, kind)
    if spec is None:
        return None
    several = sum(argument.holds_positions for argument in view.tensors) > 1
    beyond = "values that no sample has" if kind == "special" else why_beyond(argument, several)
    text = f"{argument.path} of {_few(spec.values)}"
    return Step(f"{argument.path}.elements", text, {argument.path: spec}, 5, True, beyond=beyond)


def with_elements(draw: Draw, argument: TensorArgument, kind: str) -> TensorSpec | None:
    """The description of a tensor with a few numbers, repeated; None if it cannot be drawn.

    Args:
        kind: as in `element_steps`.
    """
    if not _is_drawable(argument, kind):
        return None
    count = prod(argument.shape)
    drawn = draw(st.lists(_numbers(argument, kind), min_size=1, max_size=min(count, _NUMBERS)))
    numbers = [drawn[at % len(drawn)] for at in range(count)]
    return replace(
        argument.spec,
        dtype=argument.spec.dtype if argument.floating else argument.dtype,
        values=_nested(numbers, argument.shape),
        low=None,
        high=None,
        fill=None,
    )


def _few(values: Any) -> str:
    """The first numbers of nested lists."""
    flat = torch.as_tensor(values).flatten()[: _NUMBERS + 1].tolist()
    return ", ".join(map(str, flat[:_NUMBERS])) + (", ..." if len(flat) > _NUMBERS else "")


def _nested(numbers: Sequence[Any], shape: Sequence[int]) -> Any:
    """A flat list as nested lists of a shape."""
    if not shape:
        return numbers[0]
    if len(shape) == 1:
        return list(numbers)
    step = prod(shape[1:])
    return [_nested(numbers[at * step : (at + 1) * step], shape[1:]) for at in range(shape[0])]


def _is_drawable(argument: TensorArgument, kind: str) -> bool:
    if not 0 < prod(argument.shape) <= _MOST:
        return False
    if kind == "positions":
        if argument.floating or argument.is_permutation or range_of(argument) is None:
            return False
        return not counts_sizes(argument)
    return argument.dtype.is_floating_point and argument.value_limits is not None


def _numbers(argument: TensorArgument, kind: str) -> st.SearchStrategy[Any]:
    if kind == "positions":
        span = range_of(argument)
        assert span is not None
        return st.booleans() if argument.dtype == torch.bool else st.integers(*span)
    low, high = argument.value_limits or (-_LARGEST, _LARGEST)
    open_end = isfinite(high) and argument.spec.high is not None
    bottom = low if isfinite(low) else min(-_LARGEST, high - 2 * _LARGEST)
    top = high if isfinite(high) else max(_LARGEST, low + 2 * _LARGEST)
    finite = st.floats(bottom, top, exclude_max=open_end)
    whole = [float(number) for number in range(-_WHOLE, _WHOLE + 1) if low <= number < high]
    # Few digits: values that are rounded in one dtype and not in another would hide other findings.
    drawn = [finite.map(lambda number: _coarse(number, bottom, top, argument.dtype))]
    if whole:
        drawn.insert(
            0, st.sampled_from(sorted(whole, key=lambda number: (abs(number), number < 0)))
        )
    return st.one_of(*drawn, *([st.sampled_from(_SPECIAL)] if kind == "special" else []))


def _coarse(number: float, low: float, high: float, dtype: torch.dtype) -> float:
    """The nearest multiple of 1/8 if it is in the range; else a number that is in it in the dtype too."""
    rounded = round(8 * number) / 8
    if low <= rounded < high:
        return rounded
    held = float(torch.tensor(number, dtype=dtype))
    return held if number == high or low <= held < high else low
