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
from .attempt import ACCEPTED, UNDRAWN, Asker
from .breed import Breeder
from .candidate import Candidate
from .keep import unlike
from .refusal import Refusal, Words

_HANG = 3.0  # seconds that one call may take
_MOST_CRASHES = 40
_AFTER = 0.3  # of the time, that is spent on inputs unlike the first that were accepted
_ENOUGH = 40  # accepted candidates after which the search ends
_KEPT_BY_KEY = 6
_MEMORY = 4 << 30  # bytes that a candidate may add
_SKIP_FAKE = 0.1  # of the candidates that the fake kernel refuses, how many the real one sees


@dataclass
class Searched:
    """What the search for inputs of one op came to.

    Args:
        kept: a few that it accepts, unlike each other; the plainest first.
        tried, accepted, crashes, hangs: counts of candidates.
        refusals: the last messages of it, each once; the farthest first.
        seconds: that it took.
    """

    kept: list[Candidate] = field(default_factory=list)
    tried: int = 0
    accepted: int = 0
    crashes: int = 0
    hangs: int = 0
    refusals: list[str] = field(default_factory=list)
    seconds: float = 0.0


@dataclass
class _State:
    """What one copy hands to the next: what came far, and what was said.

    Args:
        corpus: by refusal, candidates that had it, with the arguments it names.
        rank: by refusal, how far it is, and when it was new.
        accepted: candidates; those with empty outputs are in `empty`.
        tries: by refusal, how often a candidate that had it was changed.
        words: what sources and refusals have named.
        tried: how many candidates the op was asked with.
        asked: the hashes of these.
    """

    corpus: dict[tuple[Any, ...], list[Candidate]] = field(default_factory=dict)
    refusals: dict[tuple[Any, ...], Refusal] = field(default_factory=dict)
    tries: dict[tuple[Any, ...], int] = field(default_factory=dict)
    accepted: list[Candidate] = field(default_factory=list)
    empty: list[Candidate] = field(default_factory=list)
    words: Words = field(default_factory=Words)
    tried: int = 0
    asked: set[int] = field(default_factory=set)


def search(op: Op, seconds: float, seed: int) -> Searched:
    """Search for inputs that the op accepts.

    Args:
        op: one that has a kernel for the CPU.
        seconds: that the search may take.
        seed: of what is drawn.
    """
    importlib.import_module("torch._dynamo")  # a CustomOpDef imports it at its first call
    start = time.monotonic()
    found, state = Searched(), _State()
    for function in [f for _, f in python_kernels(op.overload)] + traced_functions(op.overload):
        state.words.read(function)
    while (left := seconds - (time.monotonic() - start)) > 0.05:
        ended = _in_copy(op, state, left, f"{seed}:{op.name}:{found.crashes + found.hangs}")
        if ended is None:
            found.refusals = ["no copy of this process can call the op"]
            break
        state = _last_state(ended, state)
        if ended.messages[-1][0] == "done":
            break
        if ended.signal == signal.SIGALRM or ended.hung:
            found.hangs += 1
        else:
            found.crashes += 1
        if found.crashes + found.hangs > _MOST_CRASHES:
            break
    found.tried, found.accepted = state.tried, len(state.accepted) + len(state.empty)
    found.kept = unlike(state.accepted or state.empty)
    if not found.kept:
        best = sorted(state.refusals, key=lambda key: -_progress(state, key))
        texts = dict.fromkeys(state.refusals[key].text for key in best)
        found.refusals = found.refusals or [*texts][:3]
    found.seconds = time.monotonic() - start
    return found


def _last_state(ended: Forked, state: _State) -> _State:
    """The state with everything that a copy has told before its end."""
    for kind, value in ended.messages:
        if kind in ("state", "done"):
            state = value
        elif kind == "tried":
            state.tried, asked = value
            state.asked.add(asked)
        elif kind == "accepted":
            (state.accepted if value[1] == ACCEPTED else state.empty).append(value[0])
    return state


