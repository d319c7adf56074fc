"""What a plugin for a device does: register it before its name is looked up, and answer for it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

NAME = "mydevice"


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register the device where it is asked for: here it takes a compiler and half a minute, once."""
    if NAME in (config.getoption("customop_devices") or ""):
        sys.path.insert(0, str(Path(__file__).parent))
        import mydevice

        mydevice.register(NAME)


def pytest_customop_device_available(device: str) -> bool | str | None:
    """Answer for this device, and leave every other one to torch."""
    kind, _, index = device.partition(":")
    if kind != NAME:
        return None
    return True if index in ("", "0") else "this machine has one of them"
