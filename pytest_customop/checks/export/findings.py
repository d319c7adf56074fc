"""What `export.*` find."""

from __future__ import annotations

from ...findings import doc_links
from ...findings.explanation import Explanation

FINDINGS: dict[str, Explanation] = {
    "export-mismatch": Explanation(
        meaning=(
            "The program that torch.export makes of the op promises or gives something else than the "
            "op in eager mode, or cannot be made because the op's own code raises."
        ),
        fix=(
            "Do the same while exporting as at other times: no torch.compiler.is_exporting() that "
            "changes the result, in the kernel, the fake kernel or a Python implementation."
        ),
        why="What was exported is deployed, and differs from what was trained and tested.",
        before=(
            "def kernel(x):\n"
            "    if torch.compiler.is_exporting():\n"
            "        return x * torch.sigmoid(1.7 * x)  # the same, nearly\n"
            "    return torch.nn.functional.gelu(x)"
        ),
        after="def kernel(x):\n    return torch.nn.functional.gelu(x)",
        docs=(doc_links.EXPORT,),
        follows=("fake-raises", "fake-missing", "fake-shape-mismatch", "fake-dtype-mismatch"),
    ),
}
