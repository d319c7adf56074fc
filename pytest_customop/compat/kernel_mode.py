"""A block in which the torch operators that kernels call are intercepted, in C++ too.

Private names, seen in torch 2.4 to 2.15:

- `torch.utils._python_dispatch.TorchDispatchMode`: sees the operators; documented only in notes.
- `torch._ops.OpOverload.redispatch`, `torch._C.DispatchKeySet` and `DispatchKey`: call an op's CPU kernel
  directly, so that a mode stays active inside of it. Public: none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

OF_TORCH = frozenset({"aten"})  # namespaces


class KernelMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A block in which `call_operator` makes each call of a torch operator, also inside of other ops."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def call_operator(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call a torch operator, and return its result."""
        raise NotImplementedError

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call a torch operator, or the kernel of another op, in which this mode stays active."""
        if func.namespace in OF_TORCH:
            return self.call_operator(func, args, kwargs or {})
        with self:
            keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
            return func.redispatch(keys, *args, **(kwargs or {}))
