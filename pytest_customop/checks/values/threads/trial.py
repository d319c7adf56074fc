"""Call an op in several threads, and compare what each call gives with what it gives alone."""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import dataclass
from functools import partial

from ....cases.case import Case
from ....cases.crash_risk import may_crash
from ....core.forked import Send
from ....core.torch_threads import torch_threads
from ....core.tracebacks import error_line, reraise_bug, traceback_text
from ..memory.calls import Leaves, copied, first_difference
from .calls import Outcome, ThreadCall, in_python, owner, wrong
from .interrupt import Interruption, Place, choose
from .running import Hung, run

SECONDS = 10.0  # for calls that take no time; after that they count as hung
_ALONE_SECONDS = 3.0  # for the calls alone
_LONGEST = 60.0  # for one call alone
_SLOW = 0.05  # seconds: a call that takes longer is made less often
_PLACES = 12  # at most so many interruptions
_BLOCKED = 8  # an op has a lock if the other thread had to wait in so many interruptions
_PATIENCE = 0.01  # seconds that an interrupted thread waits for the other one, at least
_ROUNDS = 6  # rounds in which all threads call a Python kernel at once
# All threads call a native kernel again and again for so many seconds of processor time, because a loaded
# machine seldom runs two of them at the same time; and for at most so many seconds of wall-clock time.
_NATIVE_SECONDS, _NATIVE_PATIENCE = 0.06, 1.0
# A kernel in Python around compiled code spends little of its time there, and cannot be interrupted there.
_WRAPPED_SECONDS = 0.3
# Calls of a native kernel between two barriers: for so many seconds, but at most so many calls.
_BATCH_SECONDS, _BATCH = 0.005, 32
_NATIVE_ROUNDS = 2
# The interpreter switches threads as often as it can, but at most so many times in a slow call.
_SWITCH_INTERVAL, _SWITCHES = 1e-6, 5000

_OTHER_VALUES = "the op alone gives other values each time: see values.repeat"

UNSAFE, DEADLOCK = "thread-unsafe", "thread-deadlock"


@dataclass(frozen=True)
class Wrong:
    """A finding, without the name of the op."""

    code: str
    message: str
    evidence: str = ""


@dataclass(frozen=True)
class NotJudged:
    """Why the op's calls in threads were not compared: a skip."""

    code: str
    reason: str


ALONE = "alone"  # sent before the first simultaneous calls


class Stop(Exception):
    """Raised as soon as there is a verdict."""

    def __init__(self, verdict: Wrong | NotJudged) -> None:
        super().__init__()
        self.verdict = verdict


# A fork has no other threads of torch, and one thread adds up in a fixed order.
@torch_threads(1)
def try_threads(case: Case, seconds: float, send: Send) -> None:
    """Make the calls.

    Args:
        case: gives the arguments.
        seconds: how long a call takes.
        send: gets `ALONE` after the calls alone, then a `Wrong` or a `NotJudged` if there is one.
    """
    interval = sys.getswitchinterval()
    try:
        calls = [ThreadCall(case, number) for number in range(2 if seconds > _SLOW else 4)]
        alone = _alone(calls, seconds)
        if alone is None:
            return
        usable, expected = alone
        send(ALONE)
        trial = _Trial(case, usable, expected, seconds)
        if case.variant is None:  # larger samples pass the same lines
            trial.interrupted()
        sys.setswitchinterval(max(_SWITCH_INTERVAL, seconds / _SWITCHES))
        trial.at_once()
    except Stop as stop:
        send(stop.verdict)
    except Hung as hung:
        message = (
            "called in several threads at once it does not return: the threads wait for each other"
        )
        send(Wrong(DEADLOCK, message, hung.stacks))
    finally:
        sys.setswitchinterval(interval)