def _in_copy(op: Op, state: _State, seconds: float, seed: str) -> Forked | None:
    end = time.monotonic() + seconds

    def work(send: Send) -> None:
        send(("state", state))
        _prepare_copy()
        _Search(op, state, random.Random(seed), send, end).run()
        send(("done", state))

    return run_in_copy(work, seconds + 2 * _HANG)


def _prepare_copy() -> None:
    """Limit what a call can do to the machine, and end a copy whose call does not end."""
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

    def __init__(self, op: Op, state: _State, rng: random.Random, send: Send, end: float) -> None:
        self._state, self._rng, self._send, self._end = state, rng, send, end
        self._hang = min(_HANG, max((end - time.monotonic()) / 3, 0.2))
        self._breeder = Breeder(op, state.words, rng)
        risky = crash_risk(op, "cpu") is not None
        has_fake = fake_kind(op.overload) in ("python", "meta")
        self._asker = Asker(op, state.words, risky=risky, has_fake=has_fake, on_call=self._on_call)

    def run(self) -> None:
        """Ask until time is over, or enough is found."""
        state = self._state
        end = self._end
        first = list(self._breeder.first())
        while time.monotonic() < end and len(state.accepted) < _ENOUGH:
            had = bool(state.accepted)
            self._ask(first.pop(0) if first else self._next())
            if state.accepted and not had:
                now = time.monotonic()
                end = min(end, now + max(_AFTER * (end - now), 0.2))

    def _next(self) -> Candidate:
        """One that is like what was accepted, or like what came far."""
        state, rng = self._state, self._rng
        if state.accepted:
            return self._breeder.changed(rng.choice(state.accepted[-8:]), ())
        if state.empty and rng.random() < 0.4:
            return self._breeder.changed(rng.choice(state.empty[-8:]), ())
        keys = list(state.corpus)
        if not keys or rng.random() < 0.05:
            return rng.choice(list(self._breeder.first()))
        if rng.random() < 0.7:
            best = sorted(keys, key=lambda one: -_progress(state, one))
            key = best[min(int(rng.expovariate(0.7)), len(best) - 1)]
        else:
            key = rng.choice(keys)
        state.tries[key] = state.tries.get(key, 0) + 1
        candidate = rng.choice(state.corpus[key])
        return self._breeder.changed(candidate, state.refusals[key].about)

    def _ask(self, candidate: Candidate) -> None:
        """Ask, and keep the candidate where it belongs."""
        state = self._state
        asked = hash(repr(candidate))
        if asked in state.asked:
            return
        state.tried += 1
        state.asked.add(asked)
        self._send(("tried", (state.tried, asked)))
        skip_fake = self._rng.random() < _SKIP_FAKE
        try:
            attempt = self._asker.ask(candidate, skip_fake=skip_fake)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        if attempt.refusal is None:
            kept = state.accepted if attempt.stage == ACCEPTED else state.empty
            kept.append(candidate)
            self._send(("accepted", (candidate, attempt.stage)))
            return
        if attempt.stage == UNDRAWN:
            return
        found = (attempt.stage, *attempt.refusal.key)
        of_key = state.corpus.setdefault(found, [])
        new = not of_key
        if len(of_key) < _KEPT_BY_KEY:
            of_key.append(candidate)
        else:
            of_key[self._rng.randrange(_KEPT_BY_KEY)] = candidate
        state.refusals[found] = attempt.refusal
        if new:
            self._send(("state", state))

    def _on_call(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, self._hang)


def _progress(state: _State, key: tuple[Any, ...]) -> float:
    """How far a refusal is: the stage, then how deep in the code, less what has been tried in vain."""
    refusal = state.refusals[key]
    order = list(state.corpus).index(key)
    tries = state.tries.get(key, 0)
    return float(key[0]) * 1000 + refusal.depth + order * 2 - tries * 0.5
