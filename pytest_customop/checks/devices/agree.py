"""`devices.agree`: the op gives the same results on every device of the mark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch

from ...cases.argument_names import names_workspace
from ...cases.case import Case
from ...cases.picture import picture_of
from ...cases.rounding import within_another_order, within_rounding
from ...cases.run import Run
from ...cases.tensors import difference, equal_values, output_leaves, readable
from ...core import rng
from ...core.tracebacks import error_line, reraise_bug
from ...core.wording import layout_name
from ...declare.mistakes import MarkError
from ...findings import WITHIN_ROUNDING, CheckFailed, Explanation, doc_links, fail, skip
from ..check import Check
from .scripts import gradient_script, output_script

_OUTPUT, _GRADIENT = "device-mismatch", "device-gradient-mismatch"
_SEEDS = (1, 2)  # added to the case's seed, to find out whether an op draws random numbers
Named = dict[str, Any]


def check_agree(case: Case) -> None:
    """Compare outputs, mutated arguments and gradients with those on the reference device."""
    assert case.reference_device is not None  # the check runs on no other case
    there = case.on_device(case.reference_device)
    if there.eager.error is not None:
        reason = f"the op raises on {case.reference_device}: {error_line(there.eager.error)}"
        raise skip("nothing-to-check", reason, unjudged=False)
    comparison = _Comparison(case, there)
    try:
        comparison.outputs()
        if case.requires_grad and case.op.has_autograd:
            comparison.gradients()
    finally:
        there.release()
    if comparison.rounded:
        raise comparison.rounded[0]


def _results(run: Run) -> Named:
    """The returned values and written arguments of a call, by names for messages.

    Without workspaces: kernels for different devices need not use them alike.
    """
    written = {
        f"argument {name} after the call": tensor
        for name, tensor in run.arguments.mutated()
        if not names_workspace(name)
    }
    return {**dict(output_leaves(run.result)), **written}


@dataclass
class _Comparison:
    """Compares a case with the same one on the reference device, and raises on a difference.

    Args:
        here, there: the case, and the same one on the reference device.
        rounded: the differences so far that rounding explains.
    """

    here: Case
    there: Case
    rounded: list[CheckFailed] = field(default_factory=list)

    def outputs(self) -> None:
        """Compare what the call returned and wrote."""
        here, there = _results(self.here.eager), _results(self.there.eager)
        if list(here) != list(there):
            only = next(name for name in {**there, **here} if (name in here) != (name in there))
            where, other_device = self._places if only in here else reversed(self._places)
            raise self._failure(_OUTPUT, f"{only} on {where}, none on {other_device}", only)
        for name, actual in here.items():
            expected = there[name]
            wrong = _kind_difference(actual, expected)
            if wrong:
                raise self._failure(_OUTPUT, f"{name}: {wrong}", name)
            if isinstance(actual, torch.Tensor) and not self.here.op.nondeterministic:
                self._compare_values(_OUTPUT, name, actual, expected, self._exact_outputs)

    def gradients(self) -> None:
        """Compare the gradients for equal grad_outputs. A missing gradient counts as zeros."""
        try:
            here, there = self.here.eager_gradients, self.there.eager_gradients
        except Exception as error:  # whatever a backward raises
            reraise_bug(error)
            reason = f"a backward raises: {error_line(error)}"
            raise skip("nothing-to-check", reason, unjudged=False) from None
        if self.here.op.nondeterministic:
            return
        for name, actual in here.items():
            expected = there.get(name)
            if actual is None and expected is None:
                continue
            if actual is None or expected is None:
                self._compare_with_none(name, actual, expected)
                continue
            wrong = _kind_difference(actual, expected, gradients=False)
            if wrong:
                raise self._failure(_GRADIENT, f"the gradient of {name}: {wrong}", name)
            self._compare_values(_GRADIENT, name, actual, expected, self._exact_gradients)

    @property
    def _places(self) -> tuple[str, str]:
        return self.here.placement.device, self.there.placement.device

    def _compare_with_none(
        self, name: str, actual: torch.Tensor | None, expected: torch.Tensor | None
    ) -> None:
        gradient = expected if actual is None else actual
        assert gradient is not None
        if bool(readable(gradient).ne(0).any()):
            kinds = ["None" if value is None else "a tensor" for value in (actual, expected)]
            text = f"the gradient of {name}: {kinds[0]} instead of {kinds[1]}"
            raise self._failure(_GRADIENT, text, name)

    def _compare_values(
        self, code: str, name: str, actual: torch.Tensor, expected: torch.Tensor, exact: Any
    ) -> None:
        """Raise for values that differ; differences that rounding explains are kept for the end."""
        if actual.is_nested:
            raise skip("checker-limit", f"{name} is a nested tensor, which cannot be compared here")
        tolerance = self.here.tolerance(actual.dtype)
        left, right = _on_cpu(actual), _on_cpu(expected)
        wrong = difference(left, right, *tolerance)
        if wrong is None:
            return
        as_given = actual.dtype in (self.here.tolerances or {})  # the mark's own tolerances
        truth = None if as_given else exact(name)
        if truth is not None and within_rounding(left, right, _on_cpu(truth), tolerance):
            return
        self._skip_if_random()
        title = name if code == _OUTPUT else f"the gradient of {name}"
        tensors = [_on_cpu(tensor) for _, tensor in self.there.inputs().tensors()]
        if not as_given and within_another_order(left, right, tensors):
            self.rounded.append(
                self._failure(code, f"{title} differs by rounding: {wrong}", name, WITHIN_ROUNDING)
            )
            return
        picture = picture_of(title, left, right)
        raise self._failure(code, f"{title}: {wrong}", name, picture=picture)

    @cached_property
    def _wide(self) -> Case | None:
        """The case on the reference device in double precision; None if the op rejects that."""
        wide = self.there.widened()
        try:
            return None if wide.eager.error is not None else wide
        except (MarkError, RuntimeError):  # the device has no such dtype
            return None

    def _exact_outputs(self, name: str) -> torch.Tensor | None:
        output = _results(self._wide.eager).get(name) if self._wide else None
        return output if isinstance(output, torch.Tensor) else None

    def _exact_gradients(self, name: str) -> torch.Tensor | None:
        try:
            return self._wide.eager_gradients.get(name) if self._wide else None
        except Exception as error:  # whatever a backward raises for float64
            reraise_bug(error)
            return None

    def _skip_if_random(self) -> None:
        """Skip for an op that draws random numbers: each device has its own stream."""
        for case in (self.here, self.there):
            first = _results(case.eager)
            for step in _SEEDS:
                again = _results(_run_with_seed(case, case.seed + step))
                if any(_differ(case, again.get(name), value) for name, value in first.items()):
                    raise skip(
                        "nondeterministic",
                        "the op gives other values for another seed: devices draw other numbers. If you "
                        "tag it with torch.Tag.nondeterministic_seeded, only metadata is compared",
                    )

    def _failure(
        self,
        code: str,
        text: str,
        name: str,
        note: str | None = None,
        picture: Mapping[str, Any] | None = None,
    ) -> CheckFailed:
        here, there = self._places
        script = gradient_script if code == _GRADIENT else output_script
        return fail(
            code,
            f"{self.here.op.name} on {here} and on {there}: {text}",
            f"{here} is compared with {there}, for equal inputs",
            repro=script(self.here, name),
            note=note,
            picture=picture,
        )


def _run_with_seed(case: Case, seed: int) -> Run:
    """A call with the case's arguments, with the random streams at another seed."""
    arguments = case.inputs()
    rng.seed(seed)
    return Run(arguments, arguments.call())


