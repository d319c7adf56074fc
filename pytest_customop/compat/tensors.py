"""Tensors with a negative bit, the identity of storages, and observed calls of ops.

Private names, seen in torch 2.4 to 2.15:

- `torch._neg_view`: a view with the negative bit. Public: only as `x.conj().imag`, for complex tensors.
- `UntypedStorage._cdata`: identifies a storage. Public: `data_ptr`, which fake tensors do not have.
- `torch.utils._python_dispatch.TorchDispatchMode`: widely used, but documented only in notes.
- `torch._ops.OpOverload`: see `ops`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch._ops import OpOverload


def neg_view(tensor: torch.Tensor) -> torch.Tensor:
    """A view of the tensor with its negative bit set."""
    return torch._neg_view(tensor)


def storage_id(tensor: torch.Tensor) -> int | None:
    """A number that identifies the storage of a real or fake tensor; None without a storage."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        return None  # sparse tensors


def observe_calls(
    observer: Callable[[OpOverload, tuple[Any, ...], dict[str, Any]], Any],
) -> AbstractContextManager[Any]:
    """Pass every call of an op to the observer, which must make the call itself.

    Calls of autograd are passed too, on all threads. Calls inside of a custom op's kernel are not.
    """
    from torch.utils._python_dispatch import TorchDispatchMode

    class Observing(TorchDispatchMode):  # type: ignore[no-untyped-call]
        supports_higher_order_operators = True

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return observer(func, args, kwargs or {})

    return Observing()  # type: ignore[no-untyped-call]
