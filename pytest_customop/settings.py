"""Command line and ini file, made into one frozen, validated `Settings`. Imports no torch by itself.

Every option `--customop-x-y` has an ini twin `customop_x_y`; the command line wins.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    import torch

    from .plan.shards import Shard

REPORTS = (".json",)
AMOUNTS = ("off", "quick", "full")
# What xdist's controller sends its workers.
DURATIONS = "customop_durations"
NUMBER = "customop_number"


class Settings(NamedTuple):
    """What the session was asked for.

    Args:
        devices, dtypes, checks: None where nothing was asked for.
        backend: a `torch.compile` backend.
        seed: of every drawn value, together with the case's id.
        reports: files to write.
        require_devices: whether an absent device is an error.
        repro_dir: where scripts that reproduce failures are written.
        variants: how many variants of the samples are tried: `off`, `quick`, `full`, or a number.
        isolate: whether items run in a child process.
        timeout: seconds that an item may take; 0 for any time; None where nothing was asked for.
        memory: gigabytes that the child process may hold; 0 for any number; None as above.
        max_samples: how many samples of a mark run at most; None for all.
        shard: the part of the cases that runs; None for all.
        durations: of each item in seconds, by node id, from earlier reports.
    """

    devices: tuple[str, ...] | None = None
    dtypes: tuple[str, ...] | None = None
    checks: tuple[str, ...] | None = None
    backend: str = "inductor"
    seed: int = 0
    reports: tuple[Path, ...] = ()
    require_devices: bool = False
    repro_dir: Path | None = None
    variants: str | int = "quick"
    isolate: bool = False
    timeout: float | None = None
    memory: float | None = None
    max_samples: int | None = None
    shard: Shard | None = None
    durations: Mapping[str, float] = MappingProxyType({})

    def header(self) -> str:
        """One line on what will run."""
        said = {
            "devices": ",".join(self.devices or ("cpu",)),
            "dtypes": ",".join(self.dtypes) if self.dtypes else "default",
            "checks": ",".join(self.checks) if self.checks else "all",
            "variants": str(self.variants),
            "backend": self.backend,
            "seed": str(self.seed),
        }
        if self.max_samples is not None:
            said["max-samples"] = str(self.max_samples)
        if self.shard is not None:
            said["shard"] = str(self.shard)
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
        reports=_reports(config),
        require_devices=bool(_raw(config, "require_devices")),
        repro_dir=_folder(config, "repro_dir"),
        variants=_variants(config),
        isolate=bool(_raw(config, "isolate")),
        timeout=_amount(config, "timeout", "seconds"),
        memory=_amount(config, "memory", "gigabytes"),
        max_samples=_count(config, "max_samples"),
        shard=_shard(config),
        durations=_durations(config),
    )


def validate_devices(devices: Iterable[str]) -> None:
    """Raise `ValueError` for a device type that torch does not know. Imports torch."""
    import torch

    from .compat import device_types
    from .core.suggest import unknown

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

    from .core.suggest import unknown
    from .core.wording import dtype_name

    known = {key: value for key, value in vars(torch).items() if isinstance(value, torch.dtype)}
    if name.removeprefix("torch.") not in known:
        raise ValueError(unknown("dtype", name, {dtype_name(v) for v in known.values()}))
    return known[name.removeprefix("torch.")]


def validate_backend(backend: str) -> None:
    """Raise `ValueError` for a backend that is not registered. Imports dynamo."""
    import torch

    from .core.suggest import unknown

    known = torch.compiler.list_backends(exclude_tags=())
    if backend not in known:
        raise ValueError(unknown("backend", backend, known))


def validate(settings: Settings, given: Callable[[str], bool]) -> None:
    """Hold those settings that need torch against it, as far as `given(name)` is true.

    Raises:
        ValueError: with one line that says what is wrong and what is allowed.
    """
    if given("devices"):
        validate_devices(settings.devices or ())
    if given("dtypes"):
        for name in settings.dtypes or ():
            dtype_named(name)
    if given("backend") and settings.backend != "inductor":
        validate_backend(settings.backend)


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


def _variants(config: pytest.Config) -> str | int:
    text = _text(config, "variants") or "quick"
    try:
        return read_amount(text)
    except ValueError as error:
        raise pytest.UsageError(f"--customop-variants={text}: {error}") from None


def read_amount(given: str | int) -> str | int:
    """How many variants of a sample are tried; raises `ValueError` for what is no such amount."""
    if given in AMOUNTS:
        return given
    if str(given).isdecimal():
        return int(given) or "off"
    raise ValueError(f"give {', '.join(AMOUNTS)}, or a number of variants a sample")


def _amount(config: pytest.Config, name: str, unit: str) -> float | None:
    text = _text(config, name)
    try:
        amount = float(text) if text else None
    except ValueError:
        amount = math.nan
    if amount is not None and not 0 <= amount < math.inf:
        raise pytest.UsageError(f"--customop-{name}={text}: give a number of {unit}")
    return amount


def _count(config: pytest.Config, name: str) -> int | None:
    text = _text(config, name)
    if text and not (text.isdecimal() and int(text) > 0):
        flag = f"--customop-{name.replace('_', '-')}"
        raise pytest.UsageError(f"{flag}={text}: give a whole number of 1 or more")
    return int(text) if text else None


def _shard(config: pytest.Config) -> Shard | None:
    text = _text(config, "shard")
    if not text:
        return None
    from .plan.shards import parse

    try:
        return parse(text)
    except ValueError as error:
        raise pytest.UsageError(f"--customop-shard={text}: {error}") from None


def _durations(config: pytest.Config) -> dict[str, float]:
    """Those of the controller's files: a worker may be on a machine that does not have them."""
    sent = getattr(config, "workerinput", {}).get(DURATIONS)
    if sent is not None:
        return dict(sent)
    found: dict[str, float] = {}
    for text in _paths(config, "durations"):
        try:
            from .plan.shards import read_durations

            found.update(read_durations(config.invocation_params.dir / text.strip()))
        except ValueError as error:
            raise pytest.UsageError(f"--customop-durations={text.strip()}: {error}") from None
    return found


def _paths(config: pytest.Config, name: str) -> list[str]:
    value = _raw(config, name) or []
    return value if isinstance(value, list) else [p for p in value.split("\n") if p.strip()]


def _folder(config: pytest.Config, name: str) -> Path | None:
    text = _text(config, name)
    path = config.invocation_params.dir / text
    if not text or _is_worker(config):
        return path if text else None
    flag = f"--customop-{name.replace('_', '-')}={text}"
    if path.exists() and not path.is_dir():
        raise pytest.UsageError(f"{flag}: this is a file")
    from .core.files import why_unusable

    why = why_unusable(path)
    if why:
        raise pytest.UsageError(f"{flag}: cannot be written into: {why}")
    return path


def _reports(config: pytest.Config) -> tuple[Path, ...]:
    """The files to write; none in a worker, whose controller writes them, maybe elsewhere."""
    if _is_worker(config):
        return ()
    return tuple(_report(config, path) for path in _paths(config, "report"))


def _report(config: pytest.Config, text: str) -> Path:
    path = config.invocation_params.dir / text.strip()
    flag = f"--customop-report={text.strip()}"
    if path.suffix not in REPORTS:
        raise pytest.UsageError(f"{flag}: the ending says the format; known: {', '.join(REPORTS)}")
    if not path.parent.is_dir():
        raise pytest.UsageError(f"{flag}: there is no folder {path.parent}")
    from .core.files import why_unwritable

    why = why_unwritable(path)
    if why:
        raise pytest.UsageError(f"{flag}: cannot be written: {why}")
    return path


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")
