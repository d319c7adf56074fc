"""Ops on numbers in a closed range whose gradients are, or are not, right at its ends."""

import torch
from torch import Tensor

from pytest_customop import tensor

from .registry import specimen


def _light(name, behind):
    """The light along rays; `behind(alpha, values)` is what is behind each sample, seen from there."""

    def light(alpha: Tensor, values: Tensor) -> Tensor:
        """The light along rays, nearest sample first.

        alpha: (R, S), opacities in [0, 1]; fully transparent and fully opaque samples are allowed.
        values: (R, S)
        """
        _check(alpha, values)
        return (_through(alpha)[:, :-1] * alpha * values).sum(1)

    light = torch.library.custom_op(f"zoo::{name}", light, mutates_args=())

    @light.register_fake
    def _(alpha, values):
        _check(alpha, values)
        return alpha.new_empty(alpha.shape[0])

    def backward(ctx, grad):
        alpha, values = ctx.saved_tensors
        seen = grad[:, None] * _through(alpha)[:, :-1]
        return seen * (values - behind(alpha, values)), seen * alpha

    light.register_autograd(
        backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs)
    )
    return light


def _check(alpha, values):
    if alpha.dim() != 2 or alpha.shape != values.shape or 0 in alpha.shape:
        raise ValueError("an opacity and a value for each sample of each ray, please")
    if alpha.dtype != values.dtype or not alpha.is_floating_point():
        raise TypeError("floating-point numbers of one dtype, please")


def _through(alpha):
    """How much of the light comes to each sample, and through all of them."""
    return torch.cat([torch.ones_like(alpha[:, :1]), (1 - alpha).cumprod(1)], 1)


def _by_division(alpha, values):
    through = _through(alpha)
    weighted = through[:, :-1] * alpha * values
    rest = weighted.flip(1).cumsum(1).flip(1) - weighted
    return rest / through[:, 1:].clamp(min=1e-10)


def _from_the_end(alpha, values):
    behind = [torch.zeros_like(alpha[:, 0])]
    for sample in range(alpha.shape[1] - 1, 0, -1):
        behind.append(alpha[:, sample] * values[:, sample] + (1 - alpha[:, sample]) * behind[-1])
    return torch.stack(behind[::-1], 1)


RAYS = (tensor(3, 5, low=0.1, high=0.8, requires_grad=True), tensor(3, 5, requires_grad=True))


@specimen(
    RAYS,
    variant_findings={"gradcheck.backward": "gradient-mismatch"},
    shown_by="alpha.has.ends",
    backend="aot_eager",
)
def light_behind_by_division():
    """Divides by how much of the light comes through, which is nothing behind an opaque sample."""
    return _light("light_behind_by_division", _by_division)


@specimen(RAYS, twin_of="light_behind_by_division", backend="aot_eager")
def light_behind_from_the_end():
    """Adds up from the last sample, and divides by nothing."""
    return _light("light_behind_from_the_end", _from_the_end)


def _of_shares(name, forward, derivative):
    """A function of each share in [0, 1]."""

    def of_shares(share: Tensor) -> Tensor:
        """A function of each share.

        share: any shape, in [0, 1]
        """
        if not share.is_floating_point() or share.dtype.itemsize < 4:
            raise TypeError("float32 or float64, please")
        return forward(share).contiguous()

    of_shares = torch.library.custom_op(f"zoo::{name}", of_shares, mutates_args=())

    @of_shares.register_fake
    def _(share):
        if not share.is_floating_point() or share.dtype.itemsize < 4:
            raise TypeError("float32 or float64, please")
        return torch.empty_like(share, memory_format=torch.contiguous_format)

    of_shares.register_autograd(
        lambda ctx, grad: grad * derivative(*ctx.saved_tensors),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    return of_shares


SHARES = (tensor(4, 3, low=0.2, high=0.9, requires_grad=True),)


@specimen(SHARES, twin_of="light_behind_by_division", backend="aot_eager")
def entropy_of_shares():
    """Correct: its derivative is infinite at 0, below which it is not a number."""
    return _of_shares(
        "entropy_of_shares",
        lambda share: -torch.xlogy(share, share),
        lambda share: -share.log() - 1,
    )


@specimen(SHARES, twin_of="light_behind_by_division", backend="aot_eager")
def limited_share():
    """Correct: a kink at each end."""
    return _of_shares(
        "limited_share",
        lambda share: share.clamp(0, 1).square(),
        lambda share: 2 * share * ((share >= 0) & (share <= 1)),
    )


@specimen(
    SHARES,
    variant_notes={"gradcheck.backward": "gradient-mismatch"},
    shown_by="share.has.ends",
    backend="aot_eager",
)
def logarithm_of_a_limited_share():
    """The formula goes on where the logarithm is limited; nothing says that shares of 0 occur."""
    return _of_shares(
        "logarithm_of_a_limited_share",
        lambda share: share.clamp(min=1e-3).log(),
        lambda share: 1 / share.clamp(min=1e-3),
    )


@specimen(SHARES, twin_of="logarithm_of_a_limited_share", backend="aot_eager")
def logarithm_that_stops():
    """The formula is 0 where the logarithm is limited."""
    return _of_shares(
        "logarithm_that_stops",
        lambda share: share.clamp(min=1e-3).log(),
        lambda share: torch.where(share >= 1e-3, 1 / share, 0),
    )
