"""Which ops of a namespace had no case, none with gradients, or none on a device they have a kernel for.

Imports no torch: registered ops are passed as `RegisteredOp`.
"""

from __future__ import annotations

import fnmatch
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from ..core.suggest import did_you_mean
from ..core.wording import counted, listed_briefly
from ..run.record import AUDIT, ResultRecord

_NAMESPACES = 4  # the most that the summary lists


@dataclass(frozen=True)
class RegisteredOp:
    """One overload of an op, as the dispatcher has it.

    Args:
        name: `namespace::name`, and `.overload` unless that is the default.
        has_formula: whether an autograd formula is registered.
        kernels: the device types with a kernel of their own.
    """

    name: str
    has_formula: bool
    kernels: tuple[str, ...]

    @property
    def namespace(self) -> str:
        """The part of the name before `::`."""
        return self.name.partition("::")[0]

    @property
    def all_overloads(self) -> str:
        """The name without the overload."""
        return self.name.partition(".")[0]


@dataclass(frozen=True)
class Scope:
    """The facts of the session that decide what can be judged.

    Args:
        required: the namespaces that `--customop-require-coverage` names.
        left_out: patterns of names that it leaves out.
        not_judged: why nothing can be judged; None if something can.
        not_judged_unless_required: the same, for namespaces that are not required.
        deselected: the ops of tests that were deselected; they are not judged.
        absent: the device types that this machine lacks.
        namespaces: all registered namespaces, if a required one is not among them.
        devices_required: whether an absent device counts.
    """

    required: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    not_judged: str | None = None
    not_judged_unless_required: str | None = None
    deselected: frozenset[str] = frozenset()
    absent: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()
    devices_required: bool = False

    def leaves_out(self, op: RegisteredOp) -> bool:
        """Whether the options say that an op needs no case."""
        return any(fnmatch.fnmatchcase(op.all_overloads, pattern) for pattern in self.left_out)


@dataclass(frozen=True)
class NamespaceCoverage:
    """The gaps in the cases of a session for one namespace. All names are qualified: `namespace::name`.

    Args:
        namespace: its name.
        ops: how many ops it has, each with all its overloads.
        required: whether the run fails if something is missing.
        not_judged: why nothing of it is judged; None if it is judged.
        without_case: the ops without a case that ran, for any overload.
        without_overload: the overloads without a case, of ops that had one.
        without_gradients: the overloads with a formula, but without a case with gradients.
        without_device: by device type, the overloads that have a kernel for it, but only cases on others.
        absent_devices: those of these devices that this machine lacks; they fail nothing.
        deselected: the ops that are not judged because tests of them were deselected.
        hint: if nothing is registered, the namespace that may be meant.
        left_out_nothing: the patterns of ops to leave out that match no op.
    """

    namespace: str
    ops: int = 0
    required: bool = False
    not_judged: str | None = None
    without_case: tuple[str, ...] = ()
    without_overload: tuple[str, ...] = ()
    without_gradients: tuple[str, ...] = ()
    without_device: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    absent_devices: tuple[str, ...] = ()
    deselected: tuple[str, ...] = ()
    hint: str = ""
    left_out_nothing: tuple[str, ...] = ()

    @property
    def is_missing(self) -> bool:
        """Whether something is missing that cases could have reached on this machine."""
        devices = set(self.without_device) - set(self.absent_devices)
        return bool(self.without_case or self.without_overload or self.without_gradients or devices)

    @property
    def fails(self) -> bool:
        """Whether the run fails on it."""
        return self.required and self.not_judged is None and (self.is_missing or not self.ops)

    def to_dict(self) -> dict[str, Any]:
        """As the JSON report has it."""
        plain = {key: _plain(value) for key, value in asdict(self).items() if key != "hint"}
        return {**plain, "missing": self.is_missing}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> NamespaceCoverage:
        """From the JSON report. Keys that it lacks have their defaults."""
        names = {item.name for item in fields(cls)}
        values: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value
            for key, value in plain.items()
            if key in names
        }
        return cls(**values)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: list(names) for key, names in value.items()}
    return list(value) if isinstance(value, tuple) else value


def coverage_of(
    registered: Iterable[RegisteredOp], records: Sequence[ResultRecord], scope: Scope
) -> list[NamespaceCoverage]:
    """The coverage of every namespace that is registered or required, by name.

    Args:
        registered: the ops of the namespaces to judge.
        records: of the session.
    """
    by_namespace: dict[str, list[RegisteredOp]] = {name: [] for name in scope.required}
    for op in registered:
        by_namespace.setdefault(op.namespace, []).append(op)
    runs: dict[str, list[ResultRecord]] = defaultdict(list)
    for record in records:
        if record.outcome not in ("skipped", "pending") and record.check != AUDIT:
            runs[record.op].append(record)
    return [_coverage(name, by_namespace[name], runs, scope) for name in sorted(by_namespace)]


