"""The family `reference`: what counts as agreement, and mistakes of the mark reported as such."""

import itertools
from typing import Any, Callable

import pytest
import torch
from torch import Tensor
from verdicts import finding, skipped

from pytest_customop import CheckResult, check_op, tensor
from pytest_customop.cases.arguments import Placement
from pytest_customop.cases.case import Case
from pytest_customop.checks.reference.gradients import check_gradients as gradients
from pytest_customop.checks.reference.values import check_values as values
from pytest_customop.declare import ops
from pytest_customop.declare.inputs import Sample
from pytest_customop.declare.mistakes import MarkError

ONE = "(Tensor x) -> Tensor"
_numbers = itertools.count()


def define(
    kernel: Callable[..., Any],
    backward: Callable[..., Any] | None = None,
    schema: str = ONE,
    mutates: Any = (),
) -> str:
    """Register an op; `backward` gets ctx and the grad_outputs."""
    name = f"t_reference::op_{next(_numbers)}"
    op = torch.library.custom_op(name, kernel, mutates_args=mutates, schema=schema)
    if backward is not None:
        op.register_autograd(
            backward,
            setup_context=lambda ctx, inputs, output: ctx.save_for_backward(
                *[value for value in inputs if isinstance(value, Tensor)]
            ),
        )
    return name


def case(name: str, reference: Any, *args: Any, **fields: Any) -> Case:
    dtype = fields.pop("dtype", torch.float32)
    placement = Placement("cpu", dtype, fields.pop("grad", False), "contiguous")
    sample = Sample(args or (tensor(4, 3),), fields.pop("kwargs", {}))
    return Case(ops.resolve(name), sample, placement, reference=reference, **fields)


def mistake(check: Any, bad_case: Case) -> str:
    with pytest.raises(MarkError) as caught:
        check(bad_case)
    return str(caught.value)


SIN = define(torch.sin, lambda ctx, g: g * ctx.saved_tensors[0].cos())
MATRIX = tensor(4, 3)


@pytest.mark.parametrize(
    "dtype",
    [torch.float16, torch.bfloat16, torch.float64, torch.complex64, torch.complex128],
)
def test_dtypes_with_gradients(dtype: torch.dtype) -> None:
    for check in (values, gradients):
        check(case(SIN if not dtype.is_complex else CSIN, torch.sin, dtype=dtype, grad=True))


CSIN = define(torch.sin, lambda ctx, g: g * ctx.saved_tensors[0].cos().conj())


@pytest.mark.parametrize("dtype", [torch.int8, torch.int64, torch.bool, torch.float8_e4m3fn])
def test_dtypes_without(dtype: torch.dtype) -> None:
    name = define(lambda x: x.clone())
    values(case(name, torch.clone, dtype=dtype))
    wrong = finding(values, case(name, torch.zeros_like, tensor(4, fill=1), dtype=dtype))
    assert "output: 4 of 4 elements differ; first at [0]: " in wrong.message


def test_nan_equals_nan_and_is_no_number() -> None:
    argument = tensor(values=[-1.0, 4.0])
    values(case(define(torch.sqrt), torch.sqrt, argument))
    wrong = finding(values, case(define(torch.sqrt), lambda x: x.abs().sqrt(), argument))
    assert "first at [0]: nan instead of 1" in wrong.message


def test_the_output_the_element_and_the_distance_are_named() -> None:
    name = define(lambda x: ([x + 1, x * 2.5], x.sum()), schema="(Tensor x) -> (Tensor[], Tensor)")
    right = lambda x: ([x + 1, x * 2.5], x.sum())  # noqa: E731
    values(case(name, right))
    argument = tensor(2, fill=2.0)
    wrong = finding(values, case(name, lambda x: ([x + 1, x * 2], x.sum()), argument))
    assert wrong.code == "reference-mismatch"
    assert f"{name} output 0[1]: 2 of 2 elements differ; first at [0]: 5 instead of 4" in (
        wrong.message
    )
    assert "largest difference 1 " in wrong.message
    assert finding(values, case(name, lambda x: ([x + 1], x.sum()))).message.startswith(
        "output 0[1] is returned, unlike in the reference"
    )


