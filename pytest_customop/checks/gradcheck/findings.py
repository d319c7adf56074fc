"""What `gradcheck.*` find: the formula beside finite differences."""

from __future__ import annotations

from ...findings import doc_links
from ...findings.explanation import Explanation

_STABLE = "https://docs.pytorch.org/docs/stable"
_GRADGRADCHECK = f"{_STABLE}/generated/torch.autograd.gradcheck.gradgradcheck.html"
_ONCE = f"{_STABLE}/generated/torch.autograd.function.once_differentiable.html"

FINDINGS: dict[str, Explanation] = {
    "gradient-mismatch": Explanation(
        meaning="The gradients of the autograd formula are not the ones that finite differences give.",
        why="Training follows another direction than downhill, without an error.",
        fix=(
            "Derive the formula again for the input named; check that gradients are returned in the "
            "order of the arguments, and that complex gradients are conjugated as torch expects."
        ),
        before="""
def backward(ctx, grad):
    (z,) = ctx.saved_tensors
    return grad * 2 * z
""",
        after="""
def backward(ctx, grad):
    (z,) = ctx.saved_tensors
    return grad * 2 * z.conj()
""",
        docs=(doc_links.GRADCHECK, doc_links.GRADCHECK_NOTES, doc_links.AUTOGRAD_NOTES),
        follows=("backward-not-linear",),
    ),
    "gradient-missing": Explanation(
        meaning="The backward returns None, or zeros, for an input that the output depends on.",
        why="That input never learns, and autograd takes None for a gradient of zero without a word.",
        fix=(
            "Return the gradient of that input from the backward; None is for inputs that need none. "
            "For an input that is not meant to have one, say tensor(..., requires_grad=False)."
        ),
        before="""
def backward(ctx, grad):
    x, w = ctx.saved_tensors
    return grad * w, None
""",
        after="""
def backward(ctx, grad):
    x, w = ctx.saved_tensors
    return grad * w, grad * x
""",
        docs=(doc_links.REGISTER_AUTOGRAD, doc_links.GRADCHECK),
    ),
    "gradient-of-a-step-function": Explanation(
        meaning=(
            "Finite differences are zero and the formula's gradient is not: at this step size the op "
            "is constant, as an op that rounds to a grid is."
        ),
        why=(
            "Either the gradient is an estimate on purpose (straight-through), or the op loses the "
            "precision that its gradient claims; only its author can tell."
        ),
        fix=(
            "If the op rounds (8-bit images, quantisation), compare on its grid: "
            "gradcheck=GradOptions(eps=<a multiple of the step>) with inputs on the grid, or give a "
            "reason to leave it out; if an output is not meant to be differentiable, "
            "ctx.mark_non_differentiable(it); if it should not round, compute in floating point."
        ),
        before="""
@customop_cases("mylib::quantise", samples=[(tensor(3, 64),)])
def test_quantise(): ...
""",
        after="""
@customop_cases("mylib::quantise", samples=[(tensor(3, 64),)], gradcheck="straight-through")
def test_quantise(): ...
""",
        docs=(doc_links.GRADCHECK, doc_links.GRADCHECK_NOTES),
    ),
    "second-order-gradient-mismatch": Explanation(
        meaning=(
            "Gradients of gradients are not the ones that finite differences of the first-order ones "
            "give."
        ),
        why="Gradient penalties, Hessians and meta-learning compute with wrong numbers.",
        fix=(
            "Differentiate the backward again: every tensor that it uses must be an input or an "
            "output saved with ctx.save_for_backward, and every op it calls needs a right formula "
            "of its own. Where no second order is meant, refuse it: "
            "@torch.autograd.function.once_differentiable."
        ),
        before="""
def backward(ctx, grad):
    (x,) = ctx.saved_tensors
    return 3 * x.detach() ** 2 * grad
""",
        after="""
def backward(ctx, grad):
    (x,) = ctx.saved_tensors
    return 3 * x**2 * grad
""",
        docs=(_GRADGRADCHECK, _ONCE),
        follows=("second-order-lost",),
    ),
}
