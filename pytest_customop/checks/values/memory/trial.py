"""Arguments to try an op with, and the script lines that make the same arguments."""

from __future__ import annotations

from dataclasses import dataclass

from ....cases.arguments import Arguments
from ....cases.case import Case
from ....cases.guarded import LAY_OUT
from .calls import expression
from .placement import Rearrangement


@dataclass(frozen=True)
class Trial:
    """Arguments to call the op with.

    Args:
        description: how they differ from the sample's: ", with x transposed in memory".
        arguments: fresh ones.
        script: the lines that change `args` and `kwargs` in the same way.
    """

    description: str
    arguments: Arguments
    script: str = ""

    @property
    def lay_out(self) -> str:
        """The source of `lay_out`, if the lines call it."""
        return LAY_OUT if "lay_out" in self.script else ""


def trial_of(case: Case, moved: Rearrangement) -> Trial:
    """A trial of arguments in another layout."""
    script = moved.script(lambda path: expression(case, path))
    return Trial(f", with {moved.description}", moved.arguments, script)
