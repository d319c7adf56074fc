"""Codes that interleave or join the bits of integers, whose range a docstring gives."""

import functools

import torch
from torch import Tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager")
LOST = {"relations.bit_packing": "packed-bits-lost"}
POINTS = (torch.tensor([[3, 5], [9, 0], [14, 11]]),)


def _codes(name, dtype, said="their bits interleaved"):
    """Codes of points, of which each bit is made in a dtype."""

    def kernel(points: Tensor) -> Tensor:
        if points.dim() != 2 or points.shape[1] != 2 or points.dtype != torch.int64:
            raise ValueError("int64 points, please")
        if points.numel() and not 0 <= int(points.min()) <= int(points.max()) < 2**31:
            raise ValueError("coordinates of 31 bits, please")
        code = torch.zeros(len(points), dtype=torch.int64)
        for bit in range(31):
            for axis in range(2):
                one = (points[:, axis] >> bit & 1).to(dtype)
                code |= (one << (2 * bit + axis)).to(torch.int64)
        return code

    kernel.__doc__ = f"""Codes of points: {said}.

    Args:
        points: (N, 2) int64, from 0 to 2**31 - 1.
    """
    op = torch.library.custom_op(f"zoo::{name}", kernel, mutates_args=())
    op.register_fake(lambda points: points.new_empty(points.shape[0]))
    return op


@aot(POINTS, expected=LOST)
def interleaves_in_32_bits():
    """From bit 16 on nothing is left."""
    return _codes("interleaves_in_32_bits", torch.int32)


@aot(POINTS, twin_of="interleaves_in_32_bits")
def interleaves_in_64_bits():
    """Every bit has a place."""
    return _codes("interleaves_in_64_bits", torch.int64)


@aot(POINTS)
def interleaves_the_lowest_bits():
    """Correct: the docstring says that the others are left out."""
    said = "the lowest 16 bits of each, interleaved"
    return _codes("interleaves_the_lowest_bits", torch.int32, said)
