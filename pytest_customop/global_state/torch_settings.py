"""The global settings of torch."""

from __future__ import annotations

import importlib
import struct
import warnings
from typing import Any

import torch

from . import float32_precision
from .setting import Setting, flag

THREADS = "the number of threads"  # of the setting
_DETERMINISTIC: Any = importlib.import_module("torch.utils.deterministic")
_OTHER_HALF = {torch.bfloat16: torch.float16}
# A denormal number by its bits: read from text, it would be 0 where denormal numbers are flushed.
_DENORMAL: float = struct.unpack("<d", (1).to_bytes(8, "little"))[0]


def _default_device() -> torch.device:
    try:
        return torch.get_default_device()
    except AttributeError:  # torch 2.4, after a reset
        return torch.device("cpu")


def _set_default_device(value: torch.device) -> None:
    torch.set_default_device(None if value.type == "cpu" else value)


def _set_grad(value: bool) -> None:
    torch.set_grad_enabled(value)


def _autocast(device: str) -> Setting:
    def read() -> tuple[bool, torch.dtype]:
        return torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)

    def write(value: tuple[bool, torch.dtype]) -> None:
        torch.set_autocast_enabled(device, value[0])
        torch.set_autocast_dtype(device, value[1])

    def change(value: tuple[bool, torch.dtype]) -> tuple[bool, torch.dtype]:
        return not value[0], _OTHER_HALF.get(value[1], torch.bfloat16)

    return Setting(
        f"autocast on {device}",
        read,
        write,
        change,
        f"(torch.is_autocast_enabled({device!r}), torch.get_autocast_dtype({device!r}))",
    )


def _deterministic() -> tuple[bool, bool]:
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    return torch.are_deterministic_algorithms_enabled(), warn_only


def _set_deterministic(value: tuple[bool, bool]) -> None:
    torch.use_deterministic_algorithms(value[0], warn_only=value[1])


def _set_filling(value: bool) -> None:
    _DETERMINISTIC.fill_uninitialized_memory = value


def _cudnn(name: str) -> Setting:
    return flag(
        f"torch.backends.cudnn.{name}",
        lambda: getattr(torch.backends.cudnn, name),
        lambda value: setattr(torch.backends.cudnn, name, value),
        f"torch.backends.cudnn.{name}",
    )


def _flushes() -> bool:
    """Whether this thread computes 0 in place of denormal numbers, in Python as in torch's kernels."""
    return _DENORMAL * 1.0 == 0.0


def _set_anomaly(value: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.autograd.set_detect_anomaly(value)


_PRECISION = Setting(
    "the precision of float32 products",
    float32_precision.read_shared,
    float32_precision.write_shared,
    lambda value: value and ("high" if value == "highest" else "highest"),
    "torch.get_float32_matmul_precision()",
)
_PRECISION_BY_BACKEND = Setting(
    "torch.backends.*.fp32_precision",
    float32_precision.read_by_backend,
    float32_precision.write_by_backend,
    None,  # a change of the shared precision changes these
    "(torch.backends.cuda.matmul.fp32_precision, torch.backends.mkldnn.matmul.fp32_precision)",
)

TORCH_SETTINGS: tuple[Setting, ...] = (
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
    flag("grad mode", torch.is_grad_enabled, _set_grad, "torch.is_grad_enabled()"),
    Setting(
        "inference mode",
        torch.is_inference_mode_enabled,
        lambda value: None,  # it can only be left by the block that entered it
        None,
        "torch.is_inference_mode_enabled()",
    ),
    _autocast("cpu"),
    _autocast("cuda"),
    flag(
        "the cache of autocast",
        torch.is_autocast_cache_enabled,
        torch.set_autocast_cache_enabled,
        "torch.is_autocast_cache_enabled()",
    ),
    Setting(
        THREADS,
        torch.get_num_threads,
        torch.set_num_threads,
        lambda value: value + 1,  # one, or the half of them, is what an op would set
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
        None,  # with deterministic algorithms on, a change shows in values
        "torch.utils.deterministic.fill_uninitialized_memory",
    ),
    _cudnn("benchmark"),
    _cudnn("deterministic"),
    _PRECISION,
    # After the shared precision, whose writing sets these too.
    *((_PRECISION_BY_BACKEND,) if float32_precision.BACKENDS else ()),
    flag(
        "flushing of denormal numbers",
        _flushes,
        torch.set_flush_denormal,
        "float(torch.tensor([1e-40]) * 1) == 0.0",
    ),
    flag("anomaly detection", torch.is_anomaly_enabled, _set_anomaly, "torch.is_anomaly_enabled()"),
    flag(
        "torch.set_warn_always",
        torch.is_warn_always_enabled,
        torch.set_warn_always,
        "torch.is_warn_always_enabled()",
    ),
)
