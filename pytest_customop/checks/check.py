"""The `Check` class, and the registry of a session's checks.

A check is a function of one `Case`. It returns None if the op is right. It raises `fail(...)` with a
finding if the op is wrong, and `skip(...)` with a reason if there was nothing to check or it could not
judge. It may call the op on `case.inputs()` as often as it needs, and must not write to `case.eager`.
The engine restores whatever global state it changes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ..cases.case import Case
from ..core.suggest import unknown
from ..declare.ops import Op
from ..declare.variant import KINDS
from ..findings import Explanation

# The test's own assertions: selected like a check, but run by pytest and not by the engine.
BODY = "body"

# The values of `Check.cost`: the cost on one case, from cheap to expensive. Calls are calls of the op,
# of its fake kernel or of its backward.
COSTS = {
    "nothing": "no call of the op",
    "calls": "a few calls",
    "many calls": "some dozens of calls",
    "trace": "a trace of the op by torch's compiler, without code generation",
    "compile": "a compilation of the op with the backend",
}
_NAME = re.compile(r"[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*")


@dataclass(frozen=True, eq=False)
class Check:
    """One property of an op, checked on a case.

    Args:
        name: `family.name`.
        summary: one line: what it compares.
        run: the function.
        gradients: True: runs only on cases with gradients; False: only on those without; None: both.
        needs_autograd: True: only for ops with an autograd formula.
        runs_without_autograd: True: also on the one case with gradients that an op without a formula
            has.
        widest_dtype: True: only on the widest floating-point dtype of a sample, because the check
            computes in float64 anyway.
        default: False: runs only if it is selected by name.
        needs: whether the check applies to an op, decided at collection; None: it applies to all.
        once_per_sample: True: only on the cases of a sample in its first dtype and layout; if the formula
            is written in Python, only on that with gradients.
        integer_tensors: True: only on cases with an integer tensor; booleans do not count.
        reference: True: only where the mark gives a reference.
        several_devices: True: only if the mark also runs on another device, with which this one is
            compared: `Case.reference_device`.
        errors: True: only on the mark's error samples, which other checks never see.
        fresh_process: whether it runs calls in processes in which no item has run yet
            (`core/fresh_process.py`).
        variants: the kinds of variants on which the check can find more than on the samples
            themselves.
        variants_with_gradients: if a sample has cases with and without gradients: whether a check that
            needs no gradients runs on the variants of the case with them, not of the case without.
        cheap: whether it is cheap enough to run on variants although the session does not request all.
        cheap_variants: for a check that is not cheap: the kinds on which it runs anyway, because there
            are few such variants.
        in_copies: whether the check makes all its calls on a case in copies of this process, decided by
            case; None: it never does. The variants of an item then share one copy where they pass.
        prepare: called before the items run, with the cases on which the check is going to run in this
            process: one sequence for each mark, for marks of one file that use the same fixtures. The
            prepared work must not decide a failure.
        repro: the lines of a script that show a finding of this check with plain torch calls. They use
            `op`, an OpOverload, and `inputs()`, which returns fresh (args, kwargs) with the same
            values at every call. They raise if the defect is present, and end silently if not.
            A finding may bring its own lines (`Finding.repro`).
        findings: the explanations of the codes that the check reports, by code. A code that is not
            explained here or by its family needs `fail(..., fix=...)`.
        catches: what it finds, in Markdown for the documentation.
        cannot_see: what it misses, likewise.
        cost: one of `COSTS`.
    """

    name: str
    summary: str
    run: Callable[[Case], None]
    gradients: bool | None = None
    needs_autograd: bool = False
    runs_without_autograd: bool = False
    widest_dtype: bool = False
    default: bool = True
    needs: Callable[[Op], bool] | None = None
    once_per_sample: bool = False
    integer_tensors: bool = False
    reference: bool = False
    several_devices: bool = False
    errors: bool = False
    fresh_process: bool = False
    variants: Collection[str] = ("shape", "arguments")
    variants_with_gradients: bool = False
    cheap: bool = False
    cheap_variants: Collection[str] = ()
    in_copies: Callable[[Case], bool] | None = None
    prepare: Callable[[Sequence[Sequence[Case]]], None] | None = None
    repro: str = ""
    findings: Mapping[str, Explanation] = field(default_factory=dict)
    catches: str = ""
    cannot_see: str = ""
    cost: str = ""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(
                f"check name {self.name!r}: write family.name, in lower case, digits and _"
            )
        if not self.summary or "\n" in self.summary:
            raise ValueError(f"check {self.name}: the summary is one line")
        if not callable(self.run):
            raise ValueError(f"check {self.name}: run is a function of one Case, not {self.run!r}")
        for kind in self.variants:
            if kind not in KINDS:
                raise ValueError(f"check {self.name}: {unknown('kind of variants', kind, KINDS)}")
        if self.once_per_sample and self.gradients is not None:
            raise ValueError(
                f"check {self.name}: once_per_sample=True decides about cases with gradients itself; leave "
                "out gradients="
            )
        if self.cost and self.cost not in COSTS:
            raise ValueError(f"check {self.name}: {unknown('cost', self.cost, COSTS)}")
        for code, explanation in self.findings.items():
            if not isinstance(explanation, Explanation):
                raise ValueError(
                    f"check {self.name}: findings[{code!r}] is a pytest_customop.Explanation, "
                    f"not {explanation!r}"
                )

    @property
    def family(self) -> str:
        """The part of the name before the dot."""
        return self.name.partition(".")[0]

    def applies(self, requires_grad: bool, has_autograd: bool, fully: bool, widest: bool) -> bool:
        """Whether a case of this kind gets this check.

        Args:
            requires_grad: whether it is a case with gradients.
            has_autograd: whether the op has an autograd formula.
            fully: False for the one case with gradients that an op without a formula has.
            widest: whether no other case differs from this one only by a wider dtype.
        """
        if not fully and not self.runs_without_autograd:
            return False
        if self.needs_autograd and not has_autograd:
            return False
        if self.gradients is not None and self.gradients != requires_grad:
            return False
        return widest or not self.widest_dtype

    def can_run(
        self, case: Case, fully: bool = True, widest: bool = True, any_dtype: bool = False
    ) -> bool:
        """Whether the check applies to a case, as far as collection can decide that.

        Args:
            fully, widest: as in `applies`.
            any_dtype: whether it is enough that it applies to the case with tensors of other dtypes.
        """
        if self.reference and case.reference is None:
            return False
        if self.several_devices and case.reference_device is None:
            return False
        if self.needs is not None and not self.needs(case.op):
            return False
        if self.integer_tensors and not (any_dtype or case.has_integer_tensors):
            return False
        return self.applies(case.requires_grad, case.op.has_autograd, fully, widest)


class Registry:
    """The checks of a session, by name.

    Raises:
        ValueError: if two checks have the same name.
    """

    def __init__(self, checks: Iterable[Check] = ()) -> None:
        self._checks: dict[str, Check] = {}
        for check in checks:
            self.add(check)

    def add(self, check: Check) -> None:
        """Add one check."""
        if not isinstance(check, Check):
            raise ValueError(f"a check is a pytest_customop.Check, not {check!r}")
        if check.name in self._checks:
            raise ValueError(f"two checks are named {check.name!r}")
        self._checks[check.name] = check

    def __iter__(self) -> Iterator[Check]:
        return iter(sorted(self._checks.values(), key=lambda check: check.name))

    def __len__(self) -> int:
        return len(self._checks)

    def names(self) -> list[str]:
        """Every name and family that a selection may use, `body` included."""
        return sorted({BODY, *self._checks, *(check.family for check in self)})

    def findings(self) -> dict[str, Explanation]:
        """The explanations that the checks declare, by code."""
        return {code: explanation for check in self for code, explanation in check.findings.items()}

    def unknown(self, selection: Iterable[str]) -> str | None:
        """A sentence about the first unknown name of a selection; None if all are known."""
        known = self.names()
        for name in selection:
            if name.removeprefix("-") not in known:
                return unknown("check", name.removeprefix("-"), known)
        return None

    def select(self, selection: Iterable[str] | None) -> list[Check]:
        """The checks that a selection names.

        Args:
            selection: names and families; `-name` removes. With only removals, or None, the selection
                starts from the checks that run by default.

        Raises:
            ValueError: for an unknown name.
        """
        names = list(selection or ())
        wrong = self.unknown(names)
        if wrong:
            raise ValueError(wrong)
        added = [name for name in names if not name.startswith("-")]
        removed = [name[1:] for name in names if name.startswith("-")]
        return [
            check
            for check in self
            if (_names(check, added) if added else check.default) and not _removed(check, removed)
        ]


def selects_body(selection: Iterable[str] | None) -> bool:
    """Whether a session's selection leaves the tests' own bodies in."""
    names = list(selection or ())
    added = [name for name in names if not name.startswith("-")]
    return f"-{BODY}" not in names and (not added or BODY in added)


def _names(check: Check, names: list[str]) -> bool:
    return check.name in names or (check.family in names and check.default)


def _removed(check: Check, names: list[str]) -> bool:
    return check.name in names or check.family in names