def test_shape_and_dtype_count_but_double_precision_is_welcome() -> None:
    values(case(SIN, lambda x: x.double().sin()))
    assert "shape (4, 3) instead of (3, 4)" in finding(values, case(SIN, lambda x: x.t())).message
    assert "dtype float32 instead of float16" in (
        finding(values, case(SIN, lambda x: x.half())).message
    )


def test_numpy_numbers_and_none() -> None:
    pytest.importorskip("numpy")
    values(case(SIN, lambda x: torch.sin(x).numpy(), grad=True))
    assert skipped(gradients, case(SIN, lambda x: x.numpy(), grad=True)).code == (
        "reference-not-differentiable"
    )
    count = define(lambda x: x.numel(), schema="(Tensor x) -> int")
    values(case(count, lambda x: 12))
    values(case(count, lambda x: torch.tensor(12)))
    assert "12 instead of 11" in finding(values, case(count, lambda x: 11)).message
    assert "a tensor instead of none" in finding(values, case(SIN, lambda x: None)).message


def test_keywords_and_optional_arguments() -> None:
    name = define(
        lambda x, w=None, *, scale=2.0: x * scale if w is None else x * w * scale,
        schema="(Tensor x, Tensor? w=None, *, float scale=2.0) -> Tensor",
    )
    right = lambda x, w=None, *, scale=2.0: x * scale * (1 if w is None else w)  # noqa: E731
    values(case(name, right))
    values(case(name, right, MATRIX, MATRIX, kwargs={"scale": 0.5}))


def test_sizes_that_depend_on_data() -> None:
    values(case(define(lambda x: x[x > 0]), lambda x: x[x > 0]))


def test_written_arguments_are_compared_and_the_inputs_are_the_reference_s_own() -> None:
    def kernel(x: Tensor, out: Tensor) -> None:
        out.copy_(x * 2)

    name = define(kernel, schema="(Tensor x, Tensor(a!) out) -> ()", mutates={"out"})
    values(case(name, kernel, MATRIX, MATRIX))
    wrong = finding(values, case(name, lambda x, out: out.copy_(x), MATRIX, MATRIX))
    assert "argument out after the call: 12 of 12 elements differ" in wrong.message
    # A reference that writes to its inputs writes to no other check's.
    values(case(SIN, lambda x: x.sin_()))


def test_rounding_is_no_difference_unless_the_mark_says_so() -> None:
    def rough(x: Tensor) -> Tensor:
        return x * (1 - 2e-6) if x.dtype == torch.float32 else x.clone()

    argument = tensor(20, low=50.0, high=100.0)
    name = define(lambda x: x * (1 + 2e-6))
    assert not torch.allclose(rough(torch.ones(1)), torch.tensor(1 + 2e-6), rtol=1.3e-6)
    values(case(name, rough, argument))
    exact = {torch.float32: (1.3e-6, 1e-5)}
    assert finding(values, case(name, rough, argument, tolerances=exact))
    assert finding(values, case(define(lambda x: x * (1 + 2e-4)), rough, argument))


def test_an_op_that_does_not_repeat_itself_cannot_be_compared() -> None:
    name = define(lambda x: x + next(_numbers))
    assert skipped(values, case(name, torch.clone)).code == "nondeterministic"


def test_a_seeded_op_is_compared_with_the_same_random_numbers() -> None:
    values(case(define(lambda x: x * torch.rand_like(x)), lambda x: x * torch.rand_like(x)))


# Gradients


def test_a_gradient_is_named_with_its_element() -> None:
    name = define(torch.square, lambda ctx, g: 3 * g * ctx.saved_tensors[0])
    wrong = finding(gradients, case(name, torch.square, grad=True))
    assert wrong.code == "reference-gradient-mismatch"
    assert "the gradient of `x`: 12 of 12 elements differ; first at [0, 0]: " in wrong.message


