"""The pytest items of recorded calls: `harvest::mylib::foo[...]`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ...harvest.samples import Group
from ...plan.items import PlannedItem
from ...run.record import HARVEST
from ..session.properties import add_case
from ..session.state import HARVESTED, NO_CHILD, PLANNED, Session

NAME = HARVEST

# How variants that could crash the process would run.
_WITHOUT_CHILD = "the marked tests of --customop-harvest-save run them in a child process"


class HarvestedItem(pytest.Item):
    """One check on one recorded call, or on its variants.

    Args:
        planned: as for a mark.
        seen_in: the node id of the test in which the call was seen first.
    """

    def __init__(self, *, planned: PlannedItem, seen_in: str, customop: Session, **keywords: Any):
        super().__init__(**keywords)
        self._planned = planned
        self._customop = customop
        self.stash[PLANNED] = planned
        add_case(self, planned)
        self.stash[HARVESTED] = seen_in
        if planned.needs_child:
            self.stash[NO_CHILD] = _WITHOUT_CHILD

    @property
    def sample(self) -> str:
        """The id of the call's sample; empty for an item without a sample."""
        return self._planned.place.sample or ""

    def setup(self) -> None:
        """Skip what does not run."""
        if self._planned.skip is not None:
            pytest.skip(self._planned.skip)

    def runtest(self) -> None:
        """Run the check."""
        from ...run.devices import worker_devices
        from ..run_item import run_item
        from ..session.xdist import share_of_threads

        device = self._planned.place.device or "cpu"
        worker = self._customop.worker
        devices = worker_devices([] if device == "cpu" else [device], worker)
        with share_of_threads(self.config), devices:
            run_item(self, self._planned, self._customop)

    @property
    def module(self) -> ModuleType | None:
        """The module of the test, which registers the op."""
        return module_at(self.path)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """The file of the test in which the call was seen first."""
        return self.path, None, self.nodeid


def module_at(path: Path) -> ModuleType | None:
    """The module that was imported from a file."""
    modules = list(sys.modules.values())
    return next(
        (module for module in modules if getattr(module, "__file__", None) == str(path)), None
    )


def items_of(session: pytest.Session, group: Group, customop: Session) -> list[HarvestedItem]:
    """The items of the calls of a group.

    Raises:
        MarkError: for samples that cannot be planned.
    """
    nodeid = next(iter(group.seen_in.values()), "")
    root = _Root.from_parent(session, name=NAME, nodeid=NAME, path=_path(session, nodeid))
    node = _Op.from_parent(root, name=group.op.name, nodeid=f"{NAME}::{group.op.name}")
    planned = planned_items(group, customop, node.ihook)
    return [_item(node, item, group, customop) for item in planned]


def planned_items(group: Group, customop: Session, hook: Any) -> list[PlannedItem]:
    """The items of a mark with these samples, regardless of the session's devices and dtypes."""
    from ...core.hooks import call_hook
    from ...declare.declaration import Declaration, declare_call
    from ...plan.matrix import plan
    from ...plan.selection import select_checks

    settings = customop.settings._replace(devices=None, dtypes=None, without_child=_WITHOUT_CHILD)
    registry = customop.registry(hook)
    customop.note_unknown_checks(registry)

    def select(declaration: Declaration) -> Sequence[Any]:
        return select_checks(registry, declaration, settings)

    declaration = declare_call(group.declared, f"{NAME}::{group.op.name}")
    items = plan([declaration], settings, select, customop.why_absent, customop.omissions.add)
    planned = [item for item in items if not item.is_body]
    call_hook(hook.pytest_customop_modify_cases, definition=None, planned=planned)
    return planned


class _Root(pytest.Collector):
    """All harvested calls."""

    def collect(self) -> list[pytest.Item | pytest.Collector]:
        """Nothing: there is nothing to collect before the suite has run."""
        return []


class _Op(_Root):
    """The harvested calls of one op."""


def _item(node: _Op, planned: PlannedItem, group: Group, customop: Session) -> HarvestedItem:
    name = f"{group.op.name}[{planned.id}]"
    place = planned.place
    item: HarvestedItem = HarvestedItem.from_parent(
        node,
        name=name,
        nodeid=f"{NAME}::{name}",
        path=_path(node.session, group.seen_in.get(place.sample or "", "")),
        planned=planned,
        seen_in=group.seen_in.get(place.sample or "", ""),
        customop=customop,
    )
    return item


def _path(session: pytest.Session, nodeid: str) -> Path:
    """The file of a test; the root folder outside of a test."""
    root = session.config.rootpath
    return root / nodeid.partition("::")[0] if nodeid else root
