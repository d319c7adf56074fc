"""The only module that touches private torch API: one function a need.

Each function says which torch versions it was seen working on; `tests/test_compat.py` has a test for
each, which fails when torch moves what it stands on.
"""

from __future__ import annotations

import collections
import contextvars
import importlib
import logging
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from torch._ops import OpOverload, OpOverloadPacket

__all__ = [
    "TRACE_LOGGER",
    "OpOverload",
    "OpOverloadPacket",
    "compile_session",
    "compile_whole",
    "counting_backend",
    "defining_module",
    "device_types",
    "enter_fake_mode",
    "expression",
    "fake_cause",
    "fake_mode",
    "forget_compiled",
    "guards",
    "has_autocast_rule",
    "has_autograd_formula",
    "has_vmap_rule",
    "is_constant_size",
    "is_custom_op_def",
    "is_data_dependent",
    "is_fake",
    "keep_compiled",
    "kernel_in_python",
    "maybe_mark_dynamic",
    "missing_fake_kernel",
    "neg_view",
    "observe_calls",
    "overload_name",
    "overload_of",
    "packet_name",
    "python_kernels",
    "refuses_alias",
    "refusing_recompiles",
    "registered_names",
    "schema_of",
    "storage_id",
    "substitute",
    "to_fake",
    "value_range",
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


def neg_view(tensor: torch.Tensor) -> torch.Tensor:
    """A view of the tensor with its negative bit set. 2.4 to 2.15."""
    return torch._neg_view(tensor)


def fake_mode(*, scalar_outputs: bool = True) -> Any:
    """A FakeTensorMode that allows sizes that depend on data. 2.4 to 2.15.

    Args:
        scalar_outputs: whether `.item()` gives a symbol; False: it raises, as under torch.compile.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    return FakeTensorMode(shape_env=ShapeEnv(allow_scalar_outputs=scalar_outputs))


@contextmanager
def enter_fake_mode(mode: Any) -> Iterator[None]:
    """Run ops on fake tensors, dispatched as torch.compile does while it traces. 2.4 to 2.15.

    torch neither logs nor warns about what it does: where warnings are errors, one of its own would
    look like the fake kernel's failure.
    """
    import torch._refs  # noqa: F401 -- registers decompositions that do not make sizes constant
    from torch._dispatch.python import enable_python_dispatcher

    experimental = ("fx.experimental.recording", "fx.experimental.symbolic_shapes")
    names = (*experimental, "_subclasses.fake_tensor")
    loggers = [logging.getLogger(f"torch.{name}") for name in names]
    disabled = [logger.disabled for logger in loggers]
    try:
        for logger in loggers:
            logger.disabled = True  # a level would do, and each change of one costs 0.2 ms
        with warnings.catch_warnings(), mode, enable_python_dispatcher():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, before in zip(loggers, disabled, strict=True):
            logger.disabled = before


def to_fake(mode: Any, tensor: torch.Tensor, name: str | None = None) -> torch.Tensor:
    """The fake tensor of a real one; views of one storage stay that. 2.4 to 2.15.

    Args:
        mode: from `fake_mode`.
        tensor: not a view in autograd's sense if it is to be symbolic.
        name: of the argument; each of its sizes becomes a symbol of its own, and strides and offset
            expressions of these, or symbols where they are none. None: plain numbers.

    Raises:
        Exception: of many types, for tensors that have no fake.
    """
    from torch._dynamo.source import ConstantSource
    from torch.fx.experimental.symbolic_shapes import DimDynamic, StatelessSymbolicContext

    if name is None or tensor.layout != torch.strided:
        return mode.from_tensor(tensor, static_shapes=True)  # type: ignore[no-any-return]
    every = [DimDynamic.DYNAMIC] * tensor.dim()
    context: Any = StatelessSymbolicContext(dynamic_sizes=every)
    return mode.from_tensor(  # type: ignore[no-any-return]
        tensor, source=ConstantSource(name), symbolic_context=context
    )


def is_fake(tensor: torch.Tensor) -> bool:
    """Whether the tensor is a fake one. 2.4 to 2.15."""
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(tensor, FakeTensor)


def missing_fake_kernel(error: BaseException) -> str | None:
    """The `ns::name` of the custom op that has no fake kernel, if that is the error. 2.4 to 2.15."""
    from torch._subclasses.fake_tensor import UnsupportedOperatorException

    if isinstance(error, UnsupportedOperatorException):
        func = error.func
        own = isinstance(func, OpOverload) and func.namespace not in ("aten", "prims", "prim")
        name = overload_name(func) if own else None
        has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
        return name if name and not has_kernel(name, "Meta") else None
    found = re.search(r"no fake impl registered for <CustomOpDef\(([\w:.]+)\)>", str(error))
    return found.group(1) if found else None


def fake_cause(error: Exception) -> Exception:
    """What a kernel for meta tensors raised, where torch says no more than "unsupported". 2.4 to 2.15."""
    from torch._subclasses.fake_tensor import UnsupportedOperatorException

    cause = error.__context__
    told = isinstance(error, UnsupportedOperatorException) and isinstance(cause, Exception)
    return cause if told and isinstance(cause, Exception) else error


def is_data_dependent(error: BaseException) -> bool:
    """Whether torch raised because it cannot compare a size that depends on data. 2.4 to 2.15."""
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    return isinstance(error, GuardOnDataDependentSymNode)


def storage_id(tensor: torch.Tensor) -> int | None:
    """What tells a tensor's storage from others, real or fake; None without one. 2.4 to 2.15."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        return None  # sparse tensors


def expression(size: Any) -> Any:
    """The sympy expression of a SymInt, SymFloat or SymBool; numbers as they are. 2.4 to 2.15."""
    return size.node.expr if hasattr(size, "node") else size


def substitute(found: Any, values: Mapping[Any, int]) -> Any:
    """A sympy expression with numbers for symbols; other values as they are. 2.4 to 2.15.

    Returns:
        a number or a bool where no symbol is left, an expression otherwise.
    """
    import sympy  # type: ignore[import-untyped]

    if not isinstance(found, sympy.Basic):
        return found
    found = found.xreplace({symbol: sympy.Integer(value) for symbol, value in values.items()})
    if found in (sympy.true, sympy.false):
        return bool(found)
    if found.free_symbols or not found.is_number:
        return found
    return int(found) if found.is_integer else float(found)


def is_constant_size(size: Any) -> bool:
    """Whether a size is, or has become, a plain number. 2.4 to 2.15."""
    from torch.fx.experimental.symbolic_shapes import is_concrete_int

    return is_concrete_int(size)


def value_range(mode: Any, symbol: Any) -> tuple[int | None, int | None]:
    """The least and the largest value of a symbol; None where there is no bound. 2.4 to 2.15."""
    found = mode.shape_env.var_to_range[symbol]
    low, high = (
        int(end) if getattr(end, "is_Integer", False) else None
        for end in (found.lower, found.upper)
    )
    return low, high if high is None or high < 2**62 else None


def guards(mode: Any) -> list[tuple[Any, str | None]]:
    """What a fake mode assumed about sizes, in order: (sympy relation, line). 2.4 to 2.15.

    The line, `file:number in function: source`, is the last one outside of torch and of this
    package; None where torch does not keep it (from 2.5 on, if torch's own code asked).
    """
    return [(guard.expr, _authors_line(_frames(guard))) for guard in mode.shape_env.guards]


def _frames(guard: Any) -> list[Any]:
    if hasattr(guard, "stack"):
        return list(guard.stack.summary())
    found = (guard.sloc.framework_loc, guard.sloc.maybe_user_loc)
    return [frame for frame in found if hasattr(frame, "filename")]


def _authors_line(frames: list[Any]) -> str | None:
    hidden = tuple(str(Path(path).parent) + os.sep for path in (torch.__file__, __file__))
    for frame in reversed(frames):
        if frame.filename.startswith(hidden):
            continue
        return (
            f"{_short(frame.filename)}:{frame.lineno} in {frame.name}: {(frame.line or '').strip()}"
        )
    return None


def _short(filename: str) -> str:
    path = Path(filename)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else filename


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


def counting_backend(name: str) -> Any:
    """A `torch.compile` backend that is the named one and counts graphs in `.graphs`. 2.4 to 2.15."""
    from torch._dynamo.backends.registry import lookup_backend

    def compile_graph(graph: Any, inputs: Any) -> Any:
        compile_graph.graphs += 1  # type: ignore[attr-defined]
        return lookup_backend(name)(graph, inputs)

    compile_graph.graphs = 0  # type: ignore[attr-defined]
    return compile_graph


def compile_whole(function: Any, backend: Any, **options: Any) -> Any:
    """`torch.compile(fullgraph=True)`, forgotten at the end of `compile_session`. 2.4 to 2.15."""
    _compiled.append(function.__code__)
    return torch.compile(function, fullgraph=True, backend=backend, **options)


# On torch 2.4 what is kept counts against the limit of other functions; between, it was not tried.
GRAPHS_CAN_STAY = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 13)


