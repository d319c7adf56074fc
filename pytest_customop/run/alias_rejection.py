"""The finding for an op whose result torch rejects, because an output shares memory."""

from __future__ import annotations

from ..cases.case import Case
from ..compat.ops import alias_error_text, is_alias_error
from ..findings import Finding


def alias_rejection(case: Case, error: BaseException) -> Finding | None:
    """The finding for an exception of the op, if torch raised it after the kernel had run.

    Such an exception does not mean that the op rejects the arguments.
    """
    if not is_alias_error(error):
        return None
    text = (
        f"{case.op.name}: torch rejects what it returns: an output is an argument, or shares memory with "
        "an argument or another output"
    )
    return Finding("output-alias-rejected", text, f"torch's message: {alias_error_text(error)}")
