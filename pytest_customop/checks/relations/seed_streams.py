"""`relations.seed_streams`: neighbouring seeds draw different numbers, not those of the next row."""

from __future__ import annotations

import re
from typing import NamedTuple

import torch

from ...cases.case import Case
from ...cases.documented import sentences
from ...cases.tensors import base_name, is_plain
from ...declare.ops import Op
from ...findings import NOT_ASKED, Explanation, doc_links, fail, skip
from ..check import Check
from ..values.memory.calls import (
    Caller,
    copied_results,
    expression,
    skip_if_no_results,
    with_argument,
)
from ..values.memory.limited_copy import answer_if_taken
from .scripts import call_lines, position

# In a sentence: how numbers follow from a seed, so that overlaps are the author's choice.
_FORMULA = re.compile(r"\bseed\w*`*\s*\+\s*`*(?!the step)\w+|\b(counter|offset)\b", re.I)
_INDEPENDENT = re.compile(
    r"(?=.*\bseeds?\b)(?=.*\b(independent|unrelated|other|different)\b)", re.I
)
_ROWS = 64
_SEEDS = (3, 1000)
_DIFFERENT = 16  # rows that must differ between seeds where none is shifted


class _Overlap(NamedTuple):
    """A result whose rows for one seed are those for the seed before, moved by one.

    Args:
        argument: the seed.
        size: the number of rows in the sample.
        name: of the result.
    """

    argument: str
    size: int
    name: str


def check_seed_streams(case: Case) -> None:
    """Call the op with equal rows and neighbouring seeds."""
    skip_if_no_results(case)
    argument = _seed_of(case.op)
    if argument is None:
        raise skip("nothing-to-check", "no number is a seed", unjudged=False)
    reason = "the op does not take other seeds, or more rows"
    overlap = answer_if_taken(case, lambda plain: _answer(plain, argument), reason)
    if overlap is not None:
        raise fail(
            "streams-overlap",
            f"{case.op.name}: with equal inputs in all rows, row i of {overlap.name} for "
            f"{overlap.argument}={_SEEDS[0] + 1} is row i + 1 for {overlap.argument}={_SEEDS[0]}",
            repro=_script(case, overlap),
            note=None if _promises_other_numbers(case.op) else NOT_ASKED,
        )


def _seed_of(op: Op) -> str | None:
    """The name of the number that is a seed; None without one."""
    names = [item.name for item in op.arguments if str(item.type) in ("int", "Optional[int]")]
    return next((name for name in names if re.search(r"(^|_)seed$", name)), None)


def _answer(case: Case, argument: str) -> tuple[bool, _Overlap | None]:
    """Whether the op takes other seeds and more rows, and the first result that is moved by a row."""
    calls = Caller(case)
    is_taken = False
    for size in _sizes(case):
        pairs = [
            tuple(_results(calls, argument, size, seed + more) for more in (0, 1))
            for seed in _SEEDS
        ]
        for name in pairs[0][0]:
            tensors = [[each[name] for each in pair if name in each] for pair in pairs]
            if any(len(pair) < 2 or pair[0].shape != pair[1].shape for pair in tensors):
                continue
            is_taken = True
            if all(_is_moved(*pair) for pair in tensors):
                return True, _Overlap(argument, size, name)
    return is_taken, None


def _sizes(case: Case) -> list[int]:
    """The sizes of first dims of tensors, each of which may be the number of rows."""
    tensors = (tensor for _, tensor in case.inputs().tensors())
    return [*dict.fromkeys(len(tensor) for tensor in tensors if tensor.dim() and len(tensor))]


