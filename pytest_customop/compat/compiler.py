"""torch.compile: its backends, what it keeps, and sessions that leave nothing behind."""

from __future__ import annotations

import collections
import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from .traces import traces_forgotten
from .version import TORCH


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
GRAPHS_CAN_STAY = TORCH >= (2, 13)


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
# or broken since the last run would get the old answer; `storing_graphs` has a key that knows. Aliased
# outputs, which torch makes errors where the variable CI is set, are reported by the checks that look
# for them.
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
        stack.enter_context(traces_forgotten())
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


# The logger of torch's trace of compilations (TORCH_TRACE). 2.4 to 2.15.
TRACE_LOGGER = "torch.__trace"


def refusing_recompiles() -> Any:
    """A context in which compiling a function again raises and names the guard. 2.4 to 2.15."""
    return torch._dynamo.config.patch(error_on_recompile=True)
