"""Make pytest items from marked functions and classes.

A marked function becomes two groups of items under one name: its checks, made from a stand-in, and its
body once per case, if it requests `customop_case`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ..core.gc_pause import gc_paused
from ..declare.declaration import NOT_CALLED_MESSAGE
from ..declare.marked import NAME, POSITIONAL, marks_of
from ..declare.mistakes import MarkError, wrong_mark
from .fixture_names import CELL
from .inspection import is_empty, place_of
from .stand_ins import CLASS_CHECKS, add_checks_method, marked_by_stand_in, stand_in_for

_in_progress: set[int] = set()  # ids of the functions that pytest is making items of


def items_of(collector: pytest.Collector, name: str, obj: Any) -> list[Any] | None:
    """The items of a marked function; None if pytest should proceed as usual.

    A marked class gets the method that carries its checks.

    Raises:
        MarkError: for a mark on an object that cannot carry it.
    """
    _validate_not_a_module_mark(collector)
    if isinstance(obj, pytest.MarkDecorator):
        _validate_called(name, obj)
        return None
    if isinstance(obj, type):
        _prepare_class(obj)
        return None
    if id(obj) in _in_progress:
        return None
    if isinstance(obj, (staticmethod, classmethod)):
        _move_marks_to_function(obj)
    if not marks_of(obj):
        return None
    if not _is_test(collector, name, obj):
        raise wrong_mark(
            "pytest does not collect this function, "
            "because its name does not match python_functions",
            place_of(obj),
        )
    in_class = isinstance(collector, pytest.Class)
    checks = _made_by_pytest(collector, name, stand_in_for(obj, in_class))
    _validate_not_multiplied(checks, obj)
    if is_empty(obj):
        return checks
    bodies = _made_by_pytest(collector, name, obj)
    if not all(CELL in getattr(item, "fixturenames", (CELL,)) for item in bodies):
        raise wrong_mark(
            "this body would never run; request the fixture "
            "customop_case to run it once per case, or leave the body empty (... or a docstring)",
            place_of(obj),
        )
    return checks + bodies


def _is_test(collector: Any, name: str, obj: object) -> bool:
    return bool(collector.istestfunction(obj, name))


def _made_by_pytest(collector: pytest.Collector, name: str, obj: Any) -> list[Any]:
    """The items that pytest and other plugins make of a function, without this plugin."""
    _in_progress.add(id(obj))
    try:
        with gc_paused():
            items = collector.ihook.pytest_pycollect_makeitem(
                collector=collector, name=name, obj=obj
            )
    finally:
        _in_progress.discard(id(obj))
    return list(items) if isinstance(items, list) else [items] if items is not None else []


def _move_marks_to_function(obj: staticmethod[..., Any] | classmethod[Any, ..., Any]) -> None:
    """Copy marks above @staticmethod to the function, where older pytest looks for them."""
    function: Any = obj.__func__
    known = vars(function).get("pytestmark", [])
    missing = [
        mark
        for mark in vars(obj).get("pytestmark", [])
        if not any(mark is known_mark for known_mark in known)  # == would compare tensors
    ]
    if missing:
        function.pytestmark = [*known, *missing]


def _prepare_class(cls: type) -> None:
    """Give a marked class the method that carries its checks."""
    marked = [cls] if marks_of(cls) else [value for value in vars(cls).values() if marks_of(value)]
    if marked and any(base.__module__ == "unittest.case" for base in cls.__mro__):
        raise wrong_mark(
            "a unittest.TestCase cannot be parametrized by pytest; mark a plain function or class",
            place_of(marked[0]),
        )
    if marked != [cls]:
        return
    known = getattr(cls, CLASS_CHECKS, None)
    if known is not None and marked_by_stand_in(known) is None:
        raise wrong_mark(
            f"the class has a method {CLASS_CHECKS} of its own, "
            "and its checks are collected under this name; rename the method",
            place_of(cls),
        )
    add_checks_method(cls)


def _validate_not_a_module_mark(collector: pytest.Collector) -> None:
    if not isinstance(collector, pytest.Class) and any(
        mark.name == NAME for mark in collector.own_markers
    ):
        raise MarkError(
            f"customop_cases in {collector.nodeid} (pytestmark): "
            "mark functions and classes, not modules"
        )


def _validate_called(name: str, mark: pytest.MarkDecorator) -> None:
    """Reject `@customop_cases` without a call, which leaves the mark in the place of the function."""
    (function, *others) = mark.kwargs.get(POSITIONAL, ()) or (None,)
    if not others and getattr(function, "__name__", None) == name:
        raise wrong_mark(NOT_CALLED_MESSAGE, place_of(function))


def _validate_not_multiplied(items: Sequence[Any], obj: object) -> None:
    """Reject checks that something other than the plan parametrizes."""
    others = {name for item in items for name in item.callspec.params} - {CELL}
    if others:
        raise wrong_mark(
            f"an autouse fixture or a mark on the class or "
            f"module parametrizes {', '.join(sorted(others))}, which would multiply the checks; "
            "parametrize the function itself: that multiplies its body only",
            place_of(obj),
        )
