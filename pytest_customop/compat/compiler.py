"""Compile functions with torch.compile, and leave no trace of it.

Private names, seen in torch 2.4 to 2.15 unless said otherwise:

- `torch._dynamo.backends.registry.lookup_backend`: the backend of a name. torch.compile takes names, but
  has no way to count graphs.
- `torch._dynamo.eval_frame.reset_code`: drops what was compiled from one code object. Public:
  `torch.compiler.reset`, which drops everything.
- `torch._dynamo.eval_frame.cached_backends`, `torch._dynamo.utils.counters`, `guard_failures` and
  `graph_break_reasons`: what dynamo collects. Nothing public restores them.
- `torch._dynamo.pgo._CODE_STATE` and `_INIT_CODE_STATE`: the profile of sizes that were seen, in 2.13 and
  2.15; 2.4 has none. Public: none for one function.
- `torch._dynamo`: imported by the first call of a custom op.
- `torch._dynamo.maybe_mark_dynamic`. Public: `mark_dynamic`, which raises where a size cannot vary.
- `torch._dynamo.config`, `torch._functorch.config`, `torch._inductor.config`: the options in
  `_COMPILE_CONFIG`. Public: none for most of them.
- `torch.fx.experimental._config.use_duck_shape`: whether equal sizes are one symbol. Nothing public sets it
  for one compilation.
- `torchinductor_USER` in the folder for temporary files: where Inductor keeps what it has compiled, unless
  TORCHINDUCTOR_CACHE_DIR is set. `torch._inductor.runtime` gives the name, but makes the folder too.
- `torch.__trace`: the logger of torch's trace of compilations (TORCH_TRACE). Nothing public names it.
"""

from __future__ import annotations

import collections
import getpass
import importlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from .patches import guards_unmeasured, no_vector_instructions
from .traces import traces_dropped
from .version import TORCH


def load_dynamo() -> None:
    """Import dynamo, as the first call of a custom op does. Nothing public imports only dynamo."""
    importlib.import_module("torch._dynamo")


def counting_backend(name: str) -> Any:
    """The `torch.compile` backend of this name; `.graphs` counts its graphs."""
    from torch._dynamo.backends.registry import lookup_backend

    def compile_graph(graph: Any, inputs: Any) -> Any:
        compile_graph.graphs += 1  # type: ignore[attr-defined]
        note_backend(name)
        return lookup_backend(name)(graph, inputs)

    compile_graph.graphs = 0  # type: ignore[attr-defined]
    return compile_graph


_backends_used: set[str] = set()


def note_backend(name: str) -> None:
    """Note that a backend has compiled a graph, for `has_compiled`."""
    _backends_used.add(name)


def has_compiled(backend: str) -> bool:
    """Whether a backend has compiled a graph in this process, and so is loaded and set up."""
    return backend in _backends_used


def has_stored_code() -> bool:
    """Whether Inductor has compiled something here before, and has kept it."""
    folder = code_folder()
    try:
        return folder is not None and bool(os.listdir(folder))
    except OSError:  # no such folder
        return False


def code_folder() -> str | None:
    """Where Inductor keeps what it has compiled; None if the user, after whom it is named, has no name."""
    folder = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    try:
        return folder or os.path.join(tempfile.gettempdir(), f"torchinductor_{getpass.getuser()}")
    except (KeyError, ModuleNotFoundError, OSError):
        return None


def compile_whole(function: Any, backend: Any, **options: Any) -> Any:
    """`torch.compile(fullgraph=True)`; `compile_session` drops the result when it ends."""
    _compiled.append(function.__code__)
    if function.__module__ is None and _ONE_CODE_OBJECT:
        function.__module__ = __name__
    return torch.compile(function, fullgraph=True, backend=backend, **options)


# Before 2.13, torch compiles all functions of no known module within one code object, which soon reaches
# the limit of recompilations.
_ONE_CODE_OBJECT = TORCH < (2, 13)

