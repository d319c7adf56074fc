"""What docstrings say of numbers that equal a limit, and of groups without members."""

import math
from typing import Any

import pytest
import torch

from pytest_customop.cases.documented_groups import values_of_empty_groups
from pytest_customop.cases.documented_limits import side_of_limit
from pytest_customop.declare.ops import Op, resolve

_made: list[Op] = []


def op_with(text: str) -> Op:
    """An op with a limit, limits, a number of groups and their offsets, and a docstring."""

    def kernel(
        x: torch.Tensor,
        offsets: torch.Tensor,
        ends: torch.Tensor,
        radius: float,
        num_zones: int,
        a: int,
    ) -> torch.Tensor:
        return x.clone()

    kernel.__doc__ = text
    op: Any = torch.library.custom_op(f"t_limits::op{len(_made)}", kernel, mutates_args=())
    _made.append(resolve(op))
    return _made[-1]


@pytest.mark.parametrize(
    ("text", "argument", "side"),
    [
        ("Pairs at a distance of at most `radius`.", "radius", "-"),
        ("Pairs whose distance is <= radius.", "radius", "-"),
        ("Pairs whose distance is < radius.", "radius", "+"),
        ("Pairs that are closer than radius.", "radius", "+"),
        ("Pairs that are no farther than radius.", "radius", "-"),
        ("Pairs that are not closer than radius.", "radius", "+"),
        ("Events in (t - radius, t].", "radius", "+"),
        ("Events in [t - radius, t].", "radius", "-"),
        ("Events in [t, t + radius).", "radius", "+"),
        ("Events with t < ends[i].", "ends", "+"),
        ("Bin k is [ends[k], ends[k + 1]).", "ends", "+"),
        ("Bin k is (ends[k], ends[k + 1]].", "ends", "-"),
        ("Differences log(x[t + radius] / x[t]).", "radius", None),
        ("The radius must be at most 3. x within radius.", "radius", None),
        ("x must be < radius, or the op raises.", "radius", None),
        ("Those < radius count. Those <= radius are shown.", "radius", None),
        ("Two points at least a step apart.", "a", None),
    ],
)
def test_sides_of_limits(text: str, argument: str, side: str | None) -> None:
    found = side_of_limit(op_with(text), argument)
    assert (found and found[0]) == side


@pytest.mark.parametrize(
    ("text", "argument", "values"),
    [
        ("The mean of each zone, NaN for a zone that has none.", "num_zones", (math.nan,)),
        ("Zones without cells give 0; x is not changed.", "num_zones", (0.0,)),
        ("Empty zones get -inf.", "num_zones", (-math.inf,)),
        ("Empty bags give zeros.", "offsets", (0.0,)),
        ("The gradient of empty zones is 0.", "num_zones", None),
        ("The mean of each zone, from 0 on.", "num_zones", None),
        ("Without points the result is NaN.", "num_zones", None),
        ("Empty zones give 0.", "radius", None),
    ],
)
def test_values_of_empty_groups(text: str, argument: str, values: tuple[float, ...] | None) -> None:
    found = values_of_empty_groups(op_with(text), argument)
    assert repr(found and found[1]) == repr(values)
