"""The requirements in a rejection: the shape `[K, channels, 2 * height]`, or one size for another."""

from __future__ import annotations

import ast
import itertools
import math
import operator
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import torch

from .rejection import dtypes_named

_SAYS_SHAPE = re.compile(r"\b(shape|size|sizes|dims|Tensor|be|expected|with|of)\b\W*$", re.I)
_BRACKETS = re.compile(r"[\[(]((?:[^\[\]()]|\([^\[\]()]*\))*)[\])]")
_GIVEN = re.compile(r"\b(but|got|found|given|received|not)\b[^.;\n]*", re.I)
_SAME = re.compile(r"\b(same|equal|match\w*)\b.*?\b(shape|size|dims?|d?type)", re.I)
_RANK = re.compile(
    r"\b(exactly|must|should|expect\w*|requires?|needs?|only)\b[^.;\n\d]{0,40}?([0-6])\s*-?\s*(d\b|dim)",
    re.I,
)
_DTYPES = re.compile(r"\b(?:not (?:in|one of)|must be|should be|expect\w*)\b([^;\n]*)", re.I)
_OUT_OF_BOUNDS = re.compile(r"index (\d+) is out of bounds for dimension (\d) with size (\d+)")
_NUMBERS = re.compile(r"[\[(]\s*(\d+(?:\s*,\s*\d+)*),?\s*[\])]")
_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")
_MOST = 512  # the largest size
_MOST_DIMS = 6
_OPERATORS: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}


@dataclass(frozen=True)
class AskedShape:
    """A shape that a message requires.

    Args:
        argument: the argument that should have it; empty if the message does not name it.
        dims: each a number, a name, or a formula of numbers and names.
    """

    argument: str
    dims: tuple[str, ...]


def asked_shapes(message: str, arguments: Collection[str]) -> list[AskedShape]:
    """The shapes that a message requires, in names or numbers.

    Args:
        arguments: the names of the op's arguments.
    """
    text, shapes = _GIVEN.sub("", message), []
    for match in _BRACKETS.finditer(text):
        before = text[: match.start()]
        dims = tuple(part.strip() for part in match[1].split(",") if part.strip())
        if not _SAYS_SHAPE.search(before) or not 0 < len(dims) <= _MOST_DIMS:
            continue
        if all(_is_formula(dim) for dim in dims):
            named = [word for word in re.findall(r"\w+", before) if word in arguments]
            shapes.append(AskedShape(named[-1] if named else "", dims))
    return shapes


def asked_rank(message: str) -> int | None:
    """The number of dims that a message requires: `exactly 4D`, `must be a 2-dimensional tensor`."""
    match = _RANK.search(_GIVEN.sub("", message))
    return int(match[2]) if match else None


def asked_dtypes(message: str) -> list[torch.dtype]:
    """The dtypes that a message allows: `not in {torch.int8, torch.uint8}`."""
    match = _DTYPES.search(message)
    return dtypes_named(re.sub(r"\b(but|got|found|given)\b.*", "", match[1])) if match else []


def asked_size(message: str) -> tuple[int, int, int] | None:
    """A dim, its size, and the least size that an index in a message needs there."""
    match = _OUT_OF_BOUNDS.search(message)
    return (int(match[2]), int(match[3]), int(match[1]) + 1) if match else None


def asked_alike(message: str) -> str:
    """The property that a message requires to be equal: `shape` or `dtype`; empty if neither."""
    match = _SAME.search(message)
    if match is None:
        return ""
    return "dtype" if match[2].lower().endswith("type") else "shape"


def asked_runs(message: str) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Pairs of lists of sizes in a message: the first may have to become the second."""
    lists = [tuple(map(int, re.findall(r"\d+", text))) for text in _NUMBERS.findall(message)]
    pairs = itertools.permutations(dict.fromkeys(lists), 2)
    return [(old, new) for old, new in pairs if len(old) == len(new) and _is_small(new)]


def asked_numbers(message: str) -> list[int]:
    """The numbers of a message that could be sizes."""
    numbers = map(int, _NUMBER.findall(message))
    return [*dict.fromkeys(number for number in numbers if 0 < number <= _MOST)]


def names_of(dim: str) -> list[str]:
    """The names in a formula."""
    return [node.id for node in ast.walk(ast.parse(dim, mode="eval")) if isinstance(node, ast.Name)]


def number_of(dim: str, names: Mapping[str, int]) -> int | None:
    """The value of a formula; None if it is no valid size, or has a name without a number."""
    try:
        value = _evaluated(ast.parse(dim, mode="eval").body, names)
    except (KeyError, ZeroDivisionError):
        return None
    return int(value) if 0 < value <= _MOST and value == math.floor(value) else None


def _evaluated(node: ast.expr, names: Mapping[str, int]) -> float:
    if isinstance(node, ast.BinOp):
        by = _OPERATORS[type(node.op)]
        return by(_evaluated(node.left, names), _evaluated(node.right, names))
    if isinstance(node, ast.Name):
        return names[node.id]
    assert isinstance(node, ast.Constant)
    return float(str(node.value))


def _is_formula(text: str) -> bool:
    try:
        nodes = [*ast.walk(ast.parse(text, mode="eval"))]
    except (SyntaxError, ValueError):
        return False
    return all(
        isinstance(node, (ast.Expression, ast.BinOp, ast.Name, ast.Load, *_OPERATORS))
        or (isinstance(node, ast.Constant) and type(node.value) is int)
        for node in nodes
    )


def _is_small(sizes: Collection[int]) -> bool:
    return all(0 < size <= _MOST for size in sizes)
