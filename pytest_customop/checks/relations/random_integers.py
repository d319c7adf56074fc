"""Random integers in place of those of a tensor, in a call and in a script."""

from __future__ import annotations

import torch


def with_random_integers(tensor: torch.Tensor, top: int, seed: int, low: int = 0) -> torch.Tensor:
    """A tensor like this one with random integers from `low` to `top` - 1."""
    drawn = torch.randint(low, top, tensor.shape, generator=torch.Generator().manual_seed(seed))
    return torch.empty_like(tensor).copy_(drawn)


def random_integer_lines(place: str, top: int, seed: int, low: int = 0) -> str:
    """Script lines that do the same with the argument at a place, such as `args[0]`."""
    return (
        f"drawn = torch.randint({low}, {top}, {place}.shape, "
        f"generator=torch.Generator().manual_seed({seed}))\n"
        f"{place} = torch.empty_like({place}).copy_(drawn)\n"
    )
