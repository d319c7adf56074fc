"""Read what torch has registered for an op: its schema, kernels and rules.

Private names, seen in torch 2.4 to 2.15 unless said otherwise:

- `torch._library.custom_ops.CustomOpDef` and `OPDEFS`: what `torch.library.custom_op` returns, and all of
  them by name; `_opoverload`, `_init_fn`, `_backend_fns`, `_abstract_fn`, `_setup_context_fn` and
  `_backward_fn` are its overload and the author's functions. Nothing public returns them.
- `torch._library.simple_registry.singleton`: the fake kernels of ops that are not a CustomOpDef, in
  `entry.fake_impl.kernel.func` (`abstract_impl` in 2.4). Nothing public returns them.
- `torch.library._impls`: the names of kernels that were registered from Python.
- `torch._C._dispatch_dump`: where each kernel was registered, in `registrations` and `registering_files`.
  Public: none.
- `torch._ops.OpOverload`, `_schema`, `name` and `torch._ops.OpOverloadPacket`, `_qualified_op_name`: the
  values of `torch.ops` and their names. Public only as text, by `str`.
- `torch._C._dispatch_has_kernel_for_dispatch_key`, `_dispatch_kernel_for_dispatch_key_is_fallthrough`,
  `_dispatch_key_for_device` and `_jit_get_all_schemas`: the dispatcher's tables. Public: none.
- `torch.fx.node._side_effectful_functions`: what `torch.fx.node.has_side_effect` was called for.
- `torch._higher_order_ops.effects._get_effect`: what `torch.library._register_effectful_op` was called for;
  in 2.4 `SIDE_EFFECTS`. Public: none.
- `torch._functorch.config.check_custom_op_aliasing`: seen in 2.13 and 2.15, not in 2.4. Public: none.
- The texts of messages, in `device_types`, `is_alias_error` and `alias_error_text`.
"""

from __future__ import annotations

import importlib
import os
import re
from typing import Any

import torch
from torch._ops import OpOverload as OpOverload
from torch._ops import OpOverloadPacket as OpOverloadPacket

from ..core.tracebacks import message_of


def is_custom_op_def(value: Any) -> bool:
    """Whether the value is what `torch.library.custom_op` returns."""
    return isinstance(value, torch._library.custom_ops.CustomOpDef)


def is_made_by_custom_op(overload: OpOverload) -> bool:
    """Whether the op is that of a CustomOpDef."""
    return overload._schema.name in torch._library.custom_ops.OPDEFS


def overload_of(definition: Any) -> OpOverload:
    """The one overload of a CustomOpDef."""
    return definition._opoverload  # type: ignore[no-any-return]


def schema_of(overload: OpOverload) -> Any:
    """The parsed schema of an overload: `arguments`, `returns`; `str` gives the declaration."""
    return overload._schema


def overload_name(overload: OpOverload) -> str:
    """`ns::name`, followed by `.overload` unless that is the default."""
    return str(overload.name())  # type: ignore[no-untyped-call]


def packet_name(packet: OpOverloadPacket) -> str:
    """`ns::name` of all overloads together."""
    return packet._qualified_op_name


def registered_names() -> dict[str, None]:
    """The `ns::name` of every registered op, as the keys of a dict, which keeps their order."""
    schemas = torch._C._jit_get_all_schemas()
    return dict.fromkeys(schema.name for schema in schemas)


def has_kernel(overload: OpOverload, key: str) -> bool:
    """Whether a kernel is registered at a dispatch key, such as `CPU` or `Meta`."""
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(overload_name(overload), key))


# The keys at which a formula is registered. The first is an alias for the keys of all devices.
_AUTOGRAD_KEYS = ("Autograd", "AutogradCPU", "AutogradCUDA")


def has_autograd_formula(overload: OpOverload) -> bool:
    """Whether gradients can flow through the op.

    A CustomOpDef has a formula if a backward was registered; its Autograd kernel is there in any case.
    Other ops have one if they have a kernel for an Autograd key, or are made of other ops.
    """
    definition = torch._library.custom_ops.OPDEFS.get(overload._schema.name)
    if definition is not None:
        return definition._backward_fn is not None
    keys = (*_AUTOGRAD_KEYS, "CompositeImplicitAutograd")
    return any(has_kernel(overload, key) for key in keys)


