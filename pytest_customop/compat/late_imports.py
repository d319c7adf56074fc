"""Run generated code without the parts of Inductor that only compile: importing them takes 0.4 to 1 s.

Private names, seen in torch 2.13 to 2.15 (where generated code imports something else, these modules are
imported as usual):

- `torch._inductor.select_algorithm.extern_kernels`: generated code calls torch's ops through it.
- `torch._inductor.codegen.memory_planning._align`: the same as in `torch._inductor.utils`.
- `torch._inductor.graph.GraphLowering.save_output_code`: None except in torch's own tests; read after a
  graph was loaded.
- `torch._inductor.debug`: loaded code uses it without importing it.
- `torch._inductor.codegen`: the package, which imports nothing.
- `torch._inductor.config.inductor_choices_class`, from 2.15 on, and `inductor_choices_cache_key` of
  `torch._inductor.choices`: returns None for None, unless something was registered in that module.
"""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

_KERNELS = "torch._inductor.select_algorithm"
_PLANNING = "torch._inductor.codegen.memory_planning"
_LOWERING = "torch._inductor.graph"
_CHOICES = "torch._inductor.choices"
_CHOICES_KEY = "inductor_choices_cache_key"


class _Late:
    """Stands for an object of a module. The module is imported when an attribute of the object is used."""

    def __init__(self, module: str, name: str) -> None:
        self._module, self._name = module, name

    def __getattr__(self, name: str) -> Any:
        return getattr(getattr(importlib.import_module(self._module), self._name), name)


class _NoHook:
    """Stands for the class `GraphLowering`."""

    save_output_code = None


class _StandIn(types.ModuleType):
    """Stands for a module, and has some of its names; any other name imports the module itself."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # read by the import system
            raise AttributeError(name)
        _take_out(self)
        return getattr(importlib.import_module(self.__name__), name)


def _take_out(module: _StandIn) -> None:
    if sys.modules.get(module.__name__) is module:
        del sys.modules[module.__name__]


@contextmanager
def late_imports() -> Iterator[None]:
    """Keep code that is loaded in the block from importing what it may never use."""
    importlib.import_module("torch._inductor.debug")
    utils: Any = importlib.import_module("torch._inductor.utils")
    align = getattr(utils, "_align", None)
    stand_ins: dict[str, dict[str, Any]] = {
        _KERNELS: {"extern_kernels": _Late(_KERNELS, "extern_kernels")},
        _LOWERING: {"GraphLowering": _NoHook},
    }
    if align is not None:
        importlib.import_module("torch._inductor.codegen")
        stand_ins[_PLANNING] = {"_align": align}
    with _standing_in(stand_ins):
        yield


@contextmanager
def no_choices_imported() -> Iterator[None]:
    """Keep Inductor from importing its choices among templates when its settings are read in the block."""
    config: Any = importlib.import_module("torch._inductor.config")
    none_set = getattr(config, "inductor_choices_class", None) is None
    with _standing_in({_CHOICES: {_CHOICES_KEY: lambda none: None}} if none_set else {}):
        yield


@contextmanager
def _standing_in(stand_ins: Mapping[str, Mapping[str, Any]]) -> Iterator[None]:
    """Inside the block, put stand-ins with these names in place of modules that are not imported yet."""
    placed = []
    for name, values in stand_ins.items():
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
