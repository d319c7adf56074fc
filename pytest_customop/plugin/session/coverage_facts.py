"""Facts on the coverage of namespaces that the processes of a session know, besides the records."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from ...core.namespaces import OF_TORCH
from ...report.coverage import RegisteredOp

if TYPE_CHECKING:
    from ...run.record import ResultRecord
    from .state import Session


@dataclass
class Facts:
    """The facts that one process knows; workers of xdist send theirs to the controller.

    Args:
        registered: the ops of the namespaces that are judged, by name.
        namespaces: all registered namespaces, if a required one is not among them.
        absent: the device types with kernels that this machine lacks.
        deselected: the ops of marked tests that were deselected.
        deselected_by_hand: whether a test that checks ops by hand was deselected.
        deselected_others: whether any test without the mark was deselected.
    """

    registered: dict[str, RegisteredOp] = field(default_factory=dict)
    namespaces: set[str] = field(default_factory=set)
    absent: set[str] = field(default_factory=set)
    deselected: set[str] = field(default_factory=set)
    deselected_by_hand: bool = False
    deselected_others: bool = False

    def look_up(self, session: Session) -> None:
        """Look up what is registered in the namespaces that were touched, or are required.

        Nothing is registered if torch has not been imported.
        """
        required, _ = required_of(session)
        touched = namespaces_of(session.records.values()) | set(required)
        if not touched or "torch" not in sys.modules:
            return
        from ...compat.ops import has_autograd_formula, is_composite, overload_name
        from ...compat.registry import kernel_devices, overloads_in, registered_namespaces

        for overload in overloads_in(touched):
            formula = has_autograd_formula(overload) and not is_composite(overload)
            name = overload_name(overload)
            self.registered[name] = RegisteredOp(name, formula, kernel_devices(overload))
        devices = {device for op in self.registered.values() for device in op.kernels}
        self.absent |= {device for device in devices if session.why_absent(device)}
        if set(required) - {op.namespace for op in self.registered.values()}:
            self.namespaces |= registered_namespaces() - OF_TORCH

    def to_dict(self) -> dict[str, Any]:
        """As plain lists and dicts, which a worker can send."""
        return {
            "registered": [asdict(op) for op in self.registered.values()],
            "namespaces": sorted(self.namespaces),
            "absent": sorted(self.absent),
            "deselected": sorted(self.deselected),
            "deselected_by_hand": self.deselected_by_hand,
            "deselected_others": self.deselected_others,
        }

    def merge(self, sent: Mapping[str, Any]) -> None:
        """Add what a worker sent."""
        for record in sent["registered"]:
            op = RegisteredOp(record["name"], record["has_formula"], tuple(record["kernels"]))
            self.registered[op.name] = op
        for name in ("namespaces", "absent", "deselected"):
            getattr(self, name).update(sent[name])
        self.deselected_by_hand |= sent["deselected_by_hand"]
        self.deselected_others |= sent["deselected_others"]


def namespaces_of(records: Iterable[ResultRecord]) -> set[str]:
    """The namespaces of the ops that were checked, without torch's."""
    return {record.op.partition("::")[0] for record in records} - OF_TORCH


def required_of(session: Session) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The namespaces that the session requires, and the patterns of ops that need no case."""
    entries = session.settings.require_coverage or ()
    left_out = tuple(entry[1:] for entry in entries if entry.startswith("-"))
    return tuple(entry for entry in entries if not entry.startswith("-")), left_out
