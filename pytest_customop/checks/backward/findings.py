"""Findings that several checks of the family report, and checks of other families too."""

from __future__ import annotations

from ...findings import Explanation, doc_links

FINDINGS = {
    "backward-raises": Explanation(
        meaning="The backward raises although the forward worked.",
        why="Nothing that contains the op can be trained.",
        fix="Correct the backward; the shortened traceback shows where it raises.",
        before="""
def backward(ctx, grad):
    x, y = ctx.saved_tensors
    return grad * y               # the op has two inputs
""",
        after="""
def backward(ctx, grad):
    x, y = ctx.saved_tensors
    return grad * y, grad * x
""",
        docs=(doc_links.REGISTER_AUTOGRAD, doc_links.EXTENDING),
        follows=("gradients-disconnected",),
    ),
}
