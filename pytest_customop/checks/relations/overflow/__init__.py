"""`relations.overflow`: no number overflows on the way to a result that has room for the right one."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import partial
from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch

from ....cases.arguments import Arguments
from ....cases.case import Case
from ....cases.dtype_code import dtype_code
from ....cases.run import Run
from ....compat.shadow_values import WIDER, ShadowValues
from ....compat.wide_arrays import wide_arrays
from ....core.tracebacks import is_of_author
from ....findings import CheckSkipped, Explanation, doc_links, fail, skip
from ...check import Check
from ...values.memory.calls import Caller, skip_if_incomparable
from ...values.memory.limited_copy import answer_of_copy, answer_safely
from ..scripts import call_lines, position
from .outcome import Wrong, first_other_decision, first_wrong, first_wrong_of_numpy
from .trials import Trial, larger_numbers, trials

_MEMORY = 2**30  # bytes for calls with larger plain numbers
_NOT_WATCHED = "no operator of torch or numpy in the kernel computes with numbers of few bits"
# By the case of a sample: whether an operator in the kernel computes with numbers of few bits.
_on_samples: WeakKeyDictionary[Case, bool] = WeakKeyDictionary()


class _Found(NamedTuple):
    """The outcome of some calls.

    Args:
        wrong: a result that is wrong; None without one.
        trial: the number of the trial that showed it.
        watched: whether the kernel computes with numbers of few bits.
    """

    wrong: Wrong | None
    trial: int
    watched: bool


def check_overflow(case: Case) -> None:
    """Call the op, and follow numbers that overflow in operators of torch or numpy to the results."""
    skip_if_incomparable(case)
    if torch.device(case.placement.device).type != "cpu":
        reason = "operators in a kernel can be watched on the CPU only"
        raise skip("nothing-to-check", reason, unjudged=False)
    modular = dtype_code(case.op).modular
    if modular:
        reason = f"{modular} says that integers may wrap on purpose"
        raise skip("nothing-to-check", reason, unjudged=False)
    if _is_as_unwatched_sample(case):
        raise skip("nothing-to-check", f"{_NOT_WATCHED}, as on the sample", unjudged=False)
    own, *others = trials(case)
    tried = [own]
    found = _found(case, tried)
    if found.wrong is None and others:
        tried = others
        watched = found.watched
        found = answer_safely(case, lambda plain: _found(plain, others))
        found = found._replace(watched=watched or found.watched)
    if not found.watched:
        raise skip("nothing-to-check", _NOT_WATCHED, unjudged=False)
    if found.wrong is None:
        tried = [*larger_numbers(case)]
        found = _with_larger(case, tried) if tried else found
    if found.wrong is not None:
        trial = tried[found.trial]
        raise fail(
            "intermediate-overflow",
            f"{case.op.name}{trial.description and ', '}{trial.description}: {found.wrong.cause}; "
            f"so {found.wrong.result} is wrong: {found.wrong.how}",
            repro=_script(case, trial, found.wrong),
        )


def _is_as_unwatched_sample(case: Case) -> bool:
    """Whether a variant runs the operators of its sample, and none of these has numbers of few bits."""
    sample = case.base_case
    if sample is None or case.kind in ("arguments", "pairs") or _dtypes(case) != _dtypes(sample):
        return False
    if sample not in _on_samples:
        own = next(trials(sample))
        _on_samples[sample] = sample.eager.error is not None or _found(sample, [own]).watched
        sample.release()
    return not _on_samples[sample]


def _dtypes(case: Case) -> list[tuple[str, torch.dtype]]:
    return [(name, tensor.dtype) for name, tensor in case.inputs().tensors()]


def _with_larger(case: Case, tried: Iterable[Trial]) -> _Found:
    """The outcome of calls that may take much memory; such calls end in a copy of the process."""
    for at, trial in enumerate(tried):
        try:
            found = answer_of_copy(case, partial(_found, tried=[trial]), memory=_MEMORY)
        except CheckSkipped:
            break
        if found.wrong is not None:
            return found._replace(trial=at)
    return _Found(None, 0, True)


def _found(case: Case, tried: Iterable[Trial]) -> _Found:
    calls = Caller(case)
    watched = agrees = False
    for at, trial in enumerate(tried):
        shadows = ShadowValues(is_of_author)
        with torch.no_grad():
            with shadows:
                run = calls(trial.change(_detached(case)))
            decisions = trial.widen is not None  # another dtype than the sample's
            wrong = None
            if run.error is None:
                wrong = first_wrong(run, shadows, decisions=decisions)
            if wrong is None and run.error is None and trial.widen is not None:
                other = first_other_decision(run, calls(trial.widen(_detached(case))), shadows)
                if shadows.first is None:
                    agrees = other is None  # rounding changes no decision
                elif agrees:
                    wrong = other
            if wrong is None and run.error is None and trial.widen is None:
                wrong, is_watched = _in_numpy(case, trial, calls, run)
                watched |= is_watched
        watched |= shadows.watched > 0
        if wrong is not None:
            return _Found(wrong, at, True)
    return _Found(None, 0, watched)


def _in_numpy(case: Case, trial: Trial, calls: Caller, run: Run) -> tuple[Wrong | None, bool]:
    """A result that an overflow in numpy made wrong, and whether the kernel gets arrays of few bits.

    Args:
        run: the call of the trial.
    """
    given = trial.change(_detached(case))
    has_few_bits = any(tensor.dtype in WIDER for _, tensor in given.tensors())
    if "numpy" not in sys.modules or case.op.mutated or not has_few_bits:
        return None, False
    with wide_arrays(is_of_author) as watch:
        wide = calls(given)
    if watch.first is None or wide.error is not None:
        return None, watch.arrays > 0
    return first_wrong_of_numpy(run, wide, watch.first), True


def _detached(case: Case) -> Arguments:
    return case.inputs().map_distinct(lambda _, tensor: tensor.detach())


def _script(case: Case, trial: Trial, wrong: Wrong) -> str:
    got = f"got = call(args, kwargs)[{position(case, wrong.result)}]"
    rtol = 1e-2 if isinstance(wrong.exact, float) else 0.0
    judged = (
        f"{got}\nassert list(got.shape) == {wrong.exact}, got.shape\n"
        if wrong.element is None
        else f"{got}.flatten()[{wrong.element}].item()\n"
        f"expected = {wrong.exact!r}  # what numbers with more bits give\n"
        f"assert abs(got - expected) <= {rtol} * abs(expected), (got, expected)\n"
    )
    start = "\nargs, kwargs = inputs()\nargs = list(args)\n"
    return call_lines(wrong.result) + start + trial.script() + judged


FINDINGS = {
    "intermediate-overflow": Explanation(
        meaning=(
            "A number on the way to a result does not fit the dtype that it is computed in: it wraps, in "
            "float16 it becomes infinite, or in float32 an integer above 2**24 is rounded. The right "
            "result fits the dtype of the result."
        ),
        why=(
            "torch and numpy compute in the dtype of the operands: 200 + 100 is 44 in uint8, 70000 * 70000 "
            "is 605032704 in int32, and nothing raises. A cast of the result comes too late."
        ),
        fix=(
            "Cast before the arithmetic, not after it: row.to(torch.int64) * width + column, in numpy "
            "row.astype(np.int64). In place of float16 compute in float32, and in place of float32, for "
            "integers, in float64. If the numbers "
            'wrap on purpose, say so in a comment ("wraps on purpose") or write '
            'checks=["-relations.overflow"].'
        ),
        before="""
