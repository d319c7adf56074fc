"""`relations.window_reach`: a window is as long as its argument says, also for large numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch

from ...cases.argument_names import names_dims, names_seed
from ...cases.case import Case
from ...cases.documented_integers import integer_range
from ...cases.tensors import base_name, is_differentiable, is_plain
from ...core.watchdog import LimitExceeded, within_limits
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
from .compare import in_double_if_taken
from .entries.groups import DimGroup
from .entries.script import taking_lines
from .scripts import call_lines, position

_SMALL = (1, 2, 3, 4, 5, 7, 9)  # lengths to learn from
_FEWEST = 3  # of them, that the op takes; it takes two of the first three
_LARGE = (15, 16, 17, 21, 31, 32, 33, 63, 64)
_ENTRIES = 2 * _LARGE[-1] + 5  # of the sequence: windows around its middle are whole
_SHOWN = 64  # lengths up to it are tried if no docstring says how large they may be
_FADED = 1e-3  # of the largest influence: below it, it may only have become too small to be seen
_SECONDS = 2.0  # of the processor, for all calls
# All numbers of a sequence but one, and that one; the first pair finds out whether there are windows.
_PAIRS = ((0, 1), (1, 2), (1, 0))


class _Window(NamedTuple):
    """An argument that may be the length of a window, and a sequence.

    Args:
        length: the name of the argument.
        path, dim: of the tensor, and the dim along which the sequence runs.
        group: all dims of this size.
    """

    length: str
    path: str
    dim: int
    group: DimGroup


class _Reach(NamedTuple):
    """How many entries of a result, along the sequence, depend on one element.

    Args:
        size: how many.
        dim: of the result, along which the sequence runs.
        numbers: the one of all others, and the one that the element becomes.
        is_clear: whether the smallest influence is not much smaller than the largest one.
    """

    size: int
    dim: int
    numbers: tuple[float, float]
    is_clear: bool


class _Broken(NamedTuple):
    """A length for which an element has an influence on another number of results than expected.

    Args:
        window: the arguments.
        result: its name.
        small: a length for which it is right, and how many results depend on an element then.
        step: how many more do for each step of the length.
        length: the large one.
        reach: for it.
        expected: the number of results.
    """

    window: _Window
    result: str
    small: tuple[int, int]
    step: int
    length: int
    reach: _Reach
    expected: int


def check_window_reach(case: Case) -> None:
    """Count the results that depend on an element for small lengths of a window, then for large ones."""
    skip_if_incomparable(case)
    windows = [*_windows(case)]
    if not windows:
        reason = "no integer argument can be the length of a window"
        raise skip("nothing-to-check", reason, unjudged=False)
    reason = (
        "the number of results that depend on an element does not grow with an integer argument"
    )
    try:
        with within_limits(processor_seconds=_SECONDS):
            broken = answer_if_taken(case, lambda plain: _answer(plain, windows), reason)
    except LimitExceeded as error:
        reason = f"calls with other lengths take too long, or too much memory ({error})"
        raise skip("nothing-to-check", reason, unjudged=False) from error
    if broken is None:
        return
    window, length = broken.window, broken.length
    documented = integer_range(case.op, base_name(window.length))
    shown_on = case
    if documented is None or not documented.low <= length <= documented.high:
        beyond = case.beyond or f"{window.length} larger than in the sample"
        shown_on = replace(case, beyond=beyond)
    raise fail(
        "window-cut-off",
        f"{case.op.name}: with {window.length}={length}, an element of {window.path} has an influence on "
        f"{broken.reach.size} entries of {broken.result} instead of {broken.expected}. With "
        f"{window.length}={broken.small[0]} there are {broken.small[1]}, and each step of "
        f"{window.length} adds {broken.step}",
        repro=_script(case, broken),
        case=shown_on,
    )


def _windows(case: Case) -> Iterator[_Window]:
    """Each integer argument with each dim of each tensor, and the dims of other tensors of its size."""
    arguments = case.inputs()
    tensors = {name: tensor for name, tensor in arguments.tensors() if is_plain(tensor)}
    for length, value in plain_arguments(arguments):
        if type(value) is not int or value < 1 or names_dims(length) or names_seed(length):
            continue
        for path, tensor in tensors.items():
            if tensor.is_complex() or base_name(path) in case.op.mutated or not tensor.numel():
                continue
            for dim in reversed(range(tensor.dim())):
                size = tensor.shape[dim]
                beside = [
                    (name, other.dim() - 1 - other.shape[::-1].index(size))
                    for name, other in tensors.items()
                    if name != path and size in other.shape
                ]
                if size > 1:
                    yield _Window(length, path, dim, DimGroup(((path, dim), *beside), size, size))


def _answer(case: Case, windows: list[_Window]) -> tuple[bool, _Broken | None]:
    """Whether there is a window, and the first that is cut off."""
    calls = Caller(in_double_if_taken(case))
    is_tried = False
    for window in windows:
        if not _may_be_window(calls, window):
            continue
        learned: dict[int, dict[str, _Reach]] = {}
        for length in _SMALL:
            found = _reaches(calls, window, length)
            if found:
                learned[length] = found
            if len(learned) > 1 and not _rules(learned):
                break
        if len(learned) < _FEWEST:
            continue
        for result, (step, start) in _rules(learned).items():
            is_tried = True
            broken = _cut_off(calls, window, result, min(learned), step, start)
            if broken is not None:
                return True, broken
    return is_tried, None


def _may_be_window(calls: Caller, window: _Window) -> bool:
    """Whether an element has an influence on more results for another small length."""
    found = [_reaches(calls, window, length, _PAIRS[:1]) for length in _SMALL[:_FEWEST]]
    sizes = [{name: reach.size for name, reach in each.items()} for each in found if each]
    return len(sizes) > 1 and any(sizes[0][name] < sizes[-1].get(name, 0) for name in sizes[0])


def _rules(learned: dict[int, dict[str, _Reach]]) -> dict[str, tuple[int, int]]:
    """By result: how many more depend on an element for each step of the length, and how many for 0."""
    (first, before), (second, after), *_ = learned.items()
    rules = {}
    for name in before.keys() & after.keys():
        step, rest = divmod(after[name].size - before[name].size, second - first)
        start = before[name].size - step * first
        follows = all(
            name in found and found[name].size == step * length + start and found[name].is_clear
            for length, found in learned.items()
        )
        if step > 0 and not rest and follows:
            rules[name] = step, start
    return rules


def _cut_off(
    calls: Caller, window: _Window, result: str, small: int, step: int, start: int
) -> _Broken | None:
    """The first large length for which the rule breaks; `small` is one for which it holds."""
    documented = integer_range(calls.case.op, base_name(window.length))
    highest = _SHOWN if documented is None else documented.high
    for length in sorted({*_LARGE, min(highest, _LARGE[-1])}):
        reach = _reaches(calls, window, length).get(result) if length <= highest else None
        expected = step * length + start
        if reach is None or reach.size == expected or not reach.is_clear:
            continue
        return _Broken(window, result, (small, step * small + start), step, length, reach, expected)
    return None


def _reaches(
    calls: Caller, window: _Window, length: int, pairs: Sequence[tuple[float, float]] = _PAIRS
) -> dict[str, _Reach]:
    """By result: how much of it depends on one element; nothing if the op raises."""
    found: dict[str, _Reach] = {}
    for numbers in pairs:
        usual = _results(calls, window, length, numbers, False)
        changed = _results(calls, window, length, numbers, True) if usual else {}
        for name, before in usual.items():
            after, dim = changed.get(name), _dim_of_sequence(before, length)
            if after is None or after.shape != before.shape or dim is None:
                continue
            differs = (after != before) & ~(after.isnan() & before.isnan())
            size = len(set(differs.nonzero()[:, dim].tolist()))
            if name not in found or size > found[name].size:
                influence = (after - before).abs()[differs]
                is_clear = not size or bool(influence.min() >= _FADED * influence.max())
                is_whole = not is_differentiable(before.dtype)
                found[name] = _Reach(size, dim, numbers, is_clear or is_whole)
    return found


def _dim_of_sequence(result: torch.Tensor, length: int) -> int | None:
    """The only dim that is about as long as the sequence."""
    dims = [dim for dim, size in enumerate(result.shape) if abs(size - _ENTRIES) <= length]
    return dims[0] if len(dims) == 1 else None


def _results(
    calls: Caller, window: _Window, length: int, numbers: tuple[float, float], is_changed: bool
) -> dict[str, torch.Tensor]:
    """The results for a sequence of equal numbers, or with another one in the middle."""

    def drawn(path: str, tensor: torch.Tensor) -> torch.Tensor:
        if path != window.path:
            return tensor
        value = torch.full_like(tensor, numbers[0], memory_format=torch.contiguous_format)
        if is_changed:
            at = [0] * value.dim()
            at[window.dim] = _ENTRIES // 2
            value[tuple(at)] = numbers[1]
        return value

    index = torch.arange(_ENTRIES) % window.group.size
    arguments = window.group.taken(calls.case.inputs(), index).map_distinct(drawn)
    leaves = copied_results(calls(with_argument(arguments, window.length, length)))
    return {
        name: leaf
        for name, leaf in leaves or ()
        if isinstance(leaf, torch.Tensor) and not leaf.is_complex() and leaf.dtype != torch.bool
    }


def _script(case: Case, broken: _Broken) -> str:
    window, at = broken.window, [0] * dict(case.inputs().tensors())[broken.window.path].dim()
    at[window.dim] = _ENTRIES // 2
    sequence, (usual, other) = expression(case, window.path), broken.reach.numbers
    return (
        call_lines(broken.result)
        + f"index = torch.arange({_ENTRIES}) % {window.group.size}\n\n\n"
        + "def result(length, number):\n    args, kwargs = inputs()\n    args = list(args)\n"
        + taking_lines(case, window.group)
        + f"    {sequence} = torch.full_like({sequence}, {usual})\n"
        + f"    {sequence}{at} = number\n"
        + f"    {expression(case, window.length)} = length\n"
        + f"    return call(args, kwargs)[{position(case, broken.result)}]\n\n\n"
        + "def count(length):\n"
        + f"    differs = result(length, {other}) != result(length, {usual})\n"
        + f"    return len(differs.nonzero()[:, {broken.reach.dim}].unique())\n\n\n"
        + f"print(count({broken.small[0]}), 'for {broken.small[0]}')\n"
        + f"assert count({broken.length}) == {broken.expected}, count({broken.length})\n"
    )


FINDINGS = {
    "window-cut-off": Explanation(
        meaning=(
            "An element has an influence on as many results as windows contain it: on one more for each "
            "step of the length of a window. From some length on, it does not."
        ),
        why=(
            "The elements of a window are kept in a number of too few bits (1 << (2 * k) is an int in C++, "
            "and numpy shifts in the dtype of the array), or in a buffer of fixed size. What does not fit "
            "is forgotten."
        ),
        fix=(
            "Shift in 64 bits: (int64_t{1} << (2 * k)), array.astype(np.int64) << k. Or raise for lengths "
            "that the op cannot handle, and write the largest one in the docstring."
        ),
        before="""
codes = (codes << 2) | bases.numpy()          # uint8 or int32: the first bases are lost
""",
        after="""
codes = (codes << 2) | bases.numpy().astype(np.int64)
""",
        docs=(doc_links.CUSTOM_OP,),
        follows=("stale-result", "uninitialized-output", "outputs-not-repeatable"),
    ),
}

CHECK = Check(
    name="relations.window_reach",
    summary="a window is as long as an integer argument says, also if that is large",
    run=check_window_reach,
    gradients=False,
    variants=(),
    findings=FINDINGS,
    catches=(
        "Windows whose elements are shifted into an integer of too few bits, or kept in a buffer of fixed "
        "size. All elements of a sequence are made equal but one, and the results that change with that "
        "one are counted: for lengths up to 9 their number must grow by the same for each step, and then "
        "it must do so up to 64. A note if no docstring gives a range that includes the length."
    ),
    cannot_see=(
        "Windows in two dims, those that an argument gives a fixed number of elements in another way than "
        "by its value, and lengths above 64."
    ),
    cost="many calls",
)
