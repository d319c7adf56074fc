"""The op itself."""

from __future__ import annotations

from . import doc_links
from .explanation import Explanation

ENTRIES: dict[str, Explanation] = {
    "eager-raises": Explanation(
        meaning="The op itself raises on this case, before any check looks at it.",
        why=(
            "Nothing else can be said about a case that the op does not take, so every check of it "
            "reports this one finding."
        ),
        fix=(
            "If these arguments are ones the op must take, mend the kernel; if it does not support "
            "them, take them out of the samples, or name the cells with skip_if=."
        ),
        before="""
@customop_cases(my_op, [(tensor(3, 4),)], dtypes=[torch.float32, torch.int64])
def test_my_op(): ...
""",
        after="""
@customop_cases(
    my_op,
    [(tensor(3, 4),)],
    dtypes=[torch.float32, torch.int64],
    skip_if=lambda cell: "no integer kernel" if cell.dtype == torch.int64 else None,
)
def test_my_op(): ...
""",
        docs=(doc_links.CUSTOM_OP,),
    ),
}
