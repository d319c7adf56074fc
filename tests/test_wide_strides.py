"""`values.wide_strides`: rows billions of elements apart, in memory that is not taken."""

import ctypes
import itertools
import os
import resource
import signal
import sys
from typing import Any, Callable, List

import pytest
import torch
import verdicts
from kit import HEAD, Suite
from torch import Tensor

from pytest_customop import check_op
from pytest_customop.cases.arguments import Placement
from pytest_customop.cases.case import Case
from pytest_customop.checks.values.memory import spread as memory
from pytest_customop.checks.values.memory.spread import Rows, beyond, just_below, near, spread
from pytest_customop.compat import kernel_mode
from pytest_customop.core import forked, process_memory
from pytest_customop.declare import ops
from pytest_customop.declare.inputs import Sample, tensor

pytestmark = pytest.mark.skipif(not memory.AVAILABLE, reason="not Linux, or 32 bits")

check = verdicts.family("values")["wide_strides"]
MATRIX = tensor(4, 5)
_numbers = itertools.count()


def rows_of(x: Tensor, bits: int = 64) -> Tensor:
    """A copy of a matrix, row by row from offsets of so many bits."""
    x = x.detach()
    x = x if x.stride(-1) == 1 else x.contiguous()
    copy = torch.empty(x.shape, dtype=x.dtype)
    width = x.shape[1] * x.itemsize
    for number in range(x.shape[0]):
        offset = number * x.stride(0)
        if bits == 32:
            offset = ctypes.c_int32(offset).value
        place = x.data_ptr() + offset * x.itemsize
        ctypes.memmove(copy[number].data_ptr(), place, width)
    return copy


def case(kernel: Callable, *args: Any, requires_grad: bool = False, **options: Any) -> Case:
    """A case of an op with this kernel, which is annotated."""
    op = torch.library.custom_op(f"t_wide::op_{next(_numbers)}", mutates_args=())(kernel)
    if "backward" in options:
        op.register_autograd(options["backward"])
    where = Placement("cpu", torch.float32, requires_grad, "contiguous")
    return Case(ops.resolve(op), Sample(args or (MATRIX,), {}), where)


@pytest.mark.parametrize("rows", [3, 4, 5, 9, 100, 256])
def test_strides_that_fit_reach_further_than_32_bits(rows: int) -> None:
    dense = torch.empty(rows, 7)
    far = just_below(dense, 0)
    assert far is not None
    assert far.stride < 2**31 <= far.stride * (rows - 1) <= 2**33
    assert far.stride % 4096 == 0


def test_few_or_many_rows_have_no_such_stride() -> None:
    assert just_below(torch.empty(2, 7), 0) is None
    assert just_below(torch.empty(257, 7), 0) is None
    assert beyond(torch.empty(1, 7), 0) is None
    assert beyond(torch.empty(2, 7), 0) == Rows(0, 2**32)
    assert beyond(torch.empty(257, 7), 0) is None


def test_rows_along_any_dim_hold_the_values() -> None:
    dense = torch.arange(24.0).reshape(2, 3, 4)
    for dim in range(3):
        far = beyond(dense, dim)
        assert far is not None
        laid = spread(dense, far, far)
        assert laid.stride(dim) == 2**32
        assert torch.equal(laid, dense)
        close = spread(dense, near(dense, dim), far)
        assert close.stride(dim) < 64
        assert torch.equal(close, dense)
        assert close.untyped_storage().nbytes() == laid.untyped_storage().nbytes()


def test_only_rows_take_memory() -> None:
    dense = torch.zeros(256, 3, dtype=torch.float64)
    before = _resident()
    far = beyond(dense, 0)
    assert far is not None
    laid = spread(dense, far, far)
    assert laid.untyped_storage().nbytes() > 2**42
    assert _resident() - before < 50e6


def _resident() -> int:
    return process_memory.resident(os.getpid()) or 0


@pytest.mark.parametrize("offset", [-(2**31), -(2**20), 2**20, 2**31, 2**32 + 2**20, 3 * 2**31])
def test_memory_between_rows_is_not_there(offset: int) -> None:
    dense = torch.zeros(3, 5)

    def work(send: forked.Send) -> None:
        laid = spread(dense, Rows(0, 2**32), Rows(0, 2**32))
        send("made")
        ctypes.string_at(laid.data_ptr() + offset * 4, 1)

    outcome = forked.run_forked(work, 60)
    assert outcome.messages == ["made"]
    assert outcome.signal == signal.SIGSEGV


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.complex64]
)
def test_offsets_in_32_bits_are_found_in_any_dtype(dtype: torch.dtype) -> None:
    def kernel(x: Tensor) -> Tensor:
        return rows_of(x, 32)

    finding = verdicts.finding(check, case(kernel, tensor(4, 5, dtype=dtype)))
    assert finding.code == "offset-overflow"
    assert "with x.stride(0) = 1610612736 it ends the process (SIGSEGV)" in finding.message


