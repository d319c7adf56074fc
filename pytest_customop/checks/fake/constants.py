"""Run the real op at other sizes to decide whether a size that became a constant must be one.

A constant proves nothing by itself: a correct "needs 3 channels" and a wrong `int(x.shape[0])` leave the
same guard, and a hard-coded size leaves none.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch

from ...cases.case import Case
from ...cases.resize import Place, changeable, is_documented, other_sizes, whole_numbers
from ...cases.run import Run
from ...cases.tensors import output_leaves
from ...cases.unrolled import loops_over_sizes
from ...findings import NOT_ASKED, CheckFailed, fail
from . import scripts
from .real_and_fake import (
    HARDCODED,
    RAISES,
    Disagreement,
    RealAndFake,
    explained_by_integers,
    sizes_of,
    worst_new,
)
from .size_groups import groups_of_pin
from .specialization import Pin, Traced, only_next_to_one


def is_decided(
    pair: RealAndFake, traced: Traced, pin: Pin, known: Collection[tuple[str, str]]
) -> bool:
    """Run the real op at other sizes, to see whether a constant must be one.

    Returns:
        False if no other size could be tried.

    Raises:
        CheckFailed: if the constant is wrong.
    """
    case = pair.case
    if all(is_documented(case, place) for place in pin.places):
        return True
    if not set(pin.places) & set(changeable(case)):
        return False

    def needs_new_trace(changed: Case) -> bool:
        return pin.relation is None or traced.bindings(changed) is None

    for group, changed in other_sizes(case, groups_of_pin(case, pin), needs_new_trace):
        changed_pair = RealAndFake(changed, pair.backward)
        if not changed_pair.works or not (changed_pins := set(group) & set(pin.places)):
            continue
        if not _same_structure(case.eager, changed.eager):
            return True  # the number of outputs or of dims cannot be symbolic
        disagreement = worst_new(changed_pair.disagreements(), known)
        if disagreement is None and {place.size for place in pin.places} <= whole_numbers(case):
            return True  # sizes that equal int arguments: both kernels may have to compare them
        if disagreement is None and loops_over_sizes(case, changed):
            return True
        pinned = [(place.argument, place.dim) for place in pin.places]
        if disagreement is None and only_next_to_one(case, changed, pinned):
            return True
        if disagreement is None:
            raise _specialized(case, pin, changed)
        if not explained_by_integers(pair, changed_pair, known):
            raise _disagreement(case, changed, sorted(changed_pins, key=str)[0], disagreement)
        return True
    return True


def _same_structure(first: Run, second: Run) -> bool:
    """Whether two results differ only in what can be symbolic: sizes and integers."""
    return _structure(first) == _structure(second)


def _structure(run: Run) -> list[tuple[str, Any]]:
    return [(name, _kind(leaf)) for name, leaf in output_leaves(run.result)]


def _kind(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        return leaf.dim(), leaf.dtype, leaf.layout
    return int if type(leaf) is int else repr(leaf)


def _specialized(case: Case, pin: Pin, changed: Case) -> CheckFailed:
    at = f" at {pin.line}" if pin.line else ""
    what = f" ({pin.relation} is assumed)" if pin.relation else ""
    lines = [f"line: {pin.line}"] if pin.line else []
    positions = _positions(case, pin)
    if pin.relation:
        script = scripts.retrace_script(positions)
    else:
        script = scripts.trace_script(positions, insist=True)
    return fail(
        "fake-size-specialized",
        f"{case.op.name}: {pin.culprit} turns {pin} into a constant{at}{what}; the op also works "
        f"with {sizes_of(changed)}",
        "\n".join([*lines, f"constant: {pin}{what}", f"works too: {sizes_of(changed)}"]),
        repro=script,
        case=changed if pin.relation else None,
        note=NOT_ASKED if pin.is_of_backward else None,
    )


def _positions(case: Case, pin: Pin) -> list[tuple[int, int]]:
    names = [name for name, _ in case.eager.arguments.tensors()]
    return [(names.index(place.argument), place.dim) for place in pin.places]


def _disagreement(
    case: Case, changed: Case, place: Place, disagreement: Disagreement
) -> CheckFailed:
    if disagreement.code != RAISES:
        shown = f"with {sizes_of(changed)}"
        text = f"{disagreement.text}, {shown}"
        return fail(
            disagreement.finding_code, text, disagreement.evidence, case=changed, shown=shown
        )
    return fail(
        HARDCODED,
        f"{case.op.name}: the fake kernel insists on {place}; the real one also works with "
        f"{sizes_of(changed)}, where the fake one raises {disagreement.text}",
        disagreement.evidence,
        "Let the fake kernel take every size that the real kernel takes, or let the real kernel "
        "reject the same sizes with the same error.",
        case=changed,
        note=disagreement.note,
        shown=f"with {sizes_of(changed)}",
    )
