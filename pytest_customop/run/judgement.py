"""Decide whether a finding is a failure or a note.

A finding on an author's own sample is a failure. So is one on a variant that stays within what the
sample shows. The rules and the reasons for them are in docs/checks.md.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ..cases.argument_names import names_iterations, names_offsets
from ..cases.case import Case
from ..cases.deliberate import (
    clips_by_docstring,
    depends_on_sign_by_docstring,
    divides_by_count_by_docstring,
    gives_ties_by_source,
    is_estimate_by_module,
    is_estimate_by_source,
    is_no_derivative_by_source,
)
from ..cases.documentation import mention, texts_about
from ..cases.documented import (
    has_own_generator,
    leaves_memory_unset,
    trusts_positions,
    wants_distinct,
)
from ..cases.documented_gradients import (
    gets_no_gradient,
    has_part_without_gradient,
    has_zero_derivative,
    is_differentiable_by,
    is_learned,
    is_not_differentiable,
    may_be_of_a_solution,
    promises_second_order,
)
from ..cases.documented_numbers import allows_zero
from ..cases.documented_shapes import with_another_size
from ..cases.formula_code import gradient_if_needed
from ..cases.ignored import ignores_added_elements
from ..cases.partial_gradients import has_gradient_of_some_output
from ..cases.tensors import base_name, is_differentiable
from ..declare.variant import NEGATIVE, NUMBER_DIFFERS, UNSHAPED
from ..findings import (
    BEYOND_SAMPLE,
    NOT_ASKED,
    REFUSED_ON_PURPOSE,
    TORCH_LIMIT,
    WITHIN_ROUNDING,
    Finding,
)
from .entries_alone import entries_stand_alone


class Note(NamedTuple):
    """Why a finding is not a failure.

    Args:
        code: `beyond-sample`, `refused-on-purpose`, `within-rounding`, `not-asked` or
            `torch-limit`.
        reason: the same in words.
    """

    code: str
    reason: str


# Reasons for notes with the code `not-asked`.
_NO_RULE = "the op has no autocast rule, so nothing says that it supports autocast"
_UNKNOWN = "only its author knows whether it is meant"
_RECOMPILED = (
    "only the backward makes the size a constant: the results are right, and each size has a graph"
)
_OF_STEPS = ("gradient-of-a-step-function", "gradient-mismatch-at-ties")
_OF_DERIVATIVES = (
    *("gradient-mismatch", "gradient-mismatch-at-ties"),
    *("gradient-missing", "gradient-of-a-step-function"),
)
_OF_FORMULA = (*_OF_DERIVATIVES, "backward-not-linear")
_SECOND = "second-order-gradient-mismatch"
_BY_ACCIDENT = "no sample has such arguments, and the op does not reject them on purpose"
_NARROWED = "neither the mark nor a tensor of the sample requests float64"
_LIMITED = (
    "the op may limit the number of entries, or compute blocks of entries apart, on purpose; or positions "
    "come twice among many entries and once among few"
)
_OFFSET = "no sample has large numbers that are close to each other"
_BUFFER = "the argument has the name of a buffer, and no formula saves a buffer"
_OTHER_STREAM = "no docstring mentions a seed, and the op may use the seed of Python or numpy"
_OF_NOTHING = "no docstring says that the op returns 0 for empty, masked or zero inputs"
_OWN_STREAM = (
    "a docstring says that the op has a random stream of its own: each call gives another result"
)
_OF_TWO_CALLS = (
    *("stale-result", "outputs-not-repeatable", "uninitialized-output", "checkpoint-mismatch"),
    *("grad-output-layout-ignored", "layout-dependent-result", "grad-mode-mismatch"),
)
_OF_TWO_RESULTS = (*_OF_TWO_CALLS, "compile-output-mismatch")
_NOT_ASKED = {
    "autocast-fake-mismatch": _NO_RULE,
    "catastrophic-cancellation": _OFFSET,
    "gradients-disconnected": "the kernel may only declare that the op has no gradients",
    "mutation-missing": "a kernel for another device may need the argument as a workspace",
    "streams-overlap": "no docstring says that calls with different seeds are independent",
    **dict.fromkeys(("fake-size-specialized", "compile-recompiles"), _RECOMPILED),
    "global-state-changed": _BY_ACCIDENT,
    "index-dtype-mismatch": "a docstring names no other integer dtype",
    "outputs-ignore-seed": _OTHER_STREAM,
    "result-is-nan": _OF_NOTHING,
    "version-not-bumped": _BUFFER,
    **dict.fromkeys(("result-narrowed", "gradient-narrowed"), _NARROWED),
    **dict.fromkeys(("result-depends-on-order", "parts-differ-from-whole"), _LIMITED),
}


_NOT_FINITE = ("gradient-not-finite", "result-is-nan")
_OUTSIDE = ("out-of-bounds-read", "out-of-bounds-write")
_OF_TORCH = {
    "compile-error": "the code that Inductor generated names a size that it does not define"
}


def note_for(case: Case, finding: Finding) -> Note | None:
    """Why a finding on a case is a note; None for a failure. On a strict case every finding is a failure.

    A check may change the arguments by itself, as `fake.symbolic` changes sizes. Then `finding.case` is
    the changed case, and the finding is judged like one on a variant.
    """
    if case.strict:
        return None
    if finding.note == WITHIN_ROUNDING:
        return Note(WITHIN_ROUNDING, "rounding explains the difference")
    if finding.note == NOT_ASKED:
        return Note(NOT_ASKED, _NOT_ASKED.get(finding.code, _UNKNOWN))
    if finding.note == TORCH_LIMIT:
        return Note(
            TORCH_LIMIT, _OF_TORCH.get(finding.code, "torch does the same with its own ops")
        )
    not_asked = _why_not_asked(case, finding)
    if not_asked is not None:
        return Note(NOT_ASKED, not_asked)
    shown_on = finding.case or case
    is_changed = shown_on is not case or case.base_case is not None
    if finding.note == REFUSED_ON_PURPOSE:
        of_backward = finding.code == "backward-raises"
        if of_backward and not _asks_for_gradients(case):
            reason = "it raises on purpose, and no tensor of the sample has requires_grad=True"
            return Note(NOT_ASKED, reason)
        if is_changed:
            raises = "backward" if of_backward else "fake kernel"
            return Note(REFUSED_ON_PURPOSE, f"the {raises} raises on purpose")
    beyond = _beyond(case, shown_on, finding)
    return Note(BEYOND_SAMPLE, beyond) if beyond else None


def _why_not_asked(case: Case, finding: Finding) -> str | None:
    """What the sample, the op's source or its docstrings say of gradients that makes a finding a note."""
    if _is_guessed_gradient(case, finding):
        return "no tensor of the sample has requires_grad=True"
    if finding.code == "gradient-missing" and gets_no_gradient(case.op, _without_gradient(finding)):
        return "a docstring says that the argument gets no gradient"
    if _is_zero_by_formula(finding) and has_zero_derivative(case.op):
        return "a docstring says that the derivative is zero"
    if _leaves_out_a_part(case, finding):
        return "a docstring says that a part of the argument gets no gradient"
    no_gradients = ("autograd-registration", "version-not-bumped")
    if finding.code in no_gradients and is_not_differentiable(case.op):
        return "a docstring says that the op is not made for gradients"
    if finding.code == "gradient-mismatch-at-ties" and gives_ties_by_source(case.op):
        return "the op's source says that each of several equal elements gets the gradient"
    if finding.code in (*_OF_STEPS, "gradient-mismatch") and is_estimate_by_source(case.op):
        return "the op's source says that its gradient is an estimate"
    if finding.code in _OF_STEPS and is_estimate_by_module(case.op):
        return "the docstring of the op's module says that a gradient is an estimate"
    if finding.code == _SECOND and _marks_an_output(case) and not promises_second_order(case.op):
        return "an output, which the formula may use, is marked as not differentiable"
    if finding.code == "gradient-of-a-step-function" and _may_be_an_estimate(case):
        return "only its author knows whether it is an estimate on purpose"
    if finding.code in _OF_TWO_CALLS and case.op.nondeterministic and has_own_generator(case.op):
        return _OWN_STREAM
    if finding.code in _OF_TWO_RESULTS and leaves_memory_unset(case.op):
        return "a docstring says that a part of the results is uninitialized memory"
    if finding.code in (*_OF_FORMULA, _SECOND) and is_no_derivative_by_source(case.op):
        return "the op's source says that its gradient differs on purpose"
    if finding.code in (*_OF_FORMULA, _SECOND) and _may_not_converge(finding.case or case):
        return "fewer iterations than in the sample, and the gradient may be that of the solution"
    if finding.code in _OF_FORMULA and clips_by_docstring(case.op):
        return "a docstring of the op says that its gradient is clipped"
    if finding.code in (*_OF_FORMULA, _SECOND) and divides_by_count_by_docstring(case.op):
        return "a docstring says that a gradient is divided by how often its entry occurs"
    if finding.code == "backward-not-linear" and depends_on_sign_by_docstring(case.op):
        return "a docstring says that the sign of a gradient decides what is passed"
    return None


