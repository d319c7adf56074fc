"""Run a variant once and classify it: accepted, rejected, costly, hung, or one that shows a defect."""

from __future__ import annotations

import contextlib
import functools
import math
import re
from dataclasses import dataclass
from weakref import WeakKeyDictionary, WeakSet

import torch

from ..cases.case import Case
from ..cases.crash_risk import may_crash
from ..cases.fake_run import fake_run, shapes_of
from ..cases.run import Run
from ..compat.autograd import is_invalid_gradient
from ..core.process_memory import available, growth_limited
from ..core.tracebacks import error_line, raised_on_purpose, reraise_bug, traceback_text
from ..core.watchdog import COMPUTING, LimitExceeded, within_limits
from ..declare.inputs import SameAs, Sample, TensorSpec
from ..declare.variant import BY_FORMULA, JOINT, REJECTED
from ..findings import CheckSkipped, Finding, fail, skip
from .alias_rejection import alias_rejection
from .empty_inputs import why_empty_is_valid
from .growth import (
    call_within_limits,
    costly,
    is_large,
    processor_seconds,
    skip_if_bulky,
    skip_if_costly,
    skip_if_slow,
    skip_if_slower_than_sample,
)
from .hangs import finding_of
from .repro import CALL

_NO_MEMORY = re.compile(r"not enough memory|allocate memory|MemoryError|bad_alloc", re.IGNORECASE)
_LONGEST = 5.0  # seconds of processor time for the calls of a variant with other arguments


class VariantRejected(CheckSkipped):
    """Raised for a variant that the op rejects.

    Args:
        reason: what the op or its backward raises.
        accepted_by_fake: whether the op's fake kernel accepts it.
    """

    def __init__(self, reason: str, *, accepted_by_fake: bool) -> None:
        text = f"{reason}; its fake kernel accepts it" if accepted_by_fake else reason
        super().__init__(REJECTED, text, unjudged=False)
        self.accepted_by_fake = accepted_by_fake


@dataclass(frozen=True)
class _Rejection:
    """The exception of the op, or of its backward."""

    text: str
    accepted_by_fake: bool = False


@dataclass(frozen=True)
class _Failure:
    """A limit that the op exceeds, or a result that torch rejects: parts of the finding."""

    code: str
    text: str
    evidence: str
    fix: str | None = None
    repro: str = CALL

    @classmethod
    def of(cls, finding: Finding) -> _Failure:
        """The same as a finding."""
        return cls(finding.code, finding.message, finding.evidence)


_Answer = _Rejection | _Failure | CheckSkipped | None

# The result of each variant's call: None if the op accepts it.
_answers: WeakKeyDictionary[Case, _Answer] = WeakKeyDictionary()
_slow_variants: WeakKeyDictionary[Case, set[str]] = WeakKeyDictionary()  # by sample
_slow_samples: WeakSet[Sample] = WeakSet()  # those of variants, which cases with gradients share


def skip_if_rejected(case: Case) -> None:
    """Return if the op accepts a variant. The op is called once per case.

    Raises:
        VariantRejected: if the op or its backward raises: the op decides which arguments are valid.
        CheckSkipped: `costly`, if a variant takes too much time, or a large one too much memory.
        CheckFailed: `hang` or `crash`, if the call exceeds a limit of time or memory;
            `output-alias-rejected`, if torch rejects what the op returns; `backward-raises`, if autograd
            rejects what the backward returns.
    """
    if case not in _answers:
        _answers[case] = _classify(case)
    answer = _answers[case]
    if isinstance(answer, CheckSkipped):
        raise answer.with_traceback(None)
    if isinstance(answer, _Failure):
        raise fail(
            answer.code,
            answer.text,
            answer.evidence,
            answer.fix,
            repro=answer.repro,
        )
    if isinstance(answer, _Rejection):
        raise VariantRejected(answer.text, accepted_by_fake=answer.accepted_by_fake)


def _classify(case: Case) -> _Answer:
    assert case.base_case is not None  # it is a variant
    assert case.variant is not None
    slow_variants = _slow_variants.setdefault(case.base_case, set())
    steps = case.variant.split(JOINT)
    if len(steps) > 1 and not slow_variants.isdisjoint(steps):
        return skip("costly", "the op takes too long on one of its changes alone", unjudged=False)
    if case.requires_grad and case.sample in _slow_samples:
        return skip("costly", "the op takes too long without gradients", unjudged=False)
    answer = _classify_calls(case)
    if isinstance(answer, (CheckSkipped, _Failure)) and answer.code in ("costly", "hang"):
        slow_variants.add(case.variant)
        _slow_samples.add(case.sample)
    return answer


