"""`relations.unbatched`: a call without the batch dim gives the same as a batch of one."""

from __future__ import annotations

from typing import NamedTuple

from ...cases.arguments import Arguments
from ...cases.case import Case
from ...cases.documented_batches import takes_unbatched
from ...findings import Explanation, doc_links, fail
from ..check import Check
from ..values.memory.calls import (
    Caller,
    copied_results,
    expression,
    skip_if_incomparable,
)
from ..values.memory.limited_copy import answer_if_taken
from .compare import Disagreement, disagreement, shapes
from .entries.alone import independent_entries
from .entries.groups import DimGroup
from .scripts import call_lines, compare_lines


class _Broken(NamedTuple):
    """An entry that gives something else without the batch dim than as a batch of one."""

    group: DimGroup
    entry: int
    wrong: Disagreement


def check_unbatched(case: Case) -> None:
    """Call the op with single entries, with and without their batch dim."""
    skip_if_incomparable(case)
    reason = "the sample has no independent entries, or the op takes none without the batch dim"
    broken = answer_if_taken(case, _answer, reason)
    if broken is not None:
        group, wrong = broken.group, broken.wrong
        raise fail(
            "unbatched-differs",
            f"{case.op.name}: entry {broken.entry} without the batch dim, {group}, does not give the "
            f"same as in a batch of one: {wrong}",
            repro=_script(case, broken),
            picture=wrong.picture,
        )


def _answer(case: Case) -> tuple[bool, _Broken | None]:
    """Whether the op takes an entry without its batch dim, and the first one that differs."""
    calls = Caller(case)
    is_taken = False
    for alone in independent_entries(case):
        for entry, expected in enumerate(alone.alone):
            batched = [(name, expected[name]) for name in alone.along]
            actual = copied_results(calls(_without_dim(case.inputs(), alone.group, entry)))
            squeezed = [(name, value[0]) for name, value in batched if value.shape[:1] == (1,)]
            if actual is None or shapes(actual) != shapes(squeezed):
                continue
            is_taken = True
            wrong = disagreement(case, actual, squeezed)
            if wrong is not None:
                return True, _Broken(alone.group, entry, wrong)
    return is_taken, None


def _without_dim(arguments: Arguments, group: DimGroup, entry: int) -> Arguments:
    paths = {path for path, _ in group.dims}
    return arguments.map_distinct(
        lambda path, tensor: tensor.detach()[entry].clone() if path in paths else tensor
    )


def _script(case: Case, broken: _Broken) -> str:
    entry = broken.entry
    places = [expression(case, path) for path, _ in broken.group.dims]
    taken = "".join(f"    {place} = {place}[{entry} : {entry + 1}]\n" for place in places)
    squeezed = "".join(f"{place} = {place}[0]\n" for place in places)
    return (
        call_lines(broken.wrong.name)
        + "\ndef batch_of_one():\n    args, kwargs = inputs()\n    args = list(args)\n"
        + f"{taken}    return args, kwargs\n\n\n"
        + "expected = [each[0] for each in call(*batch_of_one())]\n"
        + f"args, kwargs = batch_of_one()\n{squeezed}got = call(args, kwargs)\n"
        + compare_lines(case, broken.wrong.name)
    )


FINDINGS = {
    "unbatched-differs": Explanation(
        meaning=(
            "As its docstring says, the op also takes one entry without the batch dim. But it gives other "
            "values for it than for a batch that has this entry alone."
        ),
        why=(
            "Calls without a batch take their own path, which leaves out an argument or takes one dim for "
            "another."
        ),
        fix=(
            "Add the batch dim to every argument that has one, call the same code as for a batch, and "
            "remove the dim again. If the two forms are meant to differ, document it, and write "
            'checks=["-relations.unbatched"].'
        ),
        before="""
if x.dim() == 2:
    return decode(x[None], weight)[0]              # the mask is forgotten
""",
        after="""
if x.dim() == 2:
    mask = None if mask is None else mask[None]
    return decode(x[None], weight, mask)[0]
""",
        docs=(doc_links.CUSTOM_OP,),
        follows=("stale-result", "uninitialized-output", "outputs-not-repeatable"),
    ),
}

CHECK = Check(
    name="relations.unbatched",
    summary="an entry without its batch dim gives the same as a batch of one",
    run=check_unbatched,
    gradients=False,
    needs=takes_unbatched,
    variants=("arguments",),
    cheap=True,
    findings=FINDINGS,
    catches=(
        "An entry that gives something else without the batch dim than as a batch of one, although a "
        "docstring says that the op takes both: a forgotten argument, a dim taken for another."
    ),
    cannot_see=(
        "Ops without such a docstring, samples without a batch of two or more, and results without a dim "
        "for its entries."
    ),
    cost="calls",
)
