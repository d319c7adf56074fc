"""`relations.permutation`: many entries give the same in another order, if few do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ...cases.case import Case
from ...cases.crash_risk import may_crash
from ...findings import Explanation, doc_links
from ..check import Check
from ..values.memory.calls import GRADIENT
from .entries.calls import Along, Rearranged, Results, Wrong, differing, follow
from .entries.confirm import is_confirmed
from .entries.groups import DimGroup, few_entries
from .entries.learn import CAUSES, Broken, Learned, in_both, look_at_groups
from .entries.purpose import ignores_entries, note_if_on_purpose
from .entries.script import rearranging_lines

# By name of a result: its dims that may follow the order, and its shape if the order may not matter.
_Shape = tuple[int, ...]
_Ways = frozenset[int | _Shape]
_Rules = Mapping[str, _Ways]

_DRAWS = 12  # of few entries, for which the relation must hold before a finding is reported
_ORDERS = (
    ("in reverse", "torch.arange({size}).flip(0)"),
    ("shuffled", "torch.randperm({size}, generator=torch.Generator().manual_seed(1))"),
)


def check_permutation(case: Case) -> None:
    """Compare results for entries in another order, if the order of few does not matter."""
    broken = look_at_groups(case, _look)
    if broken is not None:
        raise broken.failure("result-depends-on-order")


def _look(case: Case, group: DimGroup) -> Learned:
    rules = _learned_rules(case, group)
    if not rules:
        return Learned(learned=False)
    calls = Rearranged(case, group)
    for order, code in _ORDERS:
        index = _index(code, group.size)

        def violation(calls: Rearranged, index: torch.Tensor = index) -> Wrong | None:
            return _violation(calls, rules, index)

        wrong = violation(calls)
        if wrong is None or not is_confirmed(case, group, violation, wrong):
            continue
        if not _holds_for_few(case, group, wrong.name, rules[wrong.name]):
            return Learned(learned=False)
        dim, along = _followed_dim(rules[wrong.name]), _along(rules)
        ignores = ignores_entries(case, group, wrong.name, dim, along)
        if dim is not None and not ignores:
            continue  # blocks of entries may be computed apart on purpose, each with a scale of its own
        same = "the same" if dim is None else "the same in that order"
        message = (
            f"{case.op.name}: with the {group.size} entries along {group} {order} it does not give "
            f"{same}, but with {group.trusted} it does: {wrong.name}: {wrong.text}"
        )
        script = rearranging_lines(case, group, wrong, along) + _SCRIPT.format(
            order=code.format(size=group.size),
            followed="expected" if dim is None else f"expected.index_select({dim}, index)",
        )
        note = note_if_on_purpose(case, group, violation, wrong, ignores)
        return Learned(True, Broken(message, script, note, wrong.picture))
    return Learned(learned=True)


def _index(code: str, size: int) -> torch.Tensor:
    index: torch.Tensor = eval(code.format(size=size), {"torch": torch})
    return index


def _followed_dim(ways: _Ways) -> int | None:
    """The dim that follows the order; None without one. A dim of equal entries follows it and does not."""
    return next((way for way in ways if isinstance(way, int)), None)


def _along(rules: _Rules) -> Along:
    return {
        name: _followed_dim(ways) for name, ways in rules.items() if not name.startswith(GRADIENT)
    }


def _learned_rules(case: Case, group: DimGroup) -> _Rules:
    """How each result follows the order of few entries; results that follow in no way are left out."""
    learned = []
    positions = torch.arange(group.trusted)
    for draw, index in enumerate((positions, positions // 2 * 2)):  # the second has equal entries
        entries = few_entries(case, group, index, draw)
        learned.append(
            _rules_of(Rearranged(entries.case, group, entries.arguments), len(index), draw > 0)
        )
        if not learned[-1]:
            return {}
    return in_both(*learned)


def _holds_for_few(case: Case, group: DimGroup, name: str, ways: _Ways) -> bool:
    """Whether a result follows the order of few entries in further draws too, and not by chance."""
    for draw in range(2, 2 + _DRAWS):
        entries = few_entries(case, group, torch.arange(group.trusted), draw)
        calls = Rearranged(entries.case, group, entries.arguments)
        if not ways & _rules_of(calls, group.trusted, twice=True).get(name, frozenset()):
            return False
    return True


def _rules_of(calls: Rearranged, size: int, twice: bool) -> _Rules:
    """The rules that hold in one draw; if its entries come `twice`, no dependence can be seen."""
    whole = calls.whole
    if whole is None:
        return {}
    outputs = {name: value for name, value in whole.items() if not name.startswith(GRADIENT)}
    rules = _consistent(
        calls, whole, {name: _ways(value, size) for name, value in outputs.items()}, size
    )
    if not rules:
        return {}
    if not twice:
        depending = calls.depending(outputs, size)
        rules = {name: ways for name, ways in rules.items() if name in depending}
    gradients = {
        name: _ways(value, size)
        for name, value in whole.items()
        if name.startswith(GRADIENT) and bool(value.any())
    }
    if not (rules and gradients):
        return rules
    return {**rules, **_consistent(calls, whole, gradients, size, _along(rules))}


def _ways(result: Any, size: int) -> _Ways:
    """How a result may follow the order of entries."""
    shape = tuple(result.shape) if isinstance(result, torch.Tensor) else ()
    return frozenset({shape, *(dim for dim, length in enumerate(shape) if length == size)})


def _consistent(
    calls: Rearranged, whole: Results, rules: _Rules, size: int, along: Along | None = None
) -> _Rules:
    """The ways in which results follow every order; results without one are left out.

    Args:
        along: as in `Rearranged.taken`.
    """
    kept = dict(rules)
    for _, code in _ORDERS:
        index = _index(code, size)
        reordered = calls.taken(index, along)
        if reordered is None:
            return {}
        kept = {
            name: frozenset(
                way
                for way in ways
                if _broken(calls.case, name, whole, reordered, way, index) is None
            )
            for name, ways in kept.items()
            if name in reordered
        }
        if not any(kept.values()):
            return {}
    return {name: ways for name, ways in kept.items() if ways}


def _violation(calls: Rearranged, rules: _Rules, index: torch.Tensor) -> Wrong | None:
    """The first result that follows the order in none of its ways."""
    whole = calls.whole
    reordered = calls.taken(index, _along(rules)) if whole is not None else None
    if whole is None or reordered is None:
        return None
    for name, ways in rules.items():
        if name in whole and name in reordered:
            wrong = [_broken(calls.case, name, whole, reordered, way, index) for way in ways]
            if wrong[0] is not None and None not in wrong and wrong[0].has_one_shape:
                return wrong[0]
    return None


def _broken(
    case: Case,
    name: str,
    whole: Results,
    reordered: Results,
    way: int | _Shape,
    index: torch.Tensor,
) -> Wrong | None:
    """How a result fails to follow the order along a dim, or to stay the same; None if it does not fail.

    A result that should stay the same is not judged in another shape: it may have a number for each block.
    """
    expected, actual = whole[name], reordered[name]
    if isinstance(expected, torch.Tensor):
        shape = tuple(expected.shape)
        if not isinstance(way, int):
            return None if shape != way else differing(case, name, actual, expected)
        if len(shape) <= way or shape[way] != len(index):
            return Wrong(name, "it has another shape", actual, expected)
        expected = follow(expected, way, index)
    return differing(case, name, actual, expected)


_SCRIPT = """
index = {order}
expected = call(torch.arange(len(index)))
assert_close(call(index), {followed})
"""

FINDINGS = {
    "result-depends-on-order": Explanation(
        meaning=(
            "For few entries along a dim, their order does not matter: the result stays the same, or "
            "follows their order. For many entries it matters."
        ),
        why=(
            "The op treats some entries differently because of where they stand: those after the last full "
            "block, those at the edge of a block, all blocks but one."
        ),
        fix=(
            "Look at what happens beyond the size of a block, of a vector or of a chunk. Is the rest "
            "computed? Are the results of earlier blocks combined with the next? Does the mask of the last "
            "block have the size of that block? If the order is meant to matter, or only so many entries "
            'are taken, write checks=["-relations.permutation"].'
        ),
        before="""
