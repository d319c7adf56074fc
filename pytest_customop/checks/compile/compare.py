"""One call of the function around an op held against another: outputs, writes, gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import torch

from ...cases.case import Case, random_like
from ...cases.fake_contract import FakeContract
from ...cases.rounding import within_rounding
from ...cases.tensors import base_name, difference, is_plain
from ...core.tracebacks import error_line, message_of, reraise_bug, traceback_text
from ...findings import CheckFailed, Finding, fail, skip
from .harness import OP_ONLY, CallRecord, OpHarness

_T = TypeVar("_T")
Gradients = dict[str, "torch.Tensor | None"]


@dataclass(eq=False)
class Reference:
    """What eager mode gives at the sizes of a case.

    Args:
        surrounded: the function.
        case: the case whose arguments it was called with.
        seen: what it returned.
        grad_outputs: a random one for everything differentiable, by name.
        gradients: of the arguments, by name.
        promises: what fake kernels promised for the ops that ran.
    """

    surrounded: OpHarness
    case: Case
    seen: CallRecord
    grad_outputs: dict[str, torch.Tensor]
    gradients: Gradients
    promises: FakeContract

    @cached_property
    def wide(self) -> tuple[CallRecord, Gradients] | None:
        """The same in double precision; None if the op does not take it."""
        case = self.case.widened()
        surrounded = OpHarness(case, self.surrounded.form)
        try:
            if case.eager.error is not None:
                return None
            seen = surrounded.run(surrounded.function, case.inputs())
            outputs = seen.differentiable
            if not outputs.keys() >= self.grad_outputs.keys():
                return None
            grads = {name: grad.to(outputs[name].dtype) for name, grad in self.grad_outputs.items()}
            return seen, seen.backward(grads) if grads else {}
        except Exception as error:  # whatever an op or its backward raises for float64
            reraise_bug(error)
            return None


def reference(surrounded: OpHarness, case: Case) -> Reference:
    """Run the function in eager mode at the sizes of a case.

    If it raises, the op runs alone: some ops care where their arguments come from. It runs twice: a
    kernel that is watched runs as compiled code calls it, where torch does not conjugate lazily
    conjugated tensors, so its values are not eager mode's.

    Raises:
        CheckFailed: `backward-raises`.
    """
    promises = FakeContract()
    try:
        with promises.recording():
            watched = surrounded.run(surrounded.function, case.inputs())
        seen = surrounded.run(surrounded.function, case.inputs())
    except Exception as error:  # whatever the op raises
        reraise_bug(error)
        if surrounded.form == OP_ONLY:
            raise
        return reference(OpHarness(surrounded.case, OP_ONLY), case)
    grads = {
        name: random_like(tensor, case.seed + 1 + index)
        for index, (name, tensor) in enumerate(seen.differentiable.items())
        if case.op.has_autograd  # without one, torch lets an output's backward raise
    }
    try:
        with promises.recording():
            if grads:
                watched.backward(grads)
        gradients = seen.backward(grads) if grads else {}
        if grads:  # a backward that writes to an output must not be taken for a compiler's mistake
            seen = surrounded.run(surrounded.function, case.inputs())
    except Exception as error:  # whatever a backward raises
        reraise_bug(error)
        message = f"the backward raises {error_line(error)}"
        raise fail("backward-raises", message, traceback_text(error)) from error
    return Reference(surrounded, case, seen, grads, gradients, promises)


class NoneDiffers(CheckFailed):
    """A gradient is None on one side only. torch 2.4 hands zeros through a producer in its place."""


class CompiledRaises(Exception):
    """The compiler, or the code that it made, raised `error`."""

    def __init__(self, error: Exception) -> None:
        super().__init__(message_of(error))
        self.error = error


def agree(expected: Reference, run: Callable[[], CallRecord], where: str = "") -> None:
    """Compare a run of compiled code with the eager one.

    Raises:
        CheckFailed: for the first disagreement: outputs, then arguments written to, then gradients.
        CheckSkipped: if values differ and eager mode does not repeat its own.
        CompiledRaises: if the run raises, or its backward.
    """
    comparison = _Comparison(expected, where)
    got = _calling(run)
    comparison.outputs(got)
    comparison.arguments(got)
    if expected.case.op.has_autograd:
        comparison.differentiable(got)
    if expected.grad_outputs:
        comparison.gradients(_calling(lambda: got.backward(expected.grad_outputs)))


def _calling(run: Callable[[], _T]) -> _T:
    try:
        return run()
    except Exception as error:  # whatever a compiler, compiled code or a backward raises
        reraise_bug(error)
        raise CompiledRaises(error) from error


@dataclass(eq=False)
class _Comparison:
    expected: Reference
    where: str

    @property
    def values(self) -> bool:
        """Whether values are compared, and not only what else is known of tensors."""
        return not self.expected.case.op.nondeterministic

    def outputs(self, got: CallRecord) -> None:
        mine, theirs = got.outputs, self.expected.seen.outputs
        if [name for name, _ in mine] != [name for name, _ in theirs]:
            self._fail(
                "compile-output-mismatch", f"{len(mine)} outputs, {len(theirs)} in eager mode"
            )
        for (name, one), (_, other) in zip(mine, theirs, strict=True):
            wrong = self._tensors(name, one, other, "outputs") or _strides(one, other)
            if wrong:
                self._fail("compile-output-mismatch", f"{name}: {wrong}")
        for (name, one), (_, other) in zip(got.consumed, self.expected.seen.consumed, strict=True):
            wrong = self._tensors(name, one, other, "consumed")
            if wrong:
                text = f"{name}, as an op after it reads it: {wrong}"
                self._fail("compile-output-mismatch", text)

    def arguments(self, got: CallRecord) -> None:
        mine, theirs = got.arguments.mutated(), self.expected.seen.arguments.mutated()
        for (name, one), (_, other) in zip(mine, theirs, strict=True):
            wrong = self._tensors(name, one, other, "arguments")
            if wrong:
                text = f"argument {name} after the call: {wrong}"
                self._fail("compile-mutation-mismatch", text)
        written = self.expected.case.op.mutated
        for (name, one), (_, other) in zip(got.read, self.expected.seen.read, strict=True):
            argument, _, when = name.partition(" ")
            declared = base_name(argument) in written
            wrong = (
                self._tensors(name, one, other, "read")
                if declared
                else difference(one, other, 0, 0)
            )
            if wrong:
                kind = "" if declared else ", which the schema does not declare as written to"
                text = f"argument {argument}{kind}: compiled code that reads it {when}: {wrong}"
                self._fail("compile-mutation-mismatch", text)

    def differentiable(self, got: CallRecord) -> None:
        mine, theirs = set(got.differentiable), set(self.expected.seen.differentiable)
        for name in sorted(mine ^ theirs):
            here, there = (
                "requires" if name in names else "does not require" for names in (mine, theirs)
            )
            text = f"{name} {here} gradients when compiled, and {there} them in eager mode"
            self._fail("compile-gradient-mismatch", text)

    def gradients(self, got: Gradients) -> None:
        for name, one in got.items():
            other = self.expected.gradients[name]
            if one is None or other is None:
                if one is not other:
                    text = f"{self.where}gradient of {name}: {_kind(one)}, {_kind(other)} in eager mode"
                    raise NoneDiffers(Finding("compile-gradient-mismatch", text))
                continue
            wrong = self._tensors(name, one, other, "gradients")
            if wrong:
                self._fail("compile-gradient-mismatch", f"gradient of {name}: {wrong}")

    def _tensors(self, name: str, one: Any, other: Any, part: str) -> str | None:
        """How two leaves differ beyond rounding; None if they do not."""
        if not (isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)):
            return None if _same_plain(one, other) else f"{one!r}, {other!r} in eager mode"
        rtol, atol = self.expected.case.tolerance(one.dtype)
        wrong = difference(one, other, rtol, atol)
        if wrong is None or one.shape != other.shape or one.dtype != other.dtype:
            return wrong
        if not self.values or self._rounded(name, one, other, part, (rtol, atol)):
            return None
        self._refuse_unrepeatable()
        return wrong

    def _rounded(
        self, name: str, one: Any, other: Any, part: str, tolerance: tuple[float, float]
    ) -> bool:
        """Whether compiled code is as near to double precision as eager mode is."""
        wide = self._in_double(name, part)
        exact = other if wide is None or wide.shape != other.shape else wide
        return other.layout == torch.strided and within_rounding(one, other, exact, tolerance)

    def _in_double(self, name: str, part: str) -> torch.Tensor | None:
        wide = self.expected.wide
        if wide is None:
            return None
        seen, gradients = wide
        found = {
            "outputs": dict(seen.outputs),
            "consumed": dict(seen.consumed),
            "arguments": dict(seen.arguments.mutated()),
            "read": dict(seen.read),
            "gradients": gradients,
        }[part].get(name)
        return found if isinstance(found, torch.Tensor) else None

    def _refuse_unrepeatable(self) -> None:
        """Skip an op that gives other values each time it runs in eager mode."""
        expected = self.expected
        surrounded = expected.surrounded
        again = surrounded.run(surrounded.function, expected.case.inputs())
        pairs = [
            *zip(again.outputs, expected.seen.outputs, strict=False),
            *zip(again.arguments.mutated(), expected.seen.arguments.mutated(), strict=True),
        ]
        if expected.grad_outputs:
            gradients = again.backward(expected.grad_outputs)
            pairs += zip(gradients.items(), expected.gradients.items(), strict=True)
        if any(self._moved(mine, theirs) for (_, mine), (_, theirs) in pairs):
            raise skip(
                "nondeterministic",
                "the op gives other values each time it runs: tag it with "
                "torch.Tag.nondeterministic_seeded, and only metadata is compared",
            )

    def _moved(self, mine: Any, theirs: Any) -> bool:
        if not (isinstance(mine, torch.Tensor) and isinstance(theirs, torch.Tensor)):
            return False
        tolerance = self.expected.case.tolerance(mine.dtype)
        return difference(mine, theirs, *tolerance) is not None

    def _fail(self, code: str, text: str) -> None:
        raise fail(code, self.where + text)


def _strides(one: Any, other: Any) -> str | None:
    if not (isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)):
        return None
    if not (is_plain(one) and is_plain(other)) or other.numel() == 0:
        return None
    mine, theirs = (
        [stride for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1]
        for tensor in (one, other)
    )
    if mine == theirs:
        return None
    return f"strides {tuple(one.stride())} instead of {tuple(other.stride())}"


def _same_plain(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) or isinstance(other, torch.Tensor):
        return False
    return bool(one == other) or (one != one and other != other)


def _kind(gradient: torch.Tensor | None) -> str:
    return "None" if gradient is None else "a tensor"
