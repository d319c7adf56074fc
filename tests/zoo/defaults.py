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
    operator = torch.library.custom_op(f"zoo::{name}", kernel, mutates_args=(), schema=schema)
    operator.register_fake(fake)
    return operator


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


LOST = {"values.defaults": "signature-differs"}


def _scale_by_keyword(name, fake):
    """A library op with a keyword-only argument, which the samples leave at its default."""
    lib = library()
    lib.define(f"{name}(Tensor x, *, float factor=0.5) -> Tensor")
    lib.impl(name, torch.no_grad()(lambda x, *, factor=0.5: x * factor), "CPU")
    torch.library.register_fake(f"zoo::{name}", fake, lib=lib)
    return getattr(torch.ops.zoo, name).default


@aot((MATRIX,), expected=LOST)
def fake_without_a_parameter():
    """The fake kernel does not take the factor, which the sample leaves out."""
    return _scale(
        "fake_without_a_parameter", lambda x, factor=0.5: x * factor, lambda x: torch.empty_like(x)
    )


@aot((MATRIX,), expected=LOST)
def library_fake_without_a_keyword():
    """The same with a keyword, defined by a library."""
    return _scale_by_keyword("library_fake_without_a_keyword", lambda x: torch.empty_like(x))


@aot((MATRIX,), expected=LOST)
def fake_that_takes_it_by_keyword_only():
    """The fake kernel takes by keyword what torch gives by position."""

    def fake(x, *, factor=0.5):
        return torch.empty_like(x)

    return _scale("fake_that_takes_it_by_keyword_only", lambda x, factor=0.5: x * factor, fake)


@aot(
    (MATRIX,),
    twin_of=(
        "fake_without_a_parameter",
        "library_fake_without_a_keyword",
        "fake_that_takes_it_by_keyword_only",
    ),
)
def fake_with_every_keyword():
    """The fake kernel takes what the schema has."""
    return _scale_by_keyword("fake_with_every_keyword", _fake)


def _first_only(function):
    """Call a function with its first argument alone."""

    @functools.wraps(function)
    def called(x, *rest, **options):
        return function(x)

    return called


@aot((MATRIX,))
def decorated_fake():
    """Correct: the decorated fake kernel takes what the function in it does not take."""
    return _scale_by_keyword("decorated_fake", _first_only(lambda x: torch.empty_like(x)))


@aot((MATRIX,))
def fake_that_takes_anything():
    """Correct: the fake kernel takes any keywords."""
    fake = lambda x, **options: torch.empty_like(x)  # noqa: E731
    return _scale_by_keyword("fake_that_takes_anything", fake)


_SCHEMA = "(Tensor x, float factor=0.5) -> Tensor"
torch.library.define("zoo::decorated_kernel_with_another_default", _SCHEMA)
torch.library.define("zoo::decorated_kernel_with_the_default", _SCHEMA)


@torch.library.impl("zoo::decorated_kernel_with_another_default", "CPU")
@torch.no_grad()
def _scaled_by_default(x, factor=1.0):
    return x * factor


@torch.library.impl("zoo::decorated_kernel_with_the_default", "CPU")
@torch.no_grad()
def _scaled(x, factor=0.5):
    return x * factor


@aot((MATRIX, 2.0), expected=FOUND)
def decorated_kernel_with_another_default():
    """Registered by a decorator that leaves no name behind; computes with 1.0 where the schema says 0.5."""
    name = "decorated_kernel_with_another_default"
    torch.library.register_fake(f"zoo::{name}", _fake)
    return getattr(torch.ops.zoo, name).default


@aot((MATRIX, 2.0), (MATRIX,), twin_of="decorated_kernel_with_another_default")
def decorated_kernel_with_the_default():
    """It has the schema's default."""
    name = "decorated_kernel_with_the_default"
    torch.library.register_fake(f"zoo::{name}", _fake)
    return getattr(torch.ops.zoo, name).default


ORDER = {"values.defaults": "argument-order-differs"}
_BETWEEN = "(Tensor x, float low=0., float high=1.) -> Tensor"
_LIBRARY = library()
_LIBRARY.define(f"kernel_in_another_order{_BETWEEN}")
_LIBRARY.define(f"kernel_in_the_order_of_the_schema{_BETWEEN}")


def _of_high_and_low(x, high=0.0, low=1.0):
    return x.detach() * (high - low) + low


def _of_low_and_high(x, low=0.0, high=1.0):
    return x.detach() * (high - low) + low


_LIBRARY.impl("kernel_in_another_order", _of_high_and_low, "CPU")
_LIBRARY.impl("kernel_in_the_order_of_the_schema", _of_low_and_high, "CPU")


def _between(name):
    """An op of the library; its fake kernel has the schema's signature."""
    fake = lambda x, low=0.0, high=1.0: torch.empty_like(x)  # noqa: E731
    torch.library.register_fake(f"zoo::{name}", fake, lib=_LIBRARY)
    return getattr(torch.ops.zoo, name).default


@aot((MATRIX, 0.5, 0.5), expected=ORDER)
def kernel_in_another_order():
    """Takes `high` for `low`; in the sample they are equal. The defaults are at the right places."""
    return _between("kernel_in_another_order")


@aot((MATRIX, 0.5, 0.5), twin_of="kernel_in_another_order")
def kernel_in_the_order_of_the_schema():
    """Takes them as they come."""
    return _between("kernel_in_the_order_of_the_schema")
