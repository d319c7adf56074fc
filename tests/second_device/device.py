"""A second device for tests on a machine without one: `second`, a backend in the place of `privateuse1`.

It cannot be taken back, so it is for processes of their own.
"""

from pathlib import Path
from types import ModuleType

import torch
from torch.utils import cpp_extension

NAME = "second"


def register(folder: Path) -> None:
    """Build the backend into the folder, unless it is there, and register it."""
    source = Path(__file__).with_name("backend.cpp")
    cpp_extension.load(
        "second_device",
        [str(source)],
        build_directory=str(folder),
        extra_cflags=["-O0"],
        is_python_module=False,
    )
    torch.utils.rename_privateuse1_backend(NAME)
    module = ModuleType(NAME)
    vars(module).update(
        is_available=lambda: True,
        is_initialized=lambda: True,
        device_count=lambda: 1,
        current_device=lambda: 0,
        manual_seed_all=lambda seed: None,
        _is_in_bad_fork=lambda: False,
    )
    torch._register_device_module(NAME, module)
