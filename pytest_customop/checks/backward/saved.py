"""`backward.saved`: nothing between forward and backward changes the gradients silently."""

from __future__ import annotations

import torch
from torch import Tensor

from ...cases.case import Case
from ...cases.tensors import Copier, is_differentiable, is_plain
from ...compat.nodes import is_overwritten_view
from ...core.tracebacks import error_line, reraise_bug, traceback_text
from ...findings import CheckSkipped, Explanation, doc_links, fail
from ..check import Check
from .scripts import GRAPH, filled
from .vjp import Gradients, Graph, Reference, call, table

_MOST = 8


def check_saved(case: Case) -> None:
    """Write to inputs and outputs, and call the op again, between forward and backward.

    Autograd may raise for a write; otherwise the gradients must stay the same.
    """
    reference = Reference.of(case)
    _between_calls(reference)
    graph = Graph(case)
    for at, (name, tensor) in enumerate(graph.arguments.tensors()[:_MOST]):
        if _changeable(tensor, graph):
            _changed(reference, f"the argument `{name}`", f"given[{at}]", at, None)
    for at, (name, tensor) in enumerate(graph.outputs[:_MOST]):
        if _changeable(tensor, graph):
            _changed(reference, name, f"outputs[{at}]", None, at)


def _changeable(tensor: Tensor, graph: Graph) -> bool:
    """Whether the tensor may be written to: it shares its storage with no other tensor.

    Integers and booleans are not written to: a kernel may use them as indices without a check.
    """
    if not is_plain(tensor) or not is_differentiable(tensor.dtype) or not tensor.numel():
        return False
    home = tensor.untyped_storage().data_ptr()
    tensors = [member for _, member in (*graph.arguments.tensors(), *graph.run.outputs)]
    return all(
        member is tensor or not is_plain(member) or member.untyped_storage().data_ptr() != home
        for member in tensors
    )


def _other_values(tensor: Tensor) -> Tensor:
    """Other values, none of larger magnitude: rows in reverse order, and halved."""
    value = tensor.detach().clone()
    flipped = value.flip(0) if value.dim() else value
    if value.dtype.itemsize == 1:
        return flipped
    return flipped * 0.5


def _changed(
    reference: Reference, name: str, expression: str, argument: int | None, output: int | None
) -> None:
    graph = Graph(reference.case)
    if argument is not None:
        tensor = graph.arguments.tensors()[argument][1]
    else:
        tensor = graph.outputs[output or 0][1]
    grads = graph.given(reference.weights)
    try:
        with torch.no_grad():
            tensor.copy_(_other_values(tensor))
        actual = graph.vjp(grads)
    except Exception as error:  # whatever autograd or the backward raises: the write is noticed
        reraise_bug(error)
        return
    what = f"{name} is written to between forward and backward"
    script = _stale_script(expression)
    _fail_if_changed(reference, actual, "saved-tensor-stale", what, f"{name} written to", script)


def _between_calls(reference: Reference) -> None:
    graph = Graph(reference.case)
    copier = Copier()

    def change(tensor: Tensor) -> Tensor:
        copy = copier(tensor)
        if is_plain(tensor) and is_differentiable(tensor.dtype):
            copy = _other_values(copy)
        return copy.requires_grad_(tensor.requires_grad)

    try:
        kept = call(reference.case, reference.case.inputs().map(change))
    except CheckSkipped:
        return  # the op may reject such values
    if any(is_overwritten_view(output) for _, output in graph.outputs):
        return  # the output itself is lost, which `values.repeat` reports
    what = "the op is called again, with other values, between forward and backward"
    try:
        actual = graph.vjp(graph.given(reference.weights))
    except Exception as error:  # whatever a backward raises
        reraise_bug(error)
        raise fail(
            "backward-state-shared",
            f"{what}, and the backward raises {error_line(error)}",
            traceback_text(error),
            repro=_INTERLEAVED,
        ) from error
    del kept
    _fail_if_changed(reference, actual, "backward-state-shared", what, "called again", _INTERLEAVED)


def _fail_if_changed(
    reference: Reference, actual: Gradients, code: str, what: str, description: str, script: str
) -> None:
    rows = reference.rows(description, actual, reference.gradients)
    wrong = next((row for row in rows if row.wrong), None)
    if wrong is not None:
        raise fail(
            code,
            f"{what}, and the gradient for `{wrong.input}` silently becomes {wrong.actual} in place of "
            f"{wrong.expected}",
            table(rows, "in between"),
            repro=script,
        )


_STALE = (
    GRAPH
    + """
expected = gradients(outputs, leaves, grads)
given, leaves, outputs = call()
with torch.no_grad():
    each = WHICH
    each.copy_(each.flip(0) * 0.5 if each.dim() else each * 0.5)
try:
    got = gradients(outputs, leaves, grads)
except RuntimeError:
    got = expected  # autograd noticed
assert_same(got, expected)
"""
)
_INTERLEAVED = (
    GRAPH
    + """
expected = gradients(outputs, leaves, grads)
given, leaves, outputs = call()
first, inputs = inputs, lambda: torch.utils._pytree.tree_map_only(
    torch.Tensor,
    lambda each: each.detach().flip(0).mul(0.5).requires_grad_(each.requires_grad)
    if each.dim() and each.is_floating_point() else each,
    first(),
)
call()  # with other values
assert_same(gradients(outputs, leaves, grads), expected)
"""
)


def _stale_script(which: str) -> str:
    """Lines that change a tensor, `given[0]` or `outputs[1]`, between forward and backward."""
    return filled(_STALE, WHICH=which)


FINDINGS = {
    "saved-tensor-stale": Explanation(
        meaning=(
            "A tensor that the backward needs was written to after the forward, and autograd "
            "did not notice: the gradients are computed from the new values."
        ),
        why=(
            "An in-place operation on an activation, or an optimizer step between forward "
            "and backward, gives wrong gradients where autograd should raise 'modified by an "
            "inplace operation'."
        ),
        fix=(
            "Save tensors with ctx.save_for_backward and read them from ctx.saved_tensors. "
            "Do not keep them as attributes of ctx, and do not read them through .data or "
            "numpy()."
        ),
        before="""
def setup_context(ctx, inputs, output):
    ctx.x = inputs[0]
""",
        after="""
def setup_context(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])
""",
        docs=(doc_links.SAVE_FOR_BACKWARD, doc_links.EXTENDING),
        follows=("uninitialized-gradient",),
    ),
    "backward-state-shared": Explanation(
        meaning=(
            "Another call of the op between forward and backward changes the gradients, or "
            "makes the backward raise."
        ),
        why=(
            "A model that uses the op twice runs both forwards before the first backward: "
            "the gradients of one call are computed from the values of the other."
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
        docs=(doc_links.SAVE_FOR_BACKWARD, doc_links.EXTENDING),
        follows=("uninitialized-gradient",),
    ),
}

CHECK = Check(
    name="backward.saved",
    summary="gradients do not change silently when a tensor is written to, or the op called, in between",
    run=check_saved,
    variants=("shape", "large", "arguments"),
    cheap_variants=("arguments",),
    gradients=True,
    needs_autograd=True,
    findings=FINDINGS,
    catches=(
        "Gradients that change silently when an argument or output is written to in place "
        "between forward and backward, or when the op is called again in between. Autograd "
        "must raise, or the gradients must stay the same."
    ),
    cannot_see=(
        "Integer and boolean tensors are not written to, because a kernel may use them as "
        "indices without a check."
    ),
    cost="many calls",
)
