"""Provide what other plugins read from a worker of pytest-xdist, because they treat the child as one."""

from __future__ import annotations

import os
import socket
import sys
from typing import Any

import pytest

from ..session.baseline import SENT
from ..session.state import SESSION


def workerinput(config: pytest.Config) -> dict[str, Any]:
    """The `workerinput` of the child: this worker's own, or one with what plugins read."""
    if hasattr(config, "workerinput"):
        return dict(config.workerinput)
    values = {
        "workerid": "master",
        "workercount": 1,
        "testrunuid": str(os.getpid()),
        "mainargv": list(sys.argv),
        **_coverage(config),
    }
    baseline = config.stash[SESSION].baseline
    if baseline is not None:
        values[SENT] = baseline.text
    seed = config.getoption("randomly_seed", None)
    return values if seed is None else {**values, "randomly_seed": seed}


def _coverage(config: pytest.Config) -> dict[str, Any]:
    """The values that pytest-cov gives to local workers, so that they write their data next to its own."""
    controller = _coverage_controller(config)
    if controller is None:
        return {}
    folder = str(controller.topdir)
    host = socket.gethostname()
    return {"cov_master_host": host, "cov_master_topdir": folder, "cov_master_rsync_roots": []}


def measures_coverage(config: pytest.Config) -> bool:
    """Whether pytest-cov waits at the end of the session for what the child has measured."""
    return _coverage_controller(config) is not None


def _coverage_controller(config: pytest.Config) -> Any:
    return getattr(config.pluginmanager.get_plugin("_cov"), "cov_controller", None)