def keep_compiled(function: Any) -> None:
    """Keep what `compile_whole` made of a function until `forget_compiled`. 2.4 to 2.15."""
    _compiled.remove(function.__code__)


def forget_compiled(function: Any) -> None:
    """Drop what was compiled of a function. 2.4 to 2.15."""
    torch._dynamo.eval_frame.reset_code(function.__code__)  # type: ignore[attr-defined]


_compiled: list[Any] = []  # code objects: what is compiled hangs on them and keeps them alive


def maybe_mark_dynamic(tensor: torch.Tensor, dim: int) -> None:
    """Let the compiler treat this size as one that varies, without insisting. 2.4 to 2.15."""
    torch._dynamo.maybe_mark_dynamic(tensor, dim)


# What checks need, whatever the session or its environment has set. Graph caches on disk and in
# memory are keyed by the graph and not by fake kernels: with them, an op whose fake kernel was mended
# or broken since the last run would get the old answer. Aliased outputs, which torch makes errors
# where the variable CI is set, are reported by the checks that look for them.
_COMPILE_CONFIG: dict[str, dict[str, Any]] = {
    "torch._dynamo.config": {
        "assume_static_by_default": True,
        "automatic_dynamic_local_pgo": False,
        "automatic_dynamic_remote_pgo": False,
        "automatic_dynamic_shapes": False,
        "cache_size_limit": 8,
        "caching_precompile": False,
        "capture_dynamic_output_shape_ops": True,
        "compiled_autograd": False,
        "error_on_recompile": False,
        "fail_on_cache_limit_hit": False,
        "fail_on_recompile_limit_hit": False,
        "recompile_limit": 8,
        "run_gc_after_compile": False,
        "suppress_errors": False,
    },
    "torch._functorch.config": {
        "enable_autograd_cache": False,
        "enable_remote_autograd_cache": False,
        "error_on_custom_op_aliasing": False,
    },
    "torch._inductor.config": {
        # No processes that compile beside this one, which would stay: a case has a kernel or two.
        "compile_threads": 1,
        "fx_graph_cache": False,
        "fx_graph_remote_cache": False,
        "size_asserts": True,
    },
}


