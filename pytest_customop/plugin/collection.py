"""From a marked function or class to pytest items.

A marked function becomes two groups of items under one name: its checks, made from a stand-in that
requests nothing of the function's own, and its body once a case, if it requests `customop_case`.
So whatever else parametrizes the function multiplies its body only.
"""

from __future__ import annotations

import dis
import inspect
import types
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from ..declare.declaration import NOT_CALLED_MESSAGE, Declaration, declare
from ..declare.marked import NAME, POSITIONAL, marks_of
from ..declare.mistakes import MarkError
from ..settings import Settings
from .fixture_names import CELL, DEVICE, DTYPE
from .gc_pause import gc_paused

if TYPE_CHECKING:
    from ..checks import Check, Registry
    from ..plan.items import PlannedItem
    from ..plan.omissions import OnOmitted

CLASS_CHECKS = "test_customop"
_STANDS_FOR = "_customop_stands_for"
_in_progress: set[int] = set()


def place_of(obj: Any) -> str:
    """File and line of a function or class, and its name."""
    plain = inspect.unwrap(getattr(obj, "__func__", obj))
    code = getattr(plain, "__code__", None)
    try:
        line = code.co_firstlineno if code else inspect.getsourcelines(plain)[1]
        file = code.co_filename if code else inspect.getsourcefile(plain)
    except (OSError, TypeError):
        return str(plain.__qualname__)
    return f"{file}:{line} ({plain.__qualname__})"


def items_of(collector: pytest.Collector, name: str, obj: Any) -> list[Any] | None:
    """The items of a marked function; None for everything that is not one.

    Raises:
        MarkError: for a mark on what cannot carry it.
    """
    _refuse_module_mark(collector)
    if isinstance(obj, pytest.MarkDecorator):
        _validate_called(name, obj)
        return None
    if isinstance(obj, type):
        _prepare_class(obj)
        return None
    if id(obj) in _in_progress:
        return None
    if isinstance(obj, (staticmethod, classmethod)):
        _hand_down_marks(obj)
    if not marks_of(obj):
        return None
    if not _is_test(collector, name, obj):
        raise MarkError(
            f"customop_cases at {place_of(obj)}: pytest does not collect this function, "
            "because its name does not match python_functions"
        )
    checks = _made_by_pytest(collector, name, _stand_in(obj, isinstance(collector, pytest.Class)))
    _refuse_multiplied(checks, obj)
    if is_empty(obj):
        return checks
    bodies = _made_by_pytest(collector, name, obj)
    if not all(CELL in getattr(item, "fixturenames", (CELL,)) for item in bodies):
        raise MarkError(
            f"customop_cases at {place_of(obj)}: this body would never run; request the fixture "
            "customop_case to run it once a case, or leave the body empty (... or a docstring)"
        )
    return checks + bodies


def _validate_called(name: str, mark: pytest.MarkDecorator) -> None:
    """Reject `@customop_cases` without a call, which leaves the mark in the place of the function."""
    (function, *others) = mark.kwargs.get(POSITIONAL, ()) or (None,)
    if not others and getattr(function, "__name__", None) == name:
        raise MarkError(f"customop_cases at {place_of(function)}: {NOT_CALLED_MESSAGE}")


def _refuse_module_mark(collector: pytest.Collector) -> None:
    if not isinstance(collector, pytest.Class) and any(
        mark.name == NAME for mark in collector.own_markers
    ):
        raise MarkError(
            f"customop_cases in {collector.nodeid} (pytestmark): "
            "mark functions and classes, not modules"
        )


def _hand_down_marks(obj: staticmethod[..., Any] | classmethod[Any, ..., Any]) -> None:
    """Older pytest leaves the marks above @staticmethod on the wrapper, and looks below it."""
    function: Any = obj.__func__
    known = vars(function).get("pytestmark", [])
    lost = [
        mark
        for mark in vars(obj).get("pytestmark", [])
        if not any(mark is other for other in known)  # == would compare tensors
    ]
    if lost:
        function.pytestmark = [*known, *lost]


def _is_test(collector: Any, name: str, obj: object) -> bool:
    return bool(collector.istestfunction(obj, name))


def _made_by_pytest(collector: pytest.Collector, name: str, obj: Any) -> list[Any]:
    """What pytest and other plugins make of the function, this plugin standing aside."""
    _in_progress.add(id(obj))
    try:
        with gc_paused():
            made = collector.ihook.pytest_pycollect_makeitem(
                collector=collector, name=name, obj=obj
            )
    finally:
        _in_progress.discard(id(obj))
    return list(made) if isinstance(made, list) else [made] if made is not None else []


