"""Watch a Python kernel to find the outputs that follow the device of its inputs.

On a machine with only a CPU, such an output looks like one that is always on the CPU. So the device is
followed through the kernel's calls of torch, from the inputs to the outputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ...cases.arguments import Arguments
from ...cases.tensors import output_leaves
from ...compat.ops import OpOverload, OpOverloadPacket

# Calls that move to the CPU, or read the memory of a tensor that is on the CPU.
_TO_CPU = ("cpu", "numpy", "__array__")
_MOVING = ("cpu", "to", "type_as")
# Calls that accept CPU tensors beside tensors of another device.
_MIXING = ("__getitem__", "__setitem__", "index_put", "index_put_", "copy_", "to", "type_as")


@dataclass(frozen=True)
class KernelDevices:
    """Where a kernel puts its outputs.

    Args:
        following: the outputs that are on the device of the inputs, whichever that is.
        portable: False if the kernel takes a step that works only on the CPU.
    """

    following: frozenset[str]
    portable: bool


def watch_kernel(kernel: Any, arguments: Arguments) -> KernelDevices | None:
    """Run a Python kernel on its arguments, and follow the device of its inputs.

    Args:
        kernel: the author's function.
        arguments: they may be written to.

    Returns:
        None if the kernel cannot be run alone.
    """
    watch = _Watch(arguments)
    try:
        with torch.no_grad(), watch:
            result = kernel(*arguments.args, **arguments.kwargs)
    except Exception:  # the kernel depends on what torch does around it
        return None
    following = {name for name, leaf in output_leaves(result) if watch.follows(leaf)}
    return KernelDevices(frozenset(following), watch.portable)


class _Watch(TorchFunctionMode):
    """Follows tensors, and devices that were read from tensors, through calls of torch."""

    def __init__(self, arguments: Arguments) -> None:
        super().__init__()
        self.portable = True
        self._known: dict[int, bool] = {}
        self._kept: list[Any] = []  # no other object gets the id of one of these
        for value in (*arguments.args, *arguments.kwargs.values()):
            for leaf in _leaves(value):
                self._note(leaf, True)

    def follows(self, value: Any) -> bool:
        """Whether a tensor is known to be on the inputs' device, or a device to be that device."""
        return self._known.get(id(value), False)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        leaves = list(_leaves((args, *(kwargs or {}).values())))
        result = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "")
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        following = any(map(self.follows, tensors))
        if following and self._is_bound_to_cpu(name, tensors):
            self.portable = False
        devices = [leaf for leaf in leaves if isinstance(leaf, torch.device)]
        if devices:
            follows = all(map(self.follows, devices))
        else:
            follows = following and self._keeps_device(func, name, leaves, tensors)
        if name in _MOVING and any(result is tensor for tensor in tensors):
            result = result.detach()  # nothing moved; a new object can have its own entry
        for leaf in _leaves(result):
            self._note(leaf, follows)
        return result

    def _is_bound_to_cpu(self, name: str, tensors: list[torch.Tensor]) -> bool:
        """Whether a call with a tensor on the inputs' device works only if that is the CPU."""
        if name in _TO_CPU[1:]:
            return self.follows(tensors[0])
        mixed = any(tensor.dim() and not self.follows(tensor) for tensor in tensors)
        return mixed and name not in _MIXING

    def _keeps_device(
        self, func: Any, name: str, leaves: list[Any], tensors: list[torch.Tensor]
    ) -> bool:
        """Whether a call with a tensor on the inputs' device, but no device argument, stays on it."""
        if name in _TO_CPU or any(isinstance(leaf, str) and _is_device(leaf) for leaf in leaves):
            return False
        is_op = isinstance(func, (OpOverload, OpOverloadPacket))
        if is_op and not str(func).startswith(("aten.", "prims.")):
            return False  # an author's op may put its outputs anywhere
        if name in _MIXING:
            return self.follows(tensors[-1 if name in ("to", "type_as") else 0])
        return True

    def _note(self, value: Any, follows: bool) -> None:
        if isinstance(value, (torch.Tensor, torch.device)) and id(value) not in self._known:
            self._known[id(value)] = follows
            self._kept.append(value)


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for element in value:
            yield from _leaves(element)
    else:
        yield value


def _is_device(text: str) -> bool:
    try:
        torch.device(text)
    except RuntimeError:
        return False
    return True
