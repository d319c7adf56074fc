"""Conformance tests for PyTorch custom operators.

The public names are resolved when they are first used, so importing the package imports no torch.

PYTEST_DONT_REWRITE: pytest would warn about modules that are imported before it starts, as in a child
process; and there are no assertions of tests in here.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .cases.case import Case as Case
    from .checks import Check as Check
    from .declare.inputs import ErrorSample as ErrorSample
    from .declare.inputs import GradOptions as GradOptions
    from .declare.inputs import Sample as Sample
    from .declare.inputs import tensor as tensor
    from .declare.known import Known as Known
    from .declare.mark import customop_cases as customop_cases
    from .findings import Explanation as Explanation
    from .findings import Finding as Finding
    from .findings import fail as fail
    from .findings import skip as skip
    from .plugin.case_handle import ConformanceError as ConformanceError
    from .run.results import CheckResult as CheckResult
    from .run.standalone import check_op as check_op

__version__ = "0.1.0"

_HOMES = {
    "Case": "cases.case",
    "Check": "checks",
    "CheckResult": "run.results",
    "ConformanceError": "plugin.case_handle",
    "ErrorSample": "declare.inputs",
    "Explanation": "findings",
    "Finding": "findings",
    "GradOptions": "declare.inputs",
    "Known": "declare.known",
    "Sample": "declare.inputs",
    "check_op": "run.standalone",
    "customop_cases": "declare.mark",
    "fail": "findings",
    "skip": "findings",
    "tensor": "declare.inputs",
}

__all__ = [
    "Case",
    "Check",
    "CheckResult",
    "ConformanceError",
    "ErrorSample",
    "Explanation",
    "Finding",
    "GradOptions",
    "Known",
    "Sample",
    "__version__",
    "check_op",
    "customop_cases",
    "fail",
    "skip",
    "tensor",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
