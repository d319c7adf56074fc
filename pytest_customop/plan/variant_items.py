"""The neighbours of a mark's samples, made into items: which, beside which cases, with which checks.

A neighbour stands beside one case a sample, that of the first dtype and layout, with gradients and
without; what tells as much without gradients runs there only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from ..checks import Check
from ..declare.mark import Declaration
from ..declare.variant import APART, KINDS, Neighbour
from ..settings import Settings
from .cells import reason_by, skip_reason
from .items import Key, Placed, Planned
from .omissions import NeighboursLeft, Tell
from .variants.ranking import chosen, signature
from .variants.safety import why_apart

QUICK = 24  # neighbours of a sample that the quick set has at most


def neighbours(
    declaration: Declaration,
    settings: Settings,
    cases: Sequence[Placed],
    checks: Sequence[Check],
    tell: Tell | None,
) -> Iterator[tuple[Key, Planned]]:
    """The items of the neighbours, as far as the mark and the session want them.

    Args:
        cases: every case of one device.
        checks: those that run for the mark.
        tell: called with how many are left out.
    """
    useful = [check for check in checks if _is_wanted(check, settings)]
    if settings.variants == "off" or not declaration.variants or not useful:
        return
    plan = _Plan(declaration, settings, useful)
    seen = {signature(one.case.sample) for one in cases}
    for beside in _bases(declaration, cases):
        yield from plan.beside(beside, set(seen))
    if tell is not None:
        tell(plan.left_out())


def _is_wanted(check: Check, settings: Settings) -> bool:
    enough = check.quick or settings.variants == "full"
    return enough and bool(check.neighbours) and not check.errors


def _bases(declaration: Declaration, cases: Sequence[Placed]) -> Iterator[list[Placed]]:
    """The cases beside which neighbours stand: with and without gradients, of each sample."""
    own: dict[Any, dict[Any, list[Placed]]] = {}
    for one in cases:
        asked = True in (declaration.requires_grad or ())
        without_formula = one.case.requires_grad and not one.case.op.has_formula and not asked
        if not one.unsupported and not without_formula:
            sample = (one.cell.sample_id, *one.cell.axes.items())
            place = (one.cell.dtype, one.cell.layout)
            own.setdefault(repr(sample), {}).setdefault(place, []).append(one)
    for places in own.values():
        yield next(iter(places.values()))


class _Plan:
    """The neighbours of one mark on one device, as they are planned."""

    def __init__(
        self, declaration: Declaration, settings: Settings, checks: Sequence[Check]
    ) -> None:
        self._declaration = declaration
        self._settings = settings
        self._checks = checks
        self._apart: dict[str, str | None] = {}
        self._left: set[str] = set()

    def left_out(self) -> NeighboursLeft:
        """How many the amount leaves out."""
        return NeighboursLeft(self._declaration.op.name, self._declaration.where, len(self._left))

    def beside(self, bases: Sequence[Placed], seen: set[Any]) -> Iterator[tuple[Key, Planned]]:
        """The items beside the cases of one sample, which differ in requires_grad only."""
        both = len(bases) > 1
        known: dict[int, list[Neighbour]] = {}  # a list's samples are the same for both
        for base in bases:
            sample = base.case.sample
            if id(sample) not in known:
                known[id(sample)] = self._taken(base, set(seen))
            checks = [one for one in self._checks if one.can_run(base.case)]
            for neighbour in known[id(sample)]:
                telling = [one for one in checks if _tells(one, base, neighbour, both)]
                if telling:
                    yield from self._items(base, neighbour, telling)

    def _taken(self, base: Placed, seen: set[Any]) -> list[Neighbour]:
        """The neighbours that the session's amount takes; the others are counted."""
        every = list(self._chosen(base, seen))
        taken = self._likeliest(every)
        here = {one.sample.id for one in taken}
        self._left |= {one.sample.id or "" for one in every if one.sample.id not in here}
        return taken

    def _likeliest(self, every: list[Neighbour]) -> list[Neighbour]:
        amount = self._settings.variants
        if isinstance(amount, int):
            return every[:amount]
        return every if amount == "full" else [one for one in every if one.likely][:QUICK]

    def _chosen(self, base: Placed, seen: set[Any]) -> Iterator[Neighbour]:
        kinds = self._declaration.variants
        declared = self._declaration.dtypes or self._settings.dtypes
        return chosen(
            self._declaration.op,
            base.case.sample,
            base.case.placement,
            kinds=KINDS if callable(kinds) else kinds,
            declared_dtypes=declared is not None,
            seed=self._settings.seed,
            seen=seen,
        )

    def _items(
        self, base: Placed, neighbour: Neighbour, checks: Sequence[Check]
    ) -> Iterator[tuple[Key, Planned]]:
        if self._leaves_out(base, neighbour):
            return
        here = base.with_neighbour(neighbour, self._settings)
        variants = self._declaration.variants
        unfit = variants if callable(variants) else None
        reason = reason_by(self._declaration, "variants", unfit, neighbour)
        if reason:
            yield here.skipped(reason)
            return
        risk = self._why_apart(base.cell.device) if neighbour.reads_beyond else None
        if risk and not self._settings.isolate:
            yield here.skipped(f"{risk}: {APART}")
            return
        for check in checks:
            yield here.item(check)

    def _leaves_out(self, base: Placed, neighbour: Neighbour) -> bool:
        """Whether the mark's skip_if leaves out the neighbour's cell."""
        if self._declaration.skip_if is None:
            return False
        cell = replace(base.cell, sample_id=neighbour.sample.id or "")
        return skip_reason(self._declaration, cell) is not None

    def _why_apart(self, device: str) -> str | None:
        if device not in self._apart:
            self._apart[device] = why_apart(self._declaration.op, device)
        return self._apart[device]


def _tells(check: Check, base: Placed, neighbour: Neighbour, both: bool) -> bool:
    """Whether a check tells something on a neighbour, on the one of its two cases that is asked."""
    if neighbour.kind not in check.neighbours:
        return False
    with_gradients = base.case.requires_grad
    if neighbour.kind == "gradients":
        return with_gradients
    return check.gradients is True or not with_gradients or not both
