"""What `values.*` find: results and memory in eager mode."""

from __future__ import annotations

from .entry import Explanation

ENTRIES: dict[str, Explanation] = {}
