"""Ops that wait for something that does not come: they are not called again in this process."""

from __future__ import annotations

from ..core.tracebacks import traceback_text
from ..core.watchdog import LimitExceeded
from ..declare.ops import Op
from ..findings import Finding, skip

# Names of ops a call of which waited, most likely for a lock. A further call would wait as long.
_waiting: set[str] = set()


def finding_of(op: Op, overrun: LimitExceeded, description: str = "") -> Finding:
    """The finding for a call of an op that exceeded a limit.

    Args:
        description: how its arguments differ from those of the sample.
    """
    if overrun.waited:
        _waiting.add(op.name)
    text = f"{op.name} did not return: {overrun}" + (f" ({description})" if description else "")
    return Finding(overrun.code, text, traceback_text(overrun))


def skip_if_waiting(op: Op) -> None:
    """Skip an op of which an earlier call waited in vain.

    Raises:
        CheckSkipped: `hang`.
    """
    if op.name in _waiting:
        reason = (
            "an earlier call of the op did not return, and a further one could wait for the same lock; "
            "--customop-isolate=on runs the remaining items in a new process"
        )
        raise skip("hang", reason)
