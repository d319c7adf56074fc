"""The items of generated inputs: one per cell of the matrix and check, for all samples of the mark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..checks import Check
from ..declare.declaration import Declaration
from ..settings import Settings
from .fuzz_plan import FuzzPlan
from .items import CaseCell, Key, PlannedItem, join_key
from .place import GENERATED
from .variant_items import base_cases, prefers

# Further kinds of inputs for a check that compares with a reference, besides the kinds of its variants.
_FOR_REFERENCE = frozenset(("magnitudes", "special"))


@dataclass
class _Group:
    """The cases of a mark that differ only in the sample, with gradients and without."""

    with_gradients: list[CaseCell] = field(default_factory=list)
    without: list[CaseCell] = field(default_factory=list)


def fuzz_items(
    declaration: Declaration,
    settings: Settings,
    cases: Sequence[CaseCell],
    checks: Sequence[Check],
) -> Iterator[tuple[Key, PlannedItem]]:
    """The items of generated inputs that the session requests, with their keys.

    Args:
        cases: every case of the mark on one device.
        checks: those that run for the mark.
    """
    if settings.fuzz is None or not declaration.variants:
        return
    named = {*(settings.checks or ()), *(declaration.checks or ())}
    useful = [check for check in checks if _can_use(check, named)]
    for group in _groups(declaration, cases):
        has_both = bool(group.with_gradients and group.without)
        for bases in (group.without, group.with_gradients):
            for check in useful if bases else ():
                if check.can_run(bases[0].case) and prefers(check, bases[0], has_both):
                    kinds = _kinds(declaration, settings, check, bases[0])
                    yield _item(declaration, settings, bases, check, kinds)


def _can_use(check: Check, named: set[str]) -> bool:
    """Whether a check runs on generated inputs: it is cheap, or requested by name."""
    affordable = check.cheap or check.name in named
    return affordable and "shape" in check.variants and not check.errors


def _groups(declaration: Declaration, cases: Sequence[CaseCell]) -> list[_Group]:
    groups: dict[Any, _Group] = {}
    for bases in base_cases(declaration, cases):
        for base in bases:
            key = (base.cell.dtype, base.cell.layout, repr([*base.cell.axes.items()]))
            group = groups.setdefault(key, _Group())
            (group.with_gradients if base.case.requires_grad else group.without).append(base)
    return [*groups.values()]


def _kinds(
    declaration: Declaration, settings: Settings, check: Check, base: CaseCell
) -> frozenset[str]:
    """The kinds that are useful for the check, and that the mark and the session allow."""
    kinds = {*check.variants} | (_FOR_REFERENCE if check.reference else frozenset())
    if not base.case.requires_grad:
        kinds -= {"gradients"}
    allowed = kinds & {*settings.variants.kinds}
    of_mark = declaration.variants
    return frozenset(allowed if callable(of_mark) else allowed & {*of_mark})


def _item(
    declaration: Declaration,
    settings: Settings,
    bases: Sequence[CaseCell],
    check: Check,
    kinds: frozenset[str],
) -> tuple[Key, PlannedItem]:
    base = bases[0]
    key = (*base.key[:-1], GENERATED, check.name)
    predicate = declaration.variants if callable(declaration.variants) else None
    plan = FuzzPlan(
        bases=bases,
        kinds=kinds,
        count=settings.fuzz or 0,
        settings=settings,
        declared_dtypes=(declaration.dtypes or settings.dtypes) is not None,
        unsupported=predicate,
        id=join_key(key),
    )
    without = settings.without_child
    skip = f"{plan.risk}: {without}" if plan.risk and without is not None else None
    item = PlannedItem(plan.id, base.case.op.name, base.case, check, skip=skip, fuzz=plan)
    return key, item
