"""Angles from positions, beside numbers of half precision."""

import functools

import torch
from torch import Tensor

from pytest_customop import tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager", requires_grad=[False])
LOST = {"relations.position_digits": "positions-lose-digits"}
TOKENS = (tensor(5, 8, dtype=torch.bfloat16), torch.tensor([0, 1, 2, 7, 30]))
SAID = "any absolute position in the context"


def _rotated(name, angles, said=SAID):
    """Channels turned by angles; `angles(x, positions)` gives the positions as floats."""

    def kernel(x: Tensor, positions: Tensor) -> Tensor:
        if x.dim() != 2 or x.shape[1] % 2 or not x.is_floating_point():
            raise ValueError("rows of pairs, please")
        if positions.shape != x.shape[:1] or positions.dtype != torch.int64:
            raise ValueError("an int64 position for each row, please")
        half = x.shape[1] // 2
        frequency = 1e4 ** -(torch.arange(half) / max(half, 1))
        angle = angles(x, positions).to(torch.float32)[:, None] * frequency
        left, right = x.float().chunk(2, 1)
        turned = (
            left * angle.cos() - right * angle.sin(),
            right * angle.cos() + left * angle.sin(),
        )
        return torch.cat(turned, 1).to(x.dtype).contiguous()

    kernel.__doc__ = f"""Channels turned by the position.

    Args:
        x: (T, D), D even.
        positions: (T,) int64, {said}.
    """
    op = torch.library.custom_op(f"zoo::{name}", kernel, mutates_args=())
    op.register_fake(lambda x, positions: x.new_empty(x.shape))
    return op


@aot(TOKENS, expected=LOST)
def positions_in_the_dtype_of_numbers():
    """bfloat16 has no position 1001."""
    return _rotated("positions_in_the_dtype_of_numbers", lambda x, positions: positions.to(x.dtype))


@aot(TOKENS, twin_of="positions_in_the_dtype_of_numbers")
def positions_in_float32():
    """All positions up to 2**24."""
    return _rotated("positions_in_float32", lambda x, positions: positions.float())


@aot(TOKENS, notes=LOST)
def positions_of_which_nothing_is_said():
    """Only its author knows how large they are."""
    return _rotated(
        "positions_of_which_nothing_is_said", lambda x, positions: positions.to(x.dtype), "one each"
    )


@aot((tensor(5, 8, dtype=torch.float16, low=1, high=9), torch.tensor([0, 1, 2, 7, 30])))
def biases_that_grow_with_positions():
    """Correct: for large positions the results themselves exceed half precision."""

    @torch.library.custom_op("zoo::biases_that_grow_with_positions", mutates_args=())
    def op(slopes: Tensor, positions: Tensor) -> Tensor:
        """slopes (T, H) times positions (T,) int64, any absolute position."""
        if (
            slopes.dim() != 2
            or positions.shape != slopes.shape[:1]
            or positions.is_floating_point()
        ):
            raise ValueError("slopes, and a position for each row, please")
        return (slopes.float() * positions[:, None]).to(slopes.dtype).contiguous()

    op.register_fake(lambda slopes, positions: slopes.new_empty(slopes.shape))
    return op
