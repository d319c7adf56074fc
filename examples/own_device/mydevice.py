"""A device that is not in torch, in the place that torch keeps for one: `privateuse1`.

`backend.cpp` gives it memory, a device guard and copies; what it has no kernel for runs on the CPU. A real
backend would be a package of its own, which registers itself when it is imported.
"""

from pathlib import Path
from types import ModuleType

import torch
from torch.utils import cpp_extension

GENERATOR = torch.Generator()  # of the random numbers that kernels of the device draw
SOURCE = Path(__file__).with_name("backend.cpp")


def register(name: str = "mydevice", build_directory: str | None = None) -> None:
    """Build the backend, unless it is built already, and have torch know it by a name.

    It cannot be taken back, and a process has one such device.

    Args:
        name: what stands in `torch.device(...)`.
        build_directory: an existing folder; None: that of torch's extensions, `TORCH_EXTENSIONS_DIR`.
    """
    cpp_extension.load(
        "pytest_customop_own_device",
        [str(SOURCE)],
        build_directory=build_directory,
        extra_cflags=["-O0"],
        is_python_module=False,
    )
    torch.utils.rename_privateuse1_backend(name)
    module = ModuleType(f"torch.{name}")
    vars(module).update(
        is_available=lambda: True,
        is_initialized=lambda: True,
        device_count=lambda: 1,
        current_device=lambda: 0,
        manual_seed_all=GENERATOR.manual_seed,
        get_rng_state=lambda device=0: GENERATOR.get_state(),
        set_rng_state=lambda state, device=0: GENERATOR.set_state(state),
        _is_in_bad_fork=lambda: False,
    )
    torch._register_device_module(name, module)
