"""The search for inputs of one op, in copies of this process that may crash or hang."""

from __future__ import annotations

import contextlib
import importlib
import os
import random
import signal
import tempfile
import time
from dataclasses import dataclass, field
from typing import Any

import torch

from ...cases.crash_risk import crash_risk
from ...compat.ops import python_kernels, traced_functions
from ...compat.registrations import fake_kind
from ...core.forked import Forked, Send, run_in_copy
from ...declare.ops import Op
from .attempt import ACCEPTED, CRASHED, DOUBTFUL, UNDRAWN, Asker
from .breed import Breeder
from .candidate import Candidate
from .keep import cost_of, unlike
from .rejection import Rejection, Words

_HANG = 3.0  # seconds that one call may take
_WALL = 3.0  # times the seconds, if the machine does other work too
_MOST_CRASHES = 200
_AFTER = 0.3  # share of the remaining time that is used after the first accepted input
_ENOUGH = 40  # accepted candidates after which the search ends
_KEPT_BY_KEY = 16
_LATEST = 3  # of these, the latest are kept even if others are plainer
_MEMORY = 4 << 30  # bytes that a candidate may add
_SKIP_FAKE = 0.1  # share of the candidates for which the fake kernel's rejection is ignored


@dataclass
class Searched:
    """The result of the search for inputs of one op.

    Args:
        kept: a few candidates that it accepts, different from each other; the plainest first.
        tried, accepted, crashes, hangs: counts of candidates.
        rejections: the last messages of the op, each once; those of the candidates that got farthest first.
        seconds: the time that the search took.
    """

    kept: list[Candidate] = field(default_factory=list)
    tried: int = 0
    accepted: int = 0
    crashes: int = 0
    hangs: int = 0
    rejections: list[str] = field(default_factory=list)
    seconds: float = 0.0


