"""`relations.zeros_around`: zeros before or behind the entries of a sequence only move the results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import NamedTuple

import torch

from ...cases.arguments import Arguments
from ...cases.case import Case
from ...cases.crash_risk import may_crash
from ...cases.deliberate import names_blocks
from ...cases.documentation import texts_about
from ...cases.tensors import is_differentiable, is_finite, is_plain
from ...findings import Explanation, doc_links
from ..check import Check
from ..values.memory.calls import GRADIENT, expression
from .entries.calls import Along, Rearranged, Results, Wrong, differing, follow
from .entries.confirm import is_confirmed
from .entries.groups import DimGroup, few_entries
from .entries.learn import CAUSES, Broken, Learned, in_both, look_at_groups
from .entries.parts import Part
from .entries.purpose import note_if_on_purpose
from .entries.script import rearranging_lines

_Rules = Mapping[str, frozenset[int]]  # by result: its dims that have the entries
_DRAWS = 3  # of few entries, for which a relation must hold before a finding is reported


class _Around(NamedTuple):
    """Entries at one end that do not count.

    Args:
        before: whether they are the first ones; otherwise the last ones.
        zeros: whether they are zeros; otherwise they equal the entry next to them.
    """

    before: bool
    zeros: bool

    def text(self, count: int, group: DimGroup) -> str:
        """These entries in words."""
        which = "first" if self.before else "last"
        what = "0" if self.zeros else "equal to the one next to them"
        return f"the {which} {count} of {group.size} entries along {group} {what}"

    def kept(self, count: int, size: int) -> Part:
        """The other entries."""
        first, last = (count, size) if self.before else (0, size - count)
        return Part(f"{first} to {last - 1}", f"torch.arange({first}, {last})")

    def equal(self, count: int, size: int) -> str:
        """Code of a position for each entry: of the entry that it equals."""
        bound = f"min={count}" if self.before else f"max={size - count - 1}"
        return f"torch.arange({size}).clamp({bound})"

    def span(self, count: int, size: int) -> str:
        """The slice of these entries."""
        return f":{count}" if self.before else f"{size - count}:"

    def arguments(self, group: DimGroup, count: int, size: int, given: Arguments) -> Arguments:
        """The arguments with entries that do not count in place of the first or last ones."""
        if not self.zeros:
            return group.taken(given, Part("", self.equal(count, size)).positions)
        first = 0 if self.before else size - count

        def changed(name: str, tensor: torch.Tensor) -> torch.Tensor:
            dims = [dim for path, dim in group.dims if path == name]
            if not dims or not is_differentiable(tensor.dtype):
                return tensor
            value = tensor.detach().clone()
            for dim in dims:
                value.narrow(dim, first, count).zero_()
            return value.requires_grad_(tensor.requires_grad)

        return given.map_distinct(changed)


_AROUND = tuple(_Around(before, zeros) for zeros in (True, False) for before in (True, False))


def check_zeros_around(case: Case) -> None:
    """Compare results among zeros with those alone for many entries, if they are the same for few."""
    broken = look_at_groups(case, _look)
    if broken is not None:
        raise broken.failure("zeros-around-matter")


def _look(case: Case, group: DimGroup) -> Learned:
    tensors = [
        tensor
        for path, tensor in case.inputs().tensors()
        if any(path == name for name, _ in group.dims)
    ]
    if not any(is_differentiable(tensor.dtype) and is_plain(tensor) for tensor in tensors):
        return Learned(learned=False)
    learned = False
    for around in _AROUND:
        rules = _learned_rules(case, group, around)
        learned |= bool(rules)
        for count in _counts(group) if rules else ():
            violation = partial(_violation, group=group, around=around, count=count, rules=rules)
            wrong = violation(Rearranged(case, group))
            if wrong is None or not is_confirmed(case, group, violation, wrong):
                continue
            if not _holds_for_few(case, group, around, wrong.name, rules[wrong.name]):
                return Learned(learned=False)
            evident = bool(texts_about(case.op)) and not names_blocks(case.op)
            note = note_if_on_purpose(case, group, violation, wrong, evident)
            message = (
                f"{case.op.name}: with {around.text(count, group)}, the others do not give the same as "
                f"alone, but for few entries they do: {wrong.name}: {wrong.text}"
            )
            script = _script(case, group, around, count, wrong, rules)
            return Learned(True, Broken(message, script, note, wrong.picture))
    return Learned(learned)


def _counts(group: DimGroup) -> Iterator[int]:
    """How many entries do not count: one, some, and so many that few are left."""
    yield from dict.fromkeys((1, group.size // 3, group.size // 2 + 1, group.size - group.trusted))


def _learned_rules(case: Case, group: DimGroup, around: _Around) -> _Rules:
    """The results that are the same among entries that do not count, for few entries.

    Those in which the other entries never count are left out: other checks compare them.
    """
    size = 2 * group.trusted
    learned = []
    for draw in range(2):
        rules = _rules_of(case, group, around, size, draw)
        if not rules:
            return {}
        learned.append(rules)
    return in_both(*learned)


def _rules_of(case: Case, group: DimGroup, around: _Around, size: int, draw: int) -> _Rules:
    entries = few_entries(case, group, torch.arange(size) % group.size, draw)
    calls = Rearranged(entries.case, group, entries.arguments)
    if calls.whole is None:
        return {}
    rules: _Rules = {
        name: frozenset(dim for dim, length in enumerate(value.shape) if length == size)
        for name, value in calls.whole.items()
        # Infinity stands for what is left out, which depends on all entries.
        if isinstance(value, torch.Tensor) and is_finite(value)
    }
    rules = {name: dims for name, dims in rules.items() if dims}
    kept = around.kept(group.trusted, size).positions
    alone = calls.taken(kept, None) if rules else None
    if alone is None:
        return {}
    of_outputs = {name: dims for name, dims in rules.items() if name in alone}
    if not any(_rules_that_hold(_Among(calls, kept, alone), of_outputs, False).values()):
        return {}  # each entry is computed by itself
    for count in (1, group.trusted):
        rules = _hold_among(calls, group, around, count, size, rules)
        if not rules:
            return {}
    return rules


class _Among(NamedTuple):
    """Calls on entries of which some do not count.

    Args:
        calls: whose `whole` has all entries.
        kept: the positions of those that count.
        alone: the results of these alone.
    """

    calls: Rearranged
    kept: torch.Tensor
    alone: Results


def _among(
    calls: Rearranged, group: DimGroup, around: _Around, count: int, size: int, rules: _Rules
) -> _Among | None:
    """The calls with so many entries that do not count; None where the op raises."""
    among = calls.changed(partial(around.arguments, group, count, size))
    kept = around.kept(count, size).positions
    alone = among.taken(kept, _along(rules)) if among.whole is not None else None
    return None if alone is None else _Among(among, kept, alone)


def _hold_among(
    calls: Rearranged, group: DimGroup, around: _Around, count: int, size: int, rules: _Rules
) -> _Rules:
    """The rules that hold with so many entries that do not count."""
    among = _among(calls, group, around, count, size, rules)
    if among is None:
        return {}
    held = _rules_that_hold(among, rules, True)
    return {name: dims for name, dims in held.items() if dims}


def _rules_that_hold(among: _Among, rules: _Rules, holds: bool) -> _Rules:
    """The dims of each result along which the entries that count are those of the call of them alone.

    Args:
        holds: False: the dims along which they are not.
    """
    return {
        name: frozenset(dim for dim in dims if (_wrong(among, name, dim) is None) == holds)
        for name, dims in rules.items()
    }


def _wrong(among: _Among, name: str, dim: int) -> Wrong | None:
    """How the result of entries alone differs from theirs among all."""
    whole, actual = (among.calls.whole or {})[name], among.alone.get(name)
    if whole.dim() <= dim or whole.shape[dim] <= int(among.kept.max()):
        return Wrong(name, "it has another shape", actual, whole)
    return differing(among.calls.case, name, follow(whole, dim, among.kept), actual)


def _violation(
    calls: Rearranged, *, group: DimGroup, around: _Around, count: int, rules: _Rules
) -> Wrong | None:
    """The first result that differs with so many entries that do not count."""
    among = _among(calls, group, around, count, group.size, rules)
    if among is None:
        return None
    for name, dims in rules.items():
        if name in (among.calls.whole or {}) and name in among.alone:
            wrong = [_wrong(among, name, dim) for dim in dims]
            if wrong[0] is not None and None not in wrong and wrong[0].has_one_shape:
                return wrong[0]
    return None


def _holds_for_few(
    case: Case, group: DimGroup, around: _Around, name: str, dims: frozenset[int]
) -> bool:
    """Whether the relation holds for further draws of few entries, and not by chance."""
    size = 2 * group.trusted
    return all(
        dims & _rules_of(case, group, around, size, 2 + draw).get(name, frozenset())
        for draw in range(_DRAWS)
    )


def _along(rules: _Rules) -> Along:
    return {name: min(dims) for name, dims in rules.items() if not name.startswith(GRADIENT)}


def _script(
    case: Case, group: DimGroup, around: _Around, count: int, wrong: Wrong, rules: _Rules
) -> str:
    index, kept = around.equal(count, group.size), around.kept(count, group.size).code
    lines = rearranging_lines(case, group, wrong, _along(rules))
    if around.zeros:
        lines += _with_zeros(case, group, around, count)
    whole = index if not around.zeros else f"torch.arange({group.size})"
    dim = min(rules[wrong.name])
    return (
        f"{lines}kept = {kept}\nassert_close(call(kept), call({whole}).index_select({dim}, kept))\n"
    )


def _with_zeros(case: Case, group: DimGroup, around: _Around, count: int) -> str:
    """Lines that make `inputs()` return zeros around the entries."""
    lines = ["given = inputs", "", "", "def inputs():", "    args, kwargs = given()"]
    lines.append("    args = list(args)")
    tensors = dict(case.inputs().tensors())
    for path, dim in group.dims:
        if is_differentiable(tensors[path].dtype):
            place = expression(case, path)
            at = ":, " * dim + around.span(count, group.size)
            lines.append(f"    {place}.detach()[{at}] = 0")
    return "\n".join([*lines, "    return args, kwargs", "", "", ""])


FINDINGS = {
    "zeros-around-matter": Explanation(
        meaning=(
            "For few entries along a dim, zeros before or behind them, or copies of the first or the last "
            "one, change nothing in their results. For many entries they do: the results depend on where "
            "in the dim the entries stand."
        ),
        why=(
            "A scan, a filter or a recurrence that is computed in chunks hands the wrong state on from one "
            "chunk to a later one, or starts anew, from some number of entries on. The zeros move the "
            "entries to other places in their chunks."
        ),
        fix=(
            "Look at what a chunk takes over from the one before it: does it contain what that one took "
            "over itself? Is it decayed over all entries in between? If chunks are apart on purpose, say "
            'so in the docstring, or write checks=["-relations.zeros_around"].'
        ),
        before="""
