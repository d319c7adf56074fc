"""Tensors: their bits and storages, and the calls that are made with them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch._ops import OpOverload


def neg_view(tensor: torch.Tensor) -> torch.Tensor:
    """A view of the tensor with its negative bit set. 2.4 to 2.15."""
    return torch._neg_view(tensor)


def storage_id(tensor: torch.Tensor) -> int | None:
    """What tells a tensor's storage from others, real or fake; None without one. 2.4 to 2.15."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        return None  # sparse tensors


def observe_calls(
    observer: Callable[[OpOverload, tuple[Any, ...], dict[str, Any]], Any],
) -> AbstractContextManager[Any]:
    """Send every call of an op through the observer, which makes it. 2.4 to 2.15.

    It sees what autograd calls too, on all threads; not what runs inside a custom op's kernel.
    """
    from torch.utils._python_dispatch import TorchDispatchMode

    class Observing(TorchDispatchMode):  # type: ignore[no-untyped-call]
        supports_higher_order_operators = True

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return observer(func, args, kwargs or {})

    return Observing()  # type: ignore[no-untyped-call]
