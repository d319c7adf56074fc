"""`relations.last_queries`: the last queries alone attend to what they attend to among the others."""

from __future__ import annotations

from typing import NamedTuple

import torch

from ...cases.case import Case
from ...cases.documented_attention import sentence_of_last_queries, size_of_queries
from ...cases.documented_shapes import documented_shapes
from ...cases.tensors import base_name, is_plain
from ...core.wording import docstring_says
from ...declare.ops import Op
from ...findings import Explanation, doc_links, fail, skip
from ..check import Check
from ..values.memory.calls import skip_if_incomparable
from ..values.memory.limited_copy import answer_if_taken
from .entries.calls import Rearranged, Wrong, differing
from .entries.groups import DimGroup
from .entries.script import rearranging_lines


class _Broken(NamedTuple):
    """A result for the last queries alone that is not the part of all results that belongs to them.

    Args:
        left: how many queries.
        dim: of the result, along which the queries lie.
        wrong: how it differs.
    """

    left: int
    dim: int
    wrong: Wrong


def check_last_queries(case: Case) -> None:
    """Call the op with its last queries alone, and all keys."""
    skip_if_incomparable(case)
    group = _queries(case)
    if group is None:
        reason = "the sample has fewer than two queries, or other dims than the docstring"
        raise skip("nothing-to-check", reason, unjudged=False)
    reason = "the op does not take fewer queries than in the sample"
    broken = answer_if_taken(case, lambda plain: _answer(plain, group), reason)
    if broken is not None:
        wrong = broken.wrong
        raise fail(
            "last-queries-differ",
            f"{case.op.name}: with the last {broken.left} of {group.size} queries alone, {wrong.name} is "
            f"not what it is for these among all: {wrong.text}",
            docstring_says(sentence_of_last_queries(case.op)),
            repro=_script(case, group, broken),
            picture=wrong.picture,
        )


def _says_so(op: Op) -> bool:
    return bool(sentence_of_last_queries(op))


def _queries(case: Case) -> DimGroup | None:
    """The dims along which the queries lie."""
    size, shapes = size_of_queries(case.op), documented_shapes(case.op)
    dims, sizes = [], set()
    for name, tensor in case.inputs().tensors():
        named = shapes.get(base_name(name), ())
        if not is_plain(tensor) or len(named) != tensor.dim():
            continue
        for dim in range(tensor.dim()):
            if named[dim] == size:
                dims.append((name, dim))
                sizes.add(tensor.shape[dim])
    if len(sizes) != 1 or min(sizes) < 2:
        return None
    return DimGroup(tuple(dims), min(sizes), 1)


def _answer(case: Case, group: DimGroup) -> tuple[bool, _Broken | None]:
    """Whether the op takes fewer queries, and a result that differs then."""
    calls = Rearranged(case, group)
    whole = calls.whole or {}
    is_taken = False
    for count in dict.fromkeys((1, group.size // 2)):
        last = torch.arange(group.size - count, group.size)
        found = calls.taken(last, None)
        for name, result in (found or {}).items():
            dim = _dim_of_queries(result, whole.get(name), count, group.size)
            if dim is None:
                continue
            is_taken = True
            wrong = differing(
                case, name, result, whole[name].narrow(dim, group.size - count, count)
            )
            if wrong is not None:
                return True, _Broken(count, dim, wrong)
    return is_taken, None


def _dim_of_queries(part: object, whole: object, count: int, size: int) -> int | None:
    """The only dim of two results in which one has an entry for each query, and the other for some."""
    if not (isinstance(part, torch.Tensor) and isinstance(whole, torch.Tensor)):
        return None
    if part.dim() != whole.dim():
        return None
    pairs = [*zip(part.shape, whole.shape, strict=True)]
    dims = [dim for dim, pair in enumerate(pairs) if pair[0] != pair[1]]
    return dims[0] if len(dims) == 1 and pairs[dims[0]] == (count, size) else None


def _script(case: Case, group: DimGroup, broken: _Broken) -> str:
    first, dim = group.size - broken.left, broken.dim
    return (
        rearranging_lines(case, group, broken.wrong, {})
        + f"whole = call(torch.arange({group.size}))\n"
        + f"last = call(torch.arange({first}, {group.size}))\n"
        + f"assert_close(last, whole.narrow({dim}, {first}, {broken.left}))\n"
    )


FINDINGS = {
    "last-queries-differ": Explanation(
        meaning=(
            "A docstring says that the queries are those of the last tokens. But the last queries alone, "
            "with all keys, give another result than among the other queries."
        ),
        why=(
            "While text is generated, the keys of earlier tokens come from a cache, and there are fewer "
            "queries than keys. A mask that lets query i see the first i keys is right only where there "
            "are as many queries as keys: a single query sees one key."
        ),
        fix=(
            "Shift the mask by how many more keys than queries there are: "
            "torch.ones(q, k).tril(diagonal=k - q)."
        ),
        before="""
visible = torch.ones(q_len, kv_len, dtype=torch.bool).tril()
""",
        after="""
visible = torch.ones(q_len, kv_len, dtype=torch.bool).tril(diagonal=kv_len - q_len)
""",
        docs=(doc_links.CUSTOM_OP,),
        follows=("stale-result", "uninitialized-output", "outputs-not-repeatable"),
    ),
}

CHECK = Check(
    name="relations.last_queries",
    summary="queries that a docstring calls those of the last tokens give the same without the others",
    run=check_last_queries,
    gradients=False,
    needs=_says_so,
    variants=(),
    findings=FINDINGS,
    catches=(
        "A causal mask that lets the first query see the first key where a docstring says that the queries "
        'are those of the last tokens: `kv_len - q_len + i`, "the last query sees the last key", '
        '"bottom-right". The op is called with its last query alone, and with the last half of them.'
    ),
    cannot_see=(
        "Ops whose docstrings do not say so, or give no shapes of queries and keys with names of their own "
        "for how many there are of each."
    ),
    cost="calls",
)
