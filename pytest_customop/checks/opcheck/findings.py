"""What `opcheck.*` find: torch's own four utilities."""

from __future__ import annotations

from ...findings import doc_links
from ...findings.explanation import Explanation

ENTRIES: dict[str, Explanation] = {
    "undeclared-mutation": Explanation(
        meaning="The op writes to an argument that its schema does not declare as mutated.",
        why=(
            "Autograd and the compiler believe the schema: saved tensors are stale without an error, "
            "and compiled code reorders or drops the write."
        ),
        fix=(
            "Name the argument in mutates_args= (or write Tensor(a!) in the schema), or copy it "
            "before writing."
        ),
        before="""
@torch.library.custom_op("mylib::center", mutates_args=())
def center(x: Tensor, mean: Tensor) -> Tensor:
    mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
    return x - mean
""",
        after="""
@torch.library.custom_op("mylib::center", mutates_args={"mean"})
def center(x: Tensor, mean: Tensor) -> Tensor:
    mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
    return x - mean
""",
        docs=(doc_links.CUSTOM_OP, doc_links.OPCHECK),
    ),
    "undeclared-alias": Explanation(
        meaning=(
            "The op returns memory that it shares with an argument or with another output, and its "
            "schema does not say so."
        ),
        why=(
            "An in-place op on the result changes the input as well; compiled code, which takes the "
            "two for different memory, gives other numbers than eager mode."
        ),
        fix="Return a copy: end the kernel with .clone().",
        before="""
@torch.library.custom_op("mylib::flat", mutates_args=())
def flat(x: Tensor) -> Tensor:
    return x.reshape(-1)              # a view of x, if x is contiguous
""",
        after="""
@torch.library.custom_op("mylib::flat", mutates_args=())
def flat(x: Tensor) -> Tensor:
    return x.reshape(-1).clone()
""",
        docs=(doc_links.CUSTOM_OP, doc_links.TENSOR_VIEWS),
    ),
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
