"""The families `gradcheck` and `backward`: each finding on a wrong formula, and correct ops."""

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any, Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable
from verdicts import finding, skipped

from pytest_customop import check_op
from pytest_customop.cases.arguments import Placement
from pytest_customop.cases.case import Case
from pytest_customop.checks import builtin_checks, fix_for
from pytest_customop.declare import ops
from pytest_customop.declare.inputs import GradOptions, Sample, tensor
from pytest_customop.declare.layouts import LAYOUTS
from pytest_customop.findings import CheckFailed
from tests.zoo.registry import specimens

CHECKS = {check.name: check.run for check in builtin_checks()}
backward, double, linear = (
    CHECKS[name] for name in ("gradcheck.backward", "gradcheck.double", "backward.linear")
)

SMALL, LARGE = tensor(3, 4), tensor(40, 60)
SIZES = pytest.mark.parametrize("spec", [SMALL, LARGE], ids=["small", "large"])
ONE, TWO = "(Tensor x) -> Tensor", "(Tensor a, Tensor b) -> Tensor"
_numbers = itertools.count()


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Tensors of a few thousand elements are slower with more, most of all while other processes run."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def save(ctx: Any, inputs: tuple, output: Any) -> None:
    ctx.save_for_backward(*[value for value in inputs if isinstance(value, Tensor)])


def define(
    forward: Callable[..., Any],
    gradient: Callable[..., Any],
    schema: str = ONE,
    setup: Callable[..., Any] = save,
) -> str:
    """Register an op; `gradient` gets the grad_outputs, then the saved tensors."""
    name = f"t_gradients::op_{next(_numbers)}"
    op = torch.library.custom_op(name, forward, mutates_args=(), schema=schema)

    def formula(ctx: Any, *grads: Any) -> Any:
        return gradient(*grads, *ctx.saved_tensors)

    op.register_autograd(formula, setup_context=setup)
    return name


def case(name: str, *args: Any, dtype: torch.dtype = torch.float64, **fields: Any) -> Case:
    placement = Placement("cpu", dtype, True, fields.pop("layout", "contiguous"))
    kwargs = fields.pop("kwargs", {})
    return Case(ops.resolve(name), Sample(args, kwargs), placement, **fields)


SIN = define(torch.sin, lambda g, x: g * x.cos())
RELU = define(torch.relu, lambda g, x: g * (x > 0))
RELU_SUM = define(lambda x: x.relu().sum(), lambda g, x: g * (x > 0))
MUL = define(torch.mul, lambda g, a, b: (g * b.conj(), g * a.conj()), TWO)
MATMUL = define(torch.matmul, lambda g, a, b: (g @ b.mT.conj(), a.mT.conj() @ g), TWO)
SUM = define(lambda x: x.sum(), lambda g, x: g.expand_as(x))
SORT = define(
    lambda x: x.sort(-1),
    lambda g, _, x: torch.zeros_like(x).scatter(-1, x.argsort(-1), g),
    "(Tensor x) -> (Tensor, Tensor)",
    lambda ctx, inputs, output: (
        ctx.save_for_backward(inputs[0]),
        ctx.mark_non_differentiable(output[1]),
    ),
)
SOFTMAX = define(
    lambda x: x.softmax(-1),
    lambda g, y: y * (g - (g * y).sum(-1, keepdim=True)),
    setup=lambda ctx, inputs, output: ctx.save_for_backward(output),
)
ROUND_8_BIT = define(lambda x: (x * 255).round() / 255, lambda g, x: g.clone())


# --------------------------------------------------------------- gradcheck.backward: correct ops


@SIZES
@pytest.mark.parametrize("name", [SIN, RELU, RELU_SUM, SUM, SORT, SOFTMAX])
@pytest.mark.parametrize("check", [backward, linear])
def test_a_right_formula_passes(check: Any, name: str, spec: Any) -> None:
    for seed in range(3):
        check(case(name, spec, dtype=torch.float32, seed=seed))


@pytest.mark.parametrize("check", [backward, double, linear])
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex64])
@pytest.mark.parametrize(
    ("name", "specs"),
    [
        (MUL, (tensor(3, 4), tensor(4))),
        (MUL, (tensor(30, 40), tensor(40))),
        (MATMUL, (tensor(3, 4), tensor(4, 2))),
        (MATMUL, (tensor(30, 40), tensor(40, 20))),
    ],
)
def test_two_inputs_real_and_complex(check: Any, name: str, specs: Any, dtype: Any) -> None:
    check(case(name, *specs, dtype=dtype))


