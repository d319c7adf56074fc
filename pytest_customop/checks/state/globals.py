"""`state.globals`: global settings are after a call what they were before."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch

from ...cases.calls_in_copy import run_calls_in_copy
from ...cases.case import Case
from ...cases.crash_risk import may_crash
from ...compat.ops import kernel_in_python
from ...core.forked import AVAILABLE, Send
from ...core.process_memory import limit_growth
from ...core.torch_threads import torch_threads
from ...core.tracebacks import raised_on_purpose
from ...findings import NOT_ASKED, CheckFailed, Explanation, Finding, doc_links, fail
from ...global_state.process_settings import ENVIRONMENT
from ...global_state.setting import Setting
from ...global_state.settings import SETTINGS, perturb, preserved
from ...global_state.torch_settings import THREADS
from ..check import Check
from .parts import Part, error_of, parts_of
from .wrong_calls import wrong_calls

# For the wrong calls in a copy of the process. One may make a native kernel loop for very long.
_SECONDS = 3.0
_MEMORY = 4 * 2**30  # bytes


def check_globals(case: Case) -> None:
    """Compare global settings before and after the op, its fake kernel and its backward.

    It does so with the settings as they are and with others, to find a setting that gets the same value at
    each call. A sample is also made wrong: a call that raises must restore the settings, too.
    On a variant the settings stay as they are, and fake kernels are left out: variants are for the branches
    of a call, and fake kernels have few.
    """
    with preserved(), _threads_to_restore(case):
        for part in parts_of(case, with_fake=case.variant is None):
            for perturbed in (False,) if case.variant is not None else (False, True):
                _check_settings(case, part, perturbed)
        if case.variant is None:
            _check_wrong_calls(case)


def _check_wrong_calls(case: Case) -> None:
    """Fail if a call that is rejected on purpose changes a setting; note one that fails by accident."""
    by_accident: Finding | None = None
    findings = _findings_of_copies(case) if may_crash(case) else _findings(case, wrong_calls(case))
    for finding in filter(None, findings):
        if finding.note is None:
            raise CheckFailed(finding)
        by_accident = by_accident or finding
    if by_accident is not None:
        raise CheckFailed(by_accident)


def _findings(case: Case, parts: Iterable[Part]) -> Iterator[Finding | None]:
    """For each wrong call, the finding that it changes a setting; None if it does not."""
    for part in parts:
        try:
            with preserved():
                _check_settings(case, part, perturbed=False)
        except CheckFailed as failure:
            yield failure.finding
        else:
            yield None


def _findings_of_copies(case: Case) -> Iterator[Finding | None]:
    """The same in copies of the process: if a wrong call ends one, the next continues after that call."""
    if not AVAILABLE or case.placement.device != "cpu":
        return
    parts = list(wrong_calls(case))

    def work(send: Send) -> None:
        limit_growth(_MEMORY)
        send(case.run(case.inputs()).error is None)  # the op works in a copy
        for finding in _findings(case, parts):
            send(finding)

    while parts:
        forked = run_calls_in_copy(case, work, _SECONDS)
        if forked is None:
            return
        _, *findings = forked.messages
        yield from findings
        del parts[: len(findings) + 1]


def _is_rejection(case: Case, error: BaseException) -> bool:
    """Whether an op raises on purpose. Compiled code always does: it cannot leave a call otherwise."""
    in_python = kernel_in_python(case.op.overload, case.placement.device)
    return not in_python or raised_on_purpose(error)


def _threads_to_restore(case: Case) -> AbstractContextManager[None]:
    """Two threads instead of one, as on a variant or a worker: an op that sets one thread then shows."""
    threads = torch.get_num_threads()
    if threads > 1 or may_crash(case):
        return contextlib.nullcontext()
    return torch_threads(threads + 1)


def _check_settings(case: Case, part: Part, perturbed: bool) -> None:
    with preserved() if perturbed else contextlib.nullcontext():
        call = part.prepare()
        if call is None:
            return
        if perturbed:
            perturb(threads=not may_crash(case))
        before = [setting.read() for setting in SETTINGS]
        error = error_of(call)
        if (error is not None) is not part.raises:
            return
        for setting, value in zip(SETTINGS, before, strict=True):
            after = setting.read()
            if after != value:
                by_accident = error is not None and not _is_rejection(case, error)
                note = NOT_ASKED if by_accident else None
                raise _changed(case, part, setting, value, after, note)


def _changed(
    case: Case, part: Part, setting: Setting, value: Any, after: Any, note: str | None
) -> CheckFailed:
    change, script = _change_text(value, after), _SETTING.format(read=setting.source)
    if setting.name == ENVIRONMENT:
        script = _VARIABLE.format(name=_first_key(value, after))
    if setting.name == THREADS:
        script = _SOME_THREADS.format(threads=value) + script
    return fail(
        "global-state-changed",
        f"{case.op.name}: {part.description} changes {setting.name}{change}",
        repro=part.script + script,
        note=note,
    )


def _first_key(before: dict[str, Any], after: dict[str, Any]) -> str:
    return min(name for name in {**before, **after} if before.get(name) != after.get(name))


def _change_text(before: Any, after: Any) -> str:
    if isinstance(before, dict):
        name = _first_key(before, after)
        return f": {name or 'root'} was {before.get(name)} and is {after.get(name)}"
    if isinstance(before, list):
        new = [item for item in after if item not in before]
        return f": {new[0]} is new" if new else ""
    return f" from {before} to {after}"


_SETTING = """

def setting():
    return {read}


before = setting()
run()
assert setting() == before, f"{{before}} became {{setting()}}"
"""
_SOME_THREADS = """
torch.set_num_threads({threads})
"""
_VARIABLE = """
import os

os.environ.pop({name!r}, None)
run()
assert {name!r} not in os.environ, "an environment variable is new"
"""

FINDINGS = {
    "global-state-changed": Explanation(
        meaning=(
            "After a call of the op, its fake kernel or its backward, a global setting is "
            "not what it was: default dtype, grad mode, number of threads, warning "
            "filters, ..."
        ),
        why=(
            "Everything that runs later in the process runs under the new setting: other "
            "layers compute in another dtype, gradients stop, warnings are lost. Compiled "
            "code guards on such settings and recompiles."
        ),
        fix=(
            "Pass dtype=, device= and the like where they are needed. If a setting must "
            "change, change it in a `with` block (or try/finally) that restores it."
        ),
        before="""
torch.set_default_dtype(torch.float64)
weights = torch.linspace(0, 1, n)
""",
        after="""
weights = torch.linspace(0, 1, n, dtype=torch.float64)
""",
        docs=(doc_links.TORCH, doc_links.SET_DEFAULT_DTYPE),
    ),
}

CHECK = Check(
    name="state.globals",
    summary="global settings are the same before and after a call, a fake call and a backward",
    run=check_globals,
    variants=("shape", "values", "positions", "arguments"),
    cheap=True,
    findings=FINDINGS,
    catches=(
        "A global setting that is not restored: default dtype and device, grad mode, "
        "inference mode, autocast, threads, deterministic algorithms, cudnn flags, float32 "
        "precision, flushing of denormal numbers, anomaly detection, warning filters, numpy's error "
        "handling, the environment, the working directory, logger levels, garbage collection. The "
        "call is made under the settings as they are, and again under others, so that a setting that "
        "gets the same value at each call shows, too. The op is also called with arguments that it may "
        "reject, native code in a copy of the process: if it raises, the settings are compared."
    ),
    cannot_see="Settings that are not in this list.",
    cost="calls",
)
