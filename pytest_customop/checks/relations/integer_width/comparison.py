"""Call an op with integers of its own dtype and of a wider one, and report where only some agree."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch

from ....cases.arguments import Arguments
from ....cases.case import Case
from ....cases.code_names import names_in_code, numbers_in_code
from ....cases.crash_risk import may_crash
from ....cases.documented_dtypes import whole_numbers_count_as_floats
from ....cases.documented_integers import Range
from ....cases.dtype_code import DtypeCode
from ....core.wording import dtype_name
from ...values.memory.calls import Caller, Leaves, copied, results
from ..precision.randomness import may_be_random
from .arguments import WIDER, Argument
from .compare import Found, compared
from .fills import Fill, demanding_fills, equal_fill, filled, small_fills

_WHITE = 64  # numbers from here on have the size of the largest int8 and uint8
_SEVERAL = 3  # memory read as another dtype may go unnoticed where few numbers are not 0


class Verdict(NamedTuple):
    """The outcome of the calls.

    Args:
        reason: why nothing was compared; empty if something was.
        wrong: how the results differ; empty if they agree.
        result: the name of the one that differs.
        wide: the wider dtype.
        fill: the numbers for which they differ.
        beyond: whether the sample shows no such numbers.
    """

    reason: str = ""
    wrong: str = ""
    result: str = ""
    wide: torch.dtype = torch.int64
    fill: Fill | None = None
    beyond: bool = False


class _Wrong(NamedTuple):
    """Numbers for which results differ, how, and whether the sample shows no such numbers."""

    fill: Fill
    found: Found
    beyond: bool


class Comparison:
    """The calls of an op with integers of its own dtype and of a wider one."""

    def __init__(self, case: Case, arguments: Sequence[Argument], code: DtypeCode) -> None:
        self._case = case
        self._arguments = {argument.name: (at, argument) for at, argument in enumerate(arguments)}
        self._calls = Caller(case)
        self._code = code
        self._is_said = whole_numbers_count_as_floats(case.op)
        self._narrowest = min(
            (argument.dtype for argument in arguments), key=lambda dtype: dtype.itemsize
        )
        self._has_32_bits = any(argument.dtype.itemsize == 4 for argument in arguments)
        self._rounds = any(name in ("numpy", "np") for name in names_in_code(case.op))
        self._is_native = may_crash(case)

    def verdict(self) -> Verdict:
        """The first fill for which the two disagree, if they agree for another one."""
        if may_be_random(self._case, lambda: self._calls(self._case.inputs())):
            return Verdict(reason="the op may draw random numbers")
        reason = ""
        for wide in self._wider():
            verdict = self._with(wide)
            if not verdict.reason:
                return verdict
            reason = reason or verdict.reason
        return Verdict(reason=reason)

    def _wider(self) -> Iterator[torch.dtype]:
        widest = max(
            (argument.dtype for _, argument in self._arguments.values()),
            key=lambda dtype: dtype.itemsize,
        )
        yield from (
            wide for wide in WIDER[widest] if not wide.is_floating_point or self._knows_no_white()
        )

    def _knows_no_white(self) -> bool:
        """Whether the code has no number like 255, which would be 1 for floating-point images."""
        if self._is_said:
            return True
        if self._is_native or not self._code.is_known:
            return False
        named = {"iinfo", "finfo"} & {*names_in_code(self._case.op)}
        return not named and all(abs(number) < _WHITE for number in numbers_in_code(self._case.op))

    def _limits(self, beyond: bool) -> list[Range]:
        return [
            argument.limits if beyond else argument.shown
            for _, argument in self._arguments.values()
        ]

    def _with(self, wide: torch.dtype) -> Verdict:
        """The verdict for one wider dtype; its `reason` says why nothing was compared."""
        learned: list[Found] = []
        wrong: list[_Wrong] = []
        error = ""
        for fill in self._small():
            outcome = self._at(fill, wide)
            if isinstance(outcome, str):
                error = error or outcome
                continue
            if not outcome.same_shapes:
                return Verdict(reason="the sizes of the results depend on the dtype")
            if not outcome.wrong:
                learned.append(outcome)
            elif self._has_32_bits:
                return Verdict(reason="even small integers give something else in a wider dtype")
            else:
                wrong.append(_Wrong(fill, outcome, beyond=False))
        if self._is_native and len(learned) < _SEVERAL:
            return Verdict(reason=f"as {dtype_name(wide)} even small numbers give something else")
        if error and not learned and not wrong:
            return Verdict(reason=f"as {dtype_name(wide)} the op raises {error}")
        for fill, beyond in self._demanding():
            outcome = self._at(fill, wide)
            if isinstance(outcome, str) or not outcome.same_shapes:
                continue
            if outcome.wrong:
                wrong.append(_Wrong(fill, outcome, beyond))
            else:
                learned.append(outcome)
        if not _is_learned(learned):
            return Verdict(reason="results in a wider dtype say nothing about those in this one")
        for fill, outcome, beyond in sorted(wrong, key=lambda item: item.beyond):
            if self._counts(fill, outcome, wide) and self._is_steady(fill, outcome, wide):
                beyond &= not self._is_said
                return Verdict("", outcome.wrong, outcome.name, wide, fill, beyond)
        return Verdict()

    def _small(self) -> list[Fill]:
        return small_fills(self._limits(beyond=False), self._has_32_bits)

    def _demanding(self) -> list[tuple[Fill, bool]]:
        """Numbers near the ends of what the sample shows, then of the dtype."""
        shown, allowed = self._limits(beyond=False), self._limits(beyond=True)
        ends = not (self._is_native or self._code.depends_on_dtype)
        fills = [(fill, False) for fill in demanding_fills(shown, self._has_32_bits, ends)]
        if shown != allowed and not self._is_native:
            fills += [(fill, True) for fill in demanding_fills(allowed, self._has_32_bits, ends)]
        return fills

    def _counts(self, fill: Fill, outcome: Found, wide: torch.dtype) -> bool:
        """Whether a difference comes from wrapping: its size shows it, or nothing else can cause it.

        Floating-point images may end at 1. So there only small numbers count from which the op makes a
        large one, and differences that begin where squares wrap.
        """
        if self._is_said:
            return True
        if wide.is_floating_point:
            return (outcome.is_far and not fill.demanding) or self._starts_with_squares(wide)
        knows_all = self._code.is_known and not self._code.depends_on_dtype and not self._is_native
        return outcome.is_sum or knows_all

    def _starts_with_squares(self, wide: torch.dtype) -> bool:
        """Whether results agree up to the largest number whose square fits the dtype, and not beyond."""
        first = math.isqrt(torch.iinfo(self._narrowest).max) + 1
        if self._narrowest.itemsize == 1 and {first, first - 1} & {*numbers_in_code(self._case.op)}:
            return False
        for number in (first - 2, first - 1, first, first + 1):
            fill = equal_fill(number, len(self._arguments))
            outcome = self._at(fill, wide)
            if isinstance(outcome, str) or bool(outcome.wrong) != (number >= first):
                return False
        return True

    def _at(self, fill: Fill, wide: torch.dtype) -> Found | str:
        """The comparison at some numbers, or the error that the op raises."""
        leaves: list[Leaves] = []
        for dtype in (None, wide):
            run = self._calls(self._inputs(fill, dtype))
            if run.error is not None:
                return f"{type(run.error).__name__}: {run.error}".partition("\n")[0][:200]
            leaves.append(copied(results(run)))
        return compared(leaves[0], leaves[1], self._narrowest, self._rounds)

    def _is_steady(self, fill: Fill, outcome: Found, wide: torch.dtype) -> bool:
        """Whether two more calls give the same difference."""
        return self._at(fill, wide) == outcome

    def _inputs(self, fill: Fill, dtype: torch.dtype | None) -> Arguments:
        def change(name: str, tensor: torch.Tensor) -> torch.Tensor:
            if name not in self._arguments:
                return tensor
            at, _ = self._arguments[name]
            values = filled(tensor, fill.numbers[at], at)
            return values if dtype is None else values.to(dtype)

        return self._case.inputs().map_distinct(change)


def _is_learned(learned: Sequence[Found]) -> bool:
    """Whether the results that agree are not all the same."""
    values = frozenset[float]().union(*(outcome.values for outcome in learned))
    return len(values) > 1
