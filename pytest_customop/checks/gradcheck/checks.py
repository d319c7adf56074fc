"""The family `gradcheck`: gradients against finite differences, in float64, at any size."""

from __future__ import annotations

import dataclasses
import warnings

import torch
from torch import Tensor

from ...cases.case import Case, Run, random_like
from ...cases.tensors import Copier, is_differentiable, is_plain
from ...core import rng
from ...core.tracebacks import error_line, traceback_text
from ...core.wording import first_line
from ...declare.inputs import GradOptions
from ...findings import CheckFailed, CheckSkipped, fail, skip
from ..check import Check
from .finite_differences.vectors import BackwardError, CallError, Named, VectorFunction
from .finite_differences.verdict import FindingCodes, judge
from .scripts import compared

_FIRST = FindingCodes(
    mismatch="gradient-mismatch",
    missing="gradient-missing",
    step="gradient-of-a-step-function",
    derivative="the gradient for `{input}`",
)
_SECOND = FindingCodes(
    mismatch="second-order-gradient-mismatch",
    missing="second-order-gradient-mismatch",
    step="second-order-gradient-mismatch",
    derivative="the second-order gradient for `{input}`",
)
# What torch says when a second derivative is asked of something that has none.
_NO_FORMULA = (
    "no autograd formula was registered",
    "once_differentiable",
    "not implemented",
    "autograd kernel was not registered",
    "does not require grad",
)


def check_backward(case: Case) -> None:
    """Compare the first-order gradients with finite differences of the outputs."""
    options = _options(case)
    try:
        judge(_Op(case).function(), options, case.seed, _FIRST)
    except BackwardError as error:
        raise _reproducible(_backward_raises(case, error.error), case, "gradcheck") from error
    except CheckFailed as failure:
        raise _reproducible(failure, case, "gradcheck") from None


def check_double(case: Case) -> None:
    """Compare the second-order gradients with finite differences of the first-order ones."""
    options = _options(case)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            judge(_second_order(_Op(case), case.seed), options, case.seed, _SECOND)
        except BackwardError as error:
            raise _no_second_order(error_line(error.error)) from error
        except CheckFailed as failure:
            # Such an op lets gradients end without a word that an exception would say.
            told = [str(one.message) for one in caught if _lacks_formula(str(one.message))]
            if told:
                raise _no_second_order(told[0]) from None
            raise _reproducible(failure, case, "gradgradcheck") from None


CHECKS = [
    Check(
        "gradcheck.backward",
        "gradients equal finite differences in float64, at any size (torch.autograd.gradcheck)",
        check_backward,
        gradients=True,
        needs_autograd=True,
        widest_dtype=True,
        variants=("shape", "positions", "arguments"),
        cheap=True,
    ),
    Check(
        "gradcheck.double",
        "second-order gradients equal finite differences of the first-order ones",
        check_double,
        gradients=True,
        needs_autograd=True,
        widest_dtype=True,
    ),
]


def _reproducible(
    raised: CheckFailed | CheckSkipped, case: Case, call: str
) -> CheckFailed | CheckSkipped:
    """The same finding, with lines that show it by torch's own function."""
    if isinstance(raised, CheckSkipped):
        return raised
    elements = sum(tensor.numel() for _, tensor in case.inputs().differentiable())
    lines = compared(call, _options(case), elements)
    return CheckFailed(dataclasses.replace(raised.finding, repro=lines))


def _options(case: Case) -> GradOptions:
    if isinstance(case.gradcheck, str):
        raise skip("left-out", case.gradcheck)
    return case.gradcheck


class _Op:
    """The op of a case as a function of the tensors that require gradients, in float64.

    Raises:
        CheckSkipped: there are none, or the op cannot be had in float64.
    """

    def __init__(self, case: Case) -> None:
        self.case = case.widened()
        try:
            self._template = self.case.inputs()
        except (RuntimeError, TypeError) as error:
            raise _no_float64(f"its inputs cannot be made: {error}") from error
        self.inputs = self._template.differentiable()
        if not self.inputs:
            raise skip("nothing-to-check", "no argument requires gradients", unjudged=False)
        for name, tensor in self._template.tensors():
            if not is_plain(tensor):
                raise skip(
                    "checker-limit", f"`{name}` is not a dense tensor; finite differences are"
                )

    def function(self) -> VectorFunction:
        """The outputs that require gradients."""
        try:
            function = VectorFunction(self.inputs, self.outputs)
        except CallError as error:
            raise _no_float64(f"the op raises {error}") from error
        if not function.outputs:
            raise _no_outputs(self.case)
        return function

    def outputs(self, tensors: list[Tensor]) -> Named:
        """Call the op with these in place of the tensors that require gradients."""
        rest = iter(tensors)
        copier = Copier()
        arguments = self._template.map(
            lambda leaf: next(rest) if leaf.requires_grad else copier(leaf)
        )
        rng.seed(self.case.seed)
        try:
            run = Run(arguments, arguments.call())
        except Exception as error:
            raise CallError(error) from error
        for name, tensor in run.outputs:
            if not is_plain(tensor):
                raise skip("checker-limit", f"{name} is not a dense tensor; finite differences are")
        return run.outputs


