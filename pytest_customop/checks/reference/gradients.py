"""`reference.gradients`: the gradients equal the reference's."""

from __future__ import annotations

from typing import Any

import torch

from ...cases.arguments import Arguments
from ...cases.case import Case
from ...cases.deliberate import backward_raises
from ...cases.picture import picture_of
from ...cases.run import gradients
from ...cases.tensors import is_differentiable, is_plain, readable
from ...core.tracebacks import error_line, raised_at, reraise_bug
from ...declare.mistakes import MarkError
from ...findings import CheckSkipped, Explanation, doc_links, fail, skip
from ..check import Check
from .calls import Named, call_reference, detached, difference_from, reference_outputs
from .scripts import assertion


def check_gradients(case: Case) -> None:
    """Compare the gradients for one random grad_output per output with those of the reference."""
    for name, tensor in case.eager.differentiable_outputs:
        if not is_plain(tensor):
            raise skip("checker-limit", f"{name} is of a kind for which no grad_output is drawn")
    expected = _reference_gradients(case, case)
    try:
        actual = case.eager_gradients
    except Exception as error:  # whatever a backward raises is a finding
        reraise_bug(error)
        text = f"the backward of {case.op.name} raises {error_line(error)}"
        raise backward_raises(text, error, repro=_ANY_GRADIENT) from None
    exact: list[Named | None] = []
    for name, gradient in actual.items():
        wrong = _gradient_difference(case, name, gradient, expected.get(name), exact)
        if wrong:
            raise fail(
                "reference-gradient-mismatch",
                f"{case.op.name}: the gradient of `{name}`: {wrong}",
                repro=_gradient_script(case, name, gradient, expected.get(name)),
                picture=picture_of(f"gradient of {name}", gradient, expected.get(name)),
            )


def _reference_gradients(case: Case, of: Case) -> dict[str, torch.Tensor | None]:
    """The reference's gradients on the inputs of `of`: the case, or the case in double precision.

    Raises:
        CheckSkipped: if the reference is not differentiable.
        CheckFailed: if an output of the op does not require gradients and the reference's does.
    """
    arguments, outputs = _differentiable_call(case, of)
    names = [name for name, _ in case.eager.differentiable_outputs]
    weights = dict(zip(names, case.grad_outputs(case.eager.differentiable_outputs), strict=True))
    common = {name: output for name, output in outputs.items() if name in weights}
    if any(output.shape != weights[name].shape for name, output in common.items()):
        reason = "the outputs differ in shape: see reference.values"
        raise skip("nothing-to-check", reason, unjudged=False)
    floating = [name for name, output in case.eager.outputs if is_differentiable(output.dtype)]
    missing = [name for name in outputs if name in floating and name not in weights]
    if missing:
        raise fail(
            "reference-gradient-mismatch",
            f"{case.op.name} {missing[0]} does not require gradients, and the reference's does",
            fix="Let gradients flow to this output, or detach it in the reference.",
            repro=_requiring_script(case, missing[0]),
        )
    if not weights:
        raise skip("nothing-to-check", "no output requires gradients", unjudged=False)
    if not common:
        raise skip(
            "reference-not-differentiable",
            "no output of the reference requires gradients: to compare gradients too, write it "
            "with torch ops",
        )
    grads = [weights[name].to(output.dtype) for name, output in common.items()]
    try:
        return gradients(arguments, list(common.items()), grads)
    except Exception as error:  # whatever a backward of the author raises
        reraise_bug(error)
        text = f"{error_line(error)} ({raised_at(error)})"
        raise MarkError(f"the backward of the mark's reference raised {text}") from error


def _differentiable_call(case: Case, of: Case) -> tuple[Arguments, dict[str, torch.Tensor]]:
    """The arguments of a call of the reference, and its outputs that require gradients."""
    try:
        arguments, result = call_reference(of, of.inputs())
    except MarkError as mistake:
        call_reference(of, detached(of.inputs()))
        raise skip(
            "reference-not-differentiable",
            f"the reference raises on inputs that require gradients: {mistake.__cause__}",
        ) from None
    named = reference_outputs(case, arguments, result)
    return arguments, {
        name: leaf
        for name, leaf in named.items()
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad
    }


