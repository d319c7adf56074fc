"""Wrong first-order formulas."""

import functools

import torch
from torch import Tensor

from pytest_customop import GradOptions, tensor

from . import registry

# These are about formulas: a backend that generates no code tells as much, and sooner.
specimen = functools.partial(registry.specimen, backend="aot_eager")

MATRIX = tensor(4, 3)


def _op(name, kernel, backward):
    """An op of one tensor, `backward(x, grad)` its formula."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def op(x: Tensor) -> Tensor:
        return kernel(x)

    op.register_fake(lambda x: torch.empty_like(x))

    def setup(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    op.register_autograd(lambda ctx, grad: backward(*ctx.saved_tensors, grad), setup_context=setup)
    return op


def _described(kernel, backward):
    """An op of one tensor whose kernel has the op's name, and a docstring of its own."""
    op = torch.library.custom_op(f"zoo::{kernel.__name__}", kernel, mutates_args=())
    op.register_fake(lambda x: x.new_empty(x.shape))
    op.register_autograd(
        lambda ctx, grad: backward(*ctx.saved_tensors, grad),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    return op


def _sine(name, backward):
    return _op(name, torch.sin, backward)


@specimen((MATRIX,), expected={"gradcheck.backward": "gradient-mismatch"})
def sine_with_the_wrong_sign():
    """The gradient of the sine has the wrong sign."""
    return _sine("sine_with_the_wrong_sign", lambda x, grad: -grad * x.cos())


@specimen(
    (MATRIX,),
    twin_of=(
        "sine_with_the_wrong_sign",
        "backward_returns_too_much",
        "backward_clips",
        "backward_ignores_grad_output",
    ),
)
def sine_with_the_right_sign():
    """The gradient of the sine is the cosine."""
    return _sine("sine_with_the_right_sign", lambda x, grad: grad * x.cos())


@specimen((tensor(3, 100, 100),), expected={"gradcheck.backward": "gradient-mismatch"})
def one_element_forgotten():
    """The gradient of one element of 30000 is zero."""

    def backward(x, grad):
        gradient = grad * x.cos()
        mask = torch.ones_like(x)
        mask[1, 50, 50] = 0
        return gradient * mask

    return _sine("one_element_forgotten", backward)


@specimen((tensor(3, 100, 100),), twin_of="one_element_forgotten")
def no_element_forgotten():
    """The same size, with every element's gradient."""
    return _sine("no_element_forgotten", lambda x, grad: grad * x.cos())


def _product(name, backward):
    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def product(x: Tensor, y: Tensor) -> Tensor:
        return x * y

    product.register_fake(lambda x, y: x * y)

    def setup(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    product.register_autograd(
        lambda ctx, grad: backward(*ctx.saved_tensors, grad), setup_context=setup
    )
    return product


@specimen((MATRIX, MATRIX), expected={"gradcheck.backward": "gradient-mismatch"})
def product_with_swapped_gradients():
    """The gradients come in the wrong order."""
    return _product("product_with_swapped_gradients", lambda x, y, grad: (grad * x, grad * y))


@specimen((MATRIX, MATRIX), expected={"gradcheck.backward": "gradient-missing"})
def product_without_the_second_gradient():
    """The second input gets no gradient."""
    return _product("product_without_the_second_gradient", lambda x, y, grad: (grad * y, None))


@specimen(
    (MATRIX, MATRIX),
    twin_of=("product_with_swapped_gradients", "product_without_the_second_gradient"),
)
def product():
    """Each input's gradient is grad_output times the other input."""
    return _product("product", lambda x, y, grad: (grad * y, grad * x))


@specimen(
    (MATRIX,),
    dtypes=[torch.complex128],
    expected={"gradcheck.backward": "gradient-mismatch"},
)
def square_without_conjugation():
    """The gradient of a complex square is not conjugated."""
    return _op("square_without_conjugation", torch.square, lambda x, grad: 2 * x * grad)


@specimen((MATRIX,), dtypes=[torch.complex128], twin_of="square_without_conjugation")
def square_with_conjugation():
    """The gradient of a complex square is conjugated."""
    return _op("square_with_conjugation", torch.square, lambda x, grad: 2 * x.conj() * grad)


def _quantise(x):
    return (x * 255).round() / 255


@specimen(
    (tensor(4, 3, low=0, high=1),),
    requires_grad=True,
    expected={"gradcheck.backward": "gradient-of-a-step-function"},
)
def rounds_to_a_grid():
    """Rounds to a grid, and passes gradients straight through, where its mark asks for gradients."""
    return _op("rounds_to_a_grid", _quantise, lambda x, grad: grad.clone())


@specimen(
    (MATRIX,),
    requires_grad=True,
    notes={"gradcheck.backward": "gradient-of-a-step-function"},
)
def signs_straight_through():
    """The mark asks for gradients, and the kernel's docstring says that they are an estimate."""

    @torch.library.custom_op("zoo::signs_straight_through", mutates_args=())
    def op(x: Tensor) -> Tensor:
        """The signs of what is larger than a threshold, with a straight-through gradient."""
        return x.sign() * (x.abs() > 0.7)

    op.register_fake(torch.empty_like)
    op.register_autograd(lambda ctx, grad: grad.clone())
    return op


@specimen((MATRIX,), requires_grad=True, notes={"gradcheck.backward": "gradient-mismatch"})
def reverses_gradients():
    """The kernel's docstring says that the gradient is reversed on purpose."""

    @torch.library.custom_op("zoo::reverses_gradients", mutates_args=())
    def op(x: Tensor) -> Tensor:
        """A copy; the backward deliberately gives the negative of its gradient."""
        return x.clone()

    op.register_fake(torch.empty_like)
    op.register_autograd(lambda ctx, grad: -grad)
    return op


@specimen((MATRIX,), requires_grad=True, notes={"gradcheck.backward": "gradient-mismatch"})
def scales_what_flows_back():
    """The kernel's docstring says that the number concerns the backward alone."""

    @torch.library.custom_op("zoo::scales_what_flows_back", mutates_args=())
    def op(x: Tensor) -> Tensor:
        """A copy; its gradient is multiplied by 0.5, which has no effect on the forward."""
        return x.clone()

    op.register_fake(torch.empty_like)
    op.register_autograd(lambda ctx, grad: grad * 0.5)
    return op


def _looks_up(name, docstring, frozen=(0,)):
    def kernel(table: Tensor, ids: Tensor) -> Tensor:
        return table[ids]

    kernel.__doc__ = docstring
    rows = torch.library.custom_op(f"zoo::{name}", kernel, mutates_args=())
    rows.register_fake(lambda table, ids: table.new_empty(*ids.shape, *table.shape[1:]))

    def backward(ctx, grad):
        (ids,) = ctx.saved_tensors
        result = grad.new_zeros(ctx.shape).index_add(
            0, ids.reshape(-1), grad.reshape(-1, ctx.shape[1])
        )
        result[list(frozen)] = 0
        return result, None

    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[1])
        ctx.shape = inputs[0].shape

    rows.register_autograd(backward, setup_context=setup_context)
    return rows


ROWS = (tensor(4, 3), torch.tensor([0, 2, 3, 2]))
NO_SIZE = {"fake.symbolic": "no-second-size"}  # a position may be too large for fewer rows


@specimen(
    ROWS,
    requires_grad=True,
    skips=NO_SIZE,
    notes={"gradcheck.backward": "gradient-mismatch"},
    variant_notes={"gradcheck.backward": "gradient-missing"},
    shown_by="ids.lowest",
)
def freezes_a_row():
    """Gives the first row no gradient, as its docstring says."""
    return _looks_up("freezes_a_row", "Rows of a table. Row 0 is frozen: it never gets a gradient.")


@specimen(
    ROWS, requires_grad=True, skips=NO_SIZE, expected={"gradcheck.backward": "gradient-mismatch"}
)
def forgets_a_row():
    """Gives the first row no gradient, by mistake."""
    return _looks_up("forgets_a_row", "Rows of a table.")


@specimen(ROWS, requires_grad=True, skips=NO_SIZE, twin_of=("forgets_a_row", "freezes_a_row"))
def looks_up_every_row():
    """Gives each row its gradient."""
    return _looks_up("looks_up_every_row", "Rows of a table.", frozen=())


@specimen((MATRIX,), requires_grad=True, expected={"gradcheck.backward": "gradient-mismatch"})
def has_the_wrong_sign():
    """The same gradient by mistake."""
    return _op("has_the_wrong_sign", torch.clone, lambda x, grad: -grad)


@specimen((MATRIX,), requires_grad=True, twin_of="has_the_wrong_sign")
def has_the_right_sign():
    """A copy, with its gradient."""
    return _op("has_the_right_sign", torch.clone, lambda x, grad: grad.clone())


@specimen(
    (tensor(4, 3, low=0, high=1),), notes={"gradcheck.backward": "gradient-of-a-step-function"}
)
def rounds_to_a_grid_unasked():
    """The same op, and nothing asks for gradients."""
    return _op("rounds_to_a_grid_unasked", _quantise, lambda x, grad: grad.clone())


def _round_rows(x):
    if x.dim() != 2 or x.shape[1] == 0:
        raise ValueError("rows, please")
    step = x.abs().amax(1, keepdim=True).clamp(min=1e-9) / 127
    return (x / step).round() * step


@specimen((MATRIX,), notes={"gradcheck.backward": "gradient-of-a-step-function"})
def rounds_rows_straight_through():
    """Rounds each row to a grid of its own, and passes gradients straight through."""
    return _op("rounds_rows_straight_through", _round_rows, lambda x, grad: grad.clone())


@specimen(
    (tensor(values=[[0.0, 0.2, 0.4], [0.6, 0.8, 1.0]]),),
    dtypes=[torch.float64],
    gradcheck=GradOptions(eps=8 / 255),
    twin_of="rounds_to_a_grid",
)
def rounds_to_a_grid_on_the_grid():
    """The same op, with values on its grid and a step that is a multiple of the grid's."""
    return _op("rounds_to_a_grid_on_the_grid", _quantise, lambda x, grad: grad.clone())


@specimen(
    (MATRIX,),
    expected={
        "gradcheck.backward": "backward-raises",
        "backward.linear": "backward-raises",
        "opcheck.test_aot_dispatch_dynamic": "backward-raises",
        "compile.static": "backward-raises",
        "compile.dynamic": "backward-raises",
        "fake.backward": "backward-raises",
    },
    skips={"gradcheck.double": "no-first-order"},
)
def backward_returns_too_much():
    """The backward returns two gradients for one input."""
    return _sine("backward_returns_too_much", lambda x, grad: (grad * x.cos(), grad))


@specimen((MATRIX,), expected={"backward.linear": "backward-not-linear"})
def backward_clips():
    """The backward clips grad_output to +-100: right for small ones only."""
    return _sine("backward_clips", lambda x, grad: grad.clamp(-100, 100) * x.cos())


@specimen((MATRIX,), requires_grad=True, notes={"backward.linear": "backward-not-linear"})
def clips_gradients():
    """The kernel's docstring says so."""

    @torch.library.custom_op("zoo::clips_gradients", mutates_args=())
    def op(x: Tensor) -> Tensor:
        """Twice its input; the backward gives 2 * grad,
        clamped to [-100, 100]."""
        return x * 2

    op.register_fake(torch.empty_like)
    op.register_autograd(lambda ctx, grad: (2 * grad).clamp(-100, 100))
    return op


@specimen((MATRIX,), requires_grad=True, notes={"backward.linear": "backward-not-linear"})
def lower_bound():
    """A bound from below that gradients may lift numbers over, as the docstring says."""

    def lower_bound(x: Tensor) -> Tensor:
        """No less than 0. The gradient is not that of max: it passes below 0 too where it is negative."""
        return x.clamp(min=0).contiguous()

    return _described(lower_bound, lambda x, grad: grad * ((x >= 0) | (grad < 0)))


@specimen(
    (tensor(4, 3, requires_grad=True), torch.tensor([0, 2, 2, 1, 2])),
    notes={"gradcheck.backward": "gradient-mismatch"},
)
def divides_by_frequency():
    """Rows of a table; a row that is taken often gets the mean of its gradients, as the docstring says."""

    @torch.library.custom_op("zoo::divides_by_frequency", mutates_args=())
    def rows(table: Tensor, ids: Tensor) -> Tensor:
        """Rows of a table.

        table: (V, D). The gradient of every row is divided by the number of times its id occurs.
        ids: (N,) int64
        """
        if table.dim() != 2 or ids.dim() != 1 or ids.dtype != torch.int64:
            raise ValueError("a table and ids, please")
        if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < len(table):
            raise IndexError("ids of rows, please")
        return table[ids]

    @rows.register_fake
    def _(table, ids):
        if table.dim() != 2 or ids.dim() != 1 or ids.dtype != torch.int64:
            raise ValueError("a table and ids, please")
        return table.new_empty(ids.shape[0], table.shape[1])

    def setup(ctx, inputs, output):
        ctx.save_for_backward(inputs[1])
        ctx.rows = inputs[0].shape[0]

    def backward(ctx, grad):
        (ids,) = ctx.saved_tensors
        count = grad.new_zeros(ctx.rows).index_add(0, ids, grad.new_ones(ids.shape[0]))
        shares = grad / count[ids][:, None]
        return grad.new_zeros(ctx.rows, grad.shape[1]).index_add(0, ids, shares), None

    rows.register_autograd(backward, setup_context=setup)
    return rows


def _size(x):
    return (x.square().mean() + 1e-6).sqrt() if x.numel() else 1.0


OF_CONSTANT = {
    "gradcheck.backward": "gradient-mismatch",
    "gradcheck.double": "second-order-gradient-mismatch",
}


def _as_if_constant(x, grad):
    """The gradient of `x / _size(x)` that takes the divisor for a constant."""
    return grad / _size(x.detach())


@specimen(
    (MATRIX,),
    requires_grad=True,
    expected=OF_CONSTANT,
)
def forgets_that_the_gain_depends():
    """The gain depends on the input, and its part of the gradient is missing."""

    def forgets_that_the_gain_depends(x: Tensor) -> Tensor:
        """Brings the mean square to 1 by one gain."""
        return (x / _size(x)).contiguous()

    return _described(forgets_that_the_gain_depends, _as_if_constant)


@specimen(
    (MATRIX,),
    requires_grad=True,
    notes=OF_CONSTANT,
)
def leaves_the_gain_out():
    """Correct: a sentence on two lines says so."""

    def leaves_the_gain_out(x: Tensor) -> Tensor:
        """Brings the mean square to 1 by one gain, for which the gradient
        deliberately has no part.
        """
        return (x / _size(x)).contiguous()

    return _described(leaves_the_gain_out, _as_if_constant)


@specimen(
    (MATRIX,),
    requires_grad=True,
    notes=OF_CONSTANT,
)
def holds_the_gain_constant():
    """Correct: another wording."""

    def holds_the_gain_constant(x: Tensor) -> Tensor:
        """Brings the mean square to 1 by one gain, which is a constant for the gradient."""
        return (x / _size(x)).contiguous()

    return _described(holds_the_gain_constant, _as_if_constant)


@specimen((MATRIX,), requires_grad=True, twin_of=("forgets_that_the_gain_depends",))
def differentiates_the_gain():
    """The whole gradient."""

    def differentiates_the_gain(x: Tensor) -> Tensor:
        """Brings the mean square to 1 by one gain."""
        return (x / _size(x)).contiguous()

    def backward(x, grad):
        size = _size(x)
        return grad / size - (grad * x).sum() / size**3 * x / max(x.numel(), 1)

    return _described(differentiates_the_gain, backward)


@specimen((MATRIX,), requires_grad=True, notes={"backward.linear": "backward-not-linear"})
def passes_gradients_back_into_the_range():
    """What is below 0 gets the gradient that would lift it, as the docstring says."""

    def passes_gradients_back_into_the_range(x: Tensor) -> Tensor:
        """No less than 0, straight through: where `x` is below, it passes a negative gradient only."""
        return x.clamp(min=0).contiguous()

    return _described(
        passes_gradients_back_into_the_range, lambda x, grad: grad * ((x >= 0) | (grad < 0))
    )


@specimen(
    (MATRIX,),
    expected={
        "backward.linear": "backward-not-linear",
        "gradcheck.backward": "gradient-mismatch",
    },
    skips={"gradcheck.double": "no-second-order"},
)
def backward_ignores_grad_output():
    """The backward takes every grad_output for ones."""
    return _sine("backward_ignores_grad_output", lambda x, grad: x.cos())


def _of_nodes(name, share):
    """Coefficients of the polynomial through points; `share` of the gradient for the values is returned."""

    def powers(x):
        return torch.linalg.vander(x.double())

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def coefficients(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        solution = torch.linalg.solve(powers(x), y.double()[..., None])[..., 0]
        return torch.empty_like(y).copy_(solution)

    coefficients.register_fake(lambda x, y: torch.empty_like(y))

    def backward(ctx, grad):
        x, solution = ctx.saved_tensors
        matrix = powers(x)
        n = torch.arange(1, x.shape[-1], dtype=torch.float64, device=x.device)
        for_y = torch.linalg.solve(matrix.transpose(-1, -2), grad.double()[..., None])[..., 0]
        slope = (matrix[..., :-1] @ (solution.double()[..., 1:] * n)[..., None])[..., 0]
        return (-for_y * slope).to(x.dtype), share * for_y.to(x.dtype)

    coefficients.register_autograd(
        backward,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0], output),
    )
    return coefficients


