"""Plan a test: turn the marks and the session's settings into items, with their ids and seeds.

Planning allocates no inputs. A check that cannot apply to a case gets no item.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import torch

from ..cases.case import Case
from ..checks import Check, selects_body
from ..compat.registry import kernel_devices, runs_on
from ..core.wording import dtype_name
from ..declare.declaration import Declaration
from ..settings import Settings
from ..settings.values import dtype_named, validate_devices
from .cells import cells_of, error_cells
from .compile_cells import compiled_cases
from .fuzz_items import fuzz_items
from .items import CaseCell, Key, PlannedItem, case_cell, join_key
from .known import known_of
from .max_samples import limit_samples
from .omissions import OnOmitted
from .reference_device import compared_with, reference_device
from .variant_items import base_cases, variant_items

# (device) -> why it cannot be used here; None if it can
Availability = Callable[[str], "str | None"]


def plan(
    declarations: Sequence[Declaration],
    settings: Settings,
    select: Callable[[Declaration], Iterable[Check]],
    available: Availability,
    on_omitted: OnOmitted | None = None,
) -> list[PlannedItem]:
    """The items of all marks of one test, sorted by id.

    Args:
        declarations: one per mark. If there are several marks, ids begin with the op.
        settings: of the session.
        select: the checks that run for a declaration.
        available: why a device cannot be used here; None if it can.
        on_omitted: called with the samples and the variants that are left out of a mark.

    Raises:
        MarkError: for two marks of one op, for equal ids, and for mistakes in a samples function.
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
        for key, item in _plan_mark(declaration, settings, checks, available, named, on_omitted):
            planned[key] = _with_known(item, declaration)
    _validate_ids(planned.values(), declarations[0])
    return [planned[key] for key in sorted(planned)]


def _with_known(item: PlannedItem, declaration: Declaration) -> PlannedItem:
    """The item with the known failures of its mark that may be about it."""
    if not declaration.known or item.check is None:
        return item
    return replace(item, known=known_of(declaration.known, item.check.name, item.place))


def _validate_ids(planned: Iterable[PlannedItem], declaration: Declaration) -> None:
    """Reject equal ids. They can occur: parts are joined by dashes, and names may have dashes too."""
    for item_id, count in Counter(item.id for item in planned).items():
        if count > 1:
            raise declaration.mistake(f"two cases have the id {item_id!r}; rename a sample")


# The widest dtype, by `_key_without_width`.
Widths = dict[tuple[object, ...], tuple[int, str]]


def _plan_mark(
    declaration: Declaration,
    settings: Settings,
    checks: Sequence[Check],
    available: Availability,
    prefix: str,
    on_omitted: OnOmitted | None,
) -> Iterator[tuple[Key, PlannedItem]]:
    """The items of one mark, with their keys."""
    name = declaration.op.name
    devices = _devices(declaration, settings)
    if not devices:
        reason = (
            f"the mark is for {', '.join(declaration.devices or ())}, "
            f"the session for {', '.join(settings.devices or ())}"
        )
        yield _skipped(prefix, "no-device", name, reason)
        return
    dtypes = _dtypes(declaration, settings)
    if not dtypes:
        reason = (
            f"the mark's dtypes are {', '.join(map(dtype_name, declaration.dtypes or ()))}, "
            f"the session's {', '.join(settings.dtypes or ())}"
        )
        yield _skipped(prefix, "no-dtype", name, reason)
        return
    absences = {device: available(device) for device in devices}
    no_kernels = {
        device: _why_no_kernel(declaration, device) for device in devices if not absences[device]
    }
    reference = reference_device([device for device, reason in no_kernels.items() if not reason])
    for device, absent in absences.items():
        if absent:
            yield _skipped(prefix, f"{device}-absent", name, absent, device)
            continue
        no_kernel = no_kernels[device]
        if no_kernel is not None:
            yield _skipped(prefix, f"{device}-no-kernel", name, no_kernel)
            continue
        all_cells = cells_of(declaration, device, dtypes, settings.seed)
        cells = limit_samples(declaration, settings, all_cells, on_omitted)
        cases = [
            compared_with(
                declaration, case_cell(declaration, settings, cell, sample, prefix), reference
            )
            for cell, sample in cells
        ]
        if not cases:
            raise declaration.mistake(_why_empty(declaration))
        yield from _items_of_samples(declaration, settings, cases, checks, on_omitted)
        yield from variant_items(declaration, settings, cases, checks, on_omitted)
        yield from fuzz_items(declaration, settings, cases, checks)
        for cell, error in error_cells(declaration, device, dtypes):
            yield from _error_items(case_cell(declaration, settings, cell, error, prefix), checks)


