"""What `reference.*` find."""

from __future__ import annotations

from ...findings import doc_links
from ...findings.explanation import Explanation

FINDINGS: dict[str, Explanation] = {
    "reference-mismatch": Explanation(
        meaning=(
            "The op returns, or writes to a mutated argument, other values than the mark's reference."
        ),
        fix=(
            "Mend the kernel. If only rounding differs, give the mark tolerances=; if the reference is "
            "wrong, mend that."
        ),
        why="The op computes something else than its author says it does.",
        before="def kernel(x):\n    return torch.from_numpy(np.sin(x.numpy())) * 180 / np.pi",
        after="def kernel(x):\n    return torch.from_numpy(np.sin(x.numpy()))",
        docs=("https://docs.pytorch.org/docs/stable/testing.html",),
    ),
    "reference-gradient-mismatch": Explanation(
        meaning=(
            "For the same grad_output the op's backward gives another gradient than the mark's "
            "reference, or none where the reference has one."
        ),
        fix=(
            "Mend the backward formula, or the order in which it returns gradients: one an argument, "
            "None for those without."
        ),
        why=(
            "Training goes astray without an error. Where gradcheck is left out on purpose, as for a "
            "straight-through estimator, this is the check that holds the gradient to what was meant."
        ),
        before="def backward(ctx, grad):\n    return grad * (ctx.x.abs() < 1)  # meant: <= 1",
        after="def backward(ctx, grad):\n    return grad * (ctx.x.abs() <= 1)",
        docs=(doc_links.REGISTER_AUTOGRAD,),
        follows=("gradient-mismatch", "backward-raises"),
    ),
}
