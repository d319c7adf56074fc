"""Backwards that are wrong for some of the inputs."""

import functools

import torch
from torch import Tensor

from pytest_customop import tensor

from . import registry

# These are about formulas: a backend that generates no code tells as much, and sooner.
specimen = functools.partial(registry.specimen, backend="aot_eager")

MATRIX = tensor(4, 3)
NO_FLOAT64 = {"gradcheck.backward": "no-float64", "gradcheck.double": "no-float64"}


def _product(name, backward, kernel=torch.mul):
    """A product; `backward(ctx, x, w, grad)` is its formula."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def product(x: Tensor, w: Tensor) -> Tensor:
        return kernel(x, w)

    product.register_fake(lambda x, w: x * w)
    product.register_autograd(
        lambda ctx, grad: backward(ctx, *ctx.saved_tensors, grad),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    return product


@specimen((MATRIX, MATRIX), expected={"backward.subsets": "needs-input-grad-mishandled"})
def frozen_input_stops_all():
    """Where the first input needs no gradient, the second gets none either."""

    def backward(ctx, x, w, grad):
        if not ctx.needs_input_grad[0]:
            return None, None
        return grad * w, grad * x

    return _product("frozen_input_stops_all", backward)


@specimen((MATRIX, MATRIX), expected={"backward.subsets": "needs-input-grad-mishandled"})
def frozen_input_shifts_gradients():
    """Collects the gradients that are needed, and so gives them to the wrong inputs."""

    def backward(ctx, x, w, grad):
        pairs = zip(ctx.needs_input_grad, (grad * w, grad * x), strict=True)
        gradients = [gradient for needed, gradient in pairs if needed]
        return (*gradients, None)[:2]

    return _product("frozen_input_shifts_gradients", backward)


@specimen((MATRIX, MATRIX), twin_of=("frozen_input_stops_all", "frozen_input_shifts_gradients"))
def frozen_input():
    """Each gradient is computed where its own input needs one."""

    def backward(ctx, x, w, grad):
        first, second = ctx.needs_input_grad
        return grad * w if first else None, grad * x if second else None

    return _product("frozen_input", backward)


def _single(x, w):
    if (x.dtype, w.dtype) != (torch.float32, torch.float32):
        raise TypeError("float32 only")
    return x * w


@specimen((MATRIX, MATRIX), expected={"backward.narrow": "gradient-missing"}, skips=NO_FLOAT64)
def single_precision_without_a_gradient():
    """Takes float32 only, so that gradcheck cannot be had; the second input gets no gradient."""
    name = "single_precision_without_a_gradient"
    return _product(name, lambda ctx, x, w, grad: (grad * w, None), _single)


@specimen((MATRIX, MATRIX), expected={"backward.narrow": "gradient-mismatch"}, skips=NO_FLOAT64)
def single_precision_with_the_wrong_sign():
    """Takes float32 only; the gradient of the second input has the wrong sign."""
    name = "single_precision_with_the_wrong_sign"
    return _product(name, lambda ctx, x, w, grad: (grad * w, -grad * x), _single)


@specimen(
    (MATRIX, MATRIX),
    skips=NO_FLOAT64,
    twin_of=("single_precision_without_a_gradient", "single_precision_with_the_wrong_sign"),
)
def single_precision():
    """Takes float32 only; both gradients are right."""
    return _product("single_precision", lambda ctx, x, w, grad: (grad * w, grad * x), _single)


def _add(name, reduce):
    """Adds a row to every row; `reduce(grad, row)` is the gradient of the row."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def add(x: Tensor, row: Tensor) -> Tensor:
        return x + row

    add.register_fake(lambda x, row: x + row)
    add.register_autograd(
        lambda ctx, grad: (grad.clone(), reduce(grad, *ctx.saved_tensors)),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[1]),
    )
    return add


RAISES = dict.fromkeys(
    (
        "gradcheck.backward",
        "backward.linear",
        "opcheck.test_aot_dispatch_dynamic",
        "compile.static",
        "compile.dynamic",
        "fake.backward",
    ),
    "backward-raises",
)


@specimen((MATRIX, tensor(3)), expected=RAISES, skips={"gradcheck.double": "no-first-order"})
def gradient_of_the_wrong_shape():
    """The gradient of a row of three has four elements."""
    return _add("gradient_of_the_wrong_shape", lambda grad, row: grad.sum(1))


@specimen((MATRIX, tensor(3)), expected=RAISES, skips={"gradcheck.double": "no-first-order"})
def gradient_on_another_device():
    """The gradient is not on the device of its input."""
    return _add("gradient_on_another_device", lambda grad, row: grad.sum(0).to("meta"))


@specimen(
    (MATRIX, tensor(3)),
    expected={
        "backward.linear": "backward-not-linear",
        "backward.second_order": "second-order-lost",
    },
    skips={"gradcheck.double": "no-second-order"},
)
def gradient_of_another_dtype():
    """The gradient comes as integers, which autograd casts back without a word."""
    return _add("gradient_of_another_dtype", lambda grad, row: grad.sum(0).round().long())


@specimen(
    (MATRIX, tensor(3)),
    twin_of=(
        "gradient_of_the_wrong_shape",
        "gradient_on_another_device",
        "gradient_of_another_dtype",
    ),
)
def gradient_like_its_input():
    """The gradient has the shape, dtype and device of the row."""
    return _add("gradient_like_its_input", lambda grad, row: grad.sum(0))


@specimen((MATRIX, tensor(3)))
def gradient_left_to_be_summed():
    """Correct: autograd sums and casts a gradient that is too large, compiled or not."""
    return _add("gradient_left_to_be_summed", lambda grad, row: grad.double())
