"""The results of eager mode, with which compiled code is compared."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch

from ...cases.case import Case
from ...cases.deliberate import backward_raises
from ...cases.fake_contract import FakeContract
from ...cases.run import random_like
from ...cases.tensors import is_plain, storage_bytes
from ...core.tracebacks import error_line, reraise_bug
from ...findings import skip
from .harness import OP_ONLY, CallRecord, OpHarness

Gradients = dict[str, "torch.Tensor | None"]


@dataclass(eq=False)
class EagerRecord:
    """The results of eager mode at the sizes of a case.

    Args:
        harness: the function around the op.
        case: the case whose arguments it was called with.
        record: what the call returned.
        grad_outputs: a random grad_output for each differentiable output, by name.
        gradients: of the arguments, by name.
        contract: the comparison of the fake kernels of the ops that ran with the real ones.
    """

    harness: OpHarness
    case: Case
    record: CallRecord
    grad_outputs: dict[str, torch.Tensor]
    gradients: Gradients
    contract: FakeContract

    @cached_property
    def wide(self) -> tuple[CallRecord, Gradients] | None:
        """The call and its gradients in double precision; None if the op does not support it."""
        case = self.case.widened()
        harness = OpHarness(case, self.harness.config)
        try:
            if case.eager.error is not None:
                return None
            record = harness.run(harness.function, case.inputs())
            outputs = record.differentiable
            if not outputs.keys() >= self.grad_outputs.keys():
                return None
            grads = {name: grad.to(outputs[name].dtype) for name, grad in self.grad_outputs.items()}
            return record, record.backward(grads) if grads else {}
        except Exception as error:  # whatever an op or its backward raises for float64
            reraise_bug(error)
            return None


def _memory(record: CallRecord) -> list[torch.Tensor] | None:
    """The bytes of all tensors of a call; None if one of them has no plain memory."""
    outputs = [leaf for _, leaf in record.outputs if isinstance(leaf, torch.Tensor)]
    named = [*record.arguments.tensors(), *record.consumed, *record.read]
    tensors = [*outputs, *(tensor for _, tensor in named)]
    return [storage_bytes(tensor) for tensor in tensors] if all(map(is_plain, tensors)) else None


def _is_same(memory: list[torch.Tensor] | None, before: list[torch.Tensor] | None) -> bool:
    if memory is None or before is None:
        return False
    return all(torch.equal(*pair) for pair in zip(memory, before, strict=True))


def run_eager(harness: OpHarness, case: Case) -> EagerRecord:
    """Run the function in eager mode at the sizes of a case.

    If the function raises, the op runs without producers and consumers: some ops depend on where
    their arguments come from. It runs twice, because a recorded call can give other values than eager
    mode: in it, torch does not resolve lazily conjugated tensors before it calls the kernel.

    Raises:
        CheckFailed: `backward-raises`.
        CheckSkipped: if the backward raises and the op has no autograd formula.
    """
    contract = FakeContract()
    try:
        with contract.recording():
            recorded = harness.run(harness.function, case.inputs())
        record = harness.run(harness.function, case.inputs())
    except Exception as error:  # whatever the op raises
        reraise_bug(error)
        if harness.config == OP_ONLY:
            raise
        return run_eager(OpHarness(harness.case, OP_ONLY), case)
    grads = {
        name: random_like(tensor, case.seed + 1 + index)
        for index, (name, tensor) in enumerate(record.differentiable.items())
    }
    try:
        memory = _memory(record) if grads else None
        before = None if memory is None else [tensor.clone() for tensor in memory]
        with contract.recording(backward=True):
            if grads:
                recorded.backward(grads)
        gradients = record.backward(grads) if grads else {}
        if grads and not _is_same(memory, before):  # the backward may have written to an output
            record = harness.run(harness.function, case.inputs())
    except Exception as error:  # whatever a backward raises
        reraise_bug(error)
        if not case.op.has_autograd:
            reason = (
                "the op has no autograd formula, and its backward raises: see backward.connected"
            )
            raise skip("no-formula", reason, unjudged=False) from error
        message = f"the backward raises {error_line(error)}"
        raise backward_raises(message, error) from error
    return EagerRecord(harness, case, record, grads, gradients, contract)