def _may_not_converge(case: Case) -> bool:
    """Whether a variant has fewer iterations than its sample, and a docstring speaks of a solution."""
    if case.base_case is None or not may_be_of_a_solution(case.op):
        return False
    fewer = zip(case.op.bind(case.sample), case.op.bind(case.base_case.sample), strict=False)
    return any(
        names_iterations(argument.name) and type(value) is type(usual) is int and value < usual
        for (argument, value), (_, usual) in fewer
    )


def _beyond(case: Case, shown_on: Case, finding: Finding) -> str | None:
    """Why the case that shows a finding leaves what its sample shows; None if that does not excuse it."""
    beyond = None if finding.rejects_others else shown_on.beyond or case.beyond
    if finding.code in _OUTSIDE and beyond == NEGATIVE and not _may_trust_positions(case):
        return None
    if finding.code == "result-depends-on-thread-count" and beyond == NUMBER_DIFFERS:
        return None  # with one thread, the op gives the same again and again for these sizes
    if beyond and finding.code == "gradient-mismatch" and _may_repeat_positions(shown_on):
        return None
    if not beyond and finding.code in _NOT_FINITE and _is_zero_for_another(shown_on):
        return "0 in place of another number, which the op may divide by"
    resized = None if beyond else _with_another_size(case, shown_on)
    if resized is not None:
        return f"a docstring gives a size of {resized} as a number, and this is another one"
    if not beyond and _is_broadcast_along_added_tensor(shown_on):
        return UNSHAPED
    if not beyond and finding.code == "backward-raises" and ignores_added_elements(shown_on):
        return (
            "the op ignores elements that a larger size adds: it may be made for the sample's size"
        )
    return beyond


