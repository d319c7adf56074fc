"""The family `errors`: arguments that the op must refuse, in the real kernel and in the fake one."""

from __future__ import annotations

import functools
import re

import torch

from ... import compat
from ...cases.case import Case
from ...cases.fake_run import fake_run
from ...cases.tensors import describe, summary
from ...core.tracebacks import error_line, message_of, raised_by_author, traceback_text
from ...declare.inputs import ErrorSample
from ...findings import fail, skip
from ..check import Check


def check_real(case: Case) -> None:
    """The op raises what the mark says, on arguments that it must refuse."""
    expected, error = _expected(case), case.eager.error
    if error is None:
        outputs = [summary(tensor) for _, tensor in case.eager.outputs]
        returned = ", ".join(outputs) or describe(case.eager.result)
        raise fail(
            "bad-input-accepted",
            f"{case.op.name} must raise {_words(expected)} here, and returns {returned}",
            repro=_script(expected, _REAL),
        )
    if not _is_expected(expected, error):
        raise fail(
            "error-differs",
            f"{case.op.name} must raise {_words(expected)} here, and raises {error_line(error)}",
            traceback_text(error),
            repro=_script(expected, _REAL),
        )


def check_fake(case: Case) -> None:
    """The fake kernel refuses what the real one refuses, unless only the values are wrong."""
    expected = _expected(case)
    if expected.data_dependent:
        reason = "the sample is marked data_dependent: a fake kernel has no values to look at"
        raise skip("nothing-to-check", reason, unjudged=False)
    if case.eager.error is None:
        reason = "the op itself takes these arguments: see errors.real"
        raise skip("nothing-to-check", reason, unjudged=False)
    error = fake_run(case.inputs()).error
    if error is not None and compat.missing_fake_kernel(error):
        raise skip("nothing-to-check", "there is no fake kernel: see fake.forward", unjudged=False)
    if error is not None and _says_enough(expected, compat.fake_cause(error)):
        return
    if _takes_other_values(case):
        reason = "the op takes other values of the same shapes and dtypes, and a fake has no values"
        raise skip("nothing-to-check", reason, unjudged=False)
    if error is None:
        raise fail(
            "fake-accepts-bad-input",
            f"{case.op.name} refuses these arguments ({error_line(case.eager.error)}), and its fake "
            "kernel takes them",
            repro=_script(expected, _FAKE),
        )
    error = compat.fake_cause(error)
    raise fail(
        "fake-error-differs",
        f"the fake kernel of {case.op.name} must raise {_words(expected)} here, and raises "
        f"{error_line(error)}",
        traceback_text(error),
        repro=_script(expected, _FAKE),
    )


def _expected(case: Case) -> ErrorSample:
    assert case.refused is not None  # the checks of this family run on no other case
    return case.refused


def _types(expected: ErrorSample) -> tuple[type[Exception], ...]:
    return expected.raises if isinstance(expected.raises, tuple) else (expected.raises,)


def _words(expected: ErrorSample) -> str:
    names = " or ".join(one.__name__ for one in _types(expected))
    return names if expected.match is None else f"{names} matching {expected.match!r}"


def _is_expected(expected: ErrorSample, error: BaseException) -> bool:
    said = expected.match is None or re.search(expected.match, message_of(error)) is not None
    return said and isinstance(error, _types(expected))


def _says_enough(expected: ErrorSample, error: Exception) -> bool:
    """Whether this is the error, or one of torch's own ops, which have words of their own."""
    if _is_expected(expected, error):
        return True
    return not raised_by_author(error) and not compat.is_data_dependent(error)


def _takes_other_values(case: Case) -> bool:
    """Whether the real op takes arguments of the same shapes and dtypes: only values are wrong."""
    for number in (0.0, 1.0, 0.5, -1.0):
        try:
            given = case.inputs().map(functools.partial(_filled, number=number))
        except (RuntimeError, NotImplementedError):  # a kind of tensor that cannot be filled
            return False
        if case.run(given).error is None:
            return True
    return False


def _filled(tensor: torch.Tensor, number: float) -> torch.Tensor:
    value = number if tensor.is_floating_point() or tensor.is_complex() else int(abs(number))
    return torch.full_like(tensor.detach(), value).requires_grad_(tensor.requires_grad)


# Scripts: the exception's type is named where it is a built-in one.

_REAL = """
args, kwargs = inputs()
"""
_FAKE = """
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_map_only

mode = FakeTensorMode()
args, kwargs = tree_map_only(torch.Tensor, mode.from_tensor, inputs())
"""


def _script(expected: ErrorSample, first: str) -> str:
    types = _types(expected)
    known = all(one.__module__ == "builtins" for one in types)
    names = f"({', '.join(one.__name__ for one in types)},)" if known else "(Exception,)"
    call = "with mode:\n        op(*args, **kwargs)" if first is _FAKE else "op(*args, **kwargs)"
    said = expected.match or ""
    return (
        f"import re\n{first}\ntry:\n    {call}\nexcept Exception as error:\n"
        f"    assert isinstance(error, {names}) and re.search({said!r}, str(error)), repr(error)\n"
        'else:\n    raise AssertionError("nothing was raised")\n'
    )


CHECKS = [
    Check(
        "errors.fake",
        "the fake kernel refuses the mark's error samples too, unless only their values are wrong",
        check_fake,
        errors=True,
    ),
    Check(
        "errors.real",
        "the op refuses the mark's error samples, with the type and message that they name",
        check_real,
        errors=True,
    ),
]
