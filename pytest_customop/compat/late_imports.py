"""Run generated code without the parts of Inductor that only compile: importing them takes 0.4 s.

Private names, seen in torch 2.13 and 2.14 (where generated code imports something else, these modules are
imported as ever):

- `torch._inductor.select_algorithm.extern_kernels`: what generated code calls ops of torch by.
- `torch._inductor.codegen.memory_planning._align`, which is that of `torch._inductor.utils`.
- `torch._inductor.graph.GraphLowering.save_output_code`: None but in torch's own tests; asked for after a
  graph was loaded.
- `torch._inductor.debug`: loaded code looks into it and does not import it.
- `torch._inductor.codegen`: the package, which imports nothing.
"""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_KERNELS = "torch._inductor.select_algorithm"
_PLANNING = "torch._inductor.codegen.memory_planning"
_LOWERING = "torch._inductor.graph"


class _Late:
    """An object of a module that is imported when something of the object is used."""

    def __init__(self, module: str, name: str) -> None:
        self._module, self._name = module, name

    def __getattr__(self, name: str) -> Any:
        return getattr(getattr(importlib.import_module(self._module), self._name), name)


class _NoHook:
    """Stands for the class `GraphLowering`."""

    save_output_code = None


class _StandIn(types.ModuleType):
    """Stands for a module, of which it has some names; with any other, the module itself is imported."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # asked for by what imports it
            raise AttributeError(name)
        _take_out(self)
        return getattr(importlib.import_module(self.__name__), name)


def _take_out(module: _StandIn) -> None:
    if sys.modules.get(module.__name__) is module:
        del sys.modules[module.__name__]


@contextmanager
def late_imports() -> Iterator[None]:
    """Code that is loaded in the block does not import what it may never use."""
    importlib.import_module("torch._inductor.debug")
    utils: Any = importlib.import_module("torch._inductor.utils")
    align = getattr(utils, "_align", None)
    named: dict[str, dict[str, Any]] = {
        _KERNELS: {"extern_kernels": _Late(_KERNELS, "extern_kernels")},
        _LOWERING: {"GraphLowering": _NoHook},
    }
    if align is not None:
        importlib.import_module("torch._inductor.codegen")
        named[_PLANNING] = {"_align": align}
    placed = []
    for name, values in named.items():
        if name not in sys.modules:
            module = _StandIn(name)
            vars(module).update(values)
            sys.modules[name] = module
            placed.append(module)
    try:
        yield
    finally:
        for module in placed:
            _take_out(module)
