"""The configuration of the compiler, taken and put back."""

from __future__ import annotations

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
    """Take the compiler's configuration; the function returned puts back what has changed. 2.4 to 2.15.

    Cheap enough for every check: what is overridden lies in variables of the context, whose copy
    costs nothing, and before torch 2.13 in plain dicts. Modules that are not imported yet are not
    imported: what is overridden of them later stays.
    """
    modules: list[Any] = [sys.modules[name] for name in _CONFIGURATIONS if name in sys.modules]
    context = contextvars.copy_context()
    kept = [None if _in_context(one) else _overridden(one) for one in modules]

    def restore() -> None:
        after = contextvars.copy_context()
        moved = {one for one, value in after.items() if context.get(one, after) is not value}
        for module, values in zip(modules, kept, strict=True):
            if values is not None:
                _override(module, values)
            elif moved:
                _set_as_in(context, module, moved)

    return restore


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
