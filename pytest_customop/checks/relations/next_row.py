"""`relations.next_row`: the last element of a row is no neighbour of the first one of the next row."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import NamedTuple

import torch

from ...cases.case import Case
from ...cases.documentation import texts_about
from ...cases.tensors import base_name, is_plain
from ...declare.ops import Op
from ...findings import Explanation, doc_links, fail
from ..check import Check
from ..values.memory.calls import Caller, copied_results, skip_if_incomparable
from ..values.memory.limited_copy import answer_if_taken
from .other_numbers import results_with
from .scripts import element_lines

# Rows and columns that are neighbours in two dims.
_PICTURE = re.compile(
    r"\b(image|picture|pixel|raster|grid|cell|map|field|mask|frame|slice|plane|height|width|stencil"
    r"|neighbou?r(hood)?|lattice|mesh|spectrogram|elevation|terrain|dem)s?\b|\[[^\]]*\bH\b|\([^)]*\bH\b",
    re.I,
)
# The elements are one sequence, whatever the dims.
_SEQUENCE = re.compile(
    r"\b(scan|raster|row[- ]major|memory|reading|serial|snake)[- ]+order|\bscan ?lines?\b"
    r"|\bflatten\w*|\bflat\b|\brow[- ]major\b|\bboustrophedon|\bhelical|\bin one sequence\b",
    re.I,
)
_LARGEST = 1 << 18  # elements

_Offset = tuple[int, int]  # rows and columns from an element to a result that depends on it


class _Place(NamedTuple):
    """An argument and a result that have the same rows and columns.

    Args:
        path, dim: of the argument, and its dim of the rows, behind which that of the columns is.
        name, result_dim: the same of the result.
        rows, columns: how many there are.
    """

    path: str
    dim: int
    name: str
    result_dim: int
    rows: int
    columns: int


class _Reached(NamedTuple):
    """An element at the end of a row that has an influence on the row beside it, at the other end.

    Args:
        row, column: of the element.
        to_row, to_column: of the result.
        element: the position of the element in the flattened argument.
        number: in place of the element, which shows the influence.
        result_element: the position of the result that it changes in the flattened tensor.
    """

    place: _Place
    row: int
    column: int
    to_row: int
    to_column: int
    element: int
    number: float
    result_element: int


def check_next_row(case: Case) -> None:
    """Find out which results depend on an element in the middle of a row, and on one at its end."""
    skip_if_incomparable(case)
    reason = "no argument has rows and columns that a result has too, each depending on its neighbours only"
    reached = answer_if_taken(case, _answer, reason)
    if reached is not None:
        place = reached.place
        raise fail(
            "row-reaches-next",
            f"{case.op.name}: in {place.name}, row {reached.to_row}, column {reached.to_column} depends on "
            f"row {reached.row}, column {reached.column} of {place.path}, which has {place.columns} "
            f"columns: the last of a row is taken for a neighbour of the first of the next row",
            repro=_script(case, reached),
        )


def _answer(case: Case) -> tuple[bool, _Reached | None]:
    """Whether results depend on their neighbours only, and the first influence on another row."""
    calls = Caller(case)
    is_tried = False
    for place in _places(calls):
        middle = _influence(calls, place, place.rows // 2 - 1, place.columns // 2)
        if not _is_local(middle, place):
            continue
        is_tried = True
        for column in (place.columns - 1, 0):
            rows = (place.rows // 2 - 1, place.rows // 2)
            found = [_wrapped(calls, place, row, column, middle) for row in rows]
            if None not in found:
                return True, found[0]
    return is_tried, None


def _places(calls: Caller) -> Iterator[_Place]:
    """The arguments and results that have the same two dims beside each other, once each."""
    usual = copied_results(calls(calls.case.inputs())) or ()
    results = [(name, leaf) for name, leaf in usual if isinstance(leaf, torch.Tensor)]
    for path, tensor in calls.case.inputs().tensors():
        if not is_plain(tensor) or base_name(path) in calls.case.op.mutated:
            continue
        if tensor.is_complex() or not 1 < tensor.numel() <= _LARGEST:
            continue
        for dim in range(tensor.dim() - 1):
            rows, columns = tensor.shape[dim : dim + 2]
            if rows < 4 or columns < 5:
                continue
            for name, result in results:
                dims = [
                    at
                    for at in range(result.dim() - 1)
                    if tuple(result.shape[at : at + 2]) == (rows, columns)
                ]
                if len(dims) == 1 and result.numel() <= _LARGEST:
                    yield _Place(path, dim, name, dims[0], rows, columns)


def _is_local(middle: frozenset[_Offset], place: _Place) -> bool:
    """Whether an element in the middle has an influence along rows, but not up to their ends."""
    column = place.columns // 2
    return any(right for _, right in middle) and all(
        0 < column + right < place.columns - 1 for _, right in middle
    )


def _wrapped(
    calls: Caller, place: _Place, row: int, column: int, middle: frozenset[_Offset]
) -> _Reached | None:
    """An influence of an element at an end of a row on the other end, as if all rows were one sequence."""
    outwards = 1 if column else -1
    beyond = {(down, right) for down, right in middle if right * outwards > 0}
    far = {
        (down, right)
        for down, right in _influence(calls, place, row, column)
        if right * outwards < -max(abs(right) for _, right in middle)
    }
    as_sequence = {
        (down + outwards, right - outwards * place.columns)
        for down, right in beyond
        if 0 <= row + down + outwards < place.rows
    }
    if not far or far != as_sequence:
        return None
    down, right = min(far, key=lambda offset: (abs(offset[0] - outwards), offset))
    to_row, to_column = row + down, column + right
    for number, differs in _changes(calls, place, row, column):
        elements = torch.arange(differs.numel()).reshape(differs.shape)
        seen = _as_picture(elements, place)[to_row, to_column][
            _as_picture(differs, place)[to_row, to_column]
        ]
        if len(seen):
            element = _element(calls, place, row, column)
            return _Reached(place, row, column, to_row, to_column, element, number, int(seen[0]))
    return None


def _influence(calls: Caller, place: _Place, row: int, column: int) -> frozenset[_Offset]:
    """From an element to the results that depend on it; the other dims of the argument are at 0."""
    found: set[_Offset] = set()
    for _, differs in _changes(calls, place, row, column):
        seen = _as_picture(differs, place).any(2).nonzero().tolist()
        found |= {(to_row - row, to_column - column) for to_row, to_column in seen}
    return frozenset(found)


def _changes(
    calls: Caller, place: _Place, row: int, column: int
) -> Iterator[tuple[float, torch.Tensor]]:
    """Numbers in place of an element, the largest and the smallest one, and what each of them changes."""
    tensor = dict(calls.case.inputs().tensors())[place.path].detach()
    element = _element(calls, place, row, column)
    own = tensor.flatten()[element].item()
    usual = _result(calls, place, element, own)
    for number in dict.fromkeys((tensor.amax().item(), tensor.amin().item())):
        changed = _result(calls, place, element, number) if number != own else None
        if usual is not None and changed is not None and changed.shape == usual.shape:
            yield number, (changed != usual) & ~(changed.isnan() & usual.isnan())


def _as_picture(result: torch.Tensor, place: _Place) -> torch.Tensor:
    """A result of which the first two dims are the rows and columns, and all others the third one."""
    moved = result.movedim((place.result_dim, place.result_dim + 1), (0, 1))
    return moved.reshape(place.rows, place.columns, -1)


def _element(calls: Caller, place: _Place, row: int, column: int) -> int:
    """The position of an element in the flattened argument."""
    shape = dict(calls.case.inputs().tensors())[place.path].shape
    return (row * place.columns + column) * math.prod(shape[place.dim + 2 :])


def _result(calls: Caller, place: _Place, element: int, number: float) -> torch.Tensor | None:
    """The result with a number in place of an element; None if the op raises."""

    value = dict(calls.case.inputs().tensors())[place.path].detach()
    value = value.clone(memory_format=torch.contiguous_format)
    value.view(-1)[element] = number
    leaves = results_with(calls, place.path, value)
    found = dict(leaves or ()).get(place.name)
    return found if isinstance(found, torch.Tensor) else None


def _script(case: Case, reached: _Reached) -> str:
    place, element, number = reached.place, reached.element, reached.number
    own = dict(case.inputs().tensors())[place.path].flatten()[element].item()
    change = f"t.view(-1)[{element}] = number"
    return (
        element_lines(case, place.path, change, place.name, reached.result_element)
        + f"torch.testing.assert_close(result({number!r}), result({own!r}), rtol=0, atol=0)\n"
    )


def _is_of_pictures(op: Op) -> bool:
    """Whether a docstring speaks of pictures or grids, and not of one sequence of all elements."""
    texts = texts_about(op)
    return any(map(_PICTURE.search, texts)) and not any(map(_SEQUENCE.search, texts))


FINDINGS = {
    "row-reaches-next": Explanation(
        meaning=(
            "A result depends on the neighbours of its element. At the end of a row it also depends on an "
            "element at the other end of the row before or behind it, as if all rows were one sequence."
        ),
        why=(
            "The kernel counts elements with one index and reads those at index - 1 and index + 1. They "
            "are neighbours in memory, but at the border of a row no neighbours in the picture."
        ),
        fix=(
            "Take the column apart from the index, and treat the first and the last one as the first and "
            "the last row. If all elements are one sequence on purpose, say so in the docstring "
            '("in row-major order").'
        ),
        before="""
left = flat[i - 1] if i > 0 else 0
""",
        after="""
left = flat[i - 1] if i % width > 0 else 0
""",
        docs=(doc_links.CUSTOM_OP,),
        follows=("stale-result", "uninitialized-output", "outputs-not-repeatable"),
    ),
}

CHECK = Check(
    name="relations.next_row",
    summary="the end of a row has no influence on the other end of the next row",
    run=check_next_row,
    gradients=False,
    needs=_is_of_pictures,
    variants=(),
    findings=FINDINGS,
    catches=(
        "Kernels that run over a picture or a grid with one index, and take the element before or behind "
        "in memory for a neighbour at the border of a row too. The check finds out which results an "
        "element in the middle has an influence on, and whether an element at the end of a row has just "
        "those that it would have in one sequence of all rows. Only where a docstring speaks of pixels, "
        "a grid, a height, neighbours or the like."
    ),
    cannot_see=(
        "Pictures with fewer than 4 rows or 5 columns, influences that reach as far as the border from "
        "the middle, and those that depend on the values."
    ),
    cost="calls",
)
