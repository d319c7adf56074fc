"""Drop what torch would keep of every trace and compilation until the process ends.

Otherwise the memory of a session of thousands of cases would grow. What existed before stays, and so does
what the remaining compiled code needs.

Private names, seen in torch 2.4 to 2.15 unless said otherwise. Nothing public empties any of them:

- `torch._subclasses.fake_tensor.FakeTensorMode.cache`: results of fake kernels.
- `torch.fx.graph_module._loader.eval_cache`: the sources of graphs.
- `torch._dynamo.utils.get_metrics_context()._edits`: stacks from which metrics were set; not in 2.4 to 2.8.
- `torch._inductor.codecache.PyCodeCache` and the modules `torch._inductor.runtime.compile_tasks.*`: the
  modules that Inductor wrote. Its dicts have changed their names.
- `torch._inductor.codecache.FxGraphCachePickler._pickleable_type_cache`: whether classes can be pickled;
  not in 2.4.
- `torch._dynamo.precompile_context.PrecompileContext._backend_artifacts_by_key`: what was compiled in order
  to store whole functions. Seen in 2.13 and 2.14.
- `CheckFunctionManager`, `guard_manager` (`check_fn` in 2.4) and `cache_entry`: guards of compiled code.
- `ShapeEnv.tracked_fakes`, and the caches of the methods of `ShapeEnv`.
- `weakref.finalize._registry`, of CPython 3.10 to 3.14.
"""

from __future__ import annotations

import linecache
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .patches import shape_environments_made

_FAKES_KEPT = 2_000  # entries in the cache of fake tensors; a case adds some 40
_WRITTEN = "torch._inductor.runtime.compile_tasks."  # modules that Inductor wrote


@contextmanager
def traces_dropped() -> Iterator[None]:
    """At the end of the block, drop what torch has started to keep in it."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    sizes = {name: len(collection) for name, collection in _only_growing().items()}
    loaded = len(sys.modules)
    waiting: Any = getattr(weakref.finalize, "_registry", {})  # CPython's own, 3.10 to 3.14
    finalizers = set(waiting)
    try:
        with _shape_environments_freed():
            yield
    finally:
        for name, collection in _only_growing().items():
            _shorten(collection, sizes.get(name, 0))
        for name in list(sys.modules)[loaded:]:
            if name.startswith(_WRITTEN):
                del sys.modules[name]
        for finalizer in [key for key in waiting if key not in finalizers]:
            if _is_dead_guard(finalizer):
                finalizer.detach()
        if len(FakeTensorMode.cache) > _FAKES_KEPT:
            FakeTensorMode.cache_clear()


def _only_growing() -> dict[str, Any]:
    """The lists and dicts to which torch only appends."""
    from torch.fx.graph_module import _loader

    growing = {"sources": _loader.eval_cache}
    metrics: Any = getattr(sys.modules.get("torch._dynamo.utils"), "get_metrics_context", None)
    stacks = getattr(metrics(), "_edits", None) if metrics is not None else None
    if stacks is not None:
        growing["stacks"] = stacks
    codecache = sys.modules.get("torch._inductor.codecache")
    written: Any = getattr(codecache, "PyCodeCache", None)
    for name in ("modules", "modules_no_attr", "linemaps", "cache"):  # the last one in 2.4
        if hasattr(written, name):
            growing[name] = getattr(written, name)
    precompiled: Any = sys.modules.get("torch._dynamo.precompile_context")
    stored: Any = getattr(precompiled, "PrecompileContext", None)
    if hasattr(stored, "_backend_artifacts_by_key"):  # after 2.4
        growing["functions"] = stored._backend_artifacts_by_key
    classes: Any = getattr(codecache, "FxGraphCachePickler", None)
    if hasattr(classes, "_pickleable_type_cache"):  # after 2.4
        growing["classes"] = classes._pickleable_type_cache
    return growing


def _shorten(collection: Any, size: int) -> None:
    if isinstance(collection, list):
        del collection[size:]
        return
    for key in list(collection)[size:]:
        del collection[key]
        linecache.cache.pop(key, None)


def _is_dead_guard(finalizer: Any) -> bool:
    """Whether a finalizer waits for a guarded object to invalidate compiled code that is already gone."""
    alive = finalizer.peek()
    if alive is None:
        return False
    function = getattr(alive[1], "func", alive[1])  # a partial; in 2.4 the method itself
    owner = getattr(function, "__self__", None)
    if type(owner).__name__ != "CheckFunctionManager":
        return False
    guards = getattr(owner, "guard_manager", None) or getattr(owner, "check_fn", None)
    return getattr(guards, "cache_entry", None) is None


@contextmanager
def _shape_environments_freed() -> Iterator[None]:
    """Cut what keeps shape environments alive: caches of their methods, and a cycle.

    A shape environment holds the fake tensors that dynamo traced with. Their sizes hold it in turn, in C++,
    where the garbage collector cannot see it.
    """
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    with shape_environments_made() as environments:
        try:
            yield
        finally:
            for reference in environments:
                environment = reference()
                if environment is not None:
                    environment.tracked_fakes = None
            if environments:  # otherwise the caches contain nothing new
                for method in vars(ShapeEnv).values():
                    if hasattr(method, "cache_clear"):
                        method.cache_clear()