def formula_in_python(overload: OpOverload) -> bool:
    """Whether Python code registered a formula, or another kernel at an Autograd key.

    A kernel that falls through to the next key does not count.
    """
    definition = torch._library.custom_ops.OPDEFS.get(overload._schema.name)
    if definition is not None:
        return definition._backward_fn is not None
    name = overload_name(overload)
    registered = torch.library._impls
    return any(
        f"{name.replace('::', '/')}/{key}" in registered and not _falls_through(name, key)
        for key in _AUTOGRAD_KEYS
    )


def _falls_through(name: str, key: str) -> bool:
    is_fallthrough = getattr(torch._C, "_dispatch_kernel_for_dispatch_key_is_fallthrough", None)
    return is_fallthrough is not None and bool(is_fallthrough(name, key))


def is_composite(overload: OpOverload) -> bool:
    """Whether the op is made of other ops, which autograd and compilers see instead of it."""
    return has_kernel(overload, "CompositeImplicitAutograd")


def has_side_effect(overload: OpOverload) -> bool:
    """Whether compilers know that a call does more than return a result.

    They know it if an op writes to an argument or takes a script object, or if it is registered by
    `torch.fx.node.has_side_effect` or `torch.library._register_effectful_op`.
    """
    schema = overload._schema
    if schema.is_mutable or overload in torch.fx.node._side_effectful_functions:
        return True
    if any(isinstance(argument.type, torch.ClassType) for argument in schema.arguments):
        return True
    from torch._higher_order_ops import effects

    if hasattr(effects, "_get_effect"):
        return effects._get_effect(overload) is not None
    return overload in getattr(effects, "SIDE_EFFECTS", {})


def compiled_code_shares_no_storage() -> bool:
    """Whether compiled code warns, or raises, where outputs of an op share one storage.

    torch 2.13 and later do so at the first call of a graph. They raise where the variable CI is set.
    """
    config = importlib.import_module("torch._functorch.config")
    return hasattr(config, "check_custom_op_aliasing")


def defining_module(name: str) -> str | None:
    """The module that defines the CustomOpDef `ns::name` at its top level; None without one."""
    definition = torch._library.custom_ops.OPDEFS.get(name)
    kernel = getattr(definition, "_init_fn", None)
    nested = "<locals>" in getattr(kernel, "__qualname__", "")
    return None if nested else getattr(kernel, "__module__", None)


def has_autocast_rule(overload: OpOverload, device_type: str) -> bool:
    """Whether `torch.library.register_autocast`, which torch 2.4 does not have, was called for the op."""
    key = {"cpu": "AutocastCPU", "cuda": "AutocastCUDA"}.get(device_type)
    return key is not None and has_kernel(overload, key)


def has_vmap_rule(overload: OpOverload) -> bool:
    """Whether `torch.library.register_vmap`, which torch 2.4 does not have, was called for the op."""
    return has_kernel(overload, "FuncTorchBatched")


def device_types() -> list[str]:
    """The device types that torch knows, read from its message for an unknown one."""
    try:
        torch.device("nosuchdevice")
    except RuntimeError as error:
        match = re.search(r"one of (.*?) device type", str(error))
        if match:
            return [name.strip() for name in match.group(1).split(",")]
    return ["cpu", "cuda"]


def kernel_in_python(overload: OpOverload, device_type: str) -> bool:
    """Whether the op's kernel for the device was registered from Python."""
    keys = [torch._C._dispatch_key_for_device(device_type), "CompositeExplicitAutograd"]
    name = overload_name(overload).replace("::", "/")
    registered = torch.library._impls
    return any(f"{name}/{key}" in registered for key in (*keys, "CompositeImplicitAutograd"))


def python_kernels(overload: OpOverload) -> list[tuple[str, Any]]:
    """The Python functions that compute an op, as far as torch knows them.

    Returns:
        pairs of a description and a function: every kernel of a CustomOpDef, and the fake kernel of any op.
    """
    kernels: list[tuple[str, Any]] = []
    definition = torch._library.custom_ops.OPDEFS.get(overload._schema.name)
    if definition is not None:
        for device, kernel in definition._backend_fns.items():
            suffix = f" for {device}" if device else ""
            kernels.append((f"the kernel{suffix}", _unwrapped(kernel)))
    fake = _fake_kernel(overload)
    return [*kernels, ("the fake kernel", _unwrapped(fake))] if fake is not None else kernels


