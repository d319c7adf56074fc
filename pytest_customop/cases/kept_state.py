"""Find out whether the Python code of an op refers to anything that it could keep between calls."""

from __future__ import annotations

import builtins
import dis
import functools
import re
import types
from enum import Enum
from typing import Any

import torch

from ..compat.ops import is_made_by_custom_op
from ..core.functions import code_of, is_of_library, known_names
from ..declare.ops import Op
from .crash_risk import crash_risk
from .documentation import python_functions

_DEPTH = 4  # levels of functions that call functions
_CONSTANTS = (
    *(bool, int, float, complex, str, bytes, type(None), type(...), Enum, re.Pattern),
    *(torch.dtype, torch.device, torch.memory_format, torch.layout),
)
# What changes the state of a library or of the process, or reaches objects that no name tells.
_ELSEWHERE = re.compile(
    r"ops|apply|set_\w+|set[a-z]+attr|setattr|delattr|globals|vars|exec|eval|__import__|import_module"
    r"|(manual_)?seed\w*|rand\w*|\w*rng\w*|\w*generator\w*|environ|putenv|errstate|seterr\w*|compile"
    r"|lru_cache|cache|__dict__|__\w*class__"
)


@functools.lru_cache(maxsize=256)
def may_keep_state(op: Op, device: str) -> bool:
    """Whether a call of an op could leave something behind that a later call finds.

    False only for an op of `torch.library.custom_op` whose code is known: if it refers to nothing but
    functions of the same kind, functions of torch and numpy, and constants.
    """
    if not is_made_by_custom_op(op.overload) or crash_risk(op, device) is not None:
        return True
    functions = python_functions(op)
    return not functions or any(_may_keep(function, _DEPTH) for function in functions)


def _may_keep(function: Any, depth: int) -> bool:
    """Whether a function written by the author could keep something."""
    code = code_of(function)
    if type(function) is not types.FunctionType or code is None or depth == 0:
        return True
    defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    if not all(map(_is_constant, defaults)) or not {*vars(function)} <= {"__wrapped__"}:
        return True
    known = known_names(function)
    return _writes_outside(code) or any(
        not (name in known or hasattr(builtins, name))
        or (name in known and _could_hold(known[name], depth - 1))
        for name in _names_from_outside(code)
    )


def _could_hold(value: Any, depth: int) -> bool:
    """Whether a value that a function refers to could hold something between its calls."""
    if _is_constant(value):
        return False
    if isinstance(value, types.BuiltinFunctionType):  # a method of an object too
        return not isinstance(value.__self__, types.ModuleType | None)
    if isinstance(value, types.ModuleType):
        return value.__name__.partition(".")[0] not in ("torch", "numpy", "math", "typing")
    if isinstance(value, type):
        return value.__module__.partition(".")[0] not in ("torch", "numpy", "builtins")
    if type(value) is types.FunctionType and is_of_library(value):
        return False
    return _may_keep(value, depth)


def _is_constant(value: Any) -> bool:
    if isinstance(value, (tuple, frozenset)):
        return all(map(_is_constant, value))
    return isinstance(value, _CONSTANTS)


def _codes(code: types.CodeType) -> list[types.CodeType]:
    """A code and those of the functions that are defined in it."""
    inner = [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return [code, *(found for each in inner for found in _codes(each))]


def _names_from_outside(code: types.CodeType) -> set[str]:
    """The globals that a code reads, and the variables of the functions around it."""
    return {
        *code.co_freevars,
        *(
            step.argval
            for each in _codes(code)
            for step in dis.get_instructions(each)
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")
        ),
    }


def _writes_outside(code: types.CodeType) -> bool:
    """Whether a code changes a variable or an attribute that outlives it, or uses what might."""
    for each in _codes(code):
        if any(map(_ELSEWHERE.fullmatch, each.co_names)):
            return True
        before = ""
        for step in dis.get_instructions(each):
            if step.opname in ("STORE_GLOBAL", "DELETE_GLOBAL", "IMPORT_NAME"):
                return True
            if step.opname == "STORE_DEREF" and step.argval in code.co_freevars:
                return True
            # `ctx.scale = scale` is the attribute of a local variable.
            if step.opname == "STORE_ATTR" and not before.startswith("LOAD_FAST"):
                return True
            before = step.opname
    return False
