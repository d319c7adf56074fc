"""Change what an op does between two sessions that find the same caches of the compiler."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def bending(monkeypatch: pytest.MonkeyPatch, folder: Path, does: type) -> Callable[..., None]:
    """A function that sets attributes of a class that an op reads; at first the caches are empty.

    Args:
        monkeypatch: of the test, at whose end all is as before.
        folder: an empty one.
        does: the class: what the op does now.
    """
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(folder / "caches"))

    def bend(**changed: Any) -> None:
        for name, value in changed.items():
            monkeypatch.setattr(does, name, value)

    return bend
