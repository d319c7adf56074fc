"""Correct ops that are easy to misjudge: by their arguments, sizes and outputs."""

from typing import List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from pytest_customop import Sample, tensor

from .registry import library, specimen

MATRIX = tensor(4, 3)


@specimen((tensor(3, 8, 8),), (tensor(3, 5, 7),))
def needs_three_channels():
    """Correct: works with three channels only, and both kernels say so."""

    def refuse(image):
        if image.shape[0] != 3:
            raise ValueError(f"three channels, not {image.shape[0]}")

    @torch.library.custom_op("zoo::needs_three_channels", mutates_args=())
    def grey(image: Tensor) -> Tensor:
        refuse(image)
        return (image[0] + image[1] + image[2]) / 3

    @grey.register_fake
    def _(image):
        refuse(image)
        return torch.empty_like(image[0])

    grey.register_autograd(lambda ctx, grad: (grad / 3).expand(3, *grad.shape))
    return grey


@specimen(
    (tensor(4, 6), 6),
)
def size_tied_to_an_argument():
    """Correct: the last size must be the int argument."""

    def refuse(x, size):
        if x.shape[-1] != size:
            raise ValueError(f"the last size must be {size}")

    @torch.library.custom_op("zoo::size_tied_to_an_argument", mutates_args=())
    def scale(x: Tensor, size: int) -> Tensor:
        refuse(x, size)
        return x / size

    @scale.register_fake
    def _(x, size):
        refuse(x, size)
        return torch.empty_like(x)

    def setup(ctx, inputs, output):
        ctx.size = inputs[1]

    scale.register_autograd(lambda ctx, grad: (grad / ctx.size, None), setup_context=setup)
    return scale


def _with_indices(name, order):
    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def largest(x: Tensor) -> Tuple[Tensor, Tensor]:
        if x.dim() != 2:
            raise ValueError("a matrix, please")
        return order(*x.max(1))

    @largest.register_fake
    def _(x):
        return order(x.new_empty(x.shape[0]), x.new_empty(x.shape[0], dtype=torch.int64))

    def setup(ctx, inputs, output):
        _, indices = order(*output)
        ctx.save_for_backward(indices)
        ctx.mark_non_differentiable(indices)
        ctx.columns = inputs[0].shape[1]

    def backward(ctx, *grads):
        grad, _ = order(*grads)
        (indices,) = ctx.saved_tensors
        zeros = grad.new_zeros(grad.shape[0], ctx.columns)
        return zeros.scatter(1, indices[:, None], grad[:, None])

    largest.register_autograd(backward, setup_context=setup)
    return largest


@specimen((MATRIX,))
def float_then_integer_output():
    """Correct: a differentiable output and then an integer one."""
    return _with_indices("float_then_integer_output", lambda first, second: (first, second))


@specimen((MATRIX,), skips={"opcheck.test_aot_dispatch_dynamic": "checker-limit"})
def integer_then_float_output():
    """Correct: an integer output and then a differentiable one."""
    return _with_indices("integer_then_float_output", lambda first, second: (second, first))


@specimen((MATRIX,))
def boolean_output():
    """Correct: returns booleans."""

    @torch.library.custom_op("zoo::boolean_output", mutates_args=())
    def is_positive(x: Tensor) -> Tensor:
        return x > 0

    is_positive.register_fake(lambda x: torch.empty_like(x, dtype=torch.bool))
    return is_positive


@specimen((tensor(0, 3),), (tensor(),), (tensor(4, 1),))
def any_size():
    """Correct: takes tensors with no elements, one element and no dims."""

    @torch.library.custom_op("zoo::any_size", mutates_args=())
    def double(x: Tensor) -> Tensor:
        return x * 2

    double.register_fake(lambda x: torch.empty_like(x))
    double.register_autograd(lambda ctx, grad: grad * 2)
    return double


@specimen(
    (tensor(values=[0.0, 1.0, 0.0, 2.0]),),
    (tensor(5, 3),),
)
def size_depends_on_data():
    """Correct: as many rows as there are elements that are not zero."""

    @torch.library.custom_op("zoo::size_depends_on_data", mutates_args=())
    def places(x: Tensor) -> Tensor:
        return x.nonzero().contiguous()

    @places.register_fake
    def _(x):
        count = torch.library.get_ctx().new_dynamic_size()
        return x.new_empty(count, x.dim(), dtype=torch.int64)

    return places