# In torch 2.4, graphs that are kept count against the limit of other functions. Versions between 2.4 and
# 2.13 were not tried.
GRAPHS_CAN_STAY = TORCH >= (2, 13)


def keep_compiled(function: Any) -> None:
    """Keep the result of `compile_whole` for a function until `forget_compiled`."""
    _compiled.remove(function.__code__)


def forget_compiled(function: Any) -> None:
    """Drop what was compiled from a function."""
    torch._dynamo.eval_frame.reset_code(function.__code__)  # type: ignore[attr-defined]


_compiled: list[Any] = []  # code objects, which own what was compiled from them


def maybe_mark_dynamic(tensor: torch.Tensor, dim: int) -> None:
    """Let the compiler treat this size as dynamic; it is not an error if the size cannot vary."""
    torch._dynamo.maybe_mark_dynamic(tensor, dim)


# The options that checks need, whatever the session or its environment has set.
# - The keys of graph caches, on disk and in memory, do not depend on fake kernels: an op whose fake kernel
#   has changed since the last run would get the old graph. `graphs_on_disk` adds to the key.
# - Where the variable CI is set, torch raises for outputs that alias inputs. Checks report them instead.
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
        # No worker processes: they would stay alive, and a case has only one or two kernels.
        "compile_threads": 1,
        "fx_graph_cache": False,
        "fx_graph_remote_cache": False,
        "size_asserts": True,
    },
}


@contextmanager
def compile_session() -> Iterator[None]:
    """Configure the compiler for a check, and restore its configuration and state afterwards.

    The state is dynamo's counters, its profile of sizes, and its lists of backends and of guard failures.
    Code that was compiled before stays compiled.
    """
    with ExitStack() as stack:
        stack.enter_context(traces_dropped())
        stack.callback(_compiler_state())
        for module, options in _COMPILE_CONFIG.items():
            config = importlib.import_module(module)
            known = {name: value for name, value in options.items() if hasattr(config, name)}
            stack.enter_context(config.patch(known))
        if hasattr(torch.compiler, "set_stance"):
            stack.enter_context(torch.compiler.set_stance("default"))
        stack.enter_context(guards_unmeasured())
        stack.enter_context(no_vector_instructions())
        yield


def _compiler_state() -> Callable[[], None]:
    """Record dynamo's global state; the function returned restores it."""
    utils, frames = torch._dynamo.utils, torch._dynamo.eval_frame
    counted = {name: collections.Counter(counter) for name, counter in utils.counters.items()}
    growing: list[Any] = [utils.guard_failures, frames.cached_backends]
    reasons = len(utils.graph_break_reasons)
    pgo: Any = sys.modules.get("torch._dynamo.pgo")
    profile = getattr(pgo, "_CODE_STATE", None)
    if profile is not None:
        growing.append(profile)
    before = [set(collection) for collection in growing]

    def restore() -> None:
        while _compiled:
            frames.reset_code(_compiled.pop())  # type: ignore[attr-defined]
        utils.counters.clear()
        utils.counters.update(counted)
        for collection, known in zip(growing, before, strict=True):
            for key in [key for key in collection if key not in known]:
                del collection[key]
        del utils.graph_break_reasons[reasons:]
        if pgo is not None and profile is None:
            pgo._CODE_STATE = pgo._INIT_CODE_STATE = None

    return restore


@contextmanager
def many_calls() -> Iterator[None]:
    """Compile a function that calls an op for several unrelated cases.

    Equal sizes of different tensors may become unequal later, so they are different symbols. The order of
    the function is kept in generated code, so that there is one kernel to compile.
    """
    import torch._inductor.config as inductor

    symbols = importlib.import_module("torch.fx.experimental._config")
    order = {"reorder_for_locality": False, "reorder_for_peak_memory": False}
    with symbols.patch(use_duck_shape=False), inductor.patch(order):
        yield


TRACE_LOGGER = "torch.__trace"


def recompiles_raise() -> Any:
    """A context in which recompiling a function raises an error that names the guard."""
    return torch._dynamo.config.patch(error_on_recompile=True)