@dataclass
class _State:
    """The state that one copy passes to the next: promising candidates, and rejections.

    Args:
        corpus: by rejection, candidates that had it.
        rejections, order: by rejection, its content, and how many others came before it.
        accepted, doubtful, empty: candidates that the op accepts. For the doubtful ones the fake kernel
            returns other shapes or raises. The empty ones have an output without elements.
        tries: by rejection, how often a candidate that had it was changed.
        words: the words and numbers of sources and rejections.
        tried: how many candidates were tried.
        asked: their hashes.
        used: seconds of processor time.
    """

    corpus: dict[tuple[Any, ...], list[Candidate]] = field(default_factory=dict)
    rejections: dict[tuple[Any, ...], Rejection] = field(default_factory=dict)
    order: dict[tuple[Any, ...], int] = field(default_factory=dict)
    tries: dict[tuple[Any, ...], int] = field(default_factory=dict)
    accepted: list[Candidate] = field(default_factory=list)
    doubtful: list[Candidate] = field(default_factory=list)
    empty: list[Candidate] = field(default_factory=list)
    words: Words = field(default_factory=Words)
    tried: int = 0
    asked: set[int] = field(default_factory=set)
    used: float = 0.0

    def keep_accepted(self, candidate: Candidate, stage: int) -> None:
        """Keep a candidate that was accepted."""
        kept = {ACCEPTED: self.accepted, DOUBTFUL: self.doubtful}.get(stage, self.empty)
        kept.append(candidate)

    @property
    def all_accepted(self) -> int:
        """How many were accepted, whatever the fake kernel returns."""
        return len(self.accepted) + len(self.doubtful) + len(self.empty)

    def keep_rejected(
        self, key: tuple[Any, ...], candidate: Candidate, rejection: Rejection
    ) -> bool:
        """Keep a candidate that was rejected; returns whether the rejection is new."""
        of_key = self.corpus.setdefault(key, [])
        self.rejections[key] = rejection
        self.order.setdefault(key, len(self.order))
        is_new = not of_key
        of_key.append(candidate)
        if len(of_key) > _KEPT_BY_KEY and self.tried % 2:
            costs = [cost_of(kept) for kept in of_key[:-_LATEST]]
            del of_key[costs.index(max(costs))]
        elif len(of_key) > _KEPT_BY_KEY:  # of any cost, so that changes can add up
            del of_key[self.tried // 2 % _KEPT_BY_KEY]
        return is_new

    def progress(self, key: tuple[Any, ...]) -> float:
        """How far a rejection is: the stage, then the depth in the code, less for each failed try."""
        depth = self.rejections[key].depth
        return float(key[0]) * 1000 + depth + self.order[key] * 2 - self.tries.get(key, 0) * 0.5


def search(op: Op, seconds: float, seed: int) -> Searched:
    """Search for inputs that the op accepts.

    Args:
        op: an op with a kernel for the CPU.
        seconds: the time limit.
        seed: the seed of everything that is drawn.
    """
    importlib.import_module("torch._dynamo")  # a CustomOpDef imports it at its first call
    start = time.monotonic()
    searched, state = Searched(), _State()
    wall = start + _WALL * seconds
    for function in [f for _, f in python_kernels(op.overload)] + traced_functions(op.overload):
        state.words.read(function)
    while (left := seconds - state.used) > 0.05 and time.monotonic() < wall:
        number = searched.crashes + searched.hangs
        ended = _in_copy(op, state, left, wall, f"{seed}:{op.name}:{number}")
        if ended is None:
            searched.rejections = ["no copy of this process can call the op"]
            break
        state = _last_state(ended, state)
        if ended.messages[-1][0] == "done":
            break
        if ended.signal == signal.SIGALRM or ended.hung:
            searched.hangs += 1
            state.used += seconds / 10  # a call that waits uses no processor time
        else:
            searched.crashes += 1
        if searched.crashes + searched.hangs > _MOST_CRASHES:
            break
    searched.tried, searched.accepted = state.tried, state.all_accepted
    searched.kept = unlike(state.accepted or state.doubtful or state.empty)
    if not searched.kept:
        best = sorted(state.rejections, key=lambda key: -state.progress(key))
        texts = dict.fromkeys(state.rejections[key].text for key in best)
        searched.rejections = searched.rejections or [*texts][:3]
    searched.seconds = time.monotonic() - start
    return searched


def _last_state(ended: Forked, state: _State) -> _State:
    """The state with everything that a copy has sent before its end."""
    last: Candidate | None = None
    for kind, value in ended.messages:
        if kind in ("state", "done"):
            state = value
        elif kind == "tried":
            state.tried, digest, last, state.used = value
            state.asked.add(digest)
        elif kind == "rejected":
            key, candidate, rejection, state.words = value
            state.keep_rejected(key, candidate, rejection)
        elif kind == "again" and last is not None:
            state.keep_rejected(value, last, state.rejections[value])
        elif kind == "accepted":
            state.keep_accepted(*value)
    if ended.messages[-1][0] != "done" and last is not None:
        key = (CRASHED, "crash")
        rejection = Rejection(key[1:], 0, frozenset(), "the call ended the process", "")
        state.keep_rejected(key, last, rejection)
    return state


def _in_copy(op: Op, state: _State, seconds: float, wall: float, seed: str) -> Forked | None:
    """Search in a copy for some seconds of its processor time, and until `wall` at most."""

    def work(send: Send) -> None:
        send(("state", state))
        _prepare_copy()
        _Search(op, state, random.Random(seed), send, _Clock(seconds, wall)).run()
        send(("done", state))

    return run_in_copy(work, wall - time.monotonic() + 2 * _HANG)


class _Clock:
    """Measures the time that a copy has left.

    Args:
        seconds: the limit in processor time, which other processes of the machine do not affect.
        wall: the time of `time.monotonic` at which it is over in any case.
    """

    def __init__(self, seconds: float, wall: float) -> None:
        self._seconds, self._wall = seconds, wall
        self._before = time.process_time()

    @property
    def used(self) -> float:
        """The seconds of processor time that have passed."""
        return time.process_time() - self._before

    @property
    def left(self) -> float:
        """The seconds that are left; 0 or less if none are."""
        over = time.monotonic() >= self._wall
        return 0.0 if over else self._seconds - self.used

    def shorten(self, share: float, least: float) -> None:
        """Reduce the remaining time to a share of it, and to no less than `least`."""
        self._seconds = self.used + max(share * self.left, least)


def _prepare_copy() -> None:
    """Limit the harm that a call can do to the machine, and let a call that hangs end the copy."""
    torch.set_num_threads(1)
    os.chdir(tempfile.gettempdir())
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource
        from pathlib import Path

        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        limit = pages * os.sysconf("SC_PAGE_SIZE") + _MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))


