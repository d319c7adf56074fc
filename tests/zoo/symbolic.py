"""Fake kernels that are right for the sizes of the example only."""

import torch
from torch import Tensor

from pytest_customop import tensor

from .registry import specimen


def _double(name, fake):
    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def double(x: Tensor) -> Tensor:
        if x.dim() != 2 or x.shape[1] == 0:
            raise ValueError("a matrix with columns, please")
        return x.contiguous() * 2

    double.register_fake(fake)
    return double


@specimen(
    (tensor(5, 3),),
    expected={
        "fake.symbolic": "fake-size-hardcoded",
        "compile.dynamic": "compile-output-mismatch",
    },
)
def fake_hardcodes_a_size():
    """The fake kernel returns five rows, whatever the input has."""
    return _double("fake_hardcodes_a_size", lambda x: x.new_empty(5, x.shape[1]))


@specimen(
    (tensor(5, 3),),
    expected={
        "fake.symbolic": "fake-size-specialized",
        "compile.dynamic": "compile-recompiles",
    },
)
def fake_makes_a_size_constant():
    """The fake kernel turns the number of rows into a plain int."""
    return _double("fake_makes_a_size_constant", lambda x: x.new_empty(int(x.shape[0]), x.shape[1]))


@specimen((tensor(5, 3),), twin_of="fake_makes_a_size_constant")
def fake_keeps_sizes_symbolic():
    """Every size of the fake output is one of the input's."""
    return _double("fake_keeps_sizes_symbolic", lambda x: x.new_empty(x.shape))


@specimen((tensor(5, 3),), twin_of="fake_hardcodes_a_size")
def fake_computes_sizes():
    """The sizes of the fake output are computed from the input's."""
    return _double(
        "fake_computes_sizes", lambda x: x.new_empty(x.numel() // x.shape[1], x.shape[1])
    )


def _pooled(name, count):
    """Means of three rows each; `count(rows)` is how many there are by the fake kernel."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def pooled(x: Tensor) -> Tensor:
        if x.dim() != 2 or not len(x):
            raise ValueError("a matrix with rows, please")
        return torch.stack([rows.mean(0) for rows in x.split(3)])

    pooled.register_fake(lambda x: x.new_empty(count(x.shape[0]), x.shape[1]))
    return pooled


@specimen((tensor(7, 2),), expected={"fake.symbolic": "fake-size-specialized"})
def fake_rounds_up_to_a_constant():
    """The fake kernel makes a plain int of a size, rounded up, which one more row need not change."""
    return _pooled("fake_rounds_up_to_a_constant", lambda rows: int(-(-rows // 3)))


@specimen((tensor(7, 2),), twin_of="fake_rounds_up_to_a_constant")
def fake_rounds_up():
    """The fake kernel rounds up, and leaves the size symbolic."""
    return _pooled("fake_rounds_up", lambda rows: (rows + 2) // 3)


def _halved(name, whole):
    """An op that keeps the first half of the rows; `whole` looks at the size before the division."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def half(x: Tensor) -> Tensor:
        return x[: whole(x.shape[0]) // 2].clone(memory_format=torch.contiguous_format)

    half.register_fake(lambda x: x.new_empty(whole(x.shape[0]) // 2, *x.shape[1:]))
    return half


@specimen(
    (tensor(6, 3),),
    expected={
        "fake.symbolic": "fake-not-symbolic",
        "compile.dynamic": "compile-error",
        "opcheck.test_aot_dispatch_dynamic": "fake-not-symbolic",
    },
)
def fake_wants_plain_sizes():
    """The fake kernel refuses every size that is not an int, and symbolic ones are not."""

    def whole(size):
        if not isinstance(size, int):
            raise TypeError(f"a size is an int, not {type(size).__name__}")
        return size

    return _halved("fake_wants_plain_sizes", whole)


@specimen((tensor(6, 3),), twin_of="fake_wants_plain_sizes")
def fake_takes_any_size():
    """The fake kernel takes sizes as they come."""
    return _halved("fake_takes_any_size", lambda size: size)


def _column_sums(name, rows_of):
    """An op whose int argument must be the number of columns."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def column_sums(x: Tensor, columns: int) -> Tensor:
        if x.shape[1] != columns:
            raise ValueError(f"x has {x.shape[1]} columns, not {columns}")
        return x.sum(0)

    column_sums.register_fake(lambda x, columns: x.new_empty(rows_of(columns)))
    return column_sums


@specimen((tensor(4, 6), 6), expected={"fake.symbolic": "fake-size-hardcoded"})
def fake_hardcodes_what_an_int_says():
    """The fake kernel returns six elements, the real one as many as its int argument says."""
    return _column_sums("fake_hardcodes_what_an_int_says", lambda columns: 6)


@specimen((tensor(4, 6), 6), twin_of="fake_hardcodes_what_an_int_says")
def fake_reads_the_int():
    """Both kernels return as many elements as the int argument says."""
    return _column_sums("fake_reads_the_int", lambda columns: columns)


def _polynomial(name, backward):
    """A polynomial of x, from its coefficients on; `backward(ctx, grad)` is the formula."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def polynomial(x: Tensor, coefficients: Tensor) -> Tensor:
        out = torch.zeros_like(x)
        for coefficient in coefficients.tolist():
            out = out * x + coefficient
        return out

    polynomial.register_fake(lambda x, coefficients: x.new_empty(x.shape))
    polynomial.register_autograd(
        backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs)
    )
    return polynomial


COEFFICIENTS = tensor(3, requires_grad=False)


@specimen(
    (tensor(5, low=0.5, high=2), COEFFICIENTS),
    notes={
        "fake.symbolic": "fake-size-specialized",
        "compile.dynamic": "compile-recompiles",
    },
)
def backward_of_plain_counts():
    """Correct, with a note: the backward computes powers for a plain int of coefficients."""

    def backward(ctx, grad):
        x, coefficients = ctx.saved_tensors
        count = int(coefficients.shape[0])
        powers = torch.arange(count - 1, -1, -1, device=x.device)
        slope = powers * coefficients * x.unsqueeze(-1) ** (powers - 1)
        return grad * slope.sum(-1), None

    return _polynomial("backward_of_plain_counts", backward)


@specimen((tensor(5, low=0.5, high=2), COEFFICIENTS))
def backward_loops_over_a_count():
    """Correct: the backward loops over the coefficients, so that each number of them has a graph."""

    def backward(ctx, grad):
        x, coefficients = ctx.saved_tensors
        value, slope = torch.zeros_like(x), torch.zeros_like(x)
        for at in range(coefficients.shape[0]):
            slope = slope * x + value
            value = value * x + coefficients[at]
        return grad * slope, None

    return _polynomial("backward_loops_over_a_count", backward)
