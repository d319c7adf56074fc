"""What `vmap.*` find."""

from __future__ import annotations

from ...findings import doc_links
from ...findings.explanation import Explanation

FINDINGS: dict[str, Explanation] = {
    "vmap-mismatch": Explanation(
        meaning="torch.vmap of the op gives other results than a loop over the batch.",
        fix=(
            "In the vmap rule, move each batched argument's dim to where the op wants it "
            "(x.movedim(in_dims[0], 0)), give unbatched arguments a dim of size 1, and return the dim "
            "that the output's batch really has."
        ),
        why=(
            "torch.vmap, torch.func.jacrev and per-sample gradients use the rule: they mix up samples "
            "without an error."
        ),
        before="def rule(info, in_dims, x, y):\n    return scale(x, y), 0  # in_dims is not looked at",
        after=(
            "def rule(info, in_dims, x, y):\n"
            "    x = x.movedim(in_dims[0], 0) if in_dims[0] is not None else x[None]\n"
            "    y = y.movedim(in_dims[1], 0) if in_dims[1] is not None else y[None]\n"
            "    return scale(x, y), 0"
        ),
        docs=(
            doc_links.REGISTER_VMAP,
            "https://docs.pytorch.org/docs/stable/generated/torch.vmap.html",
        ),
    ),
    "vmap-raises": Explanation(
        meaning="The op's vmap rule raises on a batch whose single calls all work.",
        fix=(
            "Let the rule take every in_dims: None where an argument is not batched, and any dim where "
            "it is. What it does not support it can refuse with NotImplementedError."
        ),
        why="torch.vmap fails with an error from inside the rule, for a call that is right.",
        before="def rule(info, in_dims, x, y):\n    return scale(x, y.movedim(in_dims[1], 0)), 0",
        after=(
            "def rule(info, in_dims, x, y):\n"
            "    y = y if in_dims[1] is None else y.movedim(in_dims[1], 0)\n"
            "    ..."
        ),
        docs=(doc_links.REGISTER_VMAP,),
    ),
}
