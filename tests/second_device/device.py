"""A second device for tests on a machine without one: that of `examples/own_device`, named `second`.

It cannot be taken back, so it is for processes of their own.
"""

from pathlib import Path

from examples.own_device import mydevice

NAME = "second"


def register(folder: Path) -> None:
    """Build the backend into the folder, unless it is there, and register it."""
    mydevice.register(NAME, str(folder))
