"""What `compat` says of vmap and autocast rules."""

import pytest
import torch

from pytest_customop import compat
from pytest_customop.declare import ops


def _op(name: str) -> compat.OpOverload:
    made = torch.library.custom_op(
        f"t_compat_more::{name}", torch.sin, mutates_args=(), schema="(Tensor x) -> Tensor"
    )
    return ops.resolve(made).overload


@pytest.mark.skipif(not hasattr(torch.library, "register_vmap"), reason="from torch 2.5 on")
def test_a_vmap_rule_is_seen() -> None:
    op = _op("batched")
    assert not compat.has_vmap_rule(op)
    torch.library.register_vmap(op, lambda info, in_dims, x: (x.sin(), in_dims[0]))
    assert compat.has_vmap_rule(op)


@pytest.mark.skipif(not hasattr(torch.library, "register_autocast"), reason="from torch 2.6 on")
def test_an_autocast_rule_is_seen_on_its_device() -> None:
    op = _op("lowered")
    assert not compat.has_autocast_rule(op, "cpu")
    torch.library.register_autocast(op, "cpu", torch.bfloat16)
    assert compat.has_autocast_rule(op, "cpu")
    assert not compat.has_autocast_rule(op, "cuda")
    assert not compat.has_autocast_rule(op, "meta")


def test_an_op_without_rules_has_none() -> None:
    op = _op("plain")
    assert not compat.has_vmap_rule(op)
    assert not compat.has_autocast_rule(op, "cpu")
