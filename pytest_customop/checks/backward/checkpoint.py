"""`backward.checkpoint`: the gradients are the same when checkpointing runs the forward again."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop

from ...cases.case import Case
from ...cases.rounding import allowed_by_order
from ...cases.run import Run, gradients
from ...cases.tensors import Copier, in_double, largest_magnitude
from ...core import rng
from ...core.tracebacks import error_line, reraise_bug, traceback_text
from ...findings import CheckSkipped, Explanation, doc_links, fail, skip
from ..check import Check
from .limits import Limits
from .scripts import GRAPH, filled
from .vjp import Gradients, Reference, row, table

Named = list[tuple[str, Tensor]]


def check_checkpoint(case: Case) -> None:
    """Compare recomputed outputs with the first ones, and gradients with and without checkpointing."""
    if case.op.mutated:
        raise skip("nothing-to-check", "the op writes to its arguments", unjudged=False)
    if any(isinstance(value, torch.Generator) for _, value in case.inputs().named()):
        raise skip("nothing-to-check", "the op takes a torch.Generator", unjudged=False)
    try:
        reference = Reference.of(case)
    except CheckSkipped as skipped:
        if skipped.code != "nondeterministic" or not case.op.tagged("nondeterministic_seeded"):
            raise
        _checkpoint(case, None)
        return
    _checkpoint(case, reference)


def _checkpoint(case: Case, reference: Reference | None) -> None:
    arguments = case.inputs()
    calls: list[Named] = []

    def called(*_: Tensor) -> Any:
        result = arguments.call()
        copier = Copier()
        calls.append([(name, copier(output)) for name, output in Run(arguments, result).outputs])
        return result

    rng.seed(case.seed)
    try:
        with warnings.catch_warnings(), set_checkpoint_early_stop(False):
            warnings.simplefilter("ignore")  # torch 2.4's checkpoint warns of torch's own code
            # `checkpoint` restores the random streams of these tensors' devices.
            tensors = [tensor for _, tensor in arguments.tensors()]
            run = Run(arguments, checkpoint(called, *tensors, use_reentrant=False))
            actual = _gradients(case, run, reference)
    except Exception as error:  # whatever the op raises, or torch for it
        reraise_bug(error)
        raise fail(
            "checkpoint-mismatch",
            f"under torch.utils.checkpoint the op raises {error_line(error)}",
            traceback_text(error),
            repro=_script(reference is not None),
        ) from error
    if len(calls) > 1 and not case.op.tagged("nondeterministic_bitwise"):
        tensors = [tensor.detach() for _, tensor in arguments.tensors()]
        _compare_calls(calls[0], calls[-1], tensors, reference is not None)
    if reference is not None:
        _compare(reference, actual)


def _gradients(case: Case, run: Run, reference: Reference | None) -> Gradients:
    outputs = [(name, output) for name, output in run.differentiable_outputs if output.numel() > 0]
    weights = reference.weights if reference else [torch.ones_like(output) for _, output in outputs]
    grads = [
        torch.empty_like(output.detach()).copy_(weight)
        for (_, output), weight in zip(outputs, weights, strict=True)
    ]
    rng.seed(case.seed)
    found_grads = gradients(run.arguments, outputs, grads)
    return {name: in_double(grad) for name, grad in found_grads.items() if grad is not None}


def _compare_calls(first: Named, again: Named, inputs: Sequence[Tensor], repeats: bool) -> None:
    """Fail if the outputs that are recomputed for the backward differ from the forward's.

    Differences that another order of additions explains are left to `values.repeat`.
    """
    rows = []
    for (name, old), (_, new) in zip(first, again, strict=True):
        expected, actual = in_double(old), in_double(new)
        if expected.shape != actual.shape:
            raise _differently(
                name, f"shape {tuple(actual.shape)}, not {tuple(expected.shape)}", repeats
            )
        floating = {old.dtype} if old.dtype.is_floating_point or old.dtype.is_complex else set()
        allowed = 0.0
        if floating:
            share = Limits.of(floating, []).share * largest_magnitude(expected)
            allowed = max(share, allowed_by_order(new, old, inputs))
        rows.append(row("", name, expected, actual, allowed))
    wrong = next((row for row in rows if row.wrong), None)
    if wrong is not None:
        raise _differently(wrong.input, f"{wrong.actual} in place of {wrong.expected}", repeats)


def _differently(name: str, what: str, repeats: bool) -> Exception:
    return fail(
        "checkpoint-mismatch",
        f"torch.utils.checkpoint calls the op again before the backward and gets {what} for {name}: "
        "the gradients do not belong to the outputs that the forward returned",
        repro=_script(repeats),
    )


def _compare(reference: Reference, actual: Gradients) -> None:
    rows = reference.rows("checkpoint", actual, reference.gradients)
    wrong = next((row for row in rows if row.wrong), None)
    if wrong is not None:
        raise fail(
            "checkpoint-mismatch",
            f"under torch.utils.checkpoint the gradient for `{wrong.input}` is {wrong.actual}, and "
            f"{wrong.expected} otherwise",
            table(rows, "under"),
            repro=_script(True),
        )


_SCRIPT = (
    GRAPH
    + """
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop

expected = gradients(outputs, leaves, grads)
results, original = [], op


def op(*args, **kwargs):
    def recording(*_):
        result = original(*args, **kwargs)
        results.append([each.detach().clone() for each in tensors(result)])
        return result

    return checkpoint(recording, *tensors((args, kwargs)), use_reentrant=False)


with set_checkpoint_early_stop(False):
    given, leaves, outputs = call()
    got = torch.autograd.grad(
        outputs, leaves, grads, allow_unused=True, materialize_grads=True
    )
assert_same(results[0], results[-1])
COMPARE
"""
)


def _script(gradients: bool) -> str:
    """Lines that compare the recomputed outputs, and with `gradients` the gradients too."""
    compare = "assert_same(got, expected)" if gradients else ""
    return filled(_SCRIPT, COMPARE=compare)


FINDINGS = {
    "checkpoint-mismatch": Explanation(
        meaning=(
            "Activation checkpointing calls the op again before its backward, and this "
            "second call differs from the first: the op raises, or the gradients belong to "
            "other outputs."
        ),
        why=(
            "torch.utils.checkpoint restores torch's random streams and nothing else. If the "
            "op counts calls, caches values or draws from its own random stream, its second "
            "call differs."
        ),
        fix=(
            "Draw random numbers from torch's own generators, or take the seed as an "
            "argument; save the same tensors in every call; read ctx.saved_tensors once in "
            "the backward, because checkpointing hands each tensor out once."
        ),
        before="""
GENERATOR = torch.Generator()
mask = torch.rand(x.shape, generator=GENERATOR) > p
""",
        after="""
mask = torch.rand(x.shape) > p
""",
        docs=(doc_links.CHECKPOINT,),
        follows=("undeclared-mutation", "outputs-ignore-seed", "uninitialized-gradient"),
    ),
}

CHECK = Check(
    name="backward.checkpoint",
    summary="gradients are the same under activation checkpointing (torch.utils.checkpoint)",
    run=check_checkpoint,
    needs=lambda op: not op.mutated,
    gradients=True,
    needs_autograd=True,
    findings=FINDINGS,
    catches=(
        "Gradients that differ under `torch.utils.checkpoint(use_reentrant=False)`, and a "
        "forward that returns something else when checkpointing runs it again."
    ),
    cannot_see="Ops that write to their arguments or take a `torch.Generator` are left out.",
    cost="calls",
)