def _gradient_difference(
    case: Case,
    name: str,
    actual: torch.Tensor | None,
    expected: torch.Tensor | None,
    exact: list[Named | None],
) -> str | None:
    """How two gradients differ, as text; None if they do not. A missing gradient counts as zeros."""
    if actual is None or expected is None:
        gradient = expected if actual is None else actual
        if gradient is None or not bool(readable(gradient).ne(0).any()):
            return None
        largest = float(readable(gradient).abs().max())
        if actual is None:
            return f"None, and the reference gives one (largest magnitude {largest:.3g})"
        return f"a tensor (largest magnitude {largest:.3g}), and the reference gives None"

    def wide() -> Any:
        if not exact:
            try:
                exact.append(dict(_reference_gradients(case, case.widened())))
            except (MarkError, CheckSkipped, RuntimeError):  # the reference takes no float64
                exact.append(None)
        return (exact[0] or {}).get(name)

    return difference_from(case, actual, expected, wide)


_ANY_GRADIENT = """
args, kwargs = inputs()
leaves = torch.utils._pytree.tree_leaves
torch.manual_seed(seed)
outputs = [
    leaf for leaf in leaves(op(*args, **kwargs))
    if isinstance(leaf, torch.Tensor) and leaf.requires_grad
]
grads = []
for index, output in enumerate(outputs):
    generator = torch.Generator().manual_seed(seed + 1 + index)
    wide = torch.complex128 if output.is_complex() else torch.float64
    drawn = torch.randn(output.shape, generator=generator, dtype=wide)
    grads.append(torch.empty_like(output.detach()).copy_(drawn))
given = [
    leaf for leaf in leaves((args, kwargs)) if isinstance(leaf, torch.Tensor) and leaf.requires_grad
]
gradients = torch.autograd.grad(outputs, given, grads, allow_unused=True)
"""


def _requiring_script(case: Case, name: str) -> str:
    """Script lines that assert that an output requires gradients."""
    at = [path for path, _ in case.eager.outputs].index(name)
    leaves = "torch.utils._pytree.tree_leaves(op(*args, **kwargs))"
    return (
        f"args, kwargs = inputs()\nleaves = {leaves}\n"
        f"outputs = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]\n"
        f"assert outputs[{at}].requires_grad\n"
    )


def _gradient_script(
    case: Case, name: str, actual: torch.Tensor | None, expected: torch.Tensor | None
) -> str:
    """Lines that compare the gradient of one argument with the reference's."""
    at = [path for path, _ in case.eager.arguments.differentiable()].index(name)
    lines = f"{_ANY_GRADIENT}found = gradients[{at}]\n"
    if actual is None:
        return lines + "assert found is not None\n"
    return lines + assertion(case, actual, expected)


FINDINGS = {
    "reference-gradient-mismatch": Explanation(
        meaning=(
            "For the same grad_output the op's backward gives another gradient than the "
            "mark's reference, or none where the reference has one."
        ),
        why=(
            "Training goes wrong without an error. Where gradcheck is left out on purpose (a "
            "straight-through estimator), only this check compares the gradient with the "
            "intended one."
        ),
        fix=(
            "Correct the backward formula, or the order in which it returns gradients: one "
            "for each argument, None for those without."
        ),
        before="""
def backward(ctx, grad):
    return grad * (ctx.x.abs() < 1)  # meant: <= 1
""",
        after="""
def backward(ctx, grad):
    return grad * (ctx.x.abs() <= 1)
""",
        docs=(doc_links.REGISTER_AUTOGRAD,),
        follows=("gradient-mismatch", "backward-raises", "uninitialized-gradient"),
    ),
}

CHECK = Check(
    name="reference.gradients",
    summary="gradients equal those of the mark's reference; None equals zeros",
    run=check_gradients,
    gradients=True,
    needs_autograd=True,
    reference=True,
    variants=("layout", "shape", "positions", "arguments", "pairs"),
    cheap=True,
    findings=FINDINGS,
    catches=(
        "Gradients for one random grad_output per output that differ from those of the "
        "reference. A missing gradient counts as zeros, so a nonzero gradient on one side "
        "only is a finding. To check a straight-through estimator, give the function whose "
        'gradient is meant as `reference=`, and `gradcheck="a straight-through estimator"`.'
    ),
    cannot_see=(
        "A mistake that reference and op share. A reference without gradients (numpy) is a "
        "skip, `reference-not-differentiable`."
    ),
    cost="calls",
)
