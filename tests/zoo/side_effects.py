"""Ops that return nothing."""

import torch
from torch import Tensor

from pytest_customop import tensor

from .registry import library, specimen

MATRIX = tensor(4, 3)
seen: list = []


def _logging_op(name):
    lib = library()
    lib.define(f"{name}(Tensor x) -> ()")

    @torch.no_grad()
    def kernel(x: Tensor) -> None:
        seen[:] = [x.sum().item()]

    lib.impl(name, kernel, "CPU")
    torch.library.register_fake(f"zoo::{name}", lambda x: None, lib=lib)
    return getattr(torch.ops.zoo, name).default


@specimen((MATRIX,), backend="aot_eager", expected={"compile.side_effects": "call-removed"})
def keeps_a_record_in_secret():
    """Remembers what it saw; by its schema it does nothing, and compiled code does not call it."""
    return _logging_op("keeps_a_record_in_secret")


@specimen((MATRIX,), backend="aot_eager", twin_of="keeps_a_record_in_secret")
def keeps_a_record():
    """Remembers what it saw, and is registered as an op with a side effect."""
    op = _logging_op("keeps_a_record")
    torch.fx.node.has_side_effect(op)
    return op


@specimen((MATRIX, tensor(1)), backend="aot_eager")
def writes_to_a_counter():
    """Correct: returns nothing, and declares the argument that it writes to."""

    @torch.library.custom_op("zoo::writes_to_a_counter", mutates_args={"counter"})
    def count(x: Tensor, counter: Tensor) -> None:
        counter.add_(x.shape[0])

    count.register_fake(lambda x, counter: None)
    return count
