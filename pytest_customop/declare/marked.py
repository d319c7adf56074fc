"""The name of the mark, and which functions and classes carry it.

Every pytest session loads this module, so it imports as little as possible.
"""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any

import pytest

NAME = "customop_cases"
# Keywords that the decorator adds to the mark where it is used wrongly: its positional arguments, and
# whether it was not called at all.
POSITIONAL = "_positional"
NOT_CALLED = "_not_called"


def marks_of(obj: object) -> list[pytest.Mark]:
    """The customop marks on a function or class itself, including those of base classes."""
    if isinstance(obj, type):
        stores = [vars(base).get("pytestmark", ()) for base in obj.__mro__]
    elif isinstance(obj, (types.FunctionType, staticmethod, classmethod)):
        stores = [vars(getattr(obj, "__func__", obj)).get("pytestmark", ())]
    else:
        return []
    marks: list[pytest.Mark] = []
    for store in stores:
        for mark in store if isinstance(store, (list, tuple)) else [store]:
            plain = mark.mark if isinstance(mark, pytest.MarkDecorator) else mark
            if isinstance(plain, pytest.Mark) and plain.name == NAME:
                marks.append(plain)
    return marks


def carries_mark(collector: Any, obj: object) -> bool:
    """Whether the mark is on an object that pytest collects, on something in it, or on its module.

    Also true for the mark itself, which is collected where the decorator was not applied to a function.
    """
    if any(mark.name == NAME for mark in collector.own_markers):
        return True
    if marks_of(obj) or (isinstance(obj, pytest.MarkDecorator) and obj.name == NAME):
        return True
    return isinstance(obj, type) and any(marks_of(member) for member in vars(obj).values())


def names_mark(path: Path) -> bool:
    """Whether a file contains the name of the mark."""
    try:
        return NAME.encode() in path.read_bytes()
    except OSError:  # pytest reports it better
        return False
