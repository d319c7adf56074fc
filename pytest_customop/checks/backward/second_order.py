"""`backward.second_order`: second-order gradients are connected to the first-order ones, or rejected."""

from __future__ import annotations

import torch
from torch import Tensor

from ...cases.case import Case
from ...cases.tensors import in_double
from ...core import rng
from ...core.tracebacks import reraise_bug
from ...findings import Explanation, doc_links, fail
from ..check import Check
from .scripts import GRAPH
from .vjp import Graph, Reference, same


def check_second_order(case: Case) -> None:
    """Check that gradients that depend on grad_output are connected to it under create_graph=True.

    Such a gradient is linear in grad_output, so a second derivative exists for every op.
    """
    reference = Reference.of(case)
    graph = Graph(case)
    weights = [weight.requires_grad_() for weight in graph.given(reference.weights)]
    rng.seed(case.seed)
    try:
        grads = torch.autograd.grad(
            [output for _, output in graph.outputs],
            [tensor for _, tensor in graph.inputs],
            weights,
            create_graph=True,
            allow_unused=True,
        )
    except Exception as error:  # whatever a backward raises: it rejects second order
        reraise_bug(error)
        return
    named = zip([name for name, _ in graph.inputs], grads, strict=True)
    cut = [name for name, grad in named if grad is not None and _is_cut(grad)]
    if not cut:
        return
    second = Graph(case)
    try:
        doubled = second.vjp(second.given([2 * weight for weight in reference.weights]))
    except Exception as error:  # whatever a backward raises
        reraise_bug(error)
        return
    base = reference.gradients
    for name in cut:
        if name in doubled and not same({name: base[name]}, {name: doubled[name]}):
            raise fail(
                "second-order-lost",
                f"with create_graph=True the gradient for `{name}` is not connected to grad_output, "
                "without an error: second-order gradients leave it out",
            )


def _is_cut(gradient: Tensor) -> bool:
    return not gradient.requires_grad and bool(in_double(gradient).any())


_SCRIPT = (
    GRAPH
    + """
for each in grads:
    each.requires_grad_()
try:
    found = torch.autograd.grad(outputs, leaves, grads, create_graph=True, allow_unused=True)
except Exception:
    found = []  # rejected, and so not silently wrong
for each in found:
    cut = each is not None and each.any() and not each.requires_grad
    assert not cut, "not connected to grad_output: second-order gradients lack this part"
"""
)

FINDINGS = {
    "second-order-lost": Explanation(
        meaning=(
            "With create_graph=True the gradient depends on grad_output but is not connected "
            "to it: second-order gradients leave this part out, without an error."
        ),
        why=(
            "Gradient penalties, Hessians and meta-learning silently compute with a constant "
            "in place of the gradient."
        ),
        fix=(
            "Write the backward with differentiable operations: no .detach(), .data or "
            "torch.no_grad() on the way from grad_output. Or reject second order: decorate "
            "the backward with @torch.autograd.function.once_differentiable, or let it call "
            "a custom op without a formula."
        ),
        before="""
def backward(ctx, grad):
    with torch.no_grad():
        return kernel(grad)
""",
        after="""
@torch.autograd.function.once_differentiable
def backward(ctx, grad):
    return kernel(grad)
""",
        docs=(doc_links.ONCE_DIFFERENTIABLE, doc_links.SAVE_FOR_BACKWARD),
    ),
}

CHECK = Check(
    name="backward.second_order",
    summary="second-order gradients are connected to the first-order ones, or rejected",
    run=check_second_order,
    gradients=True,
    needs_autograd=True,
    repro=_SCRIPT,
    findings=FINDINGS,
    catches=(
        "A gradient that depends on grad_output but, with `create_graph=True`, is not "
        "connected to it, although the backward neither raises nor warns."
    ),
    cannot_see=(
        "A connected part that is wrong, and a part that is cut off from the *inputs*: only "
        "`gradcheck.double` finds these, in float64."
    ),
    cost="calls",
)
