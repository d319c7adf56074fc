"""The only module that uses private API of pytest: one function per need.

It works with pytest 8.0 to 9.2. `tests/test_compat_pytest.py` has a test for each function, which fails
when pytest moves a name that it needs. pytest is imported inside the functions that need it: checks also
run without pytest.
"""

from __future__ import annotations

import importlib
import logging
from pathlib import Path
from typing import Any


def evaluate_xfail(item: Any) -> None:
    """Evaluate the `xfail` marks of an item that is not set up, as its set-up would."""
    from _pytest.skipping import evaluate_xfail_marks, xfailed_key

    item.stash[xfailed_key] = evaluate_xfail_marks(item)


def is_expected_to_fail(item: Any) -> bool:
    """Whether an `xfail` mark of an item applies to it."""
    if item.get_closest_marker("xfail") is None or item.config.getoption("runxfail", False):
        return False
    from _pytest.skipping import evaluate_xfail_marks

    return evaluate_xfail_marks(item) is not None


def tear_down(session: Any, nextitem: Any) -> None:
    """Tear down what is set up and the next item does not need; everything if there is no next item."""
    session._setupstate.teardown_exact(nextitem)


def set_nodeid(item: Any, nodeid: str) -> None:
    """Change the node id of an item."""
    if hasattr(item, "_id"):  # newer pytest; 9.2 has it
        from _pytest.nodeid import NodeId

        item._id = NodeId.parse(nodeid)
    else:
        item._nodeid = nodeid


def written_in_ini(config: Any, key: str) -> Any:
    """The unconverted value of a key in the ini file; None where it has none."""
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
    """Whether pytest has added this handler to a logger, to capture or print its messages."""
    return type(handler).__module__.startswith("_pytest.")


def runs_tests(file: str) -> bool:
    """Whether a file, by its path, is part of pytest or pluggy: the code that calls tests."""
    return not {"_pytest", "pluggy"}.isdisjoint(Path(file).parts)


def restart_timer(item: Any) -> None:
    """Restart pytest-timeout's timer for the running item."""
    settings = importlib.import_module("pytest_timeout")._get_item_settings(item)
    item.ihook.pytest_timeout_cancel_timer(item=item)
    item.ihook.pytest_timeout_set_timer(item=item, settings=settings)
