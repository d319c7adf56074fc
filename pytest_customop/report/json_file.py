"""The JSON report, schema 1."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..core.files import write_whole

SCHEMA = 1
FIELDS = (
    "nodeid",
    "op",
    "check",
    "device",
    "dtype",
    "requires_grad",
    "layout",
    "sample",
    "outcome",
    "finding",
    "message",
    "fix",
    "repro",
    "duration",
)


def environment(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What the results hold for: versions and settings.

    torch is named only if something imported it; a session without marked tests does not.
    """
    import sys

    import pytest

    from .. import __version__

    torch = sys.modules.get("torch")
    cuda = getattr(getattr(torch, "version", None), "cuda", None)
    return {
        "pytest_customop": __version__,
        "torch": getattr(torch, "__version__", None),
        "cuda": cuda,
        "pytest": pytest.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        **settings,
    }


def write(path: Path, env: Mapping[str, Any], records: Iterable[Mapping[str, Any]]) -> None:
    """Write the report, whole or not at all.

    Raises:
        OSError: if it cannot be written; what stood there before still does.
    """
    results = [{name: record.get(name) for name in FIELDS} for record in records]
    results.sort(key=lambda record: (record["nodeid"], record["op"] or "", record["check"] or ""))
    text = json.dumps({"schema": SCHEMA, "environment": dict(env), "results": results}, indent=1)
    write_whole(path, (text + "\n").encode())
