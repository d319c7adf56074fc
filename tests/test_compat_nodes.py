"""`nodes`: each test fails when torch moves what it uses."""

from typing import Any

import torch
from torch import Tensor

from pytest_customop.compat.nodes import (
    is_generated,
    is_overwritten_view,
    is_without_formula,
    rejects_backward,
)

LIBRARY = torch.library.Library("t_compat_nodes", "DEF")
_buffer = torch.zeros(8)


@torch.library.custom_op("t_compat_nodes::custom", mutates_args=())
def _custom(x: Tensor) -> Tensor:
    return x * 2


@torch.library.custom_op("t_compat_nodes::kept", mutates_args=())
def _kept(x: Tensor) -> Tensor:
    return _buffer[: len(x)].copy_(x)


_kept.register_autograd(lambda ctx, grad: grad)


def test_the_nodes_of_ops_without_a_formula() -> None:
    x = torch.ones(3, requires_grad=True)
    LIBRARY.define("undifferentiated(Tensor x) -> Tensor")
    LIBRARY.impl("undifferentiated", torch.no_grad()(lambda x: x * 2), "CPU")
    warns = torch.ops.t_compat_nodes.undifferentiated(x)
    raises = torch.heaviside(x, torch.ones(()))
    for output in (warns, raises):
        assert output.requires_grad
        assert is_without_formula(output)
    assert rejects_backward(raises)
    assert not rejects_backward(warns)
    generated = torch.ops.t_compat_nodes.custom(x)
    assert is_generated(generated)
    for tensor in (generated, x * 2, x, torch.ones(3)):
        assert not is_without_formula(tensor)
        assert not rejects_backward(tensor)
        assert is_generated(tensor) is (tensor is generated)


class _Named(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.name = "an author's name"
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return 2 * grad


def test_a_formula_may_keep_a_name() -> None:
    output = _Named.apply(torch.ones(3, requires_grad=True))
    assert not is_without_formula(output)
    assert not rejects_backward(output)
    assert not is_generated(output)


def test_a_view_whose_memory_a_later_call_has_written_to() -> None:
    x = torch.ones(3, requires_grad=True)
    first = torch.ops.t_compat_nodes.kept(x)
    assert is_generated(first)
    second = torch.ops.t_compat_nodes.kept(x)
    assert is_overwritten_view(first)
    assert not is_overwritten_view(second)
    assert not is_generated(first)
