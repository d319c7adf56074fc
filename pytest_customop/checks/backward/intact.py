"""`backward.intact`: a backward writes only to what it owns, and can run again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from ...cases.case import Case
from ...cases.tensors import Copier, difference, in_double, is_plain
from ...core.tracebacks import error_line, message_of, reraise_bug
from ...findings import Explanation, doc_links, fail, skip
from ..check import Check
from .scripts import GRAPH
from .vjp import Gradients, Graph, Reference, table

# How autograd's error for a changed saved tensor begins.
_WRITTEN = "modified by an inplace operation"


def check_intact(case: Case) -> None:
    """Run the backward three times over one graph; look for writes and for changed gradients."""
    reference = Reference.of(case)
    graph = Graph(case)
    grads = graph.given(reference.weights)
    recorded = _record(graph, grads)
    first = _raw(graph, grads)
    for what in _writes(recorded):
        raise fail("backward-mutates", f"the backward writes to {what}")
    _run_again(reference, graph, first)


@dataclass(frozen=True)
class _Recorded:
    name: str
    tensor: Tensor
    before: Tensor
    version: int


def _record(graph: Graph, grads: list[Tensor]) -> list[_Recorded]:
    declared = dict(graph.arguments.mutated())  # a buffer that is updated in the backward too
    tensors = graph.arguments.tensors()
    named = [(f"the argument `{name}`", tensor) for name, tensor in tensors if name not in declared]
    named += graph.run.outputs
    for (name, _), grad in zip(graph.outputs, grads, strict=True):
        named.append(("grad_output" if len(grads) == 1 else f"grad_output of {name}", grad))
    return [
        _Recorded(name, tensor, Copier()(tensor), _version(tensor))
        for name, tensor in named
        if is_plain(tensor)
    ]


def _version(tensor: Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


def _writes(recorded: list[_Recorded]) -> Iterator[str]:
    """A text for each tensor that was written to: its name and the change."""
    for record in recorded:
        difference_text = difference(record.tensor.detach(), record.before, 0.0, 0.0)
        if difference_text is not None:
            yield f"{record.name}: {difference_text}"
        elif _version(record.tensor) != record.version:
            yield f"{record.name}, though only the values that it held already"


def _raw(graph: Graph, grads: list[Tensor]) -> dict[str, Tensor]:
    """The gradients themselves, not copies of them."""
    inputs = graph.inputs
    input_grads = torch.autograd.grad(
        [output for _, output in graph.outputs],
        [tensor for _, tensor in inputs],
        grads,
        allow_unused=True,
        retain_graph=True,
    )
    named = zip([name for name, _ in inputs], input_grads, strict=True)
    return {name: grad for name, grad in named if grad is not None}


def _run_again(reference: Reference, graph: Graph, first: dict[str, Tensor]) -> None:
    kept = {name: in_double(grad) for name, grad in first.items()}
    multiples = [3 * weight for weight in reference.weights]
    _again(graph, multiples)
    for name, grad in first.items():
        difference_text = difference(in_double(grad), kept[name], 0.0, 0.0)
        if difference_text is not None:
            raise fail(
                "gradient-overwritten",
                f"the gradient that the backward returned for `{name}` is overwritten by the next "
                f"backward: {difference_text}",
            )
    rows = reference.rows("again", _again(graph, reference.weights), kept)
    wrong = next((row for row in rows if row.wrong), None)
    if wrong is not None:
        raise fail(
            "backward-not-repeatable",
            f"the backward, run again over one graph (retain_graph=True), gives {wrong.actual} for "
            f"`{wrong.input}`; the first run gave {wrong.expected}",
            table(rows),
        )


def _again(graph: Graph, weights: list[Tensor]) -> Gradients:
    try:
        return graph.vjp(graph.given(weights))
    except Exception as error:  # whatever a backward raises
        reraise_bug(error)
        if _WRITTEN in message_of(error):
            raise fail(
                "backward-mutates",
                f"the backward writes to a tensor that it saved: the second run raises {error_line(error)}",
            ) from error
        raise skip(
            "once-only",
            "the backward runs only once: a second run over the graph (retain_graph=True) raises "
            f"{error_line(error)}",
        ) from error


_SCRIPT = (
    GRAPH
    + """
