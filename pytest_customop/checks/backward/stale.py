"""`backward.stale`: after arguments were changed in place, the gradients are those of the new values."""

from __future__ import annotations

from torch import Tensor

from ...cases.case import Case
from ...core.tracebacks import reraise_bug
from ...findings import CheckSkipped, Explanation, doc_links, fail, skip
from ..check import Check
from ..values.memory.calls import skip_if_keeps_nothing
from ..values.memory.perturb import OTHERS, Change, safe_changes, same_strides, write_all
from .scripts import GRAPH
from .vjp import Gradients, Graph, Reference, same, table


def check_stale(case: Case) -> None:
    """Compare the gradients of tensors that were changed in place with those of fresh ones."""
    skip_if_keeps_nothing(case)
    reference = Reference.of(case)
    change, expected = _changed(reference)
    actual = _after_writing(reference, change)
    rows = reference.rows("changed in place", actual, expected) if actual is not None else []
    wrong = next((row for row in rows if row.wrong), None)
    if wrong is None or not same(_fresh(reference, change), expected):
        return
    raise fail(
        "stale-gradient",
        f"after the arguments were changed in place ({change.description}), a further call gives "
        f"{wrong.actual} as the gradient for `{wrong.input}`; fresh tensors with these values give "
        f"{wrong.expected}",
        table(rows),
        repro=GRAPH + change.script() + _SCRIPT,
    )


def _changed(reference: Reference) -> tuple[Change, Gradients]:
    """Other values for which the gradients are others, and those gradients."""
    for change in safe_changes(reference.case, OTHERS):
        try:
            found = _fresh(reference, change)
        except CheckSkipped:
            continue
        except Exception as error:  # whatever the op or its backward raises for other values
            reraise_bug(error)
            continue
        if not same(found, reference.gradients):
            return change, found
    reason = "no other values have other gradients"
    raise skip("nothing-to-check", reason, unjudged=False)


def _fresh(reference: Reference, change: Change) -> Gradients:
    graph = Graph(reference.case, change.apply(reference.case.inputs()))
    return graph.vjp(_weights(graph, reference))


def _after_writing(reference: Reference, change: Change) -> Gradients | None:
    """The gradients of a second call, before which the values were written to its tensors."""
    graph = Graph(reference.case)
    graph.vjp(graph.given(reference.weights), retain_graph=False)
    changed = change.apply(reference.case.inputs())
    if not same_strides(graph.arguments, changed):
        return None  # the op changes the shape of its argument
    write_all(graph.arguments, changed)
    again = Graph(reference.case, graph.arguments)
    return again.vjp(_weights(again, reference))


def _weights(graph: Graph, reference: Reference) -> list[Tensor]:
    if [output.shape for _, output in graph.outputs] != [each.shape for each in reference.weights]:
        reason = "the sizes of the outputs depend on the values"
        raise skip("nothing-to-check", reason, unjudged=False)
    return graph.given(reference.weights)


_SCRIPT = """

def of(args, kwargs):
    torch.manual_seed(seed)
    outputs = [each for each in tensors(op(*args, **kwargs)) if each.requires_grad and each.numel()]
    return gradients(outputs, [each for each in tensors((args, kwargs)) if each.requires_grad], grads)


arguments = inputs()
of(*arguments)
with torch.no_grad():
    for tensor, value in zip(tensors(arguments), tensors(changed())):
        tensor.copy_(value)
assert_same(of(*arguments), of(*changed()))
"""

FINDINGS = {
    "stale-gradient": Explanation(
        meaning=(
            "After a call and its backward, the arguments were changed in place, and the op was called "
            "again. Its gradients are not those of fresh tensors with the new values."
        ),
        why=(
            "An optimizer changes weights in place; the backward then computes with the weights of the "
            "first step. Later tensors also get the address of a freed one."
        ),
        fix=(
            "Do not keep what the backward needs in a cache with the data pointer or id() as its key: "
            "both stay the same through an in-place change, and other tensors get them later. Save it "
            "with ctx.save_for_backward, or compute it anew."
        ),
        before="""
def backward(ctx, grad):
    (weight,) = ctx.saved_tensors
    return _transposed(weight.data_ptr(), weight) @ grad
""",
        after="""
def backward(ctx, grad):
    (weight,) = ctx.saved_tensors
    return weight.t() @ grad
""",
        docs=(doc_links.SAVE_FOR_BACKWARD, doc_links.LIBRARY),
        follows=("stale-result", "backward-not-repeatable", "uninitialized-gradient"),
    ),
}

CHECK = Check(
    name="backward.stale",
    summary="after arguments were changed in place, the gradients are those of the new values",
    run=check_stale,
    gradients=True,
    needs_autograd=True,
    findings=FINDINGS,
    catches=(
        "A cache with addresses as keys that only the backward uses: transposed weights, sorted indices. "
        "The op and its backward run, the floating-point arguments are changed in place, and both run "
        "again. Only for ops whose Python code refers to something that could keep anything."
    ),
    cannot_see="A cache of what is derived from integers. One that is keyed by shape.",
    cost="calls",
)
