"""Variants with other memory layouts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ...core.wording import listed
from ...declare.layouts import LAYOUTS, layout_named
from ...declare.variant import Step
from .sample_view import SampleView, TensorArgument

_FIRST = ("transposed", "channels_last", "offset", "strided", "expanded")
_ORDER = (*_FIRST, *(layout for layout in LAYOUTS if layout not in _FIRST))


def steps(view: SampleView) -> Iterator[Step]:
    """All tensors in each layout, then each tensor alone."""
    for layout in _ORDER:
        movable = [tensor for tensor in view.tensors if _can_move(tensor, layout)]
        alone = len(movable) > 1 or len(view.tensors) > 1
        if len(movable) > 1 or (movable and not alone):
            rank = _FIRST.index(layout) if layout in _FIRST else 10
            yield _step(layout, layout, movable, rank)
        for tensor in movable if alone else ():
            images = layout == "channels_last" and tensor is view.tensors[0]
            rank = 3 if layout == "transposed" or images else 12
            yield _step(f"{tensor.path}.{layout}", layout, [tensor], rank)


def _can_move(tensor: TensorArgument, layout: str) -> bool:
    return (
        tensor.spec.layout in (None, "contiguous")
        and layout_named(layout).changes(tensor.shape)
        and not (layout == "expanded" and (tensor.mutated or _has_an_order(tensor)))
    )


def _has_an_order(tensor: TensorArgument) -> bool:
    """Whether equal numbers may not fit: listed positions, or increasing ones, as those of a grid."""
    return tensor.listed_whole or (len(tensor.shape) == 1 and tensor.is_sorted)


def _step(name: str, layout: Any, movable: list[TensorArgument], rank: int) -> Step:
    description = (
        f"{listed([tensor.path for tensor in movable])} {layout_named(layout).description}"
    )
    moved = {tensor.path: replace(tensor.spec, layout=layout) for tensor in movable}
    # An expanded tensor has fewer elements in memory than its sizes suggest.
    return Step(name, description, moved, rank, reads_beyond=layout == "expanded")
