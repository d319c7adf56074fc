"""Read which ops torch's dispatcher has in a namespace, and for which devices they have kernels.

Private names, seen in torch 2.4 to 2.15:

- `torch._C._dispatch_has_computed_kernel_for_dispatch_key`, `torch._C._dispatch_key_for_device`: what the
  dispatcher calls for a device. Public: none.
- `torch._C._jit_get_all_schemas`: the schemas of all ops. Public: none.
- `torch._ops.OpOverload`: the type of an overload, for annotations. Public: none.
- `torch._C._get_privateuse1_backend_name`: what `torch.utils.rename_privateuse1_backend` was called with.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Collection, Iterator

import torch
from torch._ops import OpOverload

from .ops import has_kernel, kernel_in_python, overload_name, registered_names

_KEYS = {
    "cpu": "CPU",
    "cuda": "CUDA",
    "xpu": "XPU",
    "mps": "MPS",
    "hpu": "HPU",
    "mtia": "MTIA",
    "xla": "XLA",
}


def registered_namespaces() -> set[str]:
    """The namespaces of all registered ops."""
    return {name.partition("::")[0] for name in registered_names()}


def overloads_in(namespaces: Collection[str]) -> Iterator[OpOverload]:
    """Every registered overload in some namespaces that takes or returns a tensor."""
    for schema in torch._C._jit_get_all_schemas():
        namespace, _, base = schema.name.partition("::")
        if namespace not in namespaces or not _has_tensor(schema):
            continue
        packet = getattr(getattr(torch.ops, namespace), base, None)
        overload = getattr(packet, schema.overload_name or "default", None)
        if isinstance(overload, OpOverload):
            yield overload


def _has_tensor(schema: torch._C.FunctionSchema) -> bool:
    values = (*schema.arguments, *schema.returns)
    return any("Tensor" in str(value.type) for value in values)


def has_native_kernel(namespace: str) -> bool:
    """Whether any op of a namespace has a CPU kernel that is compiled code."""
    return _has_native_kernel(namespace, (len(torch.ops.loaded_libraries), len(sys.modules)))


@functools.lru_cache(maxsize=256)  # listing all ops takes 10 ms
def _has_native_kernel(namespace: str, loaded: tuple[int, int]) -> bool:
    """The same, cached until another library or module is loaded: compiled kernels come with one."""
    del loaded
    keys = ("CPU", "CompositeExplicitAutograd", "CompositeImplicitAutograd")
    return any(
        not kernel_in_python(overload, "cpu") and any(has_kernel(overload, key) for key in keys)
        for overload in overloads_in([namespace])
    )


def runs_on(overload: OpOverload, device: str) -> bool:
    """Whether the dispatcher finds a kernel, or a fallback, for the tensors of a device.

    False only for an op with a kernel for another device: an op without any is one that is not finished.
    """
    kind = torch.device(device).type
    key = torch._C._dispatch_key_for_device(kind)
    name = overload_name(overload)
    found: bool = torch._C._dispatch_has_computed_kernel_for_dispatch_key(name, key)
    return found or not kernel_devices(overload)


def kernel_devices(overload: OpOverload) -> tuple[str, ...]:
    """The device types for which an op has its own kernel; one kernel for all devices does not count."""
    keys = {**_KEYS, torch._C._get_privateuse1_backend_name(): "PrivateUse1"}
    return tuple(device for device, key in keys.items() if has_kernel(overload, key))
