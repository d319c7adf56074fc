"""Kernels whose defaults are not those of the schema."""

import functools

import torch

from pytest_customop import Sample, tensor

from .registry import library, specimen

aot = functools.partial(specimen, backend="aot_eager")
MATRIX = tensor(4, 3)
FOUND = {"values.defaults": "default-differs"}


def _scale(name, kernel, fake):
    schema = "(Tensor x, float factor=0.5) -> Tensor"
    one = torch.library.custom_op(f"zoo::{name}", kernel, mutates_args=(), schema=schema)
    one.register_fake(fake)
    return one


def _fake(x, factor=0.5):
    return torch.empty_like(x)


@aot((MATRIX, 2.0), expected=FOUND)
def kernel_with_another_default():
    """Computes with 1.0 where the schema says 0.5; the samples name the factor."""
    return _scale("kernel_with_another_default", lambda x, factor=1.0: x * factor, _fake)


@aot((MATRIX, 2.0), expected=FOUND)
def fake_without_the_default():
    """The fake kernel raises where the factor is left out; the samples name it."""
    fake = lambda x, factor: torch.empty_like(x)  # noqa: E731
    return _scale("fake_without_the_default", lambda x, factor=0.5: x * factor, fake)


@aot(Sample((MATRIX,), {"factor": 2.0}), expected=FOUND)
def library_fake_without_the_default():
    """The same, defined by a library."""
    lib = library()
    lib.define("library_fake_without_the_default(Tensor x, *, float factor=0.5) -> Tensor")
    name = "library_fake_without_the_default"
    lib.impl(name, torch.no_grad()(lambda x, *, factor=0.5: x * factor), "CPU")
    fake = lambda x, *, factor: torch.empty_like(x)  # noqa: E731
    torch.library.register_fake(f"zoo::{name}", fake, lib=lib)
    return getattr(torch.ops.zoo, name).default


@aot(
    (MATRIX, 2.0),
    (MATRIX,),
    twin_of=(
        "kernel_with_another_default",
        "fake_without_the_default",
        "library_fake_without_the_default",
    ),
)
def kernels_with_the_default():
    """Both kernels have the schema's default."""
    return _scale("kernels_with_the_default", lambda x, factor=0.5: x * factor, _fake)
