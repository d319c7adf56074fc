"""Findings that several checks of the family report.

Compiled code relies on the schema and on the fake kernel, and treats a kernel as a pure function. So
these findings may follow from any finding about the schema, the kernel or the fake kernel."""

from __future__ import annotations

from ...findings import Explanation, doc_links

_RELIED_ON = ("opcheck.*", "values.*", "state.*", "fake.*")
# Defects that make compiled code raise. A kernel that gives other values for other layouts does not.
_RAISED_BY = (
    "opcheck.*",
    "state.*",
    "fake.*",
    "undeclared-alias",
    "outputs-share-memory",
    "outputs-share-storage",
    "signature-differs",
    "undeclared-mutation",
    "write-outside-elements",
    "gradients-disconnected",
)

FINDINGS = {
    "compile-graph-break": Explanation(
        meaning="torch.compile(fullgraph=True) cannot trace the call without a graph break.",
        why=(
            "A graph break splits the model around the op: slower code, and an error with "
            "fullgraph=True or torch.export."
        ),
        fix=(
            "Register what the tracer misses (usually a fake kernel), and call the op "
            "through torch.ops or its CustomOpDef, not through a Python wrapper that looks "
            "at data."
        ),
        before="""
def _backward(ctx, grad):
    (x,) = ctx.saved_tensors
    return grad * (1.0 if x.max().item() > 0 else -1.0)
""",
        after="""
def _backward(ctx, grad):
    (x,) = ctx.saved_tensors
    return torch.where(x.max() > 0, grad, -grad)
""",
        docs=(doc_links.COMPILE, doc_links.REGISTER_FAKE),
        follows=_RELIED_ON,
    ),
    "compile-error": Explanation(
        meaning="The op works in eager mode and raises when it is compiled.",
        why="The op cannot be used in a compiled model.",
        fix=(
            "Read the shortened traceback below the message. The usual cause is a fake "
            "kernel that differs from the real one."
        ),
        before="""
@pair.register_fake
def _(x):
    return torch.empty_like(x)                         # the real op returns two tensors
""",
        after="""
@pair.register_fake
def _(x):
    return torch.empty_like(x), torch.empty_like(x)
""",
        docs=(doc_links.COMPILE, doc_links.REGISTER_FAKE),
        follows=_RAISED_BY,
    ),
    "compile-stride-assert": Explanation(
        meaning=(
            "Compiled code found that the op returned other strides than its fake kernel promised."
        ),
        why=(
            "Inductor checks what an op returns before it reads the memory, and stops here. "
            "Without this check, or with another backend, the wrong elements would be read."
        ),
        fix=(
            "Correct the strides of the fake kernel of the op that the message names. If the "
            "backward calls that op, fake.backward shows the difference."
        ),
        before="""
@paste.register_fake
def _(image, shape):
    return torch.empty_like(image)                     # strides of the example, not of the result
""",
        after="""
@paste.register_fake
def _(image, shape):
    return image.new_empty(image.shape).contiguous()   # and .contiguous() in the real kernel
""",
        docs=(doc_links.REGISTER_FAKE, doc_links.COMPILE),
        follows=_RELIED_ON,
    ),
    "compile-output-mismatch": Explanation(
        meaning="The compiled op returns other values than the eager one.",
        why="A compiled model gives other results than in eager mode, without an error.",
        fix=(
            "Look for a fake kernel with other strides or dtypes than the real one, an "
            "undeclared mutation of an argument, an output that shares memory with an "
            "input, or a lazy .conj() inside the kernel (end it with .resolve_conj())."
        ),
        before="""
@torch.library.custom_op("mylib::flip", mutates_args=())
def flip(x: Tensor) -> Tensor:
    return x.t()                                       # a view, which no schema declares
""",
        after="""
@torch.library.custom_op("mylib::flip", mutates_args=())
def flip(x: Tensor) -> Tensor:
    return x.t().contiguous()
""",
        docs=(doc_links.COMPILE, doc_links.CUSTOM_OP),
        follows=(*_RELIED_ON, "grad-mode-mismatch"),
    ),
    "compile-mutation-mismatch": Explanation(
        meaning=(
            "After the compiled call, a mutated argument holds other values than after the "
            "eager call."
        ),
        why="Buffers, caches and running statistics drift apart between compiled and eager runs.",
        fix=(
            "Declare every argument that the op writes to (mutates_args=, Tensor(a!)), and "
            "only those."
        ),
        before="""
@torch.library.custom_op("mylib::push", mutates_args=())
def push(cache: Tensor, x: Tensor) -> Tensor:
    cache.copy_(x)
    return x + 1
""",
        after="""
@torch.library.custom_op("mylib::push", mutates_args={"cache"})
def push(cache: Tensor, x: Tensor) -> Tensor:
    cache.copy_(x)
    return x + 1
""",
        docs=(doc_links.CUSTOM_OP,),
        follows=_RELIED_ON,
    ),
    "compile-gradient-mismatch": Explanation(
        meaning=(
            "The compiled op gives other gradients than the eager one, or None instead of one."
        ),
        why="A compiled model trains on wrong gradients, or a parameter is silently never updated.",
        fix=(
            "Write the backward with ops that torch.compile can trace, without side effects, "
            "and with fake kernels that are right for every op it calls."
        ),
        before="""
_shapes = []

def _setup(ctx, inputs, output):
    _shapes.append(inputs[0].shape)                    # once at compile time, not once per call
""",
        after="""
def _setup(ctx, inputs, output):
    ctx.shape = inputs[0].shape
""",
        docs=(doc_links.REGISTER_AUTOGRAD, doc_links.COMPILE),
        follows=(*_RELIED_ON, "backward-raises", "uninitialized-gradient"),
    ),
}
