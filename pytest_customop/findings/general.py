"""Findings that any check may report: the op raises, crashes or does not end."""

from __future__ import annotations

from . import doc_links
from .explanation import Explanation

FINDINGS: dict[str, Explanation] = {
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
    "crash": Explanation(
        meaning=(
            "The process that ran the op ended: by a signal (SIGSEGV, SIGABRT, ...), by a call of "
            "exit, or because it took more memory than there is."
        ),
        fix=(
            "SIGSEGV and SIGBUS: look for an index beyond the end, for strides that are taken to be "
            "contiguous, for a pointer kept after its tensor is gone. SIGABRT: raise an exception, "
            "with TORCH_CHECK in C++, instead of abort or assert. The stack above, if there is one, "
            "ends where it happened."
        ),
        why=(
            "Nothing can catch it: training ends without a checkpoint, a server takes every other "
            "request down with it. Where the op reads or writes beyond its memory without crashing, "
            "results are wrong."
        ),
        before="out = torch.empty_like(x)\nlib.scale(x.data_ptr(), out.data_ptr(), x.numel())",
        after=(
            "x = x.contiguous()\nout = torch.empty_like(x)\n"
            "lib.scale(x.data_ptr(), out.data_ptr(), x.numel())"
        ),
        docs=(doc_links.CUSTOM_OP,),
    ),
    "hang": Explanation(
        meaning="The op, or a check of it, did not end in the time that --customop-timeout allows.",
        fix=(
            "The stack above says where it was. Look for a loop whose end depends on values (NaN, "
            "zero, an empty tensor), for a lock that is taken twice, for a wait on a thread or "
            "process that has ended. If it is only slow, use smaller samples or a larger "
            "--customop-timeout."
        ),
        why="A job that hangs holds its machines until somebody looks.",
        before="while abs(step) > eps:  # never false once step is NaN\n    step = step / 2 + noise",
        after=(
            "for _ in range(100):\n    if not abs(step) > eps:\n        break\n"
            "    step = step / 2 + noise"
        ),
        docs=(doc_links.CUSTOM_OP,),
    ),
}
