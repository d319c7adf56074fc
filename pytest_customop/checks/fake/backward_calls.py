"""Record the calls of custom ops that a backward makes, with their real arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from ...cases.arguments import Arguments
from ...cases.case import Case
from ...cases.fake_run import fake_run, kernel_failure, skip_if_unfakeable
from ...cases.run import Run, gradients
from ...compat.ops import overload_name
from ...compat.tensors import observe_calls
from ...declare.ops import Op, is_authors
from .metadata import OutputComparison, SizeReader, compare_outputs


@dataclass(frozen=True, eq=False)
class Call:
    """One call of a custom op, made by a backward.

    Args:
        before: copies of its arguments from before the call, with the same strides and offsets.
        real: the call itself.
    """

    before: Arguments
    real: Run

    @property
    def op(self) -> str:
        """The name of the op that was called."""
        return self.real.arguments.op.name

    def compare(self, caller: str) -> list[OutputComparison]:
        """Repeat the call on fake tensors and compare its outputs.

        Args:
            caller: who made the call, for the message: `the backward of ns::op`.

        Raises:
            CheckFailed: if it raises on fake tensors.
            CheckSkipped: if torch cannot make a fake tensor of an argument or an output.
        """
        skip_if_unfakeable(self.real)
        with torch.no_grad():
            fake = fake_run(self.before)
        if fake.error is not None:
            raise kernel_failure(self.op, fake.error, caller)
        return compare_outputs(fake.run, self.real, SizeReader(fake.mode), gradients=False)


def backward_calls(case: Case) -> list[Call]:
    """Run the op and its backward, and return the calls of custom ops that the backward made, in order.

    Of calls that differ only in values, the first is returned.

    Raises:
        Exception: what the backward raises.
    """
    run = case.run(case.inputs())
    outputs = run.differentiable_outputs
    grad_outputs = case.grad_outputs(outputs)
    calls: dict[str, Call] = {}

    def observe(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not is_authors(func):
            return func(*args, **kwargs)
        arguments = Arguments(Op(func, overload_name(func)), args, kwargs)
        key = _signature(arguments)
        before = None if key in calls else arguments.copy()
        result = func(*args, **kwargs)
        if before is not None:
            calls[key] = Call(before, Run(arguments, result))
        return result

    with observe_calls(observe):
        gradients(run.arguments, outputs, grad_outputs)
    return list(calls.values())


def _signature(arguments: Arguments) -> str:
    """Everything of a call that may decide the metadata of its results."""
    parts = [arguments.op.name]
    for name, value in arguments.named():
        if isinstance(value, torch.Tensor):
            strides = tuple(value.stride()) if value.layout == torch.strided else ()
            known = (value.dtype, value.device, value.layout, tuple(value.shape), strides)
            parts.append(f"{name}={known}{_offset(value)}")
        else:
            parts.append(f"{name}={value!r}")
    return " ".join(parts)


def _offset(tensor: torch.Tensor) -> int:
    return int(tensor.storage_offset()) if tensor.layout == torch.strided else 0
