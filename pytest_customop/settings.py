"""Command line and ini file, made into one frozen, validated `Settings`. Imports no torch by itself.

Every option `--customop-x-y` has an ini twin `customop_x_y`; the command line wins.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .suggest import unknown

if TYPE_CHECKING:
    import torch

REPORTS = (".json",)


@dataclass(frozen=True)
class Option:
    """One option and its ini twin."""

    name: str
    help: str
    metavar: str = "NAMES"
    action: str = "store"

    @property
    def flag(self) -> str:
        """As on the command line."""
        return f"--customop-{self.name}"

    @property
    def key(self) -> str:
        """As in the ini file, and in the parsed options."""
        return f"customop_{self.name.replace('-', '_')}"


OPTIONS = (
    Option("devices", "devices to run on, comma-separated (default: cpu)"),
    Option("dtypes", "dtypes of tensors described without one (default: torch's default dtype)"),
    Option("checks", "checks or families to run, comma-separated; -name removes (default: all)"),
    Option("backend", "torch.compile backend of compile.* (default: inductor)", "NAME"),
    Option("seed", "seed of every drawn value, with the case's id (default: 0)", "NUMBER"),
    Option("report", "write the results to this file (.json); repeatable", "PATH", "append"),
    Option("repro-dir", "write a script for each failure into this folder", "DIR"),
    Option("require-devices", "an absent device is an error, not a skip", "", "store_true"),
    Option(
        "isolate", "run every item in a child process, which may crash or hang", "", "store_true"
    ),
    Option(
        "timeout",
        "seconds that an item may take (default: 300 with --customop-isolate); 0: any time",
        "SECONDS",
    ),
    Option(
        "memory",
        "gigabytes that the child of --customop-isolate may hold (default: four fifths of what is free); "
        "0: any number",
        "GB",
    ),
)


@dataclass(frozen=True)
class Settings:
    """What the session was asked for.

    Args:
        devices, dtypes, checks: None where nothing was asked for.
        backend: a `torch.compile` backend.
        seed: of every drawn value, together with the case's id.
        reports: files to write.
        require_devices: whether an absent device is an error.
        repro_dir: where scripts that reproduce failures are written.
        isolate: whether items run in a child process.
        timeout: seconds that an item may take; 0 for any time; None where nothing was asked for.
        memory: gigabytes that the child process may hold; 0 for any number; None as above.
    """

    devices: tuple[str, ...] | None = None
    dtypes: tuple[str, ...] | None = None
    checks: tuple[str, ...] | None = None
    backend: str = "inductor"
    seed: int = 0
    reports: tuple[Path, ...] = ()
    require_devices: bool = False
    repro_dir: Path | None = None
    isolate: bool = False
    timeout: float | None = None
    memory: float | None = None

    def header(self) -> str:
        """One line on what will run."""
        said = {
            "devices": ",".join(self.devices or ("cpu",)),
            "dtypes": ",".join(self.dtypes) if self.dtypes else "default",
            "checks": ",".join(self.checks) if self.checks else "all",
            "backend": self.backend,
            "seed": str(self.seed),
        }
        return "customop: " + " ".join(f"{name}={value}" for name, value in said.items())

    def flags(self) -> list[str]:
        """The options that reproduce these settings on a command line."""
        default = Settings()
        found = []
        for name in ("devices", "dtypes", "backend", "seed"):
            value = getattr(self, name)
            if value != getattr(default, name):
                text = ",".join(value) if isinstance(value, tuple) else str(value)
                found.append(f"--customop-{name}={text}")
        if self.isolate:
            found.append("--customop-isolate")
        for name in ("timeout", "memory"):
            value = getattr(self, name)
            if value is not None:
                found.append(f"--customop-{name}={value:g}")
        return found


def add_options(parser: pytest.Parser) -> None:
    """Register the options and their ini twins."""
    group = parser.getgroup("customop", "conformance of PyTorch custom operators")
    for option in OPTIONS:
        if option.action == "store_true":
            group.addoption(
                option.flag, dest=option.key, action="store_true", default=None, help=option.help
            )
            parser.addini(option.key, option.help, type="bool", default=False)
            continue
        group.addoption(
            option.flag,
            dest=option.key,
            metavar=option.metavar,
            action=option.action,
            default=None,
            help=option.help,
        )
        parser.addini(option.key, option.help, default="")
    group.addoption(
        "--customop-list-checks",
        action="store_true",
        help="print the checks with one line each, and exit",
    )
    group.addoption(
        "--customop-explain",
        metavar="CODE",
        help="print what a finding means and how to mend it, and exit",
    )


def read_settings(config: pytest.Config) -> Settings:
    """The settings of a session.

    Raises:
        pytest.UsageError: for a value that is not one of the allowed, found without torch.
    """
    return Settings(
        devices=_listed(config, "devices"),
        dtypes=_listed(config, "dtypes"),
        checks=_listed(config, "checks"),
        backend=_text(config, "backend") or "inductor",
        seed=_seed(config),
        reports=tuple(_report(config, path) for path in _paths(config)),
        require_devices=bool(_raw(config, "require_devices")),
        repro_dir=_folder(config, "repro_dir"),
        isolate=bool(_raw(config, "isolate")),
        timeout=_amount(config, "timeout", "seconds"),
        memory=_amount(config, "memory", "gigabytes"),
    )


def on_command_line(config: pytest.Config, name: str) -> bool:
    """Whether an option was given there, and not only in the ini file."""
    return bool(config.getoption(f"customop_{name}"))


def refuse_unknown_devices(devices: Iterable[str]) -> None:
    """Raise `ValueError` for a device type that torch does not know. Imports torch."""
    import torch

    from .compat import device_types

    for device in devices:
        try:
            known = torch.device(device)
        except RuntimeError:
            raise ValueError(unknown("device", device, device_types())) from None
        if known.type == "meta":
            raise ValueError("device 'meta' holds no values: there is nothing to check on it")


def dtype_named(name: str) -> torch.dtype:
    """The dtype of that name; raises `ValueError` for one that torch does not know."""
    import torch

    known = {key: value for key, value in vars(torch).items() if isinstance(value, torch.dtype)}
    if name.removeprefix("torch.") not in known:
        raise ValueError(
            unknown("dtype", name, {str(v).removeprefix("torch.") for v in known.values()})
        )
    return known[name.removeprefix("torch.")]


def refuse_unknown_backend(backend: str) -> None:
    """Raise `ValueError` for a backend that is not registered. Imports dynamo."""
    import torch

    known = torch.compiler.list_backends(exclude_tags=())
    if backend not in known:
        raise ValueError(unknown("backend", backend, known))


def validate(settings: Settings, given: Callable[[str], bool]) -> None:
    """Hold those settings that need torch against it, as far as `given(name)` is true.

    Raises:
        ValueError: with one line that says what is wrong and what is allowed.
    """
    if given("devices"):
        refuse_unknown_devices(settings.devices or ())
    if given("dtypes"):
        for name in settings.dtypes or ():
            dtype_named(name)
    if given("backend") and settings.backend != "inductor":
        refuse_unknown_backend(settings.backend)


def _raw(config: pytest.Config, name: str) -> Any:
    value = config.getoption(f"customop_{name}")
    return config.getini(f"customop_{name}") if value in (None, []) else value


def _text(config: pytest.Config, name: str) -> str:
    return str(_raw(config, name) or "").strip()


def _listed(config: pytest.Config, name: str) -> tuple[str, ...] | None:
    words = [word.strip() for word in _text(config, name).replace("\n", ",").split(",")]
    return tuple(dict.fromkeys(word for word in words if word)) or None


def _seed(config: pytest.Config) -> int:
    text = _text(config, "seed") or "0"
    try:
        return int(text)
    except ValueError:
        raise pytest.UsageError(f"--customop-seed={text}: give a whole number") from None


def _amount(config: pytest.Config, name: str, unit: str) -> float | None:
    text = _text(config, name)
    try:
        amount = float(text) if text else None
    except ValueError:
        amount = math.nan
    if amount is not None and not 0 <= amount < math.inf:
        raise pytest.UsageError(f"--customop-{name}={text}: give a number of {unit}")
    return amount


def _paths(config: pytest.Config) -> list[str]:
    value = _raw(config, "report") or []
    return value if isinstance(value, list) else [p for p in value.split("\n") if p.strip()]


def _folder(config: pytest.Config, name: str) -> Path | None:
    text = _text(config, name)
    path = config.invocation_params.dir / text
    if text and path.exists() and not path.is_dir():
        raise pytest.UsageError(f"--customop-{name.replace('_', '-')}={text}: this is a file")
    return path if text else None


def _report(config: pytest.Config, text: str) -> Path:
    path = config.invocation_params.dir / text.strip()
    if path.suffix not in REPORTS:
        raise pytest.UsageError(
            f"--customop-report={text}: the ending says the format; known: {', '.join(REPORTS)}"
        )
    folder = path.parent
    if not folder.is_dir():
        raise pytest.UsageError(f"--customop-report={text}: there is no folder {folder}")
    target = path if path.exists() else folder
    if path.is_dir() or not os.access(target, os.W_OK):
        raise pytest.UsageError(f"--customop-report={text}: cannot be written")
    return path
