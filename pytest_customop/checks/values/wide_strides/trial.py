"""Call an op with rows near each other and far apart, in a copy of the process, and compare."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch

from ....cases.calls_in_copy import run_calls_in_copy
from ....cases.case import Case
from ....cases.tensors import is_plain
from ....compat.dense_copies import DenseCopies
from ....core.forked import Forked, Send
from ....core.process_memory import growth_limited
from ....findings import skip
from ..memory.calls import (
    Caller,
    Leaves,
    copied,
    explained_by_order,
    first_difference,
    gradients_of,
    results,
)
from ..memory.placement import movable
from ..memory.spread import HEADROOM, Rows, near, reaches_far, spread

GRAD_OUTPUT = "grad_output"

# The possible verdicts on a trial.
SAME, WRONG, CRASHED = "same", "wrong", "crashed"
REJECTED = "rejected"  # by the op, which raises for rows far apart
UNJUDGED = "unjudged"  # the op raises, or gives other values, for near rows too


@dataclass(frozen=True)
class Trial:
    """A call with some tensors whose rows are far apart.

    Args:
        names: the paths of the tensors; `grad_output` stands for those of all outputs.
        dim: the dim along which the rows lie.
        distance: gives the rows of a tensor, or None if it cannot have such rows.
    """

    names: tuple[str, ...]
    dim: int
    distance: Callable[[torch.Tensor, int], Rows | None]

    def rows(self, name: str, tensor: torch.Tensor) -> Rows | None:
        """The rows that a tensor gets; None if it stays as it is."""
        if name not in self.names or not movable(tensor) or tensor.dim() <= self.dim:
            return None
        return self.distance(tensor, self.dim)

    def alone(self) -> Iterator[Trial]:
        """The same trial with one tensor at a time."""
        return (replace(self, names=(name,)) for name in self.names)


class Outcome(NamedTuple):
    """The outcome of a trial.

    Args:
        verdict: one of the constants above.
        text: how the results differ, or the name of the signal.
    """

    verdict: str
    text: str = ""

    @property
    def is_finding(self) -> bool:
        """Whether it shows a defect."""
        return self.verdict in (WRONG, CRASHED)


def outcomes(
    case: Case, trials: Sequence[Trial], *, dense_for_torch: bool = False
) -> dict[Trial, Outcome]:
    """The outcomes of trials in copies of this process, up to the first trial that crashes with far rows.

    Raises:
        CheckSkipped: if the op does not work in a copy of this process.
    """
    judged: dict[Trial, Outcome] = {}
    while left := [trial for trial in trials if trial not in judged]:
        judged |= _outcomes_of_copy(case, left, dense_for_torch)
        if any(outcome.verdict == CRASHED for outcome in judged.values()):
            break
    return judged


def _outcomes_of_copy(
    case: Case, trials: Sequence[Trial], dense_for_torch: bool
) -> dict[Trial, Outcome]:
    """The outcomes in one copy: at least the first trial's."""

    def work(send: Send) -> None:
        calls = _Calls(case, dense_for_torch)
        send(None)  # the op works in a copy
        for trial in trials:
            send(calls.try_out(trial, lambda: send(None)))

    forked = run_calls_in_copy(case, work)
    if forked is None or forked.hung or (forked.died and not _by_access(forked)):
        reason = "the op does not work in a copy of this process, where a crash would not end it"
        raise skip("checker-limit", reason, unjudged=False)
    judged = [message for message in forked.messages if message is not None]
    trial_outcomes = dict(zip(trials, judged, strict=False))
    if forked.died and forked.signal is not None:
        is_far = len(forked.messages) > 1 and forked.messages[-1] is None
        crashed = Outcome(CRASHED, signal.Signals(forked.signal).name)
        trial_outcomes[trials[len(judged)]] = crashed if is_far else Outcome(UNJUDGED)
    return trial_outcomes


def _by_access(forked: Forked) -> bool:
    """Whether an access to memory ended the process, and not a lack of memory or the process itself."""
    return forked.signal in (signal.SIGSEGV, signal.SIGBUS)


class _Calls:
    """Calls of the op, and of its backward, in this process, which is going to end.

    Raises:
        CheckSkipped: if the case's tensors have no values.
    """

    def __init__(self, case: Case, dense_for_torch: bool) -> None:
        self._case = case
        self._dense = DenseCopies(reaches_far) if dense_for_torch else None
        self._calls = Caller(case)
        self._given = [tensor for _, tensor in case.inputs().tensors()]
        self._has_backward = case.requires_grad
        self._plain = self._call(None, near_only=True)
        if self._plain is None and self._has_backward:
            self._has_backward = False
            self._plain = self._call(None, near_only=True)

    def try_out(self, trial: Trial, on_far: Callable[[], None]) -> Outcome:
        """Call the op with rows near each other, then far apart.

        Args:
            trial: the trial.
            on_far: called before the call with rows far apart.
        """
        try:
            expected = self._call(trial, near_only=True)
            if expected is None or self._plain is None or self._differ(expected, self._plain):
                return Outcome(UNJUDGED)
            on_far()
            actual = self._call(trial, near_only=False)
            if actual is None:
                return Outcome(REJECTED)
            wrong = self._differ(actual, expected)
            again = self._call(trial, near_only=True) if wrong else None
        except OSError:  # the system cannot provide such memory
            return Outcome(UNJUDGED)
        if wrong and again is not None and not self._differ(again, expected):
            return Outcome(WRONG, wrong)
        if wrong:
            return Outcome(UNJUDGED)
        return Outcome(SAME, ", ".join(self._dense.names) if self._dense else "")

    def _differ(self, actual: Leaves, expected: Leaves) -> str | None:
        """How results differ, except by rounding; None if they do not."""
        wrong = first_difference(actual, expected, self._case)
        if wrong and explained_by_order(actual, expected, self._given):
            return None
        return wrong

    def _call(self, trial: Trial | None, *, near_only: bool) -> Leaves | None:
        """The results and gradients of a call; None where it, or its backward, raises.

        Args:
            trial: says which tensors get rows; None for a call on the inputs as they are.
            near_only: whether the rows are next to each other, in storages as large as those of the trial.
        """

        def laid(name: str, tensor: torch.Tensor) -> torch.Tensor:
            rows = None if trial is None else trial.rows(name, tensor)
            if rows is None:
                return tensor
            return spread(tensor, near(tensor, rows.dim) if near_only else rows, rows)

        arguments = self._case.inputs().map_distinct(laid)
        dense = contextlib.nullcontext() if self._dense is None or near_only else self._dense
        with growth_limited(HEADROOM):
            with dense:
                run = self._calls(arguments)
            if run.error is not None:
                return None
            values = copied(results(run))
            outputs = [
                (name, output) for name, output in run.differentiable_outputs if is_plain(output)
            ]
            if not (self._has_backward and outputs and arguments.differentiable()):
                return values
        grads = [laid(GRAD_OUTPUT, grad) for grad in self._case.grad_outputs(outputs)]
        with growth_limited(HEADROOM), dense:
            slopes = gradients_of(self._case, run, lambda _: grads)
            return None if slopes is None else [*values, *copied(slopes)]
