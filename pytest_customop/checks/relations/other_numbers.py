"""Replace the numbers of an argument by others, and call the op."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from ...cases.case import Case
from ...cases.tensors import base_name, is_plain, readable
from ..values.memory.calls import Caller, Leaves, copied_results, with_argument


def replaceable(case: Case) -> Iterator[tuple[str, Tensor]]:
    """(path, tensor) of each floating-point argument of finite numbers that the op does not write to."""
    for path, tensor in case.inputs().tensors():
        usable = is_plain(tensor) and tensor.is_floating_point() and tensor.numel()
        if (
            usable
            and base_name(path) not in case.op.mutated
            and bool(readable(tensor).isfinite().all())
        ):
            yield path, tensor.detach()


def results_with(calls: Caller, path: str, numbers: Tensor) -> Leaves | None:
    """Copies of what the op gives for other numbers of an argument; None if it raises."""
    return copied_results(calls(with_argument(calls.case.inputs(), path, numbers.clone())))
