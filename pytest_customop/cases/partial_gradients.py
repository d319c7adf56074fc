"""Find out whether an op with several outputs gives an argument the gradient of one of them."""

from __future__ import annotations

from ..core.tracebacks import reraise_bug
from .case import Case
from .run import gradients


def has_gradient_of_some_output(case: Case, argument: str) -> bool:
    """Whether the gradient of an argument is not 0 for one of several differentiable outputs."""
    run = case.run(case.inputs())
    outputs = run.differentiable_outputs
    if run.error is not None or len(outputs) < 2:
        return False
    for output in outputs:
        try:
            grads = case.grad_outputs([output])
            gradient = gradients(run.arguments, [output], grads, retain_graph=True).get(argument)
        except Exception as error:  # whatever a backward raises
            reraise_bug(error)
            continue
        if gradient is not None and bool((gradient != 0).any()):
            return True
    return False
