"""Whether a variant is affordable: one with many more elements is tried on a smaller one first."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import partial

import torch

from ..cases.case import Case
from ..core.tracebacks import reraise_bug
from ..core.watchdog import within_limits
from ..declare.inputs import TensorSpec
from ..declare.variant import LARGE
from ..findings import CheckSkipped, skip

_PART = 8  # the grown size is divided by this for the smaller variant
_TINY_PARTS = (64, 2 * _PART)  # tried first: for some ops even the smaller one takes many seconds
_ELEMENTS = 2**27  # the most elements of all outputs, extrapolated from the smaller variant
_JUDGED = 2**24  # the most that there may be: a check that compares them makes tens of copies
_OUTPUTS = 128  # the most tensors that a call may return, if their number grows with the size
_AFFORDABLE = 0.05  # seconds for the calls that decide whether the op accepts the variant
_SECONDS = 4 * _AFFORDABLE / _PART  # for a call on the smaller one, if its time grows with the size
_WITH_BACKWARD = 3  # a call with its backward may take this many times as long as a call
_TRIES = 2  # calls that are timed: on a busy machine one may take several times as long as another
_SLOW = 0.1  # a variant of the sample's sizes is skipped if its calls take more seconds than this
_TIMES_SAMPLE = 20.0  # and more than this many times as long as the sample's calls
_SHORT = 1e-4  # seconds; some clocks cannot tell shorter times from 0
_HOPELESS = 4.0  # a try that takes this many times the affordable time is not repeated


def is_large(case: Case) -> bool:
    """Whether the case is a variant with many more elements than its sample."""
    return case.base_case is not None and case.aspect in LARGE


def processor_seconds() -> float:
    """The processor time of this process so far. Other processes do not affect it."""
    return time.process_time()


def skip_if_costly(case: Case) -> None:
    """Skip a large variant if calls on smaller ones show that it may take too much time or memory.

    Raises:
        CheckSkipped: `costly`.
    """
    counted = _counted(case)
    smaller = _smaller(case, _PART, counted)
    if smaller is None:
        return
    parts = [part for size in _TINY_PARTS if (part := _smaller(case, size, counted)) is not None]
    seconds = [_skip_if_longer(part) for part in parts]
    run = smaller.run(smaller.inputs())  # the first call may be slow for other reasons
    seconds.append(_skip_if_longer(smaller))
    if len(parts) == len(_TINY_PARTS):
        _skip_if_growing((parts[-1], smaller), seconds[-2:])
    elements = sum(math.prod(tensor.shape) for _, tensor in run.outputs) * _PART**2
    if elements > _ELEMENTS:
        raise costly(f"the outputs may have {elements} elements")
    tensors = len(run.outputs) * _PART
    assert case.base_case is not None  # it is a variant
    if tensors > _OUTPUTS and len(run.outputs) > len(case.base_case.eager.outputs):
        raise costly(f"it may return {tensors} tensors")


def skip_if_bulky(case: Case) -> None:
    """Skip a variant that the op has accepted if its outputs are more than the checks should compare.

    Raises:
        CheckSkipped: `costly`.
    """
    elements = sum(math.prod(tensor.shape) for _, tensor in case.eager.outputs)
    if elements > _JUDGED:
        raise costly(f"the outputs have {elements} elements")


def _skip_if_longer(case: Case) -> float:
    """The seconds of a call with its backward; skips if it takes too long even on a smaller case."""
    affordable = _SECONDS * (_WITH_BACKWARD if case.requires_grad else 1)
    seconds = _fastest(lambda: call_with_backward(case), affordable)
    if seconds > affordable:
        raise costly(f"a call on a smaller part of them takes {seconds:.2f} s")
    return seconds


def _skip_if_growing(parts: Sequence[Case], seconds: Sequence[float]) -> None:
    """Skip if the whole takes too long, should the time go on growing as from half a part to the part.

    An op that compares all pairs of rows takes 64 times as long for eight times as many.

    Args:
        parts: the half, and the part.
        seconds: of a call of each, which is repeated before the variant is skipped.
    """
    expected = _expected(*seconds)
    if expected > _HOPELESS * _AFFORDABLE:
        again = [_fastest(partial(call_with_backward, part), 0.0, tries=1) for part in parts]
        expected = _expected(*map(min, seconds, again))
    if expected > _HOPELESS * _AFFORDABLE:
        raise costly(
            f"a call may take {expected:.1f} s, if its time goes on growing as for parts of them"
        )


def _expected(of_half: float, of_part: float) -> float:
    """The seconds for `_PART` times the part, if each doubling takes as many times as long as this one."""
    return of_part * math.pow(of_part / max(of_half, _SHORT), math.log2(_PART))


def call_with_backward(case: Case) -> None:
    """The op's call and its backward, as for `Case.eager` and `Case.eager_gradients`."""
    run = case.run(case.inputs())
    if case.requires_grad:
        try:
            case.gradients_of(run)
        except Exception as error:  # whatever a backward raises
            reraise_bug(error)


