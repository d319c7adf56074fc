"""Read the code of a Python function, and the names that it refers to."""

from __future__ import annotations

import contextlib
import types
from typing import Any


def code_of(function: Any) -> types.CodeType | None:
    """The code of a function written in Python; None for anything else."""
    code = getattr(function, "__code__", None)
    return code if isinstance(code, types.CodeType) else None


def is_of_library(function: Any) -> bool:
    """Whether a function is torch's, numpy's or the like, such as `torch.empty_like` as a fake kernel."""
    package = str(getattr(function, "__module__", "")).partition(".")[0]
    return package in ("torch", "numpy", "scipy", "numba")


def known_names(function: Any) -> dict[str, Any]:
    """The globals of a Python function, and the values that it closes over, by name."""
    names, cells = function.__code__.co_freevars, function.__closure__ or ()
    closed_over: dict[str, Any] = {}
    for name, cell in zip(names, cells, strict=True):
        with contextlib.suppress(ValueError):  # not filled yet
            closed_over[name] = cell.cell_contents
    return {**function.__globals__, **closed_over}