def registering_files(overload: OpOverload) -> set[str]:
    """The Python files, without torch's own, in which an op or one of its kernels was registered."""
    files = _dumped_files(overload)
    for _, function in python_kernels(overload):
        code = getattr(function, "__code__", None)
        files |= {code.co_filename} if code is not None else set()
    torch_folder = os.path.dirname(torch.__file__) + os.sep
    return {file for file in files if not file.startswith(torch_folder)}


def _dumped_files(overload: OpOverload) -> set[str]:
    dump = torch._C._dispatch_dump(overload_name(overload))
    return set(re.findall(r"registered at (.*\.py):\d+", dump))


def registrations(overload: OpOverload) -> str:
    """Where each kernel of an op was registered, as a text that is the same in every process."""
    return str(torch._C._dispatch_dump(overload_name(overload)))


def defining_files(overload: OpOverload) -> set[str] | None:
    """The Python files with all Python code of an op; None if they are not known."""
    files = registering_files(overload)
    for function in traced_functions(overload):
        code = getattr(function, "__code__", None)
        if code is not None:
            files.add(code.co_filename)
        elif not str(getattr(function, "__module__", "torch")).startswith("torch"):
            return None  # a callable object
    return files or None


def loaded_libraries() -> set[str]:
    """The paths that `torch.ops.load_library` has loaded."""
    return set(torch.ops.loaded_libraries)


def kernel_function(overload: OpOverload, device_type: str) -> Any:
    """The author's Python function that computes a CustomOpDef on a device; None for other ops."""
    definition = torch._library.custom_ops.OPDEFS.get(overload._schema.name)
    kernels: Any = definition._backend_fns if definition is not None else {}
    kernel = kernels.get(device_type) or kernels.get(None)
    return _unwrapped(kernel) if kernel is not None else None


# The keys of kernels for all devices, and for some devices besides the CPU.
_GENERIC = ("CompositeExplicitAutograd", "CompositeImplicitAutograd")
_ACCELERATORS = ("CUDA", "XPU", "MPS", "HPU", "MTIA", "PrivateUse1")


def has_kernel_elsewhere(overload: OpOverload, device_type: str) -> bool:
    """Whether a kernel is registered for another type of device, or one for all devices."""
    definition = torch._library.custom_ops.OPDEFS.get(overload._schema.name)
    if definition is not None:
        return any(device != device_type for device in definition._backend_fns)
    own_key = torch._C._dispatch_key_for_device(device_type)
    keys = [*_GENERIC, *(key for key in ("CPU", *_ACCELERATORS) if key != own_key)]
    return any(has_kernel(overload, key) for key in keys)


def traced_functions(overload: OpOverload) -> list[Any]:
    """The Python functions that stand in for an op while it is traced.

    They are its fake kernel, and the `setup_context` and `backward` of a CustomOpDef; None for each that
    does not exist.
    """
    definition: Any = torch._library.custom_ops.OPDEFS.get(overload._schema.name)
    formula = [getattr(definition, name, None) for name in ("_setup_context_fn", "_backward_fn")]
    return [_unwrapped(function) for function in (_fake_kernel(overload), *formula)]


def fake_kernel_of(name: str) -> Any:
    """The author's fake kernel of `ns::name` or `ns::name.overload`; None where torch knows none."""
    fake = _fake_kernel_named(name)
    return None if fake is None else _unwrapped(fake)


def _fake_kernel(overload: OpOverload) -> Any:
    return _fake_kernel_named(overload_name(overload))


def _fake_kernel_named(name: str) -> Any:
    definition = torch._library.custom_ops.OPDEFS.get(name)
    if definition is not None:
        return definition._abstract_fn
    entry: Any = torch._library.simple_registry.singleton.find(name)
    holder = getattr(entry, "fake_impl", None) or getattr(entry, "abstract_impl", None)
    return getattr(getattr(holder, "kernel", None), "func", None)


def _unwrapped(function: Any) -> Any:
    """The author's function, without the functions that torch wraps around a kernel."""
    while str(getattr(function, "__module__", None)).startswith("torch."):
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


_ALIAS_TEXT = "The output of this custom operator (1) must not"


def is_alias_error(error: BaseException) -> bool:
    """Whether a CustomOpDef raised because an output shares memory with an input or another output."""
    return "may not alias any inputs" in message_of(error)


def alias_error_text(error: BaseException) -> str:
    """The message of such an error, without the text before the reason."""
    text = message_of(error)
    return text[max(text.find(_ALIAS_TEXT), 0) :]
