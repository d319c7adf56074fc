"""Fake tensors on a device that this machine does not have, and tensors that code then puts on the CPU.

Inside a custom op, real or fake, `torch.empty(3)` gives a tensor on the CPU, whatever default device the
caller has set: torch calls the op without the modes of the caller. So the default device is set here,
inside the call, where the author's code runs.

Fake tensors of device types other than `meta` must not require gradients: if torch is built without
support for the device type, it ends the process when it records the call for autograd.

Private names, seen in torch 2.4 to 2.15:

- `torch._subclasses.fake_tensor.FakeTensorMode`, and its attribute `cache_enabled`: see `fakes`. Its cache
  ignores default devices.
- `torch.fx.experimental.symbolic_shapes.ShapeEnv`: see `fakes`.
- `torch.utils._device.DeviceContext`: what `with torch.device(...)` enters. Public: that, and
  `torch.set_default_device`; neither reaches the code inside of an op.
- `torch.autograd.graph.Node.register_prehook` and `register_hook`: public; called in the thread that runs
  the node.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._device import DeviceContext

from .tensors import neg_view


class DefaultDevice(TorchFunctionMode):
    """Inside, tensors that are created without `device=` are created on this device.

    Unlike `with torch.device(...)`, it changes nothing that outlives an exception in a backward.
    """

    def __init__(self, device: str) -> None:
        super().__init__()
        self._context: Any = DeviceContext(device)  # never entered

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self._context.__torch_function__(func, types, args, kwargs or {})


def fake_mode_with_default(device: str | None) -> Any:
    """A FakeTensorMode whose fake kernels run with a default device.

    Its attribute `calls` lists the ops that were called, each as an OpOverload, in order.

    Args:
        device: the default device; None: the CPU, as always.
    """
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    return _mode_class()(device, ShapeEnv(allow_scalar_outputs=True))


@functools.cache
def _mode_class() -> Any:
    from torch._subclasses.fake_tensor import FakeTensorMode

    class WithDefault(FakeTensorMode):  # type: ignore[no-untyped-call]
        def __init__(self, device: str | None, shape_env: Any) -> None:
            super().__init__(shape_env=shape_env)
            self.cache_enabled = False
            self.default_device = device
            self.calls: list[Any] = []

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            self.calls.append(func)
            if self.default_device is None:
                return super().__torch_dispatch__(func, types, args, kwargs or {})
            with DefaultDevice(self.default_device):
                return super().__torch_dispatch__(func, types, args, kwargs or {})

    return WithDefault


@functools.cache
def can_be_faked(device: str) -> bool:
    """Whether this torch can create fake tensors of a device type; with CUDA in use, not for every type."""
    try:
        with fake_mode_with_default(None):
            torch.empty(1, device=device)
    except (AssertionError, RuntimeError):
        return False
    return True


def fake_like(mode: Any, tensor: torch.Tensor, device: str) -> torch.Tensor:
    """A fake tensor with the size, strides, offset and dtype of a real one, on another device.

    Args:
        mode: from `fake_mode_with_default`.
        tensor: a dense one. Whether it requires gradients is not copied.
        device: the type of a device, which need not be here.
    """
    offset, strides = tensor.storage_offset(), tensor.stride()
    with torch.no_grad(), mode:
        if not offset:
            fake = torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=device)
        else:
            last = sum((n - 1) * step for n, step in zip(tensor.shape, strides, strict=True))
            size = offset + (last + 1 if tensor.numel() else 0)
            home = torch.empty(size, dtype=tensor.dtype, device=device)
            fake = home.as_strided(tensor.shape, strides, offset)
        if tensor.is_conj():
            fake = fake.conj()
        return neg_view(fake) if tensor.is_neg() else fake


def default_device_in_backward(outputs: Iterable[torch.Tensor], device: str) -> None:
    """Let the backward of these outputs run with a default device.

    torch calls a backward without the modes of the caller, so every node of the graph gets it.
    """
    for node in _nodes(outputs):
        mode = DefaultDevice(device)
        node.register_prehook(functools.partial(_enter, mode))
        node.register_hook(functools.partial(_leave, mode))


def _nodes(outputs: Iterable[torch.Tensor]) -> list[Any]:
    nodes: dict[Any, None] = {}
    todo = [tensor.grad_fn for tensor in outputs]
    while todo:
        node = todo.pop()
        if node is not None and node not in nodes:
            nodes[node] = None
            todo += [before for before, _ in node.next_functions]
    return [node for node in nodes if node.next_functions]  # the rest accumulate gradients


def _enter(mode: DefaultDevice, grad_outputs: Any) -> None:
    # If the node raises, torch's engine removes the mode with the rest of the thread's state.
    mode.__enter__()  # type: ignore[no-untyped-call]


def _leave(mode: DefaultDevice, grad_inputs: Any, grad_outputs: Any) -> None:
    mode.__exit__(None, None, None)  # type: ignore[no-untyped-call]
