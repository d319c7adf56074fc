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
