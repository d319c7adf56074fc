"""What `gradcheck.*` find: the formula beside finite differences."""

from __future__ import annotations

from .entry import Explanation

ENTRIES: dict[str, Explanation] = {
    "gradient-mismatch": Explanation(
        meaning=(
            "The gradients of the autograd formula are not the ones that finite differences give."
        ),
        fix=(
            "Derive the formula again for the input named; check that gradients are returned "
            "in the order of the arguments, and that complex gradients are conjugated as "
            "torch expects."
        ),
    ),
    "gradient-missing": Explanation(
        meaning=("The backward returns None, or zeros, for an input that the output depends on."),
        fix=(
            "Return the gradient of that input from the backward; None is for inputs that "
            "need none."
        ),
    ),
    "gradient-of-a-step-function": Explanation(
        meaning=(
            "Finite differences are zero and the formula's gradient is not: at this step size "
            "the op is constant, as an op that rounds to a grid is."
        ),
        fix=(
            "If the op rounds (8-bit images, quantisation), compare on its grid: "
            "gradcheck=GradOptions(eps=<a multiple of the step>) with inputs on the grid, or "
            "give a reason to leave it out; if it should not round, compute in floating "
            "point."
        ),
    ),
    "second-order-gradient-mismatch": Explanation(
        meaning=(
            "Gradients of gradients are not the ones that finite differences of the first- "
            "order ones give."
        ),
        fix=(
            "Differentiate the backward again: every tensor that it uses must be saved with "
            "ctx.save_for_backward, and every op it calls needs a right formula of its own."
        ),
    ),
}
