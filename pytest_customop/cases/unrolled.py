"""Distinguish a loop over a size from a size that is wrongly made a constant."""

from __future__ import annotations

from typing import Any

from ..compat.tensors import observe_calls
from ..core.tracebacks import reraise_bug
from .case import Case
from .run import gradients


def loops_over_sizes(case: Case, resized: Case) -> bool:
    """Whether the backward makes another number of calls at other sizes.

    A loop over a size, `for i in range(weight.shape[0])`, is unrolled in a graph. Then each size has its
    own graph, in which the size has to be a constant.

    Args:
        case, resized: cases of one op with different sizes.
    """
    return case.requires_grad and _calls(case) != _calls(resized)


def _calls(case: Case) -> int:
    """How many ops the backward calls; 0 if there is no backward, or it raises."""
    count = 0

    def counted(overload: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        nonlocal count
        count += 1
        return overload(*args, **kwargs)

    run = case.run(case.inputs())
    outputs = run.differentiable_outputs
    if run.error is not None or not outputs:
        return 0
    try:
        grads = case.grad_outputs(outputs)
        with observe_calls(counted):
            gradients(run.arguments, outputs, grads)
    except Exception as error:  # whatever a backward raises
        reraise_bug(error)
        return 0
    return count
