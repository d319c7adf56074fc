"""Findings that several checks of the family report."""

from __future__ import annotations

from ...findings import Explanation, doc_links

FINDINGS = {
    "untagged-returned-argument": Explanation(
        meaning=(
            "The op returns an argument that it writes to, as its schema declares, but has no "
            "tag for that kind of op."
        ),
        why=(
            "torch.compile rewrites mutations into pure functions, and rejects a returned "
            "argument unless a tag declares an in-place op or an out variant."
        ),
        fix=(
            "Give the op tags=(torch.Tag.inplace,) if it changes and returns its first "
            "argument, or tags=(torch.Tag.out,) if it fills and returns keyword-only out "
            "arguments (torch 2.13 and later have these tags). Or let it return nothing."
        ),
        before="""
lib.define("add_one_(Tensor(a!) x) -> Tensor(a!)")
""",
        after="""
lib.define("add_one_(Tensor(a!) x) -> Tensor(a!)", tags=(torch.Tag.inplace,))
""",
        docs=(doc_links.LIBRARY, doc_links.COMPILE),
    ),
    "opcheck-failure": Explanation(
        meaning="A torch.library.opcheck utility failed; its message is given unchanged.",
        why="According to torch, the op breaks a rule that torch's subsystems rely on.",
        fix="Read torch's message.",
        docs=(doc_links.OPCHECK,),
    ),
}
