"""Findings that any check may report: the op raises, returns what torch rejects, crashes, or hangs."""

from __future__ import annotations

from . import doc_links
from .explanation import Explanation

FINDINGS = {
    "eager-raises": Explanation(
        meaning="The op itself raises on this case, before any check looks at it.",
        why=(
            "No check can judge a case on which the op raises, so every check of the case "
            "reports this one finding."
        ),
        fix=(
            "If the op must accept these arguments, correct the kernel. If it does not "
            "support them, remove them from the samples, or name the cells with skip_if=."
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
    "output-alias-rejected": Explanation(
        meaning=(
            "torch rejects what the op returns: an output is an argument of the op, or shares "
            "memory with an argument or with another output."
        ),
        why=(
            "The schema promises fresh outputs. torch.library.custom_op checks every call, and "
            "raises after the kernel has run."
        ),
        fix=(
            "Return a copy where the kernel has nothing to do: return x.clone(). Allocate each output "
            "separately, or copy the parts of a common buffer: [part.clone() for part in parts]. If the "
            "op is meant to change its argument, declare mutates_args={'x'} and return nothing."
        ),
        before="""
@torch.library.custom_op("mylib::dense", mutates_args=())
def dense(x: Tensor) -> Tensor:
    return x.contiguous()             # x itself, if it is contiguous already
""",
        after="""
@torch.library.custom_op("mylib::dense", mutates_args=())
def dense(x: Tensor) -> Tensor:
    return x.clone(memory_format=torch.contiguous_format)
""",
        docs=(doc_links.CUSTOM_OP, doc_links.TENSOR_VIEWS),
    ),
    "crash": Explanation(
        meaning=(
            "The process that ran the op ended: by a signal (SIGSEGV, SIGABRT, ...), by a "
            "call of exit, or because it ran out of memory. Or the op has left a GPU unusable for the "
            "process: after an illegal memory access, every call on it raises."
        ),
        why=(
            "Python cannot catch it: training ends without a checkpoint, and a server drops "
            "every other request. If the op reads or writes outside its memory without "
            "crashing, results are wrong."
        ),
        fix=(
            "SIGSEGV and SIGBUS: look for an index out of range, for code that assumes "
            "contiguous strides, and for a pointer that outlives its tensor. SIGABRT: raise "
            "an exception (TORCH_CHECK in C++) instead of calling abort or assert. The stack "
            "above, if there is one, ends where it happened."
        ),
        before="""
out = torch.empty_like(x)
lib.scale(x.data_ptr(), out.data_ptr(), x.numel())
""",
        after="""
x = x.contiguous()
out = torch.empty_like(x)
lib.scale(x.data_ptr(), out.data_ptr(), x.numel())
""",
        docs=(doc_links.CUSTOM_OP,),
    ),
    "hang": Explanation(
        meaning=(
            "The op, or a check of it, did not finish within --customop-timeout, or computed nothing for "
            "30 seconds."
        ),
        why="A job that hangs occupies its machine until someone notices.",
        fix=(
            "The stack above shows where it was. Look for a loop whose end depends on values (NaN, zero, "
            "an empty tensor), a lock that is taken twice or that an earlier call kept when it raised "
            "(`with lock:` releases it), or a wait for a thread or process that has ended. If the op is "
            "only slow, use smaller samples "
            "or a larger --customop-timeout."
        ),
        before="""
while abs(step) > eps:  # never false once step is NaN
    step = step / 2 + noise
""",
        after="""
for _ in range(100):
    if not abs(step) > eps:
        break
    step = step / 2 + noise
""",
        docs=(doc_links.CUSTOM_OP,),
    ),
}
