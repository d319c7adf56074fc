"""What `state.*` find: global state that a call changes."""

from __future__ import annotations

from .entry import Explanation

ENTRIES: dict[str, Explanation] = {}
