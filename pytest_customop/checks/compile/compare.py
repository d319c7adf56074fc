"""Compare a compiled call of the function around an op with the eager one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from ...cases.picture import picture_of
from ...cases.rounding import calls_differ_as_much, within_rounding
from ...cases.tensors import (
    base_name,
    difference,
    in_double,
    is_differentiable,
    is_plain,
    overlaps_itself,
)
from ...core.tracebacks import message_of, reraise_bug
from ...findings import TORCH_LIMIT, WITHIN_ROUNDING, CheckFailed, Finding, fail, skip
from .eager import EagerRecord, Gradients
from .harness import CallRecord

_T = TypeVar("_T")


class NoneDiffers(CheckFailed):
    """A gradient is None on one side only. In torch 2.4 a producer turns None into zeros."""


class CompiledRaises(Exception):
    """The compiler, or the code that it generated, raised `error`."""

    def __init__(self, error: Exception) -> None:
        super().__init__(message_of(error))
        self.error = error


def assert_matches(expected: EagerRecord, run: Callable[[], CallRecord], where: str = "") -> None:
    """Compare a run of compiled code with the eager one.

    Args:
        expected: the eager results.
        run: calls the compiled function.
        where: the start of a message: at which size.

    Raises:
        CheckFailed: for the first difference in outputs, written arguments and gradients, in this order.
        CheckSkipped: if values differ and eager mode does not repeat its own values.
        CompiledRaises: if the run or its backward raises.
    """
    comparison = Comparison(expected, where)
    record = _run_compiled(run)
    comparison.call(record)
    if expected.grad_outputs:
        comparison.gradients(_run_compiled(lambda: record.backward(expected.grad_outputs)))


def _run_compiled(run: Callable[[], _T]) -> _T:
    try:
        return run()
    except Exception as error:  # whatever a compiler, compiled code or a backward raises
        reraise_bug(error)
        raise CompiledRaises(error) from error


@dataclass(eq=False)
class Comparison:
    """Compares the parts of a compiled call with those of the eager one, and raises on a difference."""

    expected: EagerRecord
    where: str = ""

    def call(self, record: CallRecord) -> None:
        """Compare everything but the gradients."""
        self.outputs(record)
        self.arguments(record)
        if self.expected.case.requires_grad:
            # An op without a formula may yield gradients in eager mode.
            self.differentiable(record)

    def outputs(self, record: CallRecord) -> None:
        """Compare the op's outputs, and what their consumers read."""
        compiled, eager = record.outputs, self.expected.record.outputs
        if [name for name, _ in compiled] != [name for name, _ in eager]:
            self._fail(
                "compile-output-mismatch", f"{len(compiled)} outputs, {len(eager)} in eager mode"
            )
        for (name, actual), (_, expected) in zip(compiled, eager, strict=True):
            wrong = self._difference(name, actual, expected, "outputs")
            wrong = wrong or _stride_difference(actual, expected)
            if wrong:
                picture = picture_of(name, actual, expected)
                self._fail("compile-output-mismatch", f"{name}: {wrong}", picture)
        pairs = zip(record.consumed, self.expected.record.consumed, strict=True)
        for (name, actual), (_, expected) in pairs:
            wrong = self._difference(name, actual, expected, "consumed")
            if wrong:
                text = f"{name}, as an op after it reads it: {wrong}"
                self._fail("compile-output-mismatch", text, picture_of(name, actual, expected))

    def arguments(self, record: CallRecord) -> None:
        """Compare the arguments after the call, and what their readers returned."""
        compiled, eager = record.arguments.mutated(), self.expected.record.arguments.mutated()
        for (name, actual), (_, expected) in zip(compiled, eager, strict=True):
            wrong = self._difference(name, actual, expected, "arguments")
            if wrong:
                text = f"argument {name} after the call: {wrong}"
                self._fail("compile-mutation-mismatch", text, picture_of(name, actual, expected))
        written = self.expected.case.op.mutated
        for (name, actual), (_, expected) in zip(
            record.read, self.expected.record.read, strict=True
        ):
            argument, _, when = name.partition(" ")
            declared = base_name(argument) in written
            wrong = (
                self._difference(name, actual, expected, "read")
                if declared
                else difference(actual, expected, 0, 0)
            )
            if wrong:
                kind = "" if declared else ", which the schema does not declare as written to"
                text = f"argument {argument}{kind}: compiled code that reads it {when}: {wrong}"
                self._fail("compile-mutation-mismatch", text)

    def differentiable(self, record: CallRecord) -> None:
        """Compare which outputs require gradients."""
        compiled, eager = set(record.differentiable), set(self.expected.record.differentiable)
        for name in sorted(compiled ^ eager):
            here, there = (
                "requires" if name in names else "does not require" for names in (compiled, eager)
            )
            text = f"{name} {here} gradients when compiled, and {there} them in eager mode"
            self._fail("compile-gradient-mismatch", text)

    def gradients(self, gradients: Gradients) -> None:
        """Compare the gradients, and which of them are None.

        Raises:
            NoneDiffers: if one is None on one side only.
        """
        for name, actual in gradients.items():
            expected = self.expected.gradients[name]
            if actual is None or expected is None:
                if actual is not expected:
                    text = (
                        f"{self.where}gradient of {name}: {_kind(actual)}, {_kind(expected)} in "
                        "eager mode"
                    )
                    raise NoneDiffers(Finding("compile-gradient-mismatch", text))
                continue
            wrong = self._difference(name, actual, expected, "gradients")
            if wrong:
                self._note_if_outputs_overlap(name, wrong)
                title = f"gradient of {name}"
                picture = picture_of(title, actual, expected)
                self._fail("compile-gradient-mismatch", f"{title}: {wrong}", picture)

    def _difference(self, name: str, actual: Any, expected: Any, part: str) -> str | None:
        """How two leaves differ beyond rounding; None if they do not.

        Args:
            name: of the leaf.
            actual, expected: compiled and eager.
            part: the part of the call in which the leaf is found in double precision.
        """
        if not (isinstance(actual, torch.Tensor) and isinstance(expected, torch.Tensor)):
            same = _same_value(actual, expected)
            return None if same else f"{actual!r}, {expected!r} in eager mode"
        tolerance = self.expected.case.tolerance(actual.dtype)
        wrong = difference(actual, expected, *tolerance)
        if wrong is None or actual.shape != expected.shape or actual.dtype != expected.dtype:
            return wrong
        if self.expected.case.op.nondeterministic:  # only metadata is compared
            return None
        if self._within_rounding(name, actual, expected, part, tolerance):
            return None
        self._skip_if_nondeterministic(actual, expected)
        self._note_if_rounded_to_whole(name, actual, expected, part, wrong)
        return wrong

    def _within_rounding(
        self,
        name: str,
        actual: torch.Tensor,
        expected: torch.Tensor,
        part: str,
        tolerance: tuple[float, float],
    ) -> bool:
        """Whether compiled code is as close to double precision as eager mode is."""
        wide = self._in_double(name, part)
        exact = expected if wide is None or wide.shape != expected.shape else wide
        strided = expected.layout == torch.strided
        return strided and within_rounding(actual, expected, exact, tolerance)

    def _note_if_rounded_to_whole(
        self, name: str, actual: torch.Tensor, expected: torch.Tensor, part: str, wrong: str
    ) -> None:
        """Note integers that differ because the numbers that they come from are rounded less.

        Compilers keep more precision between the steps of an op whose code they can see.
        """
        dtypes = [tensor.dtype for _, tensor in self.expected.case.inputs().tensors()]
        narrow = [dtype for dtype in dtypes if dtype in (torch.bfloat16, torch.float16)]
        if is_differentiable(expected.dtype) or not narrow:
            return
        tolerance = max(self.expected.case.tolerance(dtype) for dtype in narrow)
        actual_values, expected_values = in_double(actual), in_double(expected)
        if within_rounding(actual_values, expected_values, self._in_double(name, part), tolerance):
            text = f"{self.where}{name}: {wrong}"
            raise fail("compile-output-mismatch", text, note=WITHIN_ROUNDING)

    def _note_if_outputs_overlap(self, name: str, wrong: str) -> None:
        """Note wrong gradients of an output whose elements share memory, such as a sliding window.

        torch.compile computes them wrongly for `torch.Tensor.unfold` too (torch 2.4 to 2.15).
        """
        outputs = [output for _, output in self.expected.record.outputs]
        if any(isinstance(output, torch.Tensor) and overlaps_itself(output) for output in outputs):
            text = (
                f"{self.where}gradient of {name}: {wrong}; elements of an output share memory; "
                "torch.compile computes wrong gradients then, also for torch.Tensor.unfold"
            )
            raise fail("compile-gradient-mismatch", text, note=TORCH_LIMIT)

    def _in_double(self, name: str, part: str) -> torch.Tensor | None:
        """The leaf in double precision; None if the op does not support it."""
        wide = self.expected.wide
        if wide is None:
            return None
        record, gradients = wide
        leaf = {
            "outputs": dict(record.outputs),
            "consumed": dict(record.consumed),
            "arguments": dict(record.arguments.mutated()),
            "read": dict(record.read),
            "gradients": gradients,
        }[part].get(name)
        return leaf if isinstance(leaf, torch.Tensor) else None

    def _skip_if_nondeterministic(self, actual: torch.Tensor, expected: torch.Tensor) -> None:
        """Skip if eager mode differs between calls as much as compiled code differs from it.

        Args:
            actual, expected: compiled and eager.
        """
        if not calls_differ_as_much(self._again, self._beyond_tolerance, actual, expected):
            return
        raise skip(
            "nondeterministic",
            "the op gives other values each time it runs: tag it with "
            "torch.Tag.nondeterministic_seeded, or with nondeterministic_bitwise if the order of "
            "additions varies; then only metadata is compared",
        )

    def _again(self) -> list[tuple[Any, Any]]:
        """The results of one more call in eager mode, each with that of the first call."""
        first, harness = self.expected, self.expected.harness
        again = harness.run(harness.function, first.case.inputs())
        pairs = [
            *zip(again.outputs, first.record.outputs, strict=False),
            *zip(again.arguments.mutated(), first.record.arguments.mutated(), strict=True),
        ]
        if first.grad_outputs:
            gradients = again.backward(first.grad_outputs)
            pairs += zip(gradients.items(), first.gradients.items(), strict=True)
        return [(left, right) for (_, left), (_, right) in pairs]

    def _beyond_tolerance(self, actual: Any, expected: Any) -> bool:
        if not (isinstance(actual, torch.Tensor) and isinstance(expected, torch.Tensor)):
            return False
        tolerance = self.expected.case.tolerance(actual.dtype)
        return difference(actual, expected, *tolerance) is not None

    def _fail(self, code: str, text: str, picture: Mapping[str, Any] | None = None) -> None:
        shown = self.where.removesuffix(": ")
        raise fail(code, self.where + text, picture=picture, shown=shown)


def _stride_difference(actual: Any, expected: Any) -> str | None:
    """How the strides of two tensors differ; those of dims of size 1 do not count."""
    if not (isinstance(actual, torch.Tensor) and isinstance(expected, torch.Tensor)):
        return None
    if not (is_plain(actual) and is_plain(expected)) or expected.numel() == 0:
        return None
    compiled, eager = (
        [stride for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1]
        for tensor in (actual, expected)
    )
    if compiled == eager:
        return None
    return f"strides {tuple(actual.stride())} instead of {tuple(expected.stride())}"


def _same_value(actual: Any, expected: Any) -> bool:
    if isinstance(actual, torch.Tensor) or isinstance(expected, torch.Tensor):
        return False
    return bool(actual == expected) or (actual != actual and expected != expected)


def _kind(gradient: torch.Tensor | None) -> str:
    return "None" if gradient is None else "a tensor"
