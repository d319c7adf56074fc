"""How an item that failed is run again: by a command, and by a script without pytest."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .state import PLANNED, SESSION

if TYPE_CHECKING:
    from ...run.repro import Script
    from ...run.results import CheckResult


def failure_text(item: pytest.Item, result: CheckResult) -> str:
    """The whole text of a failed check, its script written or shown."""
    return result.text(rerun_command(item), script_of(item, result))


def script_of(item: pytest.Item, result: CheckResult, number: int = 0) -> Script | Path | None:
    """The script of a failed check; its path if the session writes scripts, and this one could be.

    Args:
        number: tells the scripts of one item apart, where it runs checks by hand.
    """
    script = result.script(getattr(item, "module", None))
    session = item.config.stash[SESSION]
    folder = session.settings.repro_dir
    if script is None or folder is None:
        return script
    named = re.sub(r"[^\w.]+", "-", item.nodeid.replace(".py::", "-")).strip("-")
    try:
        path = script.write(folder / f"repro-{named}{f'-{number}' if number else ''}.py")
    except OSError as error:  # the finding counts, with or without its script
        session.notes.unwritten[str(folder)] = error.strerror or str(error)
        return script
    return Path(os.path.relpath(path, item.config.invocation_params.dir))


def rerun_command(item: pytest.Item) -> str:
    """The command that runs one item again from the same folder, with what matters to it."""
    settings = item.config.stash[SESSION].settings
    path, separator, rest = item.nodeid.partition("::")
    here = os.path.relpath(item.config.rootpath / path, item.config.invocation_params.dir)
    words = ["pytest", f'"{Path(here).as_posix()}{separator}{rest}"', *settings.flags()]
    planned = item.stash.get(PLANNED, None)
    if settings.checks and planned is not None and planned.check_name:
        words.append(f"--customop-checks={planned.check_name}")
    if settings.variants != "quick" and planned is not None and planned.is_variant:
        words.append(f"--customop-variants={settings.variants}")
    return " ".join(words)
