"""`backward.uninitialized`: the gradients do not depend on what fresh memory held."""

from __future__ import annotations

from ...cases.case import Case
from ...cases.tensors import largest_magnitude
from ...core.tracebacks import error_line, reraise_bug
from ...findings import CheckSkipped, Explanation, doc_links, fail, skip
from ..check import Check
from ..values.memory.poison import (
    FIRST,
    SECOND,
    Filling,
    filling_lines,
    fresh_memory_filled,
    likely_sizes,
)
from .limits import Limits
from .scripts import GRAPH
from .vjp import Gradients, Graph, Row, row, same

_RAISES = "no-first-order"


def check_uninitialized(case: Case) -> None:
    """Run the forward and the backward with fresh memory filled in two ways."""
    filling, first = _first_gradients(case)
    second = _gradients(case, SECOND)
    if _wrong(case, first, second) is None:
        return
    again = _gradients(case, filling)
    wrong = _wrong(case, again, _gradients(case, SECOND))
    if wrong is None or not same(first, again):
        reason = "the backward differs from one call to the next"
        raise skip("nondeterministic", reason, unjudged=False)
    raise fail(
        "uninitialized-gradient",
        f"the gradient for `{wrong.input}` depends on what fresh memory held: if that is filled with "
        f"{_held(filling)}, an element is {wrong.actual}, and otherwise {wrong.expected}",
        repro=GRAPH + filling_lines(likely_sizes(case)) + _COMPARE,
    )


def _first_gradients(case: Case) -> tuple[Filling, Gradients]:
    """The gradients with the first filling that torch can apply, and that filling."""
    try:
        return FIRST, _gradients(case, FIRST)
    except CheckSkipped as skipped:
        if skipped.code != _RAISES:
            raise
    filling = FIRST._replace(nan=False)  # torch cannot fill every dtype with NaN
    return filling, _gradients(case, filling)


def _gradients(case: Case, filling: Filling) -> Gradients:
    with fresh_memory_filled(likely_sizes(case), filling, device=case.placement.device):
        graph = Graph(case)
        try:
            return graph.vjp(graph.given(graph.random(0)), retain_graph=False)
        except Exception as error:  # whatever a backward raises
            reraise_bug(error)
            reason = f"the backward raises {error_line(error)}"
            raise skip(_RAISES, reason, unjudged=False) from error


def _wrong(case: Case, first: Gradients, second: Gradients) -> Row | None:
    """The first gradient that differs beyond rounding, where the second one is finite."""
    limits = Limits.of(Graph(case).dtypes, [*second.values()])
    for name in first.keys() & second.keys():
        allowed = limits.share * largest_magnitude(second[name]) + 4 * limits.smallest
        compared = row("", name, second[name], first[name], allowed)
        if compared.wrong:
            return compared
    return None


def _held(filling: Filling) -> str:
    return "NaN" if filling.nan else f"bytes of {filling.pattern:#x}"


_COMPARE = """

def with_fresh_memory(byte, nan):
    fill(byte, nan)
    _, leaves, outputs = call()
    return gradients(outputs, leaves, grads)


assert_same(with_fresh_memory(0xA5, True), with_fresh_memory(0x3C, False))
"""

FINDINGS = {
    "uninitialized-gradient": Explanation(
        meaning="The backward returns, or computes with, memory that it allocated and never wrote to.",
        why=(
            "The gradient of what no output depends on must be 0. Here it is whatever the memory held "
            "before: often 0 in a fresh process, a huge number or NaN later in a training run."
        ),
        fix=(
            "Allocate zeros (torch.zeros_like, new_zeros) for elements that get no gradient: rows that no "
            "index names, what was cut off or masked. A product with a mask of zeros is not enough: "
            "0 times NaN is NaN."
        ),
        before="""
def backward(ctx, grad):
    gradient = torch.empty_like(grad)
    gradient[ctx.kept] = grad[ctx.kept]
    return gradient
""",
        after="""
def backward(ctx, grad):
    gradient = torch.zeros_like(grad)
    gradient[ctx.kept] = grad[ctx.kept]
    return gradient
""",
        docs=(doc_links.EMPTY, doc_links.DETERMINISTIC),
        follows=("uninitialized-output", "out-of-bounds-read", "out-of-bounds-write"),
    ),
}

CHECK = Check(
    name="backward.uninitialized",
    summary="the gradients do not depend on what fresh memory held",
    run=check_uninitialized,
    variants=("shape", "positions", "arguments"),
    gradients=True,
    needs_autograd=True,
    cheap=True,
    findings=FINDINGS,
    catches=(
        "A backward that leaves elements of a gradient unwritten, or reads a workspace that it did not "
        "write. Forward and backward run with fresh memory filled with NaN, and with another byte, as in "
        "`values.uninitialized`."
    ),
    cannot_see="Blocks of numpy and C above 1 MB are not filled.",
    cost="calls",
)
