"""Global settings of torch, numpy and Python: what they are, and others to start from."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import struct
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from . import float32_precision, log_levels


@dataclass(frozen=True, eq=False)
class Setting:
    """One global setting.

    Args:
        name: as a message says it.
        read: its value now, comparable with ==.
        write: sets it.
        other: value -> another one under which an op still has to work. None where there is none: a
            setting that an op sets to one value at each call is then seen only the first time.
        source: the same as `read`, for a script.
    """

    name: str
    read: Callable[[], Any]
    write: Callable[[Any], Any]
    other: Callable[[Any], Any] | None = None
    source: str = ""


def _turned(value: bool) -> bool:
    return not value


def _flag(name: str, read: Callable[[], Any], write: Callable[[Any], Any], source: str) -> Setting:
    return Setting(name, read, write, _turned, source)


def _default_device() -> torch.device:
    try:
        return torch.get_default_device()
    except AttributeError:  # torch 2.4, once it was reset
        return torch.device("cpu")


def _set_default_device(value: torch.device) -> None:
    torch.set_default_device(None if value.type == "cpu" else value)


# What torch, numpy and the tests have set since is left out for a moment, so that a variable that an
# op sets at each call shows.
_AT_IMPORT = dict(os.environ)


def _set_environment(value: dict[str, str]) -> None:
    for name in os.environ.keys() - value.keys():
        del os.environ[name]
    for name, text in value.items():
        if os.environ.get(name) != text:
            os.environ[name] = text


_SENTINEL = ("default", None, BytesWarning, None, 1_000_000_007)  # no line has this number


def _filters() -> list[Any]:
    return [*warnings.filters]


def _set_filters(value: list[Any]) -> None:
    warnings.filters[:] = value  # type: ignore[index]


# By its bits: where denormal numbers are flushed, reading it as text gives 0.
_DENORMAL: float = struct.unpack("<d", (1).to_bytes(8, "little"))[0]


def _flushes() -> bool:
    """Whether this thread computes 0 in place of denormal numbers; Python's are the CPU's as well."""
    return _DENORMAL * 1.0 == 0.0


def _numpy() -> Any:
    return sys.modules.get("numpy")


def _errstate() -> Any:
    return None if _numpy() is None else _numpy().geterr()


def _set_errstate(value: Any) -> None:
    if value is not None:
        _numpy().seterr(**value)


def _other_errstate(value: Any) -> Any:
    return value and {**value, "over": "ignore" if value["over"] != "ignore" else "warn"}


def _parent(path: str) -> str:
    return os.path.dirname(path) or path


def _set_deterministic(value: tuple[bool, bool]) -> None:
    torch.use_deterministic_algorithms(value[0], warn_only=value[1])


_DETERMINISTIC: Any = importlib.import_module("torch.utils.deterministic")


def _set_filling(value: bool) -> None:
    _DETERMINISTIC.fill_uninitialized_memory = value


def _deterministic() -> tuple[bool, bool]:
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    return torch.are_deterministic_algorithms_enabled(), warn_only


def _set_grad(value: bool) -> None:
    torch.set_grad_enabled(value)


def _set_anomaly(value: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.autograd.set_detect_anomaly(value)


_OTHER_HALF = {torch.bfloat16: torch.float16}


def _autocast(device: str) -> Setting:
    def read() -> tuple[bool, torch.dtype]:
        return torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)

    def write(value: tuple[bool, torch.dtype]) -> None:
        torch.set_autocast_enabled(device, value[0])
        torch.set_autocast_dtype(device, value[1])

    def other(value: tuple[bool, torch.dtype]) -> tuple[bool, torch.dtype]:
        return not value[0], _OTHER_HALF.get(value[1], torch.bfloat16)

    return Setting(
        f"autocast on {device}",
        read,
        write,
        other,
        f"(torch.is_autocast_enabled({device!r}), torch.get_autocast_dtype({device!r}))",
    )


_BY_BACKEND = Setting(
    "torch.backends.*.fp32_precision",
    float32_precision.by_backend,
    float32_precision.set_by_backend,
    None,  # turning the precision of float32 products turns them
    "(torch.backends.cuda.matmul.fp32_precision, torch.backends.mkldnn.matmul.fp32_precision)",
)
ENVIRONMENT = "the environment's variables"
SETTINGS: tuple[Setting, ...] = (
    Setting(
        "the default dtype",
        torch.get_default_dtype,
        torch.set_default_dtype,
        lambda value: torch.float64 if value != torch.float64 else torch.float32,
        "torch.get_default_dtype()",
    ),
    Setting(
        "the default device",
        _default_device,
        _set_default_device,
        lambda value: torch.device("cpu"),
        "torch.get_default_device()",
    ),
    _flag("grad mode", torch.is_grad_enabled, _set_grad, "torch.is_grad_enabled()"),
    Setting(
        "inference mode",
        torch.is_inference_mode_enabled,
        lambda value: None,
        None,
        "torch.is_inference_mode_enabled()",
    ),
    _autocast("cpu"),
    _autocast("cuda"),
    _flag(
        "the cache of autocast",
        torch.is_autocast_cache_enabled,
        torch.set_autocast_cache_enabled,
        "torch.is_autocast_cache_enabled()",
    ),
    Setting(
        "the number of threads",
        torch.get_num_threads,
        torch.set_num_threads,
        lambda value: value - 1 if value > 1 else 2,
        "torch.get_num_threads()",
    ),
    Setting(
        "deterministic algorithms (on, warn only)",
        _deterministic,
        _set_deterministic,
        lambda value: (not value[0], True),
        "(torch.are_deterministic_algorithms_enabled(),"
        " torch.is_deterministic_algorithms_warn_only_enabled())",
    ),
    Setting(
        "the filling of fresh memory",
        lambda: _DETERMINISTIC.fill_uninitialized_memory,
        _set_filling,
        None,  # with the algorithms turned, it shows in values
        "torch.utils.deterministic.fill_uninitialized_memory",
    ),
    _flag(
        "torch.backends.cudnn.benchmark",
        lambda: torch.backends.cudnn.benchmark,
        lambda value: setattr(torch.backends.cudnn, "benchmark", value),
        "torch.backends.cudnn.benchmark",
    ),
    _flag(
        "torch.backends.cudnn.deterministic",
        lambda: torch.backends.cudnn.deterministic,
        lambda value: setattr(torch.backends.cudnn, "deterministic", value),
        "torch.backends.cudnn.deterministic",
    ),
    Setting(
        "the precision of float32 products",
        float32_precision.of_all,
        float32_precision.set_for_all,
        lambda value: value and ("high" if value == "highest" else "highest"),
        "torch.get_float32_matmul_precision()",
    ),
    *(
        (_BY_BACKEND,) if float32_precision.MODULES else ()
    ),  # after the one above, which sets these too
    _flag(
        "flushing of denormal numbers",
        _flushes,
        torch.set_flush_denormal,
        "float(torch.tensor([1e-40]) * 1) == 0.0",
    ),
    _flag(
        "anomaly detection",
        torch.is_anomaly_enabled,
        _set_anomaly,
        "torch.is_anomaly_enabled()",
    ),
    _flag(
        "torch.set_warn_always",
        torch.is_warn_always_enabled,
        torch.set_warn_always,
        "torch.is_warn_always_enabled()",
    ),
    Setting(
        "the filters of warnings",
        _filters,
        _set_filters,
        lambda value: [_SENTINEL, *value],
        "[*__import__('warnings').filters]",
    ),
    Setting(
        "numpy's error handling",
        _errstate,
        _set_errstate,
        _other_errstate,
        "__import__('numpy').geterr()",
    ),
    Setting(
        ENVIRONMENT,
        lambda: dict(os.environ),
        _set_environment,
        lambda value: _AT_IMPORT,
        "dict(__import__('os').environ)",
    ),
    Setting("the working directory", os.getcwd, os.chdir, _parent, "__import__('os').getcwd()"),
    Setting(
        "the levels of loggers",
        log_levels.read,
        log_levels.write,
        log_levels.other,
        "{name: getattr(each, 'level', 0)"
        " for name, each in __import__('logging').root.manager.loggerDict.items()}",
    ),
    _flag(
        "garbage collection",
        gc.isenabled,
        lambda value: gc.enable() if value else gc.disable(),
        "__import__('gc').isenabled()",
    ),
)


def perturb() -> None:
    """Give every setting its other value."""
    for setting in SETTINGS:
        if setting.other is not None:
            value = setting.read()
            other = setting.other(value)
            if other != value:
                with contextlib.suppress(RuntimeError):  # flags that torch was told to keep
                    setting.write(other)


@contextlib.contextmanager
def preserved() -> Iterator[Callable[[], None]]:
    """Put back every setting that the block changes; what it is given does so at once."""
    before = [(setting, setting.read()) for setting in SETTINGS]

    def restore() -> None:
        for setting, value in before:
            if setting.read() != value:
                setting.write(value)

    try:
        yield restore
    finally:
        restore()
