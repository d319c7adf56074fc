"""Arguments to try an op with, and the lines of a script that make the same."""

from __future__ import annotations

from dataclasses import dataclass

from ....cases.arguments import Arguments
from ....cases.case import Case
from ....cases.guarded import LAY_OUT
from .calls import expression
from .placement import Moved


@dataclass(frozen=True)
class Tried:
    """Arguments to call the op with.

    Args:
        words: how they differ from the sample's: ", with x transposed in memory".
        arguments: fresh ones.
        script: the lines that make the same of `args` and `kwargs`.
    """

    words: str
    arguments: Arguments
    script: str = ""

    @property
    def lay_out(self) -> str:
        """The function that the lines call, if they do."""
        return LAY_OUT if "lay_out" in self.script else ""


def moved_to(case: Case, moved: Moved) -> Tried:
    """Arguments that lie elsewhere in memory."""
    script = moved.script(lambda path: expression(case, path))
    return Tried(f", with {moved.words}", moved.arguments, script)
