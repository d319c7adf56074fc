"""A call of an op, forward and backward, that any thread can make."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ....cases.arguments import Arguments
from ....cases.case import Case
from ....cases.run import Run, gradients, random_like
from ....cases.tensors import is_differentiable, is_plain
from ....compat.ops import kernel_in_python
from ....core.tracebacks import reraise_bug
from ..memory.calls import Leaves, comparable, first_difference, results
from ..memory.perturb import write

# Other values for the floating-point and complex tensors of each thread.
FACTORS = (1.0, -0.5, 0.5, 0.25)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a call.

    Args:
        results: (name, value) of each output, each written argument and each gradient.
        error: what it raised instead.
    """

    results: Leaves
    error: BaseException | None = None


class ThreadCall:
    """The call that one thread makes, as often as it likes, each time on fresh arguments.

    Args:
        case: gives the arguments.
        number: the thread's number. Thread 0 has the case's values, and each other thread has others.
    """

    def __init__(self, case: Case, number: int) -> None:
        self.number = number
        self._case = case
        self._arguments = _varied(case, number)

    def prepare(self) -> Callable[[], Outcome]:
        """Copy the arguments; returns the function that calls the op on them, once."""
        arguments = self._arguments.copy()
        return lambda: self._call(arguments)

    def _call(self, arguments: Arguments) -> Outcome:
        try:
            run = Run(arguments, arguments.call())
            return Outcome([*results(run), *self._gradients(run)])
        except Exception as error:  # whatever an op raises is a result here
            reraise_bug(error)
            return Outcome([], error)

    def _gradients(self, run: Run) -> Leaves:
        outputs = run.differentiable_outputs
        if not (self._case.requires_grad and outputs and run.arguments.differentiable()):
            return []
        seed = self._case.seed + 1
        factor = FACTORS[self.number]
        grads = [
            random_like(output, seed + index).mul_(factor)
            for index, (_, output) in enumerate(outputs)
        ]
        found_grads = gradients(run.arguments, outputs, grads)
        return [
            (f"the gradient of {name}", grad)
            for name, grad in found_grads.items()
            if grad is not None
        ]


def _varied(case: Case, number: int) -> Arguments:
    """The arguments of a case with other values: scaled or, where all are integers, rolled.

    Integers are left as they are for native kernels, which may use them as positions in memory.
    """
    arguments = case.inputs()
    if number == 0:
        return arguments
    tensors = [tensor.detach() for _, tensor in arguments.tensors() if is_plain(tensor)]
    real = [tensor for tensor in tensors if is_differentiable(tensor.dtype)]
    with torch.no_grad():
        for tensor in real:
            write(tensor, _scaled(tensor, FACTORS[number]))
        if not real and in_python(case):
            for tensor in tensors:
                write(tensor, tensor.flatten().roll(number).reshape(tensor.shape))
    return arguments


def _scaled(tensor: torch.Tensor, factor: float) -> torch.Tensor:
    return (tensor.to(torch.float32) if tensor.element_size() == 1 else tensor) * factor


def in_python(case: Case) -> bool:
    """Whether the op's kernel is Python code."""
    return kernel_in_python(case.op.overload, torch.device(case.placement.device).type)


def wrong(outcome: Outcome, expected: Leaves, case: Case) -> str | None:
    """How the results of a call differ from the expected ones, beyond rounding; None if they do not."""
    if first_difference(outcome.results, expected) is None:
        return None
    return first_difference(outcome.results, expected, case)


def owner(outcome: Outcome, expected: dict[int, Leaves], number: int) -> int | None:
    """The thread whose expected values stand where this thread's are wrong; None if there is none.

    Args:
        outcome: this thread's.
        expected: the results of each thread's call alone.
        number: this thread's.
    """
    own_values = expected[number]
    for thread, values in expected.items():
        if thread != number and len(values) == len(own_values) == len(outcome.results):
            pairs = zip(outcome.results, own_values, values, strict=True)
            if all(_taken(got[1], want[1], foreign[1]) for got, want, foreign in pairs):
                return thread
    return None


def _taken(got: Any, expected: Any, foreign: Any) -> bool:
    """Whether each element that is not the expected one is the other thread's."""
    tensors = [got, expected, foreign]
    if not all(isinstance(tensor, torch.Tensor) and comparable(tensor) for tensor in tensors):
        return got in (expected, foreign)
    if not got.shape == expected.shape == foreign.shape or got.layout != torch.strided:
        return False
    return bool(((got == expected) | (got == foreign)).all())
