"""The counts of a harvest, for the summary, as plain data that processes send. Imports no torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..core.suggest import did_you_mean
from ..core.wording import counted

Count = Counter[tuple[str, str]]


@dataclass
class HarvestNotes:
    """The counts of one process, or of all workers together.

    Args:
        tests: how many tests ran while calls were recorded.
        calls: how many calls had a signature that was kept.
        signatures: how many signatures were kept, by op.
        left: how many calls were not checked, by op and reason.
        registered: how many ops there are, by namespace.
        not_run: why nothing was checked; empty if something was.
        written: what became of the file of `--customop-harvest-save`.
        pieces: the source of its tests.
    """

    tests: int = 0
    calls: int = 0
    signatures: dict[str, int] = field(default_factory=dict)
    left: Count = field(default_factory=Counter)
    registered: dict[str, int] = field(default_factory=dict)
    not_run: str = ""
    written: str = ""
    pieces: list[dict[str, Any]] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """As lists, dicts, strings and numbers."""
        return {
            "tests": self.tests,
            "calls": self.calls,
            "signatures": self.signatures,
            "left": [[op, reason, count] for (op, reason), count in self.left.items()],
            "registered": self.registered,
            "not_run": self.not_run,
            "pieces": self.pieces,
        }

    def merge(self, sent: Mapping[str, Any]) -> None:
        """Add what a worker sent."""
        self.tests += sent["tests"]
        self.calls += sent["calls"]
        for op, count in sent["signatures"].items():
            self.signatures[op] = self.signatures.get(op, 0) + count
        self.left += Counter({(op, reason): count for op, reason, count in sent["left"]})
        for namespace, count in sent["registered"].items():
            self.registered[namespace] = max(count, self.registered.get(namespace, 0))
        self.not_run = self.not_run or sent["not_run"]
        self.pieces += sent["pieces"]

    def lines(self, namespaces: Iterable[str]) -> list[str]:
        """The lines of the summary.

        Args:
            namespaces: the namespaces that the session records.
        """
        if self.not_run:
            return [f"harvest: not run: {self.not_run}"]
        lines = []
        if self.signatures or self.left:
            count = sum(self.signatures.values())
            lines.append(
                f"harvest: {counted(self.calls, 'call')} in {counted(self.tests, 'test')}, "
                f"{counted(count, 'signature')} of {counted(len(self.signatures), 'op')} checked"
            )
        called = {op.partition("::")[0] for op in (*self.signatures, *(op for op, _ in self.left))}
        lines += [self._unseen(namespace) for namespace in namespaces if namespace not in called]
        if self.left:
            lines.append("Calls that were not checked:")
        for (op, reason), count in sorted(self.left.items()):
            lines.append(f"  {op}  {counted(count, 'call')}: {reason}")
        if self.written:
            lines.append(self.written)
        return lines

    def _unseen(self, namespace: str) -> str:
        """Why no call of a namespace was seen."""
        count = self.registered.get(namespace, 0)
        tests = counted(self.tests, "test")
        if count:
            return (
                f"harvest: no call of an op of {namespace!r} was seen in {tests} "
                f"({counted(count, 'op')} registered; calls that C++ code makes are not seen)"
            )
        hint = did_you_mean(namespace, self.registered)
        return (
            f"harvest: nothing seen of {namespace!r}: no op is registered in this namespace{hint}"
        )
