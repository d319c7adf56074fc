"""Findings of a scan's audit, which reads only the schema and the registrations of an op."""

from __future__ import annotations

from . import doc_links
from .explanation import Explanation

FINDINGS = {
    "inplace-undeclared": Explanation(
        meaning=(
            "The op's name ends in an underscore, the mark of an in-place op, but its schema declares "
            "no write to an argument."
        ),
        why=(
            "Readers expect an in-place call. If the op does write, compilers may move or remove the "
            "call, because the schema hides the write. If not, callers may drop the result."
        ),
        fix=(
            "Declare the argument that is written to (mutates_args={'x'}, or Tensor(a!) in the schema) "
            "and return nothing, or remove the underscore from the name."
        ),
        before="""
lib.define("clamp_(Tensor x, float limit) -> Tensor")
""",
        after="""
lib.define("clamp_(Tensor(a!) x, float limit) -> ()")
""",
        docs=(doc_links.CUSTOM_OP, doc_links.LIBRARY),
    ),
    "formula-unused": Explanation(
        meaning="The op has an autograd formula, but no output that could require gradients.",
        why="The formula never runs: the op returns no tensor, so no gradient flows back.",
        fix=(
            "Remove the formula, or return the tensor through which gradients should flow. An "
            "output that is a Python number has no gradient."
        ),
        before="""
@torch.library.custom_op("mylib::norm", mutates_args=())
def norm(x: Tensor) -> float: ...

norm.register_autograd(backward)
""",
        after="""
@torch.library.custom_op("mylib::norm", mutates_args=())
def norm(x: Tensor) -> Tensor: ...

norm.register_autograd(backward)
""",
        docs=(doc_links.CUSTOM_OP,),
    ),
    "fake-unused": Explanation(
        meaning="An op that is made of other ops (CompositeImplicitAutograd) has a fake kernel too.",
        why=(
            "Compilers see the ops it is made of, so the fake kernel is never needed. On meta tensors "
            "torch does call it, and it can only disagree with those ops."
        ),
        fix=(
            "Remove the fake kernel. If compilers should see one op, register the kernel as "
            "CompositeExplicitAutograd, or for CPU and CUDA, and keep the fake kernel."
        ),
        before="""
lib.impl("scale", scale, "CompositeImplicitAutograd")
lib.impl("scale", scale_meta, "Meta")
""",
        after="""
lib.impl("scale", scale, "CompositeImplicitAutograd")
""",
        docs=(doc_links.REGISTER_FAKE, doc_links.LIBRARY),
    ),
    "overloads-differ": Explanation(
        meaning="Some overloads of an op have a kernel for one type of device, and others for another.",
        why="A call that works on one device raises on another, depending on the overload.",
        fix="Register kernels for the same overloads on each device.",
        before="""
lib.impl("scale", scale_cpu, "CPU")
lib.impl("scale.out", scale_out_cpu, "CPU")
lib.impl("scale", scale_cuda, "CUDA")
""",
        after="""
lib.impl("scale", scale_cuda, "CUDA")
lib.impl("scale.out", scale_out_cuda, "CUDA")
""",
        docs=(doc_links.LIBRARY,),
    ),
}
