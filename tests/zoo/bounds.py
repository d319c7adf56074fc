"""Ops that reach past the end of an argument, or before its beginning."""

import ctypes
import functools

import torch
from torch import Tensor

from pytest_customop import tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager")
VECTOR = tensor(5)


def _summed(name, before, behind):
    """The sum of the elements, from a copy of their memory and of so many bytes around it."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def summed(x: Tensor) -> Tensor:
        x = x.detach().contiguous()
        size = x.numel() * x.itemsize
        if not size:
            return x.sum()
        memory = ctypes.string_at(x.data_ptr() - before, before + size + behind)
        return torch.frombuffer(bytearray(memory[before : before + size]), dtype=x.dtype).sum()

    summed.register_fake(lambda x: x.new_empty(()))
    return summed


@aot((VECTOR,), expected={"values.bounds": "out-of-bounds-read"})
def reads_a_byte_behind():
    """Reads one byte behind the last element, and does nothing with it."""
    return _summed("reads_a_byte_behind", 0, 1)


@aot((VECTOR,), expected={"values.bounds": "out-of-bounds-read"})
def reads_a_byte_before():
    """Reads one byte before the first element, and does nothing with it."""
    return _summed("reads_a_byte_before", 1, 0)


@aot((VECTOR,), twin_of=("reads_a_byte_behind", "reads_a_byte_before"))
def reads_the_elements_alone():
    """Reads the memory of the elements, and no more."""
    return _summed("reads_the_elements_alone", 0, 0)


def _negated(name, more):
    @torch.library.custom_op(f"zoo::{name}", mutates_args=("x",))
    def negated(x: Tensor) -> None:
        if not x.is_contiguous():
            raise ValueError("expected a contiguous tensor")
        x.neg_()
        size = x.numel() * x.itemsize
        if size:  # each byte is written to its own place
            ctypes.memmove(x.data_ptr(), x.data_ptr(), size + more)

    @negated.register_fake
    def _(x):
        if not x.is_contiguous():
            raise ValueError("expected a contiguous tensor")

    return negated


@aot((VECTOR,), requires_grad=[False], expected={"values.bounds": "out-of-bounds-write"})
def writes_a_byte_behind():
    """Writes to the byte behind the last element what stands there."""
    return _negated("writes_a_byte_behind", 1)


@aot((VECTOR,), requires_grad=[False], twin_of="writes_a_byte_behind")
def writes_the_elements_alone():
    """Writes to the memory of the elements, and no more."""
    return _negated("writes_the_elements_alone", 0)


def _interpolated(name, last):
    """Numbers of a table, each with its neighbour, of which nothing is taken at the end.

    Args:
        last: gives the last position of a neighbour, for a size of the table.
    """

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def interpolated(table: Tensor, x: Tensor) -> Tensor:
        size = table.numel()
        if table.dtype != torch.float32 or table.dim() != 1 or not size:
            raise TypeError("a table of float32, please")
        table = table.detach().contiguous()

        def number(position):
            return ctypes.c_float.from_address(table.data_ptr() + 4 * position).value

        values = []
        for place in x.detach().double().nan_to_num(0).clamp(0, size - 1).flatten().tolist():
            first = int(place)
            beside = number(min(first + 1, last(size)))
            share = place - first
            values.append(number(first) + (share * (beside - number(first)) if share else 0))
        return torch.tensor(values, dtype=table.dtype).view(x.shape)

    interpolated.register_fake(lambda table, x: table.new_empty(x.shape))
    return interpolated


TABLE_AND_PLACES = (tensor(2), tensor(values=[0.25, -1.5, 0.0, 0.4]))


@aot(
    TABLE_AND_PLACES,
    variant_findings={"values.bounds": "out-of-bounds-read"},
    shown_by="equal",
)
def reads_behind_a_table():
    """At the end of a table it reads the element behind it, and takes nothing of that."""
    return _interpolated("reads_behind_a_table", lambda size: size)


@aot(TABLE_AND_PLACES, twin_of="reads_behind_a_table")
def reads_the_end_of_a_table():
    """At the end of a table it reads the last element twice."""
    return _interpolated("reads_the_end_of_a_table", lambda size: size - 1)
