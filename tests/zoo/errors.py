"""Ops that do not refuse what they should, or refuse it in other words, in one kernel or the other."""

import functools

import torch
from torch import Tensor

from pytest_customop import ErrorSample, tensor

from . import registry

specimen = functools.partial(registry.specimen, backend="aot_eager")
ROWS = (tensor(5, 3), 2)
MANY = ErrorSample((tensor(5, 3), 9), raises=ValueError, match="only 5 rows", id="many")
FLAT = ErrorSample((tensor(5), 2), raises=ValueError, match="a matrix")
GIVEN = {"errors": (MANY, FLAT)}


def _refuse(x, keep):
    if x.dim() != 2:
        raise ValueError("x must be a matrix")
    if keep > x.shape[0]:
        raise ValueError(f"there are only {x.shape[0]} rows")


def _first_rows(name, check=_refuse, check_fake=_refuse):
    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def first(x: Tensor, keep: int) -> Tensor:
        check(x, keep)
        return x[:keep].clone(memory_format=torch.contiguous_format)

    @first.register_fake
    def _(x, keep):
        check_fake(x, keep)
        return x.new_empty(keep, *x.shape[1:])

    return first


@specimen(ROWS, **GIVEN, expected={"errors.real": "bad-input-accepted"})
def keeps_what_there_is():
    """Asked for more rows than there are, the real kernel returns fewer; the fake one refuses."""
    return _first_rows("keeps_what_there_is", lambda x, keep: None)


@specimen(ROWS, **GIVEN, expected={"errors.real": "error-differs"})
def raises_by_chance():
    """The real kernel raises what happens to be raised, the fake one says what is wrong."""
    return _first_rows("raises_by_chance", lambda x, keep: x[keep - 1, 0])


@specimen(ROWS, **GIVEN, expected={"errors.fake": "fake-accepts-bad-input"})
def fake_keeps_too_many():
    """The real kernel refuses more rows than there are, the fake one promises them."""
    return _first_rows("fake_keeps_too_many", check_fake=lambda x, keep: None)


def _assert(x, keep):
    assert x.dim() == 2
    assert keep <= x.shape[0]


@specimen(ROWS, **GIVEN, expected={"errors.fake": "fake-error-differs"})
def fake_raises_by_chance():
    """The real kernel says what is wrong, the fake one has bare assertions."""
    return _first_rows("fake_raises_by_chance", check_fake=_assert)


@specimen(
    ROWS,
    **GIVEN,
    twin_of=(
        "keeps_what_there_is",
        "raises_by_chance",
        "fake_keeps_too_many",
        "fake_raises_by_chance",
    ),
)
def refuses_in_both_kernels():
    """Both kernels call one function that refuses more rows than there are."""
    return _first_rows("refuses_in_both_kernels")


def _checked(name, refuse):
    """An op that looks at values in its real kernel; its fake kernel cannot."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def checked(x: Tensor) -> Tensor:
        refuse(x)
        return x * 2

    checked.register_fake(lambda x: torch.empty_like(x))
    return checked


@specimen(
    (tensor(3, low=1, high=2),),
    errors=[ErrorSample((tensor(3, low=-2, high=-1),), raises=ValueError, match="negative")],
)
def refuses_negative_values():
    """Correct: what is wrong are values, which only the real kernel sees."""

    def refuse(x):
        if bool((x < 0).any()):
            raise ValueError("x has negative values")

    return _checked("refuses_negative_values", refuse)


@specimen(
    (tensor(values=[0.25, 0.75]),),
    errors=[ErrorSample((tensor(2, fill=0.9),), raises=ValueError, data_dependent=True)],
    skips={"fake.symbolic": "no-second-size"},
)
def wants_a_sum_of_one():
    """Correct: what is wrong are values, of which the author says so."""

    def refuse(x):
        if abs(float(x.sum()) - 1) > 1e-3 or float(x.min()) == 0.5:
            raise ValueError("the weights must add up to one")

    return _checked("wants_a_sum_of_one", refuse)


@specimen(
    (tensor(3, 4), tensor(4, 2)),
    errors=[ErrorSample((tensor(3, 4), tensor(5, 2)), raises=RuntimeError, match="multiplied")],
)
def leaves_the_error_to_torch():
    """Correct: torch's own ops refuse the sizes, in other words for fake tensors than for real ones."""

    @torch.library.custom_op("zoo::leaves_the_error_to_torch", mutates_args=())
    def product(a: Tensor, b: Tensor) -> Tensor:
        with torch.autocast(a.device.type, enabled=False):
            return torch.mm(a, b)

    product.register_fake(lambda a, b: torch.mm(a, b))
    return product
