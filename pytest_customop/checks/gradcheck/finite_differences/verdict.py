"""Verify gradients: torch's gradcheck, further draws, and what a mismatch proves."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import torch

from ....core.tracebacks import error_line, reraise_bug
from ....declare.inputs import GradOptions
from ....findings import CheckFailed, CheckSkipped, skip
from .finding import FindingCodes, mismatch
from .jacobian import RIGHT, WRONG, Pair, compare
from .jumps import is_right_between_jumps
from .kinks import has_hidden_kink
from .projection import Draw, is_cheap, is_linear, is_small, torch_gradcheck_passes
from .skips import (
    here_alone,
    narrow,
    narrow_gradient,
    narrow_outputs,
    not_smooth,
    out_of_domain,
    outputs_change,
    random_gradients,
    skip_if_unsuitable,
)
from .steep import is_right_closer
from .ties import wrong_at_ties
from .vectors import BackwardError, CallError, OutputsChanged, VectorFunction

# Draws for a cheap function, the most draws for any function, and the number of nearby points.
_DRAWS, _MOST_DRAWS, _NEARBY = 3, 5, 3
_BRIEF = 2  # draws if `brief`


def verify_gradients(
    function: VectorFunction,
    options: GradOptions,
    seed: int,
    codes: FindingCodes,
    *,
    brief: bool = False,
    lenient: Collection[str] = (),
) -> None:
    """Return if the formula agrees with finite differences.

    If kinks leave that undecided, directions that keep equal elements equal and three nearby points are
    tried. At nearby points the formula can turn out right, but is never reported as wrong.

    Args:
        function: the function with its formula.
        options: step and tolerances.
        seed: of the draws.
        codes: of the findings.
        brief: whether it is enough that the formula is right along random directions, whatever the size.
            If it is not, the formula is judged in full.
        lenient: codes that are not reported if the function is small, and its gradients are finite and
            right at three nearby points: where a branch ends, either branch's gradient is right.

    Raises:
        CheckFailed: if the formula is wrong.
        CheckSkipped: if that stays undecided.
        BackwardError: if the backward raises.
    """
    if brief and _right_along_draws(function, options, seed):
        return
    skip_if_unsuitable(function, options, seed)
    try:
        reason = _at_point(function, options, seed, codes)
    except CheckFailed as failure:
        excused = failure.finding.code in lenient
        if excused and _wrong_here_alone(function, options, seed):
            raise here_alone() from None
        raise
    if reason is None:
        return
    at_ties = wrong_at_ties(function, options, seed) if codes.ties else None
    if at_ties is not None:
        raise at_ties
    for attempt in range(1, _NEARBY + 1):
        try:
            near = _nudged(function, options, seed, attempt)
            draw = None if is_small(near) else Draw.of(near, seed + attempt)
            if not _differing(near, draw, options):
                return
        except BackwardError:
            raise
        except (CallError, OutputsChanged):
            continue
    raise reason


def _wrong_here_alone(function: VectorFunction, options: GradOptions, seed: int) -> bool:
    """Whether a small function's gradients are finite, and right at three nearby points."""
    if not is_small(function) or not all(
        bool(gradient.isfinite().all()) for gradient in random_gradients(function, seed)
    ):
        return False
    try:
        for attempt in range(1, _NEARBY + 1):
            if _differing(_nudged(function, options, seed, attempt), None, options):
                return False
    except (BackwardError, CallError, OutputsChanged, CheckSkipped):
        return False
    return True


def _right_along_draws(function: VectorFunction, options: GradOptions, seed: int) -> bool:
    """Whether the formula is right along two random draws, or one of a large function."""
    if not function.outputs or not any(point.numel() for point in function.point):
        return False
    count = _BRIEF if is_cheap(function) else 1
    draws = [Draw.uneven(function, seed + at) for at in range(count)]
    try:
        return all(torch_gradcheck_passes(function, draw, options) for draw in draws)
    except (CallError, OutputsChanged, CheckSkipped):
        return False
    except Exception as error:  # whatever a backward raises, or torch for its own limits
        reraise_bug(error)
        return False


