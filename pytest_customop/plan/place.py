"""Where in the matrix of its test a case stands. Imports no torch: reports use it."""

from __future__ import annotations

from dataclasses import dataclass

ALL_VARIANTS = "*"  # the variant of a record that is about all variants of a case
GENERATED = "fuzz"  # that of an input that was drawn, and a part of the id of an item that draws


@dataclass(frozen=True)
class Place:
    """Where a case stands; None for what is not known, as of a device that is absent.

    Args:
        device: as on the command line, `cuda:1`.
        dtype: by name, `float32`.
        requires_grad: whether the case has gradients.
        layout: the memory layout of its tensors.
        sample: the id of its sample; of a variant, of the sample that it is derived from.
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

    @property
    def name(self) -> str:
        """The id of the sample, with the step of a variant: `wide~empty0`."""
        return "~".join(filter(None, (self.sample, self.variant)))