def _stand_in(obj: Any, in_class: bool) -> Any:
    """A function in the place of `obj` that requests nothing but the plan's cell."""
    static = isinstance(obj, staticmethod)
    plain = inspect.unwrap(getattr(obj, "__func__", obj))

    def method(self: object) -> None: ...

    def function() -> None: ...

    template = method if in_class and not static else function
    code = template.__code__.replace(
        co_filename=plain.__code__.co_filename, co_firstlineno=plain.__code__.co_firstlineno
    )
    stand_in = types.FunctionType(code, {}, plain.__name__)
    stand_in.__doc__ = plain.__doc__
    stand_in.__module__ = plain.__module__
    setattr(stand_in, _STANDS_FOR, obj)
    return pytest.mark.usefixtures(CELL)(stand_in)


def _refuse_multiplied(items: Sequence[Any], obj: object) -> None:
    others = {name for item in items for name in item.callspec.params} - {CELL}
    if others:
        raise MarkError(
            f"customop_cases at {place_of(obj)}: an autouse fixture or a mark on the class or "
            f"module parametrizes {', '.join(sorted(others))}, which would multiply the checks; "
            "parametrize the function itself: that multiplies its body only"
        )


def is_empty(function: Any) -> bool:
    """Whether a function's body does nothing: `...`, `pass`, or a docstring."""
    plain = inspect.unwrap(getattr(function, "__func__", function))
    skipped = {"RESUME", "NOP", "GEN_START", "RETURN_GENERATOR", "POP_TOP", "COPY_FREE_VARS"}
    steps = []
    for step in dis.get_instructions(plain.__code__):
        if step.opname not in skipped:
            steps.append((step.opname, step.argval))
        if step.opname in ("RETURN_VALUE", "RETURN_CONST"):
            break
    return steps in ([("LOAD_CONST", None), ("RETURN_VALUE", None)], [("RETURN_CONST", None)])


def _prepare_class(cls: type) -> None:
    """Give a marked class the method that carries its checks; refuse a unittest class."""
    own = marks_of(cls)
    known = getattr(cls, CLASS_CHECKS, None)
    if own and known is not None and not hasattr(known, _STANDS_FOR):
        raise MarkError(
            f"customop_cases at {place_of(cls)}: the class has a method {CLASS_CHECKS} of its own, "
            "and its checks are collected under this name; rename the method"
        )
    unittest_case = _is_unittest(cls)
    if unittest_case:
        marked = [cls] if own else [f for f in vars(cls).values() if marks_of(f)]
        if marked:
            raise MarkError(
                f"customop_cases at {place_of(marked[0])}: a unittest.TestCase cannot be "
                "parametrized by pytest; mark a plain function or class"
            )
    if not own or CLASS_CHECKS in vars(cls):
        return

    def checks(self: object) -> None:
        """The conformance checks of the mark on this class."""

    place, line = inspect.getsourcefile(cls) or "", inspect.getsourcelines(cls)[1]
    code = checks.__code__.replace(co_filename=place, co_firstlineno=line)
    method = types.FunctionType(code, {}, CLASS_CHECKS)
    method.__doc__ = checks.__doc__
    method.__module__ = cls.__module__
    method.__qualname__ = f"{cls.__qualname__}.{CLASS_CHECKS}"
    method.__test__ = True  # type: ignore[attr-defined]
    setattr(method, _STANDS_FOR, cls)
    setattr(cls, CLASS_CHECKS, pytest.mark.usefixtures(CELL)(method))


def _is_unittest(cls: type) -> bool:
    return any(base.__module__ == "unittest.case" for base in cls.__mro__)


