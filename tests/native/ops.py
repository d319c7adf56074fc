"""The C++ ops of this folder, built and given their fake kernels and formulas."""

from pathlib import Path
from typing import Any

import torch
from torch.utils import cpp_extension

_HERE = Path(__file__).parent
SOURCES = (_HERE / "dot_rows.cpp", _HERE / "no_formula.cpp")  # one library, zoo_native


def why_not() -> str:
    """Why a C++ op cannot be built here; empty if it can."""
    compiler = cpp_extension.get_cxx_compiler()
    if not cpp_extension.check_compiler_ok_for_platform(compiler):
        return f"there is no C++ compiler ({compiler})"
    return "" if cpp_extension.is_ninja_available() else "ninja is not installed"


def build(folder: Path) -> None:
    """Compile the ops into the folder, load them, and register what Python has to."""
    cpp_extension.load(
        "zoo_native", list(map(str, SOURCES)), build_directory=str(folder), is_python_module=False
    )
    _register("dot_rows")
    _register("dot_rows_in_place")
    _register("dot_rows_wide_fake", dtype=torch.float64)
    for name in ("square_without_formula", "square_raising"):
        torch.library.register_fake(f"zoo_native::{name}", lambda x: x.new_empty(x.shape))


def _register(name: str, **options: Any) -> None:
    def setup(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.scale = keyword_only_inputs["scale"]

    def backward(ctx: Any, grad: torch.Tensor) -> tuple:
        x, y = ctx.saved_tensors
        weighted = (grad * ctx.scale)[:, None]
        return weighted * y, weighted * x

    torch.library.register_fake(
        f"zoo_native::{name}", lambda x, y, *, scale=1.0: x.new_empty(x.shape[0], **options)
    )
    torch.library.register_autograd(f"zoo_native::{name}", backward, setup_context=setup)
