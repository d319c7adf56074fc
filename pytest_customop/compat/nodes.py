"""Read the autograd node of an output: it stands for a formula or a missing one, or is unreadable.

The names of the nodes that stand for a missing formula were seen in torch 2.4 to 2.15. Public: none.
"""

from __future__ import annotations

import torch


def is_without_formula(output: torch.Tensor) -> bool:
    """Whether the output of an op has an autograd node that stands for a missing formula.

    The node is that of `torch::autograd::autogradNotImplementedFallback()`, or the one that torch gives to
    ops without any kernel at an Autograd key. The former raises in backward, the latter warns.
    """
    return _node(output) in ("NotImplemented", "WarnNotImplemented")


def rejects_backward(output: torch.Tensor) -> bool:
    """Whether the output comes from an op that rejects differentiation.

    Such an op has the kernel `torch::autograd::autogradNotImplementedFallback()` at an Autograd key.
    """
    return _node(output) == "NotImplemented"


def is_generated(output: torch.Tensor) -> bool:
    """Whether the autograd node of the output is the one that torch makes for ops defined in Python.

    An op of `torch.library.custom_op` has it even without a formula. Then the node raises in backward.
    """
    return _node(output).startswith("GeneratedBackwardFor")


def is_overwritten_view(output: torch.Tensor) -> bool:
    """Whether the output is a view into memory that a later call has written to.

    torch raises where the autograd node of such an output is read.
    """
    try:
        _ = output.grad_fn
    except RuntimeError:
        return True
    return False


def _node(output: torch.Tensor) -> str:
    """The name of a tensor's autograd node, without namespaces.

    The node of a Python formula is its context, whose attributes the author may have set.
    """
    node = None if is_overwritten_view(output) else output.grad_fn
    if node is None:
        return ""
    if isinstance(node, torch.autograd.function.BackwardCFunction):
        return type(node).__name__
    return node.name().rpartition("::")[2]
