"""Calls that go on with the random streams as they are; other calls begin with the seed of the case."""

from __future__ import annotations

from ...cases.arguments import Arguments
from ...cases.run import Run
from ...core.tracebacks import error_line, reraise_bug
from ...findings import skip


def call_unseeded(arguments: Arguments) -> Run:
    """One call.

    Raises:
        CheckSkipped: if the op raises.
    """
    try:
        return Run(arguments, arguments.call())
    except Exception as error:  # whatever an op raises
        reraise_bug(error)
        reason = f"the op raises {error_line(error)}"
        raise skip("nothing-to-check", reason, unjudged=False) from None
