"""Notice that a device is lost to this process: after an illegal memory access, every call on a GPU raises.

The error is reported late, at whatever call comes next. So the device is asked after each call of an op.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .tracebacks import message_line

_errors: dict[str, str] = {}  # by device type
_listeners: list[Callable[[str, str], None]] = []


def error_of(device: str) -> str | None:
    """The error that every call on a device raises in this process, as far as it has been noticed."""
    return _errors.get(device.partition(":")[0])


def wait_for(device: str) -> str | None:
    """Wait until a device has done its work; the error if it is lost, None if it can still be used."""
    kind = device.partition(":")[0]
    if kind == "cpu" or kind in _errors:
        return _errors.get(kind)
    first, second = _raised(device), None
    if first is not None:
        second = _raised(device)  # an error of one call is not raised again
    if second is None:
        return None
    error = _errors[kind] = message_line(second)
    for listen in _listeners:
        listen(kind, error)
    return error


def when_lost(listen: Callable[[str, str], None]) -> None:
    """Call a function as soon as a device is lost, with the device's type and the error."""
    _listeners.append(listen)


def loss(device: str, error: str) -> str:
    """What an op does to a device that is lost after its call; follows the op's name."""
    return f"leaves {device.partition(':')[0]} unusable ({error})"


def is_assertion(error: str) -> bool:
    """Whether the error is that of an `assert` in a kernel, which is how a kernel on a GPU rejects values.

    torch's own kernels do so for a position out of range.
    """
    return "device-side assert" in error


def _raised(device: str) -> RuntimeError | None:
    """The error of the calls that a device has still to finish."""
    import torch

    module: Any = getattr(torch, device.partition(":")[0], None)
    is_used = getattr(module, "is_initialized", None)
    if not hasattr(module, "synchronize") or (is_used is not None and not is_used()):
        return None
    try:
        if ":" in device:
            module.synchronize(torch.device(device))
        else:
            module.synchronize()
    except RuntimeError as error:
        return error
    return None
