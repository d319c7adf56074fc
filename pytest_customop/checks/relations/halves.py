"""`relations.halves`: numbers in the middle of two steps are rounded as a docstring says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import torch

from ...cases.arguments import Arguments
from ...cases.case import Case
from ...cases.documented import sentences
from ...cases.tensors import base_name, is_plain
from ...core.wording import docstring_says
from ...declare.ops import Op
from ...findings import Explanation, doc_links, fail, skip
from ..check import Check
from ..values.memory.calls import (
    Caller,
    copied_results,
    expression,
    plain_arguments,
    skip_if_incomparable,
    with_argument,
)
from ..values.memory.limited_copy import answer_if_taken
from .scripts import call_lines, position

_EVEN = re.compile(
    r"\b(half|halves|halfway|ties?|midpoints?)\b[^.;]{0,40}\beven\b|\bbankers?\W|\bto the even one\b"
    r"|\bround(s|ed|ing)?[- ](half )?to[- ](nearest[- ])?even\b",
    re.I,
)
_AWAY = re.compile(
    r"\b(half|halves|halfway|ties?|midpoints?)\b[^.;]{0,40}\baway from (0|zero)\b", re.I
)
_NEVER = re.compile(
    r"\b(not|never|instead of|rather than|unlike)\b[^.;]{0,30}\b(even|away)\b", re.I
)
_QUOTED = re.compile(r"[\"'](\w+)[\"']")
_STEP = 0.5  # a power of two, so that multiples are exact
_LOWEST = (-3, 0)  # some ops have no codes below 0
_COUNT = 7  # steps, from the lowest on


class _Trial(NamedTuple):
    """Which numbers the op gets.

    Args:
        path: of the tensor that is rounded.
        scale: the argument that is made 0.5; empty if none is.
        step: of the numbers.
        lowest: the number of steps of the smallest.
    """

    path: str
    scale: str
    step: float
    lowest: int


class _Wrong(NamedTuple):
    """A number in the middle that is rounded to the other side.

    Args:
        trial: the numbers.
        result: its name.
        steps: of the number.
        got, expected: the results, less that for 0.
    """

    trial: _Trial
    result: str
    steps: float
    got: float
    expected: float


def check_halves(case: Case) -> None:
    """Call the op with whole steps, to learn that results count them, and with halves."""
    skip_if_incomparable(case)
    if _is_of_another_mode(case):
        reason = "the docstring says it of another mode than the case has"
        raise skip("nothing-to-check", reason, unjudged=False)
    wrong = answer_if_taken(case, _answer, "no result counts steps of 0.5, 1 or 2 of a tensor")
    if wrong is not None:
        trial = wrong.trial
        scale = f" and {trial.scale}={_STEP}" if trial.scale else ""
        raise fail(
            "halves-rounded-otherwise",
            f"{case.op.name}: with {trial.path} in steps of {trial.step:g}{scale}, {wrong.result} counts "
            f"the steps; for {wrong.steps:g} steps it is {wrong.got:g} and not {wrong.expected:g}",
            docstring_says(_sentence(case.op)),
            repro=_script(case, wrong),
        )


def _sentence(op: Op) -> str:
    """The sentence which says to which side halves are rounded; empty without one."""
    said = [text for text in sentences(op, of_op=True) if _EVEN.search(text) or _AWAY.search(text)]
    usable = len(said) == 1 and not _NEVER.search(said[0])
    return " ".join(said[0].split()) if usable else ""


def _is_of_another_mode(case: Case) -> bool:
    """Whether the string that is quoted before halves is none of the case's: `"nearest" (ties to even)`."""
    given = {argument.name: value for argument, value in case.op.bind(case.sample)}
    values = [given.get(each.name, each.default_value) for each in case.op.arguments]
    modes = [value for value in values if isinstance(value, str)]
    said = _sentence(case.op)
    halves = _EVEN.search(said) or _AWAY.search(said)
    quoted = _QUOTED.findall(said, 0, halves.start()) if halves else []
    return bool(modes and quoted) and quoted[-1] not in modes


def _says_so(op: Op) -> bool:
    return bool(_sentence(op))


def _answer(case: Case) -> tuple[bool, _Wrong | None]:
    calls = Caller(case)
    to_even = _EVEN.search(_sentence(case.op)) is not None
    is_learned = False
    for trial in _trials(case):
        whole, halves = (_results(calls, trial, more) for more in (0.0, 0.5))
        for name, value in whole.items():
            steps = _steps(value, trial, 0.0)
            unit = _unit(value, steps)
            if unit is None or name not in halves or halves[name].shape != value.shape:
                continue
            zero = float(value.flatten()[int((steps == 0).nonzero()[0])])
            got = (halves[name].flatten().double() - zero) / unit
            if not torch.equal(got, got.round()):
                continue  # its own steps are smaller
            is_learned = True
            wanted = _rounded(steps + 0.5, to_even)
            if to_even and bool(((halves[name].flatten().double() / unit) % 2 == 0).all()):
                continue  # rounded after a zero point was added
            at = (got != wanted).nonzero()
            if len(at):
                first = int(at[0])
                numbers = (float(steps[first]) + 0.5, float(got[first]), float(wanted[first]))
                return True, _Wrong(trial, name, *numbers)
    return is_learned, None


