"""After the suite: make items from the recorded calls, and run them as pytest runs items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from ...compat.ops import registered_names
from ...compat.xdist_private import report_items_of
from ...core.wording import counted
from ...declare.mistakes import MarkError
from ...harvest.samples import Group, groups_of
from ...harvest.source import piece_of
from ..child.pytest_timeout import add_time_limit
from ..session.state import COUNT, Session
from .exchange import Exchange, Shares
from .items import HarvestedItem, items_of, module_at

if TYPE_CHECKING:
    from ...harvest.recorder import Recorder


def run_harvest(
    session: pytest.Session, customop: Session, recorder: Recorder, exchange: Exchange | None
) -> None:
    """Check the calls of a recorder.

    Args:
        exchange: the exchange with the other workers; None outside of a worker.

    Raises:
        pytest.Session.Failed, pytest.Session.Interrupted: as pytest's own loop does.
    """
    notes = customop.harvest
    own_calls = list(recorder.calls.values())
    groups, notes.left = groups_of(own_calls)
    missed = recorder.missed + Counter(
        {(op, "it raised"): count for op, count in recorder.raised.items()}
    )
    notes.left += missed
    notes.calls = sum(call.calls for call in own_calls) + missed.total()
    notes.registered = _registered()
    is_own: Shares = _all
    if exchange is not None:
        all_calls, is_own = exchange.merged(own_calls)
        groups = [
            group
            for group in groups_of(all_calls)[0]
            if any(is_own(group, name) for name in group.samples)
        ]
    for group in groups:
        name, count = group.op.name, sum(is_own(group, sample) for sample in group.samples)
        notes.signatures[name] = notes.signatures.get(name, 0) + count
        if customop.settings.harvest_save is not None and is_own(group, next(iter(group.samples))):
            notes.pieces.append(piece_of(group, _modules(session, group)).to_dict())
    _run(session, customop, _planned(session, customop, groups, is_own))


def _modules(session: pytest.Session, group: Group) -> dict[str, ModuleType | None]:
    """For each sample of a group, the module of the test in which its call was seen first."""
    return {
        name: module_at(session.config.rootpath / nodeid.partition("::")[0])
        for name, nodeid in group.seen_in.items()
    }


def _all(group: Group, sample: str) -> bool:
    del group, sample
    return True


def _registered() -> dict[str, int]:
    counts = Counter(name.partition("::")[0] for name in registered_names())
    return dict(counts)


def _planned(
    session: pytest.Session, customop: Session, groups: Sequence[Group], is_own: Shares
) -> list[HarvestedItem]:
    """The items of all groups; a group that cannot be planned is counted as not checked."""
    items: list[HarvestedItem] = []
    for group in groups:
        try:
            group_items = items_of(session, group, customop)
        except MarkError as error:
            customop.harvest.left[group.op.name, str(error)] += len(group.samples)
            continue
        items += [item for item in group_items if is_own(group, item.sample)]
    for item in items:
        if customop.settings.timeout:
            add_time_limit(item, customop)
    return sorted(items, key=lambda item: item.nodeid)


def _run(session: pytest.Session, customop: Session, items: Sequence[HarvestedItem]) -> None:
    """Run items as `pytest_runtestloop` does."""
    wrong = customop.wrong_names()
    if wrong:
        customop.harvest.not_run = wrong[0]
        return
    _announce(session, len(items))
    session.items.extend(items)
    session.testscollected += len(items)
    for first in items[:1]:
        first.stash[COUNT] = len(items)
    for at, item in enumerate(items):
        following = items[at + 1] if at + 1 < len(items) else None
        report_items_of(session, item)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)


def _announce(session: pytest.Session, count: int) -> None:
    """Announce the items on the terminal, which has already printed 100 %."""
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and count:
        if terminal.verbosity < 0:
            terminal.line("")  # ends the dots, which -q prints without a file
        terminal.write_sep("-", f"harvest: {counted(count, 'item')}")