for chunk in chunks:
    out.append(scan(chunk) + carry)
    carry = chunk.sum(0)            # the chunks before are forgotten
""",
        after="""
for chunk in chunks:
    out.append(scan(chunk) + carry)
    carry = carry + chunk.sum(0)
""",
        docs=(doc_links.CUSTOM_OP, doc_links.TESTING),
        follows=("parts-differ-from-whole", "result-depends-on-order", *CAUSES),
    ),
}

CHECK = Check(
    name="relations.zeros_around",
    summary="zeros around the entries of a long sequence only move the results, if so for few entries",
    run=check_zeros_around,
    variants=("large", "long"),
    variants_with_gradients=True,
    cheap=True,
    in_copies=may_crash,
    findings=FINDINGS,
    catches=(
        "Scans, filters and recurrences that are computed in chunks, and hand the wrong state on from one "
        "chunk to a later one. The check first learns, on few entries, whether zeros before or behind "
        "them, or copies of the first or last one, leave their results as they are, although the entries "
        "depend on each other. On larger sizes they must do so too, also with other values."
    ),
    cannot_see=(
        "Sequences whose start or end is special, such as those that are normalized, and chunks longer "
        "than what is tried. A finding is a note where no docstring describes the op, or one speaks of "
        "blocks, chunks, windows, limits or the like, and where an integer argument may limit how many "
        "entries are taken."
    ),
    cost="many calls",
)
