"""The catalogue of findings: a code, what it means, what to change; and how a check reports one.

One module a family holds its entries. Nothing here imports the rest of the package, so that the checks
can be held to the catalogue.
"""

from __future__ import annotations

from .catalogue import CATALOGUE
from .entry import Explanation
from .finding import CheckFailed, CheckSkipped, Finding, fail, skip

__all__ = ["CATALOGUE", "CheckFailed", "CheckSkipped", "Explanation", "Finding", "fail", "skip"]
