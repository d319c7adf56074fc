"""The place of a case in the matrix of its test. Imports no torch, as reports use it."""

from __future__ import annotations

from dataclasses import dataclass

ALL_VARIANTS = "*"  # the variant of a record about all variants of a case
GENERATED = "fuzz"  # the variant of a drawn input, and a part of the id of an item that draws


@dataclass(frozen=True)
class Place:
    """The place of a case. None stands for what is not known, for example if a device is absent.

    Args:
        device: as on the command line, `cuda:1`.
        dtype: by name, `float32`.
        requires_grad: whether the case has gradients.
        layout: the memory layout of its tensors.
        sample: the id of its sample; for a variant, the sample that it is derived from.
        variant: the step of a variant, `empty0`; None for the author's own sample.
        aspect: what a variant changes (see `Variant`); None for the author's own sample.
    """

    device: str | None = None
    dtype: str | None = None
    requires_grad: bool | None = None
    layout: str | None = None
    sample: str | None = None
    variant: str | None = None
    aspect: str | None = None

    @property
    def name(self) -> str:
        """The id of the sample and the step of a variant: `wide~empty0`."""
        return "~".join(filter(None, (self.sample, self.variant)))