@SIZES
@pytest.mark.parametrize("layout", LAYOUTS)
def test_inputs_keep_their_layout(layout: str, spec: Any) -> None:
    seen = set()

    def forward(x: Tensor) -> Tensor:
        seen.add((x.stride(), x.storage_offset()))
        return x.sin()

    name = define(forward, lambda g, x: g * x.cos())
    op_case = case(name, spec, layout=layout)
    for check in (backward, double, linear):
        check(op_case)
    ((stride, offset),) = seen
    argument = op_case.inputs().args[0]
    assert (stride, offset) == (argument.stride(), argument.storage_offset())


def test_lists_none_keywords_and_integers() -> None:
    name = define(
        lambda xs, i, *, scale: ([x * scale for x in xs], i + 1, xs[0].sum()),
        lambda gs, _, g, *xs: (
            [2.0 * grad + (0 if index else g) for index, grad in enumerate(gs)],
            None,
        ),
        "(Tensor[] xs, Tensor i, *, float scale=1.0) -> (Tensor[], Tensor, Tensor)",
        lambda ctx, inputs, keyword_only_inputs, output: ctx.mark_non_differentiable(output[1]),
    )
    numbers = tensor(3, dtype=torch.int64)
    for xs in ([tensor(3), tensor(2, 2)], [tensor(300), tensor(20, 20)]):
        backward(case(name, xs, numbers, kwargs={"scale": 2.0}))
        linear(case(name, xs, numbers, kwargs={"scale": 2.0}))
    wrong = finding(backward, case(name, [tensor(3)], numbers, kwargs={"scale": 3.0}))
    assert wrong.code == "gradient-mismatch"
    assert "`xs[0]`" in wrong.message


def test_an_unwritten_gradient_is_found_where_memory_holds_something_else_at_each_call() -> None:
    @torch.library.custom_op("t_gradients::head", mutates_args=())
    def head(x: Tensor) -> Tensor:
        return x[:2].clone()

    held = itertools.count()

    def gradient(ctx: Any, grad: Tensor) -> Tensor:
        out = torch.empty(ctx.shape)
        if not torch.utils.deterministic.fill_uninitialized_memory:
            out.fill_(next(held))  # as memory that was in use
        out[:2] = grad
        return out

    head.register_fake(lambda x: x.new_empty(2, *x.shape[1:]))
    head.register_autograd(
        gradient,
        setup_context=lambda ctx, inputs, output: setattr(ctx, "shape", inputs[0].shape),
    )
    x = torch.randn(4, 3, requires_grad=True)
    (result,) = check_op(head, [(x,)], checks=["backward.uninitialized"], variants=False)
    assert result.finding == "uninitialized-gradient"
    assert "filled with NaN, an element is nan" in result.message


def test_a_sample_with_nan_and_equal_elements_is_no_error() -> None:
    @torch.library.custom_op("t_gradients::known_peak", mutates_args=())
    def known_peak(x: Tensor) -> Tensor:
        return torch.where(x.isnan(), -torch.inf, x).amax(0)

    def gradient(ctx: Any, grad: Tensor) -> Tensor:
        x, peak = ctx.saved_tensors
        first = (x == peak).to(torch.uint8).argmax(0)
        return torch.zeros_like(x).scatter(0, first[None], grad[None])

    known_peak.register_fake(lambda x: x.new_empty(x.shape[1:]))
    known_peak.register_autograd(
        gradient,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0], output),
    )
    x = torch.tensor([[0.5, torch.nan], [0.5, 2.0], [-1.0, 2.0]], requires_grad=True)
    results = check_op(known_peak, [(x,)], checks=["gradcheck.backward"], variants=False)
    assert not [str(result) for result in results if result.outcome in ("failed", "error")]


def test_an_input_without_gradients_is_left_alone() -> None:
    name = define(torch.mul, lambda g, a, b: (g * b, None), TWO)
    backward(case(name, SMALL, tensor(3, 4, requires_grad=False)))


