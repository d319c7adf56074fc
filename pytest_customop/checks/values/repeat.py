"""`values.repeat`: a further call gives the same values, and leaves earlier outputs alone."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence

import torch

from ...cases.arguments import Arguments
from ...cases.case import Case
from ...cases.crash_risk import may_crash
from ...cases.run import Run
from ...core.tracebacks import error_line
from ...core.watchdog import LimitExceeded, is_possible, within_limits
from ...findings import WITHIN_ROUNDING, CheckFailed, Explanation, doc_links, fail, skip
from ..check import Check
from .memory.calls import (
    CALL,
    Caller,
    Leaves,
    copied,
    first_difference,
    quickly_equal,
    results,
    rounding_explains,
    skip_if_memory_unset,
    skip_if_no_results,
)
from .memory.perturb import OTHER_INTEGERS, OTHERS, Change, safe_changes, same_strides, write_all
from .memory.poison import ALL_NAN, fresh_memory_filled, has_new_nan
from .memory.storage import share_memory

_SECONDS = 5.0  # for all calls with other integers


def check_repeat(case: Case) -> None:
    """Call the op on equal inputs, on other values, and on inputs whose values were replaced."""
    calls = Caller(case)
    skip_if_no_results(case)
    skip_if_memory_unset(case)
    first = _call(calls, case.inputs())
    kept = copied(results(first))
    second = _call(calls, case.inputs())
    _fail_if_memory_reused(case, first, [case.eager])
    _fail_if_memory_reused(case, second, [case.eager, first])
    allowed = case if case.op.nondeterministic else None
    wrong = first_difference(results(second), kept, allowed)
    rounded = wrong is not None and rounding_explains(case, results(second), kept)
    if wrong is not None and not rounded:
        if case.variant is not None:
            _skip_if_unwritten(calls, case.inputs(), kept)
        _fail(case, wrong)
    change = _change(calls, safe_changes(case, OTHERS))
    if change is not None:
        _fail_if_stale(calls, change, allowed)
        _fail_if_overwritten(case, first_difference(results(first), kept), change)
    if is_possible() and not may_crash(case):
        # Equal numbers may form a cycle that an op follows forever.
        with contextlib.suppress(LimitExceeded), within_limits(_SECONDS):
            change = _change(calls, OTHER_INTEGERS)
            if change is not None:
                _fail_if_stale(calls, change, allowed)
    if wrong is not None and not case.op.nondeterministic:
        raise _rounded(case, wrong)


def _call(calls: Caller, arguments: Arguments) -> Run:
    run = calls(arguments)
    if run.error is not None:
        raise skip(
            "nondeterministic",
            f"the op raises at a further call with equal inputs: {error_line(run.error)}",
        )
    return run


def _skip_if_unwritten(calls: Caller, arguments: Arguments, kept: Leaves) -> None:
    """Skip if the results for these arguments contain unwritten memory."""
    with fresh_memory_filled((), ALL_NAN, device=calls.case.placement.device):
        filled = results(calls(arguments))
    if any(
        isinstance(value, torch.Tensor)
        and isinstance(earlier, torch.Tensor)
        and has_new_nan(value, earlier)
        for (_, value), (_, earlier) in zip(filled, kept, strict=False)
    ):
        reason = "the results contain unwritten memory: see values.uninitialized"
        raise skip("nothing-to-check", reason, unjudged=False)


def _fail(case: Case, wrong: str) -> None:
    """Fail for values that differ, or skip where the op declares that they may."""
    if case.op.nondeterministic:
        raise skip(
            "nondeterministic",
            f"the op is tagged as nondeterministic, and reseeded it gives other values: {wrong}",
        )
    raise fail(
        "outputs-not-repeatable",
        f"{case.op.name}: a second call with equal inputs gives other values: {wrong}",
        repro=_REPEAT,
    )


_TAG = "nondeterministic_bitwise"


def _rounded(case: Case, wrong: str) -> CheckFailed:
    """The finding for a difference that another order of additions explains."""
    tag = f"torch.Tag.{_TAG if hasattr(torch.Tag, _TAG) else 'nondeterministic_seeded'}"
    return fail(
        "outputs-not-repeatable",
        f"{case.op.name}: a second call with equal inputs differs by rounding, as if the order of "
        f"additions varied: {wrong}",
        fix=f"Define the op with tags=({tag},), so that torch and this check expect it; or add up in "
        "a fixed order.",
        repro=_REPEAT,
        note=WITHIN_ROUNDING,
    )


def _fail_if_memory_reused(case: Case, run: Run, earlier: Iterable[Run]) -> None:
    """Fail if an output shares memory with an output of an earlier call that is still in use."""
    for before in earlier:
        for name, output in run.outputs:
            for old_name, held in before.outputs:
                if share_memory(output.detach(), held.detach()):
                    raise _reused(
                        case,
                        f"{name} of one call lies in the memory of {old_name} of an earlier call, "
                        "which is still in use",
                    )


def _fail_if_overwritten(case: Case, wrong: str | None, change: Change) -> None:
    if wrong is not None:
        start = f"a later call (its inputs {change.description})"
        raise _reused(case, f"{start} changed what an earlier one returned: {wrong}")


def _reused(case: Case, text: str) -> CheckFailed:
    return fail("output-memory-reused", f"{case.op.name}: {text}", repro=_REUSED)


def _change(calls: Caller, changes: Sequence[Change]) -> Change | None:
    """The first of these changes that changes a value and that the op accepts; None if there is none."""
    drawn = calls.case.inputs()
    for change in changes:
        changed = change.apply(drawn)
        pairs = zip(changed.tensors(), drawn.tensors(), strict=True)
        differs = any(not quickly_equal(new.detach(), old.detach()) for (_, new), (_, old) in pairs)
        if differs and calls(changed).error is None:
            return change
    return None


def _fail_if_stale(calls: Caller, change: Change, allowed: Case | None) -> None:
    """Fail if inputs that were changed in place give other results than fresh inputs."""
    case = calls.case
    arguments, changed = case.inputs(), change.apply(case.inputs())
    _call(calls, arguments)
    if not same_strides(arguments, changed):
        return  # the op changes the shape of its argument
    write_all(arguments, changed)
    updated = calls(arguments)
    fresh = calls(change.apply(case.inputs()))
    if updated.error is not None or fresh.error is not None:
        return
    expected: Leaves = results(fresh)
    wrong = first_difference(results(updated), expected, allowed)
    if (
        wrong is None
        or rounding_explains(case, results(updated), expected)
        or first_difference(results(calls(change.apply(case.inputs()))), expected) is not None
    ):
        return
    _skip_if_unwritten(calls, change.apply(case.inputs()), expected)
    raise fail(
        "stale-result",
        f"{case.op.name}: after its inputs were changed in place ({change.description}) it gives other "
        f"values than for fresh inputs with the same values: {wrong}",
        repro=CALL + change.script() + _STALE,
    )


_REPEAT = (
    CALL
    + """

