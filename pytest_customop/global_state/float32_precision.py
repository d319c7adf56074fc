"""The precision of float32 products: one setting for all backends and, from torch 2.9 on, one for each.

Writing the shared setting sets those of the backends, but not to `none`, their initial value. dynamo
recompiles if they differ. After the setting of a backend was written, reading the shared one raises.
"""

from __future__ import annotations

from typing import Any

import torch


def read_shared() -> str | None:
    """The precision that all backends share; None if torch reports no single one."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:  # torch 2.9 and later, where backends have precisions of their own
        return None


def write_shared(value: str | None) -> None:
    """Set the precision of all backends; None changes nothing."""
    if value is not None:
        torch.set_float32_matmul_precision(value)


# The modules of torch that have a precision of their own; none before torch 2.9.
BACKENDS: tuple[Any, ...] = tuple(
    module
    for module in (
        torch.backends,
        torch.backends.cuda.matmul,
        torch.backends.cudnn,
        getattr(torch.backends.cudnn, "conv", None),
        torch.backends.mkldnn,
        getattr(torch.backends.mkldnn, "matmul", None),
        getattr(torch.backends.mkldnn, "conv", None),
    )
    if hasattr(module, "fp32_precision")
)


def read_by_backend() -> list[str]:
    """The precision of each of `BACKENDS`. `none` means that a more general setting applies."""
    return [module.fp32_precision for module in BACKENDS]


def write_by_backend(value: list[str]) -> None:
    """Set the precision of each of `BACKENDS`."""
    for module, precision in zip(BACKENDS, value, strict=True):
        if module.fp32_precision != precision:
            module.fp32_precision = precision
