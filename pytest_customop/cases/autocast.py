"""`torch.autocast` on a case's device."""

from __future__ import annotations

import torch

from ..core.wording import dtype_name
from ..findings import skip
from .case import Case


def autocast_device(case: Case) -> str:
    """The type of the case's device, for `torch.autocast`.

    Raises:
        CheckSkipped: if there is no autocast on it.
    """
    device = torch.device(case.placement.device).type
    if device == "meta" or not _has_autocast(device):
        raise skip("nothing-to-check", f"there is no autocast on {device}", unjudged=False)
    return device


def autocast_text(device: str) -> str:
    """The context with its dtype, for a message."""
    return f"torch.autocast({device!r}, {dtype_name(torch.get_autocast_dtype(device))})"


def _has_autocast(device: str) -> bool:
    """Whether a device type has autocast; a backend outside of torch may lack what autocast needs."""
    if not torch.amp.is_autocast_available(device):
        return False
    try:
        torch.autocast(device)
    except (AssertionError, RuntimeError):
        return False
    return True
