"""`relations.call_order`: the results of a call do not depend on the calls before it."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import chain

import torch

from ...cases.case import Case
from ...core import fresh_process
from ...core.forked import ForkedError, ForkFailed
from ...core.tracebacks import reraise_bug
from ...core.watchdog import LimitExceeded, within_limits
from ...declare.ops import resolve
from ...findings import Explanation, doc_links, fail, skip
from ..check import Check
from ..values.memory.calls import (
    Leaves,
    copied,
    skip_if_incomparable,
    skip_if_keeps_nothing,
)
from ..values.memory.poison import ALL_NAN, fresh_memory_filled
from .compare import Disagreement, disagreement, everything
from .other_calls import Call, other_calls
from .scripts import call_lines, position

_ELEMENTS = 2**18  # of all arguments and results: they are sent between processes
# Equal calls of one thread: a table that was rounded to float32 must show in float64.
_TIGHT = dict.fromkeys((torch.float64, torch.complex128), (1e-12, 1e-13))
_SHOWN = 8  # values in a script
# Of processor time for a call with its backward: with other numbers an op may compute for very long.
_SECONDS = 1.0


def check_call_order(case: Case) -> None:
    """Make the same calls in several processes, in different orders."""
    skip_if_incomparable(case)
    skip_if_keeps_nothing(case)
    if torch.device(case.placement.device).type != "cpu":
        reason = "no device but the CPU can be used in a copy of this process"
        raise skip("no-fresh-process", reason, unjudged=False)
    _skip_if_large(case)
    calls = list(other_calls(case))
    first, *orders = ([*zip(order, _results(case, order), strict=True)] for order in _orders(calls))
    alone = {call.name: leaves for call, leaves in first}
    if sum(leaves is not None for leaves in alone.values()) < 2:
        reason = "the op takes no other arguments than those of the sample"
        raise skip("nothing-to-check", reason, unjudged=False)
    for call, leaves in chain.from_iterable(orders):
        if call.only_before or _disagreement(call.case(case), alone[call.name], leaves) is None:
            continue
        # The sample's call comes first: it has a script after any other call.
        for shown in dict.fromkeys((calls[0], call)):
            _confirm(case, shown, [call for call in calls if call is not shown])


def _orders(calls: Sequence[Call]) -> list[Sequence[Call]]:
    """Orders of the calls: each call comes after others in one of them, and first in another.

    If a cache lacks an argument in its key, the call with another value of it must come first once: in
    all other orders, a call with the sample's value may come before. A cache may keep one entry only: so
    the sample's call also comes right after each of those that differ in one tensor.
    """
    base, whole = calls[0], [call for call in calls if not call.changes_one_tensor]
    of_dtype = [call for call in whole if call.is_other_dtype]
    of_tensors = [[call, base] for call in calls if call.changes_one_tensor]
    orders = [whole, whole[::-1], *([[*of_dtype, base]] if of_dtype else [])]
    first = {call.name for call, *_ in orders}
    alone = [[call] for call in whole if call.name not in first and not call.only_before]
    return [*orders, *alone, *of_tensors]


def _skip_if_large(case: Case) -> None:
    tensors = [*case.eager.arguments.tensors(), *case.eager.outputs]
    if sum(tensor.numel() for _, tensor in tensors) > _ELEMENTS:
        reason = "the tensors are too large to be sent between processes"
        raise skip("costly", reason, unjudged=False)


def _results(case: Case, calls: Sequence[Call], *, filled: bool = False) -> Sequence[Leaves | None]:
    """The results of calls made one after the other in a new process; None for a call that raises.

    Args:
        filled: whether the memory that a call allocates holds NaN.

    Raises:
        CheckSkipped: if there is no such process, or it ends before the calls do.
    """
    process = fresh_process.current()
    if process is None:
        reason = "no copy of this process from before the first call is available"
        raise skip("no-fresh-process", reason, unjudged=False)
    try:
        outcome = process.run(run_calls, case.op.name, list(calls), filled)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        reason = f"the arguments cannot be sent to another process: {error}"
        raise skip("checker-limit", reason, unjudged=False) from None
    except (ForkFailed, ForkedError) as error:
        raise skip("no-fresh-process", str(error), unjudged=False) from None
    if not outcome.messages:
        reason = "the new process ended before the calls did"
        raise skip("no-fresh-process", reason, unjudged=False)
    results: Sequence[Leaves | None] = outcome.messages[0]
    return results


def run_calls(op: str, calls: Sequence[Call], filled: bool = False) -> list[Leaves | None]:
    """Make calls, in a new process; with NaN in the memory that they allocate, if asked.

    Returns:
        for each the results, written arguments and gradients; None where it raises, or computes for long.
    """
    torch.set_num_threads(1)
    resolved = resolve(op)
    results: list[Leaves | None] = []
    for call in calls:
        case = Case(resolved, call.sample, call.placement, seed=call.seed)
        try:
            with (
                _filled(case) if filled else contextlib.nullcontext(),
                within_limits(processor_seconds=_SECONDS),
            ):
                run = case.run(case.inputs())
                leaves = copied(everything(case, run)) if run.error is None else None
        except LimitExceeded:
            results.append(None)
            continue
        except Exception as error:  # whatever torch raises for arguments that it cannot draw
            reraise_bug(error)
            results.append(None)
            continue
        results.append(leaves)
    return results


def _filled(case: Case) -> AbstractContextManager[None]:
    sizes = [tensor.numel() * tensor.itemsize for _, tensor in case.inputs().tensors()]
    return fresh_memory_filled(sizes, ALL_NAN, device="cpu")


def _disagreement(
    case: Case, actual: Leaves | None, expected: Leaves | None
) -> Disagreement | None:
    if actual is None or expected is None:
        return None
    return disagreement(
        replace(case, tolerances={**(case.tolerances or {}), **_TIGHT}), actual, expected
    )


def _confirm(case: Case, call: Call, others: Sequence[Call]) -> None:
    """Report the first call that changes the results of a later one, compared with a new process.

    Nothing is reported if the values change at a second call anyway, or with what the memory held before:
    other checks report that.
    """
    called = call.case(case)
    alone, again, twice = (_results(case, [call] * count)[-1] for count in (1, 1, 2))
    elsewhere = _results(case, [call], filled=True)[-1]
    if any(_disagreement(called, alone, leaves) for leaves in (again, twice, elsewhere)):
        return
    for earlier in others:
        after = _results(case, [earlier, call])[-1]
        difference = _disagreement(called, after, alone)
        if difference is not None and alone is not None and after is not None:
            # A script has the inputs of the case and those of one more.
            scripted = not (call.name and earlier.name)
            raise fail(
                "result-depends-on-earlier-calls",
                f"{case.op.name}: after a call with {earlier.name or 'the arguments of the sample'}, "
                f"a call with {call.name or 'the arguments of the sample'} gives other values than "
                f"in a new process: {difference}",
                repro=_script(case, call, difference.name, alone, after) if scripted else "",
                case=(call if call.name else earlier).case(case) if scripted else None,
                picture=difference.picture,
            )


def _script(case: Case, call: Call, name: str, expected: Leaves, actual: Leaves) -> str:
    """Lines that make the other call first, and compare some values with those of a new process."""
    alone, after = dict(expected).get(name), dict(actual).get(name)
    if not (isinstance(alone, torch.Tensor) and isinstance(after, torch.Tensor)):
        return ""
    if alone.shape != after.shape or alone.is_complex():
        return ""
    differ = (alone != after).flatten().nonzero()[:_SHOWN, 0].tolist()
    values = [alone.flatten()[at].item() for at in differ]
    earlier, later = ("inputs", "other_inputs") if call.name else ("other_inputs", "inputs")
    return (
        call_lines(name)
        + f"\ncall(*{earlier}())\n"
        + f"got = call(*{later}())[{position(case, name)}].flatten()[{differ}]\n"
        + f"expected = torch.tensor({values}, dtype=got.dtype)  # in a process without the other call\n"
        + "torch.testing.assert_close(got, expected, equal_nan=True)\n"
    )


FINDINGS = {
    "result-depends-on-earlier-calls": Explanation(
        meaning=(
            "After a call with other arguments, a call gives other values than in a process in which the "
            "op was never called."
        ),
        why=(
            "The op keeps something between calls. A model then computes with values of another call, and "
            "which one depends on the order of its layers."
        ),
        fix=(
            "If it is a cache, put everything that the value depends on into the key: sizes, dtype, "
            "device, and each number or flag. If it is a buffer, overwrite all of it before it is read."
        ),
        before="""
