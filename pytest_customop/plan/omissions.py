"""What a session has to say beside its results: what it left out, and what went wrong with files.

xdist's workers send theirs to the controller, which prints them. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

_SHOWN = 12  # ids in a line


@dataclass(frozen=True)
class OmittedSamples:
    """What a cap on samples left out of one mark.

    Args:
        op: `namespace::name`.
        where: file, line and name of what is marked.
        kept, left: the ids of the samples.
    """

    op: str
    where: str
    kept: Sequence[str]
    left: Sequence[str]

    def line(self) -> str:
        """As the summary says it."""
        ids = ", ".join(self.left[:_SHOWN])
        more = len(self.left) - _SHOWN
        name = self.where.rpartition("(")[2].rstrip(")")
        total = len({*self.kept, *self.left})
        return (
            f"  {self.op} ({name}): {len(self.kept)} of {total} samples kept, not {ids}"
            + f" and {more} more" * (more > 0)
        )


@dataclass(frozen=True)
class OmittedVariants:
    """How many variants of one mark's samples the session's amount leaves out, on one device.

    Args:
        op: `namespace::name`.
        where: file, line and name of what is marked.
        left: how many.
    """

    op: str
    where: str
    left: int


# Takes in what there is to say of a mark.
OnOmitted = Callable[["OmittedSamples | OmittedVariants"], None]


@dataclass(frozen=True)
class ShardNote:
    """Which part of the cases a shard has.

    Args:
        index, count: the shard, from 1, and how many there are.
        cases, items: those of this shard.
        all_cases, all_items: those of all shards.
        others: tests without the mark, which only the first shard runs.
    """

    index: int
    count: int
    cases: int
    items: int
    all_cases: int
    all_items: int
    others: int

    @property
    def any_items(self) -> bool:
        """Whether there is anything in any shard."""
        return self.all_items + self.others > 0

    def line(self) -> str:
        """As the summary says it."""
        mine = (
            f"shard {self.index} of {self.count}: {self.cases} of {self.all_cases} cases, "
            f"{self.items} of {self.all_items} items"
        )
        if not self.others:
            return mine
        verb = "here" if self.index == 1 else "in shard 1"
        return f"{mine}; {self.others} tests without the mark run {verb}"


@dataclass
class Notes:
    """The notes of one session.

    Args:
        left_out: by op and place of the mark, each mark being planned more than once.
        variants: by op and place of the mark.
        shard: None without one.
        unwritten: files that could not be written, with the reason.
    """

    left_out: dict[tuple[str, str], OmittedSamples] = field(default_factory=dict)
    variants: dict[tuple[str, str], OmittedVariants] = field(default_factory=dict)
    shard: ShardNote | None = None
    unwritten: dict[str, str] = field(default_factory=dict)

    def mark(self, what: OmittedSamples | OmittedVariants) -> None:
        """Note what there is to say of a mark; several devices of one mark are one note."""
        if isinstance(what, OmittedVariants):
            self.variants[what.op, what.where] = what
        else:
            self._leave_out(what)

    def _leave_out(self, what: OmittedSamples) -> None:
        known = self.left_out.get((what.op, what.where), what)
        kept = tuple(dict.fromkeys((*known.kept, *what.kept)))
        left = tuple(dict.fromkeys((*known.left, *what.left)))
        self.left_out[what.op, what.where] = OmittedSamples(what.op, what.where, kept, left)

    def plain(self) -> dict[str, Any]:
        """As plain lists and dicts, which travel from a worker."""
        return {
            "left_out": [asdict(one) for one in self.left_out.values()],
            "variants": [asdict(one) for one in self.variants.values()],
            "shard": asdict(self.shard) if self.shard else None,
            "unwritten": dict(self.unwritten),
        }

    def take(self, plain: Mapping[str, Any]) -> None:
        """Take in what a worker sent; every worker sends the same of the collection."""
        for one in plain.get("left_out", ()):
            self.mark(OmittedSamples(**one))
        for one in plain.get("variants", ()):
            self.mark(OmittedVariants(**one))
        if plain.get("shard"):
            self.shard = ShardNote(**plain["shard"])
        self.unwritten.update(plain.get("unwritten", {}))

    def lines(self, max_samples: int | None) -> list[str]:
        """What the summary says of what was left out."""
        found = [self.shard.line()] if self.shard else []
        if self.left_out:
            told = sorted(one.line() for one in self.left_out.values())
            found += [f"Left out by --customop-max-samples={max_samples}:", *told]
        return found
