"""Read from the code of an op's autograd formula which gradients it means to compute."""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections.abc import Iterator

from ..compat.ops import traced_functions
from ..declare.ops import Op

_NEEDS = "needs_input_grad"
_FUNCTIONS = {"any", "all", "len"}


@functools.lru_cache(maxsize=256)
def gradient_if_needed(op: Op, argument: str) -> bool:
    """Whether the formula computes a gradient for an argument on the condition that autograd needs it.

    It does if it returns, in the place of the argument, a name that it sets in a block
    `if ctx.needs_input_grad[...]:`, or an expression with such a condition.
    """
    arguments = [item.name for item in op.arguments]
    if argument not in arguments:
        return False
    *_, backward = traced_functions(op.overload)
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(backward)))
    except (OSError, TypeError, SyntaxError):  # it is in no file, or a lambda among other arguments
        return False
    names = {*_set_if_needed(tree)}
    return any(
        (isinstance(element, ast.Name) and element.id in names)
        or (isinstance(element, ast.IfExp) and _is_needed(element.test))
        for element in _returned(tree, arguments.index(argument), len(arguments))
    )


def _returned(tree: ast.AST, at: int, count: int) -> Iterator[ast.expr]:
    """The elements at a position of the tuples of a length that a function returns."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Return) and node.value is not None:
            value = node.value
            elements = value.elts if isinstance(value, (ast.Tuple, ast.List)) else [value]
            if len(elements) == count:
                yield elements[at]


def _set_if_needed(tree: ast.AST) -> Iterator[str]:
    """The names to which a block sets something if autograd needs a gradient."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.If) or not _is_needed(node.test):
            continue
        for statement in node.body:
            for inner in ast.walk(statement):
                if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                    yield inner.id


def _is_needed(test: ast.expr) -> bool:
    """Whether a condition is about needed gradients alone: it has no other attribute and no other name."""
    attributes = {node.attr for node in ast.walk(test) if isinstance(node, ast.Attribute)}
    names = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)} - _FUNCTIONS
    return attributes == {_NEEDS} and len(names) == 1
