"""The results of a check: a finding with its explanation, or the reason for a skip.

The explanations of one family's findings are in that family's folder.
"""

from __future__ import annotations

from .explanation import Explanation
from .finding import (
    BEYOND_SAMPLE,
    NOT_ASKED,
    REFUSED_ON_PURPOSE,
    TORCH_LIMIT,
    WITHIN_ROUNDING,
    CheckFailed,
    CheckSkipped,
    Finding,
    fail,
    skip,
)

__all__ = [
    "BEYOND_SAMPLE",
    "NOT_ASKED",
    "REFUSED_ON_PURPOSE",
    "TORCH_LIMIT",
    "WITHIN_ROUNDING",
    "CheckFailed",
    "CheckSkipped",
    "Explanation",
    "Finding",
    "fail",
    "skip",
]
