"""Hypothesis strategies for an author's own tests: argument lists of an op, and tensors.

They need Hypothesis, which the extra `fuzz` installs.
"""

from __future__ import annotations

import importlib.util

if importlib.util.find_spec("hypothesis") is None:
    raise ImportError(
        "pytest_customop.strategies needs Hypothesis: pip install 'pytest-customop[fuzz]'"
    )

from .fuzz.author import Call, samples, tensors

__all__ = ["Call", "samples", "tensors"]

for _public in (Call, samples, tensors):
    _public.__module__ = __name__  # where they are public