def call_within_limits(case: Case) -> None:
    """The same, ended if it takes too long.

    Raises:
        LimitExceeded: as `within_limits` says.
    """
    with within_limits():
        call_with_backward(case)


def skip_if_slow(seconds: float, calls: Callable[[], object]) -> None:
    """Skip a large variant whose first calls were slow: a check makes dozens of calls.

    Args:
        seconds: the time that the calls have taken.
        calls: repeats the calls, to see whether they were slow for other reasons.

    Raises:
        CheckSkipped: `costly`.
    """
    if _AFFORDABLE < seconds <= _HOPELESS * _AFFORDABLE:
        seconds = min(seconds, _fastest(calls, _AFFORDABLE, tries=1))
    if seconds > _AFFORDABLE:
        raise costly(f"the first calls took {seconds:.1f} s")


def skip_if_slower_than_sample(
    seconds: float, of_variant: Callable[[], object], of_sample: Callable[[], object]
) -> None:
    """Skip a variant of the sample's size if its calls take many times as long as the sample's.

    Args:
        seconds: the time that the calls have taken on the variant.
        of_variant: repeats the calls: the first ones may have been slow for other reasons.
        of_sample: makes the same calls on the sample.

    Raises:
        CheckSkipped: `costly`.
    """
    if seconds <= _SLOW:
        return
    if seconds <= _HOPELESS * _SLOW:
        seconds = min(seconds, _fastest(of_variant, _SLOW, tries=1))
    if seconds > max(_SLOW, _TIMES_SAMPLE * _fastest(of_sample, _SLOW / _TIMES_SAMPLE)):
        reason = f"the first calls took {seconds:.1f} s, many times what the sample takes"
        raise skip("costly", reason, unjudged=False)


def _fastest(calls: Callable[[], object], affordable: float, tries: int = _TRIES) -> float:
    """The shortest processor time of a few tries. An affordable or a hopeless try is the last one."""
    best = float("inf")
    for _ in range(tries):
        start = processor_seconds()
        calls()
        best = min(best, processor_seconds() - start)
        if best <= affordable or best > _HOPELESS * affordable:
            break
    return best


def costly(why: str) -> CheckSkipped:
    """The skip for a large variant that takes too much time or memory."""
    return skip("costly", f"many more elements than in the sample, and {why}", unjudged=False)


def _counted(case: Case) -> list[int]:
    """How many entries integers may refer to: the largest position or offset, the sum of lengths."""
    integers = (
        tensor
        for _, tensor in case.inputs().tensors()
        if tensor.dtype in (torch.int32, torch.int64) and tensor.numel()
    )
    return [int(number) for tensor in integers for number in (tensor.max(), tensor.sum())]


def _smaller(case: Case, part: int, counted: Sequence[int]) -> Case | None:
    """The variant with the grown size divided by `part`; None if that is not possible.

    Args:
        counted: as `_counted` returns them. None may refer to entries that the smaller variant lacks.
    """
    largest = max((size for spec in case.sample.specs() for size in _shape(spec)), default=0)
    if largest < 2 * part or any(largest // part <= number <= largest for number in counted):
        return None
    return case.resized(lambda path, dim, size: size // part if size == largest else size)


def _shape(spec: TensorSpec) -> tuple[int, ...]:
    return spec.shape
