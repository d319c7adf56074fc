"""`compile.autocast`: when it compiles at all, and what it leaves alone."""

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor

from pytest_customop import tensor
from pytest_customop.cases.arguments import Placement
from pytest_customop.cases.case import Case
from pytest_customop.checks.compile import autocast
from pytest_customop.declare import ops
from pytest_customop.declare.inputs import Sample
from pytest_customop.findings import CheckFailed, CheckSkipped

check = autocast.check_autocast
_numbers = itertools.count()
TWO = "(Tensor x, Tensor y) -> Tensor"


def define(kernel: Any, fake: Any, backward: Any = None, schema: str = TWO) -> str:
    name = f"t_autocast::op_{next(_numbers)}"
    op = torch.library.custom_op(name, kernel, mutates_args=(), schema=schema)
    op.register_fake(fake)
    if backward is not None:
        op.register_autograd(
            backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs)
        )
    return name


def case(name: str, *args: Any, dtype: torch.dtype = torch.float32, grad: bool = False) -> Case:
    placement = Placement("cpu", dtype, grad, "contiguous")
    return Case(ops.resolve(name), Sample(args), placement, backend="aot_eager")


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[Case]:
    """The cases that were compiled."""
    seen: list[Case] = []
    real = autocast._compare_compiled

    def compare(op_case: Case, device: str) -> None:
        seen.append(op_case)
        real(op_case, device)

    monkeypatch.setattr(autocast, "_compare_compiled", compare)
    return seen


def like(x: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(x)


def test_an_op_that_autocast_does_not_touch_is_not_compiled(compiled: list[Case]) -> None:
    name = define(torch.add, like)
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.complex64):
        check(case(name, tensor(3, 4), tensor(3, 4), dtype=dtype))
    matmul = define(torch.matmul, like)
    check(case(matmul, tensor(3, 3), tensor(3, 3), dtype=torch.float64))
    assert compiled == []


def test_the_precision_of_autocast_is_no_difference(compiled: list[Case]) -> None:
    def kernel(x: Tensor, y: Tensor) -> Tensor:
        return (x @ y).to(x.dtype)

    def backward(ctx: Any, g: Tensor) -> Any:
        x, y = ctx.saved_tensors
        return g @ y.mT, x.mT @ g

    name = define(kernel, like, backward)
    check(case(name, tensor(40, 40), tensor(40, 40)))
    check(case(name, tensor(40, 40), tensor(40, 40), grad=True))
    assert len(compiled) == 2


@pytest.mark.skipif(not hasattr(torch.library, "register_autocast"), reason="from torch 2.6 on")
def test_a_rule_is_always_compiled_with(compiled: list[Case]) -> None:
    name = define(torch.add, like)
    torch.library.register_autocast(name, "cpu", torch.bfloat16)
    check(case(name, tensor(3, 4), tensor(3, 4)))
    check(case(name, tensor(3), tensor(3), dtype=torch.int64))
    assert len(compiled) == 2


def test_another_dtype_is_named(compiled: list[Case]) -> None:
    with pytest.raises(CheckFailed) as caught:
        check(case(define(torch.matmul, like), tensor(3, 3), tensor(3, 3)))
    finding = caught.value.finding
    assert finding.code == "autocast-fake-mismatch"
    assert "under torch.autocast('cpu', bfloat16), t_autocast::op_" in finding.message
    assert "output: fake dtype float32, real bfloat16" in finding.message
    assert compiled == []


def test_what_is_wrong_without_autocast_is_not_reported_again(compiled: list[Case]) -> None:
    name = define(torch.matmul, lambda x, y: x.new_empty(9))
    with pytest.raises(CheckSkipped, match=r"see fake\.forward") as caught:
        check(case(name, tensor(3, 3), tensor(3, 3)))
    assert not caught.value.unjudged


def test_an_op_that_raises_under_autocast_is_not_judged(compiled: list[Case]) -> None:
    def kernel(x: Tensor, y: Tensor) -> Tensor:
        return torch.stack([x, y]).index_put_((torch.tensor([0]),), (x @ y)[None])

    with pytest.raises(CheckSkipped, match=r"eager mode raises under torch\.autocast") as caught:
        check(case(define(kernel, lambda x, y: x.new_empty(2, 3, 3)), tensor(3, 3), tensor(3, 3)))
    assert caught.value.unjudged


def test_meta_tensors_have_no_autocast() -> None:
    op_case = Case(
        ops.resolve(define(torch.add, like)),
        Sample((tensor(3), tensor(3))),
        Placement("meta", torch.float32, False, "contiguous"),
    )
    with pytest.raises(CheckSkipped):
        check(op_case)
