"""`relations.split`: parts of the entries give the same alone as together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import torch

from ...cases.case import Case
from ...cases.crash_risk import may_crash
from ...cases.tensors import is_differentiable
from ...findings import Explanation, doc_links
from ..check import Check
from ..values.memory.calls import GRADIENT
from .entries.calls import Along, Rearranged, Results, Wrong, differing, follow
from .entries.confirm import Violation, is_confirmed
from .entries.groups import DimGroup, few_entries
from .entries.learn import CAUSES, Broken, Learned, in_both, look_at_groups
from .entries.parts import Part, divisions, halves, windows
from .entries.purpose import ignores_entries, note_if_on_purpose, wraps_on_purpose
from .entries.script import rearranging_lines


class _Way(NamedTuple):
    """How the results of parts give the result of all entries.

    Args:
        verb: for a message.
        code: an expression of the results `one` and `other` of two parts, and of the numbers `m` and `n`
            of their entries; empty where each part gives its own entries of the result.
        dim: the dim of the result that has these entries.
        fractions: whether it is for floating-point results only.
    """

    verb: str
    code: str = ""
    dim: int | None = None
    fractions: bool = False

    def joined(self, first: Any, second: Any, m: int, n: int) -> Any:
        """The result of two parts together."""
        return eval(self.code, {"torch": torch, "one": first, "other": second, "m": m, "n": n})


_ADDED = _Way("added", "one + other")
_JOINED = (
    _ADDED,
    _Way("averaged", "(one * m + other * n) / (m + n)", fractions=True),
    _Way("the larger taken", "torch.maximum(one, other)"),
    _Way("the smaller taken", "torch.minimum(one, other)"),
    _Way("combined by logaddexp", "torch.logaddexp(one, other)", fractions=True),
)
_Rules = Mapping[str, frozenset[_Way]]
_OTHER_DRAW = 2  # after the two that the ways are learned from


def check_split(case: Case) -> None:
    """Compare the results of many entries with those of parts, if these have a relation for few entries."""
    broken = look_at_groups(case, _look)
    if broken is not None:
        raise broken.failure("parts-differ-from-whole")


def _look(case: Case, group: DimGroup) -> Learned:
    rules = _learned_rules(case, group)
    if not rules:
        return Learned(learned=False)
    calls = Rearranged(case, group)
    for violation, parts in _violations(group, rules):
        wrong = violation(calls)
        if wrong is not None and is_confirmed(case, group, violation, wrong):
            holds = _holds_for_others(case, group, wrong.name, rules[wrong.name])
            if not holds or wraps_on_purpose(case, wrong):
                return Learned(learned=False)
            return Learned(True, _broken(case, group, rules, wrong, parts, violation))
    return Learned(learned=True)


def _broken(
    case: Case,
    group: DimGroup,
    rules: _Rules,
    wrong: Wrong,
    parts: tuple[Part, ...],
    violation: Violation,
) -> Broken:
    way = next(way for way in rules[wrong.name] if (way.dim is None) == (len(parts) == 2))
    ranges = [part.description for part in parts]
    if way.dim is not None:
        text = f"entries {ranges[0]} along {group} do not give the same alone as among all {group.size}"
        compared = f"expected.index_select({way.dim}, {parts[0].code}), call({parts[0].code})"
    else:
        text = (
            f"entries {ranges[0]} and {ranges[1]} along {group}, {way.verb}, do not give the same as "
            f"all {group.size} together"
        )
        compared = f"expected, ({way.code}).to(expected.dtype)"
    message = f"{case.op.name}: {text}, but parts of {group.trusted} do: {wrong.name}: {wrong.text}"
    lines = rearranging_lines(case, group, wrong, _along(rules))
    if way.dim is None:
        lines += "".join(
            f"{which} = call({part.code})\n{count} = {len(part.positions)}\n"
            for which, count, part in zip(("one", "other"), "mn", parts, strict=True)
        )
    lines += f"expected = call(torch.arange({group.size}))\nassert_close({compared})\n"
    ignores = ignores_entries(case, group, wrong.name, way.dim, _along(rules))
    note = note_if_on_purpose(case, group, violation, wrong, ignores)
    return Broken(message, lines, note, wrong.picture)


def _violations(group: DimGroup, rules: _Rules) -> Iterator[tuple[Violation, tuple[Part, ...]]]:
    """Functions that look for a difference between all entries and some parts, with these parts."""
    if any(way.dim is not None for ways in rules.values() for way in ways):
        for part in windows(group):
            yield partial(_differs, rules=rules, parts=(part,)), (part,)
    if any(way.dim is None for ways in rules.values() for way in ways):
        for pair in divisions(group):
            yield partial(_differs, rules=rules, parts=pair), pair


def _differs(calls: Rearranged, rules: _Rules, parts: tuple[Part, ...]) -> Wrong | None:
    """The first result that its parts give in none of its ways.

    Args:
        calls: of the op on all entries.
        rules: the ways, by result.
        parts: one, for a result that has its entries; or two that together are all entries.
    """
    whole = calls.whole
    taken = (
        [calls.taken(part.positions, _along(rules)) for part in parts] if whole is not None else []
    )
    if whole is None or None in taken:
        return None
    results = [result for result in taken if result is not None]
    for name, ways in rules.items():
        fitting = [way for way in ways if (way.dim is None) == (len(parts) == 2)]
        if fitting and name in whole and all(name in result for result in results):
            wrong = [_wrong(calls.case, name, whole, results, way, parts) for way in fitting]
            if wrong[0] is not None and None not in wrong and wrong[0].has_one_shape:
                return wrong[0]
    return None


def _wrong(
    case: Case,
    name: str,
    whole: Results,
    results: list[Results],
    way: _Way,
    parts: tuple[Part, ...],
) -> Wrong | None:
    """How a result differs from what its parts give in one way; None if it does not."""
    expected = whole[name]
    if way.dim is not None:
        (part,), (actual,) = parts, [result[name] for result in results]
        if expected.dim() <= way.dim or int(part.positions.max()) >= expected.shape[way.dim]:
            return Wrong(name, "it has another shape", actual, expected)
        return differing(case, name, follow(expected, way.dim, part.positions), actual)
    first, second = (result[name] for result in results)
    if not first.shape == second.shape == expected.shape:
        return Wrong(name, "it has another shape", first, expected)
    joined = way.joined(first, second, *(len(part.positions) for part in parts))
    return differing(case, name, expected, joined.to(expected.dtype))


def _along(rules: _Rules) -> Along:
    """The outputs whose gradients follow from those of parts, each with its dim of entries, if any."""
    along = {}
    for name, ways in rules.items():
        taken = next((way for way in ways if way.dim is not None), None)
        if not name.startswith(GRADIENT) and (taken is not None or _ADDED in ways):
            along[name] = None if taken is None else taken.dim
    return along


def _learned_rules(case: Case, group: DimGroup) -> _Rules:
    """The ways in which two parts, each of a trusted size, give each result.

    Results without one are left out.
    """
    learned = []
    positions = torch.arange(2 * group.trusted)
    for draw, index in enumerate((positions, positions // 2 * 2)):  # the second has equal entries
        entries = few_entries(case, group, index % group.size, draw)
        rules = _rules_of(Rearranged(entries.case, group, entries.arguments), len(index))
        if draw == 0:  # in the second one, neighbouring entries are equal
            half = few_entries(case, group, positions[: group.trusted])
            calls = Rearranged(half.case, group, half.arguments)
            depending = calls.depending(calls.whole or {}, group.trusted)
            rules = {
                name: ways
                for name, ways in rules.items()
                if name in depending or name.startswith(GRADIENT)
            }
        learned.append(rules)
        if not rules:
            return {}
    return in_both(*learned)


def _holds_for_others(case: Case, group: DimGroup, name: str, ways: frozenset[_Way]) -> bool:
    """Whether a way also fits few entries from all over the case: the first ones may share a segment."""
    count = 2 * group.trusted
    positions = torch.arange(count) * (group.size - 1) // (count - 1)
    entries = few_entries(case, group, positions, _OTHER_DRAW)
    found = _rules_of(Rearranged(entries.case, group, entries.arguments), count)
    return bool(ways & found.get(name, frozenset()))


def _rules_of(calls: Rearranged, size: int) -> _Rules:
    whole = calls.whole
    if whole is None:
        return {}
    tensors = {name: value for name, value in whole.items() if isinstance(value, torch.Tensor)}
    outputs = {
        name: _ways(tensor, size)
        for name, tensor in tensors.items()
        if not name.startswith(GRADIENT)
    }
    gradients = {
        name: _ways(tensor, size)
        for name, tensor in tensors.items()
        if name.startswith(GRADIENT) and bool(tensor.any())
    }
    rules = _consistent(calls, whole, outputs, size, None)
    if rules and gradients and _along(rules):
        rules = {**rules, **_consistent(calls, whole, gradients, size, _along(rules))}
    return rules


def _ways(result: torch.Tensor, size: int) -> frozenset[_Way]:
    """The ways in which parts may give a result."""
    taken = {_Way("taken", dim=dim) for dim, length in enumerate(result.shape) if length == size}
    if result.dtype.is_complex:
        return frozenset({*taken, _ADDED})
    fractions = is_differentiable(result.dtype)
    if fractions and result.dtype.itemsize == 1:  # torch does not compute in it
        return frozenset(taken)
    return frozenset(taken | {way for way in _JOINED if fractions or not way.fractions})


def _consistent(
    calls: Rearranged, whole: Results, rules: _Rules, size: int, along: Along | None
) -> _Rules:
    """The ways in which parts of few entries give the results; results without one are left out."""
    kept = dict(rules)
    for parts in halves(size):
        taken = [calls.taken(part.positions, along) for part in parts]
        results = [result for result in taken if result is not None]
        if len(results) < len(parts):
            return {}
        for name in kept:
            if not all(isinstance(result.get(name), torch.Tensor) for result in results):
                kept[name] = frozenset()
            kept[name] = frozenset(
                way for way in kept[name] if _holds(calls.case, name, whole, results, way, parts)
            )
        if not any(kept.values()):
            return {}
    return {name: ways for name, ways in kept.items() if ways}


def _holds(
    case: Case,
    name: str,
    whole: Results,
    results: list[Results],
    way: _Way,
    parts: tuple[Part, Part],
) -> bool:
    if way.dim is None:
        return _wrong(case, name, whole, results, way, parts) is None
    return all(
        result[name].dim() > way.dim
        and result[name].shape[way.dim] == len(part.positions)
        and _wrong(case, name, whole, [result], way, (part,)) is None
        for result, part in zip(results, parts, strict=True)
    )


FINDINGS = {
    "parts-differ-from-whole": Explanation(
        meaning=(
            "For few entries along a dim, parts of them give the same as all together: each its own "
            "entries of the result, or results whose sum, mean, maximum or minimum is that of all. For "
            "many entries this does not hold."
        ),
        why=(
            "With more entries than the author tried, the op computes something else: the rest after the "
            "last full block is left out, a count or an offset overflows, a buffer is too small, one block "
            "is combined with the next in a wrong way."
        ),
        fix=(
            "Look at what happens beyond the size of a block, of a vector or of a chunk, and at the dtypes "
            "of counts and offsets. If the op treats many entries differently on purpose, or takes only so "
            'many, write checks=["-relations.split"].'
        ),
        before="""