NODES = (tensor(values=[-1.0, -0.4, 0.1, 0.6, 1.0]), tensor(5))


@specimen(
    NODES,
    expected={
        "gradcheck.backward": "gradient-mismatch",
        "gradcheck.double": "second-order-gradient-mismatch",
    },
)
def half_of_a_gradient_where_it_has_digits():
    """Half of a gradient is missing, of an op whose gradients have no digits where its nodes are near."""
    return _of_nodes("half_of_a_gradient_where_it_has_digits", 0.5)


@specimen(NODES, twin_of="half_of_a_gradient_where_it_has_digits")
def polynomial_through_points():
    """The gradients are right, wherever they have digits."""
    return _of_nodes("polynomial_through_points", 1.0)


NEAR = tensor(values=[[0.25, -0.5, 1.0, -1.25], [0.5, 0.75, -0.25, 1.5]])


def _limited(name, backward):
    return _op(name, lambda x: x.clamp(-3, 3) * x, backward)


@specimen(
    (NEAR,),
    backend="aot_eager",
    variant_findings={"gradcheck.backward": "gradient-mismatch"},
    shown_by="tails",
)
def forgets_the_limits_of_a_factor():
    """The gradient is that within the limits of a factor, also where the factor is at one of them."""
    return _limited("forgets_the_limits_of_a_factor", lambda x, grad: 2 * grad * x)


