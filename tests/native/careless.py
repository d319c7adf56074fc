"""The C++ ops of `careless.cpp`, built."""

from pathlib import Path

import torch
from torch.utils import cpp_extension

SOURCE = Path(__file__).with_name("careless.cpp")


def build(folder: Path) -> None:
    """Compile the ops into a folder of their own in this one, and load them."""
    own = folder / "careless"
    own.mkdir(exist_ok=True)
    cpp_extension.load(
        "zoo_careless", [str(SOURCE)], build_directory=str(own), is_python_module=False
    )
    for name in ("static_workspace", "thread_workspace", "locked_workspace"):
        torch.library.register_fake(f"zoo_careless::{name}", torch.empty_like)
