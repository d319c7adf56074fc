"""`relations.at_limit`: numbers that equal a limit are on the side that a docstring names."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ....cases.case import Case
from ....cases.documented_limits import side_of_limit
from ....core.wording import docstring_says, plain_number
from ....declare.ops import Op
from ....findings import Explanation, doc_links, fail, skip
from ...check import Check
from ...values.memory.calls import (
    Caller,
    Leaves,
    copied_results,
    expression,
    skip_if_incomparable,
    with_argument,
)
from ...values.memory.limited_copy import answer_if_taken
from ..compare import in_double_if_taken
from ..scripts import call_lines, position
from .trials import Trial, limits_of, trials

_JUMP = 8.0  # times the change over the next step, which is as long
_LEAST = 0.02  # of a result, for a jump
_NEARER = 1024  # times: a jump there is at the limit, and not by chance beside it


class _Broken(NamedTuple):
    """A trial, and the side on which a number that equals the limit is."""

    trial: Trial
    side: str
    result: str


def check_at_limit(case: Case) -> None:
    """Make something equal to a limit, a little smaller, and a little larger."""
    skip_if_incomparable(case)
    if not any(trials(case)):
        reason = "no docstring says on which side of a number of the sample its equals are"
        raise skip("nothing-to-check", reason, unjudged=False)
    reason = "no result jumps where a tensor's numbers, or their distances, pass the limit"
    broken = answer_if_taken(case, _answer, reason)
    if broken is not None:
        trial, side, name = broken
        _, said = side_of_limit(case.op, trial.limit) or ("", "")
        side_of, other = ("above", "below") if side == "+" else ("below", "above")
        raise fail(
            "wrong-side-of-limit",
            f"{case.op.name}: with {trial.what} equal to "
            f"{trial.element or f'{trial.limit}={plain_number(trial.value)}'}, {name} is as just {side_of} "
            f"it; by the docstring it must be as just {other} it",
            docstring_says(said),
            repro=_script(case, broken),
        )


def _answer(case: Case) -> tuple[bool, _Broken | None]:
    """Whether a result jumps at a limit, and one that equals the limit on the wrong side."""
    calls = Caller(in_double_if_taken(case))
    is_learned = False
    for trial in trials(calls.case):
        found = _side(calls, trial)
        if found is None:
            continue
        is_learned = True
        side, name = found
        documented = side_of_limit(case.op, trial.limit)
        if documented is None or side == documented[0]:
            continue
        nearer = trial if trial.is_whole else trial._replace(step=trial.step / _NEARER)
        if nearer is trial or _side(calls, nearer) == found:
            return True, _Broken(nearer, side, name)
    return is_learned, None


def _side(calls: Caller, trial: Trial) -> tuple[str, str] | None:
    """The side of a number that equals the limit, and a result that shows it; None if none does."""
    found = []
    for steps in (-2, -1, 0, 1, 2):
        leaves = _results(calls, trial, trial.value + steps * trial.step)
        if leaves is None:
            return None
        found.append(leaves)
    sides = set()
    shown = ""
    for name, _ in found[2]:
        values = [dict(leaves).get(name) for leaves in found]
        tensors = [value.detach() for value in values if isinstance(value, Tensor)]
        side = _side_of(tensors) if len(tensors) == len(values) else None
        if side is not None:
            sides.add(side)
            shown = shown or name
    return (sides.pop(), shown) if len(sides) == 1 else None


def _results(calls: Caller, trial: Trial, number: float) -> Leaves | None:
    arguments = calls.case.inputs()
    if not trial.element:
        arguments = with_argument(arguments, trial.limit, trial.value)
    changed = arguments.map_distinct(lambda path, tensor: trial.changed(path, tensor, number))
    return copied_results(calls(changed))


def _side_of(values: list[Tensor]) -> str | None:
    """`-` if the third of five results is as the second, `+` if it is as the fourth; None if unclear."""
    shapes = [value.shape for value in values]
    if shapes[1] != shapes[3]:
        if shapes[0] != shapes[1] or shapes[3] != shapes[4] or shapes[2] not in shapes:
            return None
        return "-" if shapes[2] == shapes[1] else "+"
    if len(set(shapes)) > 1 or values[0].is_complex():
        return None
    before, below, at, above, after = (value.double().nan_to_num(nan=-1e30) for value in values)
    jump = (above - below).abs()
    usual = torch.maximum((below - before).abs(), (after - above).abs())
    jumps = (jump > _JUMP * usual) & (jump > _LEAST * torch.maximum(below.abs(), above.abs()))
    if not bool(jumps.any()):
        return None
    as_below = ((at - below).abs() * _JUMP < jump)[jumps]
    as_above = ((at - above).abs() * _JUMP < jump)[jumps]
    return "-" if bool(as_below.all()) else "+" if bool(as_above.all()) else None


def _script(case: Case, broken: _Broken) -> str:
    trial = broken.trial
    tensors, changes = dict(case.inputs().tensors()), ""
    for path, code in zip(trial.paths, trial.code, strict=True):
        place = expression(case, path)
        kind = float if tensors[path].dtype.is_floating_point else int
        changes += f"    x, far = {place}.detach(), {kind(trial.far)!r}\n"
        changes += f"    {place} = ({code}).to(x.dtype)\n"
    set_limit = "" if trial.element else f"    {expression(case, trial.limit)} = {trial.value!r}\n"
    at, step = position(case, broken.result), trial.step if broken.side == "-" else -trial.step
    return (
        call_lines(broken.result)
        + "\ndef result(n):\n    args, kwargs = inputs()\n    args = list(args)\n"
        + f"{set_limit}{changes}"
        + f"    return call(args, kwargs)[{at}].double()\n\n\n"
        + f"got, right = result({trial.value!r}), result({trial.value + step!r})\n"
        + f"wrong = result({trial.value - step!r})\n"
        + "assert got.shape == right.shape\n"
        + "assert (got - right).abs().sum() < (got - wrong).abs().sum()\n"
    )


def _names_a_side(op: Op) -> bool:
    return bool(limits_of(op))


FINDINGS = {
    "wrong-side-of-limit": Explanation(
        meaning=(
            "A docstring says on which side of a limit a number is that equals it: `<` or `<=`, `(` or "
            "`[`, at least or more than. The op puts it on the other side."
        ),
        why=(
            "Whole numbers, such as times and counts, equal limits often: an event is in two windows, or a "
            "neighbour is lost."
        ),
        fix=(
            "Compare with `<` where the docstring says so, and with `<=` where it says that; for "
            "torch.searchsorted choose `right=`. Or correct the docstring."
        ),
        before="""
first = torch.searchsorted(times, times - window)                  # of [t - window, t]
""",
        after="""
first = torch.searchsorted(times, times - window, right=True)      # of (t - window, t]
""",
        docs=(doc_links.CUSTOM_OP,),
        follows=("stale-result", "uninitialized-output", "outputs-not-repeatable"),
    ),
}

CHECK = Check(
    name="relations.at_limit",
    summary="numbers that equal a limit are on the side that a docstring names",
    run=check_at_limit,
    gradients=False,
    needs=_names_a_side,
    variants=(),
    findings=FINDINGS,
    catches=(
        "`<` instead of `<=`, and intervals that are open at the wrong end. A docstring compares something "
        "with a number among the arguments, as in `distance <= radius`, (t - window, t] or at least "
        "`threshold`. An element of a tensor, the difference of two numbers, or the distance of two "
        "points, becomes equal to it, a little smaller and a little larger. Limits may also be the "
        "elements of a tensor, as in `starts[w] <= t < ends[w]`. If a result jumps there, it "
        "must jump on the documented side."
    ),
    cannot_see=(
        "Limits of anything else, such as overlaps, counts and sums, limits that a docstring names in "
        "other words, such as within or above, and those that two sentences contradict."
    ),
    cost="calls",
)
