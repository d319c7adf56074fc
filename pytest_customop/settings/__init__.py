"""The settings of a session or of a `check_op` call.

`settings/values.py` reads and validates their values. Importing this module imports no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ..declare.variant import KINDS, STRICT

# Given in place of a report's path: the summary of a GitHub job, and its annotations.
GITHUB = "github"
AMOUNTS = ("off", "quick", "full")
COMPILE_CELLS = ("all", "pairwise")


class Variants(NamedTuple):
    """Which variants of the samples are tried.

    Args:
        amount: how many: `off`, `quick`, `full`, or a number per sample.
        kinds: which kinds.
        strict: whether notes count as failures.
    """

    amount: str | int = "quick"
    kinds: tuple[str, ...] = KINDS
    strict: bool = False

    def __str__(self) -> str:
        strict = [STRICT] if self.strict else []
        kinds = self.kinds if self.kinds != KINDS else ()
        return ",".join([str(self.amount), *strict, *kinds])


@dataclass(frozen=True)
class Shard:
    """Part `index`, from 1, of `count`."""

    index: int
    count: int

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


class Settings(NamedTuple):
    """The settings of a session or of a call.

    Args:
        devices: where to run; None for the CPU.
        dtypes: names of the dtypes for tensors that are described without one; None for torch's
            default dtype.
        checks: names and families, `-name` to remove one; None for those that run by default.
        backend: a `torch.compile` backend.
        seed: the seed of every drawn value, together with the case's id.
        reports: files to write, and `GITHUB`.
        require_devices: whether an absent device is an error.
        require_coverage: the namespaces whose ops must all have cases, and `-ns::name` for ops that need
            none; None for no namespace.
        repro_dir: where scripts that reproduce failures are written.
        variants: which variants of the samples are tried.
        fuzz: how many inputs, drawn from the samples, a check gets; None: none.
        variant_steps: the steps of the variants that run, as in the report; None for all.
        isolate: which items run in a child process: `on`: all; `auto`: those of variants that could crash
            the process; `off`: none.
        without_child: how variants that could crash the process would run; None where a child process
            runs them.
        timeout: seconds that an item may take; 0 for no limit; None if not given.
        memory: gigabytes that the child process may hold; 0 for no limit; None if not given.
        max_samples: how many samples of a mark run at most; None for all.
        compile_cells: which cases of a mark are compiled: one of `COMPILE_CELLS`.
        shard: the part of the cases that runs; None for all.
        harvest: the namespaces of the ops whose calls are recorded and checked; None: none.
        harvest_save: the file of marked tests that is written from these calls.
        scan: the packages whose ops are checked without a test; None: none.
        scan_namespaces: the namespaces whose ops are checked; None: all that the packages register.
        scan_seconds: how long the search for inputs of an op may take.
        scan_save: the file of marked tests that is written from the inputs found.
        scan_examples: a file with samples for some of the ops.
        baseline: the file of recorded failures.
        update_baseline: whether the failures of this session are recorded there.
        baseline_strict: whether entries that no longer fail are a failure.
        durations: from each earlier report, the seconds of its items by node id.
    """

    devices: tuple[str, ...] | None = None
    dtypes: tuple[str, ...] | None = None
    checks: tuple[str, ...] | None = None
    backend: str = "inductor"
    seed: int = 0
    reports: tuple[Path | str, ...] = ()
    require_devices: bool = False
    require_coverage: tuple[str, ...] | None = None
    repro_dir: Path | None = None
    variants: Variants = Variants()
    variant_steps: tuple[str, ...] | None = None
    fuzz: int | None = None
    isolate: str = "auto"
    without_child: str | None = "pytest runs them in a child process"
    timeout: float | None = None
    memory: float | None = None
    max_samples: int | None = None
    compile_cells: str = "all"
    shard: Shard | None = None
    harvest: tuple[str, ...] | None = None
    harvest_save: Path | None = None
    scan: tuple[str, ...] | None = None
    scan_namespaces: tuple[str, ...] | None = None
    scan_seconds: float = 10.0
    scan_save: Path | None = None
    scan_examples: Path | None = None
    baseline: Path | None = None
    update_baseline: bool = False
    baseline_strict: bool = False
    durations: tuple[Mapping[str, float], ...] = ()

    @property
    def leaves_out(self) -> bool:
        """Whether samples, variants or compilations are left out."""
        limits = (self.max_samples, self.variant_steps)
        return any(limit is not None for limit in limits) or self.compile_cells != COMPILE_CELLS[0]

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds by node id, from all `durations`; if several have an item, the last one counts."""
        return {
            nodeid: value for durations in self.durations for nodeid, value in durations.items()
        }
