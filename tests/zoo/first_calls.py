"""Ops whose first call for a size does something else than later ones, like that of an autotuner."""

import functools

import torch
from torch import Tensor

from pytest_customop import tensor

from .registry import library, specimen

aot = functools.partial(specimen, backend="aot_eager")
AVERAGE = tensor(3, 5)


def _average(name, tuned):
    """A moving average in place; the first call for a size tries the kernel out."""
    lib = library()
    lib.define(f"{name}(Tensor(a!) average, Tensor x) -> ()")
    tried = set()

    def kernel(average, x):
        if average.shape not in tried:
            tried.add(average.shape)
            tuned(average, x)
        average.lerp_(x, 0.25)

    lib.impl(name, kernel, "CPU")
    torch.library.register_fake(f"zoo::{name}", lambda average, x: None, lib=lib)
    return getattr(torch.ops.zoo, name).default


def _try_out(average: Tensor, x: Tensor) -> None:
    for _ in range(20):
        average.lerp_(x, 0.25)


@aot((AVERAGE, AVERAGE), expected={"values.repeat": "outputs-not-repeatable"})
def tries_out_on_the_buffer():
    """Runs the kernel twenty times on the buffer itself."""
    return _average("tries_out_on_the_buffer", _try_out)


@aot((AVERAGE, AVERAGE), twin_of=("tries_out_on_the_buffer",))
def tries_out_on_a_copy():
    """Runs the kernel twenty times on a copy."""
    return _average("tries_out_on_a_copy", lambda average, x: _try_out(average.clone(), x))
