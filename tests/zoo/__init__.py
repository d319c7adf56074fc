"""Ops with one mistake each, the same ops without it, and correct ops that are easy to misjudge.

`python -m tests.zoo` prints what every check says about every specimen.
"""

from .registry import Specimen, since, specimen, specimens

__all__ = ["Specimen", "since", "specimen", "specimens"]
