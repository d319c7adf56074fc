"""What torch knows of ops: their schemas, kernels and rules."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch._ops import OpOverload, OpOverloadPacket


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


def defining_module(name: str) -> str | None:
    """The module whose top level defines the CustomOpDef `ns::name`; None without one. 2.4 to 2.15."""
    definition = torch._library.custom_ops.OPDEFS.get(name)
    kernel = getattr(definition, "_init_fn", None)
    nested = "<locals>" in getattr(kernel, "__qualname__", "")
    return None if nested else getattr(kernel, "__module__", None)


def has_autocast_rule(overload: OpOverload, device_type: str) -> bool:
    """Whether `torch.library.register_autocast` was called for the op. 2.4 to 2.15; 2.4 has no such."""
    key = {"cpu": "AutocastCPU", "cuda": "AutocastCUDA"}.get(device_type)
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    return key is not None and bool(has_kernel(overload_name(overload), key))


def has_vmap_rule(overload: OpOverload) -> bool:
    """Whether `torch.library.register_vmap` was called for the op. 2.4 to 2.15; 2.4 has no such."""
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    return bool(has_kernel(overload_name(overload), "FuncTorchBatched"))


def device_types() -> list[str]:
    """The device types that torch knows, read from the message for one it does not. 2.4 to 2.15."""
    try:
        torch.device("nosuchdevice")
    except RuntimeError as error:
        found = re.search(r"one of (.*?) device type", str(error))
        if found:
            return [name.strip() for name in found.group(1).split(",")]
    return ["cpu", "cuda"]


def kernel_in_python(overload: OpOverload, device_type: str) -> bool:
    """Whether the op's kernel for the device was registered from Python. 2.4 to 2.15."""
    keys = [torch._C._dispatch_key_for_device(device_type), "CompositeExplicitAutograd"]
    name = overload_name(overload).replace("::", "/")
    registered = torch.library._impls
    return any(f"{name}/{key}" in registered for key in (*keys, "CompositeImplicitAutograd"))


def python_kernels(overload: OpOverload) -> list[tuple[str, Any]]:
    """The Python functions that compute an op, as far as torch knows them. 2.4 to 2.15.

    Returns:
        (what it is, function): of a CustomOpDef every kernel, and the fake kernel of any op.
    """
    found: list[tuple[str, Any]] = []
    definition = torch._library.custom_ops.OPDEFS.get(overload._schema.name)
    if definition is not None:
        for device, kernel in definition._backend_fns.items():
            where = f" for {device}" if device else ""
            found.append((f"the kernel{where}", _unwrapped(kernel)))
    fake = _fake_kernel(overload)
    return [*found, ("the fake kernel", _unwrapped(fake))] if fake is not None else found


def traced_functions(overload: OpOverload) -> list[Any]:
    """The Python functions that stand in for an op while it is traced. 2.4 to 2.15.

    Its fake kernel, and of a CustomOpDef the formula in its two parts; None for what there is not.
    """
    definition: Any = torch._library.custom_ops.OPDEFS.get(overload._schema.name)
    formula = [getattr(definition, name, None) for name in ("_setup_context_fn", "_backward_fn")]
    return [_unwrapped(one) for one in (_fake_kernel(overload), *formula)]


def _fake_kernel(overload: OpOverload) -> Any:
    definition = torch._library.custom_ops.OPDEFS.get(overload._schema.name)
    if definition is not None:
        return definition._abstract_fn
    entry: Any = torch._library.simple_registry.singleton.find(overload._schema.name)
    holder = getattr(entry, "fake_impl", None) or getattr(entry, "abstract_impl", None)
    return getattr(getattr(holder, "kernel", None), "func", None)


def _unwrapped(function: Any) -> Any:
    """The author's function inside of those that torch puts around a kernel."""
    while getattr(function, "__module__", "").startswith("torch."):
        cells = zip(
            function.__code__.co_freevars if hasattr(function, "__code__") else (),
            getattr(function, "__closure__", None) or (),
            strict=True,
        )
        inside = dict(cells)
        inner = inside.get("fn") or inside.get("func")
        if inner is None or not callable(inner.cell_contents):
            break
        function = inner.cell_contents
    return function


def refuses_alias(error: BaseException) -> bool:
    """Whether a CustomOpDef raised because an output shares memory. 2.4 to 2.15."""
    return "may not alias any inputs" in str(error)
