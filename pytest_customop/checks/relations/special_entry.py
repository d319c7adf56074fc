"""`relations.special_entry`: an unusual entry of a batch does not affect the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from ...cases.arguments import Arguments
from ...cases.case import Case
from ...cases.tensors import is_differentiable, is_plain
from ...findings import Explanation, doc_links, fail
from ..check import Check
from ..values.memory.calls import (
    Leaves,
    expression,
    results,
    skip_if_incomparable,
)
from ..values.memory.limited_copy import answer_if_taken
from .compare import is_so_in_double, is_unsteady
from .entries.alone import AloneEntries, independent_entries
from .entries.calls import Rearranged, Results, Wrong, differing, follow
from .entries.groups import DimGroup
from .entries.script import rearranging_lines


class _Special(NamedTuple):
    """What an entry becomes.

    Args:
        description: for a message.
        code: an expression of `entry`, the numbers of the entry in one tensor.
        changes: whether a tensor's entry becomes so.
        in_one: whether only the first such tensor is changed.
        others_only: whether only the others count: an op may rightly look at the first entry, which is
            another one alone.
        spoils_only: whether others are wrong only where they were finite and are not any more: large
            numbers may change how numbers of moderate size are computed.
    """

    description: str
    code: str
    changes: Callable[[torch.Tensor], bool]
    in_one: bool = False
    others_only: bool = False
    spoils_only: bool = False

    def applied(self, arguments: Arguments, group: DimGroup, place: int) -> Arguments:
        """The arguments with this entry of the group's dims."""
        names = self.changed(arguments, group)

        def changed(name: str, tensor: torch.Tensor) -> torch.Tensor:
            if name not in names:
                return tensor
            value = tensor.detach().clone()
            value[place] = eval(self.code, {"torch": torch, "entry": value[place]})
            return value

        return arguments.map_distinct(changed)

    def changed(self, arguments: Arguments, group: DimGroup) -> list[str]:
        """The arguments that it changes."""
        names = [
            name
            for name, tensor in arguments.tensors()
            if (name, 0) in group.dims and is_plain(tensor) and self.changes(tensor)
        ]
        return names[:1] if self.in_one else names


def _is_wide(tensor: torch.Tensor) -> bool:
    return tensor.dtype in (torch.float32, torch.float64)


def _holds_integers(tensor: torch.Tensor) -> bool:
    exact = not is_differentiable(tensor.dtype) and tensor.dtype != torch.bool
    return exact and tensor.dim() > 1 and tensor.shape[-1] > 1


# An entry keeps to its integers: others may be no valid positions or labels.
_SPECIALS = (
    _Special(
        "holds only zeros",
        "torch.zeros_like(entry)",
        lambda tensor: is_differentiable(tensor.dtype),
    ),
    _Special("is a thousand times as large", "1000 * entry", _is_wide, spoils_only=True),
    _Special(
        "has the opposite sign in one argument",
        "-entry",
        _is_wide,
        in_one=True,
        others_only=True,
    ),
    _Special(
        "repeats its first integer",
        "entry.flatten()[0].expand_as(entry)",
        _holds_integers,
        in_one=True,
    ),
)


class _Broken(NamedTuple):
    """A special entry of a batch, and what is wrong with it among the others.

    Args:
        group: the dims of the entries.
        among: how many entries the op gets, the first ones.
        special: what the entry becomes.
        place: of the entry.
        of_itself: whether its own result is wrong; otherwise those of the other entries are.
        wrong: the result, and the one expected.
    """

    group: DimGroup
    among: int
    special: _Special
    place: int
    of_itself: bool
    wrong: Wrong


def check_special_entry(case: Case) -> None:
    """Call the op with one unusual entry among the others, and alone."""
    skip_if_incomparable(case)
    reason = "along no first dim do entries give the same alone as together"
    broken = answer_if_taken(case, _answer, reason)
    if broken is not None:
        wrong = broken.wrong
        entry = f"entry {broken.place} along {broken.group}"
        effect = (
            "it does not give the same as alone" if broken.of_itself else "other entries change"
        )
        raise fail(
            "entry-affects-batch",
            f"{case.op.name}: if {entry} {broken.special.description}, {effect}; with the numbers of "
            f"the sample, entries are independent: {wrong.name}: {wrong.text}",
            repro=_script(case, broken),
            picture=wrong.picture,
        )


def _answer(case: Case) -> tuple[bool, _Broken | None]:
    """Whether entries of some dims are independent, and a special entry for which they are not."""
    is_learned = False
    every = {name for name, _ in results(case.eager)}
    for alone in independent_entries(case):
        if {*alone.along} != every:
            continue  # other results may put entries together, as those of a voxel
        if any(map(alone.wrong, alone.orders())):
            continue
        is_learned = True
        broken = _broken(alone)
        if broken is not None and _is_wrong_again(alone):
            return True, broken
    return is_learned, None


