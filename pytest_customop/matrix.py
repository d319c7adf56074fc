"""Declaration x settings -> what is planned: cases and checks, with their ids and seeds.

Nothing is allocated here. Only meaningful cells exist: no gradients where nothing is differentiable,
no layout that looks like the contiguous one, no check that cannot apply.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .case import Case, seed_of
from .cells import Cell, cells_of, dtype_name, error_cells, skip_reason
from .checks import BODY, Check, selects_body
from .draw import Placement
from .inputs import Sample
from .marker import Declaration
from .samples import MarkError
from .settings import Settings, dtype_named, refuse_unknown_devices

# (device) -> None if it is here, or why not
Availability = Callable[[str], "str | None"]


@dataclass(frozen=True, eq=False)
class Planned:
    """One item to be: a check, or the test's own body, on a case; or a reason why nothing runs.

    Two plans are equal only if they are the same object: pytest compares parameters, and tensors
    inside would break that.

    Args:
        id: unique within its test.
        case: None for a device that is not there.
        check: None for the body and for what does not run.
        skip: why nothing runs.
        missing_device: the device that is not there.
    """

    id: str
    op: str
    case: Case | None = None
    check: Check | None = None
    skip: str | None = None
    missing_device: str | None = None

    @property
    def is_body(self) -> bool:
        """Whether this is the test's own body on a case."""
        return self.check is None and self.skip is None

    @property
    def check_name(self) -> str:
        """The check's name in the report; empty where nothing runs."""
        return self.check.name if self.check else BODY if self.is_body else ""

    def record(self) -> dict[str, Any]:
        """The part of a result's record that is known before it runs."""
        placement = self.case.placement if self.case else None
        return {
            "op": self.op,
            "check": self.check_name or None,
            "device": placement.device if placement else self.missing_device,
            "dtype": dtype_name(placement.dtype) if placement else None,
            "requires_grad": placement.requires_grad if placement else None,
            "layout": placement.layout if placement else None,
            "sample": self.case.sample_id if self.case else None,
        }


def plan(
    declarations: Sequence[Declaration],
    settings: Settings,
    select: Callable[[Declaration], Iterable[Check]],
    available: Availability,
) -> list[Planned]:
    """Everything that the marks of one test ask for, sorted by id.

    Args:
        declarations: one a mark; several carry the op in their ids.
        settings: of the session.
        select: the checks that run for a declaration.
        available: says why a device is not there, or None.

    Raises:
        MarkError: for the same op and sample twice, and for what a samples function does wrong.
    """
    planned: dict[tuple[str, ...], Planned] = {}
    seen: dict[str, Declaration] = {}
    for declaration in declarations:
        prefix = declaration.id or declaration.op.name.replace("::", ".")
        named = prefix if len(declarations) > 1 else ""
        if named in seen:
            raise MarkError(
                f"customop_cases at {declaration.where}: two marks are for {prefix}; "
                "put their samples in one mark, or tell them apart with id="
            )
        seen[named] = declaration
        checks = list(select(declaration))
        for key, one in _plan_one(declaration, settings, checks, available, named):
            planned[key] = one
    _refuse_twin_ids(planned.values(), declarations[0].where)
    return [one for _, one in sorted(planned.items())]


def _refuse_twin_ids(planned: Iterable[Planned], where: str) -> None:
    """Layouts, axes and samples are joined by dashes, so their names may run into each other."""
    for one, count in Counter(one.id for one in planned).items():
        if count > 1:
            raise MarkError(
                f"customop_cases at {where}: two cases have the id {one!r}; rename a sample"
            )


Key = tuple[str, ...]
Widths = dict[tuple[object, ...], tuple[int, str]]


def _plan_one(
    declaration: Declaration,
    settings: Settings,
    checks: Sequence[Check],
    available: Availability,
    prefix: str,
) -> Iterator[tuple[Key, Planned]]:
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
        cases = [
            _case(declaration, settings, cell, sample, prefix)
            for cell, sample in cells_of(declaration, device, dtypes)
        ]
        if not cases:
            raise MarkError(f"customop_cases at {declaration.where}: {_why_empty(declaration)}")
        widths = _widths(cases)
        for key, case, unsupported in cases:
            if unsupported:
                yield key, Planned("-".join(filter(None, key)), name, case, skip=unsupported)
            else:
                yield from _items(declaration, key, case, widths, checks)
                if selects_body(settings.checks) and _runs_fully(declaration, case):
                    full = (*key, BODY)
                    yield full, Planned("-".join(filter(None, full)), name, case)
        for cell, error in error_cells(declaration, device, dtypes):
            yield from _error_items(_case(declaration, settings, cell, error, prefix), checks)