@specimen((MATRIX, None), (MATRIX, tensor(3)))
def optional_tensor():
    """Correct: the second tensor may be None."""

    @torch.library.custom_op("zoo::optional_tensor", mutates_args=())
    def add(x: Tensor, bias: Optional[Tensor]) -> Tensor:
        return x.clone() if bias is None else x + bias

    add.register_fake(lambda x, bias: torch.empty_like(x if bias is None else x + bias))

    def setup(ctx, inputs, output):
        ctx.has_bias = inputs[1] is not None

    def backward(ctx, grad):
        return grad.clone(), grad.sum(0) if ctx.has_bias else None

    add.register_autograd(backward, setup_context=setup)
    return add


@specimen(([tensor(4, 3), tensor(2, 5)],), ([tensor(3)],))
def lists_of_tensors():
    """Correct: takes and returns a list of tensors of different sizes."""

    @torch.library.custom_op("zoo::lists_of_tensors", mutates_args=())
    def squares(xs: Sequence[Tensor]) -> List[Tensor]:
        return [x * x for x in xs]

    squares.register_fake(lambda xs: [torch.empty_like(x) for x in xs])

    def setup(ctx, inputs, output):
        ctx.save_for_backward(*inputs[0])

    def backward(ctx, grads):
        return [2 * x * grad for x, grad in zip(ctx.saved_tensors, grads, strict=True)]

    squares.register_autograd(backward, setup_context=setup)
    return squares


@specimen(
    Sample((MATRIX,), {"factor": 3.0}),
    Sample((MATRIX,), {"factor": -1.0, "negate": True}, id="negated"),
)
def keyword_only_arguments():
    """Correct: a keyword-only float, and a keyword-only bool with a default."""

    @torch.library.custom_op("zoo::keyword_only_arguments", mutates_args=())
    def scale(x: Tensor, *, factor: float, negate: bool = False) -> Tensor:
        return x * (-factor if negate else factor)

    scale.register_fake(lambda x, *, factor, negate=False: torch.empty_like(x))

    def setup(ctx, inputs, keyword_only_inputs, output):
        factor, negate = keyword_only_inputs["factor"], keyword_only_inputs["negate"]
        ctx.factor = -factor if negate else factor

    scale.register_autograd(lambda ctx, grad: grad * ctx.factor, setup_context=setup)
    return scale


@specimen((MATRIX, tensor(4, 3)), (tensor(0, 3), tensor(0, 3)))
def writes_to_out():
    """Correct: writes into a tensor that it is given, declares it and returns nothing."""

    @torch.library.custom_op("zoo::writes_to_out", mutates_args={"out"})
    def double(x: Tensor, out: Tensor) -> None:
        torch.mul(x, 2, out=out)

    double.register_fake(lambda x, out: None)
    return double


@specimen((MATRIX,))
def in_place():
    """Correct: changes its only argument, declares it and returns nothing."""

    @torch.library.custom_op("zoo::in_place", mutates_args={"x"})
    def double(x: Tensor) -> None:
        x.mul_(2)

    double.register_fake(lambda x: None)
    return double


@specimen((MATRIX,))
def only_looks():
    """Correct: looks at its argument and returns nothing; it is registered to have a side effect."""

    @torch.library.custom_op("zoo::only_looks", mutates_args=())
    def look(x: Tensor) -> None:
        float(x.sum())

    look.register_fake(lambda x: None)
    torch.fx.node.has_side_effect(torch.ops.zoo.only_looks.default)
    return look


@specimen((MATRIX,))
def inference_only():
    """Correct: a library op that refuses inputs which require gradients."""
    lib = library()
    lib.define("inference_only(Tensor x) -> Tensor")

    def double(x):
        if x.requires_grad and torch.is_grad_enabled():
            raise RuntimeError("for inference only")
        return x * 2

    lib.impl("inference_only", double, "CPU")
    torch.library.register_fake("zoo::inference_only", torch.empty_like, lib=lib)
    return torch.ops.zoo.inference_only.default


@specimen((MATRIX,), layouts=["transposed", "row_padded", "offset"])
def keeps_the_layout():
    """Correct: dense output for dense input, in any layout, as empty_like says."""

    @torch.library.custom_op("zoo::keeps_the_layout", mutates_args=())
    def double(x: Tensor) -> Tensor:
        return x * 2

    double.register_fake(lambda x: torch.empty_like(x))
    double.register_autograd(lambda ctx, grad: grad * 2)
    return double
