"""What `compile.*` find: the compiled op beside the eager one."""

from __future__ import annotations

from ...findings import doc_links
from ...findings.explanation import Explanation

# Compiled code believes the schema and the fake kernel, and takes a kernel for a pure function.
_BELIEVED = ("opcheck.*", "values.*", "state.*", "fake.*")

FINDINGS: dict[str, Explanation] = {
    "compile-graph-break": Explanation(
        meaning="torch.compile(fullgraph=True) cannot trace the call without a graph break.",
        why=(
            "A graph break splits the model around the op: slower code, and an error for everybody "
            "who compiles with fullgraph=True or exports."
        ),
        fix=(
            "Register what the tracer misses (usually a fake kernel), and call the op through "
            "torch.ops or its CustomOpDef, not through a Python wrapper that looks at data."
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
        follows=_BELIEVED,
    ),
    "compile-error": Explanation(
        meaning="The op works in eager mode and raises when it is compiled.",
        why="Nobody who compiles a model can use the op in it.",
        fix=(
            "Read the cut traceback below the message; a fake kernel that does not tell the truth "
            "is the usual cause."
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
        follows=_BELIEVED,
    ),
    "compile-stride-assert": Explanation(
        meaning=(
            "Compiled code found that the op returned other strides than its fake kernel promised."
        ),
        why=(
            "Inductor checks what an op returns before it reads the memory, and stops here; with "
            "its checks off, or on another backend, it would read the wrong elements."
        ),
        fix=(
            "Mend the strides of the fake kernel of the op that the message names; for one that the "
            "backward calls, fake.backward shows the row."
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
        follows=_BELIEVED,
    ),
    "compile-output-mismatch": Explanation(
        meaning="The compiled op returns other values than the eager one.",
        why="A model gives other results compiled than in eager mode, without an error.",
        fix=(
            "Look for a fake kernel with other strides or dtypes than the real one, an argument "
            "that is mutated and not declared, an output that shares memory with an input, or a "
            "lazy .conj() inside the kernel (end it with .resolve_conj())."
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
        follows=_BELIEVED,
    ),
    "compile-mutation-mismatch": Explanation(
        meaning=(
            "After the compiled call a mutated argument holds other values than after the eager "
            "call."
        ),
        why="Buffers, caches and running statistics drift apart between compiled and eager runs.",
        fix=(
            "Declare every argument that the op writes to (mutates_args=, Tensor(a!)), and only "
            "those."
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
        follows=_BELIEVED,
    ),
    "compile-gradient-mismatch": Explanation(
        meaning=(
            "The compiled op gives other gradients than the eager one, or None in place of one."
        ),
        why="A compiled model trains on wrong gradients, or a parameter is silently never updated.",
        fix=(
            "Write the backward with ops that torch.compile can trace, without side effects, and "
            "with fake kernels that are right for every op it calls."
        ),
        before="""
_shapes = []

def _setup(ctx, inputs, output):
    _shapes.append(inputs[0].shape)                    # once at compile time, not once a call
""",
        after="""
def _setup(ctx, inputs, output):
    ctx.shape = inputs[0].shape
""",
        docs=(doc_links.REGISTER_AUTOGRAD, doc_links.COMPILE),
        follows=(*_BELIEVED, "backward-raises"),
    ),
    "compile-recompiles": Explanation(
        meaning=(
            "A size that does not have to be constant was made one, so that another size compiles "
            "again."
        ),
        why=(
            "Every new batch size costs a compilation, until dynamo's recompile limit is reached "
            "and the rest runs uncompiled."
        ),
        fix="Leave sizes symbolic in the fake kernel and in the backward: no int(x.shape[i]).",
        before="""
def _setup(ctx, inputs, output):
    ctx.rows = int(inputs[0].shape[0])
""",
        after="""
def _setup(ctx, inputs, output):
    ctx.rows = inputs[0].shape[0]
""",
        docs=(doc_links.DYNAMIC_SHAPES,),
        follows=_BELIEVED,
    ),
    "autocast-fake-mismatch": Explanation(
        meaning="Under torch.autocast the op returns another dtype than its fake kernel says.",
        fix=(
            "Let the result not depend on the ambient autocast: compute under "
            "torch.autocast(x.device.type, enabled=False), or cast the result back to x.dtype. An op "
            "that shall run in lower precision under autocast says so with "
            "torch.library.register_autocast."
        ),
        why=(
            "A Python kernel that calls matmul gets bfloat16 results under autocast. Fake kernels, and "
            "kernels inside compiled code, run with autocast off: compiled, the same model goes on in "
            "another dtype, or fails at the next op that wants two of one dtype."
        ),
        before="def kernel(x, w):\n    return x @ w  # bfloat16 under autocast",
        after=(
            "def kernel(x, w):\n"
            "    with torch.autocast(x.device.type, enabled=False):\n"
            "        return x @ w"
        ),
        docs=(
            "https://docs.pytorch.org/docs/stable/library.html#torch.library.register_autocast",
            "https://docs.pytorch.org/docs/stable/amp.html",
        ),
    ),
    "compile-autocast-mismatch": Explanation(
        meaning="Under torch.autocast the compiled op gives something else than the eager one.",
        fix=(
            "Do not ask for the ambient autocast state in a kernel: compiled code runs with autocast "
            "off, because its casts are traced already. Use torch.library.register_autocast."
        ),
        why=(
            "Mixed-precision training computes something else as soon as it is compiled, or the other "
            "way round."
        ),
        before=(
            "def kernel(x):\n"
            "    low = torch.is_autocast_enabled(x.device.type)\n"
            "    return (x.half() ** 2).float() if low else x**2  # 300 overflows"
        ),
        after=(
            "def kernel(x):\n"
            "    return x**2\n"
            "\n"
            'torch.library.register_autocast("mylib::square", "cpu", torch.bfloat16)'
        ),
        docs=(
            "https://docs.pytorch.org/docs/stable/library.html#torch.library.register_autocast",
            "https://docs.pytorch.org/docs/stable/amp.html",
        ),
        follows=("autocast-fake-mismatch",),
    ),
}
