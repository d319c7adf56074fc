"""`relations.grad_modes`: the values are the same with gradients, without them, and in inference mode."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch

from ...cases.case import Case
from ...cases.run import Run
from ...core.tracebacks import error_line, message_of, raised_on_purpose, traceback_text
from ...findings import CheckFailed, Explanation, doc_links, fail, skip
from ..check import Check
from ..values.memory.calls import (
    Caller,
    Leaves,
    copied,
    results,
    skip_if_incomparable,
)
from .compare import disagreement, is_unsteady
from .scripts import call_lines, compare_lines


@dataclass(frozen=True)
class _Mode:
    """A mode in which the op must give what it gives by default.

    Args:
        description: for a message.
        code: the expression for a script.
        context: makes the context.
        made_inside: whether the arguments are made inside of it too.
        frozen: whether no argument requires gradients.
    """

    description: str
    code: str
    context: Callable[[], AbstractContextManager[object]]
    made_inside: bool = False
    frozen: bool = False


_MODES = (
    _Mode("under torch.no_grad()", "torch.no_grad()", torch.no_grad),
    _Mode(
        "with inputs that require no gradients",
        "torch.enable_grad()",
        torch.enable_grad,
        frozen=True,
    ),
    _Mode("under torch.inference_mode()", "torch.inference_mode()", torch.inference_mode),
    _Mode(
        "under torch.inference_mode(), with tensors made there",
        "torch.inference_mode()",
        torch.inference_mode,
        made_inside=True,
    ),
)
# torch's errors where a kernel itself computes gradients, which inference mode does not allow.
_DIFFERENTIATES = (
    "does not require grad and does not have a grad_fn",
    "nference tensors cannot be saved for backward",
    "Setting requires_grad=True on inference tensor",
)


def check_grad_modes(case: Case) -> None:
    """Call the op by default, under no_grad and in inference mode."""
    skip_if_incomparable(case)
    calls = Caller(case)
    base = calls(case.inputs())
    if base.error is not None:
        reason = f"the op raises {error_line(base.error)} at a further call"
        raise skip("nothing-to-check", reason, unjudged=False)
    expected = copied(results(base))
    for mode in _MODES:
        if mode.frozen and not case.requires_grad:
            continue
        run = _call(calls, mode)
        if run.error is None:
            _compare(calls, mode, expected, copied(results(run)))
        elif not _may_raise(run.error) and calls(case.inputs()).error is None:
            raise _raises(case, mode, run.error)


def _call(calls: Caller, mode: _Mode) -> Run:
    arguments = calls.case.inputs()
    if mode.frozen:
        for _, tensor in arguments.differentiable():
            tensor.requires_grad_(False)
    with mode.context():
        return calls(calls.case.inputs() if mode.made_inside else arguments)


def _may_raise(error: BaseException) -> bool:
    """Whether the op raises on purpose, or because its kernel computes gradients by itself."""
    text = message_of(error)
    return raised_on_purpose(error) or any(message in text for message in _DIFFERENTIATES)


def _compare(calls: Caller, mode: _Mode, expected: Leaves, actual: Leaves) -> None:
    case = calls.case
    wrong = disagreement(case, _without_missing(actual), expected)
    if wrong is None:
        return
    again = lambda: copied(results(calls(case.inputs())))  # noqa: E731
    if is_unsteady(again, expected, actual, wrong.name):
        return
    with_gradients = "inputs that require gradients" if case.requires_grad else "grad mode on"
    raise fail(
        "grad-mode-mismatch",
        f"{case.op.name}: {mode.description} it gives other values than with {with_gradients}: {wrong}",
        repro=_script(mode, call_lines(wrong.name)) + compare_lines(case, wrong.name),
        picture=wrong.picture,
    )


def _without_missing(leaves: Leaves) -> Leaves:
    """The results that have elements, if any has: empty ones may be for the backward alone."""
    filled = [
        leaf for leaf in leaves if not isinstance(leaf[1], torch.Tensor) or leaf[1].numel() > 0
    ]
    return filled or leaves


def _raises(case: Case, mode: _Mode, error: BaseException) -> CheckFailed:
    return fail(
        "grad-mode-raises",
        f"{case.op.name}: {mode.description} it raises {error_line(error)}",
        traceback_text(error),
        repro=_script(mode, call_lines("")),
    )


def _script(mode: _Mode, call: str) -> str:
    inside = "got = call(*inputs())" if mode.made_inside else "got = call(*given)"
    lines = "given = inputs()\n"
    if mode.frozen:
        lines += "for each in tensors(given):\n    each.requires_grad_(False)\n"
    return f"{call}\nexpected = call(*inputs())\n{lines}with {mode.code}:\n    {inside}\n"


FINDINGS = {
    "grad-mode-mismatch": Explanation(
        meaning=(
            "With equal inputs the op returns other values, or writes them to an argument, if gradients "
            "are off: under torch.no_grad(), under torch.inference_mode(), or with inputs that require no "
            "gradients."
        ),
        why=(
            "Validation and deployment then compute something else than training. Grad mode may change how "
            "an op computes, but not its results."
        ),
        fix=(
            "Compute the same in both branches of the forward. If the op works differently in training, as "
            "dropout does, take a flag (training: bool) as an argument. If the difference is meant, write "
            'checks=["-relations.grad_modes"].'
        ),
        before="""
def forward(x):
    return x.tanh() if torch.is_grad_enabled() else x.clamp(-1, 1)
""",
        after="""
def forward(x):
    return x.tanh()
""",
        docs=(doc_links.AUTOGRAD_NOTES, doc_links.AUTOGRAD),
        follows=(
            "stale-result",
            "outputs-not-repeatable",
            "uninitialized-output",
            "uninitialized-gradient",
        ),
    ),
    "grad-mode-raises": Explanation(
        meaning=(
            "The op works with gradients on, but raises under torch.no_grad() or torch.inference_mode()."
        ),
        why=(
            "Inference mode skips the kernels at Autograd keys. An op cannot be deployed like this if it "
            "has no other kernel, or reads what tensors of inference mode lack (their version)."
        ),
        fix=(
            "Register the kernel for the device (CPU, CUDA) or for CompositeExplicitAutograd, and the "
            "formula alone at the Autograd key, by torch.library.register_autograd. If the op is for "
            'training alone, write checks=["-relations.grad_modes"].'
        ),
        before="""
lib.impl("scale", lambda x: Scale.apply(x), "Autograd")   # the only kernel
""",
        after="""
lib.impl("scale", lambda x: x * 2, "CPU")
torch.library.register_autograd("mylib::scale", lambda ctx, grad: grad * 2, lib=lib)
""",
        docs=(doc_links.AUTOGRAD_NOTES, doc_links.REGISTER_AUTOGRAD),
        follows=("autograd-registration",),
    ),
}

CHECK = Check(
    name="relations.grad_modes",
    summary="values are the same with gradients, under no_grad and in inference mode",
    run=check_grad_modes,
    variants=("shape", "positions", "arguments"),
    variants_with_gradients=True,
    cheap=True,
    findings=FINDINGS,
    catches=(
        "Other values under `torch.no_grad()` or `torch.inference_mode()` than by default, and in a case "
        "with gradients, other values with inputs that require none. Also an op that raises only there, "
        "such as one whose only kernel is at an Autograd key."
    ),
    cannot_see=(
        "The values of an op tagged as random. An op that raises on purpose, or whose kernel computes "
        "gradients by itself, which inference mode does not allow."
    ),
    cost="calls",
)
