"""The raw bytes of storages: what changed in them, and which tensors share them."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ....cases.arguments import Arguments
from ....cases.describe import summary
from ....cases.tensors import base_name, is_plain, storage_bytes


def share_memory(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two dense tensors have a byte in common."""
    if left.device != right.device or not (has_elements(left) and has_elements(right)):
        return False
    (low, high), (start, end) = _span(left), _span(right)
    if high <= start or end <= low:
        return False
    return not _interleaved(left, right)


def has_elements(tensor: torch.Tensor) -> bool:
    """Whether it is a dense tensor with elements in memory."""
    return is_plain(tensor) and tensor.numel() > 0 and not tensor.is_meta


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """The addresses of the first byte and of the byte after the last."""
    start = tensor.data_ptr()
    places = zip(tensor.shape, tensor.stride(), strict=True)
    length = 1 + sum((size - 1) * stride for size, stride in places)
    return start, start + length * tensor.element_size()


def _interleaved(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two tensors with overlapping spans share no element: `x[::2]` and `x[1::2]`."""
    size = left.element_size()
    if size != right.element_size() or (left.data_ptr() - right.data_ptr()) % size:
        return False
    low = min(left.data_ptr(), right.data_ptr())
    high = max(_span(left)[1], _span(right)[1])
    taken = torch.zeros((high - low) // size, dtype=torch.bool)

    def place(tensor: torch.Tensor) -> torch.Tensor:
        offset = (tensor.data_ptr() - low) // size
        return taken.as_strided(tensor.shape, tensor.stride(), offset)

    place(left).fill_(True)
    return not bool(place(right).any())


@dataclass(frozen=True)
class Write:
    """Bytes that a call changed although the schema does not allow it.

    Args:
        argument: the path of the argument.
        what: `element [1, 2]`, or the place outside the elements.
        outside: whether no byte belongs to an element of an argument.
    """

    argument: str
    what: str
    outside: bool


class Snapshot:
    """The state of the tensors of a set of arguments: every byte, versions and metadata."""

    def __init__(self, arguments: Arguments) -> None:
        self._arguments = arguments
        self._tensors = [(name, tensor) for name, tensor in arguments.tensors() if is_plain(tensor)]
        self._opaque = [
            (name, tensor, tensor.detach().clone())
            for name, tensor in arguments.tensors()
            if not is_plain(tensor)
        ]
        self._facts = {name: _facts(tensor) for name, tensor in self._tensors}
        self._homes = {name: storage_bytes(tensor) for name, tensor in self._tensors}
        self._bytes = {name: home.clone() for name, home in self._homes.items()}
        self.versions = {name: tensor._version for name, tensor in arguments.tensors()}

    def mutated(self) -> set[str]:
        """The paths of the declared arguments whose bytes, shape or strides changed."""
        names = set()
        for name, tensor in self._declared():
            if _facts(tensor) != self._facts[name]:
                names.add(name)
                continue
            changed = self._changed(name)
            if changed is not None and bool((changed & _elements(tensor)).any()):
                names.add(name)
        return names

    def forbidden(self) -> Write | None:
        """The first change that the schema does not allow."""
        declared = self._arguments.op.mutated
        for name, tensor in self._tensors:
            if _facts(tensor) != self._facts[name]:
                if base_name(name) in declared:
                    return None  # resize_, transpose_: bytes can no longer be assigned to elements
                return Write(name, f"it became {summary(tensor)}", False)
        for name, tensor, before in self._opaque:
            if base_name(name) not in declared and not _same_opaque(tensor, before):
                return Write(name, "its values", False)
        for name, tensor in self._tensors:
            write = self._forbidden_in(name, tensor)
            if write:
                return write
        return None

    def restored(self) -> str | None:
        """An undeclared argument whose version counter moved."""
        for name, tensor in self._arguments.tensors():
            declared = base_name(name) in self._arguments.op.mutated
            if not declared and tensor._version != self.versions[name]:
                return name
        return None

    def unversioned(self) -> str | None:
        """A declared argument that changed although its version counter did not move."""
        moved = {
            name for name, tensor in self._declared() if tensor._version != self.versions[name]
        }
        return min(self.mutated() - moved, default=None)

    def _declared(self) -> list[tuple[str, torch.Tensor]]:
        written = self._arguments.op.mutated
        return [(name, tensor) for name, tensor in self._tensors if base_name(name) in written]

    def _changed(self, name: str) -> torch.Tensor | None:
        """Which bytes of an argument's storage changed; None if none did."""
        home, before = self._homes[name], self._bytes[name]
        return None if torch.equal(home, before) else home != before

    def _forbidden_in(self, name: str, tensor: torch.Tensor) -> Write | None:
        changed = self._changed(name)
        if changed is None:
            return None
        home = tensor.untyped_storage().data_ptr()
        sharing = [
            (path, member)
            for path, member in self._tensors
            if member.untyped_storage().data_ptr() == home
        ]
        declared = self._arguments.op.mutated
        for path, member in sharing:
            if base_name(path) in declared:
                changed = changed & ~_elements(member)
        for path, member in sharing:
            if base_name(path) not in declared and bool((changed & _elements(member)).any()):
                return Write(path, _first_element(member, changed, self._bytes[path]), False)
        if not bool(changed.any()):
            return None
        return Write(name, _place(tensor, changed), True)


def _facts(tensor: torch.Tensor) -> tuple[object, ...]:
    place = (tensor.untyped_storage().data_ptr(), tensor.storage_offset())
    return (tuple(tensor.shape), tensor.stride(), tensor.dtype, tensor.requires_grad, *place)


def _same_opaque(tensor: torch.Tensor, before: torch.Tensor) -> bool:
    from .calls import first_difference

    return first_difference([("", tensor.detach())], [("", before)]) is None


def _elements(tensor: torch.Tensor) -> torch.Tensor:
    """Which bytes of its storage belong to elements of the tensor."""
    size = tensor.element_size()
    mask = torch.zeros(tensor.untyped_storage().nbytes(), dtype=torch.bool, device=tensor.device)
    if not tensor.numel():
        return mask
    strides = [size * stride for stride in tensor.stride()]
    offset = size * tensor.storage_offset()
    place = mask.as_strided((*tensor.shape, size), (*strides, 1), offset)
    for dim, stride in enumerate(tensor.stride()):
        if stride == 0:
            place = place.narrow(dim, 0, 1)
    place.fill_(True)
    return mask


def _first_element(tensor: torch.Tensor, changed: torch.Tensor, before: torch.Tensor) -> str:
    """Text with the number of changed elements, and the first one before and after."""
    size = tensor.element_size()
    strides = [size * stride for stride in tensor.stride()]
    offset = size * tensor.storage_offset()
    touched = changed.as_strided((*tensor.shape, size), (*strides, 1), offset).any(-1)
    index = [int(i) for i in touched.nonzero()[0]]
    at = offset + sum(position * stride for position, stride in zip(index, strides, strict=True))
    old = before[at : at + size].clone().view(tensor.dtype)
    was, now = (repr(element.item()) for element in (old, tensor.detach()[tuple(index)]))
    text = "one element" if not index else f"element {index}"
    bits = " (other bits)" if was == now else ""
    return (
        f"{int(touched.sum())} of {tensor.numel()} elements, first {text}, {was} before and {now} "
        f"now{bits}"
    )


def _place(tensor: torch.Tensor, changed: torch.Tensor) -> str:
    """Text that says where changed bytes lie that belong to no element."""
    bytes_ = changed.nonzero().flatten()
    start = tensor.storage_offset() * tensor.element_size()
    end = start + _span(tensor)[1] - _span(tensor)[0]
    first = int(bytes_[0])
    count = f"{len(bytes_)} bytes"
    if first < start:
        return f"{count} before its first element"
    return f"{count} after its last element" if first >= end else f"{count} between its rows"
