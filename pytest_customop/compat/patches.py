"""All functions of torch that are replaced inside a block.

A patch is in place while any thread has a block open, but it acts only in threads with an open block. If
another library patches the function meanwhile, its patch stays. `tests/test_compat_patches.py` has a test
for each name, which fails when torch moves it.

Private names, seen in torch 2.4 to 2.15 unless said otherwise:

- `torch.fx.experimental.symbolic_shapes.ShapeEnv.__init__`: called for every new set of symbolic sizes.
  Nothing public lists the sets that exist.
- `torch._dynamo.guards.profile_guard_manager`: measures the time that new guards take, for the logs of
  dynamo. Seen in 2.13 and 2.15; 2.4 has none. Nothing public turns it off.
- `torch.autograd.function.FunctionCtx.mark_non_differentiable`: public only for the formula that calls it.
  Nothing public distinguishes an output that was marked from one that was detached.
- `torch._inductor.cpu_vec_isa.valid_vec_isa_list`, in 2.4 in `torch._inductor.codecache`: the sets of
  vector instructions for generated C++. `torch._inductor.config.cpp.vec_isa_ok = False` empties it too,
  but then it stays empty for all later compilations of the process. Seen in 2.15.
"""

from __future__ import annotations

import importlib
import platform
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class _Patch:
    """One function of torch, replaced while blocks are open.

    Args:
        owner: gives the module or class that holds the function; called when a block opens.
        name: of the function there. Where the owner has none, a block changes nothing.
        call: (original, value, *args, **kwargs) -> result, in a thread with an open block; `value` is
            that of the innermost one.
    """

    def __init__(self, owner: Callable[[], Any], name: str, call: Callable[..., Any]) -> None:
        self._owner, self._name, self._call = owner, name, call
        self._lock = threading.Lock()
        self._open = 0
        self._threads = threading.local()
        self._original: Any = None
        self._replacement: Any = None

    @contextmanager
    def block(self, value: Any) -> Iterator[None]:
        """Replace the function inside."""
        if not hasattr(self._owner(), self._name):
            yield
            return
        values = self._values()
        with self._lock:
            self._open += 1
            self._put_in_place()
        values.append(value)
        try:
            yield
        finally:
            values.pop()
            with self._lock:
                self._open -= 1
                self._take_out()

    def _values(self) -> list[Any]:
        if not hasattr(self._threads, "values"):
            self._threads.values = []
        return self._threads.values  # type: ignore[no-any-return]

    def _put_in_place(self) -> None:
        if self._replacement is not None:  # in place: for another block, or under a foreign patch
            return
        original = getattr(self._owner(), self._name)

        def replacement(*args: Any, **kwargs: Any) -> Any:
            values = self._values()
            if not values:
                return original(*args, **kwargs)
            return self._call(original, values[-1], *args, **kwargs)

        self._original, self._replacement = original, replacement
        setattr(self._owner(), self._name, replacement)

    def _take_out(self) -> None:
        if self._open == 0 and getattr(self._owner(), self._name) is self._replacement:
            setattr(self._owner(), self._name, self._original)
            self._original = self._replacement = None


def _shape_environments() -> Any:
    return importlib.import_module("torch.fx.experimental.symbolic_shapes").ShapeEnv


def _noted(
    original: Any, environments: list[weakref.ref[Any]], new: Any, *args: Any, **kwargs: Any
) -> None:
    environments.append(weakref.ref(new))
    original(new, *args, **kwargs)


def _guards() -> Any:
    return importlib.import_module("torch._dynamo.guards")


def _unmeasured(original: Any, value: None, *args: Any, **kwargs: Any) -> float:
    return 0.0


def _contexts() -> Any:
    return importlib.import_module("torch.autograd.function").FunctionCtx


def _marked(original: Any, outputs: list[Any], context: Any, *marked: Any) -> None:
    outputs.extend(marked)
    original(context, *marked)


def _instruction_sets() -> Any:
    try:
        return importlib.import_module("torch._inductor.cpu_vec_isa")
    except ImportError:
        return importlib.import_module("torch._inductor.codecache")


def _none_usable(original: Any, value: None) -> list[Any]:
    return []


_new_environments = _Patch(_shape_environments, "__init__", _noted)
_guard_times = _Patch(_guards, "profile_guard_manager", _unmeasured)
_non_differentiable = _Patch(_contexts, "mark_non_differentiable", _marked)
_vector_instructions = _Patch(_instruction_sets, "valid_vec_isa_list", _none_usable)


@contextmanager
def shape_environments_made() -> Iterator[list[weakref.ref[Any]]]:
    """A list of every `ShapeEnv` that this thread makes in the block."""
    environments: list[weakref.ref[Any]] = []
    with _new_environments.block(environments):
        yield environments


@contextmanager
def guards_unmeasured() -> Iterator[None]:
    """Keep dynamo from measuring new guards, for which it empties the processor's caches.

    The measurements take a tenth of the time in which a small graph is compiled.
    """
    with _guard_times.block(None):
        yield


@contextmanager
def marked_non_differentiable() -> Iterator[list[Any]]:
    """A list of every output that a Python formula marks with `ctx.mark_non_differentiable`.

    It contains what this thread marks in the block.
    """
    outputs: list[Any] = []
    with _non_differentiable.block(outputs):
        yield outputs


def vector_instructions() -> list[str]:
    """The vector instruction sets that inductor may use for generated C++; none in the block below."""
    return [str(instruction_set) for instruction_set in _instruction_sets().valid_vec_isa_list()]


@contextmanager
def no_vector_instructions() -> Iterator[None]:
    """Let inductor generate C++ without vector instructions, unless `cpp.vec_isa_ok` is set.

    To find out which ones it may use, inductor builds a C++ program for each instruction set, eleven on a
    recent x86 processor. With empty caches that takes most of the time of the first compilation. On other
    processors there is little to find out, and this changes nothing.
    """
    config: Any = importlib.import_module("torch._inductor.config")
    if platform.machine() not in ("x86_64", "AMD64") or config.cpp.vec_isa_ok is not None:
        yield
        return
    with _vector_instructions.block(None):
        yield
