"""Find the location of a test function or class, and whether it has a body to run."""

from __future__ import annotations

import dis
import inspect
import types
from typing import Any


def place_of(obj: Any) -> str:
    """File, line and name of a function or class, for messages."""
    plain = _plain(obj)
    code = getattr(plain, "__code__", None)
    try:
        line = code.co_firstlineno if code else inspect.getsourcelines(plain)[1]
        file = code.co_filename if code else inspect.getsourcefile(plain)
    except (OSError, TypeError):
        return str(plain.__qualname__)
    return f"{file}:{line} ({plain.__qualname__})"


def has_body(marked: Any) -> bool:
    """Whether a marked test has something to run once per case.

    For a class: whether one of its methods requests `customop_case`.
    """
    if not isinstance(marked, type):
        return not is_empty(marked)
    members = [member for base in marked.__mro__ for member in vars(base).values()]
    kinds = (types.FunctionType, staticmethod, classmethod)
    methods = [_plain(member) for member in members if isinstance(member, kinds)]
    return any("customop_case" in inspect.signature(method).parameters for method in methods)


def is_empty(function: Any) -> bool:
    """Whether a function's body does nothing: `...`, `pass`, or a docstring."""
    skipped = {"RESUME", "NOP", "GEN_START", "RETURN_GENERATOR", "POP_TOP", "COPY_FREE_VARS"}
    steps = []
    for step in dis.get_instructions(_plain(function).__code__):
        if step.opname not in skipped:
            steps.append((step.opname, step.argval))
        if step.opname in ("RETURN_VALUE", "RETURN_CONST"):
            break
    return steps in ([("LOAD_CONST", None), ("RETURN_VALUE", None)], [("RETURN_CONST", None)])


def _plain(obj: Any) -> Any:
    """The function inside a static or class method, and inside decorators that set `__wrapped__`."""
    return inspect.unwrap(getattr(obj, "__func__", obj))
