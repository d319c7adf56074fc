"""Record what a session left out: samples, variants, cases of other shards, files that it could not write.

The summary lists them; workers of xdist send them to the controller as plain data. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

_SHOWN = 12  # ids that a line lists


@dataclass(frozen=True)
class OmittedSamples:
    """The samples of one mark that `--customop-max-samples` left out.

    Args:
        op: `namespace::name`.
        where: file, line and name of what is marked.
        kept, left: the ids of the samples that run, and of those that do not.
    """

    op: str
    where: str
    kept: Sequence[str]
    left: Sequence[str]

    def line(self) -> str:
        """The line of the summary."""
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
    """How many variants of one mark's samples `--customop-variants` left out, on one device.

    Args:
        op: `namespace::name`.
        where: file, line and name of what is marked.
        left: how many.
        steps: the names of all derived steps, if the session names steps.
    """

    op: str
    where: str
    left: int
    steps: Sequence[str] = ()


@dataclass(frozen=True)
class OmittedCompilations:
    """How many cases of one mark are not compiled, by `--customop-compile-cells`, on one device.

    Args:
        op: `namespace::name`.
        where: file, line and name of what is marked.
        device: of the cases.
        cases, left: all of them, and those that are not compiled.
    """

    op: str
    where: str
    device: str
    cases: int
    left: int


Omitted = OmittedSamples | OmittedVariants | OmittedCompilations
# Called with what was left out of a mark.
OnOmitted = Callable[[Omitted], None]


@dataclass(frozen=True)
class ShardNote:
    """Which part of the cases a shard runs.

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
        """Whether any shard has items or tests."""
        return self.all_items + self.others > 0

    def line(self) -> str:
        """The line of the summary."""
        text = (
            f"shard {self.index} of {self.count}: {self.cases} of {self.all_cases} cases, "
            f"{self.items} of {self.all_items} items"
        )
        if not self.others:
            return text
        verb = "here" if self.index == 1 else "in shard 1"
        return f"{text}; {self.others} tests without the mark run {verb}"


@dataclass
class Omissions:
    """Everything that one session left out.

    Args:
        samples: by op and place of the mark.
        variants: by op and place of the mark.
        compilations: by op, place of the mark, and device.
        shard: None without one.
        unwritten: files that could not be written, with the reason.
    """

    samples: dict[tuple[str, str], OmittedSamples] = field(default_factory=dict)
    variants: dict[tuple[str, str], OmittedVariants] = field(default_factory=dict)
    compilations: dict[tuple[str, str, str], OmittedCompilations] = field(default_factory=dict)
    shard: ShardNote | None = None
    unwritten: dict[str, str] = field(default_factory=dict)

    def add(self, omitted: Omitted) -> None:
        """Add what was left out of a mark. A mark may be planned several times, but counts once."""
        if isinstance(omitted, OmittedCompilations):
            self.compilations[omitted.op, omitted.where, omitted.device] = omitted
            return
        key = (omitted.op, omitted.where)
        if isinstance(omitted, OmittedVariants):
            self.variants[key] = omitted
            return
        known = self.samples.get(key, omitted)  # of another device
        kept = tuple(dict.fromkeys((*known.kept, *omitted.kept)))
        left = tuple(dict.fromkeys((*known.left, *omitted.left)))
        self.samples[key] = OmittedSamples(omitted.op, omitted.where, kept, left)

    def to_dict(self) -> dict[str, Any]:
        """As plain lists and dicts, which a worker can send."""
        return {
            "samples": [asdict(omitted) for omitted in self.samples.values()],
            "variants": [asdict(omitted) for omitted in self.variants.values()],
            "compilations": [asdict(omitted) for omitted in self.compilations.values()],
            "shard": asdict(self.shard) if self.shard else None,
            "unwritten": dict(self.unwritten),
        }

    def merge(self, sent: Mapping[str, Any]) -> None:
        """Add what a worker sent; every worker sends the same about the collection."""
        for omitted in sent.get("samples", ()):
            self.add(OmittedSamples(**omitted))
        for omitted in sent.get("variants", ()):
            self.add(OmittedVariants(**omitted))
        for omitted in sent.get("compilations", ()):
            self.add(OmittedCompilations(**omitted))
        if sent.get("shard"):
            self.shard = ShardNote(**sent["shard"])
        self.unwritten.update(sent.get("unwritten", {}))

    def lines(self, max_samples: int | None) -> list[str]:
        """The lines of the summary about the shard, samples and compilations that were left out."""
        lines = [self.shard.line()] if self.shard else []
        if self.samples:
            sample_lines = sorted(omitted.line() for omitted in self.samples.values())
            lines += [f"Left out by --customop-max-samples={max_samples}:", *sample_lines]
        if self.compilations:
            left = sum(omitted.left for omitted in self.compilations.values())
            cases = sum(omitted.cases for omitted in self.compilations.values())
            lines.append(
                f"Left out by --customop-compile-cells=pairwise: the compile checks of {left} of {cases} "
                "cases of the marks that have more than it takes"
            )
        return lines
