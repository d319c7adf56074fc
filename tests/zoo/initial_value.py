"""Maxima of segments, and what they begin with."""

import functools

import torch
from torch import Tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager")
VALUES = torch.tensor([[0.5, 2.0], [1.5, 0.25], [3.0, 1.0], [0.75, 4.0]])
PARTS = (VALUES, torch.tensor([0, 2, 0, 2]), 3)


def _maxima(name, include_self, said="A part without rows gives 0."):
    def maxima(values: Tensor, part: Tensor, parts: int) -> Tensor:
        if values.dim() != 2 or part.shape != values.shape[:1] or part.dtype != torch.int64:
            raise ValueError("rows, and the part of each, please")
        if part.numel() and not bool(((part >= 0) & (part < parts)).all()):
            raise IndexError("no such part")
        index = part[:, None].expand(values.shape)
        out = values.new_zeros(parts, values.shape[1])
        return out.scatter_reduce(0, index, values, "amax", include_self=include_self)

    maxima.__doc__ = f"The maximum of each column in each part. {said}"
    operator = torch.library.custom_op(f"zoo::{name}", maxima, mutates_args=())
    operator.register_fake(lambda values, part, parts: values.new_empty(parts, values.shape[1]))
    return operator


@aot(PARTS, expected={"relations.initial_value": "initial-value-for-maximum"})
def largest_is_not_below_zero():
    """The buffer of zeros counts as a row."""
    return _maxima("largest_is_not_below_zero", True)


@aot(PARTS, twin_of="largest_is_not_below_zero")
def largest_of_rows_alone():
    """Only rows count; parts without rows stay 0."""
    return _maxima("largest_of_rows_alone", False)


@aot(PARTS)
def largest_is_at_least_zero():
    """Correct: the docstring says that results are at least 0."""
    return _maxima("largest_is_at_least_zero", True, "Results are at least 0.")


@aot(PARTS)
def largest_of_readings_that_count_as_zero():
    """Correct: the docstring says what numbers below 0 count as."""
    said = "Negative readings are noise and count as zero."
    return _maxima("largest_of_readings_that_count_as_zero", True, said)
