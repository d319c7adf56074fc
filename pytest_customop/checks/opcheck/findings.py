"""What `opcheck.*` find: torch's own four utilities."""

from __future__ import annotations

from ...findings import doc_links
from ...findings.explanation import Explanation

FINDINGS: dict[str, Explanation] = {
    "untagged-returned-argument": Explanation(
        meaning=(
            "The op returns an argument that it writes to, as its schema says, and has no tag that "
            "tells torch which kind of op that is."
        ),
        why=(
            "torch.compile rewrites mutations into pure functions, and refuses a returned argument "
            "unless it is told that the op is an in-place op or an out variant."
        ),
        fix=(
            "Give the op tags=(torch.Tag.inplace,) if it changes and returns its first argument, "
            "tags=(torch.Tag.out,) if it fills and returns keyword-only out arguments (torch 2.13 "
            "and later have these tags); or let it return nothing."
        ),
        before="""
lib.define("add_one_(Tensor(a!) x) -> Tensor(a!)")
""",
        after="""
lib.define("add_one_(Tensor(a!) x) -> Tensor(a!)", tags=(torch.Tag.inplace,))
""",
        docs=(doc_links.LIBRARY, doc_links.COMPILE),
    ),
    "autograd-registration": Explanation(
        meaning="Gradients come from somewhere else than an Autograd registration.",
        why=(
            "A kernel for a device runs below autograd when it is compiled or transformed: its "
            "gradients exist in plain eager mode, and silently nowhere else."
        ),
        fix=(
            "Register the formula with torch.library.register_autograd; do not build it from "
            "torch.autograd.Function inside a CPU or CUDA kernel."
        ),
        before="""
lib.impl("sine", lambda x: SineFunction.apply(x), "CPU")
""",
        after="""
lib.impl("sine", sine_forward, "CPU")
torch.library.register_autograd(
    "mylib::sine", sine_backward, setup_context=sine_setup, lib=lib
)
""",
        docs=(doc_links.REGISTER_AUTOGRAD, doc_links.OPCHECK),
    ),
    "opcheck-failure": Explanation(
        meaning="A torch.library.opcheck utility failed with a message that is given as it is.",
        why="torch says that the op breaks one of the rules that its subsystems build on.",
        fix="Read the message; it is torch's.",
        docs=(doc_links.OPCHECK,),
    ),
}
