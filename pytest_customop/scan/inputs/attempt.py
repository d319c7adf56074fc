"""Ask the op whether it accepts a candidate: the fake kernel first where the real one could crash."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch

from ...cases.arguments import Arguments, Placement, draw
from ...cases.fake_run import fake_run
from ...cases.tensors import is_plain, output_leaves
from ...checks.values.memory.fenced import Fence, FencedMemory
from ...compat.ops import is_alias_error
from ...declare.mistakes import MarkError
from ...declare.ops import Op
from ...findings import CheckSkipped
from .candidate import Candidate
from .refusal import Refusal, Words, refusal_of

UNDRAWN, FAKE, CRASHED, REAL, EMPTY, ACCEPTED = range(6)  # how far a candidate came
_PLACE = Placement("cpu", torch.float32, False, "contiguous")
_SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class Attempt:
    """What became of a candidate.

    Args:
        stage: how far it came.
        refusal: what it was refused with; None where it was accepted.
    """

    stage: int
    refusal: Refusal | None = None


class Asker:
    """Asks one op.

    Args:
        op: the op.
        words: learns what refusals say.
        risky: whether the kernel could read outside of its memory.
        has_fake: whether there is a fake kernel to be asked first.
        on_call: called before each call of the real kernel.
    """

    def __init__(
        self, op: Op, words: Words, *, risky: bool, has_fake: bool, on_call: Callable[[], None]
    ) -> None:
        self._op = op
        self._words = words
        self._risky = risky
        self._asks_fake = risky and has_fake
        self._on_call = on_call
        self._names = frozenset(one.name for one in op.arguments)

    def ask(self, candidate: Candidate, *, skip_fake: bool = False) -> Attempt:
        """Ask with one candidate.

        Args:
            skip_fake: whether the real kernel is asked whatever the fake one says.
        """
        try:
            sample = candidate.sample(self._op)
        except (ValueError, RuntimeError, TypeError) as error:
            return Attempt(UNDRAWN, Refusal(("undrawn",), 0, frozenset(), str(error)))
        stage = REAL
        try:
            with warnings.catch_warnings(), torch.no_grad():
                warnings.simplefilter("ignore")
                try:
                    arguments = draw(self._op, sample, _PLACE, _SEEDS[0])
                except (MarkError, ValueError) as error:
                    return Attempt(UNDRAWN, Refusal(("undrawn",), 0, frozenset(), str(error)))
                if self._asks_fake and not skip_fake:
                    refused = self._fake_error(arguments)
                    if refused is not None:
                        return Attempt(FAKE, self._read(refused))
                result = self._call(arguments)
                outputs = [one for _, one in output_leaves(result)]
                if any(isinstance(one, torch.Tensor) and not one.numel() for one in outputs):
                    stage = EMPTY
                for seed in _SEEDS[1:]:
                    self._call(draw(self._op, sample, _PLACE, seed))
                if self._risky:
                    for behind in (True, False):
                        self._call(_fenced(draw(self._op, sample, _PLACE, _SEEDS[0]), behind))
        except Exception as error:
            if is_alias_error(error):  # the kernel has run, and the checks report what it returned
                return Attempt(ACCEPTED)
            return Attempt(REAL, self._read(error))
        return Attempt(EMPTY if stage == EMPTY else ACCEPTED)

    def _call(self, arguments: Arguments) -> object:
        self._on_call()
        return arguments.call()

    def _fake_error(self, arguments: Arguments) -> Exception | None:
        try:
            return fake_run(arguments).error
        except CheckSkipped:
            return None

    def _read(self, error: Exception) -> Refusal:
        return refusal_of(error, self._names, self._words)


def _fenced(arguments: Arguments, behind: bool) -> Arguments:
    """The arguments in memory that ends, or begins, at a page that may not be touched."""
    held: list[FencedMemory] = []

    def move(name: str, value: torch.Tensor) -> torch.Tensor:
        del name
        if not (is_plain(value) and value.is_contiguous() and value.numel()):
            return value
        held.append(FencedMemory(value, Fence(behind=behind)))
        return held[-1].tensor

    moved = arguments.map_distinct(move)
    for memory in held:
        memory.forbid()
    return moved
