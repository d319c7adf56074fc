"""`errors.fake`: the fake kernel rejects what the real kernel rejects."""

from __future__ import annotations

import functools

import torch

from ...cases.case import Case
from ...cases.fake_run import fake_run
from ...compat.fakes import fake_cause, is_data_dependent, missing_fake_kernel
from ...core.tracebacks import error_line, raised_by_author, traceback_text
from ...declare.inputs import ErrorSample
from ...findings import Explanation, doc_links, fail, skip
from ..check import Check
from .expected import CALL_FAKE, describe_expected, expected_error, is_expected, script


def check_fake(case: Case) -> None:
    """Check that the fake kernel rejects the arguments too, unless only their values are wrong."""
    expected = expected_error(case)
    if expected.data_dependent:
        reason = "the sample is marked data_dependent: a fake kernel sees no values"
        raise skip("nothing-to-check", reason, unjudged=False)
    if case.eager.error is None:
        reason = "the op itself accepts these arguments: see errors.real"
        raise skip("nothing-to-check", reason, unjudged=False)
    error = fake_run(case.inputs()).error
    if error is not None and missing_fake_kernel(error):
        raise skip("nothing-to-check", "there is no fake kernel: see fake.forward", unjudged=False)
    if error is not None and _is_acceptable(expected, fake_cause(error)):
        return
    if _accepts_other_values(case):
        reason = (
            "the op accepts other values of the same shapes and dtypes; a fake kernel sees none"
        )
        raise skip("nothing-to-check", reason, unjudged=False)
    if error is None:
        raise fail(
            "fake-accepts-bad-input",
            f"{case.op.name} rejects these arguments ({error_line(case.eager.error)}), and its fake "
            "kernel accepts them",
            repro=script(expected, CALL_FAKE),
        )
    error = fake_cause(error)
    raise fail(
        "fake-error-differs",
        f"the fake kernel of {case.op.name} must raise {describe_expected(expected)} here, and raises "
        f"{error_line(error)}",
        traceback_text(error),
        repro=script(expected, CALL_FAKE),
    )


def _is_acceptable(expected: ErrorSample, error: Exception) -> bool:
    """Whether this is the expected error, or an error of one of torch's own ops."""
    if is_expected(expected, error):
        return True
    return not raised_by_author(error) and not is_data_dependent(error)


def _accepts_other_values(case: Case) -> bool:
    """Whether the real op accepts other values of the same shapes and dtypes."""
    for number in (0.0, 1.0, 0.5, -1.0):
        try:
            arguments = case.inputs().map(functools.partial(_filled, number=number))
        except (RuntimeError, NotImplementedError):  # a kind of tensor that cannot be filled
            return False
        if case.run(arguments).error is None:
            return True
    return False


def _filled(tensor: torch.Tensor, number: float) -> torch.Tensor:
    value = number if tensor.is_floating_point() or tensor.is_complex() else int(abs(number))
    return torch.full_like(tensor.detach(), value).requires_grad_(tensor.requires_grad)


FINDINGS = {
    "fake-accepts-bad-input": Explanation(
        meaning="The real kernel rejects these arguments, and the fake kernel accepts them.",
        why=(
            "torch.compile and torch.export run only the fake kernel. They continue tracing "
            "with an impossible result, and the mistake shows at run time, or in a later op."
        ),
        fix=(
            "Validate shapes, dtypes, devices and numbers in the fake kernel too, best in "
            "one function that both kernels call. If only the values are wrong, declare "
            "that: ErrorSample(..., data_dependent=True)."
        ),
        before="""
@double_rows.register_fake
def _(x):
    return torch.empty_like(x)  # the real kernel raises unless x.dim() == 2
""",
        after="""
@double_rows.register_fake
def _(x):
    check_arguments(x)  # the real kernel calls it too
    return torch.empty_like(x)
""",
        docs=(doc_links.REGISTER_FAKE,),
        follows=("bad-input-accepted",),
    ),
    "fake-error-differs": Explanation(
        meaning=(
            "The fake kernel rejects the arguments with another error type or message than "
            "the mark's errors= names."
        ),
        why=(
            "Under torch.compile the user sees the fake kernel's error. An error raised by "
            "chance does not name the wrong argument."
        ),
        fix=(
            "Call one function that validates the arguments from both kernels; or name both "
            "errors in the mark: raises=(ValueError, IndexError), match='one|other'."
        ),
        before="""
@grey.register_fake
def _(image):
    channels, height, width = image.shape  # not enough values to unpack
""",
        after="""
@grey.register_fake
def _(image):
    check_arguments(image)  # the real kernel calls it too
    channels, height, width = image.shape
""",
        docs=(doc_links.REGISTER_FAKE,),
        follows=("error-differs",),
    ),
}

CHECK = Check(
    name="errors.fake",
    summary="the fake kernel rejects the mark's error samples too, unless only their values are wrong",
    run=check_fake,
    errors=True,
    findings=FINDINGS,
    catches=(
        "A fake kernel that accepts the same arguments, or raises another type or message. "
        "If torch's own ops raise inside it, their type and message are accepted."
    ),
    cannot_see=(
        "A fake kernel has no values. If the real op accepts zeros, ones or the like in the "
        "same shapes and dtypes, only the values are wrong and there is nothing to check. "
        "Where the check cannot decide that, write `ErrorSample(..., data_dependent=True)`."
    ),
    cost="calls",
)
