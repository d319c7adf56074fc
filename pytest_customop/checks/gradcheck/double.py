"""`gradcheck.double`: the second-order gradients equal finite differences."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from ...cases.case import Case
from ...cases.run import random_like
from ...core.tracebacks import error_line, reraise_bug
from ...declare.inputs import GradOptions
from ...findings import CheckFailed, CheckSkipped, Explanation, doc_links, skip
from ..check import Check
from .finite_differences.finding import FindingCodes
from .finite_differences.skips import is_lost_in, narrow
from .finite_differences.vectors import BackwardError, CallError, Named, VectorFunction
from .finite_differences.verdict import verify_gradients
from .float64 import Float64Op, options_of, with_script

_SECOND = FindingCodes(
    mismatch="second-order-gradient-mismatch",
    missing="second-order-gradient-mismatch",
    step="second-order-gradient-mismatch",
    derivative="the second-order gradient for `{input}`",
)
# Parts of torch's messages about a missing second derivative.
_NO_FORMULA = (
    "no autograd formula was registered",
    "once_differentiable",
    "not implemented",
    "autograd kernel was not registered",
    "does not require grad",
)


def check_double(case: Case) -> None:
    """Compare the second-order gradients with finite differences of the first-order ones."""
    options = options_of(case)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            op = Float64Op(case)
            op.hold(op.constants())
            function = _second_order(op, case.seed, options)
            verify_gradients(function, options, case.seed, _SECOND)
        except BackwardError as error:
            raise _no_second_order(error_line(error.error)) from error
        except CheckFailed as failure:
            # An op without an autograd formula only warns, and its gradients end there.
            warned = [
                str(warning.message) for warning in caught if _lacks_formula(str(warning.message))
            ]
            if warned:
                raise _no_second_order(warned[0]) from None
            raise with_script(failure, case, "gradgradcheck") from None


def _second_order(op: Float64Op, seed: int, options: GradOptions) -> VectorFunction:
    """The first-order gradients as a function of the inputs and the grad_outputs.

    Raises:
        CheckSkipped: if they cannot be differentiated again, or if a step is lost in the dtype of an
            output, which its grad_output shares.
    """
    names = {output.name for output in op.function().outputs}
    inputs = [(name, tensor.detach().requires_grad_()) for name, tensor in op.inputs]
    outputs = [
        output for output in op.outputs([tensor for _, tensor in inputs]) if output[0] in names
    ]
    for name, tensor in outputs:
        if is_lost_in(tensor.dtype, options):
            raise narrow(name, tensor.dtype, options)
    grad_outputs = [
        (f"grad_output of {name}", random_like(tensor, seed + 1 + index).requires_grad_())
        for index, (name, tensor) in enumerate(outputs)
    ]
    _skip_without_second_order(inputs, outputs, grad_outputs)

    def call(tensors: list[Tensor]) -> Named:
        moved = [(name, tensor) for (name, _), tensor in zip(inputs, tensors, strict=False)]
        results = [output for output in op.outputs(tensors[: len(inputs)]) if output[0] in names]
        try:
            return _gradients(moved, results, tensors[len(inputs) :], create_graph=True)
        except Exception as error:  # whatever a backward raises
            reraise_bug(error)
            raise CallError(error) from error

    return VectorFunction([*inputs, *grad_outputs], call)


def _gradients(inputs: Named, outputs: Named, grad_outputs: list[Tensor], **options: bool) -> Named:
    """(name, gradient) for the inputs that have a gradient."""
    grads = torch.autograd.grad(
        [tensor for _, tensor in outputs],
        [tensor for _, tensor in inputs],
        grad_outputs,
        allow_unused=True,
        **options,
    )
    named = zip([name for name, _ in inputs], grads, strict=True)
    return [(f"the gradient for `{name}`", grad) for name, grad in named if grad is not None]


def _skip_without_second_order(inputs: Named, outputs: Named, grad_outputs: Named) -> None:
    """Skip if the gradients are not connected to grad_output, on which they depend linearly."""
    weights = [tensor for _, tensor in grad_outputs]
    try:
        _gradients(inputs, outputs, weights, retain_graph=True)
    except Exception as error:  # whatever a backward raises
        reraise_bug(error)
        raise skip("no-first-order", f"the backward itself raises {error_line(error)}") from error
    try:
        grads = _gradients(inputs, outputs, weights, create_graph=True)
    except Exception as error:  # whatever a backward raises
        reraise_bug(error)
        raise _no_second_order(f"with create_graph=True it raises {error_line(error)}") from error
    if not any(gradient.any() or gradient.requires_grad for _, gradient in grads):
        raise skip("nothing-to-check", "the first-order gradients are zero", unjudged=False)
    for name, gradient in grads:
        if gradient.any() and not _reaches(gradient, weights):
            raise _no_second_order(f"{name} is not connected to grad_output (once_differentiable?)")


def _reaches(gradient: Tensor, weights: list[Tensor]) -> bool:
    if not gradient.requires_grad:
        return False
    ones = torch.ones_like(gradient)
    try:
        grads = torch.autograd.grad(gradient, weights, ones, retain_graph=True, allow_unused=True)
    except Exception as error:  # whatever the backward of a backward raises
        reraise_bug(error)
        raise _no_second_order(error_line(error)) from error
    return any(grad is not None for grad in grads)


def _lacks_formula(message: str) -> bool:
    return any(codes in message for codes in _NO_FORMULA)


def _no_second_order(why: str) -> CheckSkipped:
    return skip("no-second-order", f"the backward cannot be differentiated again: {why}")


FINDINGS = {
    "second-order-gradient-mismatch": Explanation(
        meaning="Second-order gradients differ from finite differences of the first-order ones.",
        why="Gradient penalties, Hessians and meta-learning compute with wrong numbers.",
        fix=(
            "Make the backward differentiable: every tensor that it uses must be an input or "
            "an output saved with ctx.save_for_backward, and every op that it calls needs its "
            "own correct formula. If second order is not meant to work, reject it: "
            "@torch.autograd.function.once_differentiable."
        ),
        before="""
def backward(ctx, grad):
    (x,) = ctx.saved_tensors
    return 3 * x.detach() ** 2 * grad
""",
        after="""
def backward(ctx, grad):
    (x,) = ctx.saved_tensors
    return 3 * x**2 * grad
""",
        docs=(doc_links.GRADGRADCHECK, doc_links.ONCE_DIFFERENTIABLE),
        follows=("second-order-lost", "uninitialized-gradient"),
    ),
}

CHECK = Check(
    name="gradcheck.double",
    summary="second-order gradients equal finite differences of the first-order ones",
    run=check_double,
    gradients=True,
    needs_autograd=True,
    widest_dtype=True,
    findings=FINDINGS,
    catches="Second-order gradients that differ from finite differences of the first-order ones.",
    cannot_see="Ops without a second-order formula: a skip, `no-second-order`.",
    cost="many calls",
)
