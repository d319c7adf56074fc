"""What docstrings say that an op rejects, and what they do not say."""

from typing import Any

import pytest
import torch

from pytest_customop.cases.documented_errors import (
    may_equal_size,
    rejected_dtypes,
    rejected_positions,
)
from pytest_customop.declare.ops import Op, resolve

WHOLE = (torch.int32, torch.int64)
COMPLEX = (torch.complex64,)
_made: list[Op] = []


def op_with(text: str) -> Op:
    """An op of two tensors with a docstring."""

    def kernel(table: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        return table.clone()

    kernel.__doc__ = text
    op: Any = torch.library.custom_op(f"t_rejects::op{len(_made)}", kernel, mutates_args=())
    _made.append(resolve(op))
    return _made[-1]


@pytest.mark.parametrize(
    ("text", "dtypes"),
    [
        ("table: float32 or float64. Other dtypes raise TypeError.", (*WHOLE, *COMPLEX)),
        (
            "table: floats. Raises TypeError for other dtypes, ValueError for other shapes.",
            (*WHOLE, *COMPLEX),
        ),
        ("ids: int64. Raises TypeError for other dtypes, ValueError for other shapes.", None),
        ("table: float32 or float64 (TypeError otherwise)", (*WHOLE, *COMPLEX)),
        ("table: float32 or float64 (anything else raises TypeError)", (*WHOLE, *COMPLEX)),
        ("table: float32, ids: int64. Other dtypes raise.", COMPLEX),
        ("table: floating-point, real or complex. Other dtypes raise.", ()),
        ("table: float32, in fact any dtype. Other dtypes raise.", ()),
        ("table: float32. Other dtypes do not raise, and are cast.", None),
        ("table: float32 (N, D), N in [1, 8] (ValueError otherwise)", None),
        ("table: float32. Other dtypes are cast.", None),
        ("table: float32", None),
    ],
)
def test_dtypes_that_raise(text: str, dtypes: tuple[torch.dtype, ...] | None) -> None:
    rejected = rejected_dtypes(op_with(text))
    assert (rejected and rejected[1]) == dtypes


@pytest.mark.parametrize(
    ("text", "large"),
    [
        ("ids: (K,), in [0, N) (IndexError otherwise)", True),
        ("An id outside of [0, N) raises IndexError.", True),
        ("ids: (K,), rows; each is in [0, N), anything else raises IndexError.", True),
        ("ids out of range raise.", True),
        ("Each of ids must lie in [0, N); a ValueError is raised otherwise.", True),
        ("Each of ids is in [0, N), otherwise IndexError is raised.", True),
        ("Each of ids is in [0, N); a ValueError is raised for other shapes.", None),
        ("ValueError for malformed ids, IndexError for rows out of range.", None),
        ("A negative id raises IndexError.", False),
        ("Raises IndexError for an id < 0, ValueError for other shapes.", False),
        ("ids: (K,), in [0, N); -1 is padding and gives zeros. Others raise IndexError.", None),
        ("An id outside of [0, N) is ignored.", None),
        ("ids: (K,), in [0, N)", None),
        ("A negative count raises ValueError.", None),
        ("A table and ids that are out of range raise.", None),
    ],
)
def test_positions_that_raise(text: str, large: bool | None) -> None:
    rejected = rejected_positions(op_with(text), "ids")
    assert (rejected and rejected[1]) == large


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ids: (B,), where each part begins, <= K", True),
        ("ids: in [0, N], N is none", True),
        ("ids: up to N", True),
        ("ids: 0 <= ids < N", False),
        ("ids: in [0, N)", False),
    ],
)
def test_positions_that_may_be_a_size(text: str, said: bool) -> None:
    assert may_equal_size(op_with(text), "ids") is said