def _trials(case: Case) -> Iterator[_Trial]:
    """Steps of one tensor, as they are and with each other floating-point argument made 0.5."""
    tensors = [
        path
        for path, tensor in case.inputs().tensors()
        if is_plain(tensor)
        and tensor.is_floating_point()
        and base_name(path) not in case.op.mutated
    ]
    floats = [name for name, value in plain_arguments(case.inputs()) if isinstance(value, float)]
    for path in tensors:
        for lowest in _LOWEST:
            yield _Trial(path, "", 1.0, lowest)
            for scale in (*floats, *(other for other in tensors if other != path)):
                yield _Trial(path, scale, _STEP, lowest)
                yield _Trial(path, scale, 1 / _STEP, lowest)


def _results(calls: Caller, trial: _Trial, more: float) -> dict[str, torch.Tensor]:
    """The results for so many steps more, by name; those of another size than the tensor are left out."""
    given = dict(calls.case.inputs().tensors())[trial.path]
    leaves = copied_results(calls(_inputs(calls.case, trial, more))) or ()
    return {
        name: leaf
        for name, leaf in leaves
        if isinstance(leaf, torch.Tensor)
        if leaf.shape == given.shape and is_plain(leaf) and leaf.dtype != torch.bool
    }


def _inputs(case: Case, trial: _Trial, more: float) -> Arguments:
    arguments = case.inputs()
    tensors = dict(arguments.tensors())
    given = tensors[trial.path]
    numbers = (_steps(given, trial, more) * trial.step).reshape(given.shape).to(given.dtype)
    if trial.scale in tensors:
        arguments = with_argument(
            arguments, trial.scale, torch.full_like(tensors[trial.scale].detach(), _STEP)
        )
    elif trial.scale:
        arguments = with_argument(arguments, trial.scale, _STEP)
    return with_argument(arguments, trial.path, numbers)


def _steps(like: torch.Tensor, trial: _Trial, more: float) -> torch.Tensor:
    """The number of steps of each element, in the flattened tensor."""
    return (torch.arange(like.numel()) % _COUNT + trial.lowest + more).double()


def _unit(value: torch.Tensor, steps: torch.Tensor) -> float | None:
    """How much one step adds to a result, which may be rounded numbers; None if it counts no steps."""
    flat = value.flatten().double()
    zeros, ones = (flat[steps == number] for number in (0.0, 1.0))
    if not len(zeros) or not len(ones) or not bool(flat.isfinite().all()):
        return None
    unit = float(ones[0] - zeros[0])
    counts = unit > 0 and bool((flat == zeros[0] + unit * steps).all())
    return unit if counts else None


def _rounded(steps: torch.Tensor, to_even: bool) -> torch.Tensor:
    if to_even:
        return steps.round()
    return steps.sign() * (steps.abs() + 0.5).floor()


def _script(case: Case, wrong: _Wrong) -> str:
    trial = wrong.trial
    place, at = expression(case, trial.path), position(case, wrong.result)
    scale = ""
    if trial.scale:
        tensors = dict(case.inputs().tensors())
        other = expression(case, trial.scale)
        made = f"torch.full_like({other}.detach(), {_STEP})" if trial.scale in tensors else _STEP
        scale = f"    {other} = {made}\n"
    return (
        call_lines(wrong.result)
        + "\ndef result(steps):\n    args, kwargs = inputs()\n    args = list(args)\n"
        + scale
        + f"    {place} = torch.full_like({place}.detach(), steps * {trial.step!r})\n"
        + f"    return float(call(args, kwargs)[{at}].flatten()[0])\n\n\n"
        + "unit = result(1) - result(0)\n"
        + f"rounded = (result({wrong.steps!r}) - result(0)) / unit\n"
        + f"assert rounded == {wrong.expected!r}, rounded\n"
    )


FINDINGS = {
    "halves-rounded-otherwise": Explanation(
        meaning=(
            "A docstring says to which side numbers in the middle of two steps are rounded, to the even "
            "one or away from 0. The op rounds some of them to the other side."
        ),
        why=(
            "torch.round, numpy.round and std::nearbyint round to the even one; std::round, "
            "std::lround and floor(x + 0.5) do not. Codes differ by one from those of other runtimes, and "
            "only for numbers that random examples do not have."
        ),
        fix=(
            "Use std::nearbyint or std::rint (with the default rounding mode), at::round or torch.round "
            "for the even one; std::round rounds away from 0."
        ),
        before="""
codes = torch.floor(x / scale + 0.5)
""",
        after="""
codes = torch.round(x / scale)
""",
        docs=(doc_links.CUSTOM_OP,),
        follows=("stale-result", "uninitialized-output", "outputs-not-repeatable"),
    ),
}

CHECK = Check(
    name="relations.halves",
    summary="numbers in the middle of two steps are rounded as a docstring says",
    run=check_halves,
    gradients=False,
    needs=_says_so,
    variants=(),
    findings=FINDINGS,
    catches=(
        "Quantization that rounds halves away from 0, or up, where a docstring says that they go to the "
        "even number; and the other way. A tensor gets multiples of 1, or of 0.5 and 2 with another "
        "floating-point argument made 0.5. If a result counts these steps, halves of a step must be "
        "rounded as the docstring says."
    ),
    cannot_see=(
        "Ops whose results count no steps: those of fewer than seven codes, or whose scale is computed "
        "from the numbers."
    ),
    cost="many calls",
)
