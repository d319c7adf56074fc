"""`backward.stale`: after arguments were changed in place, the gradients are those of the new values."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from ...cases.arguments import Arguments
from ...cases.case import Case
from ...cases.crash_risk import may_crash
from ...core.tracebacks import reraise_bug
from ...core.watchdog import LimitExceeded, is_possible, within_limits
from ...findings import CheckSkipped, Explanation, doc_links, fail, skip
from ..check import Check
from ..values.memory.calls import skip_if_keeps_nothing
from ..values.memory.perturb import (
    OTHER_INTEGERS,
    OTHERS,
    Change,
    safe_changes,
    same_strides,
    write_all,
)
from .scripts import GRAPH
from .vjp import Gradients, Graph, Reference, same, table

_SECONDS = 5.0  # for all calls with other integers


def check_stale(case: Case) -> None:
    """Compare the gradients of tensors that were changed in place with those of fresh ones."""
    skip_if_keeps_nothing(case)
    reference = Reference.of(case)
    is_changed = _compare_after(reference, safe_changes(case, OTHERS))
    if is_possible() and not may_crash(case):
        # Equal numbers may form a cycle that an op follows forever.
        with contextlib.suppress(LimitExceeded), within_limits(_SECONDS):
            is_changed |= _compare_after(reference, OTHER_INTEGERS)
    if not is_changed:
        reason = "no other values have other gradients"
        raise skip("nothing-to-check", reason, unjudged=False)


def _compare_after(reference: Reference, changes: Sequence[Change]) -> bool:
    """Compare the gradients after the first change that gives others; returns whether there is one."""
    for change in changes:
        expected = _fresh(reference, change)
        if expected is None or same(expected, reference.gradients):
            continue
        actual = _after_writing(reference, change)
        rows = reference.rows("changed in place", actual, expected) if actual is not None else []
        wrong = next((row for row in rows if row.wrong), None)
        if wrong is not None and same(_fresh(reference, change) or {}, expected):
            raise fail(
                "stale-gradient",
                f"after the arguments were changed in place ({change.description}), a further call "
                f"gives {wrong.actual} as the gradient for `{wrong.input}`; fresh tensors with these "
                f"values give {wrong.expected}",
                table(rows),
                repro=GRAPH + change.script() + _SCRIPT,
            )
        return True
    return False


def _fresh(reference: Reference, change: Change) -> Gradients | None:
    """The gradients for fresh tensors with other values; None where the op does not take them."""
    try:
        return _gradients(reference, change.apply(reference.case.inputs()))
    except CheckSkipped:
        return None
    except Exception as error:  # whatever the op or its backward raises for other values
        reraise_bug(error)
        return None


def _after_writing(reference: Reference, change: Change) -> Gradients | None:
    """The gradients of a second call, before which the values were written to its tensors."""
    graph = Graph(reference.case)
    graph.vjp(graph.given(reference.weights), retain_graph=False)
    changed = change.apply(reference.case.inputs())
    if not same_strides(graph.arguments, changed):
        return None  # the op changes the shape of its argument
    write_all(graph.arguments, changed)
    return _gradients(reference, graph.arguments)


def _gradients(reference: Reference, arguments: Arguments) -> Gradients | None:
    """The gradients of a call; None if it has outputs of other sizes."""
    graph = Graph(reference.case, arguments)
    if [output.shape for _, output in graph.outputs] != [each.shape for each in reference.weights]:
        return None
    return graph.vjp(graph.given(reference.weights))


_SCRIPT = """

def of(args, kwargs):
    torch.manual_seed(seed)
    outputs = [each for each in tensors(op(*args, **kwargs)) if each.requires_grad and each.numel()]
    return gradients(outputs, [each for each in tensors((args, kwargs)) if each.requires_grad], grads)


arguments = inputs()
of(*arguments)
with torch.no_grad():
    for tensor, value in zip(tensors(arguments), tensors(changed())):
        tensor.copy_(value)
assert_same(of(*arguments), of(*changed()))
"""

FINDINGS = {
    "stale-gradient": Explanation(
        meaning=(
            "After a call and its backward, the arguments were changed in place, and the op was called "
            "again. Its gradients are not those of fresh tensors with the new values."
        ),
        why=(
            "An optimizer changes weights in place; the backward then computes with the weights of the "
            "first step. Later tensors also get the address of a freed one."
        ),
        fix=(
            "Do not keep what the backward needs in a cache with the data pointer or id() as its key: "
            "both stay the same through an in-place change, and other tensors get them later. Save it "
            "with ctx.save_for_backward, or compute it anew."
        ),
        before="""
def backward(ctx, grad):
    (weight,) = ctx.saved_tensors
    return _transposed(weight.data_ptr(), weight) @ grad
""",
        after="""
def backward(ctx, grad):
    (weight,) = ctx.saved_tensors
    return weight.t() @ grad
""",
        docs=(doc_links.SAVE_FOR_BACKWARD, doc_links.LIBRARY),
        follows=("stale-result", "backward-not-repeatable", "uninitialized-gradient"),
    ),
}

CHECK = Check(
    name="backward.stale",
    summary="after arguments were changed in place, the gradients are those of the new values",
    run=check_stale,
    gradients=True,
    needs_autograd=True,
    findings=FINDINGS,
    catches=(
        "A cache with addresses as keys that only the backward uses: transposed weights, sorted indices. "
        "The op and its backward run, the floating-point arguments are changed in place, and both run "
        "again; for kernels in Python then the integers. Only for ops whose Python code refers to "
        "something that could keep anything."
    ),
    cannot_see="A cache keyed by shape, and one of integers that each become the first of their tensor.",
    cost="calls",
)
