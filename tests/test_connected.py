"""Gradients that are asked for and not there are one finding; where nobody asks there is none."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from kit import Suite
from test_failure_text import failure

from pytest_customop import CheckResult, Sample, check_op, tensor

LIBRARY = torch.library.Library("t_connected", "DEF")
MATRIX = tensor(4, 3)
ONE = "(Tensor x) -> Tensor"
_numbers = itertools.count()


def define(
    kernel: Callable[..., Any], schema: str = ONE, at_autograd: Any = None, key: str = "CPU"
) -> Any:
    name = f"op_{next(_numbers)}"
    LIBRARY.define(name + schema)
    LIBRARY.impl(name, kernel if key != "CPU" else torch.no_grad()(kernel), key)
    if at_autograd is not None:
        LIBRARY.impl(name, at_autograd, "Autograd")
    return getattr(torch.ops.t_connected, name).default


def verdicts(op: Any, *args: Any, **options: Any) -> list[CheckResult]:
    options.setdefault("checks", "backward.connected")
    return check_op(op, [Sample(args or (MATRIX,))], variants=False, **options)


def codes(results: list[CheckResult]) -> list[str | None]:
    return [result.finding or result.skip_code for result in results]


def double(x: Any) -> Any:
    return x * 2


def below(function: Callable[..., Any]) -> Callable[..., Any]:
    def called(*args: Any) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            return function(*args)

    return called


@pytest.mark.parametrize("asked", [True, [True], [False, True]])
def test_a_mark_that_asks_for_gradients_of_an_op_without_a_formula(asked: Any) -> None:
    (result,) = verdicts(define(double), requires_grad=asked)
    assert result.finding == "gradients-disconnected"
    assert "the mark asks for gradients, and no autograd formula is registered" in result.message
    assert "argument x requires gradients" in result.evidence


@pytest.mark.parametrize("asked", [None, False, [False]])
def test_a_mark_that_does_not_ask_gets_no_item(asked: Any) -> None:
    assert verdicts(define(double), requires_grad=asked) == []


@pytest.mark.parametrize(
    ("kernel", "schema", "args"),
    [
        (lambda x: x.argmax(1), ONE, (MATRIX,)),
        (lambda x: (x > 0, x.argmax(1)), "(Tensor x) -> (Tensor, Tensor)", (MATRIX,)),
        (lambda x: x.shape[0], "(Tensor x) -> int", (MATRIX,)),
    ],
)
def test_what_cannot_have_gradients_is_left(kernel: Any, schema: str, args: Any) -> None:
    assert codes(verdicts(define(kernel, schema), *args, requires_grad=True)) == [
        "nothing-to-check"
    ]


@pytest.mark.parametrize(
    ("kernel", "schema", "key"),
    [
        (lambda x: None, "(Tensor x) -> ()", "CPU"),
        (lambda x, y: [None, x.copy_(y)][0], "(Tensor(a!) x, Tensor y) -> ()", "CPU"),
        (lambda x, y: x.copy_(y), "(Tensor(a!) x, Tensor y) -> Tensor(a!)", "CPU"),
        (lambda x: x.detach() * 2, ONE, "CompositeImplicitAutograd"),
    ],
    ids=["returns nothing", "only writes", "in place", "composite"],
)
def test_ops_without_fresh_outputs_of_their_own_get_no_item(
    kernel: Any, schema: str, key: str
) -> None:
    args = (MATRIX, tensor(4, 3)) if "y" in schema else (MATRIX,)
    assert verdicts(define(kernel, schema, key=key), *args, requires_grad=True) == []


def test_a_kernel_at_autograd_that_connects_nothing() -> None:
    (result,) = verdicts(define(double, at_autograd=below(double)))
    assert result.finding == "gradients-disconnected"
    assert "a kernel is registered at an Autograd key" in result.message


@pytest.mark.parametrize(
    ("at_autograd", "schema"),
    [
        (torch.library.fallthrough_kernel, ONE),
        (lambda x: below(double)(x).detach(), ONE),
        (below(lambda x, training=False: x * 2), "(Tensor x, bool training=False) -> Tensor"),
        (below(lambda x, mode=None: x * 2), "(Tensor x, str? mode=None) -> Tensor"),
        (lambda x, y: below(double)(x), "(Tensor x, Tensor y) -> Tensor"),
    ],
    ids=["falls through", "detaches", "a flag", "a mode", "some tensors without"],
)
def test_what_may_be_meant_so_is_left_unless_the_mark_asks(at_autograd: Any, schema: str) -> None:
    op = define(lambda x, *rest: x * 2, schema, at_autograd)
    args = (MATRIX, tensor(3, requires_grad=False)) if "y" in schema else (MATRIX,)
    assert codes(verdicts(op, *args)) == ["nothing-to-check"]
    results = verdicts(op, *args, requires_grad=True)
    assert codes(results) == ["gradients-disconnected"]
    assert "no output requires them" in results[0].message


def test_gradients_from_inside_a_kernel_are_for_another_check() -> None:
    def kernel(x: Any) -> Any:
        return x * 2

    op = define(kernel, key="CompositeExplicitAutograd")
    checks = ["backward.connected", "opcheck.test_autograd_registration"]
    results = verdicts(op, requires_grad=True, checks=checks)
    assert codes(results) == [None, "autograd-registration"]


def test_an_op_whose_backward_raises_that_there_is_no_formula_has_none() -> None:
    step = lambda x: torch.heaviside(x, x.new_ones(()))  # noqa: E731
    op = define(step, at_autograd=step)
    results = verdicts(op, checks=["backward", "gradcheck", "fake.backward", "opcheck"])
    grad_results = [result for result in results if result.place.requires_grad]
    registration = [
        result for result in grad_results if result.check == "opcheck.test_autograd_registration"
    ]
    assert [result.outcome for result in registration] == ["passed"]
    others = [result for result in grad_results if result not in registration]
    assert {result.skip_code for result in others} == {"no-formula"}
    assert not any(result.unjudged for result in others)
    failures = [result for result in verdicts(op, requires_grad=True) if result.outcome == "failed"]
    assert codes(failures) == ["gradients-disconnected"]


NO_FORMULA = """
@torch.library.custom_op("NS::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2

doubled.register_fake(lambda x: torch.empty_like(x))

@customop_cases(doubled, [(tensor(3, 4),)], requires_grad=True)
def test_doubled(): ...
"""


def test_the_compiler_has_no_gradients_to_compare_then(suite: Suite) -> None:
    suite.test(NO_FORMULA)
    result = suite.run("--customop-backend=aot_eager", checks="backward.connected,compile.static")
    result.assert_outcomes(failed=1, skipped=1)
    base = "test_doubled[cpu-float32-withgrad-0-"
    root = failure(result, f"{base}backward.connected]")
    assert root[0].startswith("gradients-disconnected: ")
    assert not root[-1].startswith("also")