def seconds_alone(case: Case) -> float:
    """How long a call takes in a thread that is not the main one.

    Raises:
        Stop: with a finding if it raises or gives other values only there; with a reason to skip if it
            raises in the main thread, too, or does not end.
    """
    outcomes: list[tuple[Outcome, float]] = []

    def work() -> None:
        call = ThreadCall(case, 0).prepare()
        start = time.perf_counter()
        outcomes.append((call(), time.perf_counter() - start))

    try:
        run([work], _LONGEST)
    except Hung:
        raise Stop(
            NotJudged("checker-limit", f"a call alone takes more than {_LONGEST:.0f} s")
        ) from None
    outcome, seconds = outcomes[0]
    if outcome.error is not None:
        reraise_bug(outcome.error)
        if ThreadCall(case, 0).prepare()().error is not None:  # in the main thread too
            reason = f"a call raises {error_line(outcome.error)}"
            raise Stop(NotJudged("nothing-to-check", reason))
        message = (
            f"called from a thread that is not the main one it raises {error_line(outcome.error)}"
        )
        raise Stop(Wrong(UNSAFE, message, traceback_text(outcome.error)))
    if case.variant is None:
        _compare_with_main_thread(case, outcome)
    return seconds


def _compare_with_main_thread(case: Case, outcome: Outcome) -> None:
    """Compare what a call gave in another thread with what it gives in the main thread.

    Raises:
        Stop: with a finding if it differs.
    """
    first, second = (Outcome(copied(ThreadCall(case, 0).prepare()().results)) for _ in range(2))
    difference = wrong(outcome, first.results, case)
    if difference is not None and first_difference(second.results, first.results) is None:
        message = (
            f"called from a thread that is not the main one it gives other values: {difference}"
        )
        raise Stop(Wrong(UNSAFE, message))


def _alone(
    calls: list[ThreadCall], seconds: float
) -> tuple[list[ThreadCall], dict[int, Leaves]] | None:
    """The calls that work, and what each gives when no other call runs.

    The calls are made one after the other, twice, in one new thread. None if the first does not work, or if
    they do not end: a fork lacks the threads that some ops have started.
    """
    outcomes: list[Outcome] = []
    kept: list[Leaves] = []

    def work() -> None:
        for call in calls * 2:
            outcomes.append(call.prepare()())
            kept.append(copied(outcomes[-1].results))

    try:
        run([work], _ALONE_SECONDS + 20 * 2 * len(calls) * seconds)
    except Hung:
        return None
    for attempt in outcomes:
        if attempt.error is not None:
            reraise_bug(attempt.error)
    if outcomes[0].error is not None:
        return None
    count = len(calls)
    usable = [call for call in calls if not outcomes[call.number].error]
    for number, outcome in enumerate(outcomes):
        first = number % count
        if outcomes[first].error is not None:
            continue  # the op rejects these values
        changed_later = first_difference(outcome.results, kept[number]) is not None
        if (
            outcome.error is not None
            or changed_later
            or first_difference(kept[number], kept[first]) is not None
        ):
            raise Stop(NotJudged("nondeterministic", _OTHER_VALUES))
    expected = {call.number: kept[call.number] for call in usable}
    return (usable if len(usable) > 1 else usable * count), expected