def test_none_and_zeros_are_the_same_and_none_and_numbers_are_not() -> None:
    two, schema = (MATRIX, MATRIX), "(Tensor x, Tensor y) -> Tensor"
    none = define(torch.add, lambda ctx, g: (g, None), schema)
    gradients(case(none, lambda x, y: x + y.detach(), *two, grad=True))
    gradients(case(none, lambda x, y: x + torch.zeros_like(y) * y, *two, grad=True))
    wrong = finding(gradients, case(none, torch.add, *two, grad=True))
    assert "the gradient of `y`: None, and the reference gives one" in wrong.message
    both_gradients = define(torch.add, lambda ctx, g: (g, g), schema)
    wrong = finding(gradients, case(both_gradients, lambda x, y: x + y.detach(), *two, grad=True))
    assert "and the reference gives None" in wrong.message


def test_a_gradient_that_the_op_cannot_give() -> None:
    name = f"t_reference::op_{next(_numbers)}"
    op = torch.library.custom_op(
        name, lambda x: (x + 1, x * 2), mutates_args=(), schema="(Tensor x) -> (Tensor, Tensor)"
    )
    op.register_autograd(
        lambda ctx, g, _: g,
        setup_context=lambda ctx, inputs, output: ctx.mark_non_differentiable(output[1]),
    )
    gradients(case(name, lambda x: (x + 1, (x * 2).detach()), grad=True))
    wrong = finding(gradients, case(name, lambda x: (x + 1, x * 2), grad=True))
    assert "output 1 does not require gradients, and the reference's does" in wrong.message


def test_a_backward_that_raises_is_the_op_s_fault() -> None:
    def backward(ctx: Any, g: Tensor) -> Tensor:
        raise IndexError("no such thing")

    wrong = finding(gradients, case(define(torch.sin, backward), torch.sin, grad=True))
    assert wrong.code == "backward-raises"


def test_integer_outputs_have_no_gradients() -> None:
    name = define(
        lambda x: (x * 2, x.argsort()),
        lambda ctx, g, _: g * 2,
        "(Tensor x) -> (Tensor, Tensor)",
    )
    for check in (values, gradients):
        check(case(name, lambda x: (x * 2, x.argsort()), tensor(5), grad=True))


# Mistakes of the mark


def test_a_reference_that_raises_is_a_mistake_of_the_mark() -> None:
    def broken(x: Tensor) -> Tensor:
        raise LookupError("no table")

    (line,) = (broken.__code__.co_firstlineno + 1,)
    expected = f"the reference of the mark raised LookupError: no table ({__file__}:{line})"
    for check in (values, gradients):
        assert mistake(check, case(SIN, broken, grad=True)) == expected
    results: list[CheckResult] = check_op(SIN, [(MATRIX,)], reference=broken, checks="reference")
    for result in results:
        if result.place.variant is not None:  # the samples alone are the author's
            assert (result.outcome, result.skip_code) == ("skipped", "unfit-variant")
            assert result.message == expected
            continue
        assert (result.outcome, result.finding, result.message) == ("error", None, expected)
        assert "in broken" in result.evidence
        assert "pytest_customop/" not in result.evidence


def test_a_reference_of_another_form_is_a_mistake_of_the_mark() -> None:
    def write(x: Tensor) -> None:
        x.add_(1)

    inplace = define(write, schema="(Tensor(a!) x) -> ()", mutates={"x"})
    values(case(inplace, lambda x: x.add_(1)))
    assert "writes to x and returns nothing" in mistake(values, case(inplace, lambda x: x + 1))
    two = define(lambda x: (x + 1, x + 2), schema="(Tensor x) -> (Tensor, Tensor)")
    assert "returned 1 output, and" in mistake(values, case(two, torch.sin))


