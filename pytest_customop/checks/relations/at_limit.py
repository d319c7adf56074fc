"""`relations.at_limit`: numbers that equal a limit are on the side that a docstring names."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from ...cases.case import Case
from ...cases.documented_limits import side_of_limit
from ...cases.tensors import base_name, is_plain
from ...core.wording import docstring_says
from ...declare.ops import Op
from ...findings import Explanation, doc_links, fail, skip
from ..check import Check
from ..values.memory.calls import (
    Caller,
    Leaves,
    copied_results,
    expression,
    skip_if_incomparable,
    with_argument,
)
from ..values.memory.limited_copy import answer_if_taken
from .compare import in_double_if_taken
from .scripts import call_lines, position

_NUMBERS = ("int", "float", "number", "Scalar", "SymInt", "Optional[int]", "Optional[float]")
_TENSORS = ("Tensor", "Optional[Tensor]")
_TRIED = 4  # elements of a tensor, and limits in another one
_EDGES = re.compile(r"(^|_)(edges?|bounds?|boundaries|breaks?|bins?|cuts?|knots?)($|_)")
_PARTS = 64  # of a floating-point limit: how near the numbers beside it are
_FAR = 8  # times the limit: what is apart from everything
_JUMP = 8.0  # times the change over the next step, which is as long
_LEAST = 0.02  # of a result, for a jump
_MOST = 2**20  # of a whole limit

# Changes a tensor for a distance; and what a message calls it.
_Change = Callable[[Tensor, float, float], Tensor]


class _Trial(NamedTuple):
    """A quantity that is compared with a limit.

    Args:
        limit: the argument.
        value: its value; 0 for a tensor, whose element is changed instead of the quantity.
        step: to the numbers beside it.
        paths: of the tensors that are changed.
        what: is the quantity, for a message.
        code: of each changed tensor, with the names `x`, `n` (the quantity) and `far`.
        element: of a tensor that is the limit, for a message.
    """

    limit: str
    value: float
    step: float
    paths: tuple[str, ...]
    what: str
    code: tuple[str, ...]
    element: str = ""

    def changed(self, path: str, tensor: Tensor, number: float) -> Tensor:
        """A tensor of the arguments, for another value of the quantity."""
        if path not in self.paths:
            return tensor
        code = self.code[self.paths.index(path)]
        x = tensor.detach().clone(memory_format=torch.contiguous_format)
        kind = float if x.dtype.is_floating_point else int
        names = {"torch": torch, "x": x, "n": kind(number), "far": kind(_FAR * self.value)}
        new: Tensor = eval(code, names)
        return new.to(tensor.dtype)


class _Broken(NamedTuple):
    """A trial, and the side on which a number that equals the limit is."""

    trial: _Trial
    side: str
    result: str


# One element, of all others none near the limit.
_ELEMENT = "x.flatten().index_fill(0, torch.tensor([x.numel() // 2]), n).reshape(x.shape)"
# Two numbers, or two points, so far apart; all others far away.
_GAP = "(torch.arange(len(x)) * far).index_fill(0, torch.tensor([1]), n)"
_POINT = "torch.nn.functional.pad({}.double()[:, None], (0, x.shape[1] - 1))"
_POINTS = _POINT.format(_GAP)
_OTHERS = _POINT.format("(torch.arange(len(x)) * far).index_fill(0, torch.tensor([0]), n)")
_QUERIES = _POINT.format("(torch.arange(len(x)) * -far)")


def check_at_limit(case: Case) -> None:
    """Make something equal to a limit, a little smaller, and a little larger."""
    skip_if_incomparable(case)
    if not any(_trials(case)):
        reason = "no docstring says on which side of a number of the sample its equals are"
        raise skip("nothing-to-check", reason, unjudged=False)
    reason = "no result jumps where a tensor's numbers, or their distances, pass the limit"
    broken = answer_if_taken(case, _answer, reason)
    if broken is not None:
        trial, side, name = broken
        _, said = side_of_limit(case.op, trial.limit) or ("", "")
        larger = "larger" if side == "+" else "smaller"
        raise fail(
            "wrong-side-of-limit",
            f"{case.op.name}: with {trial.what} equal to "
            f"{trial.element or f'{trial.limit}={_plain(trial.value)}'}, {name} is as with a {larger} one",
            docstring_says(said),
            repro=_script(case, broken),
        )


def _plain(number: float) -> str:
    return str(number) if isinstance(number, int) else f"{number:g}"


def _limits(op: Op) -> list[str]:
    kinds = (*_NUMBERS, *_TENSORS)
    names = [argument.name for argument in op.arguments if str(argument.type) in kinds]
    return [name for name in names if side_of_limit(op, name)]


def _trials(case: Case) -> Iterator[_Trial]:
    values = {argument.name: value for argument, value in case.op.bind(case.sample)}
    for name in _limits(case.op):
        argument = next(each for each in case.op.arguments if each.name == name)
        value = values.get(name, argument.default_value)
        if str(argument.type) in _TENSORS:
            yield from _of_limits(case, name)
        elif type(value) in (int, float) and 0 < value < _MOST:
            yield from _of_limit(case, name, value)


def _of_limits(case: Case, limits: str) -> Iterator[_Trial]:
    """The first elements of another tensor, and an element of the limits that becomes equal to each."""
    tensors = dict(case.inputs().tensors())
    if limits not in tensors or limits in case.op.mutated or not is_plain(tensors[limits]):
        return
    dtype, count = tensors[limits].dtype, tensors[limits].numel()
    # The last bin of a histogram often has its right edge.
    places = range(1, count - 1) if _EDGES.search(limits) else range(count)
    if not (dtype.is_floating_point or dtype in (torch.int32, torch.int64)):
        return
    for path, tensor in tensors.items():
        if path in _limits(case.op) or tensor.dtype != dtype or not is_plain(tensor):
            continue  # of two limits, one may have to be above the other
        numbers = tensor.detach().flatten()
        for at, to in itertools.product(range(min(len(numbers), _TRIED)), places[:_TRIED]):
            apart = (numbers - numbers[at]).abs().double()
            apart = apart[apart > 0]
            step = float(apart.min()) / _PARTS if dtype.is_floating_point and len(apart) else 1
            if not math.isfinite(numbers[at]) or bool((apart <= 2 * step).any()):
                continue
            new = f"{numbers[at].item()!r} - n"
            code = f"x.flatten().index_fill(0, torch.tensor([{to}]), {new}).view(x.shape)"
            what, element = f"element {at} of {path}", f"element {to} of {limits}"
            yield _Trial(limits, 0, step, (limits,), what, (code,), element)


def _of_limit(case: Case, limit: str, value: float) -> Iterator[_Trial]:
    points = []
    for path, tensor in case.inputs().tensors():
        if not is_plain(tensor) or not tensor.numel() or base_name(path) in case.op.mutated:
            continue
        floating = tensor.dtype.is_floating_point
        if not floating and (tensor.dtype not in (torch.int32, torch.int64) or value != int(value)):
            continue
        near = value if isinstance(value, int) else _short(value)
        step = near / _PARTS if floating else 1
        wide = tensor.detach().double()
        if not bool(((wide - near).abs() <= 2 * step).any()):
            yield _Trial(limit, near, step, (path,), f"an element of {path}", (_ELEMENT,))
        if tensor.dim() == 1 and len(tensor) > 1 and bool((tensor.diff() >= 0).all()) and near > 1:
            what = f"the difference of two elements of {path}"
            yield _Trial(limit, near, step, (path,), what, (_GAP,))
        if floating and tensor.dim() == 2 and tensor.shape[1]:
            points.append((path, tensor, near, step))
    for path, tensor, near, step in points:
        if len(tensor) > 1:
            yield _Trial(limit, near, step, (path,), f"the distance of two of {path}", (_POINTS,))
        for other, second, *_ in points:
            if other != path and second.shape[1] == tensor.shape[1]:
                what = f"the distance of one of {path} and one of {other}"
                yield _Trial(limit, near, step, (path, other), what, (_QUERIES, _OTHERS))


def _short(value: float) -> float:
    """A number near another, of three binary digits: its squares and sums are exact."""
    fraction, exponent = math.frexp(value)
    return math.ldexp(round(fraction * 8) / 8, exponent)


def _answer(case: Case) -> tuple[bool, _Broken | None]:
    """Whether a result jumps at a limit, and one that equals the limit on the wrong side."""
    calls = Caller(in_double_if_taken(case))
    is_learned = False
    for trial in _trials(calls.case):
        found = _side(calls, trial)
        if found is None:
            continue
        is_learned = True
        side, name = found
        documented = side_of_limit(case.op, trial.limit)
        if documented is not None and side != documented[0]:
            return True, _Broken(trial, side, name)
    return is_learned, None


def _side(calls: Caller, trial: _Trial) -> tuple[str, str] | None:
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


def _results(calls: Caller, trial: _Trial, number: float) -> Leaves | None:
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
        changes += f"    x, far = {place}.detach(), {kind(_FAR * trial.value)!r}\n"
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
    return bool(_limits(op))


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
