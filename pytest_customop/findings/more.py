"""What the checks outside of the large families find."""

from __future__ import annotations

from .entry import Explanation

ENTRIES: dict[str, Explanation] = {}