return (row * width + column).to(torch.int64)      # in int32
""",
        after="""
return row.to(torch.int64) * width + column
""",
        docs=(doc_links.CUSTOM_OP, doc_links.TENSOR_ATTRIBUTES),
        follows=("uninitialized-output", "undeclared-mutation", "outputs-not-repeatable"),
    ),
}

CHECK = Check(
    name="relations.overflow",
    summary="no number overflows on the way to a result that has room for the right one",
    run=check_overflow,
    gradients=False,
    variants=("arguments", "dtype", "positions", "values", "magnitudes", "long", "shape", "pairs"),
    cheap=True,
    findings=FINDINGS,
    catches=(
        "Keys, codes, sums and distances that wrap in int32, int16, int8 or uint8, become infinite in "
        "float16, or come from integers and lose digits in float32, on the way to a result that could "
        "hold the right number. Each torch operator in the kernel that may overflow runs a second time in"
        " int64 (float32 for float16, float64 for float32), and so does whatever reads a number that "
        "overflowed. Only what reaches a result counts: wrapping that is undone, masked out, or left in a"
        " result of the same few bits is no finding. Integer tensors are also filled with numbers near "
        "the ends of what the sample shows, or of their dtype, if a docstring names it and it has 8 or 16"
        " bits. Plain integers become up to 4096 times as large, if a result is int64 and no docstring "
        "limits them. Kernels that call `Tensor.numpy()` run once more with arrays of int64 that claim "
        "fewer bits. Where a docstring says only that numbers are floating-point, and the op returns "
        "positions or decisions, these are also looked at for the numbers in float16, as they are and up "
        "to 64 times as large."
    ),
    cannot_see=(
        "Arithmetic outside of torch and numpy: loops in C++, Triton. In numpy: arrays that the kernel "
        "makes itself, unsigned numbers of 16 and 32 bits, casts to fewer bits. Numbers that pass through "
        "bits (^, ~, shifts, masks) or through % after they wrapped, and an op that is named like a hash, "
        "a checksum or a source of random numbers: these may wrap on purpose. Overflow of int64."
    ),
    cost="calls",
)
