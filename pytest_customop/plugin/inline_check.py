"""The value of the fixture `customop_check`: check an op on the inputs of one call, in any test."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from ..core.suggest import did_you_mean, misspelt
from ..declare.declaration import Declaration, declare_call
from ..declare.inputs import Sample
from ..declare.known import Known
from ..declare.mistakes import MarkError, raised_at_call
from ..declare.ops import Op, OpError, resolve
from ..plan.known import known_of
from ..run.devices import worker_devices
from ..run.known import not_run, stale_for_any_variant, with_known
from ..run.record import BAD, ResultRecord
from ..run.standalone import read_variants_and_predicate, run_declaration
from ..settings import Settings, Variants
from .case_handle import ConformanceError
from .session.records import record_of, strict_by_default, with_baseline
from .session.state import RECORDS, Session

if TYPE_CHECKING:
    from ..run.results import CheckResult

_NAME = "customop_check"
OPTIONS = ("checks", "variants", "tolerances", "reference", "known")
_IN_PROCESS = "customop_check runs in the process of its test"


class InlineCheck:
    """Check an op on these inputs: `customop_check(torch.ops.mylib.foo, x, y)`.

    The arguments of the op follow it. The keywords `checks`, `variants`, `tolerances`, `reference` and
    `known` are options of the check. If the op has an argument with such a name, use `with_options`.
    """

    def __init__(
        self, item: pytest.Item, session: Session, options: Mapping[str, Any] | None = None
    ) -> None:
        self._item = item
        self._session = session
        self._options = options  # None: among the keywords of the call

    def __repr__(self) -> str:
        return f"<{_NAME}>"

    def with_options(
        self,
        *,
        checks: str | Sequence[str] | None = None,
        variants: bool | str | int | Callable[[Any], str | None] | Sequence[Any] = False,
        tolerances: Mapping[torch.dtype, tuple[float, float]] | tuple[float, float] | None = None,
        reference: Callable[..., Any] | None = None,
        known: Sequence[Known] = (),
    ) -> InlineCheck:
        """The same check with options: every keyword of its call then belongs to the op.

        Args:
            checks: names and families, `-name` to remove one; None: those of the session.
            variants: as in `check_op`; True: those of `--customop-variants`; False: none.
            tolerances, reference: as in `customop_cases`.
            known: failures that are expected, with their reasons.
        """
        options = {
            "checks": checks,
            "variants": variants,
            "tolerances": tolerances,
            "reference": reference,
            "known": known,
        }
        return InlineCheck(self._item, self._session, options)

    @raised_at_call
    def __call__(self, op: Any, /, *args: Any, **kwargs: Any) -> None:
        """Run the checks on these inputs.

        Args:
            op: as in `customop_cases`.
            args, kwargs: the op's arguments, and options of the check, as in `with_options`.

        Raises:
            ConformanceError: if there is a finding that is not known.
            MarkError: for invalid arguments.
        """
        __tracebackhide__ = True
        op, options, kwargs = self._split(op, kwargs)
        settings, predicate = _with_variants(self._session.settings, options.pop("variants", False))
        sample = Sample(args, kwargs)
        keywords = {"op": op, "samples": [sample], "variants": predicate, **options}
        device = _device_of(sample)
        if device is not None:
            settings = settings._replace(devices=(device,))
        declaration = declare_call(keywords, _NAME, as_given=True)
        with worker_devices(settings.devices or (), self._session.worker):
            results = run_declaration(declaration, settings, self._item.ihook)
        results, remarks = self._record(results, declaration)
        bad = [at for at, result in enumerate(results) if result.outcome in BAD]
        if bad:
            raise ConformanceError([results[at] for at in bad], [remarks[at] for at in bad])

    def _split(self, op: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any], dict[str, Any]]:
        """The op, the options of the check, and the keywords of the op."""
        if self._options is not None:
            return op, dict(self._options), kwargs
        if not kwargs:
            return op, {}, kwargs
        try:
            resolved = resolve(op)
        except OpError as error:
            raise MarkError(f"{_NAME}: {error}") from error.__cause__
        _validate_keywords(resolved, kwargs)
        options = {name: kwargs[name] for name in OPTIONS if name in kwargs}
        return resolved, options, {k: v for k, v in kwargs.items() if k not in options}

    def _record(
        self, results: Sequence[CheckResult], declaration: Declaration
    ) -> tuple[list[CheckResult], list[str]]:
        """Keep the records; returns the results with the outcomes after known failures, and remarks."""
        item_records = self._item.stash.setdefault(RECORDS, [])
        strict = strict_by_default(self._item.config)
        records = []
        number = 0
        for result in results:
            record = record_of(self._item, result, number=number, by_hand=True)
            number += result.outcome in BAD
            entries = known_of(declaration.known, result.check, result.place)
            record = _expected(record, entries, strict)
            records.append(with_baseline(self._item, record))
        records = _stale_for_any_variant(records, declaration.known, strict)
        item_records += records
        judged = [
            replace(result, outcome=record.outcome, message=record.message)
            for result, record in zip(results, records, strict=True)
        ]
        return judged, [_remark(record) for record in records]


def _validate_keywords(op: Op, keywords: Iterable[str]) -> None:
    """Reject an option that has the name of an argument of the op, and one that is misspelt."""
    names = {argument.name for argument in op.arguments}
    for name in keywords:
        if name in names and name in OPTIONS:
            raise MarkError(
                f"{_NAME}: {name!r} is an argument of {op.name} and an option of {_NAME}: write "
                f"{_NAME}.with_options(...)(op, ...), in which every keyword after the op is the op's"
            )
        if name not in names and name not in OPTIONS and misspelt(name, OPTIONS):
            raise MarkError(f"{_NAME}: unknown option {name!r}{did_you_mean(name, OPTIONS)}")


def _device_of(sample: Sample) -> str | None:
    """The device of the first tensor that is not on the CPU, as on the command line; None without one."""
    for leaf in sample.leaves():
        if isinstance(leaf, torch.Tensor) and leaf.device.type not in ("cpu", "meta"):
            device = leaf.device
            current = getattr(getattr(torch, device.type, None), "current_device", None)
            is_current = current is not None and device.index == current()
            return str(device.type) if is_current else str(device)
    return None


def _with_variants(settings: Settings, value: Any) -> tuple[Settings, Any]:
    """The settings for the variants of a call, and the `variants` of its declaration."""
    settings = settings._replace(without_child=_IN_PROCESS)
    if value is None or value is False:
        return settings, False
    of_session = settings.variants
    if value is True:
        return settings, None
    try:
        variants_of_call, predicate = read_variants_and_predicate(value)
    except ValueError as error:
        raise MarkError(f"{_NAME}: {error}") from None
    off = "off" in (of_session.amount, variants_of_call.amount)
    strict = variants_of_call.strict or of_session.strict
    variants = Variants("off" if off else variants_of_call.amount, variants_of_call.kinds, strict)
    return settings._replace(variants=variants), predicate


def _expected(record: ResultRecord, entries: Sequence[Known], strict: bool) -> ResultRecord:
    """The record with the outcome that known failures give it."""
    entry = not_run(entries, record.place.variant)
    if record.outcome == "xfailed" and entry is not None:
        return replace(record, known=entry.reason)
    return with_known(record, entries, strict) if entries else record


def _stale_for_any_variant(
    records: Sequence[ResultRecord], known: Sequence[Known], strict: bool
) -> list[ResultRecord]:
    """The records, with one `xpassed` for each entry for any variant that matches no failure."""
    updated = list(records)
    for check in dict.fromkeys(record.check for record in records if record.is_variant):
        at = [i for i, record in enumerate(updated) if record.is_variant and record.check == check]
        entries = known_of(known, str(check), updated[at[0]].place)
        judged = stale_for_any_variant([updated[i] for i in at], entries, strict)
        for i, record in zip(at, judged, strict=True):
            updated[i] = record
    return updated


def _remark(record: ResultRecord) -> str:
    """The line of a failure that names another finding that is known here; empty without one."""
    last = record.text.rpartition("\n")[2]
    return last if record.outcome == "failed" and last.startswith("known  ") else ""
