"""The planned items of one test function: its checks, or its body once per case."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from ..declare.declaration import Declaration, declare
from ..declare.marked import NAME, marks_of
from ..declare.mistakes import MarkError, wrong_mark
from ..settings import Settings
from .fixture_names import CELL, DEVICE, DTYPE
from .inspection import has_body, is_empty, place_of
from .stand_ins import marked_by_stand_in

if TYPE_CHECKING:
    from ..checks import Check, Registry
    from ..plan.items import PlannedItem
    from ..plan.omissions import OnOmitted


def plan_for(
    metafunc: pytest.Metafunc,
    settings: Settings,
    registry: Registry,
    available: Callable[[str], str | None],
    on_omitted: OnOmitted | None = None,
) -> list[PlannedItem]:
    """The planned items of a function: the checks of a stand-in, or else the body once per case.

    Args:
        registry: the checks that the function's node sees.
        available: returns why a device cannot be used here; None if it can.
        on_omitted: called with what is left out.

    Raises:
        MarkError: for mistakes in the marks.
    """
    from ..plan.items import PlannedItem
    from ..plan.matrix import plan
    from ..plan.selection import select_checks, selects_only_body

    def select(declaration: Declaration) -> list[Check]:
        return select_checks(registry, declaration, settings)

    marked = marked_by_stand_in(metafunc.function)
    if marked is None:
        declarations = _declarations_of_body(metafunc)
        planned = plan(declarations, settings, select, available, on_omitted)
        # A skip is listed once, with the checks.
        return [item for item in planned if item.is_body]
    _validate_not_parametrized(metafunc, marked)
    _validate_marked_nodes(metafunc)
    declarations = [declare(mark, place_of(marked)) for mark in marks_of(marked)]
    _validate_selections(marked, declarations)
    planned = plan(declarations, settings, select, available, on_omitted)
    checks = [item for item in planned if not item.is_body]
    runs_body = planned and (has_body(marked) or selects_only_body(settings.checks))
    if not checks and not runs_body:
        reason = "no check of this selection applies to this op and these samples"
        checks = [PlannedItem("nothing-applies", declarations[0].op.name, skip=reason)]
    return checks


def _declarations_of_body(metafunc: pytest.Metafunc) -> list[Declaration]:
    """The declarations of the marks on a function, or else on its class."""
    marked: Any = metafunc.function
    if not marks_of(marked) and metafunc.cls is not None:
        marked = metafunc.cls
    _validate_marked_nodes(metafunc)
    declarations = [declare(mark, place_of(marked)) for mark in marks_of(marked)]
    if not declarations:
        raise MarkError(
            "the test requests customop_case and has no customop_cases mark "
            f"[{place_of(metafunc.function)}]"
        )
    for fixture, attribute in ((DEVICE, "device"), (DTYPE, "dtype")):
        if fixture in metafunc.fixturenames:
            raise declarations[0].mistake(
                f"the test requests {fixture}, which would run every case once for each {attribute} "
                f"of the session, whatever its own: use customop_case.{attribute}"
            )
    return declarations


def _validate_not_parametrized(metafunc: pytest.Metafunc, marked: object) -> None:
    for mark in metafunc.definition.iter_markers("parametrize"):
        names = mark.args[0] if mark.args else mark.kwargs.get("argnames")
        raise wrong_mark(
            f"parametrize({names!r}) on the class or "
            "module would multiply the checks; parametrize the function itself: that multiplies "
            "its body only",
            place_of(marked),
        )


def _validate_marked_nodes(metafunc: pytest.Metafunc) -> None:
    """Reject a mark on a module, a package or the session."""
    for node, _ in metafunc.definition.iter_markers_with_node(NAME):
        if not isinstance(node, (pytest.Function, pytest.Class)):
            raise MarkError(
                f"customop_cases in {node.nodeid or 'the session'} (pytestmark): "
                "mark functions and classes, not modules"
            )


def _validate_selections(marked: Any, declarations: Sequence[Declaration]) -> None:
    """Reject a mark that selects only the body if the body is empty."""
    from ..plan.selection import selects_only_body

    if isinstance(marked, type) or not is_empty(marked):
        return
    for declaration in declarations:
        if selects_only_body(declaration.checks):
            raise declaration.mistake(
                "checks selects the body alone, and the body is empty: name other checks, or "
                "request customop_case and write assertions"
            )


def case_of(item: pytest.Item) -> str | None:
    """A name that the checks and the body of one case share; None for a test without the mark."""
    callspec = getattr(item, "callspec", None)
    planned: PlannedItem | None = callspec.params.get(CELL) if callspec is not None else None
    if planned is None or not isinstance(item, pytest.Function) or item.parent is None:
        return None
    marked = marked_by_stand_in(item.function) or item.function
    of_class = isinstance(marked, type) or not marks_of(marked)
    owner = "" if of_class else f"::{item.originalname}"
    return f"{item.parent.nodeid}{owner}[{planned.case.id if planned.case else planned.id}]"
