"""Checks x cases -> results, without pytest. `check_op` is here; pytest is one caller of it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pluggy
import torch

from .. import hookspecs
from ..cases.case import Case
from ..checks import Check, builtin_checks, fix_for
from ..core import rng
from ..core.tracebacks import error_line, message_line, of_the_op, traceback_text
from ..core.wording import dtype_name
from ..declare.inputs import ErrorSample, GradOptions
from ..declare.mark import Declaration, declare_call
from ..declare.samples import MarkError
from ..findings import CheckFailed, CheckSkipped, Finding
from ..global_state.preserve import in_own_context, preserved_state
from ..plan.items import PlannedItem
from ..plan.matrix import plan
from ..plan.selection import registry_from, select_checks
from ..settings import Settings, read_amount
from .devices import why_absent
from .repro import CALL, reproduced_by
from .results import TOLD_ABOVE, CheckResult
from .variant_validity import skip_if_rejected


class BuiltinChecks:
    """The plugin through which the package's own checks come in, like anybody's."""

    @hookspecs.hookimpl
    def pytest_customop_register_checks(self) -> Iterable[Check]:
        """Every family of the package."""
        return builtin_checks()


class _PluginManager(pluggy.PluginManager):
    """As pytest's: a function with a hook's name is a hook, so that a conftest can be a plugin here."""

    def parse_hookimpl_opts(self, plugin: object, name: str) -> Any:
        marked = super().parse_hookimpl_opts(plugin, name)
        named = name.startswith("pytest_customop_") and callable(getattr(plugin, name, None))
        return {} if marked is None and named else marked


def standalone_hook(plugins: Iterable[object] = ()) -> Any:
    """A hook caller without pytest: the package's checks, and those of the plugins given."""
    manager = _PluginManager("pytest")
    manager.add_hookspecs(hookspecs)
    manager.register(BuiltinChecks())
    for plugin in plugins:
        manager.register(plugin)
    return manager.hook


def _no_op(phase: str) -> None:
    del phase


def run_check(check: Check, case: Case, on_phase: Callable[[str], None] = _no_op) -> CheckResult:
    """Run one check on one case; every global state is afterwards as it was before.

    A failing eager call is reported in place of the check. KeyboardInterrupt passes.

    Args:
        check, case: which check runs on what.
        on_phase: is told what comes next: `draw`, `eager` or `check`.
    """
    start = time.perf_counter()
    with warnings.catch_warnings():
        # A warning of torch's checkers or compilers is no defect of the op, under -W error neither.
        warnings.simplefilter("ignore")
        outcome = in_own_context(_outcome, check, case, on_phase)
    return CheckResult(
        op=case.op.name,
        check=check.name,
        case=case.id,
        change=case.change,
        arguments=tuple(case.describe()) if outcome["outcome"] in ("failed", "error") else (),
        duration=time.perf_counter() - start,
        place={
            "device": case.placement.device,
            "dtype": dtype_name(case.placement.dtype),
            "requires_grad": case.requires_grad,
            "layout": case.placement.layout,
            "sample": case.sample_id,
        },
        **outcome,
    )


def _outcome(check: Check, case: Case, on_phase: Callable[[str], None]) -> dict[str, Any]:
    with preserved_state() as restore:
        return _found(check, case, on_phase, restore)


def _found(
    check: Check, case: Case, on_phase: Callable[[str], None], restore: Callable[[], None]
) -> dict[str, Any]:
    try:
        if case.refused is None:
            on_phase("draw")
            case.draw()
            on_phase("eager")
            kept = case.has_run
            if case.base_case is not None:
                skip_if_rejected(case)
            elif case.eager.error is not None:
                return _eager_failure(case, case.eager.error)
            if not kept:
                restore()  # the check starts from the same state whether or not the result was kept
        on_phase("check")
        rng.seed(case.seed)
        check.run(case)
    except CheckFailed as failure:
        found = failure.finding
        if case.base_case is not None and _fails_with(found.code, check, case.base_case):
            return _as_sample(found, case.base_case)
        lines = check.repro if found.repro is None else found.repro
        return _failed(found, reproduced_by(found, lines, found.case or case))
    except CheckSkipped as skipped:
        return {
            "outcome": "skipped",
            "skip_code": skipped.code,
            "message": skipped.reason,
            "unjudged": skipped.unjudged,
        }
    except MarkError as mistake:
        cause = mistake.__cause__
        evidence = traceback_text(cause) if cause is not None else ""
        return {"outcome": "error", "message": str(mistake), "evidence": evidence}
    except BaseException as error:
        if not of_the_op(error):
            raise
        return {
            "outcome": "error",
            "message": f"the check broke: {error_line(error)}",
            "evidence": traceback_text(error, whole=True),
        }
    return {"outcome": "passed"}


def _fails_with(code: str, check: Check, case: Case) -> bool:
    """Whether a check fails on the author's own case as it does on a variant."""
    try:
        if case.eager.error is None:
            check.run(case)
    except CheckFailed as failure:
        return failure.finding.code == code
    except Exception:  # the sample's own item tells
        return False
    finally:
        case.release()
    return False


def _as_sample(found: Finding, own: Case) -> dict[str, Any]:
    """A variant's failure that says nothing new; the sample's own says it."""
    return {
        "outcome": "skipped",
        "skip_code": "as-sample",
        "message": f"{found.code}, as on sample {own.sample_id} itself, where it is told",
        "unjudged": False,
    }


