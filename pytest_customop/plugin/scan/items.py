"""The pytest items of the audit: `scan::mylib::foo[audit]`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ...findings import Finding
from ...run.finding_records import finding_record
from ...run.record import AUDIT, ResultRecord
from ...run.results import CheckResult
from ...scan.audit import ON_PURPOSE, WHY_NOTED, AuditedOp
from ..run_item import end_item
from ..session.records import with_baseline
from ..session.state import RECORDS, Session

NAME = "scan"


class AuditItem(pytest.Item):
    """The audit of an op, as an item.

    Args:
        audited: the op.
        packages: the packages of the scan.
    """

    def __init__(self, *, audited: AuditedOp, packages: Sequence[str], **keywords: Any) -> None:
        super().__init__(**keywords)
        self._audited = audited
        self._packages = packages

    def runtest(self) -> None:
        """End the item according to the findings of the audit."""
        audited = self._audited
        results = [self._result(finding, "failed") for finding in audited.failures]
        results += [self._result(finding, "noted") for finding in audited.notes]
        passed = CheckResult(op=audited.op.name, check=AUDIT, case="", outcome="passed")
        records = [self._record(result) for result in results or [passed]]
        self.stash[RECORDS] = records
        end_item(records)

    def _result(self, finding: Finding, outcome: Any) -> CheckResult:
        noted = outcome == "noted"
        return CheckResult(
            op=self._audited.op.name,
            check=AUDIT,
            case="the schema and the registrations, without a call",
            outcome=outcome,
            found=finding_record(finding, None),
            message=finding.message,
            evidence=finding.evidence,
            skip_code=ON_PURPOSE if noted else None,
            why_noted=WHY_NOTED if noted else "",
        )

    def _record(self, result: CheckResult) -> ResultRecord:
        arguments = ["pytest", f"--customop-scan={','.join(self._packages)}"]
        rerun = shlex.join([*arguments, "--customop-scan-seconds=0", "-k", self.name])
        text = "" if result.outcome == "passed" else result.text(rerun)
        return with_baseline(self, replace(result.record(self.nodeid), repro=rerun, text=text))

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """No file: the op is of an installed package."""
        return self.path, None, self.nodeid


class _Root(pytest.Collector):
    """All audited ops."""

    def collect(self) -> list[pytest.Item | pytest.Collector]:
        """Nothing: the items are made by `items_of`."""
        return []


def items_of(
    session: pytest.Session, customop: Session, audited: Sequence[AuditedOp]
) -> list[AuditItem]:
    """One item per op."""
    root = _Root.from_parent(session, name=NAME, nodeid=NAME, path=session.config.rootpath)
    packages = customop.settings.scan or ()
    return [_item(root, audited_op, packages) for audited_op in audited]


def _item(root: _Root, audited: AuditedOp, packages: Sequence[str]) -> AuditItem:
    name = f"{audited.op.name}[audit]"
    item: AuditItem = AuditItem.from_parent(
        root, name=name, nodeid=f"{NAME}::{name}", audited=audited, packages=packages
    )
    return item
