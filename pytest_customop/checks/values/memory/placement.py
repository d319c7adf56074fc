"""The same values in other memory: strides, offsets, padding, guard zones, conjugate and negative bits.

Memory between and around the elements holds NaN, or one of the tensor's numbers if its dtype has no NaN,
so that reading it shows. Every storage is at least as large as the tensor's elements laid out densely.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from ....cases.arguments import Arguments
from ....cases.guarded import guarded, guarded_place
from ....cases.tensors import base_name, is_plain
from ....compat.ops import kernel_in_python
from ....compat.tensors import neg_view
from ....core.wording import listed
from ....declare.layouts import (
    CHANNELS_LAST,
    CONJUGATED,
    EXPANDED,
    NEGATED,
    OFFSET,
    ROW_PADDED,
    STRIDED,
    TRANSPOSED,
    MemoryLayout,
    Place,
    dense_strides,
    expanded_strides,
    strides_in_order,
)

_ALONE = 6  # tensors are also laid out one at a time if there are at most so many
REVERSED = MemoryLayout(
    "reversed",
    "with its dims in memory in reverse order",
    lambda shape, padding: (
        strides_in_order(shape, [*range(len(shape))][::-1])
        if len(shape) > 2  # for two dims it is that of `transposed`
        else dense_strides(shape)
    ),
)
EXPANDED_LAST = MemoryLayout(
    "expanded_last",
    "expanded over its last dim",
    lambda shape, padding: expanded_strides(shape, [len(shape) - 1] if len(shape) > 1 else []),
)
# Layouts in which each element has memory of its own.
LAYOUTS = (TRANSPOSED, REVERSED, CHANNELS_LAST, STRIDED, ROW_PADDED, OFFSET)
# Layouts that repeat the first slice of a dim, so that the values change; not for arguments that are
# written to.
REPEATING = (EXPANDED, EXPANDED_LAST)


def movable(tensor: torch.Tensor) -> bool:
    """Whether a tensor can be given another layout."""
    return is_plain(tensor) and tensor.numel() > 0


def unit_of(arguments: Arguments, tensor: torch.Tensor) -> int:
    """The unit of paddings and offsets, in elements: 64 bytes for a native kernel, 1 for Python.

    Native code may rely on the alignment of allocations. A misaligned access can end the process, or
    leave the device unusable.
    """
    if kernel_in_python(arguments.op.overload, tensor.device.type):
        return 1
    return max(1, 64 // tensor.element_size())


def unshared(arguments: Arguments) -> set[str]:
    """The paths of the dense tensor arguments that do not share their storage with another one."""
    storages: dict[int, list[str]] = {}
    for name, tensor in arguments.tensors():
        if movable(tensor):
            storages.setdefault(tensor.untyped_storage().data_ptr(), []).append(name)
    return {names[0] for names in storages.values() if len(names) == 1}


def _rearranged(
    arguments: Arguments, change: Callable[[str, torch.Tensor], torch.Tensor | None]
) -> Arguments | None:
    """The arguments with some tensors in another layout; None if nothing changes.

    Args:
        arguments: fresh ones.
        change: (path, tensor) -> the tensor that replaces it, or None to keep it.
    """
    free = unshared(arguments)
    changed = []

    def move(name: str, tensor: torch.Tensor) -> torch.Tensor:
        new = change(name, tensor) if name in free else None
        if new is None:
            return tensor
        changed.append(name)
        return new.requires_grad_(tensor.requires_grad)

    moved = arguments.map_distinct(move)
    return moved if changed else None


@dataclass(frozen=True)
class Rearrangement:
    """Arguments in another layout.

    Args:
        description: `x transposed in memory`.
        arguments: the arguments.
        script: (function from the path of an argument to an expression) -> the script lines that lay out
            `args` and `kwargs` in the same way.
        other_values: whether the layout repeats elements, so that the values are not the sample's.
    """

    description: str
    arguments: Arguments
    script: Callable[[Callable[[str], str]], str]
    other_values: bool = False


def placements(fresh: Callable[[], Arguments], *, alone: bool) -> Iterator[Rearrangement]:
    """Every layout that changes the strides or offset of an argument.

    Args:
        fresh: returns new arguments with the same values at each call.
        alone: whether each layout is also given to one argument at a time.
    """
    names = [name for name, tensor in fresh().tensors() if movable(tensor)]
    choices: list[set[str] | None] = [None]
    if alone and 1 < len(names) <= _ALONE:
        choices += [{name} for name in names]
    for layout in (*LAYOUTS, *REPEATING):
        for chosen in choices:
            moved = rearrange(fresh(), layout, chosen)
            if moved:
                yield moved


def rearrange(
    arguments: Arguments, layout: MemoryLayout, chosen: set[str] | None = None
) -> Rearrangement | None:
    """The arguments in a layout; None if that changes none of them.

    Args:
        arguments: fresh ones.
        layout: the layout.
        chosen: the paths of the arguments that get the layout; None: all.
    """
    places: dict[str, Place] = {}

    def applies(name: str, tensor: torch.Tensor) -> bool:
        if layout.repeats(tensor.shape):
            written = base_name(name) in arguments.op.mutated
            if written or not (tensor.is_floating_point() or tensor.is_complex()):
                return False
        return (chosen is None or name in chosen) and layout.changes(tensor.shape)

    def change(name: str, tensor: torch.Tensor) -> torch.Tensor | None:
        if not movable(tensor) or not applies(name, tensor):
            return None
        places[name] = guarded_place(tensor, layout, unit_of(arguments, tensor))
        return guarded(tensor, places[name])

    moved = _rearranged(arguments, change)
    if moved is None:
        return None
    description = f"{listed([*places])} {layout.description}"
    return Rearrangement(description, moved, lambda at: _script(places, at), layout in REPEATING)


def contiguous(arguments: Arguments) -> Arguments:
    """The same values in contiguous memory, at storage offset 0."""

    def copy(tensor: torch.Tensor) -> torch.Tensor:
        if not movable(tensor):
            return tensor.detach().clone().requires_grad_(tensor.requires_grad)
        values = tensor.detach().resolve_conj().resolve_neg()
        dense = values.clone(memory_format=torch.contiguous_format)
        return dense.requires_grad_(tensor.requires_grad)

    return arguments.map(copy)


def bits(fresh: Callable[[], Arguments]) -> Iterator[Rearrangement]:
    """Arguments with the conjugate bit, and with the negative bit, set."""
    for description, code, change in (
        (CONJUGATED, "{one} = {one}.conj().resolve_conj().conj()", _conjugated),
        (NEGATED, "{one} = torch._neg_view(-{one})", _negated),
    ):
        moved = _rearranged(fresh(), change)
        if moved is not None:
            marked = [
                name for name, tensor in moved.tensors() if tensor.is_conj() or tensor.is_neg()
            ]
            script = _per_name(marked, code)
            yield Rearrangement(f"{listed(marked)} {description}", moved, script)


def _per_name(names: list[str], code: str) -> Callable[[Callable[[str], str]], str]:
    return lambda at: "\n".join(code.format(one=at(name)) for name in names)


def _conjugated(name: str, tensor: torch.Tensor) -> torch.Tensor | None:
    return tensor.detach().conj().resolve_conj().conj() if tensor.is_complex() else None


def _negated(name: str, tensor: torch.Tensor) -> torch.Tensor | None:
    real = tensor.dtype.is_floating_point and tensor.dtype.itemsize > 1
    return neg_view(-tensor.detach()) if real else None


def _script(places: dict[str, Place], at: Callable[[str], str]) -> str:
    return "\n".join(
        f"{at(name)} = lay_out({at(name)}, {place.strides}, {place.offset}, {place.size})"
        for name, place in places.items()
    )
