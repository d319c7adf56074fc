"""The constants that the Python code of an op compares an argument with, or looks it up in.

They are read from the source: `reduction == "mean"`, `mode in ("a", "b")`, `TABLE[mode]`, `match mode`.
Functions that get the argument are read too, and attributes of the same name (`ctx.mode`) count.
"""

from __future__ import annotations

import ast
import enum
import functools
import linecache
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from ..compat.kernel_functions import functions_of
from ..compat.ops import traced_functions
from ..core.functions import code_of, known_names
from ..declare.ops import Op

_DEPTH = 3  # levels of functions that call functions
_FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_EXACT = (ast.Eq, ast.NotEq, ast.In, ast.NotIn, ast.Is, ast.IsNot)


def compared_constants(op: Op, argument: str) -> list[Any]:
    """The constants in the op's kernels, fake kernel and formula that an argument is compared with.

    Returns:
        strings, numbers and dtypes, each once, in the order of the code; functions without source are left
        out. A bound, such as `n > 64`, gives also the number above it.
    """
    return [*_compared_constants(op, argument)]


@functools.lru_cache(maxsize=256)
def _compared_constants(op: Op, argument: str) -> tuple[Any, ...]:
    names = [item.name for item in op.arguments]
    position = names.index(argument)
    constants: dict[tuple[type, Any], Any] = {}
    functions = functions_of(op.overload)
    for function in [*functions, *filter(None, traced_functions(op.overload))]:
        parameter = _parameter_at(function, position) if function in functions else argument
        for value in _of_function(function, frozenset({argument, parameter}), _DEPTH):
            constants.setdefault((type(value), value), value)
    return tuple(constants.values())


def _parameter_at(function: Any, position: int) -> str:
    """The name of a parameter; empty where there is none."""
    code = code_of(function)
    if code is None:
        return ""
    names = code.co_varnames[: code.co_argcount]
    return names[position] if position < len(names) else ""


def _of_function(function: Any, names: frozenset[str], depth: int) -> Iterator[Any]:
    """The constants that a function compares the values of some names with."""
    code = code_of(function)
    if code is None or depth == 0:
        return
    known = known_names(function)
    for node in _nodes_at(code.co_filename, code.co_firstlineno, code.co_name):
        reader = _Reader(names, known, depth)
        for inner in ast.walk(node):
            yield from reader.read(inner)


def _nodes_at(file: str, line: int, name: str) -> Sequence[_FunctionNode]:
    """The functions of this name that begin in a line; several if they are lambdas."""
    return _functions(file).get((line, name), ())


@functools.lru_cache(maxsize=64)
def _functions(file: str) -> Mapping[tuple[int, str], list[_FunctionNode]]:
    """Every function of a file, by its first line, decorators included, and its name."""
    functions: dict[tuple[int, str], list[_FunctionNode]] = {}
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):  # a file that is not Python, or has changed
        return functions
    for node in ast.walk(tree):
        if isinstance(node, _FunctionNode):
            decorators = getattr(node, "decorator_list", ())
            line = min([node.lineno, *(decorator.lineno for decorator in decorators)])
            functions.setdefault((line, getattr(node, "name", "<lambda>")), []).append(node)
    return functions


class _Reader:
    """Reads the nodes of one function.

    Args:
        names: the names of the argument there.
        known: the function's globals, and the values that it closes over.
        depth: how many levels of called functions are read too.
    """

    def __init__(self, names: frozenset[str], known: Mapping[str, Any], depth: int) -> None:
        self._names = names
        self._known = known
        self._depth = depth

    def read(self, node: ast.AST) -> Iterator[Any]:
        """The constants in one node, without those inside of it."""
        if isinstance(node, ast.Compare):
            operands = [node.left, *node.comparators]
            if any(map(self._is_argument, operands)):
                exact = all(isinstance(operator, _EXACT) for operator in node.ops)
                yield from self._compared(operands, exact)
        elif isinstance(node, ast.Subscript) and self._is_argument(node.slice):
            yield from self._values(node.value)
        elif isinstance(node, ast.Match) and self._is_argument(node.subject):
            for inner in ast.walk(node):
                if isinstance(inner, ast.MatchValue):
                    yield from self._values(inner.value)
        elif isinstance(node, ast.Call):
            yield from self._call(node)

    def _compared(self, operands: Sequence[ast.expr], exact: bool) -> Iterator[Any]:
        for operand in operands:
            if self._is_argument(operand):
                continue
            for value in self._values(operand):
                yield value
                if not exact and isinstance(value, int):
                    yield value + 1

    def _is_argument(self, node: ast.AST) -> bool:
        """Whether an expression is the argument, or a method of it is called: `mode.lower()`."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            return not node.args and self._is_argument(node.func.value)
        if isinstance(node, ast.Attribute):
            return node.attr in self._names
        return isinstance(node, ast.Name) and node.id in self._names

    def _call(self, node: ast.Call) -> Iterator[Any]:
        """`table.get(argument)`, and the constants in a function that gets the argument."""
        passed = {at for at, value in enumerate(node.args) if self._is_argument(value)}
        if isinstance(node.func, ast.Attribute) and node.func.attr == "get" and 0 in passed:
            yield from self._values(node.func.value)
        if not isinstance(node.func, ast.Name):
            return
        function = self._known.get(node.func.id)
        names = {_parameter_at(function, at) for at in passed}
        names |= {
            keyword.arg or "" for keyword in node.keywords if self._is_argument(keyword.value)
        }
        if names - {""}:
            yield from _of_function(function, frozenset(names - {""}), self._depth - 1)

    def _values(self, node: ast.expr) -> Iterator[Any]:
        """The constants that an expression stands for: its elements, or its keys, if it has several."""
        if isinstance(node, ast.Constant):
            yield from _plain([node.value])
        elif isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            for element in node.elts:
                yield from self._values(element)
        elif isinstance(node, ast.Dict):
            for key in filter(None, node.keys):
                yield from self._values(key)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            yield from (-value for value in self._values(node.operand) if _is_number(value))
        elif isinstance(node, (ast.Name, ast.Attribute)):
            yield from _elements(self._named(node))

    def _named(self, node: ast.expr) -> Any:
        """The value of a name, or of an attribute of a module, of an enumeration or of its member."""
        if isinstance(node, ast.Name):
            return self._known.get(node.id)
        if isinstance(node, ast.Attribute):
            holder = self._named(node.value)
            if isinstance(holder, (types.ModuleType, enum.EnumMeta, enum.Enum)):
                return getattr(holder, node.attr, None)
        return None


def _elements(value: Any) -> Iterator[Any]:
    """The constants in the value of a name."""
    if isinstance(value, enum.EnumMeta):
        members: Mapping[str, Any] = value.__members__
        yield from _plain(member.value for member in members.values())
    elif isinstance(value, (Mapping, list, tuple, set, frozenset)):
        yield from _plain(
            value if isinstance(value, (Mapping, list, tuple)) else sorted(value, key=str)
        )
    else:
        yield from _plain([value.value if isinstance(value, enum.Enum) else value])


def _plain(values: Any) -> Iterator[Any]:
    yield from (
        value for value in values if isinstance(value, (str, torch.dtype)) or _is_number(value)
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
