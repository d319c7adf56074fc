"""The op of a case as a function of float64 tensors, and the skips and scripts of both checks."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

import torch
from torch import Tensor

from ...cases.case import Case
from ...cases.documented_gradients import is_differentiable_by
from ...cases.documented_numbers import gives_meaning_to
from ...cases.run import Run
from ...cases.tensors import Copier, base_name, is_differentiable, is_finite, is_plain
from ...core import rng
from ...core.tracebacks import reraise_bug
from ...core.wording import first_line
from ...declare.inputs import GradOptions
from ...findings import CheckFailed, CheckSkipped, skip
from .finite_differences.skips import random_gradients
from .finite_differences.ties import AT_TIES
from .finite_differences.vectors import CallError, Named, VectorFunction
from .scripts import gradcheck_script


def with_script(
    raised: CheckFailed | CheckSkipped, case: Case, call: str
) -> CheckFailed | CheckSkipped:
    """The same finding, with a script that shows it by torch's own function.

    Args:
        raised: the finding; a skip is returned unchanged.
        case: the case.
        call: `gradcheck` or `gradgradcheck`.
    """
    if isinstance(raised, CheckSkipped):
        return raised
    elements = sum(tensor.numel() for _, tensor in case.inputs().differentiable())
    at_ties = raised.finding.code == AT_TIES
    missing = bool(missing_numbers(case, case.inputs().differentiable()))
    lines = gradcheck_script(call, options_of(case), elements, ties=at_ties, missing=missing)
    return CheckFailed(dataclasses.replace(raised.finding, repro=lines))


def options_of(case: Case) -> GradOptions:
    """The options of the mark's `gradcheck=`.

    Raises:
        CheckSkipped: if it is a reason to leave the check out.
    """
    if isinstance(case.gradcheck, str):
        raise skip("left-out", case.gradcheck)
    return case.gradcheck


class Float64Op:
    """The op of a case as a function of the tensors that require gradients, in float64.

    Raises:
        CheckSkipped: if there are none, or the op does not work in float64.
    """

    def __init__(self, case: Case) -> None:
        self._eager = case
        self.case = case.widened()
        try:
            self._template = self.case.inputs()
        except RuntimeError as error:
            raise no_float64(f"its inputs cannot be made: {error}") from error
        self.inputs = self._template.differentiable()
        if not self.inputs:
            raise skip("nothing-to-check", "no argument requires gradients", unjudged=False)
        for name, tensor in self._template.tensors():
            if not is_plain(tensor):
                raise skip(
                    "checker-limit",
                    f"finite differences need dense tensors, and `{name}` is not one",
                )
        # Where a docstring gives NaN a meaning, it is no number to take a derivative by.
        self._missing = missing_numbers(self.case, self.inputs)
        self._undefined: dict[str, Tensor] | None = None  # elements of outputs, once they are known
        self.inputs = [(name, self._without_missing(name, tensor)) for name, tensor in self.inputs]

    def _without_missing(self, name: str, tensor: Tensor) -> Tensor:
        if name not in self._missing:
            return tensor
        return tensor.detach().nan_to_num(nan=0.0).requires_grad_()

    def _with_missing(self, name: str, tensor: Tensor) -> Tensor:
        missing = self._missing.get(name)
        return tensor if missing is None else torch.where(missing, torch.nan, tensor)

    def constants(self) -> set[str]:
        """The inputs without a gradient, unless the mark, the sample or a docstring requires one."""
        if not self.case.placement.guesses_gradients:
            return set()
        try:
            gradients = self._eager.eager_gradients
        except Exception as error:  # what a backward raises is reported where it is compared
            reraise_bug(error)
            return set()
        return {
            name
            for name, gradient in gradients.items()
            if gradient is None and not is_differentiable_by(self.case.op, base_name(name))
        }

    def hold(self, names: Collection[str]) -> None:
        """Treat inputs as constants from now on."""
        self.inputs = [(name, tensor) for name, tensor in self.inputs if name not in names]

    def function(self) -> VectorFunction:
        """The function from the inputs to the outputs that require gradients."""
        try:
            function = VectorFunction(self.inputs, self.outputs)
        except CallError as error:
            raise no_float64(f"the op raises {error}") from error
        if not function.outputs:
            raise _no_outputs(self.case)
        if self._missing and not all(map(is_finite, random_gradients(function, self.case.seed))):
            reason = "with NaN among the inputs, gradients have NaN too: nothing says that they have none"
            raise skip("not-finite", reason)
        return function

    def outputs(self, tensors: list[Tensor]) -> Named:
        """Call the op with these tensors for the inputs."""
        rest = iter(tensors)
        copier = Copier()
        paths = iter([path for path, _ in self._template.tensors()])
        inputs = {name for name, _ in self.inputs}

        def argument(leaf: Tensor) -> Tensor:
            path = next(paths)
            return self._with_missing(path, next(rest)) if path in inputs else copier(leaf).detach()

        arguments = self._template.map(argument)
        rng.seed(self.case.seed)
        try:
            run = Run(arguments, arguments.call())
        except Exception as error:  # whatever an op raises
            reraise_bug(error)
            raise CallError(error) from error
        for name, tensor in run.outputs:
            if not is_plain(tensor):
                raise skip(
                    "checker-limit", f"finite differences need dense tensors, and {name} is not one"
                )
        return self._defined(run.outputs) if self._missing else run.outputs

    def _defined(self, outputs: Named) -> Named:
        """The outputs with 0 where they are NaN because a number is missing."""
        if self._undefined is None:
            self._undefined = {name: output.isnan() for name, output in outputs}
        found = []
        for name, output in outputs:
            undefined = self._undefined.get(name)
            if undefined is not None and undefined.shape == output.shape:
                output = torch.where(undefined, torch.zeros_like(output), output)
            found.append((name, output))
        return found


def missing_numbers(case: Case, inputs: Named) -> dict[str, Tensor]:
    """By input, where it is NaN, if a docstring gives that a meaning for each input that has some."""
    missing = {
        name: tensor.isnan()
        for name, tensor in inputs
        if tensor.numel() and bool(tensor.isnan().any())
    }
    known = all(gives_meaning_to("nan", case.op, base_name(name)) for name in missing)
    return missing if known else {}


def no_float64(why: str) -> CheckSkipped:
    """The skip for an op that does not work in float64."""
    return skip(
        "no-float64",
        first_line(f"finite differences need float64, but there {why}")
        + '. Give the op a float64 kernel, or leave the check out: gradcheck="float32 only".',
    )


def _no_outputs(case: Case) -> CheckSkipped:
    """The skip for an op without an output that can be compared."""
    outputs = [(name, output) for name, output in case.eager.outputs if output.numel() > 0]
    named = [name for name, output in outputs if is_differentiable(output.dtype)]
    if not outputs:
        return skip("nothing-to-check", "the outputs have no elements", unjudged=False)
    if not named:
        return skip("nothing-to-check", "no output is of a differentiable dtype", unjudged=False)
    return skip(
        "nothing-to-check", f"{named[0]} does not require gradients, and no other output does"
    )
