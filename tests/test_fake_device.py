"""`fake.device`: which tensors count as created on the CPU by mistake, and on which devices it looks."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch
import verdicts
from torch import Tensor

from pytest_customop.cases.arguments import Arguments, Placement
from pytest_customop.cases.case import Case
from pytest_customop.cases.fake_elsewhere import backward_elsewhere, run_elsewhere
from pytest_customop.checks.fake import elsewhere
from pytest_customop.checks.fake.device import check_device as check
from pytest_customop.checks.fake.kernel_devices import watch_kernel
from pytest_customop.compat import fake_devices
from pytest_customop.declare import ops
from pytest_customop.declare.inputs import Sample
from pytest_customop.findings import CheckFailed, CheckSkipped

_numbers = itertools.count()


def define(kernel: Any, fake: Any, schema: str = "(Tensor x) -> Tensor", **options: Any) -> str:
    name = f"t_fake_device::op_{next(_numbers)}"
    op = torch.library.custom_op(name, kernel, mutates_args=(), schema=schema, **options)
    op.register_fake(fake)
    return name


def case(name: str, *args: Any, gradients: bool = False) -> Case:
    placement = Placement("cpu", torch.float32, gradients, "contiguous", switch_real=True)
    return Case(ops.resolve(name), Sample(args or (torch.randn(4, 3),)), placement)


def skipped(op_case: Case) -> CheckSkipped:
    with pytest.raises(CheckSkipped) as caught:
        check(op_case)
    return caught.value


def unsaid(x: Tensor) -> Tensor:
    """A fake kernel that creates its output without `device=`."""
    return torch.empty(x.shape, dtype=x.dtype)


# Kernels that put their output on the device of the input.
FOLLOWING = {
    "a method": lambda x: x.exp(),
    "a function": lambda x: torch.exp(x),
    "like": lambda x: torch.empty_like(x).copy_(x),
    "new": lambda x: x.new_zeros(x.shape) + x,
    "device=": lambda x: torch.zeros(x.shape, device=x.device),
    "to device": lambda x: torch.from_numpy(np.exp(x.cpu().numpy())).to(x.device),
    "to tensor": lambda x: torch.from_numpy(np.exp(x.cpu().numpy())).to(x),
    "type_as": lambda x: torch.zeros(x.shape).type_as(x),
    "an index on the CPU": lambda x: x[torch.arange(x.shape[0])],
    "a number on the CPU": lambda x: x * torch.tensor(2.0),
    "a list": lambda x: torch.stack([x, x])[0],
}
# Kernels that may put it on the CPU, wherever the input is.
ELSEWHERE = {
    "numpy": lambda x: torch.from_numpy(np.exp(x.cpu().numpy())),
    "cpu": lambda x: x.exp().cpu(),
    "to cpu": lambda x: x.exp().to("cpu"),
    "device='cpu'": lambda x: torch.zeros_like(x, device="cpu"),
    "a device": lambda x: torch.zeros(x.shape, device=torch.device("cpu")),
    "no device": lambda x: torch.zeros(x.shape),
    "made of such a one": lambda x: torch.stack([torch.zeros(x.shape)])[0].exp(),
    "a list of numbers": lambda x: torch.tensor(x.tolist()),
    "copied into such a one": lambda x: torch.zeros(x.shape).copy_(x),
}


def watched(kernel: Any) -> Any:
    name = define(lambda x: x.clone(), torch.empty_like)
    return watch_kernel(kernel, Arguments(ops.resolve(name), (torch.randn(4, 3),), {}))


@pytest.mark.parametrize("kernel", FOLLOWING.values(), ids=list(FOLLOWING))
def test_a_kernel_that_follows_the_device_of_its_input(kernel: Any) -> None:
    devices = watched(kernel)
    assert devices.following == {"output"}
    assert devices.portable


@pytest.mark.parametrize("kernel", ELSEWHERE.values(), ids=list(ELSEWHERE))
def test_a_kernel_that_may_not_follow_it(kernel: Any) -> None:
    devices = watched(kernel)
    assert devices.following == set()
    assert devices.portable


@pytest.mark.parametrize(
    "kernel",
    [
        lambda x: torch.from_numpy(np.exp(x.numpy())),
        lambda x: torch.from_numpy(np.exp(np.asarray(x))),
        lambda x: x + torch.zeros(x.shape),
    ],
)
def test_a_kernel_that_works_on_the_cpu_only(kernel: Any) -> None:
    assert not watched(kernel).portable


def test_a_kernel_that_cannot_be_run_alone() -> None:
    assert watched(lambda: None) is None


@pytest.mark.parametrize("kernel", FOLLOWING.values(), ids=list(FOLLOWING))
def test_an_output_that_belongs_on_the_device_of_the_input(kernel: Any) -> None:
    finding = verdicts.finding(check, case(define(kernel, unsaid)))
    assert finding.code == "fake-device-ignored"
    assert "for inputs on cuda the fake kernel returns it on cpu" in finding.message


@pytest.mark.parametrize("kernel", ELSEWHERE.values(), ids=list(ELSEWHERE))
def test_an_output_that_may_belong_on_the_cpu(kernel: Any) -> None:
    assert skipped(case(define(kernel, unsaid))).code == "nothing-to-check"


def test_a_kernel_for_one_device_is_judged_on_meta_tensors() -> None:
    name = define(lambda x: torch.zeros(x.shape), unsaid, device_types="cpu")
    assert "for inputs on meta" in verdicts.finding(check, case(name)).message


def test_an_output_on_the_cpu_on_purpose() -> None:
    check(case(define(lambda x: x.exp(), lambda x: torch.empty_like(x, device="cpu"))))


def test_another_device_is_tried_where_the_fake_kernel_cannot_run() -> None:
    def fake(x: Tensor) -> Tensor:
        if x.device.type in ("cuda", "xpu"):
            raise RuntimeError(f"no {x.device.type} here")
        return unsaid(x)

    name = define(lambda x: x.exp(), fake)
    assert "for inputs on mps" in verdicts.finding(check, case(name)).message


def test_a_fake_kernel_that_rejects_other_devices() -> None:
    def fake(x: Tensor) -> Tensor:
        torch._check(x.device.type == "cpu", lambda: "on the CPU")
        return unsaid(x)

    reason = skipped(case(define(lambda x: x.exp(), fake)))
    assert (reason.code, reason.unjudged) == ("nothing-to-check", False)
    assert "rejects inputs of other devices (RuntimeError: on the CPU)" in reason.reason


def test_a_fake_kernel_that_torch_cannot_run_elsewhere() -> None:
    def fake(x: Tensor) -> Tensor:
        if x.device.type != "cpu":
            torch.linspace(0, 1, 3, dtype=torch.int64, layout=torch.sparse_coo)
        return unsaid(x)

    reason = skipped(case(define(lambda x: x.exp(), fake)))
    assert (reason.code, reason.unjudged) == ("checker-limit", True)


def test_a_fake_kernel_that_raises_for_any_input() -> None:
    def fake(x: Tensor) -> Tensor:
        raise ValueError("never")

    assert "see fake.forward" in skipped(case(define(lambda x: x.exp(), fake))).reason


def test_a_bug_in_a_fake_kernel_is_none_of_the_check() -> None:
    """Whatever a fake kernel raises while a default device is set has its own frame last."""

    def fake(x: Tensor) -> Tensor:
        return torch.zeros(3)[7] if x.device.type != "cpu" else unsaid(x)

    assert skipped(case(define(lambda x: x.exp(), fake))).code in (
        "nothing-to-check",
        "checker-limit",
    )


def test_arguments_that_are_one_tensor_or_begin_inside_their_memory() -> None:
    seen = []

    def fake(x: Tensor, y: Tensor) -> Tensor:
        seen.append((x is y, x.device.type, x.stride(), x.storage_offset()))
        return torch.empty_like(x)

    name = define(lambda x, y: x + y, fake, "(Tensor x, Tensor y) -> Tensor")
    transposed = torch.randn(5, 4).t()[1:]
    run_elsewhere(Arguments(ops.resolve(name), (transposed, transposed), {}), "cuda")
    assert seen == [(True, "cuda", (1, 4), 1)]


def test_a_device_among_the_arguments_is_moved_too() -> None:
    name = define(
        lambda x, device: torch.ones(3, device=device),
        lambda x, device: torch.empty(3, device=device),
        "(Tensor x, Device device) -> Tensor",
    )
    arguments = (torch.randn(3), torch.device("cpu"))
    run = run_elsewhere(Arguments(ops.resolve(name), arguments, {}), "cuda")
    assert run.result.device.type == "cuda"


def test_a_default_device_is_seen_where_a_fake_kernel_calls_another_op() -> None:
    inner = getattr(torch.ops.t_fake_device, define(lambda x: x.exp(), unsaid).partition("::")[2])
    name = define(lambda x: x.exp(), lambda x: inner(x))
    arguments = Arguments(ops.resolve(name), (torch.randn(3),), {})
    assert run_elsewhere(arguments, "cuda").result.device.type == "cpu"
    assert run_elsewhere(arguments, "cuda", default="cuda").result.device.type == "cuda"


def scaled(backward: Any) -> str:
    name = define(
        lambda x, y: x * y, lambda x, y: torch.empty_like(x), "(Tensor x, Tensor y) -> Tensor"
    )
    torch.library.register_autograd(
        name,
        backward,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    return name


def weighted(name: str) -> Case:
    return case(name, torch.randn(4, 3), torch.randn(4, 3), gradients=True)


def test_a_gradient_without_a_device() -> None:
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        return grad * ctx.saved_tensors[1], torch.zeros(grad.shape)

    finding = verdicts.finding(check, weighted(scaled(backward)))
    assert "the gradient of y is on cpu" in finding.message
    assert "saved" in (finding.fix or "")


def test_a_backward_that_raises_for_another_reason() -> None:
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        if grad.device.type != "cpu":
            raise RuntimeError("on the CPU, please")
        return grad, grad

    check(weighted(scaled(backward)))


def test_a_gradient_on_the_cpu_on_purpose_is_left_to_autograd() -> None:
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        return grad, torch.zeros(grad.shape, device="cpu")

    check(weighted(scaled(backward)))


def test_nothing_of_a_default_device_stays_after_a_backward_that_raises() -> None:
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        raise RuntimeError("no")

    run = backward_elsewhere(weighted(scaled(backward)).inputs(), default="meta")
    assert str(run.error) == "no"
    assert torch.empty(2).device.type == "cpu"
    assert torch._C._len_torch_function_stack() == 0


def test_a_default_device_reaches_a_fake_kernel_and_a_backward() -> None:
    """It fails when torch moves `DeviceContext`, or calls a node without its hooks."""
    with fake_devices.DefaultDevice("meta"):
        assert torch.empty(3).device.type == "meta"
        assert torch.empty(3, device="cpu").device.type == "cpu"
    x = torch.randn(3, requires_grad=True)
    seen = []

    class Seen(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            seen.append(torch.empty(3).device.type)
            return grad

    output = Seen.apply(x) * 2
    fake_devices.default_device_in_backward([output], "meta")
    output.sum().backward()
    assert seen == ["meta"]
    assert torch.empty(3).device.type == "cpu"


def test_a_device_that_torch_cannot_fake_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert fake_devices.can_be_faked("cuda")

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("Torch not compiled with XPU enabled")

    name = define(lambda x: x.clone(), unsaid)
    with monkeypatch.context() as patch:
        patch.setattr(elsewhere, "can_be_faked", lambda device: False)
        assert "creates no fake tensors" in skipped(case(name)).reason
    fake_devices.can_be_faked.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(torch, "empty", refuse)
        assert not fake_devices.can_be_faked("xpu")
    fake_devices.can_be_faked.cache_clear()
    with pytest.raises(CheckFailed):
        check(case(name))