def _failed(finding: Finding, reproduce: Any) -> dict[str, Any]:
    return {
        "reproduce": reproduce,
        "outcome": "failed",
        "finding": finding.code,
        "message": finding.message,
        "evidence": finding.evidence,
        "fix": fix_for(finding),
    }


def _eager_failure(case: Case, error: BaseException) -> dict[str, Any]:
    if case.requires_grad and not case.op.has_autograd and _works_without_gradients(case):
        return {
            "outcome": "skipped",
            "skip_code": "inference-only",
            "message": f"the op refuses inputs that require gradients ({message_line(error)})",
        }
    message = f"{case.op.name} raises {error_line(error)}"
    found = Finding("eager-raises", message, traceback_text(error))
    return _failed(found, reproduced_by(found, CALL, case))


def _works_without_gradients(case: Case) -> bool:
    arguments = case.inputs().map(lambda tensor: tensor.detach())
    return case.run(arguments).error is None


def check_op(
    op: Any,
    samples: Iterable[Any] | Callable[..., Iterable[Any]],
    *,
    devices: str | Sequence[str] | None = None,
    dtypes: torch.dtype | Sequence[torch.dtype] | None = None,
    requires_grad: bool | Sequence[bool] | None = None,
    layouts: str | Sequence[str] = ("contiguous",),
    axes: Mapping[str, Sequence[Any]] | None = None,
    skip_if: Callable[[Any], str | None] | None = None,
    checks: str | Sequence[str] | None = None,
    tolerances: Mapping[torch.dtype, tuple[float, float]] | tuple[float, float] | None = None,
    gradcheck: GradOptions | str | None = None,
    reference: Callable[..., Any] | None = None,
    errors: Sequence[ErrorSample] = (),
    variants: bool | str | Sequence[str] | Callable[[Any], str | None] | None = None,
    backend: str = "inductor",
    seed: int = 0,
    amount: str | int = "quick",
    max_samples: int | None = None,
    plugins: Iterable[object] = (),
) -> list[CheckResult]:
    """Check an op without pytest: in a notebook, a script, or a test framework of another kind.

    Args:
        op, samples, devices, dtypes, requires_grad, layouts, axes, skip_if, checks, tolerances,
            gradcheck, reference, errors, variants: as in `customop_cases`.
        backend: the `torch.compile` backend.
        seed: of every drawn value.
        amount: of variants of the samples, as in `--customop-variants`.
        max_samples: how many of the samples to take at most, drawn by the seed; None: all.
        plugins: objects with hooks of `pytest_customop.hookspecs`: further checks, devices.

    Returns:
        One result a check and case, in the order they ran; each prints as a failure reads.

    Raises:
        MarkError: for arguments that cannot be meant.
    """
    declaration = declare_call(
        {
            "op": op,
            "samples": samples,
            "devices": devices,
            "dtypes": dtypes,
            "requires_grad": requires_grad,
            "layouts": layouts,
            "axes": axes,
            "skip_if": skip_if,
            "checks": checks,
            "tolerances": tolerances,
            "gradcheck": gradcheck,
            "reference": reference,
            "errors": errors,
            "variants": variants,
        },
        "check_op",
    )
    if max_samples is not None and max_samples < 1:
        raise MarkError(f"check_op: max_samples is {max_samples!r}: give a number of 1 or more")
    hook = standalone_hook(plugins)
    try:
        wanted = read_amount(amount)
    except ValueError as error:
        raise MarkError(f"check_op: amount is {amount!r}: {error}") from None
    settings = Settings(backend=backend, seed=seed, max_samples=max_samples, variants=wanted)
    return run_declaration(declaration, settings, hook)


def run_declaration(declaration: Declaration, settings: Settings, hook: Any) -> list[CheckResult]:
    """Plan and run the checks of one declaration, releasing each case when it is done."""
    registry = registry_from(hook)

    def select(one: Declaration) -> list[Check]:
        try:
            return select_checks(registry, one, settings)
        except ValueError as error:
            raise MarkError(f"{one.where}: {error}") from None

    every = plan([declaration], settings, select, lambda device: why_absent(device, hook))
    planned = [one for one in every if not one.is_body]
    hook.pytest_customop_modify_cases(definition=None, planned=planned)
    results: list[CheckResult] = []
    last: Case | None = None
    for one in planned:
        if last is not None and one.case is not last:
            last.release()
        last = one.case
        if one.skip is not None:
            results.append(_not_run(one))
        elif one.check is not None and one.case is not None:
            results.append(run_check(one.check, one.case))
    return _raises_once(results)


def _raises_once(results: Iterable[CheckResult]) -> list[CheckResult]:
    """A failing eager call in full for the first check of a case, in one line for the others."""
    told: dict[tuple[str, str], str] = {}
    once = []
    for one in results:
        if (
            one.finding == "eager-raises"
            and told.setdefault((one.op, one.case), one.check) != one.check
        ):
            one = replace(one, evidence=TOLD_ABOVE, arguments=(), reproduce=None)
        once.append(one)
    return once


def _not_run(one: PlannedItem) -> CheckResult:
    known = one.record()
    place = {name: known[name] for name in ("device", "dtype", "requires_grad", "layout", "sample")}
    return CheckResult(one.op, "", one.id, "skipped", message=one.skip or "", place=place)
