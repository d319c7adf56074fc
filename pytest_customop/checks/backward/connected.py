"""`backward.connected`: where gradients are expected, an output is connected to the inputs."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import torch

from ...cases.case import Case
from ...cases.documented_gradients import is_not_differentiable
from ...cases.tensors import is_differentiable
from ...compat.nodes import is_generated, is_without_formula
from ...compat.patches import marked_non_differentiable
from ...compat.tensors import observe_calls, storage_id
from ...core.profiling import restore_profile
from ...declare.ops import Op
from ...findings import NOT_ASKED, Explanation, doc_links, fail, skip
from ..check import Check

Named = list[tuple[str, torch.Tensor]]


def check_connected(case: Case) -> None:
    """Look for an output through which gradients flow back.

    Gradients are expected if the mark sets `requires_grad`, or if Python code registers a formula or
    another kernel at an Autograd key.
    """
    outputs = [
        (name, output) for name, output in case.eager.outputs if is_differentiable(output.dtype)
    ]
    if not outputs:
        raise skip("nothing-to-check", "no output can require gradients", unjudged=False)
    if not case.eager.arguments.differentiable():
        raise skip("nothing-to-check", "no argument requires gradients", unjudged=False)
    if any(_is_connected(case, output) for _, output in outputs):
        return
    if case.asks_gradients:
        what = "no output requires them"
        if not case.op.has_autograd or case.rejects_backward:
            what = "no autograd formula is registered"
        _report(case, outputs, f"the mark asks for gradients, and {what}")
    elif _promises_gradients(case) and not _is_on_purpose(case):
        why = "a kernel is registered at an Autograd key, and no output requires gradients"
        # A kernel that only calls the next one may declare that the op has no gradients.
        _report(case, outputs, why, None if _applies_formula(case) else NOT_ASKED)
    else:
        reason = "no output requires gradients, and the mark does not ask for them"
        raise skip("nothing-to-check", reason, unjudged=False)


def _is_connected(case: Case, output: torch.Tensor) -> bool:
    """Whether a backward from the output calls a formula: the op's own, or one inside its kernel."""
    if not output.requires_grad or is_without_formula(output):
        return False
    return case.op.has_autograd or not is_generated(output)


def _promises_gradients(case: Case) -> bool:
    """Whether Python code at an Autograd key is meant to give gradients on this case.

    False if the op has a flag, which may turn gradients off, or if some floating-point argument requires
    no gradients.
    """
    if not case.op.has_formula_in_python:
        return False
    flags = [argument for argument in case.op.arguments if _is_flag(str(argument.type))]
    tensors = [
        tensor for _, tensor in case.eager.arguments.tensors() if is_differentiable(tensor.dtype)
    ]
    return not flags and all(tensor.requires_grad for tensor in tensors)


def _applies_formula(case: Case) -> bool:
    """Whether a call applies a `torch.autograd.Function`."""
    contexts: list[object] = []

    def watch(frame: FrameType, event: str, value: object) -> None:
        if event == "call" and frame.f_code.co_name in ("forward", "setup_context"):
            first = frame.f_locals.get(next(iter(frame.f_code.co_varnames), ""))
            if isinstance(first, torch.autograd.function.FunctionCtx):
                contexts.append(first)

    arguments, before = case.inputs(), sys.getprofile()
    sys.setprofile(watch)
    try:
        case.run(arguments)
    finally:
        restore_profile(before)
    return bool(contexts)


def _is_flag(kind: str) -> bool:
    return kind in ("bool", "str", "Optional[bool]", "Optional[str]")


def _is_on_purpose(case: Case) -> bool:
    """Whether a docstring or `mark_non_differentiable` excludes gradients, or all outputs are detached."""
    if is_not_differentiable(case.op):
        return True
    detached: set[int | None] = set()

    def observe(overload: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = overload(*args, **kwargs)
        if overload is torch.ops.aten.detach.default:
            detached.add(storage_id(result))
        return result

    arguments = case.inputs()
    with marked_non_differentiable() as marked, observe_calls(observe):
        run = case.run(arguments)
    inputs = {storage_id(tensor) for _, tensor in arguments.tensors()}
    returned = {storage_id(output) for _, output in run.outputs if is_differentiable(output.dtype)}
    return bool(marked) or (bool(returned) and returned <= detached - inputs - {None})


def _report(case: Case, outputs: Named, why: str, note: str | None = None) -> None:
    lines = [
        f"argument {name} requires gradients" for name, _ in case.eager.arguments.differentiable()
    ]
    lines += [f"{name}: {_state(output)}" for name, output in outputs]
    raise fail("gradients-disconnected", f"{case.op.name}: {why}", "\n".join(lines), note=note)


def _state(output: torch.Tensor) -> str:
    if not output.requires_grad:
        return "requires_grad is False"
    return "requires_grad is True, and its grad_fn has no formula"


def _returns_fresh_outputs(op: Op) -> bool:
    return bool(op.schema.returns) and not op.mutated and not op.is_composite


_SCRIPT = """
from torch.utils._pytree import tree_leaves

given = inputs()
outputs = [each for each in tree_leaves(op(*given[0], **given[1])) if isinstance(each, torch.Tensor)]
outputs = [each for each in outputs if each.requires_grad]
assert outputs, "no output requires gradients"
leaves = [each for each in tree_leaves(given) if isinstance(each, torch.Tensor) and each.requires_grad]
torch.autograd.grad(outputs, leaves, [torch.ones_like(each) for each in outputs])
"""

FINDINGS = {
    "gradients-disconnected": Explanation(
        meaning=(
            "The mark's requires_grad= or a kernel at an Autograd key promises gradients, but no "
            "output of the op is connected to its inputs: there is no formula, or no output "
            "requires gradients."
        ),
        why=(
            "The layers before the op in a model get no gradient from it. If the loss has other "
            "terms, training continues without an error and without those gradients."
        ),
        fix=(
            "Register a formula: torch.library.register_autograd(...). If the op is not meant to "
            "have one, leave requires_grad= out of the mark, and register either no kernel or "
            "torch.library.fallthrough_kernel at the Autograd keys. If an output is not "
            "differentiable on purpose, call ctx.mark_non_differentiable(output)."
        ),
        before="""
lib.impl("sine", sine, "CPU")
lib.impl("sine", torch.no_grad()(sine), "Autograd")
""",
        after="""
lib.impl("sine", sine, "CPU")
torch.library.register_autograd(
    "mylib::sine", sine_backward, setup_context=sine_setup, lib=lib
)
""",
        docs=(doc_links.REGISTER_AUTOGRAD, doc_links.AUTOGRAD_NOTES),
    ),
}

CHECK = Check(
    name="backward.connected",
    summary="where gradients are expected, an output is connected to the inputs",
    run=check_connected,
    gradients=True,
    needs=_returns_fresh_outputs,
    variants=(),
    repro=_SCRIPT,
    findings=FINDINGS,
    catches=(
        "A mark with `requires_grad=True` for an op without a formula. An op with a Python kernel "
        "at an Autograd key and no output that requires gradients."
    ),
    cannot_see=(
        "C++ kernels at an Autograd key whose outputs require no gradients, unless the mark sets "
        "`requires_grad`: this may be intended. The same holds for Python kernels of ops with a flag. "
        "Ops that write to their arguments, and ops that are made of other ops."
    ),
    cost="calls",
)