def _nothing(
    prefix: str, what: str, op: str, reason: str, device: str | None = None
) -> tuple[Key, Planned]:
    key = (prefix, what)
    one = Planned("-".join(filter(None, key)), op, skip=reason, missing_device=device)
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
    key: Key,
    case: Case,
    widths: Widths,
    checks: Sequence[Check],
) -> Iterator[tuple[Key, Planned]]:
    widest = _width(case) >= widths[_kin(key, case)]
    fully, name = _runs_fully(declaration, case), case.op.name
    for check in checks:
        if check.errors or (check.reference and case.reference is None):
            continue
        if check.needs is not None and not check.needs(case.op):
            continue
        if check.applies(case.requires_grad, case.op.has_formula, fully, widest):
            yield (*key, check.name), Planned(f"{case.id}-{check.name}", name, case, check)


def _error_items(
    planned: tuple[Key, Case, str | None], checks: Sequence[Check]
) -> Iterator[tuple[Key, Planned]]:
    """The checks of one error sample."""
    key, case, unsupported = planned
    mine = [check for check in checks if check.errors]
    if unsupported and mine:
        yield key, Planned("-".join(filter(None, key)), case.op.name, case, skip=unsupported)
        return
    for check in mine:
        full = (*key, check.name)
        yield full, Planned("-".join(filter(None, full)), case.op.name, case, check)


def _runs_fully(declaration: Declaration, case: Case) -> bool:
    """False for the one case with gradients that an op without a formula gets unasked."""
    if case.op.has_formula or not case.requires_grad:
        return True
    return True in (declaration.requires_grad or ())


def _kin(key: Key, case: Case) -> tuple[object, ...]:
    """What is equal in cases that differ in nothing but the width of their dtype."""
    dtype = case.placement.dtype
    return (*key[:2], *key[3:], dtype.is_complex, dtype.is_floating_point)


def _width(case: Case) -> tuple[int, str]:
    return (case.placement.dtype.itemsize, str(case.placement.dtype))


def _widths(cases: Iterable[tuple[Key, Case, str | None]]) -> Widths:
    """The widest dtype that runs, by `_kin`."""
    found: Widths = {}
    for key, case, skipped in cases:
        if not skipped:
            kin = _kin(key, case)
            found[kin] = max(found.get(kin, (0, "")), _width(case))
    return found


def _devices(declaration: Declaration, settings: Settings) -> list[str]:
    for_mark, for_session = declaration.devices, settings.devices
    try:
        refuse_unknown_devices(for_mark or ())
    except ValueError as error:
        raise MarkError(f"customop_cases at {declaration.where}: {error}") from None
    if for_mark is None or for_session is None:
        return sorted(for_mark or for_session or ("cpu",))
    types = {*for_mark, *(device for device in for_mark)}
    return sorted(d for d in for_session if d in types or d.partition(":")[0] in types)


def _dtypes(declaration: Declaration, settings: Settings) -> list[torch.dtype]:
    for_session = [dtype_named(name) for name in settings.dtypes or ()]
    if declaration.dtypes is None:
        return for_session or [torch.get_default_dtype()]
    if not for_session:
        return list(declaration.dtypes)
    return [dtype for dtype in declaration.dtypes if dtype in for_session]


def _case(
    declaration: Declaration, settings: Settings, cell: Cell, sample: Sample, prefix: str
) -> tuple[Key, Case, str | None]:
    key: Key = (
        prefix,
        cell.device,
        dtype_name(cell.dtype),
        "withgrad" if cell.requires_grad else "nograd",
        "" if cell.layout == "contiguous" else cell.layout,
        *(f"{name}{value}" for name, value in cell.axes.items()),
        cell.sample_id,
    )
    placement = Placement(
        device=cell.device,
        dtype=cell.dtype,
        requires_grad=cell.requires_grad,
        layout=cell.layout,
        cast_real=cell.dtype if declaration.dtypes is not None else None,
        own_grad=declaration.requires_grad is None,
    )
    off_device = "-".join(filter(None, (*key[:1], *key[2:])))
    case = Case(
        op=declaration.op,
        sample=sample,
        placement=placement,
        id="-".join(filter(None, key)),
        seed=seed_of(settings.seed, declaration.op.name, off_device),
        tolerances=declaration.tolerances,
        gradcheck=declaration.gradcheck,
        backend=settings.backend,
        sample_id=cell.sample_id,
        axes=cell.axes,
        reference=declaration.reference,
    )
    return key, case, skip_reason(declaration, cell)