class _Trial:
    """The simultaneous calls, compared with the calls alone."""

    def __init__(
        self, case: Case, calls: list[ThreadCall], expected: dict[int, Leaves], seconds: float
    ) -> None:
        self._case = case
        self._calls = calls
        self._expected = expected
        self._seconds = seconds
        self._slow = seconds > _SLOW
        has_python = in_python(case)
        self._python = has_python and not may_crash(case)
        wrapped_or_native = _WRAPPED_SECONDS if has_python else _NATIVE_SECONDS
        self._enough = 0.0 if self._python else wrapped_or_native

    def interrupted(self) -> None:
        """Interrupt a call at places of the op's Python code, and make another call there."""
        count = Interruption()

        def counted() -> None:
            call = self._calls[0].prepare()
            with count:
                call()

        run([counted], _limit(1, self._seconds))
        blocked = 0
        for at in choose(count.places, 2 if self._slow else _PLACES):
            blocked += self._interrupt(at)
            if blocked == _BLOCKED:
                return

    def _interrupt(self, at: int) -> bool:
        """Make a call inside another one; returns whether the inner one had to wait for the outer one."""
        first, second = self._calls[0], self._calls[1]
        start, finished = threading.Event(), threading.Event()
        outcomes: dict[int, Outcome] = {}
        blocked = []

        def pause() -> None:
            start.set()
            blocked.append(not finished.wait(max(_PATIENCE, 20 * self._seconds)))

        interruption = Interruption(at, pause)

        def interrupted() -> None:
            call = first.prepare()
            try:
                with interruption:
                    outcomes[0] = call()
            finally:
                start.set()

        def whole() -> None:
            call = second.prepare()
            start.wait()
            outcomes[1] = call()
            finished.set()

        run([interrupted, whole], _limit(2, self._seconds))
        place = interruption.places[at] if at < len(interruption.places) else None
        self._compare(first, outcomes[0], place, "interrupted")
        self._compare(second, outcomes[1], place, "made")
        return any(blocked)

    def at_once(self) -> None:
        """Make calls in all threads at once, as the interpreter and the system schedule them."""
        count = len(self._calls)
        rounds = 1 if self._slow else _ROUNDS if self._python else _NATIVE_ROUNDS
        barrier = threading.Barrier(count)
        enough = time.process_time() + self._enough
        end = time.monotonic() + _NATIVE_PATIENCE
        wrong: list[tuple[ThreadCall, Outcome]] = []
        batch = 1 if self._python else self._batch()
        go_on = [True]

        def work(call: ThreadCall) -> None:
            done = 0
            while go_on[0]:
                prepared = [call.prepare() for _ in range(batch)]
                barrier.wait()
                outcomes = [call() for call in prepared]
                wrong.extend(
                    (call, outcome) for outcome in outcomes if self._is_wrong(call, outcome)
                )
                done += 1
                if barrier.wait() == 0:
                    go_on[0] = not wrong and (
                        done < rounds or (time.process_time() < enough and time.monotonic() < end)
                    )
                barrier.wait()

        def guarded(call: ThreadCall) -> None:
            try:
                work(call)
            except threading.BrokenBarrierError:
                pass  # another thread raised
            except BaseException:
                barrier.abort()
                raise

        works = [partial(guarded, call) for call in self._calls]
        run(works, _limit(rounds * count * batch, self._seconds))
        for call, outcome in wrong:
            self._compare(call, outcome, None, "made")

    def _batch(self) -> int:
        """How many calls of a native kernel a thread makes between two barriers."""
        return max(1, min(_BATCH, int(_BATCH_SECONDS / max(self._seconds, 1e-6))))

    def _is_wrong(self, call: ThreadCall, outcome: Outcome) -> bool:
        if outcome.error is not None:
            return True
        return wrong(outcome, self._expected[call.number], self._case) is not None

    def _compare(self, call: ThreadCall, outcome: Outcome, place: Place | None, role: str) -> None:
        """Stop with a finding if a call did not give what it gives alone."""
        where = _evidence(place)
        if outcome.error is not None:
            reraise_bug(outcome.error)
            message = f"called in two threads at once it raises {error_line(outcome.error)}"
            evidence = "\n".join([traceback_text(outcome.error), *where])
            raise Stop(Wrong(UNSAFE, message, evidence))
        expected = self._expected[call.number]
        difference = wrong(outcome, expected, self._case)
        if difference is None:
            return
        taken = owner(outcome, self._expected, call.number)
        message = (
            f"called in several threads at once it gives other values than alone: {difference}"
        )
        if place is not None:
            where.append(f"The wrong values are those of the call that was {role} there.")
        if taken is not None:
            where.append("Each wrong element is what another thread's call has in its place.")
        raise Stop(Wrong(UNSAFE, message, "\n".join(where)))


def _limit(calls: int, seconds: float) -> float:
    """The seconds after which so many calls count as hung."""
    return SECONDS + 20 * calls * seconds


def _evidence(place: Place | None) -> list[str]:
    if place is None:
        return []
    return [f"One thread was interrupted {place}", "There another thread made a whole call."]
