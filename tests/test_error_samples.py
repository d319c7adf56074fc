"""Error samples: the cases they make, and what is asked of the two kernels."""

import itertools
from typing import Any

import pytest
import torch
from kit import Suite
from torch import Tensor

from pytest_customop import ErrorSample, check_op, tensor
from pytest_customop.checks import builtin_checks
from pytest_customop.declare.declaration import declare_call
from pytest_customop.plan.matrix import PlannedItem, plan
from pytest_customop.settings import Settings

_numbers = itertools.count()
GOOD = [(tensor(3, 4), 2)]


def define(refuse: Any, refuse_fake: Any = None, *, fake: bool = True) -> str:
    name = f"t_errors::op_{next(_numbers)}"

    @torch.library.custom_op(name, mutates_args=())
    def op(x: Tensor, n: int) -> Tensor:
        refuse(x, n)
        return x * n

    def fake_kernel(x: Tensor, n: int) -> Tensor:
        (refuse_fake or refuse)(x, n)
        return torch.empty_like(x)

    if fake:
        op.register_fake(fake_kernel)
    return name


def refuse(x: Tensor, n: int) -> None:
    if n < 0:
        raise ValueError(f"n must not be negative, got {n}")


def nothing(x: Tensor, n: int) -> None:
    """Refuses nothing."""


def reported(op: str, error: ErrorSample, **options: Any) -> dict[str, str]:
    """What the two checks say, by their names."""
    results = check_op(op, GOOD, errors=[error], checks="errors", **options)
    return {
        result.check[7:]: result.finding or result.skip_code or result.outcome for result in results
    }


NEGATIVE = ErrorSample((tensor(3, 4), -1), raises=ValueError, match="negative, got -1$")
RIGHT = define(refuse)


def ids(**options: Any) -> list[str]:
    declaration = declare_call({"op": RIGHT, "samples": GOOD, **options}, "here")
    checks = [check for check in builtin_checks() if check.family == "errors"]
    planned: list[PlannedItem] = plan([declaration], Settings(), lambda _: checks, lambda _: None)
    return [item.id for item in planned if not item.is_body]


def test_each_makes_a_case_of_its_own_a_dtype() -> None:
    errors = [NEGATIVE, ErrorSample((tensor(2), -1), raises=ValueError, id="small")]
    assert ids(errors=errors, dtypes=[torch.float32, torch.float64], layouts=["transposed"]) == [
        f"cpu-{dtype}-nograd-{sample}-errors.{kernel}"
        for dtype in ("float32", "float64")
        for sample in ("error0", "small")
        for kernel in ("fake", "real")
    ]


def test_gradients_only_where_a_tensor_says_so() -> None:
    for x in (tensor(3, requires_grad=True), torch.ones(3, requires_grad=True)):
        error = ErrorSample((x, -1), raises=ValueError)
        assert ids(errors=[error])[0] == "cpu-float32-withgrad-error0-errors.fake"
    assert ids(errors=[NEGATIVE], requires_grad=False)[0].startswith("cpu-float32-nograd-error0")


def test_the_mark_can_leave_cells_out() -> None:
    def skip_if(cell: Any) -> str | None:
        return "not here" if cell.sample_id == "error0" else None

    assert ids(errors=[NEGATIVE], skip_if=skip_if) == ["cpu-float32-nograd-error0"]


def test_axes_have_their_first_value() -> None:
    def make(device: str, dtype: torch.dtype, requires_grad: bool, n: int) -> list[Any]:
        return [(tensor(3), n)]

    names = ids(samples=make, axes={"n": [2, 3]}, errors=[NEGATIVE])
    assert names == [f"cpu-float32-nograd-n2-error0-errors.{kind}" for kind in ("fake", "real")]


