"""Files that are open from the start, so that a session can report an op that has used up all others."""

from __future__ import annotations

import os

import pytest

_COUNT = 32  # for reports, and for modules that are imported in the end
OPEN: set[int] = set()  # the descriptors that sessions of this process keep


class SpareFiles:
    """The plugin object that opens them, and closes them before other plugins finish the session."""

    def __init__(self) -> None:
        self._files = [os.open(os.devnull, os.O_RDONLY) for _ in range(_COUNT)]
        OPEN.update(self._files)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        self._close()

    def pytest_unconfigure(self) -> None:
        self._close()

    def _close(self) -> None:
        OPEN.difference_update(self._files)
        while self._files:
            os.close(self._files.pop())
