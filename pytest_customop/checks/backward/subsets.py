"""`backward.subsets`: the gradients are the same whichever inputs require them."""

from __future__ import annotations

from ...cases.case import Case
from ...cases.run import gradients
from ...cases.tensors import in_double
from ...core import rng
from ...core.tracebacks import error_line, reraise_bug, traceback_text
from ...findings import CheckFailed, CheckSkipped, Explanation, doc_links, fail, skip
from ..check import Check
from .scripts import GRAPH, filled
from .vjp import Gradients, Graph, Reference, call, table

_MOST = 6


def check_subsets(case: Case) -> None:
    """Compare the gradients with those that the op gives when only some inputs require them.

    One input at a time, and all but one.
    """
    names = [name for name, _ in case.inputs().differentiable()]
    if len(names) < 2:
        raise skip("nothing-to-check", "fewer than two arguments require gradients", unjudged=False)
    reference = Reference.of(case)
    for subset in _choices(names):
        _compare(reference, names, subset)


def _choices(names: list[str]) -> list[list[str]]:
    alone = [[name] for name in names[:_MOST]]
    without = [[kept for kept in names if kept != name] for name in names[:_MOST]]
    return alone if len(names) == 2 else [*alone, *without]


def _compare(reference: Reference, names: list[str], subset: list[str]) -> None:
    case = reference.case
    graph = Graph(case)
    arguments = case.inputs()
    for name, tensor in arguments.differentiable():
        tensor.requires_grad_(name in subset)
    try:
        run = call(case, arguments)
    except CheckSkipped:
        return  # the op may reject this combination
    weights = dict(
        zip([name for name, _ in graph.outputs], graph.given(reference.weights), strict=True)
    )
    outputs = [output for output in run.differentiable_outputs if output[0] in weights]
    reached = [at for at, name in enumerate(weights) if name in dict(outputs)]
    script = _script([names.index(name) for name in subset], reached)
    actual: Gradients = {}
    if outputs:
        rng.seed(case.seed)
        try:
            grads = gradients(arguments, outputs, [weights[name] for name, _ in outputs])
        except NotImplementedError:
            return  # the combination is rejected
        except Exception as error:  # whatever a backward raises
            reraise_bug(error)
            what = f"the backward raises {error_line(error)}"
            raise _finding(subset, what, traceback_text(error), script) from error
        actual = {name: in_double(grad) for name, grad in grads.items() if grad is not None}
    rows = reference.rows(f"only {', '.join(subset)}", actual, reference.gradients, subset)
    wrong = next((row for row in rows if row.wrong), None)
    if wrong is not None:
        what = (
            f"the gradient for `{wrong.input}` is {wrong.actual}, and {wrong.expected} where all "
            f"of {', '.join(names)} do"
        )
        raise _finding(subset, what, table(rows, "requires_grad"), script)


def _finding(subset: list[str], what: str, evidence: str, script: str) -> CheckFailed:
    listed = ", ".join(f"`{name}`" for name in subset)
    verb = "require" if len(subset) > 1 else "requires"
    return fail(
        "needs-input-grad-mishandled",
        f"where only {listed} {verb} gradients, {what}",
        evidence,
        repro=script,
    )


_SCRIPT = (
    GRAPH
    + """
expected = dict(enumerate(gradients(outputs, leaves, grads)))
wanted = WANTED
original, first = inputs, []


def inputs():
    given = original()
    first[:] = [each for each in tensors(given) if each.requires_grad]
    for at, each in enumerate(first):
        each.requires_grad_(at in wanted)
    return given


shapes = [each.shape for each in outputs]
given, leaves, found = call()
some = torch.autograd.grad(
    found, leaves, [grads[at] for at in REACHED], allow_unused=True, materialize_grads=True
) if found else [torch.zeros_like(each) for each in leaves]
assert_same(tuple(some), tuple(expected[at] for at in wanted))
"""
)


def _script(subset: list[int], reached: list[int]) -> str:
    """Script lines that compute only some gradients.

    Args:
        subset: positions among the arguments that require gradients.
        reached: the positions of the outputs that then require gradients.
    """
    return filled(_SCRIPT, WANTED=subset, REACHED=reached)


FINDINGS = {
    "needs-input-grad-mishandled": Explanation(
        meaning=(
            "The backward raises, or gives other gradients, when only some of the inputs "
            "require gradients."
        ),
        why=(
            "Frozen weights and inputs without gradients are common. The shortcut for them "
            "returns a wrong gradient for the other inputs, and training goes wrong without "
            "an error."
        ),
        fix=(
            "Decide for each input by its own entry of ctx.needs_input_grad, which follows "
            "the order of the arguments. Return None only where the entry is False."
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
        follows=("uninitialized-gradient",),
    ),
}

CHECK = Check(
    name="backward.subsets",
    summary="gradients are the same whichever inputs require them (ctx.needs_input_grad)",
    run=check_subsets,
    needs=lambda op: op.may_take_two_tensors,
    gradients=True,
    needs_autograd=True,
    findings=FINDINGS,
    catches=(
        "Other gradients, or an error, when only some of the inputs require gradients: one "
        "at a time and all but one. A `NotImplementedError` rejects the combination and is "
        "not a finding."
    ),
    cannot_see="Other combinations, and inputs after the sixth.",
    cost="many calls",
)
