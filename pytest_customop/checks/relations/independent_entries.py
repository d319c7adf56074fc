"""`relations.independent_entries`: entries that a docstring calls independent do not affect each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...cases.case import Case
from ...cases.documented_batches import sentence_of_independence
from ...core.wording import docstring_says
from ...declare.ops import Op
from ...findings import Explanation, doc_links, fail
from ..check import Check
from ..values.memory.calls import expression, skip_if_incomparable
from ..values.memory.limited_copy import answer_if_taken
from .compare import is_so_in_double
from .entries.alone import AloneEntries, independent_entries
from .entries.calls import Along, Wrong
from .entries.groups import DimGroup
from .entries.script import rearranging_lines


class _Broken(NamedTuple):
    """Entries that give something else together than alone.

    Args:
        group: the dims of the entries.
        entries: which were taken together.
        place: the place of the wrong one among them.
        wrong: its results among them and alone.
        along: as in `Rearranged.taken`.
        mirrored: how many entries are there once more, with dim 1 in reverse, behind the others.
    """

    group: DimGroup
    entries: Sequence[int]
    place: int
    wrong: Wrong
    along: Along
    mirrored: int = 0


def _says_so(op: Op) -> bool:
    return bool(sentence_of_independence(op))


def check_independent_entries(case: Case) -> None:
    """Call the op with its entries in other orders, some of them twice, and with each alone."""
    skip_if_incomparable(case)
    reason = "along no first dim do entries give the same alone as together"
    broken = answer_if_taken(case, _answer, reason)
    if broken is not None:
        entry, wrong = broken.entries[broken.place], broken.wrong
        copies = ""
        if broken.mirrored:
            copies = f", where {broken.mirrored} and more are those before with dim 1 in reverse"
        raise fail(
            "entry-depends-on-others",
            f"{case.op.name}: entry {entry} along {broken.group} gives something else among the entries "
            f"{[*broken.entries]} (place {broken.place}{copies}) than alone: {wrong.name}: {wrong.text}",
            docstring_says(sentence_of_independence(case.op)),
            repro=_script(case, broken),
            picture=wrong.picture,
        )


def _answer(case: Case) -> tuple[bool, _Broken | None]:
    """Whether entries of some dims are independent in the sample, and an order in which they are not."""
    is_learned = False
    for alone in independent_entries(case):
        orders = alone.orders()
        tried = ((order, alone.wrong(order)) for order in orders)
        broken = [(order, *found) for order, found in tried if found is not None]
        if 2 * len(broken) > len(orders):  # most orders contradict the docstring
            continue
        is_learned = True
        for order, place, wrong in broken:
            if _is_wrong_again(alone, order, place):
                return True, _Broken(alone.group, order, place, wrong, alone.along)
        found = _broken_behind_its_mirror(alone)
        if found is not None:
            return True, found
    return is_learned, None


def _broken_behind_its_mirror(alone: AloneEntries) -> _Broken | None:
    """An entry that gives something else behind one that ends with what it begins with."""
    mirrored = alone.mirrored()
    if not mirrored.each_is_taken:
        return None
    for order in mirrored.pairs_of_mirrored():
        found = mirrored.wrong(order)
        if found is not None and _is_wrong_again(mirrored, order, found[0], is_mirrored=True):
            group, along = mirrored.group, mirrored.along
            return _Broken(group, order, *found, along, mirrored=group.size // 2)
    return None


def _is_wrong_again(
    alone: AloneEntries, order: Sequence[int], place: int, *, is_mirrored: bool = False
) -> bool:
    """Whether the entry is wrong once more and, if the op supports it, in double precision."""
    again = alone.wrong(order)
    if again is None or again[0] != place:
        return False

    def ask(case: Case) -> bool:
        wide = AloneEntries(case, alone.group)
        if is_mirrored:
            wide = AloneEntries(case, alone.group._replace(size=alone.group.size // 2)).mirrored()
        return not wide.each_is_taken or wide.wrong(order) is not None

    return is_so_in_double(alone.case, ask)


def _script(case: Case, broken: _Broken) -> str:
    place = broken.place
    return (
        _mirroring_lines(case, broken)
        + rearranging_lines(case, broken.group, broken.wrong, broken.along)
        + f"entries = torch.tensor({[*broken.entries]})\n"
        + f"got, alone = call(entries), call(entries[{place} : {place + 1}])\n"
        + f"assert_close(got[{place} : {place + 1}], alone)\n"
    )


def _mirroring_lines(case: Case, broken: _Broken) -> str:
    """Lines that replace `inputs()` by one with entries that are there twice; none if none are."""
    if not broken.mirrored:
        return ""
    lines = ["given = inputs", "", "", "def inputs():", "    args, kwargs = given()"]
    lines.append("    args = list(args)")
    tensors = dict(case.inputs().tensors())
    for path, _ in broken.group.dims:
        place = expression(case, path)
        first = f"{place}.detach()[:{broken.mirrored}]"
        other = f"{first}.flip(1)" if tensors[path].dim() > 1 else first
        requires = f".requires_grad_({place}.requires_grad)"
        lines.append(f"    {place} = torch.cat([{first}, {other}]){requires}")
    return "\n".join([*lines, "    return args, kwargs", "", "", ""])


FINDINGS = {
    "entry-depends-on-others": Explanation(
        meaning=(
            "A docstring says that each entry of a batch is computed on its own. But for some entries, in "
            "some order, one of them gets another result, or another gradient, than alone."
        ),
        why=(
            "Something is carried from one entry to the next: a running value that is not reset, a buffer "
            "that is not cleared, a table that is filled once for all. Results depend on what else is in "
            "the same batch."
        ),
        fix=(
            "At the start of each entry, reset what the loop over entries carries. If entries are meant to "
            "affect each other, correct the docstring."
        ),
        before="""
previous = blank
for row in range(batch):
    for label in labels[row]:
        if label != previous: ...      # the last label of the row before
""",
        after="""
for row in range(batch):
    previous = blank
    for label in labels[row]:
        if label != previous: ...
""",
        docs=(doc_links.CUSTOM_OP,),
        follows=("stale-result", "uninitialized-output", "outputs-not-repeatable"),
    ),
}

CHECK = Check(
    name="relations.independent_entries",
    summary="entries of a batch that a docstring calls independent give the same alone as together",
    run=check_independent_entries,
    needs=_says_so,
    variants=("arguments", "values", "shape"),
    cheap=True,
    findings=FINDINGS,
    catches=(
        'Entries that influence each other although a docstring calls them independent ("each row on its '
        "own\"): a value carried from row to row, a buffer that is not cleared. The sample's entries are "
        "taken alone, in reverse, drawn with repetition, and behind a copy of themselves whose dim 1 is in "
        "reverse, so that it ends with what they begin with. A docstring that most orders contradict is "
        "not believed."
    ),
    cannot_see=(
        "Ops without such a docstring, entries along other dims than the first, results without a dim for "
        "the entries, and results whose shape depends on the batch."
    ),
    cost="many calls",
)
