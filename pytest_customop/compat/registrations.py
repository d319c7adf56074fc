"""Read how an op was registered, for the table of a scan.

Private names, seen in torch 2.4 to 2.15:

- `torch._library.custom_ops.OPDEFS`: the ops of `torch.library.custom_op` and `triton_op`, by name; their
  `_backward_fn` is the formula's.
- `torch._library.triton.triton_ops_to_kernels`: the ops of `triton_op`; torch 2.4 and 2.5 have no such ops.
- `torch.library._defs` and `_impls`: the names of the ops, and of the kernels, that Python registered.
- `torch._library.utils.can_generate_trivial_fake_impl`: whether torch makes the fake kernel itself.
- `torch._ops.OpOverload`, `_schema` and `py_kernels`: an op, its declaration, and the kernels of `py_impl`.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import torch
from torch._ops import OpOverload

from .ops import fake_kernel_of, has_kernel, is_composite, overload_name
from .registry import kernel_devices

# Kernels for all devices.
_GENERIC = ("CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")
_AUTOGRAD = ("Autograd", "AutogradCPU", "AutogradCUDA")


def kernels_by_device(overload: OpOverload) -> tuple[str, ...]:
    """The device types with a kernel; `any`: one kernel for all; `composite`: made of other ops."""
    if is_composite(overload):
        return ("composite",)
    devices = list(kernel_devices(overload))
    if any(has_kernel(overload, key) for key in _GENERIC):
        devices.append("any")
    return tuple(devices)


def fake_kind(overload: OpOverload) -> str | None:
    """Where an op's behaviour on fake tensors comes from; None where it has none.

    Returns:
        `composite`: the ops it is made of; `python`; `meta`: a kernel for meta tensors; `generic`: its one
        kernel for all devices runs; `generated`: torch makes it, for an op that writes and returns nothing.
    """
    if is_composite(overload):
        return "composite"
    if fake_kernel_of(overload_name(overload)) is not None:
        return "python"
    if overload_name(overload).partition(".")[0] not in _definitions():
        if has_kernel(overload, "Meta") or getattr(overload, "py_kernels", None):
            return "meta"
        if any(has_kernel(overload, key) for key in _GENERIC):
            return "generic"
    trivial = getattr(torch._library.utils, "can_generate_trivial_fake_impl", _writes_only)
    return "generated" if trivial(overload) else None


def has_own_fake(overload: OpOverload) -> bool:
    """Whether an author wrote a fake kernel or a kernel for meta tensors, whatever else the op has."""
    return fake_kernel_of(overload_name(overload)) is not None or has_kernel(overload, "Meta")


def autograd_kind(overload: OpOverload) -> str | None:
    """How gradients flow: `python`, `native`, `composite`; None where they do not."""
    if is_composite(overload):
        return "composite"
    definition = _definitions().get(overload._schema.name)
    if definition is not None:
        return "python" if definition._backward_fn is not None else None
    name = overload_name(overload).replace("::", "/")
    keys = [key for key in _AUTOGRAD if has_kernel(overload, key)]
    if not keys:
        return None
    return "python" if any(f"{name}/{key}" in torch.library._impls for key in keys) else "native"


def registered_by(overload: OpOverload) -> str:
    """`custom_op`, `triton_op`, `Library` for another op that Python defined, or `C++`."""
    name = overload._schema.name
    if name in _definitions():
        return "triton_op" if name in _triton_ops() else "custom_op"
    defined: set[str] = getattr(torch.library, "_defs", set())
    return "Library" if overload_name(overload) in defined or name in defined else "C++"


def tags_of(overload: OpOverload) -> list[str]:
    """The names of the op's tags, without the one that torch gives to every op by itself."""
    return sorted(tag.name for tag in overload.tags if tag.name != "pt2_compliant_tag")


def _definitions() -> Mapping[str, Any]:
    return torch._library.custom_ops.OPDEFS


def _triton_ops() -> dict[str, object]:
    try:
        module = importlib.import_module("torch._library.triton")
    except ImportError:
        return {}
    return getattr(module, "triton_ops_to_kernels", {})


def _writes_only(overload: OpOverload) -> bool:
    schema = overload._schema
    return bool(schema.is_mutable and not schema.returns)
