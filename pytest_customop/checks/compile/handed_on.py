"""Whether an op, or one that it calls, returns memory of its arguments without declaring it."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from ...cases.case import Case
from ...compat.tensors import observe_calls, storage_id


def hands_on_arguments(case: Case) -> bool:
    """Whether an output of a custom op in the call lies in the memory of one of that op's arguments.

    If the schema does not declare it, a compiler treats the memory as the output's own, and generated code
    may write to it.
    """
    found = False

    def call(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        nonlocal found
        result = func(*args, **kwargs)
        if not found and func.namespace != "aten" and not _declares_aliases(func):
            found = bool(_storages((args, kwargs)) & _storages(result))
        return result

    with observe_calls(call):
        case.run(case.inputs())
    return found


def _declares_aliases(func: Any) -> bool:
    schema = getattr(func, "_schema", None)  # an operator of higher order has none
    return schema is None or any(value.alias_info is not None for value in schema.returns)


def _storages(values: Any) -> set[int]:
    tensors = (leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor))
    return {storage for tensor in tensors if (storage := storage_id(tensor)) is not None}