class _Search:
    """The loop of one copy."""

    def __init__(
        self, op: Op, state: _State, rng: random.Random, send: Send, clock: _Clock
    ) -> None:
        self._state, self._rng, self._send, self._clock = state, rng, send, clock
        self._before = state.used
        self._hang = min(_HANG, max(clock.left / 3, 0.2))
        self._breeder = Breeder(op, state.words, rng)
        risky = crash_risk(op, "cpu") is not None
        has_fake = fake_kind(op.overload) in ("python", "meta", "generic")
        self._asker = Asker(op, state.words, risky=risky, has_fake=has_fake, on_call=self._on_call)

    def run(self) -> None:
        """Try candidates until the time is over, or enough are accepted."""
        state = self._state
        first = list(self._breeder.first())
        while self._clock.left > 0 and len(state.accepted) < _ENOUGH:
            before = bool(state.accepted), len(state.doubtful) > _ENOUGH
            self._ask(first.pop(0) if first else self._next())
            if (bool(state.accepted), len(state.doubtful) > _ENOUGH) != before:
                self._clock.shorten(_AFTER, 0.2)

    def _next(self) -> Candidate:
        """A candidate like one that was accepted, or like one that got far."""
        state, rng = self._state, self._rng
        if state.accepted:
            return self._breeder.changed(rng.choice(state.accepted[-8:]))
        others = [*state.doubtful[-8:], *state.empty[-4:]]
        if others and rng.random() < 0.4:
            return self._breeder.changed(rng.choice(others))
        keys = list(state.corpus)
        if not keys or rng.random() < 0.05:
            return rng.choice(list(self._breeder.first()))
        if rng.random() < 0.6:
            best = sorted(keys, key=lambda rejected: -state.progress(rejected))
            key = best[min(int(rng.expovariate(0.7)), len(best) - 1)]
        else:
            key = rng.choice(keys)
        state.tries[key] = state.tries.get(key, 0) + 1
        candidate = rng.choice(state.corpus[key])
        return self._breeder.changed(candidate, state.rejections[key])

    def _ask(self, candidate: Candidate) -> None:
        """Try a candidate, and keep it by its result."""
        state = self._state
        digest = hash(repr(candidate))
        if digest in state.asked:
            return
        state.tried += 1
        state.asked.add(digest)
        state.used = self._before + self._clock.used
        self._send(("tried", (state.tried, digest, candidate, state.used)))
        skip_fake = self._rng.random() < _SKIP_FAKE
        try:
            attempt = self._asker.ask(candidate, skip_fake=skip_fake)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        if attempt.rejection is None:
            state.keep_accepted(candidate, attempt.stage)
            self._send(("accepted", (candidate, attempt.stage)))
            return
        if attempt.stage == UNDRAWN:
            return
        key = (attempt.stage, *attempt.rejection.key)
        if state.keep_rejected(key, candidate, attempt.rejection):
            self._send(("rejected", (key, candidate, attempt.rejection, state.words)))
        else:
            self._send(("again", key))

    def _on_call(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, self._hang)
