"""`backward.intact`: a backward leaves alone what is not its own, and can run again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from ...cases.case import Case
from ...cases.tensors import Copier, difference, in_double, is_plain
from ...core.tracebacks import error_line, message_of
from ...findings import fail, skip
from ..check import Check
from .scripts import INTACT
from .vjp import Gradients, Graph, Reference, table

# How autograd refuses to go on where a saved tensor was written to.
_WRITTEN = "modified by an inplace operation"


def check_intact(case: Case) -> None:
    """Run the backward three times over one graph, and look at everything it was given."""
    reference = Reference.of(case)
    graph = Graph(case)
    given = graph.given(reference.weights)
    watched = _watch(graph, given)
    first = _raw(graph, given)
    for what in _written(watched):
        raise fail("backward-mutates", f"the backward writes to {what}")
    _run_again(reference, graph, first)


CHECK = Check(
    "backward.intact",
    "the backward writes to nothing that it is given, and gives the same when it runs again",
    check_intact,
    gradients=True,
    needs_autograd=True,
    repro=INTACT,
)


@dataclass(frozen=True)
class _Watched:
    name: str
    tensor: Tensor
    before: Tensor
    version: int


def _watch(graph: Graph, given: list[Tensor]) -> list[_Watched]:
    declared = dict(graph.arguments.mutated())  # a buffer that is updated in the backward too
    tensors = graph.arguments.tensors()
    named = [(f"the argument `{name}`", one) for name, one in tensors if name not in declared]
    named += graph.run.outputs
    for (name, _), one in zip(graph.outputs, given, strict=True):
        named.append(("grad_output" if len(given) == 1 else f"grad_output of {name}", one))
    return [
        _Watched(name, tensor, Copier()(tensor), _version(tensor))
        for name, tensor in named
        if is_plain(tensor)
    ]


def _version(tensor: Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


def _written(watched: list[_Watched]) -> Iterator[str]:
    """What was written to, in words."""
    for one in watched:
        told = difference(one.tensor.detach(), one.before, 0.0, 0.0)
        if told is not None:
            yield f"{one.name}: {told}"
        elif _version(one.tensor) != one.version:
            yield f"{one.name}, though only what it held already"


def _raw(graph: Graph, given: list[Tensor]) -> dict[str, Tensor]:
    """The gradients themselves, not copies of them."""
    inputs = graph.inputs
    found = torch.autograd.grad(
        [one for _, one in graph.outputs],
        [one for _, one in inputs],
        given,
        allow_unused=True,
        retain_graph=True,
    )
    named = zip([name for name, _ in inputs], found, strict=True)
    return {name: one for name, one in named if one is not None}


def _run_again(reference: Reference, graph: Graph, first: dict[str, Tensor]) -> None:
    kept = {name: in_double(one) for name, one in first.items()}
    others = [3 * weight for weight in reference.weights]
    _again(graph, others)
    for name, one in first.items():
        told = difference(in_double(one), kept[name], 0.0, 0.0)
        if told is not None:
            raise fail(
                "gradient-overwritten",
                f"the gradient that the backward returned for `{name}` is overwritten by the next "
                f"backward: {told}",
            )
    rows = reference.rows("again", _again(graph, reference.weights), kept)
    wrong = next((row for row in rows if row.wrong), None)
    if wrong is not None:
        raise fail(
            "backward-not-repeatable",
            f"the backward, run again over one graph (retain_graph=True), gives {wrong.got} for "
            f"`{wrong.input}` where it gave {wrong.expected}",
            table(rows),
        )


def _again(graph: Graph, weights: list[Tensor]) -> Gradients:
    try:
        return graph.vjp(graph.given(weights))
    except Exception as error:
        if _WRITTEN in message_of(error):
            raise fail(
                "backward-mutates",
                f"the backward writes to a tensor that it saved: run again, it raises {error_line(error)}",
            ) from error
        raise skip(
            "once-only",
            "the backward runs once only: with retain_graph=True, a second time over the graph, it "
            f"raises {error_line(error)}",
        ) from error