watched = [*given, *outputs, *grads]
before = [each.detach().clone() for each in watched]
versions = [each._version for each in watched]
first = gradients(outputs, leaves, grads)
kept = tuple(each.clone() for each in first)
torch.testing.assert_close(watched, before, rtol=0, atol=0, equal_nan=True)
assert versions == [each._version for each in watched], "the backward writes to what it is given"
gradients(outputs, leaves, [3 * each for each in grads])
torch.testing.assert_close(first, kept, rtol=0, atol=0, equal_nan=True)
assert_same(gradients(outputs, leaves, grads), kept)
"""
)

FINDINGS = {
    "backward-mutates": Explanation(
        meaning=(
            "The backward writes to a tensor that it does not own: grad_output, an input, an "
            "output, or a tensor that it saved."
        ),
        why=(
            "Autograd passes the same grad_output to every branch of a sum, so other "
            "gradients of the model change, depending on the order in which they are "
            "computed. A second backward over the graph (retain_graph=True) starts from "
            "changed values."
        ),
        fix="Use the out-of-place form (mul, not mul_), or clone before writing.",
        before="""
def backward(ctx, grad):
    return grad.mul_(ctx.factor)
""",
        after="""
def backward(ctx, grad):
    return grad.mul(ctx.factor)
""",
        docs=(doc_links.EXTENDING, doc_links.AUTOGRAD_NOTES),
    ),
    "backward-not-repeatable": Explanation(
        meaning=(
            "A second backward over one graph (retain_graph=True) gives other gradients than "
            "the first."
        ),
        why=(
            "Several losses over one forward, gradient penalties and "
            "torch.autograd.functional run a backward more than once: all but the first are "
            "wrong, without an error."
        ),
        fix=(
            "Keep no state from one backward to the next: allocate accumulators anew, and do "
            "not change attributes of ctx."
        ),
        before="""
def backward(ctx, grad):
    ctx.total += grad                     # still holds the last one
    return ctx.total * ctx.factor
""",
        after="""
def backward(ctx, grad):
    total = torch.zeros_like(grad)
    total += grad
    return total * ctx.factor
""",
        docs=(doc_links.AUTOGRAD_NOTES,),
        follows=("backward-mutates", "uninitialized-gradient"),
    ),
    "gradient-overwritten": Explanation(
        meaning="The backward returns memory that its next call writes to.",
        why=(
            "Autograd may keep a returned tensor as .grad without copying it: the next call "
            "then overwrites the gradient of another parameter."
        ),
        fix="Return fresh memory from the backward, not a workspace.",
        before="""
def backward(ctx, grad):
    torch.mul(grad, ctx.factor, out=WORKSPACE)
    return WORKSPACE
""",
        after="""
def backward(ctx, grad):
    return torch.mul(grad, ctx.factor)
""",
        docs=(doc_links.EXTENDING,),
    ),
}

CHECK = Check(
    name="backward.intact",
    summary="the backward writes only to what it owns, and gives the same gradients when it runs again",
    run=check_intact,
    variants=("shape", "large", "arguments"),
    cheap_variants=("arguments",),
    gradients=True,
    needs_autograd=True,
    repro=_SCRIPT,
    findings=FINDINGS,
    catches=(
        "A backward that writes to grad_output, to arguments (except those that the schema "
        "declares as mutated), to outputs or to saved tensors; that gives other gradients "
        "when it runs again over the same graph; or that returns memory which the next "
        "backward overwrites."
    ),
    cannot_see=(
        "Formulas that support only one backward over a graph: a backward that raises the "
        "second time is a skip, `once-only`."
    ),
    cost="calls",
)
