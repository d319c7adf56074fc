"""Comparison of an error with the one that an error sample names, and scripts that show the difference."""

from __future__ import annotations

import re

from ...cases.case import Case
from ...core.tracebacks import message_of
from ...declare.inputs import ErrorSample


def expected_error(case: Case) -> ErrorSample:
    """The error sample of a case."""
    assert case.error_sample is not None  # the checks of this family run on no other case
    return case.error_sample


def error_types(expected: ErrorSample) -> tuple[type[Exception], ...]:
    """The exception types that an error sample allows."""
    return expected.raises if isinstance(expected.raises, tuple) else (expected.raises,)


def describe_expected(expected: ErrorSample) -> str:
    """The expected error as text: `ValueError matching 'three channels'`."""
    names = " or ".join(cls.__name__ for cls in error_types(expected))
    return names if expected.match is None else f"{names} matching {expected.match!r}"


def is_expected(expected: ErrorSample, error: BaseException) -> bool:
    """Whether an exception has an expected type and message."""
    matches = expected.match is None or re.search(expected.match, message_of(error)) is not None
    return matches and isinstance(error, error_types(expected))


CALL_REAL = """
args, kwargs = inputs()
"""
CALL_FAKE = """
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_map_only

mode = FakeTensorMode()
args, kwargs = tree_map_only(torch.Tensor, mode.from_tensor, inputs())
"""


def script(expected: ErrorSample, first: str) -> str:
    """Script lines that fail unless the expected error is raised.

    Args:
        expected: the error sample.
        first: `CALL_REAL` or `CALL_FAKE`: the lines that prepare the call.
    """
    types = error_types(expected)
    known = all(cls.__module__ == "builtins" for cls in types)
    names = f"({', '.join(cls.__name__ for cls in types)},)" if known else "(Exception,)"
    call = (
        "with mode:\n        op(*args, **kwargs)" if first is CALL_FAKE else "op(*args, **kwargs)"
    )
    matches = expected.match or ""
    return (
        f"import re\n{first}\ntry:\n    {call}\nexcept Exception as error:\n"
        f"    assert isinstance(error, {names}) and re.search({matches!r}, str(error)), repr(error)\n"
        'else:\n    raise AssertionError("nothing was raised")\n'
    )
