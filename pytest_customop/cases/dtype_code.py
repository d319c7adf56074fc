"""Read from the Python code of an op whether its integers wrap, or whether the code depends on dtypes."""

from __future__ import annotations

import ast
import functools
import inspect
import re
import textwrap
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from ..compat.kernel_functions import functions_of
from ..core.functions import code_of, is_of_library, known_names
from ..declare.ops import Op
from .code_names import whole_numbers_in_code

_DEPTH = 4  # levels of functions that call functions
# Results that are taken modulo some number.
_MODULAR = (
    r"hash|(^|_)crc\d*|checksum|adler|fletcher|(^|_)fnv|murmur|xxh|rand|(^|_)rng|prng|philox|seed|(^|_)lcg"
    r"|noise|parity|(^|_)wrap(s|ped|ping|around)?($|_)|modulo|modular|cipher|crypt|scrambl|galois|(^|_)gf\d"
)
_MODULAR_NAMES = re.compile(_MODULAR, re.I)
_WRAPPING_NAMES = re.compile(
    rf"{_MODULAR}|xor|(^|_)rot[lr]($|_)"
    r"|(^|_)(un)?pack|bit_?(count|plane|field|mask|revers|cast)|morton|hilbert|z_?order"
    r"|popcount|hamming|delta_(en|de)cod",
    re.I,
)
_BYTE_SIZES = {2**8 - 1, 2**8, 2**16 - 1, 2**16}
_BIT_CALLS = frozenset(
    {
        *("remainder", "fmod", "mod", "divmod", "floormod"),
        *("bitwise_xor", "bitwise_right_shift", "bitwise_left_shift", "right_shift", "left_shift"),
        *("bitwise_not", "invert", "logical_xor"),
    }
)
_DTYPE_CALLS = frozenset(
    {
        *("iinfo", "finfo", "element_size", "is_floating_point", "is_signed"),
        *("frombuffer", "tobytes", "data_ptr"),  # memory that is read as some dtype
    }
)
_DTYPE_ATTRIBUTES = frozenset({"itemsize", "is_floating_point", "is_signed"})
_ON_PURPOSE = re.compile(
    r"(wrap|overflow|modulo)[^.\n]{0,60}(on purpose|deliberate|intentional|by design|intended)"
    r"|(on purpose|deliberate|intentional|by design)[^.\n]{0,60}(wrap|overflow|modulo)",
    re.I,
)


class DtypeCode(NamedTuple):
    """What is known of an op's code.

    Args:
        wraps: the sign that integers wrap, or count as bits, on purpose; empty without one.
        depends_on_dtype: whether another dtype may take another path.
        is_known: whether the Python code of a kernel is known.
        modular: the name or the comment that says that results are taken modulo some number on purpose,
            as those of a checksum; empty without one.
        is_modular: whether they may be: `modular`, or a number such as 256 in the code.
    """

    wraps: str
    depends_on_dtype: bool
    is_known: bool
    modular: str
    is_modular: bool


@functools.lru_cache(maxsize=256)
def dtype_code(op: Op) -> DtypeCode:
    """Read the names of an op and of its arguments, and the source of its Python functions."""
    names = [op.own_name, *(argument.name for argument in op.arguments)]
    wraps = next((f"the name {name}" for name in names if _WRAPPING_NAMES.search(name)), "")
    depends, is_known = False, False
    modular = f"the name {names[0]}" if _MODULAR_NAMES.search(names[0]) else ""
    for function in _reached(op):
        is_known = True
        name = getattr(function, "__name__", "")
        if _WRAPPING_NAMES.search(name):
            wraps = wraps or f"the name {name}"
        tree, text = _tree(function)
        is_meant = _ON_PURPOSE.search(text) is not None
        if is_meant or _MODULAR_NAMES.search(name):
            modular = modular or ("a comment" if is_meant else f"the name {name}")
        if tree is None:
            depends = True
            continue
        if is_meant:
            wraps = wraps or "a comment"
        reader = _Reader()
        reader.visit(tree)
        wraps = wraps or reader.wraps
        depends = depends or reader.depends
    is_modular = bool(modular) or not _BYTE_SIZES.isdisjoint(whole_numbers_in_code(op))
    return DtypeCode(wraps, depends, is_known, modular, is_modular)