_tables = {}

def table(x, base):
    if x.shape[-1] not in _tables:
        _tables[x.shape[-1]] = base ** -torch.arange(x.shape[-1])
    return _tables[x.shape[-1]]
""",
        after="""
_tables = {}

def table(x, base):
    key = (x.shape[-1], base, x.dtype, x.device)
    if key not in _tables:
        _tables[key] = base ** -torch.arange(x.shape[-1], dtype=x.dtype, device=x.device)
    return _tables[key]
""",
        docs=(doc_links.CUSTOM_OP,),
        follows=(
            *("outputs-not-repeatable", "output-memory-reused"),
            *("uninitialized-output", "uninitialized-gradient"),
        ),
    ),
}

CHECK = Check(
    name="relations.call_order",
    summary="the results of a call do not depend on earlier calls with other arguments",
    run=check_call_order,
    fresh_process=True,
    once_per_sample=True,
    variants=(),
    findings=FINDINGS,
    catches=(
        "A cache whose key lacks an argument, a tensor, a dtype or a size, and buffers that keep what an "
        "earlier call wrote. New processes make the sample's call and others in different orders. The "
        "others differ in numbers (also slightly, as a key may hold them rounded), flags, strings that the "
        "op's Python code compares with, defaults, dtypes, sizes, values, or the values of one tensor, its "
        "ends kept if it is a list, or None for an optional one. "
        "Results, written arguments and gradients must not depend on the order. It runs in the first dtype "
        "and layout of each sample; if the formula is written in Python, with gradients only."
    ),
    cannot_see=(
        "Calls that the test's own module makes while it is imported. Other integers and flags are not "
        "passed to compiled kernels. An op of `custom_op` whose Python code refers to nothing that it "
        "could keep is not called. Needs a system with fork; elsewhere a skip."
    ),
    cost="many calls",
)
