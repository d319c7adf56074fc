"""`backward.freed`: arguments and outputs leave memory with the last reference to them."""

from __future__ import annotations

import gc
import weakref

from torch import Tensor

from ...cases.case import Case
from ...findings import Explanation, doc_links, fail
from ..check import Check
from .scripts import GRAPH, filled
from .vjp import Graph

_CALLS = 3  # more than a cache of the last call keeps


def check_freed(case: Case) -> None:
    """Check that inputs and outputs are freed with the last reference to them."""
    Graph(case)
    for description, which in (("outputs", "outputs"), ("arguments", "given")):
        if _kept(case, which):
            raise fail(
                "tensors-kept-alive",
                f"the {description} of {_CALLS} calls are all still in memory when nothing refers to them "
                "any longer: they are in a reference cycle, or in a global",
                repro=_script(which),
            )


def _kept(case: Case, which: str) -> bool:
    """Whether inputs or outputs of each of a few calls are still in memory afterwards."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        calls = [_references(case, which) for _ in range(_CALLS)]
        return all(any(reference() is not None for reference in references) for references in calls)
    finally:
        if collecting:
            gc.enable()


def _references(case: Case, which: str) -> list[weakref.ref[Tensor]]:
    graph = Graph(case)
    named = graph.outputs if which == "outputs" else graph.arguments.tensors()
    return [weakref.ref(tensor) for _, tensor in named]


_SCRIPT = (
    GRAPH
    + """
import gc
import weakref

del given, leaves, outputs, grads
gc.disable()
kept = []
for _ in range(3):
    given, leaves, outputs = call()
    kept.append([weakref.ref(each) for each in WHICH])
    del given, leaves, outputs
assert not all(any(ref() is not None for ref in refs) for refs in kept), "still in memory"
"""
)


def _script(which: str) -> str:
    """Script lines that check that `given` or `outputs` are freed with the last reference."""
    return filled(_SCRIPT, WHICH=which)


FINDINGS = {
    "tensors-kept-alive": Explanation(
        meaning=(
            "Inputs or outputs stay in memory after the last reference to them is gone. An "
            "output kept as an attribute of ctx refers to itself through its graph; a global "
            "keeps anything."
        ),
        why=(
            "Reference counting cannot free a cycle. Python's garbage collector does so at "
            "some later time, but not because a device runs out of memory. Calls whose "
            "backward never runs accumulate."
        ),
        fix=(
            "Save outputs with ctx.save_for_backward, which breaks the cycle. Keep only "
            "shapes and dtypes on ctx where they are enough."
        ),
        before="""
def setup_context(ctx, inputs, output):
    ctx.like = output
""",
        after="""
def setup_context(ctx, inputs, output):
    ctx.shape = output.shape
""",
        docs=(doc_links.SAVE_FOR_BACKWARD, doc_links.EXTENDING),
    ),
}

CHECK = Check(
    name="backward.freed",
    summary="arguments and outputs are freed with the last reference to them: no cycle through ctx",
    run=check_freed,
    gradients=True,
    needs_autograd=True,
    findings=FINDINGS,
    catches=(
        "Arguments and outputs that stay in memory after the last reference to them is gone, "
        "until Python's garbage collector runs: a reference cycle through `ctx`, or a "
        "global."
    ),
    cannot_see="Tensors that the op allocates and hides. A cache of the last call or two is no leak.",
    cost="calls",
)
