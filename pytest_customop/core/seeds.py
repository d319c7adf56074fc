"""Seeds that depend on names alone."""

from __future__ import annotations

import hashlib


def seed_of(*parts: object) -> int:
    """A seed below 2**31 that depends on the texts of the parts alone."""
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1
