"""`fake.backward`: the ops that a backward calls have fake kernels like their real ones."""

from __future__ import annotations

from collections.abc import Sequence

from ...cases.case import Case
from ...cases.deliberate import backward_raises
from ...cases.fake_run import FakeRun, fake_run, shapes_of
from ...cases.run import gradients
from ...compat.fakes import enter_fake_mode, to_fake
from ...core.tracebacks import error_line, reraise_bug, traceback_text
from ...findings import CheckFailed, CheckSkipped, fail, skip
from ..check import Check
from .backward_calls import Call, backward_calls
from .metadata import OutputComparison, table, worst_mismatch
from .scripts import COMPARE, trace_script


def check_backward(case: Case) -> None:
    """Compare every custom op that the backward calls, then run the backward on fake tensors."""
    if not case.eager.differentiable_outputs:
        raise skip("nothing-to-check", "no output requires gradients", unjudged=False)
    try:
        calls = backward_calls(case)
    except Exception as error:  # whatever a backward raises is a finding
        reraise_bug(error)
        text = f"the backward of {case.op.name} raises {error_line(error)}"
        raise backward_raises(text, error) from None
    _compare_calls(calls, f"the backward of {case.op.name}")
    _fake_backward(case)
    if not calls:
        raise skip("nothing-to-check", "the backward calls aten ops only", unjudged=False)


def _compare_calls(calls: Sequence[Call], caller: str) -> None:
    comparisons: list[tuple[Call, list[OutputComparison]]] = []
    limit: CheckSkipped | None = None
    for call in calls:
        try:
            comparisons.append((call, call.compare(caller)))
        except CheckSkipped as skipped:
            limit = skipped
    wrong = [(call, outputs) for call, outputs in comparisons if worst_mismatch(outputs)]
    if wrong:
        call, outputs = wrong[0]
        code, text = worst_mismatch(outputs) or ("", "")
        tables = [table(outputs, f"{call.op} ") for call, outputs in wrong]
        right = [
            f"{call.op}: fake and real agree"
            for call, outputs in comparisons
            if not worst_mismatch(outputs)
        ]
        message = f"{call.op}, called by {caller}: {text}"
        evidence = "\n".join([*tables, *right])
        raise fail(code, message, evidence, shown=f"in {call.op}, called by {caller}")
    if limit is not None:
        raise limit


def _fake_backward(case: Case) -> None:
    """Run forward and backward on fake tensors; only what the backward raises is a finding."""
    fake = fake_run(shapes_of(case), scalar_outputs=False)
    if fake.error is not None or not _same_outputs(fake, case):
        return  # fake.forward reports that
    reals = case.eager.differentiable_outputs
    grad_outputs = [to_fake(fake.mode, tensor) for tensor in case.grad_outputs(reals)]
    try:
        with enter_fake_mode(fake.mode):
            gradients(fake.run.arguments, fake.run.differentiable_outputs, grad_outputs)
    except Exception as error:  # whatever a backward raises is a finding
        reraise_bug(error)
        raise _backward_failure(case, error) from None


def _backward_failure(case: Case, error: Exception) -> CheckFailed:
    return fail(
        "fake-raises",
        f"the backward of {case.op.name} works on real tensors and raises on fake ones: "
        f"{error_line(error)}",
        traceback_text(error),
        "Build the backward from torch ops and custom ops with fake kernels. torch.compile traces "
        "it: no .item(), no numpy, no branch on values. Move code that needs them into a custom op.",
        repro=trace_script((), insist=False),
    )


def _same_outputs(fake: FakeRun, case: Case) -> bool:
    """Whether grad_outputs of the real outputs fit the fake ones."""
    fakes, reals = fake.run.differentiable_outputs, case.eager.differentiable_outputs
    return len(fakes) == len(reals) and all(
        left.dtype == right.dtype
        and left.dim() == right.dim()
        and all(isinstance(size, int) for size in left.shape)
        and tuple(left.shape) == tuple(right.shape)
        for (_, left), (_, right) in zip(fakes, reals, strict=True)
    )


_SCRIPT = (
    COMPARE
    + """

class Comparing(torch.utils._python_dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        own = func.namespace not in ("aten", "prims", "profiler")
        return compare(func, args, kwargs or {}) if own else func(*args, **(kwargs or {}))


args, kwargs = inputs()
outputs = [
    each for each in tree_leaves(op(*args, **kwargs))
    if isinstance(each, torch.Tensor) and each.requires_grad
]
inputs_ = [
    each for each in tree_leaves((args, kwargs))
    if isinstance(each, torch.Tensor) and each.requires_grad
]
grads = [torch.ones_like(each) for each in outputs]
with Comparing():
    torch.autograd.grad(outputs, inputs_, grads, allow_unused=True)
"""
)

CHECK = Check(
    name="fake.backward",
    summary="every op that the backward calls returns what its fake kernel says",
    run=check_backward,
    gradients=True,
    needs_autograd=True,
    variants=("layout", "shape", "dtype", "positions", "arguments", "pairs", "gradients", "alias"),
    cheap=True,
    repro=_SCRIPT,
    catches=(
        "The findings of `fake.forward` for every op that the backward calls and that is not "
        "torch's own, on the arguments that the backward really passes. A fake kernel that is "
        "wrong there breaks `torch.compile` of a training step, although the op itself looks "
        "right. Also a backward that works on real tensors and raises on fake ones."
    ),
    cannot_see="Ops that the backward calls only for other inputs, or under `create_graph=True`.",
    cost="calls",
)
