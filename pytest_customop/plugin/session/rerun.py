"""How a failed item is run again: a command, and a script without pytest."""

from __future__ import annotations

import functools
import os
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ...core.lost_device import error_of
from ...settings import Settings
from ..read_options import rerun_flags
from .state import HARVESTED, PLANNED, SESSION

if TYPE_CHECKING:
    from ...run.repro import Script
    from ...run.results import CheckResult


def script_of(item: pytest.Item, result: CheckResult) -> Script | None:
    """The script of a failed check; None if there is none, or if its inputs are on a lost device."""
    if error_of(result.place.device or "cpu") is not None:
        return None
    return result.script(getattr(item, "module", None))


def written_script(
    item: pytest.Item, script: Script, result: CheckResult, number: int = 0
) -> Script | Path:
    """The path that a script is written to; the script itself if none is written.

    Args:
        number: distinguishes the scripts of an item that runs checks by hand.
    """
    session = item.config.stash[SESSION]
    folder = session.settings.repro_dir
    if folder is None:
        return script
    parts = [item.nodeid.replace(".py::", "-"), result.place.variant or "", str(number or "")]
    name = re.sub(r"[^\w.]+", "-", "-".join(filter(None, parts))).strip("-")
    try:
        path = script.write(folder / f"repro-{name}.py")
    except OSError as error:  # the finding counts, with or without its script
        session.omissions.unwritten[str(folder)] = error.strerror or str(error)
        return script
    return Path(os.path.relpath(path, item.config.invocation_params.dir))


def rerun_command(item: pytest.Item, variant: str | None = None) -> str:
    """The command that runs one item again from the folder in which pytest was started.

    It is quoted for a POSIX shell.

    Args:
        variant: the step of the one variant to run.
    """
    settings = item.config.stash[SESSION].settings
    arguments = ["pytest", *_ran_in(item), *rerun_flags(settings)]
    planned = item.stash.get(PLANNED, None)
    if (settings.checks or HARVESTED in item.stash) and planned is not None and planned.check_name:
        arguments.append(f"--customop-checks={planned.check_name}")
    if planned is not None and planned.fuzz is not None:
        arguments.append(f"--customop-fuzz={settings.fuzz}")
        arguments += _variants_of(
            settings._replace(variants=settings.variants._replace(amount="quick"))
        )
    elif variant is not None:
        arguments.append(f"--customop-variant={variant}")
        arguments += ["--customop-variants=strict"] * settings.variants.strict
    elif planned is not None and planned.variants:
        arguments += _variants_of(settings)
    return shlex.join(arguments)


def _variants_of(settings: Settings) -> list[str]:
    """The option for the session's variants, unless they are the default."""
    is_changed = settings.variants != Settings().variants
    return [f"--customop-variants={settings.variants}"] if is_changed else []


def _ran_in(item: pytest.Item) -> list[str]:
    """The arguments that select the item; for a harvested call, its test and `--customop-harvest`."""
    seen_in = item.stash.get(HARVESTED, None)
    if seen_in is None:
        return [id_from_start(item.config, item.nodeid)]
    test = [id_from_start(item.config, seen_in)] if seen_in else []
    namespace = item.stash[PLANNED].op.partition("::")[0]
    return [*test, f"--customop-harvest={namespace}"]


def id_from_start(config: pytest.Config, nodeid: str) -> str:
    """A node id whose path is relative to the folder in which pytest was started, not to rootdir."""
    path, separator, rest = nodeid.partition("::")
    return f"{_path_from(config.invocation_params.dir, config.rootpath, path)}{separator}{rest}"


@functools.lru_cache(maxsize=256)  # a file has thousands of items
def _path_from(start: Path, root: Path, path: str) -> str:
    try:
        return Path(os.path.relpath(root / path, start)).as_posix()
    except ValueError:  # the two are on different drives of Windows
        return (root / path).as_posix()
