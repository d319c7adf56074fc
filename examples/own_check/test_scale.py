"""The check `batch.independent` of this folder's conftest runs here like every built-in one.

pytest examples/own_check --customop-checks=batch
"""

import torch

from pytest_customop import customop_cases, tensor


@torch.library.custom_op("examples::scale", mutates_args=())
def scale(x: torch.Tensor, factor: float) -> torch.Tensor:
    return x * factor


@scale.register_fake
def _(x: torch.Tensor, factor: float) -> torch.Tensor:
    return torch.empty_like(x)


def _setup(ctx, inputs, output):
    ctx.factor = inputs[1]


scale.register_autograd(lambda ctx, grad: (grad * ctx.factor, None), setup_context=_setup)


@customop_cases(scale, samples=[(tensor(4, 3), 2.0), (tensor(6), -0.5)])
def test_scale(): ...
