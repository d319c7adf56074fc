"""How a result changes with a number: not at all, or by a multiple of it for each element."""

from __future__ import annotations

from typing import NamedTuple

import torch

from ...cases.tensors import difference, is_differentiable


class LinearRule(NamedTuple):
    """The rule of one result.

    Args:
        first: the result for 0.
        times: how much each element changes where the number grows by 1.
    """

    first: torch.Tensor
    times: torch.Tensor

    def expected(self, added: int) -> torch.Tensor:
        """The result for a number."""
        return self.first + self.times * added if self.moves else self.first

    @property
    def moves(self) -> bool:
        """Whether it changes at all."""
        return bool(self.times.any())


def difference_text(actual: torch.Tensor, expected: torch.Tensor) -> str | None:
    """How a result differs from what a rule expects; None if it does not. Integers must be equal."""
    tolerance = (1e-4, 1e-12) if is_differentiable(expected.dtype) else (0.0, 0.0)
    return difference(actual, expected, *tolerance)
