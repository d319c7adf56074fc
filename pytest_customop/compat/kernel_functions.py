"""Find the Python functions behind an op, those of a `torch.library.Library` too, which torch hides."""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable
from typing import Any

from .library_kernels import called_kernels, decorated_kernels
from .ops import OpOverload, is_made_by_custom_op, python_kernels, registering_files, schema_of


def functions_of(overload: OpOverload) -> list[Any]:
    """Every Python function that computes an op, or probably does, and the fake kernel."""
    known = [kernel for _, kernel in python_kernels(overload)]
    registered = [*kernels_by_decorator(overload), *kernels_by_call(overload)]
    return [*dict.fromkeys((*known, *registered, *functions_by_name(overload)))]


def kernels_by_decorator(overload: OpOverload) -> list[Any]:
    """The kernels of an op of a `torch.library.Library` that `@torch.library.impl` has registered."""
    return _registered(overload, decorated_kernels)


def kernels_by_call(overload: OpOverload) -> list[Any]:
    """The kernels of an op of a `torch.library.Library` that a call of its `impl` has registered."""
    return _registered(overload, called_kernels)


def _registered(
    overload: OpOverload,
    find: Callable[[str, types.ModuleType], tuple[types.FunctionType, ...]],
) -> list[Any]:
    """What `find(name of the op, module)` gives for each module that registers the op."""
    name = schema_of(overload).name
    return [kernel for module in _registering_modules(overload) for kernel in find(name, module)]


def functions_by_name(overload: OpOverload) -> list[Any]:
    """The functions that could be the kernels of an op of a `torch.library.Library`.

    They are at the top level of a file in which the op or its fake kernel was registered. Their parameters
    have the names of the op's arguments, in the same order. They may be decorated, as by `torch.no_grad()`.
    """
    names = tuple(argument.name for argument in schema_of(overload).arguments)
    functions: list[Any] = []
    modules = _registering_modules(overload)
    found = (value for module in modules for value in [*vars(module).values()])
    for value in (inspect.unwrap(each) for each in found if isinstance(each, types.FunctionType)):
        code = getattr(value, "__code__", None)
        if isinstance(value, types.FunctionType) and code is not None:
            count = code.co_argcount + code.co_kwonlyargcount
            if code.co_varnames[:count] == names and value not in functions:
                functions.append(value)
    return functions


def _registering_modules(overload: OpOverload) -> list[types.ModuleType]:
    """The modules in whose files an op of a library was registered; none for a CustomOpDef."""
    files: set[str] = set() if is_made_by_custom_op(overload) else registering_files(overload)
    modules = [*sys.modules.values()] if files else []
    return [module for module in modules if getattr(module, "__file__", None) in files]
