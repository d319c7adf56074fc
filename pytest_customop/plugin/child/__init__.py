"""Run items in a child process, so that a crash or a hang ends one item and not the session."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from ..read_options import where_given
from ..session.state import PLANNED

if TYPE_CHECKING:
    from ..session.state import Session

CHILD = "customop_child"  # in the config's workerinput


def is_child(config: pytest.Config) -> bool:
    """Whether this session is the child of another one."""
    return CHILD in getattr(config, "workerinput", {})


def isolate(config: pytest.Config, session: Session) -> None:
    """Have a child process run this session's items, unless this session is a child itself.

    Raises:
        pytest.UsageError: where that is not possible.
    """
    if is_child(config):
        return
    if os.name != "posix":
        raise pytest.UsageError(f"{where_given(config, 'isolate')}: needs Linux or macOS")
    if config.getoption("usepdb", False):
        raise pytest.UsageError(
            f"{where_given(config, 'isolate')}: --pdb needs the process that runs the tests"
        )
    from .controller import Isolation

    config.pluginmanager.register(Isolation(config, session), "customop-isolation")


def is_isolated(item: pytest.Item) -> bool:
    """Whether an item is one that a child runs: a check or a body on a case."""
    planned = item.stash.get(PLANNED, None)
    return planned is not None and planned.case is not None and planned.skip is None


def names_of(item: pytest.Item) -> tuple[str, ...]:
    """The names of an item and of the classes around it, below its file."""
    chain = item.listchain()
    file = max(at for at, node in enumerate(chain) if isinstance(node, pytest.File))
    return tuple(node.name for node in chain[file + 1 :])
