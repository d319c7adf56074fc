"""A call that was seen: its op, and its arguments without the tensors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from ..cases.tensors import is_differentiable
from ..compat.op_calls import may_read, reading

# Limits for the values of one integer tensor, and for all values of a session.
MOST_BYTES = 2**18
MOST_BYTES_OF_SESSION = 2**26
FEW = 8  # elements of a floating-point tensor that are kept as they are


@dataclass(frozen=True, eq=False)
class SeenTensor:
    """The properties of a tensor argument that are kept.

    Args:
        shape, strides, offset, dtype: as the tensor had them.
        device: as `torch.device` prints it.
        requires_grad: whether autograd recorded operations on it.
        values: a copy on the CPU, for integers and for a few floating-point numbers. None if not kept.
        low, high: the smallest and the largest finite floating-point value; for complex numbers, of their
            parts. None if there is no such value, or if it was not read.
        was_read: whether the values could be read.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    dtype: torch.dtype
    device: str
    requires_grad: bool
    values: torch.Tensor | None = None
    low: float | None = None
    high: float | None = None
    was_read: bool = True

    @property
    def elements(self) -> int:
        """The number of elements."""
        return torch.Size(self.shape).numel()

    @property
    def bytes_kept(self) -> int:
        """The memory of the copy."""
        return 0 if self.values is None else self.values.numel() * self.values.element_size()

    @property
    def lost_numbers(self) -> bool:
        """Whether it has integers that were not kept, because there are too many."""
        return self.values is None and self.was_read and not is_differentiable(self.dtype)


@dataclass(eq=False)
class SeenCall:
    """One distinct call.

    Args:
        op: `ns::name`, or `ns::name.overload` where the overload is known.
        args, kwargs: as they were given, with a `SeenTensor` for each tensor.
        seen_in: the node id of the test that made the call first; empty outside of a test.
        calls: how often it was made.
        was_complete: whether the values of all tensors could be read.
    """

    op: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    seen_in: str = ""
    calls: int = 1
    was_complete: bool = True

    @property
    def tensors(self) -> list[SeenTensor]:
        """The tensors of all arguments, in order."""
        return list(_tensors((*self.args, *self.kwargs.values())))


def _tensors(value: Any) -> Any:
    if isinstance(value, SeenTensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for element in value:
            yield from _tensors(element)


def seen_value(value: Any, grad_enabled: bool, left: int) -> Any:
    """An argument with a `SeenTensor` for each tensor.

    Args:
        grad_enabled: whether autograd records operations.
        left: bytes that may still be kept.
    """
    if isinstance(value, torch.Tensor):
        return _seen_tensor(value, grad_enabled, left)
    if isinstance(value, (list, tuple)):
        return [seen_value(element, grad_enabled, left) for element in value]
    plain: tuple[Any, ...] = (bool, int, float, complex, str)
    # For subclasses, such as those of numpy and enumerations, the plain value.
    return next((kind(value) for kind in plain if isinstance(value, kind)), value)


def _seen_tensor(tensor: torch.Tensor, grad_enabled: bool, left: int) -> SeenTensor:
    about: dict[str, Any] = {
        "shape": tuple(tensor.shape),
        "strides": tuple(tensor.stride()),
        "offset": int(tensor.storage_offset()),
        "dtype": tensor.dtype,
        "device": str(tensor.device),
        "requires_grad": tensor.requires_grad and grad_enabled,
    }
    if not may_read(tensor):
        return SeenTensor(**about, was_read=False)
    with reading():
        data = tensor.detach().resolve_conj().resolve_neg()
        if _keeps_values(tensor, left):
            return SeenTensor(**about, values=data.to("cpu", copy=True).contiguous())
        if is_differentiable(tensor.dtype):
            low, high = _range(data)
            return SeenTensor(**about, low=low, high=high)
    return SeenTensor(**about)


def _keeps_values(tensor: torch.Tensor, left: int) -> bool:
    if is_differentiable(tensor.dtype):
        return 0 < tensor.numel() <= FEW
    return tensor.numel() * tensor.element_size() <= min(MOST_BYTES, left)


def _range(data: torch.Tensor) -> tuple[float | None, float | None]:
    """The smallest and the largest finite value; None for both if there is none."""
    if data.is_complex():
        data = torch.view_as_real(data)
    if data.dtype.itemsize == 1:
        data = data.to(torch.float32)  # aminmax has no kernel for fp8
    if not data.numel():
        return None, None
    low, high = (float(bound) for bound in torch.aminmax(data))
    if not (abs(low) < float("inf") and abs(high) < float("inf")):
        finite = data[data.isfinite()]
        if not finite.numel():
            return None, None
        low, high = (float(bound) for bound in torch.aminmax(finite))
    return low, high