def test_without_a_reference_there_is_nothing_to_run() -> None:
    assert check_op(SIN, [(MATRIX,)], checks="reference") == []
    results = check_op(SIN, [(MATRIX,)], reference=torch.sin, checks="reference", variants=False)
    assert [(result.check, result.case.split("-")[2], result.outcome) for result in results] == [
        ("reference.values", "nograd", "passed"),
        ("reference.gradients", "withgrad", "passed"),
        ("reference.values", "withgrad", "passed"),
    ]


# Scripts


def _inplace(factor: float) -> Callable[..., None]:
    def write(x: Tensor, out: Tensor) -> None:
        out.copy_(x * factor)

    return write


WRITES = {"schema": "(Tensor x, Tensor(a!) out) -> ()", "mutates": {"out"}}
ADD = "(Tensor x, Tensor y) -> Tensor"
# name: (right kernel, wrong one, their backwards, what else defines them, the reference, samples)
SHOWN: dict[str, Any] = {
    "nan": (torch.sqrt, lambda x: x.abs().sqrt(), None, {}, torch.sqrt, [-1.0, 4.0]),
    "infinity": (lambda x: 1 / x, lambda x: 1 / (x + 1), None, {}, lambda x: 1 / x, [0.0]),
    "shape": (torch.clone, lambda x: x[:1].clone(), None, {}, torch.clone, [1.0, 2.0]),
    "dtype": (torch.clone, lambda x: x.double(), None, {}, torch.clone, [1.0, 2.0]),
    "complex": (torch.conj_physical, torch.clone, None, {}, torch.conj, [1j, 2j]),
    "boolean": (torch.isnan, torch.isfinite, None, {}, torch.isnan, [1.0]),
    "number": (
        lambda x: x.numel(),
        lambda x: x.dim(),
        None,
        {"schema": "(Tensor x) -> int"},
        lambda x: x.numel(),
        [1.0, 2.0],
    ),
    "gradient": (torch.square, torch.square, (2, 3), {}, torch.square, [1.0, 2.0]),
    "gradient-none": (torch.square, torch.square, (2, None), {}, torch.square, [1.0, 2.0]),
    "gradient-some": (
        torch.square,
        torch.square,
        (0, 1),
        {},
        lambda x: x.detach().square() + 0 * x,
        [1.0],
    ),
}


@pytest.mark.parametrize("name", SHOWN)
def test_the_script_fails_for_the_wrong_op_and_not_for_the_right_one(name: str) -> None:
    right, wrong, factors, more, reference, elements = SHOWN[name]

    def backward(factor: Any) -> Any:
        if factors is None:
            return None
        return lambda ctx, g: None if factor is None else factor * g * ctx.saved_tensors[0]

    good = define(right, backward(factors and factors[0]), **more)
    bad = define(wrong, backward(factors and factors[1]), **more)
    dtypes = [torch.complex64] if name == "complex" else None
    samples = [(tensor(values=elements),)]
    options = {"reference": reference, "checks": "reference", "dtypes": dtypes}
    failed = [result for result in check_op(bad, samples, **options) if result.outcome == "failed"]
    assert failed
    assert not [
        result for result in check_op(good, samples, **options) if result.outcome != "passed"
    ]
    script = failed[0].script()
    assert script is not None
    with pytest.raises(AssertionError):
        exec(script.text, {})
    exec(script.text.replace(bad.replace("::", "."), good.replace("::", ".")), {})


def test_the_script_shows_a_written_argument() -> None:
    good, bad = (define(_inplace(factor), **WRITES) for factor in (2, 3))
    samples = [(MATRIX, MATRIX)]
    (result,) = check_op(bad, samples, reference=_inplace(2), checks="reference", variants=False)
    script = result.script()
    assert script is not None
    with pytest.raises(AssertionError):
        exec(script.text, {})
    exec(script.text.replace(bad.replace("::", "."), good.replace("::", ".")), {})
