"""`state.globals`: global settings are after a call what they were before."""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager
from typing import Any

import torch

from ...cases.case import Case
from ...cases.crash_risk import crash_risk
from ...core.torch_threads import torch_threads
from ...core.tracebacks import raised_on_purpose
from ...findings import NOT_ASKED, CheckFailed, Explanation, doc_links, fail
from ...global_state.process_settings import ENVIRONMENT
from ...global_state.setting import Setting
from ...global_state.settings import SETTINGS, perturb, preserved
from ...global_state.torch_settings import THREADS
from ..check import Check
from .parts import Part, error_of, parts_of
from .wrong_calls import wrong_calls


def check_globals(case: Case) -> None:
    """Compare global settings before and after the op, its fake kernel and its backward.

    It does so with the settings as they are and with others, to find a setting that gets the same value at
    each call. A sample of an op in Python is also made wrong: a call that raises has to restore them, too.
    On a variant the settings stay as they are, and fake kernels are left out: it is there for the branches
    of a call, of which they have few.
    """
    with preserved(), _threads_to_restore(case):
        for part in parts_of(case, with_fake=case.variant is None):
            for perturbed in (False,) if case.variant is not None else (False, True):
                _check_settings(case, part, perturbed)
        if case.variant is None and not _is_native(case):
            _check_wrong_calls(case)


def _check_wrong_calls(case: Case) -> None:
    """Fail for a call that is rejected on purpose; without one, note what one that fails leaves behind."""
    by_accident: CheckFailed | None = None
    for part in wrong_calls(case):
        try:
            with preserved():
                _check_settings(case, part, perturbed=False)
        except CheckFailed as failure:
            if failure.finding.note is None:
                raise
            by_accident = by_accident or failure
    if by_accident is not None:
        raise by_accident


def _is_native(case: Case) -> bool:
    return crash_risk(case.op, case.placement.device) is not None


def _threads_to_restore(case: Case) -> AbstractContextManager[None]:
    """More than the one thread that a variant or a worker may have: an op that takes one changes that."""
    threads = torch.get_num_threads()
    if threads > 1 or _is_native(case):
        return contextlib.nullcontext()
    return torch_threads(threads + 1)


def _check_settings(case: Case, part: Part, perturbed: bool) -> None:
    with preserved() if perturbed else contextlib.nullcontext():
        call = part.prepare()
        if call is None:
            return
        if perturbed:
            perturb(threads=crash_risk(case.op, case.placement.device) is None)
        before = [setting.read() for setting in SETTINGS]
        error = error_of(call)
        if (error is not None) is not part.raises:
            return
        for setting, value in zip(SETTINGS, before, strict=True):
            after = setting.read()
            if after != value:
                by_accident = error is not None and not raised_on_purpose(error)
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
        new = [one for one in after if one not in before]
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
assert {name!r} not in os.environ, "a variable of the environment is new"
"""

FINDINGS = {
    "global-state-changed": Explanation(
        meaning=(
            "After a call of the op, its fake kernel or its backward, a global setting is "
            "not what it was: default dtype, grad mode, number of threads, filters of "
            "warnings, ..."
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
        "precision, flushing of denormal numbers, anomaly detection, warnings filters, "
        "numpy's error handling, the environment, the working directory, levels of loggers, "
        "garbage collection. The call is made under the settings as they are, and again "
        "under others, so that a setting that gets the same value at each call shows too. An op in Python "
        "is also called with arguments that it may reject: settings are compared where it raises."
    ),
    cannot_see="Settings outside of this list.",
    cost="calls",
)