def _on_cpu(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().to("cpu")


def _differ(case: Case, left: Any, right: Any) -> bool:
    if not (isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor)):
        return left is not right and left != right
    return difference(left, right, *case.tolerance(right.dtype)) is not None


def _kind_difference(actual: Any, expected: Any, *, gradients: bool = True) -> str | None:
    """How two results differ apart from the values of tensors, as text; None if they do not."""
    if not (isinstance(actual, torch.Tensor) and isinstance(expected, torch.Tensor)):
        same = actual is expected or equal_values(actual, expected)
        return None if same else f"{_described(actual)} instead of {_described(expected)}"
    if tuple(actual.shape) != tuple(expected.shape):
        return f"shape {tuple(actual.shape)} instead of {tuple(expected.shape)}"
    if actual.dtype != expected.dtype:
        return f"dtype {actual.dtype} instead of {expected.dtype}"
    if actual.layout != expected.layout:
        return f"layout {layout_name(actual.layout)} instead of {layout_name(expected.layout)}"
    if gradients and actual.requires_grad != expected.requires_grad:
        return f"requires_grad {actual.requires_grad} instead of {expected.requires_grad}"
    return None


def _described(value: Any) -> str:
    return "a tensor" if isinstance(value, torch.Tensor) else repr(value)


_BEFORE = """
@scale.register_kernel("cpu")
def _(x, factor):
    return x * factor

@scale.register_kernel("cuda")
def _(x, factor):
    return launch_scale(x, int(factor))   # 0.5 becomes 0
"""
_AFTER = """
@scale.register_kernel("cpu")
def _(x, factor):
    return x * factor

@scale.register_kernel("cuda")
def _(x, factor):
    return launch_scale(x, factor)
"""
FINDINGS = {
    _OUTPUT: Explanation(
        meaning=(
            "For equal inputs the op's outputs or mutated arguments differ from those on the mark's "
            "reference device: the CPU, or the first device."
        ),
        why=(
            "A model that was trained on one device gives other results on the other, and tests on the "
            "CPU say nothing about the GPU."
        ),
        fix=(
            "Correct the kernel that is wrong: to find it, compare both with plain torch, or give the "
            "mark reference=. If only rounding differs, give it tolerances=."
        ),
        before=_BEFORE,
        after=_AFTER,
        docs=(doc_links.CUSTOM_OP, doc_links.TESTING),
        follows=("reference-mismatch",),
    ),
    _GRADIENT: Explanation(
        meaning=(
            "For equal inputs and grad_outputs the backward gives another gradient than on the mark's "
            "reference device: the CPU, or the first device."
        ),
        why="Training differs between the devices, without an error.",
        fix=(
            "Correct the backward, or the kernel that it calls, on the device that is wrong. If only "
            "rounding differs, give the mark tolerances=."
        ),
        before="""
def backward(ctx, grad):
    (x,) = ctx.saved_tensors
    return sin_backward(grad, x) if x.is_cuda else grad * x.cos()   # sin_backward(x, grad) is meant
""",
        after="""
def backward(ctx, grad):
    (x,) = ctx.saved_tensors
    return sin_backward(x, grad) if x.is_cuda else grad * x.cos()
""",
        docs=(doc_links.REGISTER_AUTOGRAD, doc_links.TESTING),
        follows=("device-mismatch", "reference-gradient-mismatch", "gradient-mismatch"),
    ),
}

CHECK = Check(
    name="devices.agree",
    summary="outputs, written arguments and gradients equal those on the mark's reference device",
    run=check_agree,
    several_devices=True,
    variants=("layout", "shape", "values", "positions", "arguments", "pairs", "gradients", "alias"),
    cheap=True,
    findings=FINDINGS,
    catches=(
        "If a mark runs on several devices: values, shapes, dtypes, layouts or requires_grad that "
        "differ from the reference device's, for equal inputs and grad_outputs. The tolerances are those "
        "of the dtype, or the mark's `tolerances=`. A difference that another order of additions explains "
        "is a note."
    ),
    cannot_see=(
        "A mistake that the kernels share. Strides, which may differ. The values of an op that draws "
        "random numbers, because each device has its own stream. Arguments that the op accepts on one "
        "device and rejects on another."
    ),
    cost="calls",
)
