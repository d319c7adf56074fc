"""`backward.subsets`: the same gradients whichever inputs require them."""

from __future__ import annotations

from ...cases.case import Case, gradients
from ...cases.tensors import in_double
from ...core import rng
from ...core.tracebacks import error_line, traceback_text
from ...findings import CheckFailed, CheckSkipped, fail, skip
from ..check import Check
from . import scripts
from .vjp import Gradients, Graph, Reference, call, table

_MOST = 6


def check_subsets(case: Case) -> None:
    """Compare the gradients with those where only some of the inputs require them.

    Each input alone, and each left out.
    """
    names = [name for name, one in case.inputs().differentiable()]
    if len(names) < 2:
        raise skip(
            "nothing-to-check", "no more than one argument requires gradients", unjudged=False
        )
    reference = Reference.of(case)
    for wanted in _choices(names):
        _compare(reference, names, wanted)


CHECK = Check(
    "backward.subsets",
    "gradients are the same whichever inputs require them (ctx.needs_input_grad)",
    check_subsets,
    gradients=True,
    needs_autograd=True,
)


def _choices(names: list[str]) -> list[list[str]]:
    alone = [[name] for name in names[:_MOST]]
    without = [[other for other in names if other != name] for name in names[:_MOST]]
    return alone if len(names) == 2 else [*alone, *without]


def _compare(reference: Reference, names: list[str], wanted: list[str]) -> None:
    case = reference.case
    graph = Graph(case)
    arguments = case.inputs()
    for name, tensor in arguments.differentiable():
        tensor.requires_grad_(name in wanted)
    try:
        run = call(case, arguments)
    except CheckSkipped:
        return  # an op may refuse to run so
    weights = dict(
        zip([name for name, _ in graph.outputs], graph.given(reference.weights), strict=True)
    )
    outputs = [one for one in run.differentiable_outputs if one[0] in weights]
    reached = [at for at, name in enumerate(weights) if name in dict(outputs)]
    script = scripts.subset([names.index(name) for name in wanted], reached)
    got: Gradients = {}
    if outputs:
        rng.seed(case.seed)
        try:
            found = gradients(arguments, outputs, [weights[name] for name, _ in outputs])
        except NotImplementedError:
            return  # refused
        except Exception as error:
            what = f"the backward raises {error_line(error)}"
            raise _finding(wanted, what, traceback_text(error), script) from error
        got = {name: in_double(one) for name, one in found.items() if one is not None}
    rows = reference.rows(f"only {', '.join(wanted)}", got, reference.gradients, wanted)
    wrong = next((row for row in rows if row.wrong), None)
    if wrong is not None:
        what = (
            f"the gradient for `{wrong.input}` is {wrong.got}, and {wrong.expected} where all of "
            f"{', '.join(names)} do"
        )
        raise _finding(wanted, what, table(rows, "requires_grad"), script)


def _finding(wanted: list[str], what: str, evidence: str, script: str) -> CheckFailed:
    listed = ", ".join(f"`{name}`" for name in wanted)
    verb = "require" if len(wanted) > 1 else "requires"
    return fail(
        "needs-input-grad-mishandled",
        f"where only {listed} {verb} gradients, {what}",
        evidence,
        repro=script,
    )