def _at_point(
    function: VectorFunction, options: GradOptions, seed: int, codes: FindingCodes
) -> CheckSkipped | None:
    """None if the formula is right, the skip if that stays undecided; a finding is raised.

    A mismatch is reported only if it shows a second time: in a small function with another step, in a
    larger function along another draw. One draw can miss an error in a few elements, and kinks that cancel
    can mislead it. So cheap functions get several draws, and after one wrong draw a function needs
    more right ones.
    """
    small = is_small(function)
    needed = 1 if small or not is_cheap(function) else _DRAWS
    reason: CheckSkipped | None = None
    earlier: list[Pair] = []
    right = 0
    for attempt in range(1 if small else _MOST_DRAWS):
        draw = None if small else Draw.of(function, seed + attempt)
        try:
            pairs = _differing(function, draw, options)
            if not pairs or _right_on_masks(function, draw, options, seed + attempt):
                right += 1
                if right >= (_MOST_DRAWS - 1 if earlier else needed):
                    return None
                continue
            earlier += _report(function, draw, pairs, earlier, options, seed, codes)
            reason = reason or not_smooth(function, pairs, options)
        except BackwardError:
            raise
        except CallError as error:
            return out_of_domain(error, options)
        except OutputsChanged:
            reason = reason or outputs_change(options)
    return None if right and not earlier else reason


def _differing(function: VectorFunction, draw: Draw | None, options: GradOptions) -> list[Pair]:
    """The comparisons of all outputs and inputs; empty if the formula is right."""
    trouble = ""
    try:
        if torch_gradcheck_passes(function, draw, options):
            return []
    except (CallError, OutputsChanged):
        raise
    except Exception as error:  # whatever a backward raises, or torch for its own limits
        reraise_bug(error)
        trouble = error_line(error)
    pairs = compare(function, draw, options)
    if any(pair.verdict != RIGHT for pair in pairs):
        return pairs
    if trouble:
        raise skip("checker-limit", f"torch.autograd.gradcheck cannot judge this: {trouble}")
    # gradcheck failed because of rounded steps, which the comparison allows for, or kinks.
    return []


def _right_on_masks(
    function: VectorFunction, draw: Draw | None, options: GradOptions, seed: int
) -> bool:
    """Whether the formula is right for grad_outputs of zeros and ones, and wrong only for others.

    torch's gradcheck sends only zeros and ones. A backward that is right for these and wrong for others
    is not linear in grad_output, which `backward.linear` reports. A mask and its complement cover all
    outputs. For a linear backward they are not used, because they would hide exchanged elements.
    """
    if draw is None or is_linear(function, draw):
        return False
    return all(not _differing(function, masked, options) for masked in draw.masks(seed))


def _nudged(
    function: VectorFunction, options: GradOptions, seed: int, attempt: int
) -> VectorFunction:
    """The function at a point some steps away, inside the range of each input's values."""
    generator = torch.Generator().manual_seed(seed + attempt)
    point = []
    for here in function.point:
        if here.numel() == 0:
            point.append(here)
            continue
        span = 0.01 * (float(here.abs().max()) or 1.0) / options.eps
        reach = int(max(1.0, min(4.0 * 8.0 ** (attempt - 1), span / 4)))
        steps = 4 * torch.randint(-reach, reach + 1, here.shape, generator=generator) + 2
        moved = here + options.eps * steps.to(here)
        low, high = here.min(), here.max()
        back = here - options.eps * steps.to(here)
        if low < high:
            moved = torch.where((moved < low) | (moved > high), back, moved)
            moved = torch.where((moved < low) | (moved > high), here, moved)
        point.append(moved)
    return function.moved(point)


def _report(
    function: VectorFunction,
    draw: Draw | None,
    pairs: list[Pair],
    earlier: list[Pair],
    options: GradOptions,
    seed: int,
    codes: FindingCodes,
) -> list[Pair]:
    """Raise the finding that the pairs prove; return the wrong pairs that a second draw must confirm.

    Args:
        earlier: the wrong pairs of an earlier draw.
    """
    narrow_ones = narrow_outputs(function, pairs, options, seed)
    wrong = [pair for pair in pairs if pair.verdict == WRONG and pair.target not in narrow_ones]
    if not wrong:
        for target, dtype in narrow_ones.items():
            raise narrow(function.outputs[target].name, dtype, options)
    if any(pair.confirmed is not None for pair in wrong):
        earlier = compare(function, None, replace(options, eps=3 * options.eps))
    for pair in wrong:
        for earlier_pair in earlier:
            if pair.same_place(earlier_pair) and earlier_pair.verdict == WRONG:
                if (
                    has_hidden_kink(function, pair.source, pair.target, options, seed)
                    or is_right_closer(function, pair, draw, options)
                    or is_right_between_jumps(function, pair, options)
                ):
                    continue
                coarse = narrow_gradient(function, pair, seed)
                if coarse is not None:
                    subject = codes.derivative.format(input=function.inputs[pair.source].name)
                    raise narrow(subject, coarse, options)
                raise mismatch(function, pairs, (pair, earlier_pair), codes, options, seed)
    return wrong
