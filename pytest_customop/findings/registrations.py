"""Findings of the audit of a scan: what the schema and the registrations of an op show by themselves."""

from __future__ import annotations

from . import doc_links
from .explanation import Explanation

FINDINGS = {
    "inplace-undeclared": Explanation(
        meaning=(
            "The name of the op ends in an underscore, which says that it writes to an argument, and its "
            "schema says that it writes to none."
        ),
        why=(
            "Readers take the call for one in place. If it is one, compilers may move or remove it, "
            "because the schema hides the write; if it is none, the result is easily dropped."
        ),
        fix=(
            "Declare what is written to (mutates_args={'x'}, or Tensor(a!) in the schema) and return "
            "nothing, or leave the underscore out of the name."
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
        meaning="The op has an autograd formula, and no output that could require gradients.",
        why="The formula never runs: no tensor comes out of the op, so that no gradient comes back.",
        fix=(
            "Remove the formula, or return the tensor that gradients are meant to flow through. An "
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
            "Compilers see the ops it is made of, so the fake kernel is never needed. Where torch "
            "does call it, on meta tensors, it can only disagree with them."
        ),
        fix=(
            "Remove the fake kernel. If compilers are to see one op, register the kernel as "
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
        why="A call that works on one device raises on the other, for one overload and not the next.",
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
