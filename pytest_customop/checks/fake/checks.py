"""Fake kernels beside real ones: of the op, of the ops its backward calls, at symbolic sizes."""

from __future__ import annotations

from collections.abc import Sequence

from ...cases.case import Case, gradients
from ...cases.fake_run import FakeRun, fake_run, kernel_failure, shapes_of, skip_if_unfakeable
from ...compat import enter_fake_mode, to_fake
from ...core.tracebacks import error_line, traceback_text
from ...declare.variant import KINDS
from ...findings import CheckFailed, CheckSkipped, fail, skip
from ..check import Check
from .backward_calls import Call, backward_calls
from .metadata import Compared, Reading, compare, table, worst
from .scripts import BACKWARD, FORWARD, traced
from .symbolic import symbolic


def forward(case: Case) -> None:
    """Compare the outputs of the fake kernel with those of the real one, field by field."""
    skip_if_unfakeable(case.eager)
    fake = fake_run(shapes_of(case))
    if fake.error is not None:
        raise kernel_failure(case.op.name, fake.error)
    outputs = compare(fake.run, case.eager, Reading(fake.mode))
    found = worst(outputs)
    if found:
        code, text = found
        raise fail(code, f"{case.op.name} {text}", table(outputs))


def backward(case: Case) -> None:
    """Compare the same for every custom op that the backward calls; then fake the backward."""
    if not case.eager.differentiable_outputs:
        raise skip("nothing-to-check", "no output requires gradients", unjudged=False)
    try:
        calls = backward_calls(case)
    except Exception as error:  # whatever a backward raises is a finding
        text = f"the backward of {case.op.name} raises {error_line(error)}"
        raise fail("backward-raises", text, traceback_text(error)) from None
    _compare_calls(calls, f"the backward of {case.op.name}")
    _fake_backward(case)
    if not calls:
        raise skip("nothing-to-check", "the backward calls aten ops only", unjudged=False)


def _compare_calls(calls: Sequence[Call], caller: str) -> None:
    compared: list[tuple[Call, list[Compared]]] = []
    limit: CheckSkipped | None = None
    for call in calls:
        try:
            compared.append((call, call.compared(caller)))
        except CheckSkipped as skipped:
            limit = skipped
    wrong = [(call, outputs) for call, outputs in compared if worst(outputs)]
    if wrong:
        call, outputs = wrong[0]
        code, text = worst(outputs) or ("", "")
        tables = [table(outputs, f"{call.op} ") for call, outputs in wrong]
        right = [
            f"{call.op}: fake and real agree" for call, outputs in compared if not worst(outputs)
        ]
        raise fail(code, f"{call.op}, called by {caller}: {text}", "\n".join([*tables, *right]))
    if limit is not None:
        raise limit


def _fake_backward(case: Case) -> None:
    """Run forward and backward on fake tensors; only what the backward raises is a finding."""
    fake = fake_run(shapes_of(case), scalar_outputs=False)
    if fake.error is not None or not _same_outputs(fake, case):
        return  # fake.forward says why
    reals = case.eager.differentiable_outputs
    grad_outputs = [to_fake(fake.mode, tensor) for tensor in case.grad_outputs(reals)]
    try:
        with enter_fake_mode(fake.mode):
            gradients(fake.run.arguments, fake.run.differentiable_outputs, grad_outputs)
    except Exception as error:  # whatever a backward raises is a finding
        raise _backward_failure(case, error) from None


def _backward_failure(case: Case, error: Exception) -> CheckFailed:
    return fail(
        "fake-raises",
        f"the backward of {case.op.name} works on real tensors and raises on fake ones: "
        f"{error_line(error)}",
        traceback_text(error),
        "Build the backward from torch ops and custom ops with fake kernels. torch.compile traces "
        "it: no .item(), no numpy, no branch on values; what needs them goes into a custom op.",
        repro=traced((), insist=False),
    )


def _same_outputs(fake: FakeRun, case: Case) -> bool:
    """Whether real grad_outputs fit the fake outputs."""
    mine, theirs = fake.run.differentiable_outputs, case.eager.differentiable_outputs
    return len(mine) == len(theirs) and all(
        left.dtype == right.dtype
        and left.dim() == right.dim()
        and all(isinstance(size, int) for size in left.shape)
        and tuple(left.shape) == tuple(right.shape)
        for (_, left), (_, right) in zip(mine, theirs, strict=True)
    )


CHECKS = [
    Check(
        "fake.backward",
        "every op that the backward calls returns what its fake kernel says",
        backward,
        gradients=True,
        needs_autograd=True,
        repro=BACKWARD,
        variants=("layout", "shape", "dtype", "positions", "arguments", "gradients", "alias"),
        cheap=True,
    ),
    Check(
        "fake.forward",
        "the op returns what its fake kernel says: shape, strides, dtype, device, layout, memory",
        forward,
        repro=FORWARD,
        variants=KINDS,
        cheap=True,
    ),
    Check(
        "fake.symbolic",
        "the fake kernel works at symbolic sizes, and turns none of them into a constant",
        symbolic,
        repro=FORWARD,
        variants=("layout", "dtype", "arguments"),
    ),
]
