"""`relations.ragged_entries`: entries that offsets mark give the same alone as together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import torch

from ...cases.argument_names import names_offsets
from ...cases.arguments import Arguments
from ...cases.case import Case
from ...cases.documented_batches import (
    allows_empty_sequences,
    sentence_of_empty_sequences,
    sentence_of_independence,
)
from ...cases.template import is_sorted
from ...cases.tensors import base_name, is_differentiable, is_plain
from ...core.wording import docstring_says
from ...declare.ops import Op
from ...findings import Explanation, doc_links, fail, skip
from ..check import Check
from ..values.memory.calls import (
    Caller,
    copied_results,
    expression,
    skip_if_incomparable,
)
from ..values.memory.limited_copy import answer_if_taken
from .entries.calls import Wrong, differing
from .scripts import call_lines, position

_ENTRIES = 6  # that are looked at; more would show no more
_Parts = Mapping[str, torch.Tensor]  # of one entry, by the names of results


class _Piece(NamedTuple):
    """Elements of one entry.

    Args:
        entry: its number.
        start, stop: of the elements, among those of all entries.
    """

    entry: int
    start: int
    stop: int


class _Ragged(NamedTuple):
    """Arguments that hold entries of different lengths.

    Args:
        offsets: the path of the offsets.
        elements: the paths of tensors that the offsets divide.
        attributes: the paths of tensors with one row for each entry.
        entries: the first entries.
    """

    offsets: str
    elements: tuple[str, ...]
    attributes: tuple[str, ...]
    entries: tuple[_Piece, ...]

    def arguments(self, given: Arguments, pieces: Sequence[_Piece]) -> Arguments:
        """The arguments with these pieces as the entries."""

        def changed(path: str, tensor: torch.Tensor) -> torch.Tensor:
            if path == self.offsets:
                return _offsets_of(pieces).to(tensor.dtype)
            if path in self.elements:
                return torch.cat([tensor.detach()[piece.start : piece.stop] for piece in pieces])
            if path in self.attributes:
                return tensor.detach()[[piece.entry for piece in pieces]]
            return tensor

        return given.map_distinct(changed)


class _Broken(NamedTuple):
    """A piece that gives something else among others than alone.

    Args:
        ragged: the arguments.
        pieces: those that were given together.
        place: of the wrong one among them.
        wrong: its results among them and alone.
    """

    ragged: _Ragged
    pieces: tuple[_Piece, ...]
    place: int
    wrong: Wrong


def check_ragged_entries(case: Case) -> None:
    """Call the op with other entries, made of those of the sample, and with each alone.

    They are in another order, or cut in two, if a docstring calls entries independent; and there are empty
    ones among them, if one speaks of those.
    """
    skip_if_incomparable(case)
    if not any(_all_ragged(case)):
        reason = "no argument holds the offsets at which the entries of another one begin"
        raise skip("nothing-to-check", reason, unjudged=False)
    reason = "the entries of the sample do not give the same alone as together"
    broken = answer_if_taken(case, _answer, reason)
    if broken is not None:
        piece = broken.pieces[broken.place]
        is_empty = piece.start == piece.stop
        given = f"the sample's elements {piece.start} to {piece.stop - 1}"
        what = "which is empty" if is_empty else given
        independent, empty = (
            say(case.op) for say in (sentence_of_independence, sentence_of_empty_sequences)
        )
        raise fail(
            "ragged-entry-depends-on-others",
            f"{case.op.name}: entry {broken.place} of {len(broken.pieces)} in "
            f"{', '.join(broken.ragged.elements)}, {what}, gives something else than alone: "
            f"{broken.wrong.name}: {broken.wrong.text}",
            docstring_says((is_empty and empty) or independent or empty),
            repro=_script(case, broken),
            picture=broken.wrong.picture,
        )


def _all_ragged(case: Case) -> Iterator[_Ragged]:
    tensors = {
        path: tensor.detach()
        for path, tensor in case.inputs().tensors()
        if is_plain(tensor) and tensor.dim() and base_name(path) not in case.op.mutated
    }
    for path, tensor in tensors.items():
        if is_differentiable(tensor.dtype) or tensor.dim() > 1 or tensor.dtype == torch.bool:
            continue
        if not names_offsets(base_name(path)) or not is_sorted(tensor) or int(tensor[0]):
            continue
        numbers = tensor.tolist()
        count, total = len(numbers) - 1, numbers[-1]
        others = {name: t for name, t in tensors.items() if name != path}
        elements = tuple(name for name, t in others.items() if t.shape[0] == total)
        rows = tuple(name for name, t in others.items() if t.shape[0] == count)
        if elements and count > 1 and count != total:
            entries = tuple(map(_Piece, range(count), numbers, numbers[1:]))
            yield _Ragged(path, elements, rows, entries[:_ENTRIES])


def _answer(case: Case) -> tuple[bool, _Broken | None]:
    """Whether the entries of the sample are independent, and others for which they are not."""
    is_learned = False
    for ragged in _all_ragged(case):
        calls = _Calls(case, ragged)
        if not calls.kinds or calls.wrong(ragged.entries) is not None:
            continue
        is_learned = True
        for pieces in _others(case, ragged):
            found = calls.wrong(pieces)
            if found is not None and calls.wrong(pieces) is not None:
                return True, _Broken(ragged, pieces, *found)
    return is_learned, None


def _others(case: Case, ragged: _Ragged) -> Iterator[tuple[_Piece, ...]]:
    """Entries before which there are empty ones; in reverse; each twice; cut in two at some places."""
    if allows_empty_sequences(case.op, base_name(ragged.offsets)):
        yield tuple(
            piece
            for entry, start, stop in ragged.entries
            for piece in (_Piece(entry, start, start), _Piece(entry, start, stop))
        )
    if not sentence_of_independence(case.op):
        return
    yield ragged.entries[::-1]
    yield tuple(piece for piece in ragged.entries for _ in range(2))
    yield tuple(_cut(ragged.entries, {(piece.start + piece.stop) // 2 for piece in ragged.entries}))
    elements = dict(case.inputs().tensors())[ragged.elements[0]].detach()
    elements = elements.reshape(len(elements), -1)
    equal = (elements[1:] == elements[:-1]).all(1).nonzero().flatten() + 1
    if len(equal):
        yield tuple(_cut(ragged.entries, {*equal.tolist()}))


def _cut(pieces: Sequence[_Piece], places: set[int]) -> Iterator[_Piece]:
    for entry, start, stop in pieces:
        inside = sorted(place for place in places if start < place < stop)
        yield from map(_Piece, [entry] * (len(inside) + 1), [start, *inside], [*inside, stop])


def _offsets_of(pieces: Sequence[_Piece]) -> torch.Tensor:
    return torch.tensor([0, *(piece.stop - piece.start for piece in pieces)]).cumsum(0)


class _Calls:
    """Calls of an op on pieces of its entries.

    Attributes:
        kinds: by name of a result, how it has parts for the entries: `rows`, `elements` as the arguments
            have, `ragged` with offsets of its own, `offsets`, which are these.
    """

    def __init__(self, case: Case, ragged: _Ragged) -> None:
        self._case = case
        self._ragged = ragged
        self._calls = Caller(case)
        found = self._results(ragged.entries)
        self.kinds = _kinds(found, ragged.entries) if found else {}

    def wrong(self, pieces: Sequence[_Piece]) -> tuple[int, Wrong] | None:
        """The first piece that gives something else among the others than alone."""
        together = self._parts(pieces)  # none where the op raises
        for place, (piece, among) in enumerate(zip(pieces, together, strict=False)):
            for alone in self._parts([piece]):
                for name in [name for name in among if name in alone]:
                    wrong = differing(self._case, name, among[name], alone[name])
                    if wrong is not None:
                        return place, wrong
        return None

    def _results(self, pieces: Sequence[_Piece]) -> dict[str, torch.Tensor]:
        """The results that have dims; none where the op raises."""
        arguments = self._ragged.arguments(self._case.inputs(), pieces)
        leaves = copied_results(self._calls(arguments)) or ()
        return {
            name: leaf for name, leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.dim()
        }

    def _parts(self, pieces: Sequence[_Piece]) -> list[_Parts]:
        """The parts of the results for each piece; none where the op raises."""
        found = self._results(pieces)
        own = next(
            (found.get(name) for name, kind in self.kinds.items() if kind == "offsets"), None
        )
        bounds = {"elements": _offsets_of(pieces), "rows": torch.arange(len(pieces) + 1)}
        if own is not None and len(own) == len(pieces) + 1:
            bounds["ragged"] = own
        parts: list[dict[str, torch.Tensor]] = [{} for _ in pieces] if found else []
        for place, part in enumerate(parts):
            for name, kind in self.kinds.items():
                if name not in found:
                    continue
                if kind == "offsets" and "ragged" in bounds:
                    part[name] = found[name][place + 1] - found[name][place]
                elif kind in bounds and found[name].shape[0] == int(bounds[kind][-1]):
                    start, stop = (int(bound) for bound in bounds[kind][place : place + 2])
                    part[name] = found[name][start:stop]
        return [*parts]


def _kinds(found: Mapping[str, torch.Tensor], pieces: Sequence[_Piece]) -> dict[str, str]:
    """How each result has parts for the entries; those without are left out."""
    count, total = len(pieces), int(_offsets_of(pieces)[-1])
    own = ""
    for name, result in found.items():
        exact = not is_differentiable(result.dtype) and result.dtype != torch.bool
        if exact and result.shape == (count + 1,) and is_sorted(result) and not int(result[0]):
            own = name
            break
    size = int(found[own][-1]) if own else -1
    kinds = {own: "offsets"} if own else {}
    for name, result in found.items():
        lengths = {"ragged": size, "elements": total, "rows": count}
        kind = next((kind for kind, length in lengths.items() if result.shape[0] == length), None)
        if name != own and kind is not None:
            kinds[name] = kind
    return kinds


def _script(case: Case, broken: _Broken) -> str:
    ragged, pieces, _, wrong = broken
    offsets = expression(case, ragged.offsets)
    lines = [f"    {offsets} = torch.tensor([0, *lengths]).cumsum(0).to({offsets}.dtype)"]
    for path in ragged.elements:
        t = expression(case, path)
        lines.append(
            f"    {t} = torch.cat([{t}.detach()[start:stop] for _, start, stop in pieces])"
        )
    for path in ragged.attributes:
        t = expression(case, path)
        lines.append(f"    {t} = {t}.detach()[[entry for entry, *_ in pieces]]")
    changes = "\n".join(lines)
    return (
        call_lines(wrong.name)
        + f"\npieces = {[tuple(piece) for piece in pieces]}  # entry, start, stop\n\n\n"
        + "def result(pieces):\n    args, kwargs = inputs()\n    args = list(args)\n"
        + "    lengths = [stop - start for _, start, stop in pieces]\n"
        + f"{changes}\n    return call(args, kwargs)[{position(case, wrong.name)}]\n\n\n"
        + "together = result(pieces)\nalone = [result([piece]) for piece in pieces]\n"
        + "if together.shape[0] == len(pieces) + 1:  # offsets\n"
        + "    together, alone = together.diff(), [each.diff() for each in alone]\n"
        + "torch.testing.assert_close(together, torch.cat(alone), rtol=1e-3, atol=1e-5)\n"
    )


def _applies(op: Op) -> bool:
    """Whether an argument has the offsets of entries that a docstring calls independent, or maybe empty."""
    offsets = [argument.name for argument in op.arguments if names_offsets(argument.name)]
    may_be_empty = any(allows_empty_sequences(op, name) for name in offsets)
    return bool(offsets) and (may_be_empty or bool(sentence_of_independence(op)))


FINDINGS = {
    "ragged-entry-depends-on-others": Explanation(
        meaning=(
            "A docstring says that each entry of a batch is computed on its own, or that one may be empty, "
            "and offsets say where entries begin. But some elements, or none, as one of several entries "
            "give something else than as the only one."
        ),
        why=(
            "The elements of all entries lie behind each other, and code that compares an element with "
            "the one before it, or adds up, does not stop where an entry ends. For an empty entry "
            "`numpy.add.reduceat` gives the element after it."
        ),
        fix=(
            "Treat the first element of each entry as the first of all: start anew at each offset. Give an "
            "empty entry what nothing gives: there an offset equals the next one. If entries are meant to "
            "affect each other, correct the docstring."
        ),
        before="""
keep[1:] = data[1:] != data[:-1]        # the first element of an entry, and the last of the one before
""",
        after="""
keep[1:] = data[1:] != data[:-1]
keep[offsets[:-1]] = True
""",
        docs=(doc_links.CUSTOM_OP,),
        follows=("stale-result", "uninitialized-output", "outputs-not-repeatable"),
    ),
}

CHECK = Check(
    name="relations.ragged_entries",
    summary="entries that offsets mark give the same alone as together, also beside empty ones",
    run=check_ragged_entries,
    gradients=False,
    needs=_applies,
    integer_tensors=True,
    variants=(),
    findings=FINDINGS,
    catches=(
        "Entries of different lengths that influence each other although a docstring calls them "
        'independent ("each string on its own"): a comparison or a sum that goes on from one entry to the '
        "next. The sample's entries are given in reverse, twice, and cut in two, in the middle and between "
        "equal elements. Where a docstring speaks of empty entries, one is put before each. Each piece "
        "must give the same alone: rows, elements, and results with offsets of their own."
    ),
    cannot_see=(
        "Ops without such a docstring, offsets with other names, and entries that are not independent in "
        "the sample itself."
    ),
    cost="many calls",
)