def _is_zero_for_another(case: Case) -> bool:
    """Whether a variant makes a float 0 that is not 0 in the sample, and no text about it allows 0."""
    name, _, step = (case.variant or "").partition(".")
    return step == "0.0" and not allows_zero(case.op, name)


def _with_another_size(case: Case, shown_on: Case) -> str | None:
    """An argument whose size is a number in a docstring, which the sample has and this case has not."""
    sample = case.base_case or case
    if shown_on is sample:
        return None

    def resized(of: Case) -> str | None:
        shapes = {path: tuple(tensor.shape) for path, tensor in of.sample_tensors()}
        return with_another_size(of.op, shapes)

    return None if resized(sample) else resized(shown_on)


def _is_broadcast_along_added_tensor(case: Case) -> bool:
    """Whether a result has another shape where a variant gives a tensor that its sample leaves out.

    A variant that has no result, as after a crash, is not called again.
    """
    sample = case.base_case
    if sample is None or not case.has_run or sample.eager.error is not None:
        return False
    before = {name for name, _ in sample.inputs().tensors()}
    if all(name in before for name, _ in case.inputs().tensors()):
        return False
    shapes = {name: output.shape for name, output in sample.eager.outputs}
    return any(
        output.shape != shapes.get(name, output.shape) for name, output in case.eager.outputs
    )


def _may_repeat_positions(case: Case) -> bool:
    """Whether the positions of a variant may repeat: entries do not depend on each other."""
    return case.kind == "positions" and not wants_distinct(case.op) and entries_stand_alone(case)


def _may_trust_positions(case: Case) -> bool:
    """Whether the op may leave it to its caller that no position is -1.

    So it may for offsets, by a docstring, and if no docstring speaks of the argument.
    """
    name = base_name((case.variant or "").partition(".")[0])
    is_unmentioned = not re.search(mention(name), "\n".join(texts_about(case.op)))
    return names_offsets(name) or trusts_positions(case.op) or is_unmentioned


def _is_guessed_gradient(case: Case, finding: Finding) -> bool:
    """Whether a gradient is missing that nothing requires: no tensor, docstring, code or other output."""
    if finding.code != "gradient-missing" or not case.placement.guesses_gradients:
        return False
    name = _without_gradient(finding)
    if not name:
        return True
    is_meant = is_differentiable_by(case.op, name) or is_learned(case.op, name)
    is_meant = is_meant or gradient_if_needed(case.op, name)
    return not is_meant and not has_gradient_of_some_output(case, name)


def _without_gradient(finding: Finding) -> str:
    """The argument whose gradient is missing; empty if the message does not name it."""
    match = re.search(r"the gradient for `(\w+)", finding.message)
    return match[1] if match else ""


def _leaves_out_a_part(case: Case, finding: Finding) -> bool:
    """Whether a gradient is 0 by the formula, where a docstring says that a part of it is.

    On a variant with other positions, with zeros, or with equal or expanded rows, it may be 0 everywhere.
    """
    if not _is_zero_by_formula(finding):
        return False
    if finding.code == "gradient-missing" and case.kind not in ("positions", "values", "layout"):
        return False
    return has_part_without_gradient(case.op, _without_gradient(finding))


def _is_zero_by_formula(finding: Finding) -> bool:
    """Whether a finding says that the formula gives 0, for all elements of the output, or no gradient."""
    is_zero = finding.code == "gradient-mismatch" and " is 0 by the formula and" in finding.message
    return is_zero or finding.code == "gradient-missing"


def _asks_for_gradients(case: Case) -> bool:
    """Whether the mark, or a tensor of the sample, says that gradients are wanted."""
    asked_by_sample = any(
        getattr(leaf, "requires_grad", None) is True for leaf in case.sample.leaves()
    )
    return case.placement.gradients_asked or asked_by_sample


def _marks_an_output(case: Case) -> bool:
    """Whether a floating-point output does not require gradients, beside another one that does."""
    return any(
        is_differentiable(output.dtype) and not output.requires_grad
        for _, output in case.eager.outputs
    )


def _may_be_an_estimate(case: Case) -> bool:
    """Whether nothing requires gradients, and no other output has a derivative.

    If an op has several outputs, the step function may be a mask, which must be marked as
    non-differentiable.
    """
    return not _asks_for_gradients(case) and len(case.eager.differentiable_outputs) == 1
