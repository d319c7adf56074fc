"""What torch keeps of every trace and compilation for as long as the process lives. 2.4 to 2.15.

A session of thousands of cases would grow by it. What was there before stays, and what compiled code
that stays has need of.
"""

from __future__ import annotations

import linecache
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_FAKES_KEPT = 2_000  # entries of the fake tensors' cache, of which a case makes some 40
_WRITTEN = "torch._inductor.runtime.compile_tasks."  # modules that Inductor wrote


@contextmanager
def traces_forgotten() -> Iterator[None]:
    """Drop at the end what torch has kept since the beginning."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    sizes = {name: len(each) for name, each in _only_growing().items()}
    loaded = len(sys.modules)
    waiting: Any = getattr(weakref.finalize, "_registry", {})  # CPython's own, 3.10 to 3.14
    finalizers = set(waiting)
    try:
        with _shape_environments_let_go():
            yield
    finally:
        for name, each in _only_growing().items():
            _shorten(each, sizes.get(name, 0))
        for name in list(sys.modules)[loaded:]:
            if name.startswith(_WRITTEN):
                del sys.modules[name]
        for finalizer in [one for one in waiting if one not in finalizers]:
            if _is_dead_guard(finalizer):
                finalizer.detach()
        if len(FakeTensorMode.cache) > _FAKES_KEPT:
            FakeTensorMode.cache_clear()


def _only_growing() -> dict[str, Any]:
    """Lists and dicts to which torch adds at the end.

    Sources of graphs, stacks from which the compiler's metrics were set, modules that Inductor wrote,
    classes of which it asked whether it can pickle them.
    """
    from torch.fx.graph_module import _loader

    found = {"sources": _loader.eval_cache}
    metrics: Any = getattr(sys.modules.get("torch._dynamo.utils"), "get_metrics_context", None)
    if metrics is not None:  # after 2.4
        found["stacks"] = metrics()._edits
    codecache = sys.modules.get("torch._inductor.codecache")
    written: Any = getattr(codecache, "PyCodeCache", None)
    for name in ("modules", "modules_no_attr", "linemaps", "cache"):  # the last one in 2.4
        if hasattr(written, name):
            found[name] = getattr(written, name)
    classes: Any = getattr(codecache, "FxGraphCachePickler", None)
    if hasattr(classes, "_pickleable_type_cache"):  # after 2.4
        found["classes"] = classes._pickleable_type_cache
    return found


def _shorten(kept: Any, size: int) -> None:
    if isinstance(kept, list):
        del kept[size:]
        return
    for key in list(kept)[size:]:
        del kept[key]
        linecache.cache.pop(key, None)


def _is_dead_guard(finalizer: Any) -> bool:
    """Whether it would invalidate compiled code that is gone when an object goes that was guarded."""
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
def _shape_environments_let_go() -> Iterator[None]:
    """Cut what keeps shape environments alive: caches of their methods, and a cycle.

    They hold the fake tensors that dynamo traced with, whose sizes, out of the garbage collector's sight,
    hold them.
    """
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    made: list[weakref.ref[Any]] = []
    original: Any = ShapeEnv.__init__

    def noted(self: Any, *args: Any, **kwargs: Any) -> None:
        made.append(weakref.ref(self))
        original(self, *args, **kwargs)

    ShapeEnv.__init__ = noted  # type: ignore[method-assign]
    try:
        yield
    finally:
        ShapeEnv.__init__ = original  # type: ignore[method-assign]
        for each in made:
            environment = each()
            if environment is not None:
                environment.tracked_fakes = None
        for method in vars(ShapeEnv).values():
            if hasattr(method, "cache_clear"):
                method.cache_clear()
