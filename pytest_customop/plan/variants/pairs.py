"""Variants with two or three changes at once: of arguments, sizes, dtype and memory layout.

Many defects need two changes, such as a flag and an odd size. A few rows are chosen that contain many pairs
of the changes that are likely to find something alone: a truncated covering array of strength two.

Source: D. R. Kuhn, D. R. Wallace, A. M. Gallo, "Software Fault Interactions and Implications for Software
Testing", IEEE Transactions on Software Engineering 30(6), 2004: most faults that one parameter alone does
not show are triggered by two parameters together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice

from ...declare.variant import JOINT, Step
from .sample_view import SampleView

# (view, kind) -> the steps of a kind from a sample
Derive = Callable[[SampleView, str], Iterable[Step]]

_ROWS = 8
_CHANGES = 3  # the most in a row: the cause of a failure is still easy to see
_LEVELS = 2  # the most changes of one argument
_LIKELY = 6  # steps of this rank and above are in no pair
_RANK = 5
# Changes other than of arguments; the first of these steps that a sample has is used.
_TENSORS = {"shape": ("odd_with_numbers", "odd"), "dtype": ("bfloat16",), "layout": ("transposed",)}
_WHOLE = ("int", "SymInt")


@dataclass(frozen=True)
class _Level:
    """One change: a step of a kind. A row has only one change per axis."""

    axis: str
    kind: str
    step: str
    rank: int


_Pair = frozenset[_Level]


def steps(
    view: SampleView, single_steps: Sequence[tuple[Step, str]], derive: Derive
) -> Iterator[Step]:
    """Rows of changes, each of which alone is likely and stays within the sample.

    Args:
        single_steps: the steps from the sample, each with its kind.
        derive: gives the steps from a changed sample, so that a later change fits the earlier ones.
    """
    levels = _levels(view, single_steps)
    open_pairs = {
        frozenset(pair): sum(level.rank for level in pair)
        for pair in combinations(levels, 2)
        if pair[0].axis != pair[1].axis and any(level.kind == "arguments" for level in pair)
    }
    yield from islice(_rows(view, levels, open_pairs, derive), _ROWS)


def _rows(
    view: SampleView, levels: Sequence[_Level], open_pairs: dict[_Pair, int], derive: Derive
) -> Iterator[Step]:
    """Rows until they contain every pair; each pair is removed from `open_pairs`."""
    while open_pairs:
        row = _row(levels, open_pairs)
        for pair in combinations(row, 2):
            open_pairs.pop(frozenset(pair), None)
        yield from _applied(view, sorted(row, key=levels.index), derive)


def _levels(view: SampleView, single_steps: Sequence[tuple[Step, str]]) -> list[_Level]:
    """The changes for pairs: first of arguments, then of sizes, dtype and layout."""
    likely = [
        (step, kind) for step, kind in single_steps if step.beyond is None and step.rank < _LIKELY
    ]
    likely.sort(key=lambda item: item[0].rank)
    levels: list[_Level] = []
    for step, kind in likely:
        names = {*step.changes, *step.dropped}
        ties = ".size_" in step.name  # to a size, which changes too
        if kind == "arguments" and len(names) == 1 and not names & _unsafe(view) and not ties:
            (axis,) = names
            if sum(level.axis == axis for level in levels) < _LEVELS:
                levels.append(_Level(axis, kind, step.name, step.rank))
    order = [argument.name for argument in view.op.arguments]
    levels.sort(key=lambda level: order.index(level.axis))
    for kind, step_names in _TENSORS.items():
        of_kind = {
            step.name: step
            for step, step_kind in single_steps
            if step_kind == kind and step.beyond is None
        }
        name = next((step_name for step_name in step_names if step_name in of_kind), None)
        if name is not None:
            levels.append(_Level(kind, kind, name, of_kind[name].rank))
    return levels


def _unsafe(view: SampleView) -> set[str]:
    """The arguments whose changes may not fit others: integers, in code that may read out of bounds."""
    if not view.may_read_outside:
        return set()
    return {
        argument.name
        for argument in view.op.arguments
        if any(type_name in str(argument.type) for type_name in _WHOLE)
    }


def _row(levels: Sequence[_Level], open_pairs: dict[_Pair, int]) -> list[_Level]:
    """The likeliest pair that no row has yet, and the changes that add most other new pairs."""
    row = [*min(open_pairs, key=lambda pair: (open_pairs[pair], sorted(map(levels.index, pair))))]
    while len(row) < _CHANGES:
        axes = {level.axis for level in row}
        gains = {
            level: sum(frozenset((level, chosen)) in open_pairs for chosen in row)
            for level in levels
            if level.axis not in axes
        }
        best = max(gains, key=lambda level: (gains[level], -level.rank), default=None)
        if best is None or not gains[best]:
            break
        row.append(best)
    return row


def _applied(view: SampleView, row: Sequence[_Level], derive: Derive) -> Iterator[Step]:
    """The step with the changes of a row that still exist after the earlier ones; none if one is left."""
    changed, taken, axes = view, [], []
    for level in row:
        step = next(
            (
                candidate
                for candidate in derive(changed, level.kind)
                if candidate.name == level.step
            ),
            None,
        )
        if step is not None and step.beyond is None:
            changed = replace(changed, sample=changed.apply(step))
            taken.append(step)
            axes.append(level.axis)
    if len(taken) > 1:
        yield Step(
            JOINT.join(step.name for step in taken),
            "; ".join(step.description for step in taken),
            {path: value for step in taken for path, value in step.changes.items()},
            _RANK,
            any(step.reads_beyond for step in taken),
            tuple(name for step in taken for name in step.dropped),
            aspect=JOINT.join(axes),
        )
