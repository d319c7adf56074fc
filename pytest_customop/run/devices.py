"""Find out whether a device is available, and assign one of several to a worker of xdist."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from ..core.hooks import call_hook
from ..settings.values import DEVICE_PACKAGES


def why_absent(device: str, hook: Any) -> str | None:
    """Why a device is not available; None if it is.

    Args:
        device: a device of torch, such as `cuda` or `cuda:1`, or of another package, such as `npu`.
        hook: pytest's hooks. `pytest_customop_device_available` is asked first, then torch.
    """
    kind = device.partition(":")[0]
    if kind in DEVICE_PACKAGES and not _is_known(kind):
        package = DEVICE_PACKAGES[kind]
        reason = f"this torch ({torch.__version__}) knows it once {package} is imported"
        return f"device {device} is not available: {reason}; here is {_present()}"
    answer = call_hook(hook.pytest_customop_device_available, device=device)
    if answer is not None:
        if answer is True:
            return None
        return f"device {device} is not available: {answer or 'a plugin says so'}"
    missing = _why_absent_in_torch(torch.device(device))
    return f"device {device} is not available: {missing}; here is {_present()}" if missing else None


def _is_known(kind: str) -> bool:
    """Whether torch knows a type of devices."""
    try:
        torch.device(kind)
    except RuntimeError:
        return False
    return True


def _why_absent_in_torch(device: torch.device) -> str | None:
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
    names = [
        name for name in ("cuda", "xpu", "mps") if _why_absent_in_torch(torch.device(name)) is None
    ]
    return ", ".join(["cpu", *names])


def device_index(worker: int, count: int) -> int:
    """The index of a worker's device among `count` devices. Workers are spread evenly."""
    return worker % count


@contextlib.contextmanager
def worker_devices(devices: Iterable[str], worker: int | None) -> Iterator[None]:
    """Let `cuda`, without an index, mean this worker's device inside the block.

    The worker's device becomes the current device. torch uses it where no index is given, and kernels
    launched without a device guard run on it. Devices with an index are not touched.

    Args:
        devices: as in `--customop-devices`.
        worker: its number, from 0. None outside of xdist, where nothing changes.
    """
    before: list[tuple[Any, int]] = []
    try:
        for device in devices if worker is not None else ():
            module = _several(torch.device(device)) if _is_known(device) else None
            if module is not None and worker is not None:
                before.append((module, module.current_device()))
                module.set_device(device_index(worker, module.device_count()))
        yield
    finally:
        for module, index in before:
            module.set_device(index)


def _several(device: torch.device) -> Any:
    """torch's module for a device without an index, if there are several of its type; None otherwise."""
    module: Any = getattr(torch, device.type, None)
    names = ("is_available", "device_count", "current_device", "set_device")
    if device.index is not None or not all(hasattr(module, name) for name in names):
        return None
    return module if module.is_available() and module.device_count() > 1 else None
