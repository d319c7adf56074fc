"""Find the kernels that a module registers for an op of a `torch.library.Library`, in its source.

The dispatcher does not show the functions that it holds. The decorator `@torch.library.impl("ns::name",
"CPU")` returns None (seen in torch 2.4 to 2.15), so such a function is made again.
"""

from __future__ import annotations

import ast
import functools
import inspect
import types
from typing import Any


@functools.lru_cache(maxsize=256)
def decorated_kernels(name: str, module: types.ModuleType) -> tuple[types.FunctionType, ...]:
    """The functions at the top level of a module whose decorator registers them for an op.

    A function to which no name refers is made again, with its code, its globals and its defaults. A default
    that is no literal is a node of its syntax tree.

    Args:
        name: of the op: `ns::name`.
        module: where to look.
    """
    return tuple(
        _named(code, module) or _made_again(definition, code, module)
        for definition, code in _functions(module)
        if any(_registers(decorator, name, module) for decorator in definition.decorator_list)
    )


@functools.lru_cache(maxsize=256)
def called_kernels(name: str, module: types.ModuleType) -> tuple[types.FunctionType, ...]:
    """The functions of a module that it registers for an op by `library.impl("name", kernel, "CPU")`.

    Args:
        name: of the op: `ns::name`.
        module: where to look.
    """
    kernels: list[types.FunctionType] = []
    for call in _calls(module):
        first, second, *_ = [*call.args, None, None]
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        kernel = _valued(second, module)
        is_named = isinstance(first, ast.Constant) and first.value == name
        if isinstance(kernel, types.FunctionType) and (
            is_named or _is_of_library(owner, first, name, module)
        ):
            kernels.append(kernel)
    return tuple(dict.fromkeys(kernels))


def _valued(expression: ast.expr | None, module: types.ModuleType) -> Any:
    return vars(module).get(expression.id) if isinstance(expression, ast.Name) else None


def _is_of_library(
    library: ast.expr | None, own_name: ast.expr | None, name: str, module: types.ModuleType
) -> bool:
    """Whether a library and the name of an op in it stand for `ns::name`."""
    namespace = getattr(_valued(library, module), "ns", None)
    return isinstance(own_name, ast.Constant) and [namespace, own_name.value] == name.split("::")


def _registers(decorator: ast.expr, name: str, module: types.ModuleType) -> bool:
    """Whether a decorator is `impl("ns::name", ...)`, or `impl(library, "name", ...)` of that library."""
    if not isinstance(decorator, ast.Call) or not ast.unparse(decorator.func).endswith("impl"):
        return False
    first, second, *_ = [*decorator.args, None, None]
    if isinstance(first, ast.Name):
        return _is_of_library(first, second, name, module)
    return isinstance(first, ast.Constant) and first.value == name


def _named(code: types.CodeType, module: types.ModuleType) -> types.FunctionType | None:
    """The function to which the name in its definition refers; None if that is another one or nothing."""
    value = vars(module).get(code.co_name)
    is_same = isinstance(value, types.FunctionType) and value.__code__ == code
    return value if is_same else None


def _made_again(
    definition: ast.FunctionDef, code: types.CodeType, module: types.ModuleType
) -> types.FunctionType:
    function = types.FunctionType(code, vars(module))
    arguments = definition.args
    function.__defaults__ = tuple(map(_value, arguments.defaults))
    function.__kwdefaults__ = {
        argument.arg: _value(default)
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if default is not None
    }
    return function


def _value(default: ast.expr) -> Any:
    try:
        return ast.literal_eval(default)
    except ValueError:  # a name, a call, ...
        return default


@functools.lru_cache(maxsize=64)
def _functions(module: types.ModuleType) -> list[tuple[ast.FunctionDef, types.CodeType]]:
    """The functions at the top level of a module, and their code; none if its source is unknown."""
    code, tree = _parsed(module)
    definitions = [each for each in tree.body if isinstance(each, ast.FunctionDef)]
    by_line = {
        constant.co_firstlineno: constant
        for constant in code.co_consts
        if isinstance(constant, types.CodeType)
    }
    return [
        (definition, by_line[definition.decorator_list[0].lineno])
        for definition in definitions
        if definition.decorator_list and definition.decorator_list[0].lineno in by_line
    ]


@functools.lru_cache(maxsize=64)
def _calls(module: types.ModuleType) -> list[ast.Call]:
    """The calls of a function `impl` at the top level of a module that pass nothing by keyword."""
    return [
        each.value
        for each in _parsed(module)[1].body
        if isinstance(each, ast.Expr)
        and isinstance(each.value, ast.Call)
        and ast.unparse(each.value.func).endswith("impl")
        and not each.value.keywords
    ]


@functools.lru_cache(maxsize=64)
def _parsed(module: types.ModuleType) -> tuple[types.CodeType, ast.Module]:
    """The code of a module, and its syntax tree; both of an empty module if its source is unknown."""
    try:
        source = inspect.getsource(module)
        code: Any = compile(source, str(module.__file__), "exec", dont_inherit=True)
        return code, ast.parse(source)
    except (OSError, TypeError, SyntaxError, ValueError):
        return compile("", "", "exec"), ast.parse("")
