"""Which items a child process runs, and their names there."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from ..session.state import HARVESTED, PLANNED, SESSION


def is_isolated(item: pytest.Item) -> bool:
    """Whether a child process runs an item: a check or a body on a case.

    With `--customop-isolate=auto`, only variants that could crash the process, with the others that the
    check runs on.
    """
    planned = item.stash.get(PLANNED, None)
    if planned is None or planned.case is None or planned.skip is not None:
        return False
    if HARVESTED in item.stash:
        return False  # a child process has not seen the call
    return planned.needs_child or item.config.stash[SESSION].settings.isolate == "on"


def is_on_cpu(item: pytest.Item) -> bool:
    """Whether an item that a child process runs is of a case on the CPU."""
    import torch

    case = item.stash[PLANNED].case
    return case is not None and torch.device(case.placement.device).type == "cpu"


def any_compiles(items: Iterable[pytest.Item]) -> bool:
    """Whether some of the items that a child process runs may compile."""
    checks = (item.stash[PLANNED].check for item in items)
    return any(check is not None and not check.cheap for check in checks)


def names_of(item: pytest.Item) -> tuple[str, ...]:
    """The names of an item and of the classes around it, below its file."""
    chain = item.listchain()
    file = max(at for at, node in enumerate(chain) if isinstance(node, pytest.File))
    return tuple(node.name for node in chain[file + 1 :])