@contextmanager
def compile_session() -> Iterator[None]:
    """The compiler's configuration for a check; afterwards its state is as before. 2.4 to 2.15.

    Put back: the configuration, what dynamo counts, its profile of sizes, its list of backends and
    of guard failures. Code that was compiled before stays compiled.
    """
    with ExitStack() as stack:
        stack.callback(_compiler_state())
        for module, wanted in _COMPILE_CONFIG.items():
            config = importlib.import_module(module)
            known = {name: value for name, value in wanted.items() if hasattr(config, name)}
            stack.enter_context(config.patch(known))
        if hasattr(torch.compiler, "set_stance"):
            stack.enter_context(torch.compiler.set_stance("default"))
        stack.enter_context(_guards_untimed())
        yield


@contextmanager
def _guards_untimed() -> Iterator[None]:
    """Spare dynamo to time every new guard for its logs, with the processor's caches emptied for it.

    2.4 does not; seen in 2.13 and 2.15, where it is a tenth of what a small graph takes.
    """
    module: Any = importlib.import_module("torch._dynamo.guards")
    timed = getattr(module, "profile_guard_manager", None)
    if timed is None:
        yield
        return
    module.profile_guard_manager = lambda *given: 0.0
    try:
        yield
    finally:
        module.profile_guard_manager = timed


