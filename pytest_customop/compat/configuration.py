"""Record and restore the configuration of the compiler.

Private names, seen in torch 2.4 to 2.15 unless said otherwise:

- `torch.fx.experimental._config`, and the modules in `_CONFIGURATIONS`: configurations of the compiler.
  Public: `config.patch`, which needs the names of the options that an op will change.
- `config._config`: the entry of each option. In 2.4 it is the option's value.
- `entry.user_override`: the value that was set; a context variable in 2.13 and 2.15, a plain value in
  versions between.
- `config._is_dirty`: whether the hash of a configuration must be recomputed; between 2.4 and 2.13.
"""

from __future__ import annotations

import contextlib
import contextvars
import sys
import warnings
from collections.abc import Callable
from typing import Any

_CONFIGURATIONS = (
    "torch._dynamo.config",
    "torch._functorch.config",
    "torch._inductor.config",
    "torch.fx.experimental._config",
)


def compiler_configuration() -> Callable[[], None]:
    """Record the compiler's configuration; the function returned restores what has changed.

    It is cheap enough for every check: options that were set are context variables, whose copy costs
    nothing, or plain dicts before torch 2.13. It imports no modules. If a module is imported later, its
    options are not restored.
    """
    modules: list[Any] = [sys.modules[name] for name in _CONFIGURATIONS if name in sys.modules]
    context = contextvars.copy_context()
    before = [None if _in_context(module) else _overridden(module) for module in modules]

    def restore() -> None:
        changed = _changed_variables(context, contextvars.copy_context())
        for module, values in zip(modules, before, strict=True):
            if values is not None:
                _override(module, values)
            elif changed:
                _set_as_in(context, module, changed)

    return restore


def _changed_variables(before: contextvars.Context, after: contextvars.Context) -> set[Any]:
    with contextlib.suppress(Exception):  # some values, such as tensors, cannot be compared
        if before == after:
            return set()  # nearly always, and much faster than to look at each of hundreds
    return {
        variable for variable, value in after.items() if before.get(variable, after) is not value
    }


def _in_context(config: Any) -> bool:
    entry = next(iter(config._config.values()))
    return isinstance(getattr(entry, "user_override", None), contextvars.ContextVar)


def _set_as_in(context: contextvars.Context, config: Any, changed: set[Any]) -> None:
    names = [name for name, entry in config._config.items() if entry.user_override in changed]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some names are deprecated
        for name in names:
            before = context.run(getattr, config, name)
            if getattr(config, name) != before:
                setattr(config, name, before)


def _overridden(config: Any) -> dict[str, Any]:
    """Before torch 2.13: the value of each option in 2.4, later the value that was set."""
    if not hasattr(next(iter(config._config.values())), "user_override"):
        return dict(config._config)
    return {name: entry.user_override for name, entry in config._config.items()}


def _override(config: Any, values: dict[str, Any]) -> None:
    current = _overridden(config)
    for name, value in values.items() if current != values else ():
        if current[name] is not value and current[name] != value:
            if hasattr(config._config[name], "user_override"):
                config._config[name].user_override = value
                config._is_dirty = True
            else:
                setattr(config, name, value)