def _no_float64(why: str) -> CheckSkipped:
    return skip(
        "no-float64",
        first_line(f"finite differences need float64, and there {why}")
        + '. Give the op a float64 kernel, or leave the check out: gradcheck="float32 only".',
    )


def _no_outputs(case: Case) -> CheckSkipped:
    """Why no output can be compared."""
    outputs = [(name, one) for name, one in case.eager.outputs if one.numel() > 0]
    named = [name for name, one in outputs if is_differentiable(one.dtype)]
    if not outputs:
        return skip("nothing-to-check", "the outputs have no elements", unjudged=False)
    if not named:
        return skip("nothing-to-check", "no output is of a differentiable dtype", unjudged=False)
    return skip(
        "nothing-to-check", f"{named[0]} does not require gradients, and no other output does"
    )


def _backward_raises(case: Case, error: BaseException) -> CheckFailed | CheckSkipped:
    """A finding, unless only float64 is what the backward cannot do."""
    own = {tensor.dtype for _, tensor in case.inputs().differentiable()}
    if own - {torch.float64, torch.complex128}:
        try:
            case.eager_gradients  # noqa: B018 -- whether it raises is the question
        except Exception:
            pass
        else:
            return _no_float64(f"the backward raises {error_line(error)}")
    return fail(
        "backward-raises",
        f"the backward raises {error_line(error)}",
        traceback_text(error),
    )


# ----------------------------------------------------------------------------------- second order


def _second_order(op: _Op, seed: int) -> VectorFunction:
    """The first-order gradients as a function of the inputs and of the grad_outputs.

    Raises:
        CheckSkipped: they cannot be differentiated again.
    """
    names = {output.name for output in op.function().outputs}
    inputs = [(name, tensor.detach().requires_grad_()) for name, tensor in op.inputs]
    outputs = [one for one in op.outputs([tensor for _, tensor in inputs]) if one[0] in names]
    grad_outputs = [
        (f"grad_output of {name}", random_like(tensor, seed + 1 + index).requires_grad_())
        for index, (name, tensor) in enumerate(outputs)
    ]
    _refuse_without_graph(inputs, outputs, grad_outputs)

    def call(tensors: list[Tensor]) -> Named:
        given = [(name, tensor) for (name, _), tensor in zip(inputs, tensors, strict=False)]
        results = [one for one in op.outputs(tensors[: len(inputs)]) if one[0] in names]
        try:
            return _gradients(given, results, tensors[len(inputs) :], create_graph=True)
        except Exception as error:
            raise CallError(error) from error

    return VectorFunction([*inputs, *grad_outputs], call)


def _gradients(inputs: Named, outputs: Named, grad_outputs: list[Tensor], **options: bool) -> Named:
    """The gradients that arrive, named as outputs of a function."""
    found = torch.autograd.grad(
        [tensor for _, tensor in outputs],
        [tensor for _, tensor in inputs],
        grad_outputs,
        allow_unused=True,
        **options,
    )
    named = zip([name for name, _ in inputs], found, strict=True)
    return [(f"the gradient for `{name}`", one) for name, one in named if one is not None]


def _refuse_without_graph(inputs: Named, outputs: Named, grad_outputs: Named) -> None:
    """Skip where the gradients are not connected to grad_output, in which they are linear."""
    weights = [tensor for _, tensor in grad_outputs]
    try:
        _gradients(inputs, outputs, weights, retain_graph=True)
    except Exception as error:
        raise skip("no-first-order", f"the backward itself raises {error_line(error)}") from error
    try:
        found = _gradients(inputs, outputs, weights, create_graph=True)
    except Exception as error:
        raise _no_second_order(f"with create_graph=True it raises {error_line(error)}") from error
    if not any(gradient.any() or gradient.requires_grad for _, gradient in found):
        raise skip("nothing-to-check", "the first-order gradients are zero", unjudged=False)
    for name, gradient in found:
        if gradient.any() and not _reaches(gradient, weights):
            raise _no_second_order(f"{name} is not connected to grad_output (once_differentiable?)")


def _reaches(gradient: Tensor, weights: list[Tensor]) -> bool:
    if not gradient.requires_grad:
        return False
    ones = torch.ones_like(gradient)
    try:
        found = torch.autograd.grad(gradient, weights, ones, retain_graph=True, allow_unused=True)
    except Exception as error:
        raise _no_second_order(error_line(error)) from error
    return any(one is not None for one in found)


def _lacks_formula(message: str) -> bool:
    return any(words in message for words in _NO_FORMULA)


def _no_second_order(why: str) -> CheckSkipped:
    return skip("no-second-order", f"the backward cannot be differentiated again: {why}")
