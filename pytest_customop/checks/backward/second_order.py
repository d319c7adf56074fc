"""`backward.second_order`: gradients of gradients are right, or refused; never left out in silence."""

from __future__ import annotations

import torch
from torch import Tensor

from ...cases.case import Case
from ...cases.tensors import in_double
from ...core import rng
from ...findings import fail
from ..check import Check
from .scripts import SECOND_ORDER
from .vjp import Graph, Reference, same


def check_second_order(case: Case) -> None:
    """See whether gradients that depend on grad_output are connected to it, under create_graph=True.

    Such a gradient is linear in grad_output, so a second derivative exists, whatever the op.
    """
    reference = Reference.of(case)
    graph = Graph(case)
    weights = [one.requires_grad_() for one in graph.given(reference.weights)]
    rng.seed(case.seed)
    try:
        found = torch.autograd.grad(
            [one for _, one in graph.outputs],
            [one for _, one in graph.inputs],
            weights,
            create_graph=True,
            allow_unused=True,
        )
    except Exception:
        return  # refused
    named = zip([name for name, _ in graph.inputs], found, strict=True)
    cut = [name for name, one in named if one is not None and _is_cut(one)]
    if not cut:
        return
    other = Graph(case)
    try:
        doubled = other.vjp(other.given([2 * one for one in reference.weights]))
    except Exception:
        return
    base = reference.gradients
    for name in cut:
        if name in doubled and not same({name: base[name]}, {name: doubled[name]}):
            raise fail(
                "second-order-lost",
                f"with create_graph=True the gradient for `{name}` is not connected to grad_output, "
                "and nothing says so: gradients of gradients leave it out",
            )


def _is_cut(gradient: Tensor) -> bool:
    return not gradient.requires_grad and bool(in_double(gradient).any())


CHECK = Check(
    "backward.second_order",
    "second-order gradients are connected to the first-order ones, or refused",
    check_second_order,
    gradients=True,
    needs_autograd=True,
    repro=SECOND_ORDER,
)
