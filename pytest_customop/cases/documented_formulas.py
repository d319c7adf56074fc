"""Read from an op's docstrings the sizes that its numbers give: `table: ((2 * h - 1) * (2 * w - 1), D)`."""

from __future__ import annotations

import ast
import functools
import operator
import re
from collections.abc import Callable, Mapping

from ..declare.ops import Op
from .documented import lines_about

_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}
_OPENS = re.compile(r"[(\[]")


@functools.lru_cache(maxsize=1024)  # asked for every sample
def formulas_of(op: Op, argument: str) -> tuple[ast.expr, ...]:
    """The terms of the first tuple of names, numbers and operators in the text about a tensor."""
    text = " ".join(lines_about(op, argument).split())
    for found in _OPENS.finditer(text):
        tree = _parsed(text, found.start())
        terms = tree.elts if isinstance(tree, (ast.Tuple, ast.List)) else []
        if terms and all(isinstance(term, (ast.Name, ast.Constant, ast.BinOp)) for term in terms):
            return tuple(terms)
    return ()


def numbers_in(formula: ast.expr) -> frozenset[str]:
    """The names in a formula."""
    return frozenset(node.id for node in ast.walk(formula) if isinstance(node, ast.Name))


def value_of(formula: ast.expr, numbers: Mapping[str, int]) -> int | None:
    """The value of a formula of integers with `+-*//`; None if it has anything else, or an unknown name."""
    if isinstance(formula, ast.Constant):
        return formula.value if type(formula.value) is int else None
    if isinstance(formula, ast.Name):
        return numbers.get(formula.id)
    if not isinstance(formula, ast.BinOp) or type(formula.op) not in _OPERATORS:
        return None
    left, right = value_of(formula.left, numbers), value_of(formula.right, numbers)
    if left is None or right is None or (isinstance(formula.op, ast.FloorDiv) and right == 0):
        return None
    return _OPERATORS[type(formula.op)](left, right)


def _parsed(text: str, start: int) -> ast.expr | None:
    """The expression in the brackets that open at a place; None if that is no Python."""
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] in "([") - (text[at] in ")]")
        if not depth:
            try:
                return ast.parse(text[start : at + 1].replace("`", ""), mode="eval").body
            except (SyntaxError, ValueError):
                return None
    return None