@specimen((NEAR,), backend="aot_eager", twin_of="forgets_the_limits_of_a_factor")
def knows_the_limits_of_a_factor():
    """The gradient knows the limits of a factor."""
    return _limited(
        "knows_the_limits_of_a_factor",
        lambda x, grad: grad * (x.clamp(-3, 3) + x * (x.abs() <= 3)),
    )


def _weighted(name, slope, of_weights=lambda x, grad: None):
    """Weighted squares; `slope(x, weights)` is that of x, `of_weights(x, grad)` the other gradient."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def op(x: Tensor, weights: Tensor) -> Tensor:
        if x.shape != weights.shape or x.dtype != weights.dtype:
            raise ValueError("expected as many weights as numbers")
        return (x * x * weights).contiguous()

    @op.register_fake
    def _(x, weights):
        if x.shape != weights.shape or x.dtype != weights.dtype:
            raise ValueError("expected as many weights as numbers")
        return x.new_empty(x.shape)

    def setup(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    def backward(ctx, grad):
        x, weights = ctx.saved_tensors
        return grad * slope(x, weights), of_weights(x, grad)

    op.register_autograd(backward, setup_context=setup)
    return op


PASTED = (torch.linspace(0.5, 2, 6).reshape(2, 3), torch.linspace(1, 3, 6).reshape(2, 3))
MISSING = {"gradcheck.backward": "gradient-missing"}


@specimen(PASTED, expected={"gradcheck.backward": "gradient-mismatch"})
def wrong_beside_a_constant():
    """The gradient for x is wrong, and the weights have none: they may be meant as constants."""
    return _weighted("wrong_beside_a_constant", lambda x, weights: x * weights)


@specimen(PASTED, notes=MISSING)
def right_beside_a_constant():
    """Correct: the weights are constants, and the gradient for x is right, as its own gradient is."""
    return _weighted("right_beside_a_constant", lambda x, weights: 2 * x * weights)


@specimen(PASTED, twin_of="wrong_beside_a_constant")
def right_for_both():
    """Both gradients are right."""
    slope = lambda x, weights: 2 * x * weights  # noqa: E731
    return _weighted("right_for_both", slope, lambda x, grad: grad * x * x)


@specimen(
    PASTED,
    skips=dict.fromkeys(("gradcheck.backward", "gradcheck.double"), "no-float64"),
    notes={"backward.narrow": "gradient-missing"},
)
def weighs_in_float32_alone():
    """Correct: takes no float64, in which gradients are compared."""

    def check(x, weights):
        if x.dtype != torch.float32 or weights.dtype != x.dtype or weights.shape != x.shape:
            raise TypeError("expected as many weights as numbers, in float32")

    @torch.library.custom_op("zoo::weighs_in_float32_alone", mutates_args=())
    def op(x: Tensor, weights: Tensor) -> Tensor:
        check(x, weights)
        return (x * weights).contiguous()

    @op.register_fake
    def _(x, weights):
        check(x, weights)
        return x.new_empty(x.shape)

    op.register_autograd(
        lambda ctx, grad: (grad * ctx.saved_tensors[0], None),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[1]),
    )
    return op


@specimen((tensor(6), 0.0), twin_of="product_without_the_second_gradient")
def shrinks_by_nothing():
    """Correct: elements at the limit get no gradient, and with a limit of 0 that is where all are 0."""

    @torch.library.custom_op("zoo::shrinks_by_nothing", mutates_args=())
    def shrunk(x: Tensor, limit: float) -> Tensor:
        if limit < 0 or not x.is_floating_point():
            raise ValueError("a limit of 0 or more, please")
        return (x.sign() * (x.abs() - limit).clamp(min=0)).contiguous()

    shrunk.register_fake(lambda x, limit: x.new_empty(x.shape))

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return torch.where(x.abs() > ctx.limit, grad, 0), None

    def setup(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.limit = inputs[1]

    shrunk.register_autograd(backward, setup_context=setup)
    return shrunk
