"""The family `backward` at its edges; `tests/zoo/backward_*.py` has a broken op for every finding."""

import itertools
from typing import Any, Callable, Optional

import pytest
import torch
import verdicts
from torch import Tensor

from pytest_customop.cases.arguments import Placement
from pytest_customop.cases.case import Case
from pytest_customop.checks import catalogue, families
from pytest_customop.declare import ops
from pytest_customop.declare.inputs import Sample, tensor
from pytest_customop.findings import CheckSkipped, Finding

CHECKS = verdicts.family("backward")
ONE, TWO = "(Tensor x) -> Tensor", "(Tensor x, Tensor w) -> Tensor"
BOTH = "(Tensor x) -> (Tensor, Tensor)"
MATRIX = tensor(4, 3)
once = torch.autograd.function.once_differentiable
_numbers = itertools.count()


def save(ctx: Any, inputs: tuple, output: Any) -> None:
    ctx.save_for_backward(*[argument for argument in inputs if isinstance(argument, Tensor)])


def define(
    kernel: Callable[..., Any],
    formula: Callable[..., Any],
    schema: str = ONE,
    setup: Callable[..., Any] = save,
) -> str:
    """Register an op; `formula(ctx, *grads)` is its backward."""
    name = f"t_backward::op_{next(_numbers)}"
    op = torch.library.custom_op(name, kernel, mutates_args=(), schema=schema)
    op.register_autograd(formula, setup_context=setup)
    return name


def case(name: str, *args: Any, dtype: torch.dtype = torch.float32, **fields: Any) -> Case:
    placement = Placement("cpu", dtype, True, fields.pop("layout", "contiguous"))
    return Case(ops.resolve(name), Sample(args or (MATRIX,)), placement, **fields)


def finding(check: str, op_case: Case) -> Finding:
    return verdicts.finding(CHECKS[check], op_case)


def judged(check: str, op_case: Case) -> Optional[CheckSkipped]:
    """None where the check passes, or why it was skipped."""
    try:
        CHECKS[check](op_case)
    except CheckSkipped as reported:
        return reported
    return None


def skipped(check: str, op_case: Case) -> CheckSkipped:
    reported = judged(check, op_case)
    assert reported is not None
    return reported


def sine(ctx: Any, grad: Tensor) -> Tensor:
    return grad * ctx.saved_tensors[0].cos()


SINE = define(torch.sin, sine)


def product(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
    x, w = ctx.saved_tensors
    return grad * w.conj(), grad * x.conj()


PRODUCT = define(torch.mul, product, TWO)


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64]
)
@pytest.mark.parametrize("layout", ["contiguous", "expanded", "row_padded"])
def test_a_right_formula_is_left_alone(check: str, dtype: torch.dtype, layout: str) -> None:
    op_case = case(PRODUCT, MATRIX, MATRIX, dtype=dtype, layout=layout)
    reported = judged(check, op_case)
    if check not in ("unused", "narrow", "stale"):
        assert reported is None
    elif reported is not None:
        assert not reported.unjudged


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (2, 3, 4, 5), (2, 2, 3, 4, 5)])
def test_any_shape(check: str, shape: tuple) -> None:
    reported = judged(check, case(SINE, tensor(*shape)))
    if reported is not None:
        assert reported.code == "nothing-to-check"
        assert not reported.unjudged


def raises(ctx: Any, *grads: Tensor) -> Tensor:
    raise ValueError("never")


def noisy(ctx: Any, first: Tensor, second: Tensor) -> Tensor:
    return first * next(_numbers)


@pytest.mark.parametrize("check", sorted(CHECKS.keys() - {"connected", "freed", "linear"}))
@pytest.mark.parametrize("formula", [raises, noisy])
def test_what_linear_reports_is_reported_once(check: str, formula: Any) -> None:
    op_case = case(define(lambda x: (x * 2, x * 3), formula, BOTH))
    assert not skipped(check, op_case).unjudged


# ------------------------------------------------------------------------------ grad_outputs


def by_pointer(grad: Tensor) -> Tensor:
    dense = torch.empty(grad.shape, device="meta").stride()
    return grad.detach().as_strided(grad.shape, dense)


def test_the_layout_and_the_output_are_named() -> None:
    name = define(
        lambda x: (x * 2, x * 3), lambda ctx, one, two: 2 * one + 3 * by_pointer(two), BOTH
    )
    failure = finding("layouts", case(name))
    assert failure.code == "grad-output-layout-ignored"
    assert (
        "a grad_output of output 1 expanded over all its dims (as from y.sum())" in failure.message
    )
    assert "laid_out[1] = lay_out(grads[1], [0, 0]" in (failure.repro or "")


