"""`fake.device`: the fake kernel and the backward, on inputs of a device that may be absent.

FakeTensorMode can create tensors of every device type. A fake kernel that creates its output without
`device=` returns it on the CPU, wherever the inputs are. CPU inputs do not show that.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import torch

from ...cases.case import Case
from ...cases.fake_elsewhere import META, backward_elsewhere
from ...cases.fake_run import shapes_of, skip_if_unfakeable
from ...core.tracebacks import error_line, reraise_bug, traceback_text
from ...declare.ops import is_authors
from ...findings import CheckFailed, CheckSkipped, Explanation, doc_links, fail, skip
from ..check import Check
from .backward_calls import Call, backward_calls
from .elsewhere import CODE, JudgedCall


def check_device(case: Case) -> None:
    """Judge the fake kernel of the op, those of the ops that the backward calls, and the backward."""
    skip_if_unfakeable(case.eager)
    if _home(case) != "cpu":
        reason = "on this device, fake.forward and fake.backward compare the devices"
        raise skip("nothing-to-check", reason, unjudged=False)
    judged = JudgedCall(
        case.op.name, shapes_of(case), case.inputs, case.eager, _home(case), _forward_script
    )
    failure = judged.failure()
    if failure is not None:
        raise failure
    if case.requires_grad and case.op.has_autograd and case.eager.differentiable_outputs:
        _check_backward(case, judged)


def _home(case: Case) -> str:
    return torch.device(case.placement.device).type


def _check_backward(case: Case, judged: JudgedCall) -> None:
    first = backward_elsewhere(judged.shapes)
    if first.error is not None or any(map(is_authors, first.calls)):
        _check_calls(case)
    if first.works or not backward_elsewhere(judged.shapes, default=META).works:
        return
    if not judged.has_kernel_elsewhere or not judged.is_sure_of_error(
        lambda keep: backward_elsewhere(judged.shapes, keep=keep).works
    ):
        reason = "the backward, or some of the arguments, may be for the CPU only"
        raise skip("nothing-to-check", reason, unjudged=False)
    raise _backward_failure(case, first.error, first.misplaced)


def _backward_failure(
    case: Case, error: Exception | None, misplaced: Mapping[str, str]
) -> CheckFailed:
    who = f"the backward of {case.op.name}: for inputs on another device"
    if error is not None:
        text = f"{who} it raises {error_line(error)}: it creates a tensor without device="
        return fail(CODE, text, traceback_text(error), _BACKWARD_FIX, repro=_BACKWARD_SCRIPT)
    name, where = next(iter(misplaced.items()))
    text = f"{who} the gradient of {name} is on {where}: it is created without device="
    lines = [f"the gradient of {argument} is on {device}" for argument, device in misplaced.items()]
    return fail(CODE, text, "\n".join(lines), _BACKWARD_FIX, repro=_BACKWARD_SCRIPT)


def _check_calls(case: Case) -> None:
    """Judge the fake kernels of the ops that the backward calls.

    Raises:
        CheckSkipped: after all of them, if one could not be judged.
    """
    try:
        calls = backward_calls(case)
    except Exception as error:  # whatever a backward raises
        reraise_bug(error)
        reason = "the backward raises: see fake.backward"
        raise skip("nothing-to-check", reason, unjudged=False) from None
    limit: CheckSkipped | None = None
    for call in calls:
        try:
            skip_if_unfakeable(call.real)
            failure = _judged(case, call).failure()
        except CheckSkipped as skipped:
            limit = limit or skipped
            continue
        if failure is not None:
            raise failure
    if limit is not None:
        raise limit


def _judged(case: Case, call: Call) -> JudgedCall:
    title = f"{call.op}, called by the backward of {case.op.name},"
    script = functools.partial(_called_script, str(call.before.op.overload))
    return JudgedCall(title, call.before, call.before.copy, call.real, _home(case), script)


_ELSEWHERE = """
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._pytree import tree_leaves, tree_map_only


def moved(args, kwargs, device):
    def fake(each):
        made = torch.empty_strided(each.shape, each.stride(), dtype=each.dtype, device=device)
        return made.requires_grad_(each.requires_grad and device == "meta")

    found = tree_map_only(torch.Tensor, fake, (args, kwargs))
    return tree_map_only(torch.device, lambda each: torch.device(device), found)


