"""What `backward.*` find: what gradcheck cannot see of a formula."""

from __future__ import annotations

from .entry import Explanation

ENTRIES: dict[str, Explanation] = {
    "backward-raises": Explanation(
        meaning=("The backward raises although the forward worked."),
        fix=("Mend the backward; the cut traceback shows where."),
    ),
    "backward-not-linear": Explanation(
        meaning=(
            "The backward is not linear in grad_output, as every vector-Jacobian product is: "
            "scaling or adding up grad_outputs must scale or add up the gradients."
        ),
        fix=(
            "Compute the gradient from grad_output by sums and products with values saved in "
            "forward; no rounding, clamping or 8-bit images on the way, and no constant in "
            "place of grad_output."
        ),
    ),
}
