"""The op itself."""

from __future__ import annotations

from .entry import Explanation

ENTRIES: dict[str, Explanation] = {
    "eager-raises": Explanation(
        meaning=("The op itself raises on this case, before any check looks at it."),
        fix=(
            "If these arguments are ones the op must take, mend the kernel; if it does not "
            "support them, take them out of the samples, or name the cells with skip_if=."
        ),
    ),
}
