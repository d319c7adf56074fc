"""Ops that are right for the example and for each change of it alone, and wrong for two changes at once."""

import torch
from torch import Tensor

from .variants import MATRIX, SHAPE, specimen

# The checks of pairs that call the op, and need no gradients.
CALLING = (
    *("fake.forward", "relations.overflow"),
    *("values.aliasing", "values.mutation", "values.uninitialized"),
)


def _halved(name, fake_size):
    """Maxima of two columns each; a flag says what becomes of a last column that is left over."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def halved(x: Tensor, ceil: bool = False) -> Tensor:
        if x.dim() != 2 or x.shape[1] < 2:
            raise ValueError("a matrix of two columns or more, please")
        pool = torch.nn.functional.max_pool1d
        return pool(x.unsqueeze(1), 2, ceil_mode=ceil).squeeze(1).contiguous()

    def fake(x: Tensor, ceil: bool = False) -> Tensor:
        if x.shape[1] < 2:
            raise ValueError("a matrix of two columns or more, please")
        return x.new_empty(x.shape[0], fake_size(x.shape[1], ceil))

    halved.register_fake(fake)
    return halved


@specimen(
    (MATRIX,),
    variant_findings=SHAPE | {"fake.symbolic": "fake-size-hardcoded"},
    shown_by="ceil.true+odd+transposed",
)
def fake_ignores_ceil():
    """The fake kernel leaves out a last column also where the flag keeps it."""
    return _halved("fake_ignores_ceil", lambda size, ceil: size // 2)


@specimen((MATRIX,), twin_of="fake_ignores_ceil")
def fake_minds_ceil():
    """Both kernels keep it."""
    return _halved("fake_minds_ceil", lambda size, ceil: -(-size // 2) if ceil else size // 2)


def _step(name, slope):
    """A step down, or up, with decay; `slope(x, decay, up)` is what the gradient is multiplied by."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def step(x: Tensor, decay: float = 0.0, up: bool = False) -> Tensor:
        return (x.sin() if up else -x.sin()) + decay * x

    step.register_fake(lambda x, decay=0.0, up=False: torch.empty_like(x))

    def setup(ctx, inputs, output):
        x, ctx.decay, ctx.up = inputs
        ctx.save_for_backward(x)

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * slope(x, ctx.decay, ctx.up), None, None

    step.register_autograd(backward, setup_context=setup)
    return step


@specimen(
    (MATRIX,),
    variant_findings={"gradcheck.backward": "gradient-mismatch"},
    shown_by="decay.0.1+up.true+transposed",
)
def turns_the_decay_too():
    """The backward turns the sign of the decay where it steps up."""
    return _step("turns_the_decay_too", lambda x, decay, up: (x.cos() - decay) * (1 if up else -1))


@specimen((MATRIX,), twin_of="turns_the_decay_too")
def turns_the_step_alone():
    """The decay keeps its sign."""
    return _step("turns_the_step_alone", lambda x, decay, up: x.cos() * (1 if up else -1) + decay)


def _normalized(name, unchanged):
    """Rows without their mean, and of deviation 1; `unchanged(x)` is returned where neither is asked."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def normalized(x: Tensor, center: bool = True, scale: bool = True) -> Tensor:
        if not center and not scale:
            return unchanged(x)
        if center:
            x = x - x.mean(-1, keepdim=True)
        return x / (1 + x.abs().amax(-1, keepdim=True)) if scale else x

    normalized.register_fake(lambda x, center=True, scale=True: torch.empty_like(x))
    return normalized


@specimen(
    (MATRIX,),
    variant_findings=dict.fromkeys(CALLING, "output-alias-rejected"),
    shown_by="center.false+scale.false+odd",
)
def returns_what_is_left_as_it_is():
    """Returns its argument where both flags are off."""
    return _normalized("returns_what_is_left_as_it_is", lambda x: x)


@specimen((MATRIX,), twin_of="returns_what_is_left_as_it_is")
def copies_what_is_left_as_it_is():
    """Returns a copy of it."""
    return _normalized("copies_what_is_left_as_it_is", torch.clone)
