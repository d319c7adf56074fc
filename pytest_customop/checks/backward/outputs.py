"""`backward.unused`: outputs that a loss does not use."""

from __future__ import annotations

import torch

from ...cases.case import Case
from ...core.tracebacks import error_line, traceback_text
from ...findings import CheckFailed, fail, skip
from ..check import Check
from . import scripts
from .vjp import Graph, Reference, table

_MOST = 6


def check_unused(case: Case) -> None:
    """Compare the gradients of some outputs with those for zeros in place of the other grad_outputs.

    Each output alone, and each left out.
    """
    count = len(Graph(case).outputs)
    if count < 2:
        raise skip("nothing-to-check", "no more than one output is differentiable", unjudged=False)
    reference = Reference.of(case)
    for used in _choices(count):
        _compare(reference, used)


CHECK = Check(
    "backward.unused",
    "outputs that a loss does not use count as zero grad_outputs",
    check_unused,
    gradients=True,
    needs_autograd=True,
)


def _choices(count: int) -> list[list[int]]:
    alone = [[at] for at in range(min(count, _MOST))]
    without = [[other for other in range(count) if other != at] for at in range(min(count, _MOST))]
    return alone if count == 2 else [*alone, *without]


def _compare(reference: Reference, used: list[int]) -> None:
    graph = Graph(reference.case)
    weights = graph.given(reference.weights)
    zeros = [one if at in used else torch.zeros_like(one) for at, one in enumerate(weights)]
    try:
        expected = graph.vjp(zeros)
    except Exception:
        return  # it is zeros that the backward refuses
    graph = Graph(reference.case)
    try:
        got = graph.vjp([weights[at] for at in used], used)
    except NotImplementedError:
        return  # refused
    except Exception as error:
        raise _finding(
            graph, used, f"the backward raises {error_line(error)}", traceback_text(error)
        ) from error
    rows = reference.rows("left out", got, expected)
    wrong = next((row for row in rows if row.wrong), None)
    if wrong is not None:
        raise _finding(
            graph,
            used,
            f"the gradient for `{wrong.input}` is {wrong.got}, and {wrong.expected} with zeros for "
            "their grad_outputs",
            table(rows),
        )


def _finding(graph: Graph, used: list[int], what: str, evidence: str) -> CheckFailed:
    left = [name for at, (name, _) in enumerate(graph.outputs) if at not in used]
    names = f"{', '.join(left)} {'are' if len(left) > 1 else 'is'}"
    return fail(
        "unused-output-mishandled",
        f"where {names} not used, {what}",
        evidence,
        repro=scripts.unused(used),
    )
