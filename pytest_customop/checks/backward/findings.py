"""What `backward.*` find: what gradcheck cannot see of a formula."""

from __future__ import annotations

from ...findings import doc_links
from ...findings.explanation import Explanation

_STABLE = "https://docs.pytorch.org/docs/stable"
_CONTEXT = f"{_STABLE}/generated/torch.autograd.function.FunctionCtx"
_SAVE = f"{_CONTEXT}.save_for_backward.html"
_MATERIALIZE = f"{_CONTEXT}.set_materialize_grads.html"
_ONCE = f"{_STABLE}/generated/torch.autograd.function.once_differentiable.html"
_CONTIGUOUS = f"{_STABLE}/generated/torch.Tensor.contiguous.html"

FINDINGS: dict[str, Explanation] = {
    "backward-raises": Explanation(
        meaning="The backward raises although the forward worked.",
        why="Nothing that contains the op can be trained.",
        fix="Mend the backward; the cut traceback shows where.",
        before="""
def backward(ctx, grad):
    x, y = ctx.saved_tensors
    return grad * y               # the op has two inputs
""",
        after="""
def backward(ctx, grad):
    x, y = ctx.saved_tensors
    return grad * y, grad * x
""",
        docs=(doc_links.REGISTER_AUTOGRAD, doc_links.EXTENDING),
    ),
    "backward-not-linear": Explanation(
        meaning=(
            "The backward is not linear in grad_output, as every vector-Jacobian product is: scaling "
            "or adding up grad_outputs must scale or add up the gradients."
        ),
        why=(
            "Training goes wrong where grad_output is not what it was in the test: negative, large "
            "(a scaled loss), tiny, or the sum of several losses. gradcheck sends ones only."
        ),
        fix=(
            "Compute the gradient from grad_output by sums and products with values saved in "
            "forward; no rounding, clamping or 8-bit images on the way, and no constant in place of "
            "grad_output."
        ),
        before="""
def backward(ctx, grad):
    image = (grad * 255).byte()          # rounds, and wraps what is negative
    return paste(image).float() / 255
""",
        after="""
def backward(ctx, grad):
    return paste(grad)
""",
        docs=(doc_links.REGISTER_AUTOGRAD, doc_links.GRADCHECK),
    ),
    "grad-output-layout-refused": Explanation(
        meaning="The backward raises for a grad_output that is not contiguous.",
        why=(
            "The author of the loss does not choose the layout: y.sum() sends an expanded "
            "grad_output, y.mT a transposed one, torch.cat a slice of a larger one. Tests whose "
            "consumer happens to send a contiguous one pass."
        ),
        fix=(
            "Call grad = grad.contiguous() before code that needs it, and reshape() in place of "
            "view()."
        ),
        before="""
def backward(ctx, grad):
    return grad.view(-1)[ctx.places]
""",
        after="""
def backward(ctx, grad):
    return grad.reshape(-1)[ctx.places]
""",
        docs=(doc_links.EXTENDING, _CONTIGUOUS),
    ),
    "grad-output-layout-ignored": Explanation(
        meaning=(
            "The backward gives other gradients for the same grad_output in another memory layout: "
            "it reads the memory and not the strides."
        ),
        why=(
            "The author of the loss does not choose the layout: y.sum() sends an expanded "
            "grad_output, y.mT a transposed one, torch.cat a slice of a larger one. Gradients are "
            "then of wrong elements, or of memory that belongs to something else."
        ),
        fix=(
            "Call grad = grad.contiguous() before code that takes a pointer, or read the strides "
            "and the storage offset there."
        ),
        before="""
def backward(ctx, grad):
    return kernel(grad.data_ptr(), grad.numel())
""",
        after="""
def backward(ctx, grad):
    grad = grad.contiguous()
    return kernel(grad.data_ptr(), grad.numel())
""",
        docs=(doc_links.EXTENDING, _CONTIGUOUS),
    ),
    "unused-output-mishandled": Explanation(
        meaning=(
            "The backward raises, or gives other gradients than for zeros, where the loss does not "
            "use one of the outputs."
        ),
        why=(
            "With ctx.set_materialize_grads(False), and in C++, the grad_output of an unused output "
            "is None (an undefined tensor); a model that drops that output dies or learns nothing."
        ),
        fix=(
            "Treat a grad_output of None as zeros, each by itself; or leave "
            "ctx.set_materialize_grads at its default."
        ),
        before="""
def backward(ctx, grad_values, grad_norm):
    if grad_norm is None:
        return None                        # the values may be used all the same
    return grad_values * ctx.a + grad_norm * ctx.b
""",
        after="""
def backward(ctx, grad_values, grad_norm):
    gradient = grad_values * ctx.a if grad_values is not None else 0
    if grad_norm is not None:
        gradient = gradient + grad_norm * ctx.b
    return gradient
""",
        docs=(_MATERIALIZE, doc_links.EXTENDING),
    ),
    "backward-mutates": Explanation(
        meaning=(
            "The backward writes to a tensor that is not its own: grad_output, an input, an output, "
            "or a tensor that it saved."
        ),
        why=(
            "Autograd hands the same grad_output to every branch of a sum, so that other gradients "
            "of the model change, by the order in which they are computed; a second backward over "
            "the graph (retain_graph=True) starts from other values."
        ),
        fix="Use the out-of-place form (mul, not mul_), or clone before writing.",
        before="""
def backward(ctx, grad):
    return grad.mul_(ctx.factor)
""",
        after="""
def backward(ctx, grad):
    return grad.mul(ctx.factor)
""",
        docs=(doc_links.EXTENDING, doc_links.AUTOGRAD_NOTES),
    ),
    "backward-not-repeatable": Explanation(
        meaning=(
            "A second backward over one graph (retain_graph=True) gives other gradients than the "
            "first."
        ),
        why=(
            "Several losses over one forward, gradient penalties and torch.autograd.functional run "
            "a backward more than once: all but the first are wrong, and nothing says so."
        ),
        fix=(
            "Keep no state from one backward to the next: allocate what you add up in, and do not "
            "change attributes of ctx."
        ),
        before="""
def backward(ctx, grad):
    ctx.total += grad                     # still holds the last one
    return ctx.total * ctx.factor
""",
        after="""
def backward(ctx, grad):
    total = torch.zeros_like(grad)
    total += grad
    return total * ctx.factor
""",
        docs=(doc_links.AUTOGRAD_NOTES,),
        follows=("backward-mutates",),
    ),
    "gradient-overwritten": Explanation(
        meaning="The backward returns memory that its next call writes to.",
        why=(
            "Autograd may keep a returned tensor as .grad without copying it: the gradient of one "
            "parameter turns into that of another at the next call."
        ),
        fix="Return fresh memory from the backward, not a workspace.",
        before="""
def backward(ctx, grad):
    torch.mul(grad, ctx.factor, out=WORKSPACE)
    return WORKSPACE
""",
        after="""
def backward(ctx, grad):
    return torch.mul(grad, ctx.factor)
""",
        docs=(doc_links.EXTENDING,),
    ),
    "needs-input-grad-mishandled": Explanation(
        meaning=(
            "The backward raises, or gives other gradients, where only some of the inputs require "
            "them."
        ),
        why=(
            "Frozen weights and inputs that are data are the rule: the shortcut for them takes the "
            "wrong gradient along, and training goes wrong without an error."
        ),
        fix=(
            "Decide for each input by its own entry of ctx.needs_input_grad, which stand in the "
            "order of the arguments; return None only where the entry is False."
        ),
        before="""
def backward(ctx, grad):
    x, w = ctx.saved_tensors
    if not ctx.needs_input_grad[0]:
        return None, None
    return grad * w, grad * x
""",
        after="""
def backward(ctx, grad):
    x, w = ctx.saved_tensors
    wanted = ctx.needs_input_grad
    return grad * w if wanted[0] else None, grad * x if wanted[1] else None
""",
        docs=(doc_links.EXTENDING, doc_links.REGISTER_AUTOGRAD),
    ),
    "saved-tensor-stale": Explanation(
        meaning=(
            "A tensor that the backward needs was written to after the forward, and autograd did "
            "not notice: the gradients are computed from the new values."
        ),
        why=(
            "An in-place operation on an activation, or an optimizer step between forward and "
            "backward, gives wrong gradients where autograd would have raised 'modified by an "
            "inplace operation'."
        ),
        fix=(
            "Save tensors with ctx.save_for_backward and read them from ctx.saved_tensors; not as "
            "attributes of ctx, not through .data or numpy()."
        ),
        before="""
def setup_context(ctx, inputs, output):
    ctx.x = inputs[0]
""",
        after="""
def setup_context(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])
""",
        docs=(_SAVE, doc_links.EXTENDING),
    ),
    "backward-state-shared": Explanation(
        meaning=(
            "Another call of the op between forward and backward changes the gradients, or makes "
            "the backward raise."
        ),
        why=(
            "A model that uses the op twice runs both forwards before the first backward: the "
            "gradients of one call are computed from the values of the other."
        ),
        fix="Keep what the backward needs on ctx, not in a global, a module or a workspace.",
        before="""
def setup_context(ctx, inputs, output):
    STATE["x"] = inputs[0]

def backward(ctx, grad):
    return grad * STATE["x"].cos()
""",
        after="""
def setup_context(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])

def backward(ctx, grad):
    (x,) = ctx.saved_tensors
    return grad * x.cos()
""",
        docs=(_SAVE, doc_links.EXTENDING),
    ),
    "tensors-kept-alive": Explanation(
        meaning=(
            "Inputs or outputs stay in memory when nothing refers to them any more: an output kept "
            "as an attribute of ctx refers to itself through its graph, a global to everything."
        ),
        why=(
            "Reference counting cannot free a cycle; Python's collector does so at some later time, "
            "and not because a device runs out of memory. Calls whose backward never runs pile up."
        ),
        fix=(
            "Save outputs with ctx.save_for_backward, which breaks the cycle; keep plain shapes and "
            "dtypes on ctx where these are all that is needed."
        ),
        before="""
def setup_context(ctx, inputs, output):
    ctx.like = output
""",
        after="""
def setup_context(ctx, inputs, output):
    ctx.shape = output.shape
""",
        docs=(_SAVE, doc_links.EXTENDING),
    ),
    "second-order-lost": Explanation(
        meaning=(
            "With create_graph=True the gradient depends on grad_output and is not connected to it: "
            "gradients of gradients leave this part out, and nothing says so."
        ),
        why=(
            "Gradient penalties, Hessians and meta-learning silently compute with a constant in "
            "place of the gradient."
        ),
        fix=(
            "Write the backward with differentiable operations, or refuse: put "
            "@torch.autograd.function.once_differentiable on it, or let it call a custom op "
            "without a formula. No .detach(), .data, torch.no_grad() on the way from grad_output."
        ),
        before="""
def backward(ctx, grad):
    with torch.no_grad():
        return kernel(grad)
""",
        after="""
@torch.autograd.function.once_differentiable
def backward(ctx, grad):
    return kernel(grad)
""",
        docs=(_ONCE, _SAVE),
    ),
    "checkpoint-mismatch": Explanation(
        meaning=(
            "Activation checkpointing calls the op again before its backward, and this second call "
            "is not like the first: the op raises, or the gradients are those of other outputs."
        ),
        why=(
            "torch.utils.checkpoint puts back torch's random streams and nothing else. What the op "
            "draws from a stream of its own, counts or caches is different the second time."
        ),
        fix=(
            "Draw random numbers from torch's own generators, or take the seed as an argument; "
            "save the same tensors in every call; read ctx.saved_tensors once in the backward, "
            "because checkpointing hands each tensor out once."
        ),
        before="""
GENERATOR = torch.Generator()
mask = torch.rand(x.shape, generator=GENERATOR) > p
""",
        after="""
mask = torch.rand(x.shape) > p
""",
        docs=(doc_links.CHECKPOINT,),
    ),
}
