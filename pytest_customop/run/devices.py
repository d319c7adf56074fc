"""Whether a device is here, and which of several a worker has."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from ..core.hooks import call_hook


def why_absent(device: str, hook: Any) -> str | None:
    """Why a device cannot be used here, or None if it can.

    Args:
        device: one that torch knows, `cuda` or `cuda:1`.
        hook: where `pytest_customop_device_available` is asked first.
    """
    answer = call_hook(hook.pytest_customop_device_available, device=device)
    if answer is not None:
        if answer is True:
            return None
        return f"device {device} is not available: {answer or 'a plugin says so'}"
    reason = _torch_says(torch.device(device))
    return f"device {device} is not available: {reason}; here is {_present()}" if reason else None


def _torch_says(device: torch.device) -> str | None:
    if device.type == "cpu":
        return None
    module: Any = getattr(torch, device.type, None)
    if not callable(getattr(module, "is_available", None)):
        return f"this torch ({torch.__version__}) has no torch.{device.type}"
    if not module.is_available():
        return f"torch.{device.type}.is_available() is False (torch {torch.__version__})"
    count = module.device_count() if hasattr(module, "device_count") else 1
    if device.index is not None and device.index >= count:
        return f"there are {count} {device.type} devices"
    return None


def _present() -> str:
    names = [name for name in ("cuda", "xpu", "mps") if _torch_says(torch.device(name)) is None]
    return ", ".join(["cpu", *names])


def own_index(worker: int, count: int) -> int:
    """The device of a worker, so that workers spread evenly over devices."""
    return worker % count


@contextlib.contextmanager
def own_devices(devices: Iterable[str], worker: int | None) -> Iterator[None]:
    """Let a bare device type, `cuda`, mean this worker's own device inside the block.

    It becomes the current device: that is what `cuda` means to torch, and kernels that are launched
    without a guard run there too. A device with an index stays what it is.

    Args:
        worker: counted from 0; None outside of xdist, where nothing changes.
    """
    before: list[tuple[Any, int]] = []
    try:
        for device in devices if worker is not None else ():
            module = _several(torch.device(device))
            if module is not None and worker is not None:
                before.append((module, module.current_device()))
                module.set_device(own_index(worker, module.device_count()))
        yield
    finally:
        for module, index in before:
            module.set_device(index)


def _several(device: torch.device) -> Any:
    """What torch offers for a bare device type of which there are several here, or None."""
    module: Any = getattr(torch, device.type, None)
    wanted = ("is_available", "device_count", "current_device", "set_device")
    if device.index is not None or not all(hasattr(module, name) for name in wanted):
        return None
    return module if module.is_available() and module.device_count() > 1 else None
