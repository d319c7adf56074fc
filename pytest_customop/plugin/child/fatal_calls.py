"""The calls that have ended a child: what makes the same call is not run again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from ...plan.place import Place
from . import protocol
from .exit_causes import ProcessExit

if TYPE_CHECKING:
    from ...cases.case import Case
    from ...plan.items import PlannedItem
    from ...run.results import CheckResult

# How many variants of an op may leave a device unusable. Each takes a new interpreter.
_LOSSES = 3


class FatalCalls:
    """How plain calls of samples and variants have ended children: every further check would do so too."""

    def __init__(self) -> None:
        self._samples: WeakKeyDictionary[Case, ProcessExit] = WeakKeyDictionary()
        self._variants: dict[tuple[str, Place], ProcessExit] = {}
        self._losses: Counter[str] = Counter()  # of devices, by op

    def add_sample(self, case: Case, ended: ProcessExit) -> None:
        """Note the end of a child that ran a sample, if the plain call was its cause."""
        if ended.phase in (protocol.DRAW, protocol.EAGER):
            self._samples[case] = ended

    def add_variant(self, case: Case, ended: ProcessExit) -> None:
        """Note the end of a child that ran a variant."""
        if ended.phase in (protocol.DRAW, protocol.EAGER):
            self._variants[_call_of(case)] = ended
        if ended.device_error:
            self._losses[case.op.name] += 1

    def end_of_sample(self, case: Case) -> ProcessExit | None:
        """How the plain call of a sample has ended a child; None if it has not."""
        return self._samples.get(case)

    def end_of_variant(self, case: Case) -> ProcessExit | None:
        """How the plain call of a variant has ended a child; None if it has not."""
        return self._variants.get(_call_of(case))

    def not_run(self, planned: PlannedItem, done: Collection[str | None]) -> Iterator[CheckResult]:
        """The results of variants that are left out, because the sample or many have lost the device.

        Args:
            planned: an item of variants.
            done: the variants that have a result.
        """
        from ...run.lost_devices import fatal_samples
        from .crash_results import not_run

        assert planned.check is not None
        for case in planned.checked_cases:
            if case.variant in done:
                continue
            sample = case.base_case
            ended = self._samples.get(sample) if sample is not None else None
            if sample in fatal_samples or (ended is not None and ended.device_error):
                reason = "a plain call on the sample itself leaves the device unusable"
                yield not_run(planned.check, case, "as-sample", reason)
            elif self._losses[case.op.name] >= _LOSSES:
                reason = f"{_LOSSES} variants have left the device unusable, each in a new process"
                yield not_run(planned.check, case, "device-lost", reason)


def _call_of(case: Case) -> tuple[str, Place]:
    """A key that is equal for variants with the same plain call, with gradients and without."""
    from ...plan.items import place_of

    return case.op.name, replace(place_of(case), requires_grad=None)
