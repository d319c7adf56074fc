"""Call an op so that torch operators in its kernel get dense copies of some tensors.

Private names, seen in torch 2.4 to 2.15:

- `torch._ops.OpOverload._schema`: which arguments an operator only reads. Public: none.
- `torch.utils._pytree.tree_map_only`: changes the tensors in lists too. Public: none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from .kernel_mode import KernelMode

_COPIES = frozenset({"clone", "_to_copy", "copy_"})


class DenseCopies(KernelMode):  # type: ignore[no-untyped-call]
    """A block in which torch operators get dense copies of some of the tensors that they only read.

    Args:
        is_copied: (tensor) -> whether it is to be copied.

    Attributes:
        names: of the operators that got a copy, in the order of the first call; without those that copy.
    """

    def __init__(self, is_copied: Callable[[torch.Tensor], bool]) -> None:
        super().__init__()
        self._wanted = is_copied
        self.names: dict[str, None] = {}

    def call_operator(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call a torch operator with copies of some of its arguments."""
        read_names = {
            argument.name for argument in func._schema.arguments if argument.alias_info is None
        }
        names = [argument.name for argument in func._schema.arguments]
        copied_args = [
            self._copied(func, value) if name in read_names else value
            for name, value in zip(names, args, strict=False)
        ]
        copied_kwargs = {
            name: self._copied(func, value) if name in read_names else value
            for name, value in kwargs.items()
        }
        return func(*copied_args, **copied_kwargs)

    def _copied(self, func: Any, value: Any) -> Any:
        def copy(tensor: torch.Tensor) -> torch.Tensor:
            if not self._wanted(tensor):
                return tensor
            name = func._schema.name
            if name.partition("::")[2] not in _COPIES:
                self.names[name] = None
            return tensor.clone(memory_format=torch.contiguous_format)

        return tree_map_only(torch.Tensor, copy, value)
