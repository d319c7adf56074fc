"""`relations.far_entry`: one entry that is far from the others leaves their results finite."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import torch

from ...cases.case import Case
from ...cases.tensors import base_name, is_plain
from ...findings import Explanation, doc_links, fail, skip
from ..check import Check
from ..values.memory.calls import Caller, Leaves, copied_results, expression, skip_if_incomparable
from ..values.memory.limited_copy import answer_if_taken
from .other_numbers import results_with
from .scripts import call_lines, position

_CLOSE = 1 / 64  # added first, to see which results depend on the entry
_FAR = (300.0, 3000.0, 30000.0)  # exp() of these is not finite
_TENSORS = 3


class _Broken(NamedTuple):
    """An entry that makes results of others infinite or NaN.

    Args:
        path: of the tensor.
        entry: its place along the first dim.
        added: to the entry.
        result: the name of the result.
        place: of the first such element.
        before, after: its values.
    """

    path: str
    entry: int
    added: float
    result: str
    place: tuple[int, ...]
    before: float
    after: float


def check_far_entry(case: Case) -> None:
    """Add a little and then a lot to one entry; what does not depend on it must stay finite."""
    skip_if_incomparable(case)
    if not _tensors(case):
        reason = "no argument has entries of floating-point numbers of both signs"
        raise skip("nothing-to-check", reason, unjudged=False)
    reason = "every result depends on each entry, or is not finite"
    broken = answer_if_taken(case, _answer, reason)
    if broken is not None:
        place = list(broken.place)
        raise fail(
            "far-entry-spreads",
            f"{case.op.name}: with up to {broken.added:g} added to the numbers of "
            f"{broken.path}[{broken.entry}], {broken.result} is {broken.after} at {place}; before, and "
            f"with up to {_CLOSE:.2g} added, it is {broken.before:.6g}",
            repro=_script(case, broken),
        )


def _tensors(case: Case) -> list[tuple[str, torch.Tensor]]:
    """The tensors of float32 or float64 that have several entries along the first dim, of both signs."""
    found = [
        (path, tensor.detach())
        for path, tensor in case.inputs().tensors()
        if is_plain(tensor) and tensor.dtype in (torch.float32, torch.float64)
    ]
    return [
        (path, tensor)
        for path, tensor in found
        if tensor.dim() > 1
        and len(tensor) > 1
        and base_name(path) not in case.op.mutated
        and bool((tensor < 0).any() & (tensor > 0).any())
    ][:_TENSORS]


def _answer(case: Case) -> tuple[bool, _Broken | None]:
    """Whether some result does not depend on an entry, and the first that the entry spreads to."""
    calls, judged = Caller(case), False
    before = _floats(copied_results(calls(case.inputs())))
    if not before or not all(bool(value.isfinite().all()) for value in before.values()):
        return False, None
    for path, tensor in _tensors(case):
        for sign in (1, -1):
            entry = _inner(tensor, sign)
            close = _floats(results_with(calls, path, _moved(tensor, entry, sign * _CLOSE)))
            kept = {
                name: close[name] == value
                for name, value in before.items()
                if name in close and close[name].shape == value.shape
            }
            if not any(map(_some, kept.values())):
                continue
            judged = True
            for far in _FAR:
                after = _floats(results_with(calls, path, _moved(tensor, entry, sign * far)))
                if not _depending_are_finite(after, kept):
                    break  # the number is too large for the op
                for name, place in _spoilt(after, kept):
                    values = (float(results[name][place]) for results in (before, after))
                    return True, _Broken(path, entry, sign * far, name, place, *values)
    return judged, None


def _inner(tensor: torch.Tensor, sign: int) -> int:
    """The entry whose largest number, or smallest for a sign of -1, is nearest to those of others."""
    return int((sign * tensor).flatten(1).amax(1).argmin())


def _some(kept: torch.Tensor) -> bool:
    return bool(kept.any()) and not bool(kept.all())


def _depending_are_finite(
    after: Mapping[str, torch.Tensor], kept: Mapping[str, torch.Tensor]
) -> bool:
    return all(
        name in after
        and after[name].shape == same.shape
        and bool((after[name].isfinite() | same).all())
        for name, same in kept.items()
    )


def _spoilt(
    after: Mapping[str, torch.Tensor], kept: Mapping[str, torch.Tensor]
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The first element of each result that is not finite although it does not depend on the entry."""
    for name, same in kept.items():
        if _some(same):
            places = (same & ~after[name].isfinite()).nonzero()
            if len(places):
                yield name, tuple(places[0].tolist())


