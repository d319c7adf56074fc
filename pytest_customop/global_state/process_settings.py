"""The global settings of Python, numpy and the process."""

from __future__ import annotations

import gc
import os
import sys
import warnings
from typing import Any

from . import log_levels
from .setting import Setting, flag

ENVIRONMENT = "the environment's variables"
# The variables at the import of the package. While settings are perturbed, variables that torch, numpy and
# the tests have set since then are removed. So a variable that an op sets at each call is detected.
_VARIABLES = dict(os.environ)
_UNUSED_FILTER = ("default", None, BytesWarning, None, 1_000_000_007)  # no file has such a line


def _set_filters(value: list[Any]) -> None:
    warnings.filters[:] = value  # type: ignore[index]


def _numpy() -> Any:
    return sys.modules.get("numpy")


def _errstate() -> Any:
    return None if _numpy() is None else _numpy().geterr()


def _set_errstate(value: Any) -> None:
    if value is not None:
        _numpy().seterr(**value)


def _changed_errstate(value: Any) -> Any:
    return value and {**value, "over": "ignore" if value["over"] != "ignore" else "warn"}


class _Decoded:
    """The variables as they were read last: encoded, and as text. Both are read-only."""

    encoded: dict[Any, Any] | None = None
    variables: dict[str, str]


_last = _Decoded()


def _environment() -> dict[str, str]:
    """The variables, which are decoded again only if they have changed: that takes 20 µs.

    CPython keeps them encoded in `os.environ._data`, seen in 3.10 to 3.14. Elsewhere all are decoded.
    """
    encoded: Any = getattr(os.environ, "_data", None)
    if encoded is None or encoded != _last.encoded:
        _last.encoded, _last.variables = encoded and dict(encoded), dict(os.environ)
    return _last.variables


def _set_environment(value: dict[str, str]) -> None:
    for name in os.environ.keys() - value.keys():
        del os.environ[name]
    for name, text in value.items():
        if os.environ.get(name) != text:
            os.environ[name] = text


PROCESS_SETTINGS: tuple[Setting, ...] = (
    Setting(
        "the filters of warnings",
        lambda: [*warnings.filters],
        _set_filters,
        lambda value: [_UNUSED_FILTER, *value],
        "[*__import__('warnings').filters]",
    ),
    Setting(
        "numpy's error handling",
        _errstate,
        _set_errstate,
        _changed_errstate,
        "__import__('numpy').geterr()",
    ),
    Setting(
        ENVIRONMENT,
        _environment,
        _set_environment,
        lambda value: _VARIABLES,
        "dict(__import__('os').environ)",
    ),
    Setting(
        "the working directory",
        os.getcwd,
        os.chdir,
        lambda path: os.path.dirname(path) or path,
        "__import__('os').getcwd()",
    ),
    Setting(
        "the levels of loggers",
        log_levels.read,
        log_levels.write,
        log_levels.change,
        "{name: getattr(each, 'level', 0)"
        " for name, each in __import__('logging').root.manager.loggerDict.items()}",
    ),
    flag(
        "garbage collection",
        gc.isenabled,
        lambda value: gc.enable() if value else gc.disable(),
        "__import__('gc').isenabled()",
    ),
)
