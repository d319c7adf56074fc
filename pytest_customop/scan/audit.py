"""Defects that the schemas and the registrations of ops show, without a call of any op.

A finding fails only where it is surely a defect. What may be on purpose is a note.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..checks.compile.side_effects import removal_failure
from ..checks.values.defaults import signature_failures
from ..compat.ops import has_vmap_rule
from ..compat.registrations import (
    autograd_kind,
    fake_kind,
    has_own_fake,
    kernels_by_device,
    registered_by,
    tags_of,
)
from ..compat.registry import kernel_devices
from ..declare.ops import Op
from ..findings import Finding

ON_PURPOSE = "may-be-on-purpose"
WHY_NOTED = "it may be on purpose, and nothing fails because of it alone"


@dataclass(frozen=True)
class AuditedOp:
    """The registrations of one op, and the findings about them.

    Args:
        op: the op.
        kernels: device types; `any` and `composite` stand for kernels that belong to no single device.
        autograd, fake: where they come from; empty if there is none.
        vmap: whether there is a rule.
        tags: their names.
        registered: what registers the op.
        failures, notes: the findings.
    """

    op: Op
    kernels: tuple[str, ...]
    autograd: str
    fake: str
    vmap: bool
    tags: tuple[str, ...]
    registered: str
    failures: tuple[Finding, ...] = ()
    notes: tuple[Finding, ...] = ()

    @property
    def runs_on_cpu(self) -> bool:
        """Whether there is a kernel for tensors on the CPU."""
        return bool({"cpu", "any", "composite"} & set(self.kernels))

    @property
    def row(self) -> list[str]:
        """Its row of the table."""
        findings = [*self.failures, *self.notes]
        return [
            self.op.name,
            ", ".join(self.kernels) or "-",
            self.autograd or "-",
            self.fake or "-",
            "yes" if self.vmap else "-",
            ", ".join(self.tags) or "-",
            self.registered,
            ", ".join(dict.fromkeys(finding.code for finding in findings)) or "-",
        ]


HEADING = ["op", "kernels", "autograd", "fake", "vmap", "tags", "registered by", "findings"]


def audit(ops: Sequence[Op]) -> list[AuditedOp]:
    """The registrations of each op, and the findings about them."""
    differing = _differing_overloads(ops)
    return [_audited(op, differing.get(op.name)) for op in ops]


def _audited(op: Op, differs: Finding | None) -> AuditedOp:
    overload = op.overload
    return AuditedOp(
        op=op,
        kernels=kernels_by_device(overload),
        autograd=autograd_kind(overload) or "",
        fake=fake_kind(overload) or "",
        vmap=has_vmap_rule(overload),
        tags=tuple(tags_of(overload)),
        registered=registered_by(overload),
        failures=tuple(_failures(op)),
        notes=(*_notes(op), *([differs] if differs else [])),
    )


def _failures(op: Op) -> Iterator[Finding]:
    removal = removal_failure(op)
    if removal is not None:
        yield removal.finding
    if fake_kind(op.overload) is None and kernels_by_device(op.overload) and removal is None:
        yield Finding("fake-missing", f"{op.name} has no fake kernel", f"the schema: {op.schema}")
    yield from (failure.finding for failure in signature_failures(op))


def _notes(op: Op) -> Iterator[Finding]:
    schema = f"the schema: {op.schema}"
    base = op.own_name.partition(".")[0]
    if base.endswith("_") and not base.endswith("__") and not op.mutated:
        text = f"{op.name} is named like an in-place op, but its schema mutates no argument"
        yield Finding("inplace-undeclared", text, schema)
    returned = any("Tensor" in str(output.type) for output in op.schema.returns)
    if autograd_kind(op.overload) == "python" and not returned and not op.mutated:
        yield Finding("formula-unused", f"{op.name} has a formula, but returns no tensor", schema)
    if op.is_composite and has_own_fake(op.overload):
        text = f"{op.name} is made of other ops, but has a fake kernel, which compilers do not need"
        yield Finding("fake-unused", text)


def _differing_overloads(ops: Sequence[Op]) -> dict[str, Finding]:
    """By first overload, the note on an op whose overloads have kernels for different devices."""
    by_base: Mapping[str, dict[str, tuple[str, ...]]] = defaultdict(dict)
    for op in ops:
        by_base[op.name.partition(".")[0]][op.name] = kernel_devices(op.overload)
    notes = {}
    for base, overloads in by_base.items():
        kinds = {frozenset(devices) for devices in overloads.values() if devices}
        if len(kinds) > 1:
            lines = [f"{name}: {', '.join(devices) or '-'}" for name, devices in overloads.items()]
            text = f"the overloads of {base} have kernels for different devices"
            notes[next(iter(overloads))] = Finding("overloads-differ", text, "\n".join(lines))
    return notes