def _items_of_samples(
    declaration: Declaration,
    settings: Settings,
    cases: Sequence[CaseCell],
    checks: Sequence[Check],
    on_omitted: OnOmitted | None,
) -> Iterator[tuple[Key, PlannedItem]]:
    """The items of the samples' own cases on one device."""
    widths = _widths(cases)
    compiled = {id(case) for case in compiled_cases(declaration, settings, cases, on_omitted)}
    first = {
        id(entry.case)
        for bases in base_cases(declaration, cases)
        for entry in (bases[-1:] if declaration.op.has_formula_in_python else bases)
    }
    for entry in cases:
        chosen = [
            check
            for check in checks
            if id(entry.case) in compiled or check.family != "compile"
            if id(entry.case) in first or not check.once_per_sample
        ]
        yield from _items(declaration, settings, entry, widths, chosen)


def _why_no_kernel(declaration: Declaration, device: str) -> str | None:
    """Why an op has no cases on a device that its mark does not name; None if it has."""
    overload = declaration.op.overload
    if declaration.devices is not None or runs_on(overload, device):
        return None
    return f"the op has no kernel for {device}, only for {', '.join(kernel_devices(overload))}"


def _skipped(
    prefix: str, what: str, op: str, reason: str, device: str | None = None
) -> tuple[Key, PlannedItem]:
    """The one skipped item in place of all cases of a mark or of a device."""
    key = (prefix, what)
    item = PlannedItem(join_key(key), op, skip=reason, missing_device=device)
    return key, item


def _why_empty(declaration: Declaration) -> str:
    """Why a mark has no cases."""
    requires_grad = declaration.requires_grad or ()
    if requires_grad == (True,) and declaration.as_given:
        return "requires_grad=True leaves no case: no given tensor requires gradients"
    if requires_grad == (True,):
        return (
            "requires_grad=True leaves no case: no argument of these dtypes can require gradients"
        )
    return f"layouts={list(declaration.layouts)} leaves no case: no sample looks different in them"


def _items(
    declaration: Declaration,
    settings: Settings,
    entry: CaseCell,
    widths: Widths,
    checks: Sequence[Check],
) -> Iterator[tuple[Key, PlannedItem]]:
    """The checks and the body of one case."""
    if entry.unsupported:
        yield entry.skipped(entry.unsupported)
        return
    widest = _width(entry.case) >= widths[_key_without_width(entry)]
    fully = _gets_all_checks(declaration, entry.case)
    for check in checks:
        if not check.errors and check.can_run(entry.case, fully, widest):
            yield entry.item(check)
    if selects_body(settings.checks) and fully:
        yield entry.item(None)


def _error_items(entry: CaseCell, checks: Sequence[Check]) -> Iterator[tuple[Key, PlannedItem]]:
    """The checks of one error sample."""
    error_checks = [check for check in checks if check.errors]
    if entry.unsupported and error_checks:
        yield entry.skipped(entry.unsupported)
        return
    for check in error_checks:
        yield entry.item(check)


def _gets_all_checks(declaration: Declaration, case: Case) -> bool:
    """False for a case with gradients of an op without a formula, unless the mark requires gradients.

    Only the few checks with `runs_without_autograd` run there.
    """
    if case.op.has_autograd or not case.requires_grad:
        return True
    return True in (declaration.requires_grad or ())


def _key_without_width(entry: CaseCell) -> tuple[object, ...]:
    """A key that is equal for cases that differ only in the width of their dtype."""
    dtype = entry.case.placement.dtype
    return (*entry.key[:2], *entry.key[3:], dtype.is_complex, dtype.is_floating_point)


def _width(case: Case) -> tuple[int, str]:
    return (case.placement.dtype.itemsize, str(case.placement.dtype))


def _widths(cases: Iterable[CaseCell]) -> Widths:
    """The widest dtype that runs, for each group of cases that differ only in its width."""
    widths: Widths = {}
    for entry in cases:
        if not entry.unsupported:
            key = _key_without_width(entry)
            widths[key] = max(widths.get(key, (0, "")), _width(entry.case))
    return widths


def _devices(declaration: Declaration, settings: Settings) -> list[str]:
    """The devices that the mark and the session have in common."""
    for_mark, for_session = declaration.devices, settings.devices
    try:
        validate_devices(for_mark or ())
    except ValueError as error:
        raise declaration.mistake(str(error)) from None
    if for_mark is None or for_session is None:
        return sorted(for_mark or for_session or ("cpu",))
    common = {_common_device(first, second) for first in for_mark for second in for_session}
    return sorted(device for device in common if device is not None)


def _common_device(first: str, second: str) -> str | None:
    """The device that two names mean, or None: `cuda` and `cuda:1` mean `cuda:1`."""
    if second in (first, first.partition(":")[0]):
        return first
    return second if first == second.partition(":")[0] else None


def _dtypes(declaration: Declaration, settings: Settings) -> list[torch.dtype]:
    """The dtypes that the mark and the session have in common."""
    for_session = [dtype_named(name) for name in settings.dtypes or ()]
    if declaration.dtypes is None:
        return for_session or [torch.get_default_dtype()]
    if not for_session:
        return list(declaration.dtypes)
    return [dtype for dtype in declaration.dtypes if dtype in for_session]