def _classify_calls(case: Case) -> _Answer:
    large = is_large(case)
    start = processor_seconds()
    # Other numbers may be more work, for example a rate that shares no factor with another rate.
    of_numbers = case.kind in ("arguments", "pairs")
    longest = _LONGEST if of_numbers else math.inf
    memory = _half_of_memory() if of_numbers and case.placement.device == "cpu" else None
    limited = contextlib.nullcontext() if memory is None else growth_limited(memory)
    try:
        with within_limits(processor_seconds=longest), limited:
            if large:
                skip_if_costly(case)
                start = processor_seconds()
            error = case.eager.error
            if error is None and case.requires_grad and not large:
                _skip_if_call_is_slow(case, processor_seconds() - start)
            answer = _classify_backward(case) if error is None else None
            seconds = processor_seconds() - start
        if error is None:
            if answer is None:
                _skip_if_slow(case, seconds)
            return answer
    except CheckSkipped as skipped:
        case.release()
        return skipped
    except LimitExceeded as overrun:
        if large:
            case.release()
            return costly(f"it did not return: {overrun}")
        if overrun.code == COMPUTING:
            case.release()
            return skip("costly", str(overrun), unjudged=False)
        return _Failure.of(finding_of(case.op, overrun, case.variant_description))
    if memory is not None and _NO_MEMORY.search(error_line(error)):
        case.release()
        return skip("costly", f"it takes too much memory: {error_line(error)}", unjudged=False)
    finding = alias_rejection(case, error)
    if finding is not None:
        return _Failure.of(finding)
    promised = _fake_result(case)
    if promised is not None and not _is_on_purpose(case, error):
        takes = why_empty_is_valid(case, promised)
        if takes:
            text = f"{takes}, but the op raises {error_line(error)}"
            return _Failure("eager-raises", text, traceback_text(error), _FIX_EMPTY)
        if (case.variant or "").endswith(BY_FORMULA):
            text = f"a docstring of {case.op.name} gives these sizes, but the op raises {error_line(error)}"
            return _Failure("eager-raises", text, traceback_text(error), _FIX_SIZES)
    return _Rejection(f"{case.op.name} raises {error_line(error)}", promised is not None)


@functools.cache
def _half_of_memory() -> int | None:
    """Half of the bytes that are free when the first variant runs; None if nothing tells how many are."""
    free = available()
    return None if free is None else free // 2


def _is_on_purpose(case: Case, error: BaseException) -> bool:
    """Whether the op may raise on purpose. For compiled code this is always assumed."""
    return raised_on_purpose(error) or may_crash(case)


def _skip_if_call_is_slow(case: Case, seconds: float) -> None:
    """Skip a variant on which the call alone took so many seconds: its backward may take many more."""
    sample = case.base_case
    assert sample is not None  # it is a variant
    skip_if_slower_than_sample(
        seconds, lambda: case.run(case.inputs()), lambda: sample.run(sample.inputs())
    )


def _skip_if_slow(case: Case, seconds: float) -> None:
    """Skip a variant if its calls are too slow.

    The calls are repeated to confirm that. They returned before, so one that does not return is no hang.

    Args:
        seconds: the time that the first calls have taken.
    """
    sample = case.base_case
    assert sample is not None  # it is a variant
    repeat = functools.partial(call_within_limits, case)
    of_sample = functools.partial(call_within_limits, sample)
    try:
        if is_large(case):
            skip_if_bulky(case)
            skip_if_slow(seconds, repeat)
        else:
            skip_if_slower_than_sample(seconds, repeat, of_sample)
    except LimitExceeded as overrun:
        reason = f"the first calls took {seconds:.1f} s; when they were repeated, {overrun}"
        raise skip("costly", reason, unjudged=False) from overrun


def _classify_backward(case: Case) -> _Rejection | _Failure | None:
    if not case.requires_grad:
        return None
    try:
        _ = case.eager_gradients
    except Exception as error:  # whatever the author's backward, or autograd for it, raises
        reraise_bug(error)
        text = f"the backward of {case.op.name} raises {error_line(error)}"
        if is_invalid_gradient(error) and _has_sizes_of_author(case) and _sample_works(case):
            evidence = traceback_text(error)
            return _Failure("backward-raises", text, evidence, _FIX, repro=_GRADIENTS)
        # If the backward raises on the sample too, as for an inference-only op, this means nothing.
        return _Rejection(text) if _sample_works(case) else None
    return None


def _has_sizes_of_author(case: Case) -> bool:
    """Whether the sample has every tensor of its variant: the size of an added tensor is only a guess."""
    assert case.base_case is not None
    tensors, of_sample = (
        {
            argument.name
            for argument, value in bound_case.op.bind(bound_case.sample)
            if _is_tensor(value)
        }
        for bound_case in (case, case.base_case)
    )
    return tensors <= of_sample


def _is_tensor(value: object) -> bool:
    return isinstance(value, (TensorSpec, SameAs, torch.Tensor))


def _sample_works(case: Case) -> bool:
    """Whether the backward returns on the sample. If it does not, the sample's checks report it."""
    base = case.base_case
    assert base is not None
    try:
        _ = base.eager_gradients
    except Exception as error:  # whatever a backward raises
        reraise_bug(error)
        return False
    finally:
        base.release()
    return True


_FIX_EMPTY = (
    "Return early where there are no elements, with results of the sizes that the fake kernel has."
)
_FIX_SIZES = (
    "Look for sizes or numbers that are taken for each other because they are equal in the sample, such "
    "as height and width."
)
_FIX = (
    "Return from the backward one gradient for each argument, in the sizes and on the device of that "
    "argument, and None for what is not a tensor."
)
_GRADIENTS = """
args, kwargs = inputs()
leaves = torch.utils._pytree.tree_leaves
torch.manual_seed(seed)
outputs = [
    leaf for leaf in leaves(op(*args, **kwargs))
    if isinstance(leaf, torch.Tensor) and leaf.requires_grad
]
given = [
    leaf for leaf in leaves((args, kwargs)) if isinstance(leaf, torch.Tensor) and leaf.requires_grad
]
grads = [torch.randn_like(output) for output in outputs]
torch.autograd.grad(outputs, given, grads, allow_unused=True)
"""


def _fake_result(case: Case) -> Run | None:
    """What the fake kernel returns; None if it raises."""
    try:
        fake = fake_run(shapes_of(case))
    except CheckSkipped:  # torch has no fake tensors of this kind
        return None
    return fake.run if fake.error is None else None