def _compiler_state() -> Callable[[], None]:
    """Take dynamo's global state; the function returned puts it back."""
    utils, frames = torch._dynamo.utils, torch._dynamo.eval_frame
    counted = {name: collections.Counter(counter) for name, counter in utils.counters.items()}
    growing: list[Any] = [utils.guard_failures, frames.cached_backends]
    reasons = len(utils.graph_break_reasons)
    pgo: Any = sys.modules.get("torch._dynamo.pgo")
    profile = getattr(pgo, "_CODE_STATE", None)
    if profile is not None:
        growing.append(profile)
    before = [set(each) for each in growing]

    def restore() -> None:
        while _compiled:
            frames.reset_code(_compiled.pop())  # type: ignore[attr-defined]
        utils.counters.clear()
        utils.counters.update(counted)
        for each, known in zip(growing, before, strict=True):
            for key in [key for key in each if key not in known]:
                del each[key]
        del utils.graph_break_reasons[reasons:]
        if pgo is not None and profile is None:
            pgo._CODE_STATE = pgo._INIT_CODE_STATE = None

    return restore


_CONFIGURATIONS = (
    "torch._dynamo.config",
    "torch._functorch.config",
    "torch._inductor.config",
    "torch.fx.experimental._config",
)


def compiler_configuration() -> Callable[[], None]:
    """Take the compiler's configuration; the function returned puts back what has changed. 2.4 to 2.15.

    Cheap enough for every check: what is overridden lies in variables of the context, whose copy
    costs nothing, and before torch 2.13 in plain dicts. Modules that are not imported yet are not
    imported: what is overridden of them later stays.
    """
    modules: list[Any] = [sys.modules[name] for name in _CONFIGURATIONS if name in sys.modules]
    context = contextvars.copy_context()
    kept = [None if _in_context(one) else _overridden(one) for one in modules]

    def put_back() -> None:
        after = contextvars.copy_context()
        moved = {one for one, value in after.items() if context.get(one, after) is not value}
        for module, values in zip(modules, kept, strict=True):
            if values is not None:
                _override(module, values)
            elif moved:
                _set_as_in(context, module, moved)

    return put_back


def _in_context(config: Any) -> bool:
    entry = next(iter(config._config.values()))
    return isinstance(getattr(entry, "user_override", None), contextvars.ContextVar)


def _set_as_in(context: contextvars.Context, config: Any, moved: set[Any]) -> None:
    names = [name for name, entry in config._config.items() if entry.user_override in moved]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some names are deprecated
        for name in names:
            before = context.run(getattr, config, name)
            if getattr(config, name) != before:
                setattr(config, name, before)


def _overridden(config: Any) -> dict[str, Any]:
    """Before torch 2.13: the values, or what overrides them."""
    if not hasattr(next(iter(config._config.values())), "user_override"):
        return dict(config._config)
    return {name: entry.user_override for name, entry in config._config.items()}


def _override(config: Any, values: dict[str, Any]) -> None:
    now = _overridden(config)
    for name, value in values.items() if now != values else ():
        if now[name] is not value and now[name] != value:
            if hasattr(config._config[name], "user_override"):
                config._config[name].user_override = value
                config._is_dirty = True
            else:
                setattr(config, name, value)


# The logger of torch's trace of compilations (TORCH_TRACE). 2.4 to 2.15.
TRACE_LOGGER = "torch.__trace"


def refusing_recompiles() -> Any:
    """A context in which compiling a function again raises and names the guard. 2.4 to 2.15."""
    return torch._dynamo.config.patch(error_on_recompile=True)


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
        fake = definition._abstract_fn
    else:
        entry: Any = torch._library.simple_registry.singleton.find(overload._schema.name)
        holder = getattr(entry, "fake_impl", None) or getattr(entry, "abstract_impl", None)
        fake = getattr(getattr(holder, "kernel", None), "func", None)
    return [*found, ("the fake kernel", _unwrapped(fake))] if fake is not None else found


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
