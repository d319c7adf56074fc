"""Find out whether an op that gets unexpected arguments could crash the process."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Iterator, Mapping
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ..compat.ops import kernel_function, kernel_in_python, python_kernels
from ..compat.registry import has_native_kernel, registered_namespaces
from ..core.functions import code_of, known_names
from ..core.namespaces import OF_TORCH
from ..declare.ops import Op

if TYPE_CHECKING:
    from .case import Case

# A Python kernel that uses one of these passes addresses to code that may not check them.
_FOREIGN = frozenset({"ctypes", "cffi", "numba", "cupy", "triton", "pybind11", "cython"})
_DEPTH = 4  # levels of functions that call functions


@functools.lru_cache(maxsize=256)
def crash_risk(op: Op, device: str) -> str | None:
    """Why a variant that could read out of bounds must not run in this process; None if it may.

    A kernel written in Python accesses memory through torch or numpy. These check every position, and
    raise an exception on the CPU.
    """
    kind = torch.device(device).type
    if kind != "cpu":
        return f"on {kind} a read out of bounds would end this process"
    if not kernel_in_python(op.overload, kind):
        return "the kernel is compiled code, which could read out of bounds"
    for _, function in python_kernels(op.overload):
        foreign = _foreign(function)
        if foreign:
            return f"the kernel uses {foreign}, which could read out of bounds"
        modules = _package_of(function)
        unknown = kernel_function(op.overload, kind) is None
        if _has_library(modules) or (unknown and _holds_library(modules)):
            return "its package loads a native library, which could read out of bounds"
        native = _called_namespace(function)
        if native:
            return f"the kernel calls ops of {native}, which are compiled code and could read out of bounds"
    namespace = op.overload.namespace
    if kernel_function(op.overload, kind) is None and has_native_kernel(namespace):
        return f"ops of {namespace} are compiled code, which could read out of bounds"
    return None


def may_crash(case: Case) -> bool:
    """Whether `crash_risk` names a reason for the op of a case, on its device."""
    return crash_risk(case.op, case.placement.device) is not None


def _called_namespace(function: Any) -> str | None:
    """A namespace with compiled kernels that a function names next to `torch.ops`; or None."""
    names = set(_referred(function, _DEPTH, set()))
    if "ops" not in names:
        return None
    called = sorted(names & registered_namespaces() - OF_TORCH)
    return next((name for name in called if has_native_kernel(name)), None)


def _package_of(function: Any) -> dict[str, types.ModuleType]:
    """The loaded modules of a function's package, by name; the package itself comes first.

    torch does not return a kernel that was registered by `torch.library.Library`, but it returns the fake
    kernel, which belongs to the same package.
    """
    package = str(getattr(function, "__module__", "")).partition(".")[0]
    modules = {
        name: module
        for name, module in [*sys.modules.items()]
        if name.partition(".")[0] == package and package != "torch"
    }
    return dict(sorted(modules.items()))


def _has_library(modules: Mapping[str, types.ModuleType]) -> bool:
    """Whether Python has loaded native modules of a package, or torch a library in its folder."""
    files = [str(getattr(module, "__file__", None)) for module in modules.values()]
    if any(file.endswith(tuple(EXTENSION_SUFFIXES)) for file in files):
        return True
    if not files or not hasattr(next(iter(modules.values())), "__path__"):
        return False
    folder = Path(files[0]).resolve().parent
    return any(folder in Path(library).resolve().parents for library in torch.ops.loaded_libraries)


def _holds_library(modules: Mapping[str, types.ModuleType]) -> bool:
    """Whether a module of a package holds a native library, or an object that holds one."""
    return any(
        module.partition(".")[0] in _FOREIGN
        for held in modules.values()
        for value in [*vars(held).values()]
        if not isinstance(value, (type, types.ModuleType, types.FunctionType))
        for module in _modules(value)
    )


def _foreign(function: Any) -> str | None:
    """The first module of `_FOREIGN` that a function, or a function that it calls, refers to; or None."""
    return next((name for name in _referred(function, _DEPTH, set()) if name in _FOREIGN), None)


def _referred(function: Any, depth: int, seen: set[int]) -> Iterator[str]:
    """The top-level modules of everything that a function refers to."""
    code = code_of(function)
    if code is None or depth == 0 or id(code) in seen:
        return
    seen.add(id(code))
    known = known_names(function)
    for name in _names(code):
        yield name.partition(".")[0]
        value = known.get(name)
        for module in (getattr(value, "__module__", None), *_modules(value)):
            yield str(module).partition(".")[0]
        if isinstance(value, types.ModuleType):
            yield value.__name__.partition(".")[0]
        yield from _referred(value, depth - 1, seen)


def _modules(value: Any) -> Iterator[str]:
    """The modules of the types of an object and of what it holds, such as the library of native code."""
    yield type(value).__module__
    held = {} if isinstance(value, (type, types.ModuleType)) else getattr(value, "__dict__", {})
    yield from (type(item).__module__ for item in held.values())


def _names(code: types.CodeType) -> Iterator[str]:
    """The names in a function's code, and in those of the functions inside of it."""
    yield from code.co_names
    yield from code.co_freevars
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)
