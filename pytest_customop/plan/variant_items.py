"""The variants of a mark's samples, made into items: which, beside which cases, with which checks.

A variant stands beside one case a sample, that of the first dtype and layout, with gradients and
without; what tells as much without gradients runs there only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from ..checks import Check
from ..declare.declaration import Declaration
from ..declare.variant import ISOLATE_HINT, Variant
from ..settings import Settings
from .cells import reason_by, skip_reason
from .items import CaseCell, Key, PlannedItem
from .omissions import OmittedVariants, OnOmitted
from .variants.ranking import chosen, signature
from .variants.safety import crash_risk

QUICK = 24  # variants of a sample that the quick set has at most


def variants(
    declaration: Declaration,
    settings: Settings,
    cases: Sequence[CaseCell],
    checks: Sequence[Check],
    on_omitted: OnOmitted | None,
) -> Iterator[tuple[Key, PlannedItem]]:
    """The items of the variants, as far as the mark and the session want them.

    Args:
        cases: every case of one device.
        checks: those that run for the mark.
        on_omitted: called with how many are left out.
    """
    useful = [check for check in checks if _is_wanted(check, settings)]
    if settings.variants.amount == "off" or not declaration.variants or not useful:
        return
    plan = _Plan(declaration, settings, useful)
    seen = {signature(one.case.sample) for one in cases}
    for beside in _bases(declaration, cases):
        yield from plan.beside(beside, set(seen))
    if on_omitted is not None:
        on_omitted(plan.left_out())


def _is_wanted(check: Check, settings: Settings) -> bool:
    enough = check.cheap or settings.variants.amount == "full"
    return enough and bool(check.variants) and not check.errors


def _bases(declaration: Declaration, cases: Sequence[CaseCell]) -> Iterator[list[CaseCell]]:
    """The cases beside which variants stand: with and without gradients, of each sample."""
    own: dict[Any, dict[Any, list[CaseCell]]] = {}
    for one in cases:
        asked = True in (declaration.requires_grad or ())
        runs_without_autograd = (
            one.case.requires_grad and not one.case.op.has_autograd and not asked
        )
        if not one.unsupported and not runs_without_autograd:
            sample = (one.cell.sample_id, *one.cell.axes.items())
            place = (one.cell.dtype, one.cell.layout)
            own.setdefault(repr(sample), {}).setdefault(place, []).append(one)
    for places in own.values():
        yield next(iter(places.values()))


class _Plan:
    """The variants of one mark on one device, as they are planned."""

    def __init__(
        self, declaration: Declaration, settings: Settings, checks: Sequence[Check]
    ) -> None:
        self._declaration = declaration
        self._settings = settings
        self._checks = checks
        self._apart: dict[str, str | None] = {}
        self._left: set[str] = set()

    def left_out(self) -> OmittedVariants:
        """How many the amount leaves out."""
        return OmittedVariants(self._declaration.op.name, self._declaration.where, len(self._left))

    def beside(
        self, bases: Sequence[CaseCell], seen: set[Any]
    ) -> Iterator[tuple[Key, PlannedItem]]:
        """The items beside the cases of one sample, which differ in requires_grad only."""
        both = len(bases) > 1
        known: dict[int, list[Variant]] = {}  # a list's samples are the same for both
        for base in bases:
            sample = base.case.sample
            if id(sample) not in known:
                known[id(sample)] = self._taken(base, set(seen))
            checks = [one for one in self._checks if one.can_run(base.case)]
            for variant in known[id(sample)]:
                telling = [one for one in checks if _tells(one, base, variant, both)]
                if telling:
                    yield from self._items(base, variant, telling)

    def _taken(self, base: CaseCell, seen: set[Any]) -> list[Variant]:
        """The variants that the session's amount takes; the others are counted."""
        every = list(self._chosen(base, seen))
        taken = self._likeliest(every)
        here = {one.sample.id for one in taken}
        self._left |= {one.sample.id or "" for one in every if one.sample.id not in here}
        return taken

    def _likeliest(self, every: list[Variant]) -> list[Variant]:
        amount = self._settings.variants.amount
        if isinstance(amount, int):
            return every[:amount]
        return every if amount == "full" else [one for one in every if one.likely][:QUICK]

    def _chosen(self, base: CaseCell, seen: set[Any]) -> Iterator[Variant]:
        of_mark = self._declaration.variants
        of_session = self._settings.variants.kinds
        declared = self._declaration.dtypes or self._settings.dtypes
        return chosen(
            self._declaration.op,
            base.case.sample,
            base.case.placement,
            kinds=of_session if callable(of_mark) else [k for k in of_mark if k in of_session],
            declared_dtypes=declared is not None,
            seed=self._settings.seed,
            seen=seen,
        )

    def _items(
        self, base: CaseCell, variant: Variant, checks: Sequence[Check]
    ) -> Iterator[tuple[Key, PlannedItem]]:
        if self._leaves_out(base, variant):
            return
        here = base.with_variant(variant, self._settings)
        variants = self._declaration.variants
        unfit = variants if callable(variants) else None
        reason = reason_by(self._declaration, "variants", unfit, variant)
        if reason:
            yield here.skipped(reason)
            return
        risk = self._why_apart(base.cell.device) if variant.reads_beyond else None
        if risk and not self._settings.isolate:
            yield here.skipped(f"{risk}: {ISOLATE_HINT}", needs_child=True)
            return
        for check in checks:
            yield here.item(check)

    def _leaves_out(self, base: CaseCell, variant: Variant) -> bool:
        """Whether the mark's skip_if leaves out the variant's cell."""
        if self._declaration.skip_if is None:
            return False
        cell = replace(base.cell, sample_id=variant.sample.id or "")
        return skip_reason(self._declaration, cell) is not None

    def _why_apart(self, device: str) -> str | None:
        if device not in self._apart:
            self._apart[device] = crash_risk(self._declaration.op, device)
        return self._apart[device]


def _tells(check: Check, base: CaseCell, variant: Variant, both: bool) -> bool:
    """Whether a check tells something on a variant, on the one of its two cases that is asked."""
    if variant.kind not in check.variants:
        return False
    with_gradients = base.case.requires_grad
    if variant.kind == "gradients":
        return with_gradients
    return check.gradients is True or not with_gradients or not both
