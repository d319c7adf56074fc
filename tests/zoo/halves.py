"""Quantization, and to which side it rounds numbers in the middle of two steps."""

import functools

import torch
from torch import Tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager")
NUMBERS = torch.tensor([[0.31, -1.72, 2.24], [0.93, -0.41, 1.18], [0.05, 1.61, -0.87]])
CODES = (NUMBERS, 0.07, 3)
EVEN = "Halves are rounded to the even neighbour."


def _codes(name, rounded, said=EVEN, *, zero_inside=False):
    """Codes of int8; `rounded(multiples)` of the scale."""

    def codes(x: Tensor, scale: float, zero_point: int) -> Tensor:
        if x.dtype not in (torch.float32, torch.float64) or scale <= 0:
            raise ValueError("float32 or float64 and a scale above 0, please")
        inside, behind = (zero_point, 0) if zero_inside else (0, zero_point)
        found = rounded(x.double() / scale + inside) + behind
        return found.clamp(-128, 127).to(torch.int8).contiguous()

    codes.__doc__ = f"The code of each number: x / scale + zero_point, within -128 and 127. {said}"
    operator = torch.library.custom_op(f"zoo::{name}", codes, mutates_args=())
    operator.register_fake(lambda x, scale, zero_point: x.new_empty(x.shape, dtype=torch.int8))
    return operator


def _away(x):
    return x.sign() * (x.abs() + 0.5).floor()


@aot(CODES, expected={"relations.halves": "halves-rounded-otherwise"})
def halves_away_from_zero():
    """The docstring says that halves go to the even neighbour."""
    return _codes("halves_away_from_zero", _away)


@aot(CODES, twin_of="halves_away_from_zero")
def halves_to_even():
    """Halves go to the even neighbour."""
    return _codes("halves_to_even", torch.round)


@aot(CODES, twin_of="halves_away_from_zero")
def halves_to_even_codes():
    """The zero point is added before rounding: the code is even."""
    return _codes("halves_to_even_codes", torch.round, zero_inside=True)


@aot(CODES)
def halves_away_as_documented():
    """Correct: the docstring says that halves are rounded away from 0."""
    said = "Halves are rounded away from zero."
    return _codes("halves_away_as_documented", _away, said)


@aot((CODES[0], "even"), (CODES[0], "down"))
def halves_to_even_in_one_mode():
    """Correct: what the docstring says of one mode is not asked of another."""

    @torch.library.custom_op("zoo::halves_to_even_in_one_mode", mutates_args=())
    def steps(x: Tensor, mode: str) -> Tensor:
        """Whole numbers: "even" (halves go to the even neighbour) or "down"."""
        if mode not in ("even", "down") or x.dtype not in (torch.float32, torch.float64):
            raise ValueError("float32 or float64, and a mode that there is, please")
        found = x.round() if mode == "even" else x.floor()
        return found.nan_to_num(0).clamp(-1000, 1000).to(torch.int32).contiguous()

    steps.register_fake(lambda x, mode: x.new_empty(x.shape, dtype=torch.int32))
    return steps
