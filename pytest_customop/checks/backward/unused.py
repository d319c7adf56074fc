"""`backward.unused`: an output that the loss does not use acts like one with a zero grad_output."""

from __future__ import annotations

import torch

from ...cases.case import Case
from ...core.tracebacks import error_line, reraise_bug, traceback_text
from ...findings import CheckFailed, Explanation, doc_links, fail, skip
from ..check import Check
from .scripts import GRAPH, filled
from .vjp import Graph, Reference, table

_MOST = 6


def check_unused(case: Case) -> None:
    """Compare the gradients of some outputs with those for zero grad_outputs of the others.

    Each output is used alone, and each is left out.
    """
    count = len(Graph(case).outputs)
    if count < 2:
        raise skip("nothing-to-check", "fewer than two outputs are differentiable", unjudged=False)
    reference = Reference.of(case)
    for used in _choices(count):
        _compare(reference, used)


def _choices(count: int) -> list[list[int]]:
    alone = [[at] for at in range(min(count, _MOST))]
    without = [[kept for kept in range(count) if kept != at] for at in range(min(count, _MOST))]
    return alone if count == 2 else [*alone, *without]


def _compare(reference: Reference, used: list[int]) -> None:
    graph = Graph(reference.case)
    weights = graph.given(reference.weights)
    zeros = [
        weight if at in used else torch.zeros_like(weight) for at, weight in enumerate(weights)
    ]
    try:
        expected = graph.vjp(zeros)
    except Exception as error:  # whatever a backward raises for zeros
        reraise_bug(error)
        return
    graph = Graph(reference.case)
    try:
        actual = graph.vjp([weights[at] for at in used], used)
    except NotImplementedError:
        return  # the combination is rejected
    except Exception as error:  # whatever a backward raises
        reraise_bug(error)
        raise _finding(
            graph, used, f"the backward raises {error_line(error)}", traceback_text(error)
        ) from error
    rows = reference.rows("left out", actual, expected)
    wrong = next((row for row in rows if row.wrong), None)
    if wrong is not None:
        raise _finding(
            graph,
            used,
            f"the gradient for `{wrong.input}` is {wrong.actual}, and {wrong.expected} with zeros as "
            "grad_output",
            table(rows),
        )


def _finding(graph: Graph, used: list[int], what: str, evidence: str) -> CheckFailed:
    left = [name for at, (name, _) in enumerate(graph.outputs) if at not in used]
    names = f"{', '.join(left)} {'are' if len(left) > 1 else 'is'}"
    return fail(
        "unused-output-mishandled",
        f"where {names} not used, {what}",
        evidence,
        repro=_script(used),
    )


_SCRIPT = (
    GRAPH
    + """
used = USED
alone = gradients([outputs[at] for at in used], leaves, [grads[at] for at in used])
zeros = [each if at in used else torch.zeros_like(each) for at, each in enumerate(grads)]
assert_same(alone, gradients(outputs, leaves, zeros))
"""
)


def _script(used: list[int]) -> str:
    """Lines that use only the outputs at these positions."""
    return filled(_SCRIPT, USED=used)


FINDINGS = {
    "unused-output-mishandled": Explanation(
        meaning=(
            "When the loss does not use one of the outputs, the backward raises, or gives "
            "other gradients than for zeros."
        ),
        why=(
            "With ctx.set_materialize_grads(False), and in C++, the grad_output of an unused "
            "output is None (an undefined tensor). A model that ignores that output crashes "
            "or does not learn."
        ),
        fix=(
            "Treat each grad_output of None as zeros, or leave ctx.set_materialize_grads at "
            "its default."
        ),
        before="""
def backward(ctx, grad_values, grad_norm):
    if grad_norm is None:
        return None                        # the values may be used all the same
    return grad_values * ctx.a + grad_norm * ctx.b
""",
        after="""
def backward(ctx, grad_values, grad_norm):
    gradient = grad_values * ctx.a if grad_values is not None else 0
    if grad_norm is not None:
        gradient = gradient + grad_norm * ctx.b
    return gradient
""",
        docs=(doc_links.SET_MATERIALIZE_GRADS, doc_links.EXTENDING),
        follows=("uninitialized-gradient",),
    ),
}

CHECK = Check(
    name="backward.unused",
    summary="an output that the loss does not use acts like one with a zero grad_output",
    run=check_unused,
    needs=lambda op: op.may_return_two_tensors,
    gradients=True,
    needs_autograd=True,
    findings=FINDINGS,
    catches=(
        "Other gradients than for zeros, or an error, when the loss uses one output only, or "
        "all but one. In a formula with "
        "`ctx.set_materialize_grads(False)`, and in C++, the grad_output of an unused output "
        "is None."
    ),
    cannot_see="Other combinations, and outputs after the sixth.",
    cost="many calls",
)
