"""`backward.saved` and `backward.freed`: what a forward keeps for its backward, and where."""

from __future__ import annotations

import gc
import weakref

import torch
from torch import Tensor

from ...cases.case import Case
from ...cases.tensors import Copier, is_differentiable, is_plain
from ...core.tracebacks import error_line, traceback_text
from ...findings import CheckSkipped, fail
from ..check import Check
from . import scripts
from .vjp import Gradients, Graph, Reference, call, table

_MOST = 8
_CALLS = 3  # more than a cache of the last call keeps


def check_saved(case: Case) -> None:
    """Change inputs and outputs in place, and call the op again, between forward and backward.

    Autograd has to notice the former; neither may change a gradient.
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


def check_freed(case: Case) -> None:
    """See whether inputs and outputs leave memory as soon as nothing refers to them any more."""
    Graph(case)
    for words, which in (("outputs", "outputs"), ("arguments", "given")):
        if _kept(case, which):
            raise fail(
                "tensors-kept-alive",
                f"the {words} of {_CALLS} calls are all still in memory when nothing refers to them "
                "any more: they are in a reference cycle, or in a global",
                repro=scripts.freed(which),
            )


CHECKS = [
    Check(
        "backward.freed",
        "what a call leaves behind is freed with its outputs: no reference cycle through ctx",
        check_freed,
        gradients=True,
        needs_autograd=True,
    ),
    Check(
        "backward.saved",
        "gradients do not change silently when a tensor is written to, or the op called, in between",
        check_saved,
        gradients=True,
        needs_autograd=True,
    ),
]


def _changeable(tensor: Tensor, graph: Graph) -> bool:
    """Whether writing to the tensor is allowed, and counted in the version of all that share it.

    Integers and booleans stay as they are: a kernel may take them for indices on trust.
    """
    if not is_plain(tensor) or not is_differentiable(tensor.dtype) or not tensor.numel():
        return False
    home = tensor.untyped_storage().data_ptr()
    every = [one for _, one in (*graph.arguments.tensors(), *graph.run.outputs)]
    return all(
        one is tensor or not is_plain(one) or one.untyped_storage().data_ptr() != home
        for one in every
    )


def _other_values(tensor: Tensor) -> Tensor:
    """Other values, none of them further from 0: rows in reverse order, and halved."""
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
    given = graph.given(reference.weights)
    try:
        with torch.no_grad():
            tensor.copy_(_other_values(tensor))
        got = graph.vjp(given)
    except Exception:
        return  # noticed
    what = f"{name} is written to between forward and backward"
    script = scripts.stale(expression)
    _judge(reference, got, "saved-tensor-stale", what, f"{name} written to", script)


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
        return  # the op may refuse such values
    what = "the op is called again, with other values, between forward and backward"
    try:
        got = graph.vjp(graph.given(reference.weights))
    except Exception as error:
        raise fail(
            "backward-state-shared",
            f"{what}, and the backward raises {error_line(error)}",
            traceback_text(error),
            repro=scripts.INTERLEAVED,
        ) from error
    del kept
    _judge(reference, got, "backward-state-shared", what, "called again", scripts.INTERLEAVED)


def _judge(
    reference: Reference, got: Gradients, code: str, what: str, words: str, script: str
) -> None:
    rows = reference.rows(words, got, reference.gradients)
    wrong = next((row for row in rows if row.wrong), None)
    if wrong is not None:
        raise fail(
            code,
            f"{what}, and the gradient for `{wrong.input}` silently becomes {wrong.got} in place of "
            f"{wrong.expected}",
            table(rows, "in between"),
            repro=script,
        )


def _kept(case: Case, which: str) -> bool:
    """Whether inputs or outputs of each of a few calls outlive them."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        calls = [_references(case, which) for _ in range(_CALLS)]
        return all(any(one() is not None for one in references) for references in calls)
    finally:
        if collecting:
            gc.enable()


def _references(case: Case, which: str) -> list[weakref.ref[Tensor]]:
    graph = Graph(case)
    named = graph.outputs if which == "outputs" else graph.arguments.tensors()
    return [weakref.ref(one) for _, one in named]