def _broken(alone: AloneEntries) -> _Broken | None:
    """A special entry that is wrong among the others at two places of the batch; None without one."""
    places = dict.fromkeys((alone.count - 1, 0, alone.count // 2))
    before = alone.taken(range(alone.count)) or {}
    for special in _SPECIALS:
        tried = (_broken_at(alone, special, place, before) for place in places)
        found = [broken for broken in tried if broken is not None]
        if len(found) > 1:
            return found[0]
    return None


def _broken_at(
    alone: AloneEntries, special: _Special, place: int, before: Results
) -> _Broken | None:
    """What is wrong with a special entry at a place.

    Args:
        before: the results of the entries with the numbers of the sample.
    """
    case, group = alone.case, alone.group
    calls = Rearranged(case, group, lambda: special.applied(case.inputs(), group, place))
    itself = torch.tensor([place])
    others = torch.tensor([entry for entry in range(alone.count) if entry != place])

    def again() -> Leaves:
        return [*(calls.taken(torch.arange(alone.count), None) or {}).items()]

    together = dict(again())
    expected = {
        (False, name): follow(before[name], 0, others) for name in alone.along if name in before
    }
    by_itself = {} if special.others_only else calls.taken(itself, None) or {}
    expected |= {(True, name): by_itself[name] for name in alone.along if name in by_itself}
    for (of_itself, name), right in expected.items():
        result: Any = together.get(name)
        if not isinstance(result, torch.Tensor) or result.shape[:1] != (alone.count,):
            continue  # its shape depends on values
        entries = itself if of_itself else others
        left = follow(result, 0, entries)
        if special.spoils_only and not _is_spoiled(left, right):
            continue
        wrong = differing(case, name, left, right)
        if wrong is None or not wrong.has_one_shape:
            continue
        right_batch = [(name, result.index_copy(0, entries, right))]
        if not is_unsteady(again, [(name, result)], right_batch, name):
            return _Broken(group, alone.count, special, place, of_itself, wrong)
    return None


def _is_spoiled(actual: torch.Tensor, expected: torch.Tensor) -> bool:
    """Whether a number that should be finite is not."""
    return _is_wide(expected) and bool((expected.isfinite() & ~actual.isfinite()).any())


def _is_wrong_again(alone: AloneEntries) -> bool:
    """Whether a special entry is wrong once more and, if the op supports it, in double precision."""

    def ask(wide: Case) -> bool:
        entries = AloneEntries(wide, alone.group)
        return not entries.each_is_taken or _broken(entries) is not None

    return _broken(alone) is not None and is_so_in_double(alone.case, ask)


def _script(case: Case, broken: _Broken) -> str:
    group, special, place = broken.group, broken.special, broken.place
    others = [entry for entry in range(broken.among) if entry != place]
    expected = f"call(torch.tensor([{place}]))" if broken.of_itself else f"before[{others}]"
    changes = ""
    for name in special.changed(case.inputs(), group):
        argument = expression(case, name)
        changes += f"    {argument} = {argument}.detach().clone()\n"
        changes += f"    entry = {argument}[{place}]\n"
        changes += f"    {argument}[{place}] = {special.code}\n"
    return rearranging_lines(case, group, broken.wrong, {}) + _SCRIPT.format(
        count=broken.among,
        changes=changes,
        taken=[place] if broken.of_itself else others,
        expected=expected,
    )


_SCRIPT = """
before = call(torch.arange({count}))
plain_inputs = inputs


def inputs():
    args, kwargs = plain_inputs()
    args = list(args)
{changes}    return args, kwargs


together = call(torch.arange({count}))
assert_close(together[{taken}], {expected})
"""

FINDINGS = {
    "entry-affects-batch": Explanation(
        meaning=(
            "Each entry of a batch gives the same alone as among the others of the sample. But if one is "
            "all zeros, a thousand times as large, of the opposite sign, or repeats one integer, this does "
            "not hold for it, or for the others."
        ),
        why=(
            "One degenerate entry, a singular matrix, an empty mask, an outlier, spoils its whole batch, "
            "and what a user gets for an entry depends on what else is in the batch."
        ),
        fix=(
            "Decide for each entry, not for the whole batch: subtract the maximum of each row and not that "
            "of all rows, replace only the entries that failed, stop early only when all are done. If "
            "entries are meant to affect each other, "
            'write checks=["-relations.special_entry"].'
        ),
        before="""
try:
    inverse = torch.linalg.inv(matrices)
except torch.linalg.LinAlgError:      # one of them is singular
    inverse = identity.expand_as(matrices)
""",
        after="""
inverse, info = torch.linalg.inv_ex(matrices)
inverse = torch.where((info != 0)[:, None, None], identity, inverse)
""",
        docs=(doc_links.CUSTOM_OP,),
        follows=(
            "entry-depends-on-others",
            "stale-result",
            "uninitialized-output",
            "outputs-not-repeatable",
        ),
    ),
}

CHECK = Check(
    name="relations.special_entry",
    summary="one unusual entry of a batch leaves the results of the others as they are",
    run=check_special_entry,
    gradients=False,
    variants=(),
    cheap=True,
    findings=FINDINGS,
    catches=(
        "A decision for a whole batch that one entry of it triggers: a fallback because one matrix is "
        "singular, the maximum of all rows subtracted from each, a loop that ends when the first is done. "
        "The check first learns that the entries of the sample are independent: each gives the same alone "
        "as among the others, in any order, and with repetitions. Then one entry becomes zeros, or a "
        "thousand times as large, or gets the opposite sign or repeats its first integer in one tensor. "
        "It must give the same as alone, and the others must not change; with large numbers, they only "
        "must stay finite."
    ),
    cannot_see=(
        "Entries along other dims than the first, results without a dim for the entries, and samples with "
        "one entry."
    ),
    cost="many calls",
)