blocks = x[: len(x) // BLOCK * BLOCK].view(-1, BLOCK)   # the rest is left out
return blocks.sum(1).sum()
""",
        after="""
blocks = torch.nn.functional.pad(x, (0, -len(x) % BLOCK)).view(-1, BLOCK)
return blocks.sum(1).sum()
""",
        docs=(doc_links.CUSTOM_OP, doc_links.TESTING),
        follows=("parts-differ-from-whole", *CAUSES),
    ),
}

CHECK = Check(
    name="relations.permutation",
    summary="many entries give the same in another order, if few do",
    run=check_permutation,
    variants=("shape", "large", "long"),
    variants_with_gradients=True,
    cheap=True,
    in_copies=may_crash,
    findings=FINDINGS,
    catches=(
        "A kernel or a backward that treats entries by where they stand: the rest after the last full "
        "block, blocks that forget the results of earlier ones. The check first learns, on the sample or "
        "on eight entries of a larger one, whether results ignore the order of entries along a dim, or "
        "follow it. On larger sizes they must do the same, also with other values."
    ),
    cannot_see=(
        "Mistakes that affect all entries alike, ops in which order matters, and sizes that are not tried. "
        "A finding is a note where an integer argument or a docstring may limit how many entries are "
        "taken. Results that follow the order count only where some of them depend on no entry: blocks of "
        "entries may have their own scales."
    ),
    cost="many calls",
)
