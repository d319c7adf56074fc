"""`run_eager`: what compiled code is compared with is as the op returned it, whatever a backward does."""

from typing import Any

import pytest
import torch

from pytest_customop import tensor
from pytest_customop.cases.case import Case
from pytest_customop.checks import builtin_checks
from pytest_customop.checks.compile.eager import run_eager
from pytest_customop.checks.compile.harness import OP_ONLY, OpHarness
from pytest_customop.declare.declaration import declare_call
from pytest_customop.plan.matrix import plan
from pytest_customop.settings import Settings

STATIC = next(check for check in builtin_checks() if check.name == "compile.static")


class Does:
    """What the op does."""

    writes = False
    calls = 0


@torch.library.custom_op("compile_eager::double", mutates_args=())
def double(x: torch.Tensor) -> torch.Tensor:
    Does.calls += 1
    return x * 2


double.register_fake(torch.empty_like)


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.output = output.detach()


def _backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
    if Does.writes and type(ctx.output) is torch.Tensor:
        ctx.output.numpy().fill(7)  # unseen by autograd
    return grad * 2


double.register_autograd(_backward, setup_context=_setup)


def _case() -> Case:
    declared = {"op": double, "samples": [(tensor(3, 4),)], "requires_grad": True}
    items = plan(
        [declare_call(declared, "here")], Settings(), lambda _: [STATIC], lambda device: None
    )
    assert items[0].case is not None
    return items[0].case


@pytest.mark.parametrize(("writes", "calls"), [(False, 2), (True, 3)])
def test_the_op_is_called_again_where_the_backward_has_written_to_an_output(
    writes: bool, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Does, "writes", writes)
    case = _case()
    case.draw()
    harness = OpHarness(case, OP_ONLY)
    assert harness.function is not None
    assert case.eager.error is None
    monkeypatch.setattr(Does, "calls", 0)
    record = run_eager(harness, case).record
    assert Does.calls == calls
    ((_, output),) = record.outputs
    ((_, argument),) = record.arguments.tensors()
    assert torch.equal(output, argument * 2)
