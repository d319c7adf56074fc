"""The whole procedure: torch's gradcheck, what a mismatch proves, redraws and findings."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from ....core.tables import aligned
from ....core.tracebacks import error_line, reraise_bug
from ....declare.inputs import GradOptions
from ....findings import CheckFailed, CheckSkipped, fail, skip
from .jacobian import RIGHT, WRONG, Pair, compare
from .projection import Draw, is_cheap, is_linear, is_small, torch_agrees
from .skips import (
    narrow,
    narrow_gradient,
    narrow_outputs,
    not_smooth,
    out_of_domain,
    outputs_change,
    skip_if_unfit,
)
from .vectors import BackwardError, CallError, OutputsChanged, VectorFunction

# Looks along draws that a cheap function gets, that a function gets at most, and from points nearby.
_DRAWS, _MOST_DRAWS, _NEARBY = 3, 5, 3


@dataclass(frozen=True)
class FindingCodes:
    """How findings of one order are named.

    Args:
        mismatch, missing, step: the codes.
        derivative: what is compared, with `{input}` for the name of an input.
    """

    mismatch: str
    missing: str
    step: str
    derivative: str


def judge(function: VectorFunction, options: GradOptions, seed: int, words: FindingCodes) -> None:
    """Return if the formula agrees with finite differences; raise a finding or a skip if not.

    Where kinks leave it open, three more looks are taken from points nearby: there the formula can
    be found right, and is never found wrong.

    Raises:
        BackwardError: the backward raises.
    """
    skip_if_unfit(function, options, seed)
    reason = _at_point(function, options, seed, words)
    if reason is None:
        return
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


def _at_point(
    function: VectorFunction, options: GradOptions, seed: int, words: FindingCodes
) -> CheckSkipped | None:
    """None if the formula is right, the skip if that stays open; a finding is raised.

    A mismatch is reported once it is seen a second time: in a small function with another step, in
    a larger one along another draw. One draw can miss an error in a few elements, and be misled by
    kinks that happen to cancel; so cheap functions are drawn for several times, and a function that
    looked wrong once has to look right more often than that.
    """
    small = is_small(function)
    wanted = 1 if small or not is_cheap(function) else _DRAWS
    reason: CheckSkipped | None = None
    earlier: list[Pair] = []
    right = 0
    for attempt in range(1 if small else _MOST_DRAWS):
        draw = None if small else Draw.of(function, seed + attempt)
        try:
            pairs = _differing(function, draw, options)
            if not pairs or _right_on_masks(function, draw, options, seed + attempt):
                right += 1
                if right >= (_MOST_DRAWS - 1 if earlier else wanted):
                    return None
                continue
            earlier += _report(function, pairs, earlier, options, seed, words)
            reason = reason or not_smooth(function, pairs, options)
        except BackwardError:
            raise
        except CallError as error:
            return out_of_domain(error, options)
        except OutputsChanged:
            reason = reason or outputs_change(options)
    return None if right and not earlier else reason


def _differing(function: VectorFunction, draw: Draw | None, options: GradOptions) -> list[Pair]:
    """Every pair of output and input, or nothing where the formula is right."""
    trouble = ""
    try:
        if torch_agrees(function, draw, options):
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
    # torch's verdict was rounding of the steps, which is left out of the comparison, or kinks.
    return []


def _right_on_masks(
    function: VectorFunction, draw: Draw | None, options: GradOptions, seed: int
) -> bool:
    """Whether the formula is right for zeros and ones, and goes wrong only for other grad_outputs.

    torch's gradcheck sends nothing but zeros and ones. A backward that is right for these and not
    for others is not linear in grad_output, which is for `backward.linear` to say. A mask and its
    complement leave no output out; but for a linear backward they would hide exchanged elements.
    """
    if draw is None or is_linear(function, draw):
        return False
    return all(not _differing(function, masked, options) for masked in draw.masks(seed))


def _nudged(
    function: VectorFunction, options: GradOptions, seed: int, attempt: int
) -> VectorFunction:
    """The function some steps away, inside the range of each input's values."""
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


# ------------------------------------------------------------------------------------ findings