def _floats(leaves: Leaves | None) -> dict[str, torch.Tensor]:
    """The floating-point results by name; none if the op raised."""
    return {
        name: value
        for name, value in leaves or ()
        if isinstance(value, torch.Tensor) and value.dtype in (torch.float32, torch.float64)
    }


def _moved(tensor: torch.Tensor, entry: int, added: float) -> torch.Tensor:
    """A copy with a number added to an entry, to some elements more than to others."""
    moved = tensor.clone()
    moved[entry] += _uneven(moved[entry]) * added  # a softmax ignores what is added to all numbers
    return moved


def _uneven(entry: torch.Tensor) -> torch.Tensor:
    """Shares from a half to all."""
    return torch.linspace(0.5, 1, entry.numel(), dtype=entry.dtype).reshape(entry.shape)


def _script(case: Case, broken: _Broken) -> str:
    place, at = expression(case, broken.path), position(case, broken.result)
    return (
        call_lines(broken.result)
        + "\n\ndef result(added):\n    args, kwargs = inputs()\n    args = list(args)\n"
        + f"    {place} = {place}.detach().clone()\n    entry = {place}[{broken.entry}]\n"
        + "    entry += torch.linspace(0.5, 1, entry.numel()).to(entry).reshape(entry.shape) * added\n"
        + f"    return call(args, kwargs)[{at}][{broken.place}]\n\n\n"
        + f"print(result(0), result({_CLOSE}))\nassert result({broken.added}).isfinite()\n"
    )


FINDINGS = {
    "far-entry-spreads": Explanation(
        meaning=(
            "A result does not depend on some entry of a tensor: it stays the same to the last bit when "
            "that changes a little. With a large number added to the entry it is infinite or NaN."
        ),
        why=(
            "One outlier in a batch makes the loss of every other sample infinite. Usually the largest "
            "number of all rows is subtracted before exp(), not that of each row: the other rows "
            "underflow to 0."
        ),
        fix=(
            "Subtract the largest number of each row: `x - x.amax(-1, keepdim=True)`, or call "
            "torch.logsumexp or torch.softmax."
        ),
        before="""
z = logits - logits.max()
loss = z.exp().sum(1).log() - z.diagonal()
""",
        after="""
loss = logits.logsumexp(1) - logits.diagonal()
""",
        docs=(doc_links.CUSTOM_OP,),
        follows=(
            "entry-affects-batch",
            "stale-result",
            "uninitialized-output",
            "outputs-not-repeatable",
        ),
    ),
}

CHECK = Check(
    name="relations.far_entry",
    summary="one entry that is far from the others leaves their results finite",
    run=check_far_entry,
    gradients=False,
    variants=(),
    findings=FINDINGS,
    catches=(
        "A softmax or logarithm of sums of exp() that subtracts the largest number of all rows instead of "
        "each row's. Up to 1/64 is added to the numbers of one entry along the first dim of a tensor that "
        "has numbers of both signs; then up to 300, 3,000 and 30,000, and the same is subtracted. Elements "
        "of the results that the small number leaves as they are, to the last bit, must stay finite with a "
        "large one with which those that depend on the entry are finite. Entries need not give the same "
        "alone, as those of a square matrix do not, which `relations.special_entry` asks for."
    ),
    cannot_see=(
        "Results that are wrong but finite; entries along other dims; results of which some are not "
        "finite on the sample."
    ),
    cost="calls",
)
