"""The same values in other memory: strides, offsets, padding, guard zones, conjugate and negative bits.

All that belongs to no element holds NaN, or a number of the tensor's own where it has no NaN, so that
reading it shows. Every storage is as large as the tensor's elements laid out densely, or larger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from ....cases.arguments import Arguments
from ....cases.tensors import base_name, is_plain, storage_bytes
from ....compat import kernel_in_python, neg_view
from ....core.wording import listed

_GUARD = 64  # bytes before and after the elements
_ALONE = 6  # tensors that are laid out one at a time


@dataclass(frozen=True)
class Placing:
    """One memory layout.

    Args:
        name: as a message says it: "transposed".
        strides: (shape, padding) -> strides.
        fits: whether the layout makes a difference for a shape.
        offset: whether the elements start inside the storage, and end before its end.
        repeats: the dim of which the first slice stands in place of all.
    """

    name: str
    strides: Callable[[Sequence[int], int], list[int]]
    fits: Callable[[Sequence[int]], bool]
    offset: bool = False
    repeats: int | None = None


def dense_strides(shape: Sequence[int]) -> list[int]:
    """The strides of contiguous memory."""
    strides = [1] * len(shape)
    for dim in range(len(shape) - 2, -1, -1):
        strides[dim] = strides[dim + 1] * max(shape[dim + 1], 1)
    return strides


def _in_order(shape: Sequence[int], order: Sequence[int]) -> list[int]:
    """The strides of memory that is dense with its dims in this order, outermost first."""
    strides = [0] * len(shape)
    for place, stride in zip(order, dense_strides([shape[dim] for dim in order]), strict=True):
        strides[place] = stride
    return strides


def _transposed(shape: Sequence[int], pad: int) -> list[int]:
    dims = [*range(len(shape))]
    return _in_order(shape, [*dims[:-2], dims[-1], dims[-2]])


def _channels_last(shape: Sequence[int], pad: int) -> list[int]:
    return _in_order(shape, [0, *range(2, len(shape)), 1])


def _padded(shape: Sequence[int], pad: int) -> list[int]:
    return [*dense_strides([*shape[:-1], shape[-1] + pad])]


def _repeating(shape: Sequence[int], dim: int) -> list[int]:
    return [0 if place == dim % len(shape) else s for place, s in enumerate(dense_strides(shape))]


PLACINGS = (
    Placing(
        "transposed in memory",
        _transposed,
        lambda shape: len(shape) > 1 and min(shape[-2:]) > 1,
    ),
    Placing(
        "with its dims in memory in reverse order",
        lambda shape, pad: _in_order(shape, [*range(len(shape))][::-1]),
        lambda shape: len(shape) > 2 and sum(size > 1 for size in shape) > 1,
    ),
    Placing(
        "channels_last",
        _channels_last,
        lambda shape: len(shape) in (4, 5) and shape[1] > 1 and max(shape[2:]) > 1,
    ),
    Placing(
        "at every second element",
        lambda shape, pad: [2 * stride for stride in dense_strides(shape)],
        lambda shape: max(shape, default=1) > 1,
    ),
    Placing("with padded rows", _padded, lambda shape: len(shape) > 1 and max(shape[:-1]) > 1),
    Placing("at a storage offset", lambda shape, pad: dense_strides(shape), lambda _: True, True),
)
OFFSET = PLACINGS[-1]
# These change the values: the first slice of the dim in place of all. Not for what is written to.
REPEATING = (
    Placing(
        "expanded over its first dim (stride 0)",
        lambda shape, pad: _repeating(shape, 0),
        lambda shape: len(shape) > 0 and shape[0] > 1,
        repeats=0,
    ),
    Placing(
        "expanded over its last dim (stride 0)",
        lambda shape, pad: _repeating(shape, -1),
        lambda shape: len(shape) > 1 and shape[-1] > 1,
        repeats=-1,
    ),
)


@dataclass(frozen=True)
class Place:
    """Where the elements of one tensor go: what `lay_out` of a script takes."""

    strides: list[int]
    offset: int
    size: int


def place_of(tensor: torch.Tensor, placing: Placing, unit: int) -> Place:
    """The place of a tensor.

    Args:
        tensor: a dense one with elements.
        placing: the layout.
        unit: paddings and offsets are multiples of it, in elements.
    """
    pad = unit if unit > 1 else 3
    strides = placing.strides(tensor.shape, pad)
    guard = -(-_GUARD // (tensor.element_size() * unit)) * unit + (unit == 1)
    offset = guard if placing.offset else 0
    reach = zip(tensor.shape, strides, strict=True)
    extent = max(tensor.numel(), 1 + sum((size - 1) * stride for size, stride in reach))
    return Place(strides, offset, extent + 2 * offset + (pad if "rows" in placing.name else 0))


def lay_out(tensor: torch.Tensor, placing: Placing, unit: int) -> torch.Tensor:
    """The values of a tensor in a storage of their own, detached.

    Args:
        tensor, placing, unit: as for `place_of`.
    """
    place = place_of(tensor, placing, unit)
    source = tensor.detach().resolve_conj().resolve_neg()
    home = torch.empty(place.size, dtype=tensor.dtype, device=tensor.device)
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        storage_bytes(home).fill_(0xFF)
    else:
        home.copy_(source.flatten()[:1].expand(place.size))
    laid = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    laid.set_(home.untyped_storage(), place.offset, tensor.shape, place.strides)
    target = laid
    if placing.repeats is not None:
        target = laid.narrow(placing.repeats, 0, 1)
        source = source.narrow(placing.repeats, 0, 1)
    target.copy_(source)
    return laid


def movable(tensor: torch.Tensor) -> bool:
    """Whether a tensor can be laid out anew."""
    return is_plain(tensor) and tensor.numel() > 0


def unit_of(arguments: Arguments, tensor: torch.Tensor) -> int:
    """The unit of paddings and offsets in elements: 64 bytes for a kernel that is not Python's.

    Native code may take the alignment of an allocation for granted, and a misaligned access ends the
    process or spoils the device.
    """
    if kernel_in_python(arguments.op.overload, tensor.device.type):
        return 1
    return max(1, 64 // tensor.element_size())


def own_storages(arguments: Arguments) -> set[str]:
    """The dense tensor arguments that share their storage with no other argument."""
    homes: dict[int, list[str]] = {}
    for name, tensor in arguments.tensors():
        if movable(tensor):
            homes.setdefault(tensor.untyped_storage().data_ptr(), []).append(name)
    return {names[0] for names in homes.values() if len(names) == 1}


def _rearranged(
    arguments: Arguments, change: Callable[[str, torch.Tensor], torch.Tensor | None]
) -> Arguments | None:
    """The arguments with some tensors laid out anew; None if none is.

    Args:
        arguments: fresh ones.
        change: (path, tensor) -> the tensor to put in its place, or None to leave it.
    """
    free = own_storages(arguments)
    names = iter([name for name, _ in arguments.tensors()])
    changed = []

    def move(tensor: torch.Tensor) -> torch.Tensor:
        name = next(names)
        new = change(name, tensor) if name in free else None
        if new is None:
            return tensor
        changed.append(name)
        return new.requires_grad_(tensor.requires_grad)

    moved = arguments.map(move)
    return moved if changed else None


@dataclass(frozen=True)
class Moved:
    """Arguments in another layout.

    Args:
        words: `x transposed in memory`.
        arguments: the arguments.
        script: the lines of a script that lay out `args` and `kwargs` so; it takes what turns the
            path of an argument into an expression.
        other_values: whether the layout repeats elements, so that the values are not the sample's.
    """

    words: str
    arguments: Arguments
    script: Callable[[Callable[[str], str]], str]
    other_values: bool = False


def placements(fresh: Callable[[], Arguments], *, alone: bool) -> Iterator[Moved]:
    """Every layout that makes a difference: of all arguments together, and of each one alone.

    Args:
        fresh: new arguments with the same values at each call.
        alone: whether also of one argument at a time.
    """
    names = [name for name, tensor in fresh().tensors() if movable(tensor)]
    choices: list[set[str] | None] = [None]
    if alone and 1 < len(names) <= _ALONE:
        choices += [{name} for name in names]
    for placing in (*PLACINGS, *REPEATING):
        for chosen in choices:
            moved = rearrange(fresh(), placing, chosen)
            if moved:
                yield moved


def rearrange(
    arguments: Arguments, placing: Placing, chosen: set[str] | None = None
) -> Moved | None:
    """The arguments in a layout; None if it makes no difference to any of them.

    Args:
        arguments: fresh ones.
        placing: the layout.
        chosen: the paths of the arguments to lay out anew; None: all.
    """
    places: dict[str, Place] = {}

    def wanted(name: str, tensor: torch.Tensor) -> bool:
        if placing.repeats is not None:
            written = base_name(name) in arguments.op.mutated
            if written or not (tensor.is_floating_point() or tensor.is_complex()):
                return False
        return (chosen is None or name in chosen) and placing.fits(tensor.shape)

    def change(name: str, tensor: torch.Tensor) -> torch.Tensor | None:
        if not movable(tensor) or not wanted(name, tensor):
            return None
        unit = unit_of(arguments, tensor)
        places[name] = place_of(tensor, placing, unit)
        return lay_out(tensor, placing, unit)

    moved = _rearranged(arguments, change)
    if moved is None:
        return None
    words = f"{listed([*places])} {placing.name}"
    repeats = placing.repeats is not None
    return Moved(words, moved, lambda at: _script(places, placing, at), repeats)


def contiguous(arguments: Arguments) -> Arguments:
    """The same values in contiguous memory that starts with its storage."""

    def copy(tensor: torch.Tensor) -> torch.Tensor:
        if not movable(tensor):
            return tensor.detach().clone().requires_grad_(tensor.requires_grad)
        values = tensor.detach().resolve_conj().resolve_neg()
        dense = values.clone(memory_format=torch.contiguous_format)
        return dense.requires_grad_(tensor.requires_grad)

    return arguments.map(copy)


def bits(fresh: Callable[[], Arguments]) -> Iterator[Moved]:
    """Arguments with the conjugate bit, and with the negative bit, set."""
    for words, code, change in (
        ("with the conjugate bit set", "{one} = {one}.conj().resolve_conj().conj()", _conjugated),
        ("with the negative bit set", "{one} = torch._neg_view(-{one})", _negated),
    ):
        moved = _rearranged(fresh(), change)
        if moved is not None:
            marked = [name for name, one in moved.tensors() if one.is_conj() or one.is_neg()]
            script = _per_name(marked, code)
            yield Moved(f"{listed(marked)} {words}", moved, script)


def _per_name(names: list[str], code: str) -> Callable[[Callable[[str], str]], str]:
    return lambda at: "\n".join(code.format(one=at(name)) for name in names)


def _conjugated(name: str, tensor: torch.Tensor) -> torch.Tensor | None:
    return tensor.detach().conj().resolve_conj().conj() if tensor.is_complex() else None


def _negated(name: str, tensor: torch.Tensor) -> torch.Tensor | None:
    real = tensor.dtype.is_floating_point and tensor.dtype.itemsize > 1
    return neg_view(-tensor.detach()) if real else None


def _script(places: dict[str, Place], placing: Placing, at: Callable[[str], str]) -> str:
    lines = []
    for name, place in places.items():
        one = at(name)
        if placing.repeats is not None:
            lines.append(f"{one} = {one}.narrow({placing.repeats}, 0, 1).expand({one}.shape)")
        lines.append(f"{one} = lay_out({one}, {place.strides}, {place.offset}, {place.size})")
    return "\n".join(lines)


LAY_OUT = """

def lay_out(t, strides, offset, size):
    home = torch.empty(size, dtype=t.dtype, device=t.device)
    home.copy_(torch.full((), float("nan")) if t.is_floating_point() else t.flatten()[0])
    laid = home.as_strided(t.shape, strides, offset)
    part = laid
    for dim, stride in enumerate(strides):
        if stride == 0:
            part, t = part.narrow(dim, 0, 1), t.narrow(dim, 0, 1)
    part.copy_(t)
    return laid
"""
