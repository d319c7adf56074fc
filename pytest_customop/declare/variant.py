"""Variants of samples: their kinds, the step to a variant, and the changed sample."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from .inputs import Sample

KINDS = (
    "layout",
    "shape",
    "large",
    "long",
    "dtype",
    "complex",
    "values",
    "magnitudes",
    "positions",
    "special",
    "arguments",
    "pairs",
    "gradients",
    "alias",
)
MANY_PARTS = "many_parts"  # how the names of steps end that repeat offsets or lengths
LARGE = ("large", "long")  # the kinds that have many more elements than their sample
# The word with which a mark or a session makes notes count as failures.
STRICT = "strict"
# Stands between a sample's id and the step: `wide~empty0`.
SEPARATOR = "~"
# Stands between the steps of a variant with several, and between what they change: `up.true+odd`.
JOINT = "+"
# How the names of steps end that put -infinity where a docstring gives it a meaning.
MINUS_INFINITY = "has.-inf"
# How the names of steps end that change a number, and the sizes that follow from it by a docstring.
BY_FORMULA = "by_formula"
# Why a variant leaves its sample: the number may be unrelated, equal by chance.
NUMBER_DIFFERS = "a size that an argument gives as a number differs from it"
# Why an optional tensor leaves its sample: the op may be made for another shape of it.
UNSHAPED = "an optional tensor given, of a size that the sample does not show"
# Why positions that are -1 leave what the sample shows: an op may not accept them.
NEGATIVE = "positions that are -1"
# The code of the skip if the op rejects a variant.
REJECTED = "rejected"


class Step(NamedTuple):
    """One small change of a sample.

    Args:
        name: the step in a test id: `empty0`, `x.transposed`.
        description: what was changed, for a message.
        changes: argument path -> the new value.
        rank: small for a step that is likely to find something. From 10 on, a step belongs only to the
            full set of variants.
        reads_beyond: whether a kernel that does not check its arguments could read or write outside
            of their memory.
        dropped: the arguments that are left to their defaults.
        beyond: why the change leaves what the sample shows, such as `equal sizes made different`; None if
            it stays within. A finding on a variant beyond the sample is a note.
        aspect: what it changes (see `Variant`); None if its kind says so.
    """

    name: str
    description: str
    changes: Mapping[str, Any]
    rank: int
    reads_beyond: bool = False
    dropped: tuple[str, ...] = ()
    beyond: str | None = None
    aspect: str | None = None


@dataclass(frozen=True, eq=False)
class Variant:
    """A sample with one small change.

    Args:
        kind: one of `KINDS`.
        step: the name of the step, as in the id.
        description: what was changed.
        sample: the changed sample; its id is the original id, `~`, and the step.
        reads_beyond: whether a kernel that does not check its arguments could read outside of them.
        likely: whether the quick set may contain it.
        beyond: why it leaves what the sample shows; None if it stays within.
        aspect: what differs from the sample: the kind; `dims` if the number of dims differs; for the kind
            `arguments`, the names of the changed arguments; for `pairs`, all of these, joined by `+`.
            Findings with different aspects have different causes.
    """

    kind: str
    step: str
    description: str
    sample: Sample
    reads_beyond: bool = False
    likely: bool = True
    beyond: str | None = None
    aspect: str = ""

    def __repr__(self) -> str:
        return f"<variant {self.sample.id}: {self.description}>"


# (variant) -> the reason why the op does not support it, or None
Predicate = Callable[[Variant], "str | None"]