def test_no_other_check_runs_on_them() -> None:
    results = check_op(RIGHT, GOOD, errors=[NEGATIVE], backend="aot_eager")
    assert {result.check for result in results if "error0" in result.case} == {
        "errors.fake",
        "errors.real",
    }
    assert {result.check for result in results if "error0" not in result.case} >= {"fake.forward"}
    assert {result.outcome for result in results} <= {"passed", "skipped"}


def test_neither_the_body_nor_checks_of_others_run_on_them(suite: Suite) -> None:
    suite.test("""
from pytest_customop import ErrorSample

@customop_cases(
    scale, [(tensor(3), 2)], requires_grad=False,
    errors=[ErrorSample((tensor(3), 2), raises=ValueError)],
)
def test_scale(customop_case):
    assert customop_case.sample_id == "0"
""")
    result = suite.run("-rf", checks="own,errors,body")
    result.assert_outcomes(passed=2, failed=1, skipped=1)
    result.stdout.fnmatch_lines(["FAILED *[[]cpu-float32-nograd-error0-errors.real]*"])


def test_both_kernels_reject() -> None:
    assert reported(RIGHT, NEGATIVE) == {"real": "passed", "fake": "passed"}


@pytest.mark.parametrize(
    "error",
    [
        ErrorSample((tensor(3), -1), raises=TypeError),
        ErrorSample((tensor(3), -1), raises=(TypeError, KeyError), match="negative"),
        ErrorSample((tensor(3), -1), raises=ValueError, match="^negative"),
    ],
)
def test_type_and_message_count_in_both_kernels(error: ErrorSample) -> None:
    assert reported(RIGHT, error) == {"real": "error-differs", "fake": "fake-error-differs"}


def test_any_of_several_types_and_any_message() -> None:
    error = ErrorSample((tensor(3), -1), raises=(TypeError, ValueError))
    assert reported(RIGHT, error) == {"real": "passed", "fake": "passed"}


def test_what_is_accepted_is_reported_with_what_is_returned() -> None:
    op = define(nothing)
    real, fake = reversed(check_op(op, GOOD, errors=[NEGATIVE], checks="errors"))
    assert real.message == (
        f"{op} must raise ValueError matching 'negative, got -1$' here, and returns float32[3, 4]"
    )
    assert (fake.outcome, fake.skip_code) == ("skipped", "nothing-to-check")


def test_a_fake_kernel_that_takes_it() -> None:
    op = define(refuse, nothing)
    assert reported(op, NEGATIVE) == {"real": "passed", "fake": "fake-accepts-bad-input"}
    assert reported(define(refuse, fake=False), NEGATIVE)["fake"] == "nothing-to-check"


def test_values_are_not_for_the_fake_kernel() -> None:
    def positive(x: Tensor, n: int) -> None:
        if not bool((x > 0).all()):
            raise ValueError("x must be positive")

    op = define(positive, nothing)
    zero = ErrorSample((tensor(3, low=-2, high=-1), 2), raises=ValueError)
    assert reported(op, zero) == {"real": "passed", "fake": "nothing-to-check"}

    def exact(x: Tensor, n: int) -> None:
        if float(x.sum()) != 1.25:
            raise ValueError("x must add up to 1.25")

    odd = ErrorSample((tensor(3, fill=0.25), 2), raises=ValueError)
    assert reported(define(exact, nothing), odd)["fake"] == "fake-accepts-bad-input"
    known = ErrorSample((tensor(3, fill=0.25), 2), raises=ValueError, data_dependent=True)
    assert reported(define(exact, nothing), known) == {"real": "passed", "fake": "nothing-to-check"}


def test_torch_s_own_words_are_not_the_author_s() -> None:
    def view(x: Tensor, n: int) -> None:
        x.view(n)

    def check(x: Tensor, n: int) -> None:
        torch._check(n == x.numel(), lambda: "another number")

    error = ErrorSample((tensor(3), 5), raises=RuntimeError, match="shape '\\[5\\]' is invalid")
    assert reported(define(view), error) == {"real": "passed", "fake": "passed"}
    assert reported(define(view, check), error)["fake"] == "fake-error-differs"
