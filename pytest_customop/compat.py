"""The only module that touches private torch API: one function a need.

Each function says which torch versions it was seen working on; `tests/test_compat.py` has a test for
each, which fails when torch moves what it stands on.
"""

from __future__ import annotations

import re
from typing import Any

import torch
from torch._ops import OpOverload, OpOverloadPacket

__all__ = [
    "OpOverload",
    "OpOverloadPacket",
    "device_types",
    "has_autograd_formula",
    "is_custom_op_def",
    "neg_view",
    "overload_name",
    "overload_of",
    "packet_name",
    "registered_names",
    "schema_of",
]


def is_custom_op_def(value: Any) -> bool:
    """Whether the value is what `torch.library.custom_op` returns. 2.4 to 2.15."""
    return isinstance(value, torch._library.custom_ops.CustomOpDef)


def overload_of(definition: Any) -> OpOverload:
    """The one overload of a CustomOpDef. 2.4 to 2.15."""
    return definition._opoverload  # type: ignore[no-any-return]


def schema_of(overload: OpOverload) -> Any:
    """The parsed schema of an overload: `arguments`, `returns`, text. 2.4 to 2.15."""
    return overload._schema


def overload_name(overload: OpOverload) -> str:
    """`ns::name`, and `.overload` unless that is the default. 2.4 to 2.15."""
    return str(overload.name())  # type: ignore[no-untyped-call]


def packet_name(packet: OpOverloadPacket) -> str:
    """`ns::name` of all overloads together. 2.4 to 2.15."""
    return packet._qualified_op_name


def registered_names() -> dict[str, None]:
    """The `ns::name` of every registered op, in a dict for its order. 2.4 to 2.15."""
    schemas = torch._C._jit_get_all_schemas()
    return dict.fromkeys(schema.name for schema in schemas)


def has_autograd_formula(overload: OpOverload) -> bool:
    """Whether gradients can flow through the op. 2.4 to 2.15.

    Every CustomOpDef has an Autograd kernel, with or without a formula, so its registered backward
    is looked at instead.
    """
    definition = torch._library.custom_ops.OPDEFS.get(overload._schema.name)
    if definition is not None:
        return definition._backward_fn is not None
    keys = ("Autograd", "AutogradCPU", "AutogradCUDA", "CompositeImplicitAutograd")
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    return any(has_kernel(overload_name(overload), key) for key in keys)


def device_types() -> list[str]:
    """The device types that torch knows, read from the message for one it does not. 2.4 to 2.15."""
    try:
        torch.device("nosuchdevice")
    except RuntimeError as error:
        found = re.search(r"one of (.*?) device type", str(error))
        if found:
            return [name.strip() for name in found.group(1).split(",")]
    return ["cpu", "cuda"]


def neg_view(tensor: torch.Tensor) -> torch.Tensor:
    """A view of the tensor with its negative bit set. 2.4 to 2.15."""
    return torch._neg_view(tensor)
