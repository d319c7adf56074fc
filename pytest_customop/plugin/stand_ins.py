"""The functions that carry the checks of a mark, in place of the marked function or class.

A stand-in requests none of the fixtures of the marked function, so parametrizing that function does not
multiply the checks.
"""

from __future__ import annotations

import inspect
import types
from typing import Any

import pytest

from .fixture_names import CELL

CLASS_CHECKS = "test_customop"  # the method that carries the checks of a marked class
_MARKED = "_customop_stands_for"


def marked_by_stand_in(function: Any) -> Any:
    """The function or class whose checks a stand-in carries; None for any other function."""
    return getattr(function, _MARKED, None)


def stand_in_for(marked: Any, in_class: bool) -> Any:
    """The stand-in of a function, with its name, docstring, file and line."""
    plain = inspect.unwrap(getattr(marked, "__func__", marked))

    def method(self: object) -> None: ...

    def function() -> None: ...

    template = method if in_class and not isinstance(marked, staticmethod) else function
    code = template.__code__.replace(
        co_filename=plain.__code__.co_filename, co_firstlineno=plain.__code__.co_firstlineno
    )
    stand_in = types.FunctionType(code, {}, plain.__name__)
    stand_in.__doc__ = plain.__doc__
    stand_in.__module__ = plain.__module__
    setattr(stand_in, _MARKED, marked)
    return pytest.mark.usefixtures(CELL)(stand_in)


def add_checks_method(cls: type) -> None:
    """Give a marked class its stand-in as a method, unless it has one."""
    if CLASS_CHECKS in vars(cls):
        return

    def checks(self: object) -> None:
        """The conformance checks of the mark on this class."""

    file, line = inspect.getsourcefile(cls) or "", inspect.getsourcelines(cls)[1]
    code = checks.__code__.replace(co_filename=file, co_firstlineno=line)
    method = types.FunctionType(code, {}, CLASS_CHECKS)
    method.__doc__ = checks.__doc__
    method.__module__ = cls.__module__
    method.__qualname__ = f"{cls.__qualname__}.{CLASS_CHECKS}"
    method.__test__ = True  # type: ignore[attr-defined]
    setattr(method, _MARKED, cls)
    setattr(cls, CLASS_CHECKS, pytest.mark.usefixtures(CELL)(method))
