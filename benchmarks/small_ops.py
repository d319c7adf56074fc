"""A dozen small ops of different kinds, all correct, with their samples: what most authors have."""

from collections.abc import Sequence
from typing import Any, Optional

import torch
from torch import Tensor

from pytest_customop import Sample, tensor

INT = torch.int64


@torch.library.custom_op("small::scale", mutates_args=())
def scale(x: Tensor, by: float) -> Tensor:
    return x * by


@torch.library.custom_op("small::gate", mutates_args=())
def gate(x: Tensor, y: Tensor, bias: Optional[Tensor] = None) -> Tensor:
    return x * torch.sigmoid(y if bias is None else y + bias)


@torch.library.custom_op("small::gate_backward", mutates_args=())
def gate_backward(grad: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    gated = torch.sigmoid(y)
    return grad * gated, grad * x * gated * (1 - gated)


@torch.library.custom_op("small::cube", mutates_args=())
def cube(x: Tensor) -> tuple[Tensor, Tensor]:
    return x**3, 3 * x**2


@torch.library.custom_op("small::sum_along", mutates_args=())
def sum_along(x: Tensor, dim: int) -> Tensor:
    return x.sum(dim)


@torch.library.custom_op("small::mean_and_spread", mutates_args=())
def mean_and_spread(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.mean(-1), (x - x.mean(-1, keepdim=True)).square().mean(-1)


@torch.library.custom_op("small::soft", mutates_args=())
def soft(x: Tensor) -> Tensor:
    return torch.softmax(x, -1)


@torch.library.custom_op("small::soft_backward", mutates_args=())
def soft_backward(grad: Tensor, out: Tensor) -> Tensor:
    return out * (grad - (grad * out).sum(-1, keepdim=True))


@torch.library.custom_op("small::outer", mutates_args=())
def outer(x: Tensor, y: Tensor) -> Tensor:
    return x[:, None] * y


@torch.library.custom_op("small::pick", mutates_args=())
def pick(x: Tensor, index: Tensor) -> Tensor:
    return x[index]


@torch.library.custom_op("small::pick_backward", mutates_args=())
def pick_backward(grad: Tensor, index: Tensor, rows: int) -> Tensor:
    return grad.new_zeros(rows, *grad.shape[1:]).index_add(0, index, grad)


@torch.library.custom_op("small::join", mutates_args=())
def join(xs: Sequence[Tensor]) -> Tensor:
    return torch.cat(list(xs))


@torch.library.custom_op("small::add_", mutates_args={"x"})
def add_(x: Tensor, y: Tensor) -> None:
    x.add_(y)


@torch.library.custom_op("small::count", mutates_args=())
def count(labels: Tensor, classes: int) -> Tensor:
    return torch.bincount(labels.flatten(), minlength=classes)


@torch.library.custom_op("small::shift", mutates_args=())
def shift(x: Tensor, bits: int) -> Tensor:
    return (x << bits) ^ x


def _like_x(x: Tensor, *rest: Any) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _saved(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*[value for value in inputs if isinstance(value, Tensor)])


scale.register_fake(_like_x)
scale.register_autograd(
    lambda ctx, grad: (grad * ctx.by, None),
    setup_context=lambda ctx, inputs, output: setattr(ctx, "by", inputs[1]),
)

gate.register_fake(_like_x)
gate_backward.register_fake(lambda grad, x, y: (_like_x(x), _like_x(x)))


def _gate_setup(ctx: Any, inputs: Any, output: Any) -> None:
    x, y, bias = inputs
    ctx.biased = bias is not None
    ctx.save_for_backward(x, y if bias is None else y + bias)


def _gate_backward(ctx: Any, grad: Tensor) -> Any:
    of_x, of_y = gate_backward(grad.contiguous(), *ctx.saved_tensors)
    return of_x, of_y, of_y.sum_to_size(of_y.shape[-1:]) if ctx.biased else None


gate.register_autograd(_gate_backward, setup_context=_gate_setup)

cube.register_fake(lambda x: (_like_x(x), _like_x(x)))


def _cube_setup(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(inputs[0], output[1])


def _cube_backward(ctx: Any, grad: Tensor, grad_slope: Tensor) -> Tensor:
    x, slope = ctx.saved_tensors
    return grad * slope + grad_slope * 6 * x


cube.register_autograd(_cube_backward, setup_context=_cube_setup)

sum_along.register_fake(lambda x, dim: x.new_empty([*x.shape[:dim], *x.shape[dim + 1 :]]))


def _sum_setup(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.shape, ctx.dim = inputs[0].shape, inputs[1]


sum_along.register_autograd(
    lambda ctx, grad: (grad.unsqueeze(ctx.dim).expand(ctx.shape), None), setup_context=_sum_setup
)

mean_and_spread.register_fake(lambda x: (x.new_empty(x.shape[:-1]), x.new_empty(x.shape[:-1])))


def _spread_backward(ctx: Any, grad_mean: Tensor, grad_spread: Tensor) -> Tensor:
    (x,) = ctx.saved_tensors
    centered = x - x.mean(-1, keepdim=True)
    return (grad_mean[..., None] + 2 * centered * grad_spread[..., None]) / x.shape[-1]


mean_and_spread.register_autograd(_spread_backward, setup_context=_saved)

soft.register_fake(_like_x)
soft_backward.register_fake(_like_x)
soft.register_autograd(
    lambda ctx, grad: soft_backward(grad.contiguous(), ctx.saved_tensors[0]),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(output),
)

outer.register_fake(lambda x, y: x.new_empty(x.shape[0], y.shape[0]))


def _outer_backward(ctx: Any, grad: Tensor) -> Any:
    x, y = ctx.saved_tensors
    return grad @ y, grad.T @ x


outer.register_autograd(_outer_backward, setup_context=_saved)

pick.register_fake(lambda x, index: x.new_empty(index.shape[0], *x.shape[1:]))
pick_backward.register_fake(lambda grad, index, rows: grad.new_empty(rows, *grad.shape[1:]))


def _pick_setup(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.rows = inputs[0].shape[0]
    ctx.save_for_backward(inputs[1])


pick.register_autograd(
    lambda ctx, grad: (pick_backward(grad.contiguous(), ctx.saved_tensors[0], ctx.rows), None),
    setup_context=_pick_setup,
)

join.register_fake(lambda xs: xs[0].new_empty(sum(x.shape[0] for x in xs), *xs[0].shape[1:]))


def _join_setup(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.sizes = [x.shape[0] for x in inputs[0]]


join.register_autograd(
    lambda ctx, grad: [part.clone() for part in grad.split(ctx.sizes)], setup_context=_join_setup
)

add_.register_fake(lambda x, y: None)
count.register_fake(lambda labels, classes: labels.new_empty(classes))
shift.register_fake(_like_x)


def _same(count: int, *shapes: tuple[int, ...]) -> list[Any]:
    return [tuple(tensor(*shape) for _ in range(count)) for shape in shapes]


def _labels(*shape: int) -> Any:
    return tensor(*shape, dtype=INT, low=0, high=4)


OPS: dict[Any, list[Any]] = {
    scale: [(tensor(4, 5), 2.0), (tensor(3, 2, 6), -0.5)],
    gate: [
        *_same(2, (4, 5), (2, 3, 4)),
        Sample((tensor(4, 5), tensor(4, 5), tensor(5)), id="biased"),
    ],
    cube: _same(1, (6,), (3, 5)),
    sum_along: [(tensor(4, 5), 0), (tensor(4, 5), 1), (tensor(2, 3, 4), 1)],
    mean_and_spread: _same(1, (4, 6), (2, 3, 5)),
    soft: _same(1, (4, 6), (2, 3, 5)),
    outer: [(tensor(3), tensor(4)), (tensor(6), tensor(5))],
    pick: [
        (tensor(4, 3), tensor(6, dtype=INT, low=0, high=4)),
        (tensor(7, 2, 3), tensor(5, dtype=INT, low=0, high=7)),
    ],
    join: [([tensor(2, 3), tensor(4, 3)],), ([tensor(3, 2), tensor(2, 2), tensor(5, 2)],)],
    add_: _same(2, (5,), (3, 4)),
    count: [(_labels(9), 4), (_labels(3, 5), 6)],
    shift: [(tensor(6, dtype=INT, low=0, high=99), 2), (_labels(3, 4), 1)],
}
