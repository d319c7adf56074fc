"""How precise products of float32 are: one setting of old, and since torch 2.9 one a backend too.

Setting the old one sets those of the backends, and not back to `none`, which they are at first; dynamo
compiles again where they differ. Setting one of a backend makes torch refuse to tell the old one.
"""

from __future__ import annotations

from typing import Any

import torch


def of_all() -> str | None:
    """The precision of all backends; None where torch refuses to tell one."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:  # torch 2.9 and later, where backends have precisions of their own
        return None


def set_for_all(value: str | None) -> None:
    """Set the precision of all backends, and that of each."""
    if value is not None:
        torch.set_float32_matmul_precision(value)


MODULES: tuple[Any, ...] = tuple(
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


def by_backend() -> list[str]:
    """The precision of each of `MODULES`, which may be `none`: as a wider one says."""
    return [module.fp32_precision for module in MODULES]


def set_by_backend(value: list[str]) -> None:
    """Set the precision of each of `MODULES`."""
    for module, precision in zip(MODULES, value, strict=True):
        if module.fp32_precision != precision:
            module.fp32_precision = precision
