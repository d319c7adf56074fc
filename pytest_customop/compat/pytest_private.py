"""The only module that touches private API of pytest: one function a need.

Seen working on pytest 8.0 to 9.2. `tests/test_compat_pytest.py` has a test for each function, which
fails when pytest moves what it stands on. pytest is imported where a function needs it: checks run
without it too.
"""

from __future__ import annotations

import importlib
import logging
from pathlib import Path
from typing import Any


def evaluate_xfail(item: Any) -> None:
    """Evaluate the `xfail` marks of an item, as its set-up does, for an item that is not set up."""
    from _pytest.skipping import evaluate_xfail_marks, xfailed_key

    item.stash[xfailed_key] = evaluate_xfail_marks(item)


def is_expected_to_fail(item: Any) -> bool:
    """Whether an `xfail` mark of an item applies to it."""
    if item.get_closest_marker("xfail") is None or item.config.getoption("runxfail", False):
        return False
    from _pytest.skipping import evaluate_xfail_marks

    return evaluate_xfail_marks(item) is not None


def tear_down(session: Any, nextitem: Any) -> None:
    """Tear down what is set up in a session and the next item does not need; all if that is None."""
    session._setupstate.teardown_exact(nextitem)


def set_nodeid(item: Any, nodeid: str) -> None:
    """Change the node id of an item."""
    if hasattr(item, "_id"):  # newer pytest; 9.2 has it
        from _pytest.nodeid import NodeId

        item._id = NodeId.parse(nodeid)
    else:
        item._nodeid = nodeid


def written_in_ini(config: Any, key: str) -> Any:
    """The value that the ini file has for a key, not converted; None where it has none."""
    # pytest 9 keeps records with a `value` in `_inicfg`; pytest 8 keeps the values in `inicfg`.
    values = getattr(config, "_inicfg", None)
    if values is None:
        values = getattr(config, "inicfg", None)
    if values is None:
        return config.getini(key)
    entry = values.get(key)
    return getattr(entry, "value", entry)


def base_temp(config: Any) -> Path | None:
    """The folder for temporary files of a session; None without pytest's plugin for them."""
    factory = getattr(config, "_tmp_path_factory", None)
    return None if factory is None else Path(factory.getbasetemp())


def is_log_handler(handler: logging.Handler) -> bool:
    """Whether pytest has added this handler to a logger, to capture or to print what it logs."""
    return type(handler).__module__.startswith("_pytest.")


def runs_tests(file: str) -> bool:
    """Whether a file is part of pytest or pluggy: of the code that calls tests, by its path."""
    return not {"_pytest", "pluggy"}.isdisjoint(Path(file).parts)


def restart_timer(item: Any) -> None:
    """Have pytest-timeout count the time of an item that runs from now."""
    settings = importlib.import_module("pytest_timeout")._get_item_settings(item)
    item.ihook.pytest_timeout_cancel_timer(item=item)
    item.ihook.pytest_timeout_set_timer(item=item, settings=settings)