def test_two_rows_take_a_stride_beyond_32_bits() -> None:
    def kernel(x: Tensor) -> Tensor:
        return rows_of(x, 32)

    finding = verdicts.finding(check, case(kernel, tensor(2, 5)))
    assert (
        "with x.stride(0) = 4294967296 it gives other values than with x.stride(0) = 32"
        in finding.message
    )


def test_the_argument_is_named() -> None:
    def kernel(x: Tensor, ys: List[Tensor]) -> Tensor:
        return rows_of(x) + rows_of(ys[0]) + rows_of(ys[1], 32)

    finding = verdicts.finding(check, case(kernel, MATRIX, [MATRIX, MATRIX]))
    assert "with ys[1].stride(0) = " in finding.message


def test_an_argument_that_must_be_dense_hides_no_other() -> None:
    def kernel(x: Tensor, y: Tensor) -> Tensor:
        if not x.is_contiguous():
            raise ValueError("expected a contiguous tensor")
        return rows_of(x) + rows_of(y, 32)

    finding = verdicts.finding(check, case(kernel, MATRIX, MATRIX))
    assert "with y.stride(0) = " in finding.message


def test_what_ignores_strides_is_for_another_check() -> None:
    def kernel(x: Tensor) -> Tensor:
        memory = ctypes.string_at(x.data_ptr(), x.numel() * x.itemsize)
        return torch.frombuffer(bytearray(memory), dtype=x.dtype).view(x.shape)

    assert verdicts.skipped(check, case(kernel)).code == "nothing-to-check"


def test_a_copy_as_large_as_the_storage_takes_no_memory() -> None:
    def kernel(x: Tensor) -> Tensor:
        copy = torch.zeros(x.untyped_storage().nbytes(), dtype=torch.uint8)
        return rows_of(x) + copy[0]

    assert verdicts.skipped(check, case(kernel)).code == "nothing-to-check"


def test_results_that_reach_as_far_as_the_argument_are_not_judged() -> None:
    def kernel(x: Tensor) -> Tensor:
        out = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype)
        return out.copy_(rows_of(x))

    assert verdicts.skipped(check, case(kernel)).code == "nothing-to-check"


def test_no_addresses_left_is_a_skip() -> None:
    def kernel(x: Tensor) -> Tensor:
        return rows_of(x, 32)

    def work(send: forked.Send) -> None:
        resource.setrlimit(resource.RLIMIT_AS, (2**34, 2**34))
        send("limited")
        send(verdicts.skipped(check, op_case).code)

    op_case = case(kernel)
    assert op_case.eager.error is None
    assert forked.run_forked(work, 60).messages == ["limited", "nothing-to-check"]


def test_kernels_in_python_are_left_out() -> None:
    def kernel(x: Tensor) -> Tensor:
        return x * 2

    assert "Python" in verdicts.skipped(check, case(kernel)).reason


def _backward(kernel: Callable) -> Case:
    def doubled(x: Tensor) -> Tensor:
        return rows_of(x) * 2

    return case(doubled, requires_grad=True, backward=lambda ctx, grad: kernel(grad) * 2)


def test_the_backward_is_called_with_a_far_grad_output() -> None:
    finding = verdicts.finding(check, _backward(lambda grad: rows_of(grad, 32)))
    assert "with grad_output.stride(0) = " in finding.message
    check(_backward(rows_of))


@pytest.mark.parametrize("name", ["values.wide_strides", "values.bounds"])
def test_the_backward_is_called_where_fake_tensors_have_used_autograd(name: str) -> None:
    """Torch forbids it then in a copy of the process that runs its functions for a fork."""
    far_name, slope = (f"t_wide::{word}_{name.partition('.')[2]}" for word in ("far", "slope"))

    @torch.library.custom_op(far_name, mutates_args=())
    def far(x: Tensor) -> Tensor:
        ctypes.string_at(x.data_ptr(), 1)
        return x.clone()

    @torch.library.custom_op(slope, mutates_args=())
    def of_far(grad: Tensor) -> Tensor:
        if grad.is_contiguous():
            ctypes.string_at(grad.data_ptr() + grad.numel() * grad.itemsize, 1)
        return rows_of(grad, 32)

    far.register_fake(torch.empty_like)
    of_far.register_fake(lambda grad: grad.new_empty(grad.shape))
    far.register_autograd(lambda ctx, grad: of_far(grad))
    results = check_op(far, [(tensor(4, 8),)], checks=["fake.device", name], variants="off")
    assert {result.check for result in results if result.outcome == "failed"} == {name}