def _report(
    function: VectorFunction,
    pairs: list[Pair],
    earlier: list[Pair],
    options: GradOptions,
    seed: int,
    words: FindingCodes,
) -> list[Pair]:
    """Raise what the pairs prove; return those that a second look has to confirm.

    Args:
        earlier: the wrong pairs of an earlier look along another draw.
    """
    narrow_ones = narrow_outputs(function, pairs, options, seed)
    wrong = [pair for pair in pairs if pair.verdict == WRONG and pair.target not in narrow_ones]
    if not wrong:
        for target, dtype in narrow_ones.items():
            raise narrow(function.outputs[target].name, dtype, options)
    if any(pair.sure is not None for pair in wrong):
        earlier = compare(function, None, replace(options, eps=3 * options.eps))
    for pair in wrong:
        for other in earlier:
            if pair.same_place(other) and other.verdict == WRONG:
                coarse = narrow_gradient(function, pair, seed)
                if coarse is not None:
                    subject = words.derivative.format(input=function.inputs[pair.source].name)
                    raise narrow(subject, coarse, options)
                raise _finding(function, pairs, (pair, other), words, options)
    return wrong


def _finding(
    function: VectorFunction,
    pairs: list[Pair],
    twice: tuple[Pair, Pair],
    words: FindingCodes,
    options: GradOptions,
) -> CheckFailed:
    pair = twice[0]
    source, target = function.inputs[pair.source].name, function.outputs[pair.target].name
    subject = words.derivative.format(input=source)
    evidence = "\n".join([*_table(function, pairs, pair, options), *_hints(pairs, twice)])
    if pair.zero:
        return fail(
            words.missing,
            f"{subject} is missing: the formula gives none for {target}, where {_place(pair)} is "
            f"{pair.numeric:.6g} by finite differences",
            evidence,
        )
    if pair.still and _moves(function, pair, options):
        return fail(
            words.step,
            f"{target} does not change at all with steps of {options.eps:g} in `{source}`, and "
            f"{subject} says that {_place(pair)} is {pair.formula:.6g}",
            evidence,
        )
    return fail(
        words.mismatch,
        f"{subject} is wrong: {_place(pair)} is {pair.formula:.6g} by the formula and "
        f"{pair.numeric:.6g} by finite differences",
        evidence,
    )


def _place(pair: Pair) -> str:
    if pair.element:
        return f"the derivative of {pair.element}"
    return "the derivative of the weighted output along a random direction"


def _moves(function: VectorFunction, pair: Pair, options: GradOptions) -> bool:
    """Whether some larger step of the input changes the output at all."""
    point = function.point[pair.source]
    size = float(point.abs().max()) or 1.0
    for reach in (1e-3, 1e-2, 1e-1, 1.0):
        for sign in (1, -1):
            try:
                there = function.at(pair.source, point + sign * max(reach * size, options.eps))
            except CallError:
                continue
            except OutputsChanged:
                return True
            if not torch.equal(there[pair.target], function.outputs[pair.target].values):
                return True
    return False


def _table(
    function: VectorFunction, pairs: list[Pair], pair: Pair, options: GradOptions
) -> list[str]:
    rows = [("input", "output", "finite differences", "formula", "")]
    for one in pairs:
        source, target = function.inputs[one.source].name, function.outputs[one.target].name
        rows.append((source, target, f"{one.numeric:.9g}", f"{one.formula:.9g}", one.verdict))
    how = (
        "the first element that differs of each, or the first of all"
        if pair.element
        else "derivatives of the outputs, weighted at random, along random directions of +1 and -1"
    )
    return [*aligned(rows), f"({how}; central differences in float64, eps={options.eps:g})"]


def _hints(pairs: list[Pair], twice: tuple[Pair, Pair]) -> list[str]:
    pair, other = twice
    if pair.zero:
        return ["where none is due: describe the argument with tensor(..., requires_grad=False)"]
    if pair.factor and other.factor and abs(pair.factor / other.factor - 1) < 1e-3:
        return [f"everywhere the formula is {pair.factor:.6g} times the finite difference"]
    for one in pairs:
        if one.source != pair.source and one.target == pair.target and _swapped(pair, one):
            return ["the gradients of the two inputs look swapped"]
    return []


def _swapped(pair: Pair, other: Pair) -> bool:
    if pair.jacobians is None or other.jacobians is None:
        return False
    (numeric, formula), (numeric2, formula2) = pair.jacobians, other.jacobians
    return (
        numeric.shape == numeric2.shape
        and torch.allclose(numeric, formula2, rtol=1e-4, atol=1e-5)
        and torch.allclose(numeric2, formula, rtol=1e-4, atol=1e-5)
    )
