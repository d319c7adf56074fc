"""torch's gradcheck at any size: on a function as it is, or along random directions.

For a large function, `t -> U . f(x + V t)` is checked, one input at a time, with random output weights U
and directions V of +1 and -1. An error anywhere in the Jacobian changes that number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ....cases.tensors import largest_magnitude
from ....declare.inputs import GradOptions
from .vectors import ROUNDING, VectorFunction

# The most elements of inputs and outputs, and the most pairs of them, that are compared one by one.
_SMALL_SUM, _SMALL_PRODUCT = 192, 4096

# The most elements of a function that is cheap enough for several draws.
_CHEAP = 2**13

# Gradients that differ by more than this share of the largest element differ by more than rounding.
_UNLIKE = 1e-4


def is_small(function: VectorFunction) -> bool:
    """Whether the Jacobian can be compared element by element in a fraction of a second."""
    into, out = _sizes(function)
    return into + out <= _SMALL_SUM and into * out <= _SMALL_PRODUCT


def is_cheap(function: VectorFunction) -> bool:
    """Whether several draws take a fraction of a second."""
    return sum(_sizes(function)) <= _CHEAP


def _sizes(function: VectorFunction) -> tuple[int, int]:
    into = sum(point.numel() for point in function.point)
    return into, sum(output.values.numel() for output in function.outputs)


@dataclass(frozen=True)
class Draw:
    """Random output weights and input directions, a vector for each output and input."""

    weights: list[Tensor]
    directions: list[Tensor]

    @staticmethod
    def of(function: VectorFunction, seed: int) -> Draw:
        """A random draw."""
        generator = torch.Generator().manual_seed(seed)
        weights = [random_weights(output.values, generator) for output in function.outputs]
        return Draw(weights, [signs(point, generator) for point in function.point])

    @staticmethod
    def uneven(function: VectorFunction, seed: int) -> Draw:
        """A random draw with directions of uneven sizes, along which errors do not cancel.

        An op on a grid needs the even directions of `of`.
        """
        generator = torch.Generator().manual_seed(seed)
        weights = [random_weights(output.values, generator) for output in function.outputs]
        return Draw(weights, [random_weights(point, generator) for point in function.point])

    def masks(self, seed: int) -> tuple[Draw, Draw]:
        """The draw with random zeros and ones as weights, and with their complement."""
        generator = torch.Generator().manual_seed(seed)
        chosen = [
            torch.randint(0, 2, weight.shape, generator=generator).to(weight)
            for weight in self.weights
        ]
        return (
            Draw(chosen, self.directions),
            Draw([1 - weight for weight in chosen], self.directions),
        )


def is_linear(function: VectorFunction, draw: Draw) -> bool:
    """Whether the backward is linear for weights that are negated, small, or split in two.

    Raises:
        BackwardError: if the backward raises.
    """
    whole = _gradients(function, draw.weights)
    low = [torch.where(weight < 0, weight, 0) for weight in draw.weights]
    high = [torch.where(weight < 0, 0, weight) for weight in draw.weights]
    parts = zip(_gradients(function, low), _gradients(function, high), strict=True)
    variants = [
        [-grad for grad in _gradients(function, [-weight for weight in draw.weights])],
        [256 * grad for grad in _gradients(function, [weight / 256 for weight in draw.weights])],
        [left + right for left, right in parts],
    ]
    return all(
        torch.allclose(
            left, right, rtol=0.0, atol=_UNLIKE * largest_magnitude(left), equal_nan=True
        )
        for variant in variants
        for left, right in zip(whole, variant, strict=True)
        if left.numel() > 0
    )


def _gradients(function: VectorFunction, weights: list[Tensor]) -> list[Tensor]:
    return _filled(function, dict(enumerate(weights)))


def _filled(function: VectorFunction, weights: dict[int, Tensor]) -> list[Tensor]:
    return [
        torch.zeros_like(point) if gradient is None else gradient
        for gradient, point in zip(function.vjp(weights), function.point, strict=True)
    ]


def signs(like: Tensor, generator: torch.Generator) -> Tensor:
    """Random +1 and -1."""
    return (torch.randint(0, 2, like.shape, generator=generator) * 2 - 1).to(like)


def random_weights(like: Tensor, generator: torch.Generator) -> Tensor:
    """Random numbers of both signs with magnitudes from 0.5 to 1.5, so that no element is hidden."""
    size = 0.5 + torch.rand(like.shape, generator=generator, dtype=torch.float64)
    return size.to(like) * signs(like, generator)


def torch_gradcheck_passes(
    function: VectorFunction, draw: Draw | None, options: GradOptions
) -> bool:
    """Whether `torch.autograd.gradcheck` passes for the function, or for its projection along a draw.

    Raises:
        CallError, OutputsChanged: if the function cannot be called one step away.
    """
    if draw is None:
        leaves = [leaf.clone().detach().requires_grad_() for leaf in function.point]
        return _gradcheck(function, leaves, options.eps, atol=options.atol, rtol=options.rtol)
    gradients = [
        gradient_of(function, target, weight) for target, weight in enumerate(draw.weights)
    ]
    for source, point in enumerate(function.point):
        if point.numel() == 0:
            continue
        allowed = [
            tolerance(function, target, weight, gradients[target][source], options)
            for target, weight in enumerate(draw.weights)
        ]
        # Scaled to one tolerance, the outputs can be added up to one number.
        scaled = [
            weight * (max(allowed) / limit)
            for weight, limit in zip(draw.weights, allowed, strict=True)
        ]
        line = _line(function, source, draw.directions[source], scaled)
        origin = torch.zeros((), dtype=torch.float64, device=point.device, requires_grad=True)
        if not _gradcheck(line, [origin], options.eps, atol=max(allowed), rtol=0.0):
            return False
    return True


def _gradcheck(
    function: Callable[..., Tensor | tuple[Tensor, ...]],
    leaves: list[Tensor],
    eps: float,
    atol: float,
    rtol: float,
) -> bool:
    agrees = torch.autograd.gradcheck(
        function,
        tuple(leaves),
        eps=eps,
        atol=atol,
        rtol=rtol,
        nondet_tol=math.inf,  # nondeterminism is checked before, with a relative limit
        check_undefined_grad=False,
        raise_exception=False,
    )
    return bool(agrees)


def _line(
    function: VectorFunction, source: int, direction: Tensor, weights: list[Tensor]
) -> Callable[[Tensor], Tensor]:
    """`t -> U . f(x + V t)` for one input."""

    def along(step: Tensor) -> Tensor:
        vectors = function.leaves()
        vectors[source] = function.point[source] + direction * step
        values = function(*vectors)
        # The outputs at the point are subtracted first, because sums of large numbers round.
        changes = [
            value - output.values for value, output in zip(values, function.outputs, strict=True)
        ]
        return torch.stack(
            [change @ weight for change, weight in zip(changes, weights, strict=True)]
        ).sum()

    return along


def gradient_of(function: VectorFunction, target: int, weight: Tensor) -> list[Tensor]:
    """The gradient of one weighted output by each input; zeros if there is none.

    Raises:
        BackwardError: if the backward raises.
    """
    return _filled(function, {target: weight})


def tolerance(
    function: VectorFunction, target: int, weight: Tensor, gradient: Tensor, options: GradOptions
) -> float:
    """The allowed error of the derivative of a weighted output along random signs.

    Sums with random signs grow like the root of the sum of squares, and so does the allowed error.
    """
    rounding = 8 * ROUNDING * float((weight * function.outputs[target].values).norm())
    allowed = options.rtol * float(gradient.norm()) + options.atol * float(weight.norm())
    allowed += rounding / options.eps
    return allowed if math.isfinite(allowed) and allowed > 0 else max(options.atol, 1e-300)
