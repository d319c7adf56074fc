"""Elementwise functions. Results are contiguous."""

import torch
from torch import Tensor


@torch.library.custom_op("oplib::swiglu", mutates_args=())
def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """`silu(gate) * up` for tensors of one shape and dtype."""
    torch._check(gate.shape == up.shape, lambda: "gate and up must have the same shape")
    torch._check(gate.dtype == up.dtype, lambda: "gate and up must have the same dtype")
    return (gate * torch.sigmoid(gate) * up).contiguous()


@swiglu.register_fake
def _(gate, up):
    torch._check(gate.shape == up.shape, lambda: "gate and up must have the same shape")
    torch._check(gate.dtype == up.dtype, lambda: "gate and up must have the same dtype")
    return gate.new_empty(gate.shape)


def _swiglu_backward(ctx, grad):
    gate, up = ctx.saved_tensors
    sigmoid = torch.sigmoid(gate)
    grad_gate = grad * up * sigmoid * (1 + gate * (1 - sigmoid))
    return grad_gate, grad * gate * sigmoid


swiglu.register_autograd(
    _swiglu_backward,
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
)


@torch.library.custom_op("oplib::softcap", mutates_args=())
def softcap(x: Tensor, cap: float = 30.0) -> Tensor:
    """`cap * tanh(x / cap)`."""
    torch._check(cap > 0, lambda: "cap must be positive")
    return (cap * torch.tanh(x / cap)).contiguous()


@softcap.register_fake
def _(x, cap=30.0):
    torch._check(cap > 0, lambda: "cap must be positive")
    return x.new_empty(x.shape)


def _softcap_setup(ctx, inputs, output):
    x, ctx.cap = inputs
    ctx.save_for_backward(x)


def _softcap_backward(ctx, grad):
    (x,) = ctx.saved_tensors
    return grad * (1 - torch.tanh(x / ctx.cap).square()), None


softcap.register_autograd(_softcap_backward, setup_context=_softcap_setup)
