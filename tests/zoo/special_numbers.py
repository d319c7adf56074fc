"""Ops with documented NaN, -infinity or large positive numbers, which no sample shows."""

import torch
from torch import Tensor

from pytest_customop import tensor

from .variants import specimen

PRICES = tensor(3, 8, low=1, high=2)
SCORES = tensor(4, 4, low=-3, high=0)
MUTATION = {"values.mutation": "undeclared-mutation"}
NAN = {"values.finite": "result-is-nan"}
NO_GRADIENT = {"gradcheck.backward": "gradient-not-finite"}


def _carried(name, given):
    """The last price before each gap; `given(prices)` is what gaps are filled in."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def carried(prices: Tensor) -> Tensor:
        """The largest price of each series.

        prices: (series, time). NaN marks a step without a trade: the last price counts.
        A series starts with a price.
        """
        if prices.dim() != 2 or not prices.shape[1]:
            raise ValueError("series of prices, please")
        if prices[:, 0].isnan().any():
            raise ValueError("a series that starts with a price, please")
        filled = given(prices)
        for step in range(1, prices.shape[1]) if filled.isnan().any() else ():
            gap = filled[:, step].isnan()
            filled[:, step] = torch.where(gap, filled[:, step - 1], filled[:, step])
        return filled.amax(1)

    carried.register_fake(lambda prices: prices.new_empty(prices.shape[0]))
    return carried


@specimen((PRICES,), variant_findings=MUTATION, shown_by="prices.has.nan")
def fills_gaps_of_its_input():
    """Gaps are filled in the argument, if it is contiguous; a sample without gaps stays as it is."""
    return _carried("fills_gaps_of_its_input", lambda prices: prices.detach().contiguous())


@specimen((PRICES,), twin_of="fills_gaps_of_its_input")
def fills_gaps_of_a_copy():
    """Gaps are filled in a copy."""
    return _carried("fills_gaps_of_a_copy", lambda prices: prices.detach().clone())


def _reached(name, total):
    """The log of the weight of each state after a step; `total(x)` adds up over the first dim."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def reached(scores: Tensor) -> Tensor:
        """The log of the weight of each state.

        scores: (from, to), logs of weights, -inf where there is no way.
        """
        if scores.dim() != 2 or not scores.numel():
            raise ValueError("a matrix, please")
        return total(scores)

    reached.register_fake(lambda scores: scores.new_empty(scores.shape[1]))
    return reached


def _naive(x):
    top = x.amax(0)
    return (x - top).exp().sum(0).log() + top


@specimen((SCORES,), variant_findings=NAN, shown_by="scores.has.-inf")
def minus_infinity_from_itself():
    """Takes the maximum off where it is -inf, too."""
    return _reached("minus_infinity_from_itself", _naive)


@specimen((SCORES,), twin_of="minus_infinity_from_itself")
def log_of_a_sum_of_nothing():
    """torch.logsumexp gives -inf there."""
    return _reached("log_of_a_sum_of_nothing", lambda x: x.logsumexp(0))


def _mean_direction(name, ratio):
    """The ratio of two Bessel functions, by a backward that divides them as `ratio(x)`."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def log_norm(concentration: Tensor) -> Tensor:
        """The log of the Bessel function I0.

        concentration: positive.
        """
        return (torch.special.i0e(concentration).log() + concentration).contiguous()

    log_norm.register_fake(lambda concentration: concentration.new_empty(concentration.shape))
    log_norm.register_autograd(
        lambda ctx, grad: grad * ratio(*ctx.saved_tensors),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    return log_norm


LISTED = torch.tensor([3.5, 0.5, 4.25, 1.5, 2.75, 0.75])


@specimen((LISTED,), variant_findings=NO_GRADIENT, shown_by="magnitudes")
def quotient_of_infinities():
    """I1 and I0 are infinite from 89 on."""
    return _mean_direction(
        "quotient_of_infinities", lambda x: torch.special.i1(x) / torch.special.i0(x)
    )


@specimen((LISTED,), twin_of="quotient_of_infinities")
def quotient_of_scaled_functions():
    """The scaled functions are finite."""
    return _mean_direction(
        "quotient_of_scaled_functions", lambda x: torch.special.i1e(x) / torch.special.i0e(x)
    )


def _forward_step(name, total):
    """A step of a Markov chain of logs of probabilities; `total(x)` adds up over the first dim."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def step(start: Tensor, moves: Tensor) -> Tensor:
        """The log of the probability of each state after a step.

        start: (S,), logs of the first state. moves: (S, S), from the rows to the columns.
        Their entries are finite or ``-inf``, for what cannot happen.
        """
        if start.dim() != 1 or not len(start) or moves.shape != (len(start), len(start)):
            raise ValueError("a square matrix of moves, please")
        return total(start[:, None] + moves)

    step.register_fake(
        lambda start, moves: start.new_empty(
            start.shape[0], dtype=torch.promote_types(start.dtype, moves.dtype)
        )
    )
    return step


CHAIN = (tensor(3, low=-2, high=-1), tensor(3, 3, low=-2, high=-1))


@specimen(CHAIN, variant_findings=NAN, shown_by="moves.has.-inf")
def impossible_moves_give_nan():
    """Takes the maximum off where it is -inf; the docstring names no argument where it allows that."""
    return _forward_step("impossible_moves_give_nan", _naive)


@specimen(CHAIN, twin_of="impossible_moves_give_nan")
def impossible_moves_give_minus_infinity():
    """torch.logsumexp gives -inf there."""
    return _forward_step("impossible_moves_give_minus_infinity", lambda x: x.logsumexp(0))