def test_one_tensor_given_twice() -> None:
    operand = torch.randn(4, dtype=torch.float64, requires_grad=True)
    backward(case(MUL, operand, operand))


def test_float32_values_are_widened() -> None:
    wrong = define(torch.sin, lambda g, x: g * x.cos() * 1.0001)
    backward(case(SIN, SMALL, dtype=torch.float32))
    assert finding(backward, case(wrong, SMALL, dtype=torch.float32)).code == "gradient-mismatch"


@pytest.mark.parametrize(
    "spec",
    [
        tensor(5, fill=0.0),
        tensor(values=[-1.0, 0.0, 2.0]),
        tensor(60, 60, fill=0.0),
        tensor(60, 60, low=-1e-5, high=1e-5),
    ],
)
def test_a_kink_is_not_a_wrong_gradient(spec: Any) -> None:
    for seed in range(3):
        backward(case(RELU, spec, seed=seed))


def by_norm(x: Tensor) -> Tensor:
    return x / x.norm(dim=-1, keepdim=True).clamp(min=1e-12)


def by_norm_backward(g: Tensor, x: Tensor) -> Tensor:
    norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    unit = x / norm.clamp(min=1e-12)
    along = (g * unit).sum(-1, keepdim=True) * (norm >= 1e-12)
    return (g - unit * along) / norm.clamp(min=1e-12)


ZEROS = [
    tensor(3, 4, fill=0.0),
    tensor(4, 16, fill=0.0),
    tensor(60, 60, fill=0.0),
    tensor(values=[[0.0, 0.0], [3.0, 4.0]]),
]


@pytest.mark.parametrize("spec", ZEROS, ids=["small", "64 elements", "large", "a row"])
def test_a_slope_that_holds_over_less_than_a_step(spec: Any) -> None:
    backward(case(define(by_norm, by_norm_backward), spec))


@pytest.mark.parametrize("spec", [ZEROS[0], ZEROS[1], ZEROS[3]], ids=["small", "64", "a row"])
def test_a_wrong_slope_of_that_kind(spec: Any) -> None:
    wrong = define(by_norm, lambda g, x: 3 * by_norm_backward(g, x))
    assert finding(backward, case(wrong, spec)).code == "gradient-mismatch"


def test_inputs_of_any_magnitude() -> None:
    double_it = define(lambda x: x * 2, lambda g, x: g * 2)
    for low, high in ((1e5, 2e5), (1e-7, 1e-6)):
        backward(case(double_it, tensor(4, low=low, high=high)))
        backward(case(double_it, tensor(60, 60, low=low, high=high)))


# --------------------------------------------------------------- gradcheck.backward: wrong ones


