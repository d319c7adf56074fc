"""Whether a device is here."""

from __future__ import annotations

from typing import Any

import torch


def why_absent(device: str, hook: Any) -> str | None:
    """Why a device cannot be used here, or None if it can.

    Args:
        device: one that torch knows, `cuda` or `cuda:1`.
        hook: where `pytest_customop_device_available` is asked first.
    """
    answer = hook.pytest_customop_device_available(device=device)
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