def _is_moved(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether the rows of the second result are those of the first from its second row on, and only so."""
    moved_by = [first[by:] for by in range(3)]
    unequal = [_unequal_rows(rows, second[: len(rows)]) for rows in moved_by]
    return unequal[1] == 0 and min(unequal[0], unequal[2]) >= _DIFFERENT


def _unequal_rows(left: torch.Tensor, right: torch.Tensor) -> int:
    return int((left != right).reshape(len(left), -1).any(1).sum())


def _results(calls: Caller, argument: str, size: int, seed: int) -> dict[str, torch.Tensor]:
    """The results with many equal rows, for a seed; none if the op raises."""

    def repeated(path: str, tensor: torch.Tensor) -> torch.Tensor:
        if base_name(path) in calls.case.op.mutated or tensor.shape[:1] != (size,):
            return tensor
        row = tensor.detach()[:1]
        return row.expand(_ROWS, *row.shape[1:]).clone(memory_format=torch.contiguous_format)

    changed = calls.case.inputs().map_distinct(repeated)
    leaves = copied_results(calls(with_argument(changed, argument, seed)))
    return {
        name: leaf
        for name, leaf in leaves or ()
        if isinstance(leaf, torch.Tensor) and is_plain(leaf) and leaf.shape[:1] == (_ROWS,)
    }


def _script(case: Case, overlap: _Overlap) -> str:
    return (
        call_lines(overlap.name)
        + "\ndef rows(number):\n    args, kwargs = inputs()\n"
        + "    args, kwargs = tree_map_only(torch.Tensor, repeated, (list(args), kwargs))\n"
        + f"    {expression(case, overlap.argument)} = number\n"
        + f"    return call(args, kwargs)[{position(case, overlap.name)}]\n\n\n"
        + "def repeated(tensor):\n"
        + f"    if tensor.shape[:1] != ({overlap.size},):\n        return tensor\n"
        + f"    return tensor[:1].expand({_ROWS}, *tensor.shape[1:]).clone()\n\n\n"
        + f"assert not torch.equal(rows({_SEEDS[0]})[1:], rows({_SEEDS[0] + 1})[:-1])\n"
    )


def _promises_other_numbers(op: Op) -> bool:
    """Whether a docstring says that different seeds give different numbers."""
    return any(map(_INDEPENDENT.search, sentences(op, of_op=True)))


def _has_own_streams(op: Op) -> bool:
    """Whether a number is a seed, and no docstring says how numbers follow from it."""
    return _seed_of(op) is not None and not any(map(_FORMULA.search, sentences(op)))


FINDINGS = {
    "streams-overlap": Explanation(
        meaning=(
            "With equal rows, the op draws for row i with one seed what it draws for row i + 1 with the "
            "seed before. All but one row of two calls with neighbouring seeds get the same random numbers."
        ),
        why=(
            "Callers count their seeds up, one a step or a worker. What they take for independent draws is "
            "the same, moved by a row: averages over calls are wrong, and samples repeat themselves."
        ),
        fix=(
            "Draw all rows from one generator with the seed, or mix the row into the seed with a hash. If "
            "the overlap is meant, say how numbers follow from the seed (`row i draws from seed + i`)."
        ),
        before="""
for i, row in enumerate(x):
    generator.manual_seed(seed + i)
    out[i] = torch.rand(row.shape, generator=generator)
""",
        after="""
generator.manual_seed(seed)
for i, row in enumerate(x):
    out[i] = torch.rand(row.shape, generator=generator)
""",
        docs=(doc_links.RANDOMNESS, doc_links.RANDOM),
        follows=("outputs-ignore-seed", "stale-result", "uninitialized-output"),
    ),
}

CHECK = Check(
    name="relations.seed_streams",
    summary="neighbouring seeds draw different numbers, not those of the next row",
    run=check_seed_streams,
    gradients=False,
    needs=_has_own_streams,
    variants=(),
    findings=FINDINGS,
    catches=(
        "A random number generator that is seeded anew for each row with the seed plus the row's number. "
        "All rows are made equal, and results for two neighbouring seeds are compared row by row. A note "
        "if no docstring says that calls with different seeds are independent or different."
    ),
    cannot_see=(
        "Rows in another dim than the first, seeds that are no argument, and other dependencies between "
        "seeds."
    ),
    cost="calls",
)