def _coverage(
    namespace: str,
    registered: Sequence[RegisteredOp],
    runs: Mapping[str, Sequence[ResultRecord]],
    scope: Scope,
) -> NamespaceCoverage:
    required = namespace in scope.required
    not_judged = scope.not_judged or (None if required else scope.not_judged_unless_required)
    all_ops = {op.all_overloads for op in registered}
    registered = [op for op in registered if not scope.leaves_out(op)]
    ops = {op.all_overloads for op in registered}
    if not_judged is not None:
        return NamespaceCoverage(namespace, len(ops), required, not_judged)
    reached = {op.all_overloads for op in registered if op.name in runs}
    judged = [op for op in registered if op.all_overloads not in scope.deselected]
    devices = _without_device(judged, runs)
    absent = () if scope.devices_required else sorted(scope.absent & set(devices))
    return NamespaceCoverage(
        namespace,
        len(ops),
        required,
        without_case=_sorted({op.all_overloads for op in judged} - reached),
        without_overload=_sorted(
            op.name for op in judged if op.all_overloads in reached and op.name not in runs
        ),
        without_gradients=_sorted(op.name for op in judged if _lacks_gradients(op, runs)),
        without_device=devices,
        absent_devices=tuple(absent),
        deselected=_sorted(ops & scope.deselected),
        hint="" if all_ops else did_you_mean(namespace, scope.namespaces),
        left_out_nothing=tuple(
            pattern
            for pattern in scope.left_out
            if pattern.startswith(f"{namespace}::") and not fnmatch.filter(all_ops, pattern)
        ),
    )


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    """The names, those that begin with an underscore last."""
    return tuple(sorted(names, key=lambda name: ("::_" in name, name)))


def _lacks_gradients(op: RegisteredOp, runs: Mapping[str, Sequence[ResultRecord]]) -> bool:
    ran = runs.get(op.name, ())
    return op.has_formula and bool(ran) and not any(record.place.requires_grad for record in ran)


def _without_device(
    registered: Iterable[RegisteredOp], runs: Mapping[str, Sequence[ResultRecord]]
) -> dict[str, tuple[str, ...]]:
    by_device: dict[str, list[str]] = defaultdict(list)
    for op in registered:
        ran = {str(record.place.device).partition(":")[0] for record in runs.get(op.name, ())}
        for device in op.kernels:
            if ran and device not in ran:
                by_device[device].append(op.name)
    return {device: _sorted(by_device[device]) for device in sorted(by_device)}


# Text

_Fold = Callable[[Sequence[str]], str]


def coverage_lines(coverages: Iterable[NamespaceCoverage]) -> list[str]:
    """The lines of the summary on the namespaces that are not required.

    There are none if nothing is missing, or if only a part of the tests ran.
    """
    others = [
        coverage for coverage in coverages if not coverage.required and coverage.not_judged is None
    ]
    parts = [lines for lines in (_lines(coverage, listed_briefly) for coverage in others) if lines]
    if not parts:
        return []
    lines = ["", "Coverage (--customop-report has every name):"]
    lines += [f"  {line}" for part in parts[:_NAMESPACES] for line in part]
    more = len(parts) - _NAMESPACES
    return [*lines, f"  and {counted(more, 'more namespace')}"] if more > 0 else lines


def all_lines(coverages: Iterable[NamespaceCoverage]) -> list[str]:
    """One line for each thing that is missing or not judged, with every name."""
    shown = [coverage for coverage in coverages if coverage.required or coverage.not_judged is None]
    return [line for coverage in shown for line in _lines(coverage, _all_names)]


def required_lines(coverages: Iterable[NamespaceCoverage]) -> list[str]:
    """The lines on the namespaces that are required, with every name."""
    lines: list[str] = []
    for coverage in coverages:
        if coverage.required:
            lines += _lines(coverage, _all_names)
            if (
                coverage.ops
                and coverage.not_judged is None
                and not coverage.is_missing
                and not coverage.deselected
            ):
                where = " on the devices of this machine" * bool(coverage.absent_devices)
                lines.append(
                    f"{coverage.namespace}: complete{where}, {counted(coverage.ops, 'op')}"
                )
    return lines


def _all_names(names: Sequence[str]) -> str:
    return ", ".join(names)


def _lines(coverage: NamespaceCoverage, fold: _Fold) -> list[str]:
    """The gaps in a namespace, one line each."""
    start = f"{coverage.namespace}: "
    if coverage.not_judged is not None:
        return [f"{start}not judged, because {coverage.not_judged}"]
    if not coverage.ops:
        hint = coverage.hint or "; is the module that registers it imported?"
        return [f"{start}no op of this namespace is registered{hint}"]

    def of(names: Iterable[str]) -> str:
        return fold([name.removeprefix(f"{coverage.namespace}::") for name in names])

    lines = []
    if coverage.without_case:
        count, all_ops = len(coverage.without_case), counted(coverage.ops, "op")
        lines.append(
            f"{count} of {all_ops} {'has' if count == 1 else 'have'} no case: {of(coverage.without_case)}"
        )
    if coverage.without_overload:
        lines.append(f"overloads without a case: {of(coverage.without_overload)}")
    if coverage.without_gradients:
        lines.append(f"a formula, and no case with gradients: {of(coverage.without_gradients)}")
    for device, names in coverage.without_device.items():
        absent = f" ({device} is not here)" * (device in coverage.absent_devices)
        lines.append(f"a kernel for {device}, and no case there{absent}: {of(names)}")
    if coverage.deselected:
        lines.append(
            f"not judged, because tests of them were deselected: {of(coverage.deselected)}"
        )
    if coverage.left_out_nothing:
        lines.append(f"no op is left out by: {', '.join(coverage.left_out_nothing)}")
    return [start + line for line in lines]