def test_a_backward_that_raises_leaves_the_forward_to_be_judged() -> None:
    def raises(grad: Tensor) -> Tensor:
        raise NotImplementedError

    check(_backward(raises))

    def kernel(x: Tensor) -> Tensor:
        return rows_of(x, 32)

    op_case = case(kernel, requires_grad=True, backward=lambda ctx, grad: raises(grad))
    assert "with x.stride(0) = " in verdicts.finding(check, op_case).message


def test_what_an_operator_of_torch_does_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    def inner(x: Tensor) -> Tensor:
        return rows_of(x, 32)

    called = torch.library.custom_op("t_wide::as_of_torch", mutates_args=())(inner)
    monkeypatch.setattr(kernel_mode, "OF_TORCH", frozenset({"aten", "t_wide"}))
    calls_torch = torch.library.custom_op("t_wide_outer::calls", mutates_args=())

    def kernel(x: Tensor) -> Tensor:
        return called(x) + rows_of(x)

    def both(x: Tensor) -> Tensor:
        return called(x) + rows_of(x, 32)

    where = Placement("cpu", torch.float32, False, "contiguous")
    outer = calls_torch(kernel)
    finding = verdicts.finding(check, Case(ops.resolve(outer), Sample((tensor(5, 4),), {}), where))
    assert finding.note == "torch-limit"
    assert "t_wide::as_of_torch with dense copies" in finding.evidence
    outer = torch.library.custom_op("t_wide_outer::both", mutates_args=())(both)
    finding = verdicts.finding(check, Case(ops.resolve(outer), Sample((tensor(5, 4),), {}), where))
    assert finding.note is None


TRITON = """
import triton
import triton.language as tl

@triton.jit
def narrow(x, out, stride, size, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(x + row * stride + column, mask=column < size)
    tl.store(out + row * size + column, value * 2, mask=column < size)

@triton.jit
def wide(x, out, stride, size, BLOCK: tl.constexpr):
    row, column = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    value = tl.load(x + row * stride + column, mask=column < size)
    tl.store(out + row * size + column, value * 2, mask=column < size)

def op(name, kernel):
    def doubled(x: torch.Tensor) -> torch.Tensor:
        x = x if x.stride(1) == 1 else x.contiguous()
        out = torch.empty(x.shape)
        kernel[(x.shape[0],)](x, out, x.stride(0), x.shape[1], BLOCK=8)
        return out

    made = torch.library.custom_op("NS::" + name, doubled, mutates_args=())
    made.register_fake(lambda x: x.new_empty(x.shape))
    return made

ONE = torch.ones(2, 3)
OUT = torch.empty(2, 3)
wide[(2,)](ONE, OUT, 3, 3, BLOCK=4)
if not torch.equal(OUT, ONE * 2):
    pytest.skip("Triton 3.0 writes to copies of tensors of the CPU", allow_module_level=True)

MARK = dict(checks=["values.wide_strides"], requires_grad=[False], variants=False)

@customop_cases(op("narrow", narrow), [(tensor(4, 6),)], **MARK)
def test_narrow(): ...

@customop_cases(op("wide", wide), [(tensor(4, 6),)], **MARK)
def test_wide(): ...
"""


@pytest.mark.parametrize("isolate", ["off", "on"])
def test_a_triton_kernel_is_judged_by_the_interpreter(
    suite: Suite, monkeypatch: pytest.MonkeyPatch, isolate: str
) -> None:
    pytest.importorskip("triton")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    suite.write("test_it.py", TRITON, head=HEAD)
    result = suite.run_apart(f"--customop-isolate={isolate}", checks=None)
    if result.parseoutcomes() == {"skipped": 1}:
        pytest.skip("this Triton interprets no kernel on the CPU")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*::narrow: with x.stride(0) = 1610612736 it ends the process*"])


def test_linux_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sys.platform == "linux"
    module = sys.modules["pytest_customop.checks.values.wide_strides"]
    monkeypatch.setattr(module, "AVAILABLE", False)

    def kernel(x: Tensor) -> Tensor:
        return rows_of(x, 32)

    assert "Linux" in verdicts.skipped(check, case(kernel)).reason