for start in range(0, len(x) // BLOCK * BLOCK, BLOCK):   # the rest is left out
    out[start : start + BLOCK] = f(x[start : start + BLOCK])
""",
        after="""
for start in range(0, len(x), BLOCK):
    out[start : start + BLOCK] = f(x[start : start + BLOCK])
""",
        docs=(doc_links.CUSTOM_OP, doc_links.TESTING),
        follows=CAUSES,
    ),
}

CHECK = Check(
    name="relations.split",
    summary="parts of many entries give the same alone as together, if parts of few do",
    run=check_split,
    variants=("shape", "large", "long"),
    variants_with_gradients=True,
    cheap=True,
    in_copies=may_crash,
    findings=FINDINGS,
    catches=(
        "A kernel or a backward that treats many entries differently from few: it leaves out the rest "
        "after the last full block, counts in too few bits, combines blocks in a wrong way. The check "
        "first learns, on the sample or on eight entries of a larger one, how parts along a dim give the "
        "result: each its own entries, or a sum, a mean, a maximum, a minimum, a logarithm of summed "
        "exponentials. On larger sizes the parts must give it in the same way, also with other values."
    ),
    cannot_see=(
        "Results of another kind, and sizes that are not tried. A finding is a note where an integer "
        "argument or a docstring may limit how many entries are taken."
    ),
    cost="many calls",
)
