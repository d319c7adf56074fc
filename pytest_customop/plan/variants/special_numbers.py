"""Variants with some NaN, -infinity or 0, for a tensor whose docstring gives these numbers a meaning."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import torch

from ...cases.documented_numbers import gives_meaning_to, may_be_zero
from ...cases.tensors import base_name
from ...core.seeds import seed_of
from ...declare.variant import MINUS_INFINITY, Step
from .sample_view import MOST_LISTED, SampleView, TensorArgument

_EVERY = 3  # each third element


def steps(view: SampleView) -> Iterator[Step]:
    """NaN or 0 in places, or -infinity in the last column, for tensors in which they are documented."""
    for tensor in view.tensors:
        count = math.prod(tensor.shape)
        if not tensor.dtype.is_floating_point or not 1 < count <= MOST_LISTED:
            continue
        name = base_name(tensor.path)
        if may_be_zero(view.op, name):
            places = torch.arange(count).reshape(tensor.shape) % _EVERY == 1
            yield _with(tensor, "has.0", 0.0, places, "some elements of {} are 0")
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


def _with(
    tensor: TensorArgument, name: str, number: float, places: torch.Tensor, description: str
) -> Step:
    values = torch.where(places, number, _values(tensor))
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
