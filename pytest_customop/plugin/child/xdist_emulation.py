"""What other plugins ask of a worker of pytest-xdist, which they take the child for."""

from __future__ import annotations

import os
import socket
import sys
from typing import Any

import pytest


def workerinput(config: pytest.Config) -> dict[str, Any]:
    """That of the xdist worker that this is; else what plugins ask workers for."""
    if hasattr(config, "workerinput"):
        return dict(config.workerinput)
    given = {
        "workerid": "master",
        "workercount": 1,
        "testrunuid": str(os.getpid()),
        "mainargv": list(sys.argv),
        **_coverage(config),
    }
    seed = config.getoption("randomly_seed", None)
    return given if seed is None else {**given, "randomly_seed": seed}


def _coverage(config: pytest.Config) -> dict[str, Any]:
    """As pytest-cov tells workers on the same machine: what they measure is written beside its own."""
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