def test_layouts_reach_channels_last_and_conjugation() -> None:
    def channels(ctx: Any, grad: Tensor) -> Tensor:
        last = grad.is_contiguous(memory_format=torch.channels_last)
        return grad * (1 if last and not grad.is_contiguous() else 2)

    name = define(lambda x: x * 2, channels)
    assert "in channels_last memory" in finding("layouts", case(name, tensor(2, 3, 4, 5))).message
    name = define(lambda x: x * 2, lambda ctx, grad: grad * (0 if grad.is_conj() else 2))
    failure = finding("layouts", case(name, dtype=torch.complex64))
    assert "with the conjugate bit set" in failure.message


def test_a_kernel_that_reads_too_much_stays_in_poisoned_memory() -> None:
    seen = []

    def look(ctx: Any, grad: Tensor) -> Tensor:
        seen.append(grad.untyped_storage().nbytes() >= grad.numel() * grad.element_size())
        return grad * 2

    CHECKS["layouts"](case(define(lambda x: x * 2, look)))
    assert seen
    assert all(seen)


def test_integer_outputs_are_never_used() -> None:
    def formula(ctx: Any, _: Any, first: Tensor, second: Tensor) -> Tensor:
        return first * 2 + second * 3

    schema = "(Tensor x) -> (Tensor, Tensor, Tensor)"
    name = define(lambda x: (x > 0, x * 2, x * 3), formula, schema)
    for check in CHECKS:
        reported = judged(check, case(name))
        assert reported is None or not reported.unjudged


# ------------------------------------------------------------------------------------ inputs


def test_a_refusal_for_some_inputs_is_no_finding() -> None:
    def formula(ctx: Any, grad: Tensor) -> Any:
        if not ctx.needs_input_grad[0]:
            raise NotImplementedError("no gradient for w alone")
        return grad * ctx.saved_tensors[1], grad * ctx.saved_tensors[0]

    CHECKS["subsets"](case(define(torch.mul, formula, TWO), MATRIX, MATRIX))


def test_the_subset_is_named() -> None:
    def formula(ctx: Any, grad: Tensor) -> Any:
        first = ctx.needs_input_grad[0]
        x, w = ctx.saved_tensors
        return grad * w, grad * x if first else torch.zeros_like(x)

    failure = finding("subsets", case(define(torch.mul, formula, TWO), MATRIX, MATRIX))
    assert failure.code == "needs-input-grad-mishandled"
    assert "where only `w` requires gradients, the gradient for `w` is 0" in failure.message


def single(kernel: Callable[..., Any]) -> Callable[..., Any]:
    def refusing(*tensors: Tensor) -> Any:
        if any(argument.dtype == torch.float64 for argument in tensors):
            raise TypeError("no float64")
        return kernel(*tensors)

    return refusing


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("shape", [(), (4, 3), (3, 60, 60)])
def test_narrow_sees_a_wrong_factor(dtype: torch.dtype, shape: tuple) -> None:
    name = define(
        single(lambda x: x * x), lambda ctx, grad: grad * ctx.saved_tensors[0], setup=save
    )
    right = define(single(lambda x: x * x), lambda ctx, grad: 2 * grad * ctx.saved_tensors[0])
    spec = tensor(*shape, low=1, high=2)
    CHECKS["narrow"](case(right, spec, dtype=dtype))
    if dtype != torch.bfloat16:
        assert finding("narrow", case(name, spec, dtype=dtype)).code == "gradient-mismatch"


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("step", [1.0, 0.5, 0.1, 0.01])
@pytest.mark.parametrize("shape", [(), (2,), (4, 3)])
def test_narrow_never_judges_a_straight_through_estimator(
    shape: tuple, step: float, seed: int
) -> None:
    name = define(single(lambda x: (x / step).round() * step), lambda ctx, grad: grad.clone())
    reported = judged("narrow", case(name, tensor(*shape), seed=seed))
    assert reported is None or reported.code == "not-smooth"


def test_narrow_leaves_to_gradcheck_what_it_can_judge() -> None:
    name = define(torch.sin, lambda ctx, grad: -grad * ctx.saved_tensors[0].cos())
    assert skipped("narrow", case(name)).code == "nothing-to-check"
    refusing = define(single(torch.sin), lambda ctx, grad: -grad * ctx.saved_tensors[0].cos())
    assert finding("narrow", case(refusing)).code == "gradient-mismatch"
    assert skipped("narrow", case(refusing, gradcheck="on purpose")).code == "left-out"


def test_narrow_leaves_numbers_alone_that_have_lost_their_digits() -> None:
    def kernel(x: Tensor) -> Tensor:
        return (x.double() * 1e-40).float()

    def formula(ctx: Any, grad: Tensor) -> Tensor:
        return torch.zeros_like(grad)  # as a processor gives for what is below the normal range

    reported = judged("narrow", case(define(kernel, formula)))
    assert reported is not None
    assert reported.code == "not-smooth"


def test_narrow_takes_a_result_of_eight_bits() -> None:
    def formula(ctx: Any, grad: Tensor) -> Tensor:
        return grad.to(torch.float32)

    name = define(lambda x: x.to(torch.float8_e5m2), formula)
    reported = judged("narrow", case(name))
    assert reported is None or reported.code == "not-smooth"


