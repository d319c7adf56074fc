"""`errors.real`: the op raises what the mark says, on arguments that it must reject."""

from __future__ import annotations

from ...cases.case import Case
from ...cases.describe import describe, summary
from ...core.tracebacks import error_line, traceback_text
from ...findings import Explanation, doc_links, fail
from ..check import Check
from .expected import CALL_REAL, describe_expected, expected_error, is_expected, script


def check_real(case: Case) -> None:
    """Check that the op raises what the mark's error sample names."""
    expected, error = expected_error(case), case.eager.error
    if error is None:
        outputs = [summary(tensor) for _, tensor in case.eager.outputs]
        returned = ", ".join(outputs) or describe(case.eager.result)
        raise fail(
            "bad-input-accepted",
            f"{case.op.name} must raise {describe_expected(expected)} here, and returns {returned}",
            repro=script(expected, CALL_REAL),
        )
    if not is_expected(expected, error):
        raise fail(
            "error-differs",
            f"{case.op.name} must raise {describe_expected(expected)} here, and raises {error_line(error)}",
            traceback_text(error),
            repro=script(expected, CALL_REAL),
        )


FINDINGS = {
    "bad-input-accepted": Explanation(
        meaning="The op works on arguments that it should reject according to the mark's errors=.",
        why=(
            "A caller with such arguments gets meaningless numbers instead of an error, far "
            "from where the mistake was made. A kernel in C++ or CUDA may read memory "
            "outside the tensor."
        ),
        fix="Validate the arguments in the kernel before anything is computed, and raise.",
        before="""
def kernel(image):
    return image[0] + image[1] + image[2]  # four channels: the last is ignored
""",
        after="""
def kernel(image):
    if image.shape[0] != 3:
        raise ValueError(f"three channels, not {image.shape[0]}")
    return image[0] + image[1] + image[2]
""",
        docs=(doc_links.LIBRARY,),
    ),
    "error-differs": Explanation(
        meaning=(
            "The op rejects the arguments with another error type or message than the mark's "
            "errors= names."
        ),
        why=(
            "An error raised somewhere inside the kernel does not name the wrong argument, "
            "and callers that catch the documented type do not catch it."
        ),
        fix=(
            "Validate the arguments before they are used, and raise the documented error; "
            "or, if the error is good as it is, name it in the mark."
        ),
        before="""
def kernel(image):
    return image[2] * 2  # IndexError: index 2 is out of bounds
""",
        after="""
def kernel(image):
    if image.shape[0] != 3:
        raise ValueError(f"three channels, not {image.shape[0]}")
    return image[2] * 2
""",
        docs=(doc_links.LIBRARY,),
    ),
}

CHECK = Check(
    name="errors.real",
    summary="the op rejects the mark's error samples, with the type and message that they name",
    run=check_real,
    errors=True,
    findings=FINDINGS,
    catches=(
        "An op that accepts such arguments, that raises another type, or whose message does "
        "not match `match` (a regular expression, searched for in the message)."
    ),
    cannot_see="Arguments that the mark does not list.",
    cost="calls",
)
