"""`values.repeat`: the op called again gives what it gave, and leaves what it gave alone."""

from __future__ import annotations

from collections.abc import Iterable

from ...cases.arguments import Arguments
from ...cases.case import Case, Run
from ...core.tracebacks import error_line
from ...findings import CheckFailed, fail, skip
from .memory.calls import CALL, Caller, Leaves, differ, frozen, results, skip_if_silent
from .memory.perturb import OTHERS, Change, same_places, write_all
from .memory.storage import share_memory


def repeat(case: Case) -> None:
    """Call the op on equal inputs, on other values, and on inputs whose values were replaced."""
    calls = Caller(case)
    skip_if_silent(case)
    first = _call(calls, case.inputs())
    kept = frozen(results(first))
    second = _call(calls, case.inputs())
    _refuse_reuse(case, first, [case.eager])
    _refuse_reuse(case, second, [case.eager, first])
    allowed = case if case.op.nondeterministic else None
    _refuse_difference(case, differ(results(second), kept, allowed))
    change = _change(calls)
    if change is not None:
        _refuse_stale(calls, change, allowed)
        _refuse_overwritten(case, differ(results(first), kept), change)


def _call(calls: Caller, arguments: Arguments) -> Run:
    run = calls(arguments)
    if run.error is not None:
        raise skip(
            "nondeterministic",
            f"the op raises at a further call with equal inputs: {error_line(run.error)}",
        )
    return run


def _refuse_difference(case: Case, wrong: str | None) -> None:
    if wrong is None:
        return
    if case.op.nondeterministic:
        raise skip(
            "nondeterministic", f"the op is tagged so, and reseeded it gives other values: {wrong}"
        )
    raise fail(
        "outputs-not-repeatable",
        f"{case.op.name}: a second call with equal inputs gives other values: {wrong}",
        repro=_REPEAT,
    )


def _refuse_reuse(case: Case, run: Run, earlier: Iterable[Run]) -> None:
    """Fail if an output lies in memory that an output of an earlier call, still in use, lies in."""
    for before in earlier:
        for name, one in run.outputs:
            for other, held in before.outputs:
                if share_memory(one.detach(), held.detach()):
                    raise _reused(
                        case,
                        f"{name} of one call lies in the memory of {other} of an earlier call, "
                        "which is still in use",
                    )


def _refuse_overwritten(case: Case, wrong: str | None, change: Change) -> None:
    if wrong is not None:
        text = f"a later call (its inputs {change.words}) changed what an earlier one returned: {wrong}"
        raise _reused(case, text)


def _reused(case: Case, text: str) -> CheckFailed:
    return fail("output-memory-reused", f"{case.op.name}: {text}", repro=_REUSED)


def _change(calls: Caller) -> Change | None:
    """Other values that the op takes; None if there are none."""
    drawn = calls.case.inputs()
    for change in OTHERS:
        changed = change.apply(drawn)
        other = differ([*changed.named()], [*drawn.named()]) is not None
        if other and calls(changed).error is None:
            return change
    return None


def _refuse_stale(calls: Caller, change: Change, allowed: Case | None) -> None:
    """Fail if inputs with new values in the same memory give other results than fresh inputs do."""
    case = calls.case
    arguments, others = case.inputs(), change.apply(case.inputs())
    _call(calls, arguments)
    if not same_places(arguments, others):
        return  # the op changes the shape of its argument
    write_all(arguments, others)
    updated = calls(arguments)
    fresh = calls(change.apply(case.inputs()))
    if updated.error is not None or fresh.error is not None:
        return
    expected: Leaves = results(fresh)
    wrong = differ(results(updated), expected, allowed)
    if wrong is None or differ(results(calls(change.apply(case.inputs()))), expected) is not None:
        return
    raise fail(
        "stale-result",
        f"{case.op.name}: after its inputs were changed in place ({change.words}) it gives other "
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
    for mine, value in zip(given, new):
        mine.copy_(value)
torch.testing.assert_close(
    call(args, kwargs), call(*changed()), rtol=1e-3, atol=1e-5, equal_nan=True
)
"""