def one_zeroed(g: Tensor, x: Tensor) -> Tensor:
    gradient = (g * x.cos()).flatten()
    gradient = torch.where(torch.arange(x.numel()) == x.numel() // 2, 0.0, gradient)
    return gradient.view_as(x)


WRONG = {
    "wrong sign": (torch.cos, lambda g, x: g * x.sin()),
    "wrong factor": (torch.sin, lambda g, x: g * x.cos() * 1.001),
    "forgotten chain rule": (lambda x: (2 * x).sin(), lambda g, x: g * (2 * x).cos()),
    "one element zeroed": (torch.sin, one_zeroed),
    "kinks and a wrong slope": (torch.relu, lambda g, x: g * 2 * (x > 0)),
    "mask forgotten": (torch.relu, lambda g, x: g.clone()),
    "a constant": (torch.sin, lambda g, x: x.cos()),
}


@SIZES
@pytest.mark.parametrize("what", WRONG)
def test_wrong_formulas_are_found(what: str, spec: Any) -> None:
    name = define(*WRONG[what])
    for seed in range(2):
        failure = finding(backward, case(name, spec, seed=seed))
        assert failure.code == "gradient-mismatch"
        assert "the gradient for `x` is wrong" in failure.message


@SIZES
def test_swapped_gradients_name_the_inputs(spec: Any) -> None:
    name = define(torch.mul, lambda g, a, b: (g * a, g * b), TWO)
    failure = finding(backward, case(name, spec, spec))
    assert failure.code == "gradient-mismatch"
    rows = [line.split() for line in failure.evidence.splitlines()]
    assert [(row[0], row[-1]) for row in rows[1:3]] == [("a", "wrong"), ("b", "wrong")]
    if spec is SMALL:
        assert "look swapped" in failure.evidence


@SIZES
def test_a_missing_conjugate_is_found(spec: Any) -> None:
    name = define(torch.mul, lambda g, a, b: (g * b.conj(), g * a), TWO)
    failure = finding(backward, case(name, spec, spec, dtype=torch.complex128))
    assert (failure.code, "`b`" in failure.message) == ("gradient-mismatch", True)


def test_two_exchanged_elements_are_found() -> None:
    order = torch.arange(2400)
    order[[7, 1111]] = order[[1111, 7]]
    name = define(lambda x: 3 * x, lambda g, x: 3 * g.flatten()[order].view_as(x))
    codes = []
    for seed in range(12):
        try:
            backward(case(name, LARGE, seed=seed))
        except CheckFailed as caught:
            codes.append(caught.finding.code)
    # A draw in which both elements move the same way cannot tell, and three such can come together.
    assert len(codes) >= 9
    assert set(codes) == {"gradient-mismatch"}


def test_the_first_wrong_element_and_the_factor_are_named() -> None:
    failure = finding(backward, case(define(*WRONG["one element zeroed"]), SMALL))
    assert "the derivative of output[1, 2] by x[1, 2] is 0 by the formula" in failure.message
    failure = finding(backward, case(define(*WRONG["wrong sign"]), LARGE))
    assert "everywhere the formula is -1 times the finite difference" in failure.evidence


@SIZES
@pytest.mark.parametrize("missing", [lambda g: None, lambda g: 0 * g], ids=["None", "zeros"])
def test_missing_gradients(missing: Any, spec: Any) -> None:
    name = define(torch.mul, lambda g, a, b: (g * b, missing(g)), TWO)
    failure = finding(backward, case(name, spec, spec))
    assert failure.code == "gradient-missing"
    assert "the gradient for `b` is missing" in failure.message
    assert "requires_grad=False" in failure.evidence


@SIZES
def test_an_input_that_does_nothing_is_no_step(spec: Any) -> None:
    name = define(lambda a, b: a.sin(), lambda g, a, b: (g * a.cos(), g.clone()), TWO)
    failure = finding(backward, case(name, spec, spec))
    assert (failure.code, "`b`" in failure.message) == ("gradient-mismatch", True)


@SIZES
def test_steps_are_named_and_their_grid_passes(spec: Any) -> None:
    unit = dataclasses.replace(spec, low=0.0, high=1.0)
    failure = finding(backward, case(ROUND_8_BIT, unit))
    assert failure.code == "gradient-of-a-step-function"
    assert "eps=" in fix_for(failure)
    pixels = (torch.randint(0, 256, spec.shape).double() / 255).requires_grad_()
    backward(case(ROUND_8_BIT, pixels, gradcheck=GradOptions(eps=8 / 255)))


@SIZES
def test_a_step_may_be_farther_than_the_numbers_are_large(spec: Any) -> None:
    small = dataclasses.replace(spec, low=-0.1, high=0.1)
    name = define(lambda x: x.sign() * (x.abs() > 0.7), lambda g, x: g.clone())
    assert finding(backward, case(name, small)).code == "gradient-of-a-step-function"


@SIZES
@pytest.mark.parametrize("levels", [7, 127])
def test_the_slope_of_a_staircase_is_no_wrong_gradient(spec: Any, levels: int) -> None:
    def forward(x: Tensor) -> Tensor:
        step = x.abs().amax() / levels
        return (x / step).round() * step

    failure = finding(backward, case(define(forward, lambda g, x: g.clone()), spec))
    assert failure.code == "gradient-of-a-step-function"
    assert "over many steps" in failure.message
    for wrong in (lambda g, x: g / 2, lambda g, x: g * 1.5, lambda g, x: -g, lambda g, x: g * x):
        failure = finding(backward, case(define(forward, wrong), spec))
        assert failure.code == "gradient-mismatch"


@SIZES
def test_a_jump_excuses_no_wrong_gradient(spec: Any) -> None:
    name = define(lambda x: torch.where(x > 0, 2 * x, x - 1), lambda g, x: g.clone())
    assert finding(backward, case(name, spec)).code == "gradient-mismatch"


def test_pixels_that_truncation_catches_do_not_fail_an_8_bit_op() -> None:
    def forward(x: Tensor) -> Tensor:
        return ((x * 255).to(torch.uint8) / 255.0).to(x.dtype)  # 41/255 + 8/255 may become 48

    name = define(forward, lambda g, x: g.clone())
    pixels = (torch.randint(8, 248, (60, 60)).double() / 255).requires_grad_()
    backward(case(name, pixels, gradcheck=GradOptions(eps=8 / 255)))


def test_a_backward_right_for_zeros_and_ones_is_left_to_the_check_of_linearity() -> None:
    name = define(lambda x: 3 * x, lambda g, x: 3 * g.clamp(-1, 1))
    backward(case(name, LARGE))
    assert finding(linear, case(name, LARGE)).code == "backward-not-linear"


@pytest.mark.parametrize("spec", [tensor(values=[0.0, 0.5, 1.0]), tensor(400, fill=0.0)])
def test_nan_where_the_op_is_smooth(spec: Any) -> None:
    def sloppy(g: Tensor, x: Tensor) -> Tensor:
        return g * ((torch.pi * x).cos() - torch.sinc(x)) / x

    failure = finding(backward, case(define(torch.sinc, sloppy), spec))
    assert failure.code == "gradient-not-finite"
    assert "is NaN in " in failure.message


def test_a_backward_that_raises() -> None:
    def formula(g: Tensor, x: Tensor) -> Tensor:
        raise ArithmeticError("no derivative today")

    name = define(torch.sin, formula)
    for check in (backward, linear):
        failure = finding(check, case(name, SMALL))
        assert failure.code == "backward-raises"
        assert "no derivative today" in failure.message
        assert "test_gradients.py" in failure.evidence
    assert skipped(double, case(name, SMALL)).code == "no-first-order"


# --------------------------------------------------------------- gradcheck.backward: skips


def test_left_out_with_the_reason() -> None:
    for check in (backward, double):
        caught = skipped(check, case(SIN, SMALL, gradcheck="checked elsewhere"))
        assert (caught.code, caught.reason, caught.unjudged) == (
            "left-out",
            "checked elsewhere",
            True,
        )


def test_no_kernel_for_float64() -> None:
    def forward(x: Tensor) -> Tensor:
        if x.dtype != torch.float32:
            raise TypeError("only float32")
        return x.sin()

    def formula(g: Tensor, x: Tensor) -> Tensor:
        forward(x)
        return g * x.cos()

    for name in (define(forward, formula), define(torch.sin, formula)):
        caught = skipped(backward, case(name, SMALL, dtype=torch.float32))
        assert (caught.code, caught.unjudged) == ("no-float64", True)
        assert "only float32" in caught.reason
    failure = finding(backward, case(define(torch.sin, formula), SMALL, dtype=torch.float64))
    assert failure.code == "backward-raises"


@pytest.mark.parametrize("spec", [tensor(), SMALL, LARGE, tensor(50, 50, low=0, high=255)])
@pytest.mark.parametrize("inner", [torch.float32, torch.bfloat16, torch.float16])
def test_ops_that_compute_in_less_than_float64(inner: torch.dtype, spec: Any) -> None:
    name = define(lambda x: x.to(inner).sin().to(x.dtype), lambda g, x: g * x.cos())
    for dtype in (torch.float32, torch.float64):
        caught = skipped(backward, case(name, spec, dtype=dtype))
        assert (caught.code, caught.unjudged) == ("float32-internal", True)
    # With a step that is far above the rounding the same op is compared.
    if inner == torch.float32 and spec is not LARGE:
        coarse = GradOptions(eps=1e-2, atol=1e-2, rtol=1e-2)
        backward(case(name, spec, gradcheck=coarse))
        wrong = define(lambda x: x.to(inner).sin().to(x.dtype), lambda g, x: -g * x.cos())
        assert finding(backward, case(wrong, spec, gradcheck=coarse)).code == "gradient-mismatch"


@SIZES
def test_float32_behind_float64_digits_is_never_a_wrong_gradient(spec: Any) -> None:
    for scaled in (
        define(lambda x: x.float().sin().to(x.dtype) / 3.3, lambda g, x: g * x.cos() / 3.3),
        define(lambda x: x.float().to(x.dtype) * 1.7, lambda g, x: g * 1.7),
    ):
        for seed in range(2):
            caught = skipped(backward, case(scaled, spec, dtype=torch.float32, seed=seed))
            assert caught.code in ("not-smooth", "float32-internal")


def test_what_finite_differences_cannot_judge() -> None:
    reciprocal = define(torch.reciprocal, lambda g, x: -g / (x * x))
    assert skipped(backward, case(reciprocal, tensor(3, fill=0.0))).code == "not-finite"
    offset = define(lambda x: x + 1e8, lambda g, x: g.clone())
    assert skipped(backward, case(offset, SMALL)).code == "lost-in-rounding"
    assert skipped(backward, case(SIN, tensor(3, fill=1e12))).code == "lost-in-rounding"
    root = define(torch.sqrt, lambda g, x: g / (2 * x.sqrt()))
    assert skipped(backward, case(root, tensor(3, fill=0.0))).code == "not-finite"

    def strict(x: Tensor) -> Tensor:
        if not torch.equal(x, x.round()):
            raise ValueError("x must be whole")
        return x.sin()

    caught = skipped(backward, case(define(strict, lambda g, x: g * x.cos()), tensor(3, fill=1.0)))
    assert (caught.code, "x must be whole" in caught.reason) == ("out-of-domain", True)


def test_nothing_to_check_is_no_limit() -> None:
    for name, spec in ((SIN, tensor(0, 3)), (SIN, tensor(3, requires_grad=False))):
        for check in (backward, double, linear):
            caught = skipped(check, case(name, spec))
            assert (caught.code, caught.unjudged) == ("nothing-to-check", False)


def test_results_that_do_not_repeat() -> None:
    noise = torch.Generator().manual_seed(0)

    def rough(x: Tensor) -> Tensor:
        return x * torch.rand(x.shape, generator=noise).to(x)

    outputs = define(rough, lambda g, x: g.clone())
    gradients = define(torch.sin, lambda g, x: rough(g))
    for name, check in ((outputs, backward), (gradients, backward), (gradients, linear)):
        assert skipped(check, case(name, SMALL)).code == "nondeterministic"


def test_a_number_of_results_that_depends_on_the_values() -> None:
    name = define(
        lambda x: x[x > 0].clone(),
        lambda g, x: torch.zeros_like(x).masked_scatter(x > 0, g),
    )
    backward(case(name, LARGE))
    name = define(
        lambda x: x[x == x.round()].clone(),
        lambda g, x: torch.zeros_like(x).masked_scatter(x == x.round(), g),
    )
    caught = skipped(backward, case(name, tensor(values=[0.0, 1.0, 2.0])))
    assert (caught.code, "other shapes" in caught.reason) == ("not-smooth", True)


# --------------------------------------------------------------- gradcheck.double


@SIZES
@pytest.mark.parametrize("name", [SIN, RELU, SOFTMAX, SUM])
def test_a_right_second_order_passes(name: str, spec: Any) -> None:
    double(case(name, spec))


@SIZES
def test_a_detached_backward_has_wrong_second_order_gradients(spec: Any) -> None:
    name = define(torch.sin, lambda g, x: g * x.detach().cos())
    backward(case(name, spec))
    failure = finding(double, case(name, spec))
    assert failure.code == "second-order-gradient-mismatch"
    assert "second-order gradient for `x`" in failure.message


def test_what_is_wrong_in_the_first_order_is_not_reported_again() -> None:
    name = define(torch.cos, lambda g, x: g * x.sin())
    double(case(name, SMALL))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_grad_output_of_half_precision_keeps_nothing_of_a_step(dtype: torch.dtype) -> None:
    name = define(lambda x: (x * 2).to(dtype), lambda g, x: g.to(x.dtype) * 2)
    reported = skipped(double, case(name, SMALL))
    assert reported.code == "float32-internal"


def opaque(name: str) -> Any:
    return torch.library.custom_op(
        f"t_gradients::{name}", lambda x: 2 * x, mutates_args=(), schema=ONE
    )


WITHOUT = opaque("runs_without_autograd")
NO_SECOND_ORDER = {
    "an op without a formula": lambda g, x: WITHOUT(g),
    "numpy": lambda g, x: torch.from_numpy(2 * g.numpy()),
    "detached": lambda g, x: 2 * g.detach(),
}


@SIZES
@pytest.mark.parametrize("what", NO_SECOND_ORDER)
def test_no_second_order(what: str, spec: Any) -> None:
    name = define(lambda x: 2 * x, NO_SECOND_ORDER[what])
    backward(case(name, spec))
    caught = skipped(double, case(name, spec))
    assert (caught.code, caught.unjudged) == ("no-second-order", True)
    assert "cannot be differentiated again" in caught.reason


def test_once_differentiable() -> None:
    name = f"t_gradients::op_{next(_numbers)}"
    op = torch.library.custom_op(name, torch.sin, mutates_args=(), schema=ONE)

    @once_differentiable
    def formula(ctx: Any, g: Tensor) -> Tensor:
        return g * ctx.saved_tensors[0].cos()

    op.register_autograd(formula, setup_context=save)
    assert skipped(double, case(name, SMALL)).code == "no-second-order"


def test_a_backward_whose_own_backward_raises() -> None:
    inner = opaque("raising_formula")

    def formula(ctx: Any, g: Tensor) -> Tensor:
        raise ArithmeticError("no second derivative today")

    inner.register_autograd(formula)
    reported = skipped(double, case(define(lambda x: 2 * x, lambda g, x: inner(g)), SMALL))
    assert reported.code == "no-second-order"
    assert "no second derivative today" in reported.reason


# --------------------------------------------------------------- backward.linear


NOT_LINEAR = {
    "clips": lambda g, x: 3 * g.clamp(-1, 1),
    "only the sign": lambda g, x: 3 * g.sign(),
    "a constant": lambda g, x: torch.full_like(x, 3.0),
    "an offset": lambda g, x: 3 * g + 0.01,
    "normed": lambda g, x: 3 * g / g.norm(),
    "only the positive": lambda g, x: 3 * g.relu(),
    "only the larger half": lambda g, x: 3 * g * (g.abs() >= g.abs().flatten().median()),
    "8 bits, wrapping": lambda g, x: 3 * ((g * 255).to(torch.int32) % 256).to(g.dtype) / 255,
    "8 bits, rounding": lambda g, x: 3 * (g * 255).round() / 255,
    "8 bits, scaled": lambda g, x: (
        3 * (g * 127 / (g.abs().max() + 1e-30)).round() * g.abs().max() / 127
    ),
}


@SIZES
@pytest.mark.parametrize("what", NOT_LINEAR)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_backwards_that_are_not_linear(what: str, spec: Any, dtype: torch.dtype) -> None:
    name = define(lambda x: 3 * x, NOT_LINEAR[what])
    failure = finding(linear, case(name, spec, dtype=dtype))
    assert failure.code == "backward-not-linear"
    assert "the gradient for `x` is not linear in grad_output" in failure.message
    assert "wrong" in failure.evidence


@pytest.mark.parametrize("what", ["clips", "a constant", "8 bits, wrapping"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_not_linear_in_half_precision(what: str, dtype: torch.dtype) -> None:
    name = define(lambda x: 3 * x, NOT_LINEAR[what])
    assert finding(linear, case(name, SMALL, dtype=dtype)).code == "backward-not-linear"


@SIZES
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("inner", [torch.float16, torch.bfloat16, torch.float32])
def test_rounding_is_linear_enough(inner: torch.dtype, dtype: torch.dtype, spec: Any) -> None:
    def formula(g: Tensor, x: Tensor) -> Tensor:
        return (g.to(inner) * x.to(inner)).to(g.dtype)

    name = define(lambda x: x * x / 2, formula)
    for seed in range(3):
        linear(case(name, spec, dtype=dtype, seed=seed))


def test_a_gradient_that_cancels_to_rounding() -> None:
    def formula(g: Tensor, x: Tensor) -> Tensor:
        y = x.softmax(-1)
        return y * (g - (g * y).sum(-1, keepdim=True))

    name = define(lambda x: x.softmax(-1).sum(-1, keepdim=True), formula)
    for seed in range(8):
        linear(case(name, tensor(6, 7), dtype=torch.float32, seed=seed))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_attention_with_saturated_weights(dtype: torch.dtype) -> None:
    def formula(g: Tensor, q: Tensor, k: Tensor, v: Tensor) -> tuple:
        p = (q @ k.mT).softmax(-1)
        dp = g @ v.mT
        ds = p * (dp - (dp * p).sum(-1, keepdim=True))
        return ds @ k, ds.mT @ q, p.mT @ g

    name = define(
        lambda q, k, v: (q @ k.mT).softmax(-1) @ v,
        formula,
        "(Tensor q, Tensor k, Tensor v) -> Tensor",
    )
    for seed in range(5):
        linear(case(name, SMALL, SMALL, SMALL, dtype=dtype, seed=seed))


def test_several_outputs_complex_and_none() -> None:
    def formula(one: Tensor, two: Tensor, a: Tensor, b: Tensor) -> tuple:
        return one * b.conj() + two, None

    name = define(
        lambda a, b: (a * b, a.clone()), formula, "(Tensor a, Tensor b) -> (Tensor, Tensor)"
    )
    linear(case(name, SMALL, SMALL, dtype=torch.complex64))
    squashed = define(
        lambda a, b: (a * b, a.clone()),
        lambda one, two, a, b: (one * b.conj() + two.abs(), None),
        "(Tensor a, Tensor b) -> (Tensor, Tensor)",
    )
    failure = finding(linear, case(squashed, SMALL, SMALL, dtype=torch.complex64))
    assert "`a`" in failure.message


def test_a_backward_that_raises_for_some_grad_outputs_only() -> None:
    def formula(g: Tensor, x: Tensor) -> Tensor:
        if not g.any():
            raise ValueError("grad_output is zero")
        return g * x.cos()

    failure = finding(linear, case(define(torch.sin, formula), SMALL))
    assert failure.code == "backward-raises"
    assert "for 0 * grad_output the backward raises ValueError" in failure.message


def test_a_backward_that_runs_once_on_a_graph_is_judged_all_the_same() -> None:
    def setup(ctx: Any, inputs: tuple, output: Tensor) -> None:
        ctx.slope = [inputs[0].detach().cos()]

    def build(factor: float) -> str:
        name = f"t_gradients::op_{next(_numbers)}"
        op = torch.library.custom_op(name, torch.sin, mutates_args=(), schema=ONE)
        op.register_autograd(lambda ctx, g: factor * g * ctx.slope.pop(), setup_context=setup)
        return name

    linear(case(build(1.0), SMALL))
    assert finding(backward, case(build(2.0), SMALL)).code == "gradient-mismatch"


def test_layer_norm_passes_everything() -> None:
    def formula(g: Tensor, x: Tensor, w: Tensor) -> tuple:
        centred = x - x.mean(-1, keepdim=True)
        scale = (centred.square().mean(-1, keepdim=True) + 1e-5).rsqrt()
        y, gw = centred * scale, g * w
        mean, slope = gw.mean(-1, keepdim=True), (gw * y).mean(-1, keepdim=True)
        return scale * (gw - mean - y * slope), (g * y).sum(0)

    name = define(
        lambda x, w: F.layer_norm(x, w.shape, w), formula, "(Tensor x, Tensor w) -> Tensor"
    )
    for specs in ((SMALL, tensor(4)), (LARGE, tensor(60))):
        for check in (backward, double, linear):
            check(case(name, *specs, dtype=torch.float32))


@pytest.mark.parametrize(
    ("name", "outcomes"),
    [("polynomial_through_points", set()), ("half_of_a_gradient_where_it_has_digits", {"failed"})],
)
def test_gradients_without_digits_are_compared_with_nothing(name: str, outcomes: set[str]) -> None:
    op = specimens()[name].op()
    sample = (torch.linspace(-1, 1, 5) + 0.05 * torch.rand(2, 5), torch.randn(2, 5))
    results = check_op(op, [sample], checks="gradcheck.backward", variants="magnitudes")
    (near,) = [result for result in results if result.place.variant == "shifted"]
    assert (near.outcome, near.skip_code) == ("skipped", "ill-conditioned")
    assert {result.outcome for result in results} & {"failed", "error"} == outcomes


def test_a_straight_through_gradient_is_not_judged_at_ties() -> None:
    op = specimens()["rounds_rows_straight_through"].op()
    x = torch.tensor([[0.0, 1.0, 0.0, 1.0]], requires_grad=True)
    (result,) = check_op(op, [(x,)], checks="gradcheck.backward", variants=False)
    assert (result.outcome, result.skip_code) == ("skipped", "not-smooth")