def _reached(op: Op) -> Iterator[Any]:
    """The author's functions that compute the op, and those that they refer to."""
    seen: set[int] = set()
    for function in functions_of(op.overload):
        yield from _with_called(function, _DEPTH, seen)


def _with_called(function: Any, depth: int, seen: set[int]) -> Iterator[Any]:
    function = getattr(function, "__wrapped__", function)
    code = code_of(function)
    if code is None or depth == 0 or id(code) in seen or is_of_library(function):
        return
    seen.add(id(code))
    yield function
    known = known_names(function)
    for name in {*code.co_names, *code.co_freevars, *_names_inside(code)}:
        value = known.get(name)
        if isinstance(value, types.FunctionType):
            yield from _with_called(value, depth - 1, seen)


def _names_inside(code: types.CodeType) -> Iterator[str]:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from constant.co_names
            yield from constant.co_freevars
            yield from _names_inside(constant)


def _tree(function: Any) -> tuple[ast.AST | None, str]:
    """The function's source as a tree and as text; for a lambda, the statement around it."""
    try:
        text = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        return None, ""
    for candidate in (text, text.strip().rstrip(","), f"({text.strip().rstrip(',')})"):
        try:
            return ast.parse(candidate), text
        except SyntaxError:
            continue
    match = re.search(r"lambda.*", text, re.DOTALL)  # an argument of a call over several lines
    rest = match.group() if match else ""
    for end in range(len(rest), 0, -1):
        try:
            return ast.parse(rest[:end].strip()), text
        except SyntaxError:
            continue
    return None, text


class _Reader(ast.NodeVisitor):
    """Looks for bit arithmetic, and for code that depends on a dtype; skips tests that raise."""

    def __init__(self) -> None:
        self.wraps = ""
        self.depends = False

    def visit_If(self, node: ast.If) -> None:
        if not (
            node.orelse or any(not isinstance(statement, ast.Raise) for statement in node.body)
        ):
            return  # it only rejects arguments
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        """Skip messages."""

    def visit_Assert(self, node: ast.Assert) -> None:
        """Skip what is rejected."""

    def visit_BinOp(self, node: ast.BinOp) -> None:
        self._operator(node.op, node.left)
        if isinstance(node.op, ast.BitAnd) and any(map(_is_number, (node.left, node.right))):
            self.wraps = self.wraps or "a mask of bits"
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._operator(node.op, node.target)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Invert) and not isinstance(node.operand, ast.Compare):
            self.wraps = self.wraps or "the operator ~"
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        if any(_names_dtype(operand) for operand in (node.left, *node.comparators)):
            self.depends = True
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if _names_dtype(node.slice):
            self.depends = True
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if node.attr in _DTYPE_ATTRIBUTES:
            self.depends = True
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name.startswith("_check"):
            return  # torch._check raises
        if name in _BIT_CALLS or (_WRAPPING_NAMES.search(name) and not name.startswith("manual_")):
            self.wraps = self.wraps or f"a call of {name}"
        takes = [*node.args, *(keyword.value for keyword in node.keywords)]
        if name in _DTYPE_CALLS or (name == "get" and any(map(_names_dtype, takes))):
            self.depends = True
        if name == "view" and any(map(_is_dtype, takes)):
            self.depends = True
        self.generic_visit(node)

    def _operator(self, operator: ast.operator, left: ast.AST) -> None:
        if isinstance(operator, ast.Mod) and not _is_size_or_text(left):
            self.wraps = self.wraps or "the operator %"
        elif isinstance(operator, (ast.BitXor, ast.RShift, ast.LShift)):
            self.wraps = self.wraps or "an operator of bits"


def _names_dtype(node: ast.AST) -> bool:
    """Whether an expression is the dtype of a tensor."""
    return isinstance(node, ast.Attribute) and node.attr == "dtype"


def _is_dtype(node: ast.AST) -> bool:
    """Whether an expression is a dtype of torch by its name."""
    return isinstance(node, ast.Attribute) and isinstance(
        getattr(torch, node.attr, None), torch.dtype
    )


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int)


def _is_size_or_text(node: ast.AST) -> bool:
    """Whether an expression contains a text, a size or a number of elements."""
    return any(
        (isinstance(child, ast.Constant) and isinstance(child.value, str))
        or (
            isinstance(child, ast.Attribute)
            and child.attr in ("shape", "size", "numel", "ndim", "dim")
        )
        or (isinstance(child, ast.Name) and child.id == "len")
        for child in ast.walk(node)
    )
