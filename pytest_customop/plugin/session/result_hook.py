"""Pass each result to the plugins that implement the hook `pytest_customop_result`."""

from __future__ import annotations

import pytest

from ...core.hooks import HookError, call_hook
from ...report.json_file import as_schema_2
from ...run.record import ResultRecord


class ResultHook:
    """Calls the hook, until it raises.

    Attributes:
        error: what the hook raised, and where; None if nothing.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.error: str | None = None
        self._config = config

    def __call__(self, record: ResultRecord) -> None:
        """Pass on a result. A worker of xdist and a child process leave this to their parent process."""
        caller = self._config.hook.pytest_customop_result
        if self.error or hasattr(self._config, "workerinput") or not caller.get_hookimpls():
            return
        try:
            call_hook(caller, result=as_schema_2(record))
        except HookError as error:
            self.error = f"{error}; later results were not passed on"
