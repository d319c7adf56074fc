"""Find out whether the op accepts a candidate: by the fake kernel first, if the real one could crash."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch

from ...cases.arguments import Arguments, Placement, draw
from ...cases.deliberate import note_if_deliberate
from ...cases.fake_run import FakeRun, fake_run
from ...cases.tensors import output_leaves
from ...checks.values.memory.fenced import Fence, FencedMemory, can_be_fenced
from ...compat.ops import is_alias_error
from ...core.tracebacks import reraise_bug
from ...declare.mistakes import MarkError
from ...declare.ops import Op
from ...findings import CheckSkipped
from .candidate import Candidate
from .rejection import Rejection, Words, rejection_of

UNDRAWN, FAKE, CRASHED, REAL, EMPTY, DOUBTFUL, ACCEPTED = range(7)  # how far a candidate got
_PLACE = Placement("cpu", torch.float32, False, "contiguous")
_SEEDS = tuple(range(6))


@dataclass(frozen=True)
class Attempt:
    """The result of trying a candidate.

    Args:
        stage: how far it got.
        rejection: why it was rejected; None if it was accepted.
    """

    stage: int
    rejection: Rejection | None = None


class Asker:
    """Tries candidates on one op.

    Args:
        op: the op.
        words: learns from the text of rejections.
        risky: whether the kernel could read outside of its memory. Then the fake kernel is called first,
            and the real kernel is not called with arguments that the fake kernel rejects.
        has_fake: whether there is a fake kernel. Arguments that it rejects on purpose are invalid.
        on_call: called before each call of the real kernel.
    """

    def __init__(
        self, op: Op, words: Words, *, risky: bool, has_fake: bool, on_call: Callable[[], None]
    ) -> None:
        self._op = op
        self._words = words
        self._risky = risky
        self._has_fake = has_fake
        self._on_call = on_call
        self._names = frozenset(argument.name for argument in op.arguments)

    def ask(self, candidate: Candidate, *, skip_fake: bool = False) -> Attempt:
        """Try one candidate.

        Args:
            skip_fake: whether the real kernel is called although the fake kernel raises, unless it raises
                on purpose.
        """
        try:
            sample = candidate.sample(self._op)
        except (ValueError, RuntimeError, TypeError) as error:
            return Attempt(UNDRAWN, Rejection(("undrawn",), 0, frozenset(), str(error), ""))
        stage = REAL
        try:
            with warnings.catch_warnings(), torch.no_grad():
                warnings.simplefilter("ignore")
                try:
                    arguments = draw(self._op, sample, _PLACE, _SEEDS[0])
                except (MarkError, ValueError) as error:
                    return Attempt(UNDRAWN, Rejection(("undrawn",), 0, frozenset(), str(error), ""))
                shapes = arguments.copy() if self._op.mutated else arguments
                fake = self._fake(shapes) if self._has_fake and self._risky else None
                rejected = None if fake is None else fake.error
                if rejected is not None and (not skip_fake or self._is_meant(rejected)):
                    return Attempt(FAKE, self._read(rejected))
                result = self._call(arguments)
                outputs = [output for _, output in output_leaves(result)]
                if any(
                    isinstance(output, torch.Tensor) and not output.numel() for output in outputs
                ):
                    stage = EMPTY
                for seed in _SEEDS[1:]:
                    self._call(draw(self._op, sample, _PLACE, seed))
                if self._risky:
                    for behind in (True, False):
                        self._call(_fenced(draw(self._op, sample, _PLACE, _SEEDS[0]), behind))
        except Exception as error:  # whatever an op raises for arguments that it does not accept
            reraise_bug(error)
            if is_alias_error(error):  # the kernel has run, and the checks report what it returned
                return Attempt(ACCEPTED)
            return Attempt(REAL, self._read(error))
        if stage == EMPTY:
            return Attempt(EMPTY)
        if fake is None and self._has_fake:
            fake = self._fake(shapes)
            if fake is not None and fake.error is not None and self._is_meant(fake.error):
                return Attempt(FAKE, self._read(fake.error))
        return Attempt(ACCEPTED if fake is None or _agree(fake, outputs) else DOUBTFUL)

    def _call(self, arguments: Arguments) -> object:
        self._on_call()
        return arguments.call()

    def _is_meant(self, error: Exception) -> bool:
        """Whether the fake kernel rejects on purpose."""
        return note_if_deliberate(self._op.name, error) is not None

    def _fake(self, arguments: Arguments) -> FakeRun | None:
        """The call on fake tensors; None if torch has no such fake tensors."""
        try:
            return fake_run(arguments)
        except CheckSkipped:
            return None

    def _read(self, error: Exception) -> Rejection:
        return rejection_of(error, self._names, self._words)


def _agree(fake: FakeRun, outputs: list[object]) -> bool:
    """Whether the fake kernel returns outputs of the same shapes, as far as it knows them."""
    if fake.error is not None:
        return False
    faked = [output for _, output in output_leaves(fake.run.result)]
    return len(faked) == len(outputs) and all(map(_alike, faked, outputs))


def _alike(fake: object, real: object) -> bool:
    if not (isinstance(fake, torch.Tensor) and isinstance(real, torch.Tensor)):
        return isinstance(fake, torch.Tensor) == isinstance(real, torch.Tensor)
    known = [(expected, actual) for expected, actual in zip(fake.shape, real.shape, strict=False)]
    return fake.dim() == real.dim() and all(
        expected == actual for expected, actual in known if isinstance(expected, int)
    )


def _fenced(arguments: Arguments, behind: bool) -> Arguments:
    """The arguments in memory that ends, or begins, at a page that must not be accessed."""
    held: list[FencedMemory] = []

    def move(name: str, value: torch.Tensor) -> torch.Tensor:
        del name
        if not can_be_fenced(value):
            return value
        held.append(FencedMemory(value, Fence(behind=behind)))
        return held[-1].tensor

    moved = arguments.map_distinct(move)
    for memory in held:
        memory.forbid()
    return moved
