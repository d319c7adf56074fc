"""Variants with some NaN, -infinity, 0 or ends of a range, where docstrings speak of them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import torch

from ...cases.documented_numbers import gives_meaning_to, may_be_zero
from ...cases.documented_ranges import closed_ranges, includes_ends
from ...cases.tensors import base_name
from ...core.seeds import seed_of
from ...declare.variant import MINUS_INFINITY, Step
from .sample_view import MOST_LISTED, SampleView, TensorArgument

_EVERY = 3  # each third element


def steps(view: SampleView) -> Iterator[Step]:
    """NaN, 0 or an end of the range in places, -infinity in the last column: what docstrings speak of."""
    for tensor in view.tensors:
        count = math.prod(tensor.shape)
        if not tensor.dtype.is_floating_point or not 1 < count <= MOST_LISTED:
            continue
        name = base_name(tensor.path)
        if may_be_zero(view.op, name):
            places = torch.arange(count).reshape(tensor.shape) % _EVERY == 1
            yield _with(tensor, "has.0", 0.0, places, "some elements of {} are 0")
        yield from _at_ends(view, tensor)
        if tensor.shape[-1] < 2:
            continue
        if gives_meaning_to("nan", view.op, name):
            places = torch.arange(count).reshape(tensor.shape) % _EVERY == 1
            places[..., 0] = False  # a series may have to start with a number
            yield _with(tensor, "has.nan", math.nan, places, "some elements of {} are NaN")
        if gives_meaning_to("-inf", view.op, name):
            places = torch.zeros(tensor.shape, dtype=torch.bool)
            places[..., -1] = True
            description = "the last element of each row of {} is -infinity"
            yield _with(tensor, MINUS_INFINITY, -math.inf, places, description)


def _at_ends(view: SampleView, tensor: TensorArgument) -> Iterator[Step]:
    """Some elements at each end of the documented range, if the others are inside."""
    name = base_name(tensor.path)
    ranges = closed_ranges(view.op, name)
    if not ranges or tensor.mutated:
        return
    low, high = ranges[0]
    values = _values(tensor)
    if bool((values < low).any() or (values > high).any()):
        return
    count = torch.arange(values.numel()).reshape(tensor.shape) % (2 * _EVERY)
    values = torch.where(count == _EVERY, low, values)
    description = (
        f"some elements of {{}} are {low:g}, some {high:g}: the ends of its documented range"
    )
    beyond = None if includes_ends(view.op, name) else "the ends of a documented range"
    yield _with(tensor, "has.ends", high, count == 1, description, values)._replace(beyond=beyond)


def _with(
    tensor: TensorArgument,
    name: str,
    number: float,
    places: torch.Tensor,
    description: str,
    others: torch.Tensor | None = None,
) -> Step:
    values = torch.where(places, number, _values(tensor) if others is None else others)
    spec = replace(tensor.spec, low=None, high=None, fill=None, values=values)
    return Step(
        f"{tensor.path}.{name}",
        description.format(tensor.path),
        {tensor.path: spec},
        3,
        reads_beyond=True,
    )


def _values(tensor: TensorArgument) -> torch.Tensor:
    """The listed values, or values drawn as described, in float64."""
    if tensor.spec.values is not None:
        return tensor.listed.to(torch.float64)
    if tensor.spec.fill is not None:
        return torch.full(tensor.shape, tensor.spec.fill, dtype=torch.float64)
    generator = torch.Generator().manual_seed(seed_of("special", tensor.path, tensor.shape))
    low, high = tensor.value_limits or (-math.inf, math.inf)
    if math.isinf(low) and math.isinf(high):
        return torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
    low = low if math.isfinite(low) else high - 1
    high = high if math.isfinite(high) else low + 1
    drawn = torch.rand(tensor.shape, generator=generator, dtype=torch.float64)
    return low + drawn * (high - low)