first, second = call(*inputs()), call(*inputs())
torch.testing.assert_close(second, first, rtol=0, atol=0, equal_nan=True)
"""
)
_REUSED = """
from torch.utils._pytree import tree_leaves

held = []
for _ in range(4):
    args, kwargs = inputs()
    outputs = [each for each in tree_leaves(op(*args, **kwargs)) if isinstance(each, torch.Tensor)]
    places = {each.data_ptr() for each in held}
    for each in outputs:
        assert each.data_ptr() not in places, "it lies where an earlier output lies"
    held += [each for each in outputs if each.numel()]
"""
_STALE = """

args, kwargs = inputs()
call(args, kwargs)
given = [each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
new = [each for each in tree_leaves(changed()) if isinstance(each, torch.Tensor)]
with torch.no_grad():
    for tensor, value in zip(given, new):
        tensor.copy_(value)
torch.testing.assert_close(
    call(args, kwargs), call(*changed()), rtol=1e-3, atol=1e-5, equal_nan=True
)
"""

FINDINGS = {
    "outputs-not-repeatable": Explanation(
        meaning="Called twice with equal inputs, the op gives different values.",
        why=(
            "Without the tag, torch may run the op again instead of keeping its result "
            "(activation checkpointing, recomputation in torch.compile), or once instead of "
            "twice. Gradients then belong to another forward."
        ),
        fix=(
            "Compute from the arguments alone: no counter, clock or cache in the kernel. If "
            "random numbers are wanted, define the op with "
            "tags=(torch.Tag.nondeterministic_seeded,); if the order of additions varies "
            "(atomics), with tags=(torch.Tag.nondeterministic_bitwise,)."
        ),
        before="""
_calls = 0
@torch.library.custom_op("my::noise", mutates_args=())
def noise(x: Tensor) -> Tensor:
    global _calls
    _calls += 1
    return x + _calls
""",
        after="""
@torch.library.custom_op("my::noise", mutates_args=())
def noise(x: Tensor, step: int) -> Tensor:
    return x + step
""",
        docs=(
            doc_links.RANDOMNESS,
            doc_links.LIBRARY,
        ),
        follows=(
            "undeclared-mutation",
            "rng-undeclared",
            "rng-reseeded",
            "uninitialized-output",
            "output-memory-reused",
        ),
    ),
    "output-memory-reused": Explanation(
        meaning=(
            "An output lies in memory that the op uses again: a later call overwrites it, or "
            "returns the same memory."
        ),
        why=(
            "Code that keeps an output (autograd does, for the backward) finds the values of "
            "a later call in it. Loops, recurrent networks and multi-stream code break "
            "silently."
        ),
        fix="Allocate every output anew, or return workspace.clone().",
        before="""
out = _workspace[: x.numel()]
torch.mul(x.flatten(), 2, out=out)
return out
""",
        after="""
out = x.new_empty(x.numel())
torch.mul(x.flatten(), 2, out=out)
return out
""",
        docs=(
            doc_links.LIBRARY,
            doc_links.PYTHON_CUSTOM_OPS,
        ),
    ),
    "stale-result": Explanation(
        meaning=(
            "After an input was changed in place, the op still gives the result for its old values."
        ),
        why=(
            "An optimizer changes weights in place; the op then computes with the weights of "
            "the first step. Later tensors also get the address of a freed one."
        ),
        fix=(
            "Do not cache results by data pointer or id(): both stay the same through an "
            "in-place change, and other tensors get them later. Do the preparation in a "
            "separate op, and pass its result as an argument."
        ),
        before="""
key = weight.data_ptr()
if key not in _packed:
    _packed[key] = pack(weight)
return x @ _packed[key]
""",
        after="""
return x @ pack(weight)
""",
        docs=(doc_links.LIBRARY,),
    ),
}

CHECK = Check(
    name="values.repeat",
    summary="a further call gives the same values, also after inputs changed in place",
    run=check_repeat,
    variants=("shape", "large", "dtype", "values", "positions", "arguments"),
    cheap=True,
    findings=FINDINGS,
    catches=(
        "A second call with equal inputs and equal random states that does not give the same bits. "
        "A difference that another order of additions explains is a note. For an op tagged as "
        "nondeterministic, such differences and those within the tolerances are ignored, and a larger "
        "one is a skip. An output in use whose memory a later call returns again, or overwrites "
        "when it gets other values. A cache keyed by address: inputs that are changed in place must give "
        "what fresh inputs with these values give. Integers are changed only for kernels in Python: each "
        "becomes the first of its tensor."
    ),
    cannot_see="A cache keyed by shape. A rotation of more workspaces than the check makes calls.",
    cost="calls",
)
