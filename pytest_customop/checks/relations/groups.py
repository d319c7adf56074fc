"""`relations.groups`: which entries an op keeps of one class does not depend on those of other classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch

from ...cases.arguments import Arguments
from ...cases.case import Case
from ...cases.deliberate import names_limit
from ...cases.documented import keeps_groups_apart
from ...cases.tensors import is_plain
from ...findings import Explanation, doc_links, fail, skip
from ..check import Check
from ..values.memory.calls import Caller, results, skip_if_incomparable
from ..values.memory.limited_copy import answer_if_taken

_MOST = 8  # groups


class _Trial(NamedTuple):
    """Numbers of the floating-point tables.

    Args:
        description: for a message.
        code: an expression of `each`, the numbers of the case.
    """

    description: str
    code: str


class _Broken(NamedTuple):
    """Entries that are kept among all, and alone in their groups.

    Args:
        trial: the numbers.
        name: of the argument that says which group an entry belongs to.
        together, apart: the entries.
    """

    trial: _Trial
    name: str
    together: list[int]
    apart: list[int]


_BELOW = "each - each.max() - 1"
_TRIALS = (
    _Trial("", "each"),
    _Trial(", with all coordinates below 0", _BELOW),
    _Trial(
        ", with all coordinates below 0 and two different rows",
        f"(lambda each: {_BELOW})(each[torch.arange(len(each)) % 2])",
    ),
)


def check_groups(case: Case) -> None:
    """Call the op on all entries, and on those of each group."""
    skip_if_incomparable(case)
    if names_limit(case.op):
        reason = "a docstring names a limit, which may hold for all groups together"
        raise skip("nothing-to-check", reason, unjudged=False)
    reason = (
        "the op returns no indices of entries, or no argument assigns entries to several groups"
    )
    broken = answer_if_taken(case, _answer, reason)
    if broken is not None:
        raise fail(
            "groups-not-independent",
            f"{case.op.name}{broken.trial.description}: of all entries together it keeps "
            f"{broken.together}, and of the groups in `{broken.name}`, each called alone, {broken.apart}, "
            "although a docstring says that groups do not affect each other",
            repro=_script(case, broken),
        )


def _answer(case: Case) -> tuple[bool, _Broken | None]:
    calls = Caller(case)
    numbers = {value for _, value in case.inputs().named() if type(value) is int}
    is_taken = False
    for trial in _TRIALS:
        for name, groups in _assignments(case):
            selection = _Selection(calls, trial, len(groups))
            together, apart = selection.kept_of_all(), selection.kept_apart(groups)
            if together is None or apart is None or len(together) in numbers:
                continue  # so many may be the most that the op keeps
            is_taken = True
            if together != apart and selection.kept_of_all() == together:
                return True, _Broken(trial, name, together, apart)
    return is_taken, None


def _assignments(case: Case) -> list[tuple[str, torch.Tensor]]:
    """(name, values) of the integer tensors with one dim and several different numbers."""
    return [
        (name, tensor)
        for name, tensor in case.inputs().tensors()
        if tensor.dim() == 1 and tensor.dtype in (torch.int32, torch.int64)
        if 1 < len(torch.unique(tensor)) <= _MOST
    ]


@dataclass(frozen=True)
class _Selection:
    """Calls of the op on some of its entries.

    Args:
        calls: calls the op.
        trial: the numbers.
        count: of all entries.
    """

    calls: Caller
    trial: _Trial
    count: int

    def kept_of_all(self) -> list[int] | None:
        """The entries that the op keeps if it gets all."""
        return self._kept(torch.arange(self.count))

    def kept_apart(self, groups: torch.Tensor) -> list[int] | None:
        """The entries that the op keeps if it gets those of each group alone."""
        kept: list[int] = []
        for group in torch.unique(groups):
            of_group = self._kept((groups == group).nonzero().flatten())
            if of_group is None:
                return None
            kept += of_group
        return sorted(kept)

    def _kept(self, entries: torch.Tensor) -> list[int] | None:
        """Those of some entries that the op keeps, sorted; None if it does not return any indices."""
        run = self.calls(self._arguments(entries))
        found = [leaf for _, leaf in results(run)] if run.error is None else []
        if len(found) != 1 or not isinstance(found[0], torch.Tensor):
            return None
        kept = found[0]
        if kept.dim() != 1 or kept.dtype != torch.int64 or len(torch.unique(kept)) < len(kept):
            return None
        if len(kept) and not 0 <= int(kept.min()) <= int(kept.max()) < len(entries):
            return None
        return sorted(entries[kept].tolist())

    def _arguments(self, entries: torch.Tensor) -> Arguments:
        def change(_: str, tensor: torch.Tensor) -> torch.Tensor:
            if not is_plain(tensor) or not tensor.dim() or len(tensor) != self.count:
                return tensor
            if tensor.dim() == 2 and tensor.is_floating_point():
                tensor = eval(self.trial.code, {"torch": torch, "each": tensor})
            return tensor[entries]

        return self.calls.case.inputs().map_distinct(change)


def _script(case: Case, broken: _Broken) -> str:
    names = [path for path, _ in case.inputs().tensors()]
    return (
        "\nfrom torch.utils._pytree import tree_leaves, tree_map_only\n\n"
        "tensors = [leaf for leaf in tree_leaves(inputs()) if isinstance(leaf, torch.Tensor)]\n"
        f"groups = tensors[{names.index(broken.name)}]\n\n\n"
        "def kept(entries):\n    def chosen(each):\n"
        "        if not each.dim() or len(each) != len(groups):\n            return each\n"
        "        if each.dim() == 2 and each.is_floating_point():\n"
        f"            each = {broken.trial.code}\n"
        "        return each[entries]\n\n"
        "    args, kwargs = tree_map_only(torch.Tensor, chosen, inputs())\n"
        "    return entries[op(*args, **kwargs)].tolist()\n\n\n"
        "together = sorted(kept(torch.arange(len(groups))))\n"
        "parts = [kept((groups == group).nonzero().flatten()) for group in groups.unique()]\n"
        "assert together == sorted(sum(parts, [])), (together, parts)\n"
    )


FINDINGS = {
    "groups-not-independent": Explanation(
        meaning=(
            "A docstring says that classes, or other groups, are treated apart. But the op keeps other "
            "entries of a group if it gets those of other groups, too."
        ),
        why=(
            "Often each group is moved away from the others by its number times the largest coordinate "
            "plus 1. If a coordinate is below 0, that is not far enough: boxes that stick out of the image "
            "suppress boxes of other classes."
        ),
        fix=(
            "Move by the span, boxes.max() - boxes.min() + 1, or compare the groups themselves: "
            "(overlap > threshold) & (labels[:, None] == labels)."
        ),
        before="""
boxes = boxes + (labels * (boxes.max() + 1))[:, None]
""",
        after="""
boxes = boxes + (labels * (boxes.max() - boxes.min() + 1))[:, None]
""",
        docs=(doc_links.CUSTOM_OP,),
        follows=("uninitialized-output", "undeclared-mutation", "outputs-not-repeatable"),
    ),
}

CHECK = Check(
    name="relations.groups",
    summary="which entries are kept of one class does not depend on those of other classes",
    run=check_groups,
    gradients=False,
    needs=keeps_groups_apart,
    integer_tensors=True,
    variants=("shape",),
    cheap=True,
    findings=FINDINGS,
    catches=(
        "Non-maximum suppression and other selections whose docstring says that classes, images or groups "
        "are independent, and in which they are not. The op is called on all entries, and on those of each "
        "group alone; with the numbers of the case, and with all coordinates below 0 and equal rows."
    ),
    cannot_see=(
        "Ops that return anything but the indices of the kept entries; ops whose docstring names a limit "
        "or says nothing of groups; a call that keeps as many entries as one of its numbers says; more "
        "than eight groups."
    ),
    cost="many calls",
)
