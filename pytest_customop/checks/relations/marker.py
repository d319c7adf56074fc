"""`relations.marker`: the number that marks missing or ignored elements may be any number."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import NamedTuple

import torch

from ...cases.case import Case
from ...cases.documented import lines_about, sentences
from ...cases.documented_numbers import numbers_with_meaning
from ...cases.tensors import base_name, is_differentiable, is_plain
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
from .compare import Disagreement, disagreement
from .scripts import call_lines, position

_MARKER = re.compile(
    r"(^|_)(ignored?|no_?data|missing|sentinel|invalid|mask(ed)?|pad(ding)?)_?"
    r"(index|idx|label|class|value|val|code|id|token|number)?$|^fill_?missing$"
)
_KINDS = re.compile(r"^(Optional\[)?(int|float|number|Scalar|SymInt)\]?$")
# A class that has a meaning of its own, whatever is ignored.
_BACKGROUND = re.compile(r"\bback-?ground\b|\b(class|label|category|code|id) (0|zero)\b", re.I)
_UNUSUAL = {"nan": math.nan, "inf": math.inf}
_EVERY = 3  # each third element is marked if the sample marks none
_FLOATS = (-77.0, 83.0)  # that each dtype holds exactly
_SPARE = 2  # numbers that are left if two are taken for markers


class _Marked(NamedTuple):
    """A tensor, or all tensors of a list, some of whose elements are marked.

    Args:
        name: of the marker.
        argument: the tensor's name, or the list's.
        tensors: by path, the values, none of which is one of the numbers tried, and the marked places.
        ordinary: two numbers that are tried first.
        special: those that must give the same.
    """

    name: str
    argument: str
    tensors: dict[str, tuple[torch.Tensor, torch.Tensor]]
    ordinary: tuple[float, float]
    special: tuple[float, ...]


class _Broken(NamedTuple):
    """A marker that does not do what another one does.

    Args:
        marked: the tensor.
        number: the marker.
        wrong: the difference.
    """

    marked: _Marked
    number: float
    wrong: Disagreement


def check_marker(case: Case) -> None:
    """Give the marker, and the elements that equal it, other values.

    If two ordinary numbers give the same, and elements that equal no marker something else, then 0 must
    give the same too, and so must NaN and infinity if a docstring speaks of them.
    """
    skip_if_incomparable(case)
    if not any(_marked(case)):
        reason = "no argument is a number that marks elements of a tensor"
        raise skip("nothing-to-check", reason, unjudged=False)
    reason = "other numbers in place of the marker do not give the same"
    broken = answer_if_taken(case, _answer, reason)
    if broken is not None:
        marked, number, wrong = broken
        raise fail(
            "marker-not-honoured",
            f"{case.op.name}: with {marked.name}={number} and the marked elements of {marked.argument} "
            f"{number} it does not give the same as with {marked.ordinary[0]} for both: {wrong}",
            repro=_script(case, broken),
            picture=wrong.picture,
        )


def _names(op: Op) -> list[str]:
    return [
        argument.name
        for argument in op.arguments
        if _MARKER.search(argument.name) and _KINDS.match(str(argument.type))
    ]


def _marked(case: Case) -> Iterator[_Marked]:
    """The tensors that a marker may be about, with elements marked."""
    values = {argument.name: value for argument, value in case.op.bind(case.sample)}
    arguments: dict[str, dict[str, torch.Tensor]] = {}
    for path, tensor in case.inputs().tensors():
        name = base_name(path)
        if is_plain(tensor) and name not in case.op.mutated and tensor.numel() > 1:
            arguments.setdefault(name, {})[path] = tensor.detach()
    for argument in case.op.arguments:
        name = argument.name
        if name not in _names(case.op):
            continue
        marker = values.get(name, argument.default_value)
        if isinstance(marker, bool) or not isinstance(marker, (int, float, type(None))):
            continue
        shown = [
            each
            for each, tensors in arguments.items()
            if marker is not None and any(bool((t == marker).any()) for t in tensors.values())
        ]
        for each, tensors in arguments.items():
            if each in shown or not shown:
                found = _of_tensors(case.op, name, marker, each, tensors)
                if found is not None:
                    yield found


def _of_tensors(
    op: Op, name: str, marker: float | None, argument: str, tensors: dict[str, torch.Tensor]
) -> _Marked | None:
    """The tensors with elements marked; None if they have too few numbers, or are of another kind."""
    dtypes = {tensor.dtype for tensor in tensors.values()}
    if len(dtypes) > 1 or dtypes & {torch.bool, torch.complex64, torch.complex128}:
        return None
    places = {
        path: tensor == marker if marker is not None else torch.zeros_like(tensor, dtype=torch.bool)
        for path, tensor in tensors.items()
    }
    if not any(bool(marked.any()) for marked in places.values()):
        places = {
            path: (torch.arange(tensor.numel()) % _EVERY == 1).reshape(tensor.shape)
            for path, tensor in tensors.items()
        }
    others = torch.cat([tensor[~places[path]] for path, tensor in tensors.items()])
    zero = _zero(op, name)
    if is_differentiable(others.dtype):
        text = lines_about(op, name)
        unusual = [
            number
            for word, number in _UNUSUAL.items()
            if re.search(rf"\b{word}\w*\b", text, re.I)
            and not (marker is not None and math.isnan(marker))
        ]
        if not others.numel() or not bool(others.isfinite().all()):
            return None
        found = {
            path: (torch.where(tensor == 0, others.abs().max(), tensor), places[path])
            for path, tensor in tensors.items()
        }
        return _Marked(name, argument, found, _FLOATS, (*zero, *unusual))
    if marker is not None and not float(marker).is_integer():
        return None
    numbers = [*dict.fromkeys(others.tolist())]
    ordinary = sorted(number for number in numbers if number > 0)[:2]
    kept = [number for number in numbers if number not in (0, *ordinary)]
    if len(ordinary) < 2 or not kept or not zero:
        return None
    found = {path: (tensor.clone(), places[path]) for path, tensor in tensors.items()}
    for at, number in enumerate((0, *ordinary)):
        for values, _ in found.values():
            values[values == number] = kept[at % len(kept)]
    return _Marked(name, argument, found, (ordinary[0], ordinary[1]), zero)


def _zero(op: Op, name: str) -> tuple[float, ...]:
    """0, unless a docstring gives it a meaning."""
    background = any(map(_BACKGROUND.search, sentences(op, of_op=True)))
    return () if background or 0 in numbers_with_meaning(op, name) else (0,)


def _answer(case: Case) -> tuple[bool, _Broken | None]:
    """Whether other numbers in place of some marker give the same, and a number that does not."""
    calls = Caller(case)
    is_learned = False
    for marked in _marked(case):
        one, other = marked.ordinary
        by_one, by_other = (_results(calls, marked, number, number) for number in (one, other))
        unmarked = _results(calls, marked, one, other)
        if by_one is None or by_other is None or unmarked is None:
            continue
        marks = _marks(by_one, by_other, one, other)
        expected = _with(by_one, marks, other)
        if disagreement(case, by_other, expected) is not None:
            continue
        if disagreement(case, unmarked, expected) is None:
            continue  # the elements are left out whatever the marker is, such as those out of range
        is_learned = True
        for number in marked.special:
            found = _results(calls, marked, number, number)
            if found is None:
                continue
            wrong = disagreement(case, found, _with(by_one, marks, number))
            if wrong is not None:
                return True, _Broken(marked, number, wrong)
    return is_learned, None


def _results(calls: Caller, marked: _Marked, number: float, marker: float) -> Leaves | None:
    """The results with a number in the marked places, and a marker; None if the op raises."""

    def changed(path: str, tensor: torch.Tensor) -> torch.Tensor:
        if path not in marked.tensors:
            return tensor
        values, places = marked.tensors[path]
        return torch.where(places, number, values).to(tensor.dtype)

    kind = {each.name: str(each.type) for each in calls.case.op.arguments}[marked.name]
    value = marker if "int" in kind.lower() else float(marker)
    arguments = calls.case.inputs().map_distinct(changed)
    return copied_results(calls(with_argument(arguments, marked.name, value)))


def _marks(by_one: Leaves, by_other: Leaves, one: float, other: float) -> dict[str, torch.Tensor]:
    """Where results are the marker itself, whichever it is."""
    others = dict(by_other)
    marks: dict[str, torch.Tensor] = {}
    for name, value in by_one:
        changed = others.get(name)
        if not (isinstance(value, torch.Tensor) and isinstance(changed, torch.Tensor)):
            continue
        if value.shape == changed.shape and not value.is_complex():
            marks[name] = (value == one) & (changed == other)
    return marks


def _with(leaves: Leaves, marks: dict[str, torch.Tensor], number: float) -> Leaves:
    """The results with another marker in its places."""
    return [
        (name, torch.where(marks[name], number, leaf).to(leaf.dtype) if name in marks else leaf)
        for name, leaf in leaves
    ]


def _script(case: Case, broken: _Broken) -> str:
    marked, number, wrong = broken
    at, one = position(case, wrong.name), marked.ordinary[0]
    changes = "".join(
        f"    values = torch.tensor({values.tolist()}, dtype={values.dtype})\n"
        f"    places = torch.tensor({places.tolist()})\n"
        f"    {expression(case, path)} = torch.where(places, number, values).to(values.dtype)\n"
        for path, (values, places) in marked.tensors.items()
    )
    return (
        "from math import inf, nan\n"
        + call_lines(wrong.name)
        + "\ndef marked(number):\n    args, kwargs = inputs()\n    args = list(args)\n"
        + changes
        + f"    {expression(case, marked.name)} = number\n"
        + f"    result = call(args, kwargs)[{at}]\n"
        + "    equal = result.isnan() if number != number else result == number\n"
        + "    return result, equal\n\n\n"
        + f"(expected, as_expected), (got, equal) = marked({one!r}), marked({number!r})\n"
        + "agree = torch.isclose(got, expected, rtol=1e-3, atol=1e-5, equal_nan=True)\n"
        + "assert bool((agree | (as_expected & equal)).all()), (got, expected)\n"
    )


def _has_marker(op: Op) -> bool:
    return bool(_names(op))


FINDINGS = {
    "marker-not-honoured": Explanation(
        meaning=(
            "Elements that equal a marker, such as `ignore_index` or `nodata`, are left out. With other "
            "numbers for the marker and these elements the op gives the same, but not with 0, or not with "
            "NaN or infinity although a docstring speaks of them."
        ),
        why=(
            "Callers choose the marker. In Python, `if marker:` takes 0 for no marker, and `x != marker` "
            "is true for NaN everywhere, so elements that should be left out count."
        ),
        fix=(
            "Test `marker is not None`, and compare with NaN by `isnan`. If 0 has a meaning of its own, "
            'say so where a docstring describes the argument ("0 turns it off").'
        ),
        before="""
if missing:
    kept = codes != missing
""",
        after="""
if missing is not None:
    kept = codes != missing
""",
        docs=(doc_links.CUSTOM_OP,),
        follows=("stale-result", "uninitialized-output", "outputs-not-repeatable"),
    ),
}

CHECK = Check(
    name="relations.marker",
    summary="the number that marks missing or ignored elements may be any number",
    run=check_marker,
    gradients=False,
    needs=_has_marker,
    variants=(),
    findings=FINDINGS,
    catches=(
        "`if ignore_index:` in Python, which takes 0 for no marker, and `x != nodata` where nodata may be "
        "NaN. The marker is a number with a name such as `ignore_index`, `nodata`, `missing_code` or "
        "`pad_id`. It and the elements that equal it become two ordinary numbers, which no other element "
        "equals. If both give the same, 0 must give the same, and NaN and infinity if the text about the "
        "argument speaks of them. Results that are the marker itself change with it."
    ),
    cannot_see=(
        "Markers with other names; 0, if a docstring gives it a meaning or speaks of a background; what "
        "depends on the marker in another way, such as a row of a table."
    ),
    cost="calls",
)
