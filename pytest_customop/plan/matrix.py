"""Declaration x settings -> what is planned: cases and checks, with their ids and seeds.

Nothing is allocated here. Only meaningful cells exist: no gradients where nothing is differentiable,
no layout that looks like the contiguous one, no check that cannot apply.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

import torch

from ..cases.case import Case
from ..checks import Check, selects_body
from ..core.wording import dtype_name
from ..declare.declaration import Declaration
from ..settings import Settings, dtype_named, validate_devices
from .cells import cells_of, error_cells
from .items import CaseCell, Key, PlannedItem, joined, placed
from .max_samples import limit_samples
from .omissions import OnOmitted
from .variant_items import variants

# (device) -> None if it is here, or why not
Availability = Callable[[str], "str | None"]


def plan(
    declarations: Sequence[Declaration],
    settings: Settings,
    select: Callable[[Declaration], Iterable[Check]],
    available: Availability,
    on_omitted: OnOmitted | None = None,
) -> list[PlannedItem]:
    """Everything that the marks of one test ask for, sorted by id.

    Args:
        declarations: one a mark; several carry the op in their ids.
        settings: of the session.
        select: the checks that run for a declaration.
        available: says why a device is not there, or None.
        on_omitted: called with what a cap on samples leaves out of a mark, and with how many variants of
            its samples are left out.

    Raises:
        MarkError: for the same op and sample twice, and for what a samples function does wrong.
    """
    planned: dict[tuple[str, ...], PlannedItem] = {}
    seen: dict[str, Declaration] = {}
    for declaration in declarations:
        prefix = declaration.id or declaration.op.name.replace("::", ".")
        named = prefix if len(declarations) > 1 else ""
        if named in seen:
            raise declaration.mistake(
                f"two marks are for {prefix}; "
                "put their samples in one mark, or tell them apart with id="
            )
        seen[named] = declaration
        checks = list(select(declaration))
        for key, one in _plan_one(declaration, settings, checks, available, named, on_omitted):
            planned[key] = one
    _validate_ids(planned.values(), declarations[0])
    return [planned[key] for key in sorted(planned)]


def _validate_ids(planned: Iterable[PlannedItem], declaration: Declaration) -> None:
    """Reject equal ids: layouts, axes and samples are joined by dashes, which names may have too."""
    for one, count in Counter(one.id for one in planned).items():
        if count > 1:
            raise declaration.mistake(f"two cases have the id {one!r}; rename a sample")


Widths = dict[tuple[object, ...], tuple[int, str]]


def _plan_one(
    declaration: Declaration,
    settings: Settings,
    checks: Sequence[Check],
    available: Availability,
    prefix: str,
    on_omitted: OnOmitted | None,
) -> Iterator[tuple[Key, PlannedItem]]:
    name = declaration.op.name
    devices = _devices(declaration, settings)
    if not devices:
        reason = (
            f"the mark is for {', '.join(declaration.devices or ())}, "
            f"the session for {', '.join(settings.devices or ())}"
        )
        yield _nothing(prefix, "no-device", name, reason)
        return
    dtypes = _dtypes(declaration, settings)
    if not dtypes:
        reason = (
            f"the mark's dtypes are {', '.join(map(dtype_name, declaration.dtypes or ()))}, "
            f"the session's {', '.join(settings.dtypes or ())}"
        )
        yield _nothing(prefix, "no-dtype", name, reason)
        return
    for device in devices:
        absent = available(device)
        if absent:
            yield _nothing(prefix, f"{device}-absent", name, absent, device)
            continue
        every = cells_of(declaration, device, dtypes, settings.seed)
        cells = limit_samples(declaration, settings, every, on_omitted)
        cases = [placed(declaration, settings, cell, sample, prefix) for cell, sample in cells]
        if not cases:
            raise declaration.mistake(_why_empty(declaration))
        widths = _widths(cases)
        for one in cases:
            yield from _items(declaration, settings, one, widths, checks)
        yield from variants(declaration, settings, cases, checks, on_omitted)
        for cell, error in error_cells(declaration, device, dtypes):
            yield from _error_items(placed(declaration, settings, cell, error, prefix), checks)


def _nothing(
    prefix: str, what: str, op: str, reason: str, device: str | None = None
) -> tuple[Key, PlannedItem]:
    key = (prefix, what)
    one = PlannedItem(joined(key), op, skip=reason, missing_device=device)
    return key, one


def _why_empty(declaration: Declaration) -> str:
    asked = declaration.requires_grad or ()
    if asked == (True,):
        return (
            "requires_grad=True leaves no case: no argument of these dtypes can require gradients"
        )
    return f"layouts={list(declaration.layouts)} leaves no case: no sample looks different in them"


def _items(
    declaration: Declaration,
    settings: Settings,
    one: CaseCell,
    widths: Widths,
    checks: Sequence[Check],
) -> Iterator[tuple[Key, PlannedItem]]:
    """The checks and the body of one case."""
    if one.unsupported:
        yield one.skipped(one.unsupported)
        return
    widest = _width(one.case) >= widths[_kin(one)]
    fully = _runs_fully(declaration, one.case)
    for check in checks:
        if not check.errors and check.can_run(one.case, fully, widest):
            yield one.item(check)
    if selects_body(settings.checks) and fully:
        yield one.item(None)


def _error_items(one: CaseCell, checks: Sequence[Check]) -> Iterator[tuple[Key, PlannedItem]]:
    """The checks of one error sample."""
    mine = [check for check in checks if check.errors]
    if one.unsupported and mine:
        yield one.skipped(one.unsupported)
        return
    for check in mine:
        yield one.item(check)


def _runs_fully(declaration: Declaration, case: Case) -> bool:
    """False for the one case with gradients that an op without a formula gets unasked."""
    if case.op.has_autograd or not case.requires_grad:
        return True
    return True in (declaration.requires_grad or ())


def _kin(one: CaseCell) -> tuple[object, ...]:
    """What is equal in cases that differ in nothing but the width of their dtype."""
    dtype = one.case.placement.dtype
    return (*one.key[:2], *one.key[3:], dtype.is_complex, dtype.is_floating_point)


def _width(case: Case) -> tuple[int, str]:
    return (case.placement.dtype.itemsize, str(case.placement.dtype))


def _widths(cases: Iterable[CaseCell]) -> Widths:
    """The widest dtype that runs, by `_kin`."""
    found: Widths = {}
    for one in cases:
        if not one.unsupported:
            kin = _kin(one)
            found[kin] = max(found.get(kin, (0, "")), _width(one.case))
    return found


def _devices(declaration: Declaration, settings: Settings) -> list[str]:
    for_mark, for_session = declaration.devices, settings.devices
    try:
        validate_devices(for_mark or ())
    except ValueError as error:
        raise declaration.mistake(str(error)) from None
    if for_mark is None or for_session is None:
        return sorted(for_mark or for_session or ("cpu",))
    both = {_common_device(one, other) for one in for_mark for other in for_session}
    return sorted(device for device in both if device is not None)


def _common_device(one: str, other: str) -> str | None:
    """The device that two names both mean, or None: of `cuda` and `cuda:1` it is `cuda:1`."""
    if one == other:
        return one
    (one_type, _, one_index), (other_type, _, other_index) = (
        one.partition(":"),
        other.partition(":"),
    )
    if one_type != other_type or (one_index and other_index):
        return None
    return one if one_index else other


def _dtypes(declaration: Declaration, settings: Settings) -> list[torch.dtype]:
    for_session = [dtype_named(name) for name in settings.dtypes or ()]
    if declaration.dtypes is None:
        return for_session or [torch.get_default_dtype()]
    if not for_session:
        return list(declaration.dtypes)
    return [dtype for dtype in declaration.dtypes if dtype in for_session]
