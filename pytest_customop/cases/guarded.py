"""Lay out tensors in memory so that reading outside of their elements becomes visible."""

from __future__ import annotations

import torch

from ..declare.layouts import MemoryLayout, Place
from .tensors import storage_bytes

_MARGIN = 64  # bytes before and after the elements


def guarded_place(tensor: torch.Tensor, layout: MemoryLayout, unit: int = 1) -> Place:
    """Where `guarded` puts the elements of a tensor.

    Args:
        tensor: a dense one with elements.
        layout: the layout.
        unit: padding and offset are multiples of it, in elements. With 1 they are odd, so that the
            elements are not aligned.
    """
    padding = unit if unit > 1 else 3
    margin = -(-_MARGIN // (tensor.element_size() * unit)) * unit + (unit == 1)
    return layout.place(tensor.shape, padding=padding, margin=margin, room=True)


def guarded(tensor: torch.Tensor, place: Place) -> torch.Tensor:
    """The detached values of a tensor, at a place in their own storage.

    The rest of the storage holds NaN or, for a dtype without NaN, the first value.
    """
    source = tensor.detach().resolve_conj().resolve_neg()
    home = torch.empty(place.size, dtype=tensor.dtype, device=tensor.device)
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        storage_bytes(home).fill_(0xFF)
    else:
        home.copy_(source.flatten()[:1].expand(place.size))
    place.put(source, home)
    laid = torch.empty(0, dtype=tensor.dtype, device=tensor.device)  # no view, for autograd
    return laid.set_(home.untyped_storage(), place.offset, tensor.shape, tuple(place.strides))


# The same for a reproducing script, which calls it with the fields of a `Place`.
LAY_OUT = """

def lay_out(t, strides, offset, size):
    home = torch.empty(size, dtype=t.dtype, device=t.device)
    nan = t.is_floating_point() or t.is_complex()
    home.copy_(torch.full((), float("nan")) if nan else t.flatten()[0])
    laid = home.as_strided(t.shape, strides, offset)
    part = laid
    for dim, stride in enumerate(strides):
        if stride == 0:
            part, t = part.narrow(dim, 0, 1), t.narrow(dim, 0, 1)
    part.copy_(t)
    return laid
"""
