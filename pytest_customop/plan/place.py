"""Where in the matrix of its test a case stands. Imports no torch: reports use it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """Where a case stands; None for what is not known, as of a device that is absent.

    Args:
        device: as on the command line, `cuda:1`.
        dtype: by name, `float32`.
        requires_grad: whether the case has gradients.
        layout: the memory layout of its tensors.
        sample: the id of its sample. That of a variant has the step in it: `wide~empty0`.
        variant: the step of a variant, `empty0`; None for a sample of the author's.
        aspect: what a variant changes (see `Variant`); None for a sample of the author's.
    """

    device: str | None = None
    dtype: str | None = None
    requires_grad: bool | None = None
    layout: str | None = None
    sample: str | None = None
    variant: str | None = None
    aspect: str | None = None
