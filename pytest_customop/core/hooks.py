"""Call a hook of other plugins and conftests, and name the one that an error comes from."""

from __future__ import annotations

import traceback
from typing import Any

from .tracebacks import error_line, is_of_author


class HookError(Exception):
    """A plugin or a conftest made a mistake in a hook; the message names the hook, file and line."""


def call_hook(caller: Any, **arguments: Any) -> Any:
    """Call a hook.

    Args:
        caller: pluggy's caller, `config.hook.pytest_customop_modify_cases`.

    Raises:
        HookError: for an exception of an implementation outside of this package.
    """
    try:
        return caller(**arguments)
    except Exception as error:  # whatever a plugin or a conftest raises
        files = {code.co_filename for code in _codes(caller)}
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename in files]
        if not frames or not is_of_author(frames[-1].filename):
            raise
        place = f"{frames[-1].filename}:{frames[-1].lineno}"
        raise HookError(f"{caller.name} at {place} raised {error_line(error)}") from error


def implemented_at(caller: Any) -> str:
    """File and line of every implementation of a hook outside of this package."""
    codes = [code for code in _codes(caller) if is_of_author(code.co_filename)]
    return ", ".join(f"{code.co_filename}:{code.co_firstlineno}" for code in codes)


def _codes(caller: Any) -> list[Any]:
    functions = (implementation.function for implementation in caller.get_hookimpls())
    codes = (getattr(function, "__code__", None) for function in functions)
    return [code for code in codes if code is not None]