def plan_for(
    metafunc: pytest.Metafunc,
    settings: Settings,
    registry: Registry,
    available: Callable[[str], str | None],
    on_omitted: OnOmitted | None = None,
) -> list[PlannedItem]:
    """What one function gets: its checks, if it is a stand-in, or else its body once a case.

    Raises:
        MarkError, ValueError: for marks that cannot be meant.
    """
    from ..plan.items import PlannedItem
    from ..plan.matrix import plan
    from ..plan.selection import select_checks, selects_only_body

    stands_for = getattr(metafunc.function, _STANDS_FOR, None)
    marked = stands_for if stands_for is not None else metafunc.function
    if stands_for is not None:
        _refuse_parametrized(metafunc, marked)
    declarations = [
        declare(mark, place) for place, mark in _marks_for(metafunc, marked, stands_for is not None)
    ]
    if not declarations:
        raise MarkError(
            f"{place_of(metafunc.function)} requests customop_case and has no customop_cases mark"
        )
    if stands_for is None:
        _validate_fixtures(metafunc, declarations[0])
    else:
        _validate_selections(marked, declarations)

    def select(declaration: Declaration) -> list[Check]:
        return select_checks(registry, declaration, settings)

    planned = plan(declarations, settings, select, available, on_omitted)
    if stands_for is None:
        # What does not run is listed once, with the checks.
        return [one for one in planned if one.is_body]
    checks = [one for one in planned if not one.is_body]
    runs_body = _has_body(marked) or selects_only_body(settings.checks)
    if not checks and not (planned and runs_body):
        reason = "no check of this selection applies to this op and these samples"
        checks = [PlannedItem("nothing-applies", declarations[0].op.name, skip=reason)]
    return checks


def _has_body(marked: Any) -> bool:
    """Whether a test has a body to run once a case; of a class, whether a method requests the case."""
    if not isinstance(marked, type):
        return not is_empty(marked)
    members = [member for base in marked.__mro__ for member in vars(base).values()]
    kinds = (types.FunctionType, staticmethod, classmethod)
    methods: list[Any] = [member for member in members if isinstance(member, kinds)]
    return any(
        "customop_case" in inspect.signature(method).parameters
        for method in map(inspect.unwrap, methods)
    )


def _validate_fixtures(metafunc: pytest.Metafunc, declaration: Declaration) -> None:
    """Reject a body that would run each case once for each device or dtype of the session too."""
    for fixture, attribute in ((DEVICE, "device"), (DTYPE, "dtype")):
        if fixture in metafunc.fixturenames:
            raise declaration.mistake(
                f"the test requests {fixture}, which would run every case once for each {attribute} "
                f"of the session, whatever its own: use customop_case.{attribute}"
            )


def _validate_selections(marked: Any, declarations: Sequence[Declaration]) -> None:
    """Reject a mark that selects nothing but a body which is empty."""
    from ..plan.selection import selects_only_body

    for declaration in declarations:
        empty = not isinstance(marked, type) and is_empty(marked)
        if empty and selects_only_body(declaration.checks):
            raise declaration.mistake(
                "checks selects the body alone, and the body is empty: name other checks, or "
                "request customop_case and write assertions"
            )


def case_of(item: pytest.Item) -> str | None:
    """What the checks and bodies of one case have in common; None for a test without the mark."""
    callspec = getattr(item, "callspec", None)
    planned: PlannedItem | None = callspec.params.get(CELL) if callspec is not None else None
    if planned is None or not isinstance(item, pytest.Function) or item.parent is None:
        return None
    marked = getattr(item.function, _STANDS_FOR, item.function)
    of_class = isinstance(marked, type) or not marks_of(marked)
    owner = "" if of_class else f"::{item.originalname}"
    return f"{item.parent.nodeid}{owner}[{planned.case.id if planned.case else planned.id}]"


def _refuse_parametrized(metafunc: pytest.Metafunc, marked: object) -> None:
    for mark in metafunc.definition.iter_markers("parametrize"):
        names = mark.args[0] if mark.args else mark.kwargs.get("argnames")
        raise MarkError(
            f"customop_cases at {place_of(marked)}: parametrize({names!r}) on the class or "
            "module would multiply the checks; parametrize the function itself: that multiplies "
            "its body only"
        )


def _marks_for(
    metafunc: pytest.Metafunc, marked: Any, stand_in: bool
) -> Iterator[tuple[str, pytest.Mark]]:
    """The marks that count: the function's own, or else those of its class; nearest first."""
    own = marks_of(marked)
    if not own and not stand_in and metafunc.cls is not None:
        marked = metafunc.cls
        own = marks_of(marked)
    for node, mark in metafunc.definition.iter_markers_with_node(NAME):
        if not isinstance(node, (pytest.Function, pytest.Class)):
            raise MarkError(
                f"customop_cases in {node.nodeid or 'the session'} (pytestmark): "
                "mark functions and classes, not modules"
            )
        del mark
    for mark in own:
        yield place_of(marked), mark