def test_narrow_judges_what_rounds_float64() -> None:
    name = define(lambda x: x.float().sin().to(x.dtype), lambda ctx, grad: grad * 0)
    assert finding("narrow", case(name)).code == "gradient-missing"


# ------------------------------------------------------------------------------------- memory


def test_every_tensor_that_is_written_to_is_named() -> None:
    def on_input(ctx: Any, grad: Tensor) -> Tensor:
        x = ctx.saved_tensors[0]
        x.data.mul_(1.5)
        return grad * 2

    failure = finding("intact", case(define(lambda x: x * 2, on_input)))
    assert failure.code == "backward-mutates"
    assert "the argument `x`: 12 of 12 elements differ" in failure.message

    def without_effect(ctx: Any, grad: Tensor) -> Tensor:
        return grad.mul_(1)

    failure = finding("intact", case(define(torch.clone, without_effect)))
    assert failure.message.startswith("the backward writes to grad_output, though only")

    def on_saved(ctx: Any, grad: Tensor) -> Tensor:
        return ctx.saved_tensors[0].mul_(grad)

    def keep_cosine(ctx: Any, inputs: tuple, output: Any) -> None:
        ctx.save_for_backward(inputs[0].detach().cos())

    name = define(torch.sin, once(on_saved), setup=keep_cosine)
    assert "to a tensor that it saved" in finding("intact", case(name)).message


def test_a_cache_of_the_last_call_is_no_leak() -> None:
    last: dict[str, Tensor] = {}

    def kernel(x: Tensor) -> Tensor:
        last["x"] = x
        return x * 2

    CHECKS["freed"](case(define(kernel, lambda ctx, grad: grad * 2)))
    kept: list[Tensor] = []

    def keeps(x: Tensor) -> Tensor:
        kept.append(x)
        return x * 2

    failure = finding("freed", case(define(keeps, lambda ctx, grad: grad * 2)))
    assert failure.message.startswith("the arguments of 3 calls")


def test_arguments_that_share_memory_are_not_written_to() -> None:
    whole = torch.randn(8, 3)
    first, second = (part.requires_grad_() for part in (whole[:4], whole[4:]))
    assert judged("saved", case(PRODUCT, first, second)) is None


def test_a_stack_of_states_is_shared_state() -> None:
    states: list[Tensor] = []

    def push(ctx: Any, inputs: tuple, output: Any) -> None:
        states.append(inputs[0].detach().clone())

    name = define(torch.sin, lambda ctx, grad: grad * states.pop().cos(), setup=push)
    failure = finding("saved", case(name))
    assert failure.code == "backward-state-shared"


# ------------------------------------------------------------------- second order, checkpoint


def test_an_error_is_as_good_as_a_second_order() -> None:
    def by_numpy(ctx: Any, grad: Tensor) -> Tensor:
        return torch.from_numpy(grad.numpy() * 2)

    CHECKS["second_order"](case(define(lambda x: x * 2, by_numpy)))
    silent = define(lambda x: x * 2, lambda ctx, grad: torch.from_numpy(grad.detach().numpy() * 2))
    assert finding("second_order", case(silent)).code == "second-order-lost"


def test_a_gradient_that_does_not_depend_on_grad_output_has_no_second_order() -> None:
    name = define(torch.sin, lambda ctx, grad: torch.ones_like(grad, requires_grad=False))
    CHECKS["second_order"](case(name))


def test_other_outputs_or_saved_tensors_the_second_time() -> None:
    calls: list[int] = []

    def setup(ctx: Any, inputs: tuple, output: Any) -> None:
        calls.append(1)
        extra = (inputs[0],) if len(calls) % 2 else ()
        ctx.save_for_backward(inputs[0], *extra)

    failure = finding("checkpoint", case(define(torch.sin, sine, setup=setup)))
    assert failure.code == "checkpoint-mismatch"
    assert "CheckpointError" in failure.message


def test_a_generator_is_left_out() -> None:
    library = torch.library.Library("t_backward_generator", "DEF")
    library.define("noise(Tensor x, *, Generator? generator=None) -> Tensor")
    library.impl("noise", lambda x, *, generator=None: x * 2, "CompositeImplicitAutograd")
    sample = Sample((MATRIX,), {"generator": torch.Generator()})
    op = ops.resolve("t_backward_generator::noise")
    op_case = Case(op, sample, Placement("cpu", torch.float32, True, "contiguous"))
    assert skipped("checkpoint", op_case).code == "nothing-to-check"


# ------------------------------------------------------------------------------ the catalogue


@pytest.mark.parametrize(
    "code",
    [
        code
        for family in families()
        if family.name in ("backward", "gradcheck")
        for code in family.findings
    ],
)
def test_every_entry_is_complete(code: str) -> None:
    entry = catalogue()[code]
    assert entry.why
    assert entry.docs
    for lines in (entry.before, entry.after):
        assert 1 <= len(lines.strip().splitlines()) <= 8
        compile(lines.strip(), code, "exec")
    assert set(entry.follows) <= set(catalogue())
