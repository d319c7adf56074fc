"""Ops that do not do what their docstrings say, and what no sample shows."""

from typing import Tuple

import torch
from torch import Tensor

from pytest_customop import tensor

from .alias_rejected import ON_SHAPES
from .variants import DTYPE, specimen

POINTS = (tensor(4, 2), tensor(3, 2))


def _nearest(name, none):
    """The nearest of some centers; `none(points)` is the answer where there is no center."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def nearest(points: Tensor, centers: Tensor) -> Tensor:
        """Positions of the nearest centers.

        points: (N, D)
        centers: (M, D), may be empty: then every position is -1
        """
        if points.dim() != 2 or centers.dim() != 2 or points.shape[1] != centers.shape[1]:
            raise ValueError("points of one dimension, please")
        if not len(centers):
            return none(points)
        return (points[:, None] - centers).square().sum(-1).argmin(1)

    def fake(points: Tensor, centers: Tensor) -> Tensor:
        if points.dim() != 2 or centers.dim() != 2 or points.shape[1] != centers.shape[1]:
            raise ValueError("points of one dimension, please")
        return points.new_empty(points.shape[0], dtype=torch.int64)

    nearest.register_fake(fake)
    return nearest


@specimen(
    POINTS,
    variant_findings=dict.fromkeys(ON_SHAPES, "eager-raises"),
    shown_by="centers.empty0",
)
def raises_without_a_center():
    """Raises by accident where there are no centers, which the docstring allows."""
    return _nearest("raises_without_a_center", lambda points: points.new_empty(4, 0).argmin(1))


@specimen(POINTS, twin_of="raises_without_a_center")
def answers_without_a_center():
    """Gives -1 there."""
    return _nearest(
        "answers_without_a_center", lambda points: points.new_full((len(points),), -1).long()
    )


def _total(name, dtype_of):
    """A weighted sum of rows; `dtype_of(x, weight)` is the dtype that the fake kernel gives."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def total(x: Tensor, weight: Tensor) -> Tensor:
        """The sum of rows, each with its weight; the result has the promoted dtype of both."""
        if x.dim() != 2 or weight.dim() != 1 or len(x) != len(weight):
            raise ValueError("a matrix, and a weight for each row, please")
        return (x * weight[:, None]).sum(0)

    total.register_fake(
        lambda x, weight: x.new_empty(x.shape[1], dtype=dtype_of(x, weight), device=x.device)
    )
    return total


WEIGHTED = (tensor(4, 3), tensor(4))


@specimen(WEIGHTED, variant_findings=DTYPE, shown_by="weight.float64")
def fake_of_the_first_dtype():
    """The fake kernel gives the dtype of the first argument, and not the promoted one."""
    return _total("fake_of_the_first_dtype", lambda x, weight: x.dtype)


@specimen(WEIGHTED, twin_of="fake_of_the_first_dtype")
def fake_of_the_promoted_dtype():
    """Both kernels promote."""
    return _total(
        "fake_of_the_promoted_dtype", lambda x, weight: torch.promote_types(x.dtype, weight.dtype)
    )


def _distance(name, second):
    """The squared distance; `second(gradient)` is what the backward gives for the second argument."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def distance(x: Tensor, y: Tensor) -> Tensor:
        """The squared distance of two points. Differentiable with respect to both."""
        if x.dtype != y.dtype:
            raise TypeError("points of one dtype, please")
        return (x - y).square().sum()

    distance.register_fake(lambda x, y: x.new_empty(()))

    def setup(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    def backward(ctx, grad) -> Tuple[Tensor, Tensor]:
        x, y = ctx.saved_tensors
        found = 2 * grad * (x - y)
        return found, second(found)

    distance.register_autograd(backward, setup_context=setup)
    return distance


PAIR = (torch.linspace(-1, 1, 5), torch.linspace(0, 3, 5).flip(0))


@specimen(PAIR, expected={"gradcheck.backward": "gradient-missing"}, plain=(PAIR,))
def no_gradient_for_the_second():
    """Gives None for an argument of which the docstring says that there is a gradient."""
    return _distance("no_gradient_for_the_second", lambda found: None)


@specimen(PAIR, twin_of="no_gradient_for_the_second")
def gradients_for_both():
    """Gives both."""
    return _distance("gradients_for_both", lambda found: -found)


def _gated(name, cast):
    """One half of the columns times the sigmoid of the other; `cast(gate)` goes into it."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def gated(x: Tensor) -> Tensor:
        """Gated columns, in float32 or float64."""
        if x.dim() != 2 or x.shape[1] % 2 or x.dtype not in (torch.float32, torch.float64):
            raise ValueError("a matrix of an even number of columns, please")
        gate, up = x.chunk(2, 1)
        return (torch.sigmoid(cast(gate)).to(x.dtype) * up).contiguous()

    gated.register_fake(lambda x: x.new_empty(x.shape[0], x.shape[1] // 2))
    return gated


@specimen(
    (torch.linspace(-2, 3, 32).reshape(4, 8),),
    variant_findings={"relations.precision": "result-narrowed"},
    shown_by="float64",
)
def gate_in_float32():
    """Computes one factor in float32, though float64 is documented."""
    return _gated("gate_in_float32", torch.Tensor.float)


@specimen((torch.linspace(-2, 3, 32).reshape(4, 8),), twin_of="gate_in_float32")
def gate_in_its_own_dtype():
    """Computes it in the dtype of the argument."""
    return _gated("gate_in_its_own_dtype", lambda gate: gate)


def _power(name, dtype_of):
    """The squares of samples or counts; `dtype_of(x)` is what the fake kernel gives."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def power(x: Tensor) -> Tensor:
        """Squares.

        x: float32 or float64, or counts as int16. Squares of counts are float32.
        """
        return (x if x.is_floating_point() else x.float()).square().contiguous()

    power.register_fake(lambda x: x.new_empty(x.shape, dtype=dtype_of(x)))
    return power


@specimen((tensor(4, 3),), variant_findings=DTYPE, shown_by="int16")
def fake_keeps_the_dtype_of_counts():
    """The fake kernel gives the dtype of counts, which a docstring alone names."""
    return _power("fake_keeps_the_dtype_of_counts", lambda x: x.dtype)


@specimen((tensor(4, 3),), twin_of="fake_keeps_the_dtype_of_counts")
def fake_gives_float32_for_counts():
    """It gives float32 for them."""
    return _power(
        "fake_gives_float32_for_counts",
        lambda x: x.dtype if x.is_floating_point() else torch.float32,
    )