def tensors(found):
    return [each for each in tree_leaves(found) if isinstance(each, torch.Tensor)]


def check(func, args, kwargs, device, wrong):
    with torch.no_grad(), FakeTensorMode(shape_env=ShapeEnv()):
        args, kwargs = moved(args, kwargs, device)
        outputs = tensors(func(*args, **kwargs))
    for index in wrong:
        where = outputs[index].device
        assert where.type == device, f"{func}: inputs on {device}, output {index} on {where}"
"""
_BACKWARD_SCRIPT = (
    _ELSEWHERE
    + """

with FakeTensorMode(shape_env=ShapeEnv()):
    args, kwargs = moved(*inputs(), "meta")
    outputs = [each for each in tensors(op(*args, **kwargs)) if each.requires_grad]
    inputs_ = [each for each in tensors((args, kwargs)) if each.requires_grad]
    grads = [torch.empty_like(each) for each in outputs]
    for index, grad in enumerate(torch.autograd.grad(outputs, inputs_, grads, allow_unused=True)):
        where = "meta" if grad is None else grad.device.type
        assert where == "meta", f"inputs on meta, gradient {index} on {where}"
"""
)


def _forward_script(device: str, wrong: Sequence[int]) -> str:
    return (
        f"{_ELSEWHERE}\n\nargs, kwargs = inputs()\ncheck(op, args, kwargs, {device!r}, {wrong!r})\n"
    )


def _called_script(name: str, device: str, wrong: Sequence[int]) -> str:
    """The lines that judge the calls of another op in the backward.

    Args:
        name: of the other op's overload, as in `ns.name.default`.
    """
    return f"""{_ELSEWHERE}

class Checking(torch.utils._python_dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if str(func) == {name!r}:
            check(func, args, kwargs or {{}}, {device!r}, {wrong!r})
        return func(*args, **(kwargs or {{}}))


args, kwargs = inputs()
outputs = [each for each in tensors(op(*args, **kwargs)) if each.requires_grad]
inputs_ = [each for each in tensors((args, kwargs)) if each.requires_grad]
with Checking():
    grads = [torch.ones_like(each) for each in outputs]
    torch.autograd.grad(outputs, inputs_, grads, allow_unused=True)
"""


_BACKWARD_FIX = (
    "Create every tensor of the backward on the device of the saved ones: torch.zeros_like(x), "
    "x.new_zeros(...), or device=x.device."
)
FINDINGS = {
    CODE: Explanation(
        meaning=(
            "The fake kernel, or the backward, creates a tensor without device=. The tensor is on the "
            "CPU, wherever the inputs are."
        ),
        why=(
            "CPU inputs do not show it. For inputs on a GPU, torch.compile puts the next ops on the "
            "CPU, or fails; a backward raises, in eager mode too."
        ),
        fix=(
            "Create every tensor on the device of an input: torch.empty_like(x), x.new_empty(...), or "
            'device=x.device. If it always belongs on the CPU, write device="cpu".'
        ),
        before="""
@histogram.register_fake
def _(x, bins):
    return torch.empty(bins)                   # on the CPU, for x on a GPU too
""",
        after="""
@histogram.register_fake
def _(x, bins):
    return torch.empty(bins, device=x.device)
""",
        docs=(doc_links.REGISTER_FAKE, doc_links.FAKE_TENSOR),
    ),
}

CHECK = Check(
    name="fake.device",
    summary="for inputs on a GPU, outputs and gradients are on the GPU too; no GPU is needed",
    run=check_device,
    variants=("shape", "dtype", "arguments", "gradients"),
    cheap=True,
    findings=FINDINGS,
    catches=(
        "A tensor that is created without `device=` in the fake kernel, in the fake kernels of the ops "
        "that the backward calls, or in the backward. Every machine can create fake tensors of `cuda`, "
        "`xpu` and `mps`; the backward runs on fake tensors of `meta`."
    ),
    cannot_see=(
        'An output with `device="cpu"` counts as intended. One without `device=` is reported only if the '
        "real kernel surely puts it on the device of its inputs. A Python kernel is watched to find that "
        "out. For other kernels, only floating-point outputs of floating-point inputs and integer outputs "
        "of integer inputs are judged. Not judged: a tensor that `setup_context` creates, a branch of the "
        "backward on `x.is_cuda`, and inputs on two different devices."
    ),
    cost="calls",
)
