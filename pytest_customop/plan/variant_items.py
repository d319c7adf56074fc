"""The items of the variants of a mark's samples: which variants, on which cases, with which checks.

The variants of a case are one item per check. They are derived from each sample's case in the first dtype
and layout, with gradients and without. A check that needs no gradients runs only on the variants without
gradients.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ..cases.crash_risk import crash_risk
from ..checks import Check
from ..core.tracebacks import error_line, raised_in
from ..declare.declaration import Declaration
from ..declare.inputs import Sample
from ..declare.variant import Variant
from ..settings import Settings
from .cells import predicate_reason, skip_reason
from .items import CaseCell, Key, PlannedItem, PlannedVariant
from .omissions import OmittedVariants, OnOmitted
from .variants.arguments import Words, words_given
from .variants.ranking import call_signature, ranked_variants

QUICK = 32  # the most variants of one sample in the quick set


def variant_items(
    declaration: Declaration,
    settings: Settings,
    cases: Sequence[CaseCell],
    checks: Sequence[Check],
    on_omitted: OnOmitted | None,
) -> Iterator[tuple[Key, PlannedItem]]:
    """The items of all variants that the mark and the session select, with their keys.

    Args:
        cases: every case of the mark on one device.
        checks: those that run for the mark.
        on_omitted: called with the number of variants that are left out.
    """
    useful = {check: kinds for check in checks if (kinds := _kinds(check, settings))}
    if _amount(settings) == "off" or not declaration.variants or not useful:
        return
    words = words_given(declaration.op, (entry.case.sample for entry in cases))
    planner = _Planner(declaration, settings, useful, words)
    seen = {call_signature(entry.case.sample) for entry in cases}
    for bases in base_cases(declaration, cases):
        yield from planner.items_of_sample(bases, seen)
    if on_omitted is not None:
        on_omitted(planner.omitted())


def _kinds(check: Check, settings: Settings) -> Collection[str]:
    """The kinds of variants on which a check runs in the session."""
    if check.errors:
        return ()
    runs_on_all = check.cheap or _amount(settings) == "full"
    return check.variants if runs_on_all else check.cheap_variants


def _amount(settings: Settings) -> str | int:
    """How many variants are tried; all of them if the session names steps."""
    return settings.variants.amount if settings.variant_steps is None else "full"


def base_cases(declaration: Declaration, cases: Sequence[CaseCell]) -> Iterator[list[CaseCell]]:
    """For each sample, the cases that its variants are derived from: one, or one per requires_grad."""
    wants_gradients = True in (declaration.requires_grad or ())
    by_sample: dict[str, dict[Any, list[CaseCell]]] = {}
    for entry in cases:
        has_no_formula = entry.case.requires_grad and not entry.case.op.has_autograd
        if entry.unsupported or (has_no_formula and not wants_gradients):
            continue
        sample = repr((entry.cell.sample_id, *entry.cell.axes.items()))
        place = (entry.cell.dtype, entry.cell.layout)
        by_sample.setdefault(sample, {}).setdefault(place, []).append(entry)
    for places in by_sample.values():
        yield next(iter(places.values()))


class _Planner:
    """Plans the variants of one mark on one device."""

    def __init__(
        self,
        declaration: Declaration,
        settings: Settings,
        checks: Mapping[Check, Collection[str]],
        words: Words,
    ) -> None:
        self._declaration = declaration
        self._settings = settings
        self._checks = checks
        self._words = words
        self._omitted: set[str] = set()  # sample ids
        self._steps: set[str] = set()  # of all that were derived
        self._bugs: dict[int, list[str]] = {}  # by sample: why kinds could not be derived

    def omitted(self) -> OmittedVariants:
        """The number of variants that the session's amount has left out so far."""
        where = self._declaration.where
        steps = () if self._settings.variant_steps is None else tuple(sorted(self._steps))
        return OmittedVariants(self._declaration.op.name, where, len(self._omitted), steps)

    def items_of_sample(
        self, bases: Sequence[CaseCell], seen: set[Any]
    ) -> Iterator[tuple[Key, PlannedItem]]:
        """The items of one sample's variants.

        Args:
            bases: the cases of the sample that differ only in requires_grad.
            seen: the signatures of all samples; a variant that equals one of them gets no item.
        """
        known: dict[
            int, list[Variant]
        ] = {}  # both cases share the sample, unless a function made it
        for base in bases:
            sample = base.case.sample
            if id(sample) not in known:
                known[id(sample)] = self._take(list(self._derive(base, set(seen))))
            yield from self._items(base, known[id(sample)], len(bases) > 1)

    def _derive(self, base: CaseCell, seen: set[Any]) -> Iterator[Variant]:
        of_mark = self._declaration.variants
        of_session = self._settings.variants.kinds
        declared = self._declaration.dtypes or self._settings.dtypes
        return ranked_variants(
            self._declaration.op,
            base.case.sample,
            base.case.placement,
            kinds=of_session if callable(of_mark) else [k for k in of_mark if k in of_session],
            declared_dtypes=declared is not None,
            seed=self._settings.seed,
            seen=seen,
            words=self._words,
            on_bug=partial(self._note_bug, base.case.sample),
        )

    def _note_bug(self, sample: Sample, kind: str, error: Exception) -> None:
        """Keep why a kind of variants does not run: a mistake in this package must not end a session."""
        self._bugs.setdefault(id(sample), []).append(
            f"variants of the kind {kind!r} could not be derived from this sample, which is a bug of "
            f"pytest-customop, not of the op ({error_line(error)} at {raised_in(error)})"
        )

    def _take(self, variants: list[Variant]) -> list[Variant]:
        """The variants that the session selects; the others are counted."""
        amount, steps = _amount(self._settings), self._settings.variant_steps
        self._steps |= {variant.step for variant in variants}
        if steps is not None:
            return [variant for variant in variants if variant.step in steps]
        if isinstance(amount, int):
            taken = variants[:amount]
        else:
            taken = (
                variants
                if amount == "full"
                else [variant for variant in variants if variant.likely][:QUICK]
            )
        ids = {variant.sample.id for variant in taken}
        self._omitted |= {
            variant.sample.id or "" for variant in variants if variant.sample.id not in ids
        }
        return taken

    def _items(
        self, base: CaseCell, variants: Sequence[Variant], has_both: bool
    ) -> Iterator[tuple[Key, PlannedItem]]:
        """One item per check on the variants, and one item for what does not run.

        Args:
            has_both: whether the sample has a case with gradients and one without.
        """
        checks = [check for check in self._checks if check.can_run(base.case, any_dtype=True)]
        by_check: dict[Check, list[PlannedVariant]] = {check: [] for check in checks}
        not_run: list[PlannedVariant] = []
        for variant in variants:
            of_kind = [check for check in checks if variant.kind in self._checks[check]]
            chosen = [check for check in of_kind if _wants(check, base, variant, has_both)]
            if not chosen or self._is_skipped_by_mark(base, variant):
                continue
            planned = self._planned(base, variant)
            chosen = [
                check
                for check in chosen
                if not check.integer_tensors or planned.case.has_integer_tensors
            ]
            if chosen and planned.skip is not None:
                not_run.append(planned)
                continue
            for check in chosen:
                by_check[check].append(planned)
        for check, to_run in by_check.items():
            if to_run:
                yield base.variants_item(check, to_run)
        bugs = self._bugs.get(id(base.case.sample), ())
        if not_run or bugs:
            yield base.not_run_item(not_run, bugs)

    def _planned(self, base: CaseCell, variant: Variant) -> PlannedVariant:
        """The variant on a case, with the reason if it does not run."""
        case = base.with_variant(variant, self._settings)
        variants = self._declaration.variants
        predicate = variants if callable(variants) else None
        reason = predicate_reason(self._declaration, "variants", predicate, variant)
        if reason:
            return PlannedVariant(case, reason)
        risk = crash_risk(self._declaration.op, base.cell.device) if variant.reads_beyond else None
        if risk and self._settings.without_child is not None:
            return PlannedVariant(case, f"{risk}: {self._settings.without_child}", needs_child=True)
        return PlannedVariant(case, needs_child=risk is not None)

    def _is_skipped_by_mark(self, base: CaseCell, variant: Variant) -> bool:
        """Whether the mark's `skip_if` leaves out the variant's cell."""
        if self._declaration.skip_if is None:
            return False
        cell = replace(base.cell, sample_id=variant.sample.id or "")
        return skip_reason(self._declaration, cell) is not None


def _wants(check: Check, base: CaseCell, variant: Variant, has_both: bool) -> bool:
    """Whether a check that runs on this kind of variants runs on a variant of this case.

    Args:
        has_both: whether the sample has a case with gradients and one without. Then a check that does not
            need gradients runs on the one without.
    """
    if variant.kind == "gradients":
        return base.case.requires_grad
    return prefers(check, base, has_both)


def prefers(check: Check, base: CaseCell, has_both: bool) -> bool:
    """Whether a check runs on what is derived from this case; `has_both` as in `_wants`."""
    with_gradients = check.gradients is True or check.variants_with_gradients
    return not has_both or base.case.requires_grad == with_gradients
