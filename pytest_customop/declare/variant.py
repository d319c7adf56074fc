"""What a variant is, and the kinds of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from .inputs import Sample

KINDS = (
    "layout",
    "shape",
    "dtype",
    "values",
    "positions",
    "special",
    "arguments",
    "gradients",
    "alias",
)
# Between a sample's id and the step: `wide~empty0`.
SEPARATOR = "~"
# The skip code of one that the op rejects.
REJECTED = "rejected"
# How to run those that could make a kernel read out of bounds.
ISOLATE_HINT = "--customop-isolate runs them"


class Step(NamedTuple):
    """One small change of a sample.

    Args:
        name: the step in a test id: `empty0`, `x.transposed`.
        description: what was changed, for a message.
        changes: argument path -> what stands there instead.
        rank: the likelier a step is to find something, the smaller; from 10 on, only the full set of
            variants has it.
        reads_beyond: whether a kernel that trusts its arguments could read or write outside of their
            memory.
        dropped: arguments that are not given.
    """

    name: str
    description: str
    changes: Mapping[str, Any]
    rank: int
    reads_beyond: bool = False
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Variant:
    """A sample one step away from an author's own.

    Args:
        kind: one of `KINDS`.
        step: the name of the step, as in the id.
        description: what was changed.
        sample: the changed sample; its id is the author's, `~`, and the step.
        reads_beyond: whether a kernel that trusts its arguments could read outside of them.
        likely: whether the quick set may have it.
    """

    kind: str
    step: str
    description: str
    sample: Sample
    reads_beyond: bool = False
    likely: bool = True

    def __repr__(self) -> str:
        return f"<variant {self.sample.id}: {self.description}>"


# (variant) -> the reason why the op does not support it, or None
Predicate = Callable[[Variant], "str | None"]
