"""`relations.grouped_heads`: consecutive query heads share one head of the keys."""

from __future__ import annotations

from typing import NamedTuple

import torch

from ...cases.case import Case
from ...cases.documented_attention import (
    names_of_heads,
    sentence_of_shared_heads,
    shares_heads_apart,
)
from ...cases.documented_shapes import documented_shapes
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
)
from ..values.memory.limited_copy import answer_if_taken
from .compare import Disagreement, disagreement
from .scripts import call_lines, compare_lines


class _Heads(NamedTuple):
    """Heads of keys, each of which several heads of queries share.

    Args:
        dims: of all tensors that have them, by path.
        size: how many of them are used.
        times: how many heads of queries share one.
    """

    dims: dict[str, int]
    size: int
    times: int

    def repeated(self) -> torch.Tensor:
        """Positions of the heads, with the copies of each next to each other."""
        return torch.arange(self.size).repeat_interleave(self.times)

    def tiled(self) -> torch.Tensor:
        """The same with one copy of all heads after the other."""
        return torch.arange(self.size).repeat(self.times)


def check_grouped_heads(case: Case) -> None:
    """Give each head of the keys as often as it is shared, in two orders."""
    skip_if_incomparable(case)
    heads = _heads(case)
    if heads is None:
        reason = "the sample has too few heads, or other dims than the docstring"
        raise skip("nothing-to-check", reason, unjudged=False)
    reason = "neither order of copies gives the same, or the op does not take them"
    wrong = answer_if_taken(case, lambda plain: _answer(plain, heads), reason)
    if wrong is None:
        return
    said = sentence_of_shared_heads(case.op)
    shown_on = None if said else case.as_beyond("an order of heads of which no docstring speaks")
    raise fail(
        "head-grouping-mismatch",
        f"{case.op.name}: with {heads.size} heads of keys, query head h uses head h % {heads.size} of "
        f"the keys instead of h // {heads.times}. With each of them repeated {heads.times} times in a row "
        f"it gives something else: {wrong}",
        docstring_says(said) if said else "",
        repro=_script(case, heads, wrong.name),
        case=shown_on,
        picture=wrong.picture,
    )


def _heads(case: Case) -> _Heads | None:
    """The heads of the sample; two of them if it has as many as queries."""
    names = names_of_heads(case.op)
    shapes = documented_shapes(case.op)
    dims: tuple[dict[str, int], dict[str, int]] = ({}, {})
    sizes: tuple[set[int], set[int]] = (set(), set())
    for path, tensor in case.inputs().tensors():
        named = shapes.get(base_name(path), ())
        if names is None or not is_plain(tensor) or len(named) != tensor.dim():
            continue
        for each, name in enumerate(names):
            if name in named:
                dims[each][path] = named.index(name)
                sizes[each].add(tensor.shape[named.index(name)])
    if len(sizes[0]) != 1 or len(sizes[1]) != 1:
        return None
    (queries,), (keys,) = sizes
    count = 2 if keys == queries else keys
    if not 1 < count < queries or queries % count:
        return None
    return _Heads(dims[1], count, queries // count)


def _answer(case: Case, heads: _Heads) -> tuple[bool, Disagreement | None]:
    """Whether one order of copies gives the same, and how the other differs if it is the wrong one."""
    calls = Caller(case)
    orders = (torch.arange(heads.size), heads.repeated(), heads.tiled())
    shared, repeated, tiled = (_results(calls, heads, order) for order in orders)
    if shared is None or repeated is None or tiled is None:
        return False, None
    wrong = disagreement(case, repeated, shared)
    if wrong is None:
        return True, None
    is_other = disagreement(case, tiled, shared) is None
    return is_other, wrong if is_other else None


def _results(calls: Caller, heads: _Heads, order: torch.Tensor) -> Leaves | None:
    """The results with the heads of keys in this order; None if the op raises."""

    def taken(path: str, tensor: torch.Tensor) -> torch.Tensor:
        dim = heads.dims.get(path)
        return tensor if dim is None else tensor.index_select(dim, order.to(tensor.device))

    return copied_results(calls(calls.case.inputs().map_distinct(taken)))


def _script(case: Case, heads: _Heads, name: str) -> str:
    changes = "".join(
        f"    {place} = {place}.index_select({dim}, order)\n"
        for place, dim in ((expression(case, path), dim) for path, dim in heads.dims.items())
    )
    return (
        call_lines(name)
        + "\ndef with_heads(order):\n    args, kwargs = inputs()\n    args = list(args)\n"
        + changes
        + "    return call(args, kwargs)\n\n\n"
        + f"heads = torch.arange({heads.size})\nexpected = with_heads(heads)\n"
        + f"got = with_heads(heads.repeat_interleave({heads.times}))\n"
        + compare_lines(case, name)
    )


def _may_share_heads(op: Op) -> bool:
    return names_of_heads(op) is not None and not shares_heads_apart(op)


FINDINGS = {
    "head-grouping-mismatch": Explanation(
        meaning=(
            "In an attention with fewer heads of keys than of queries, query heads that are a number of "
            "heads apart share one. Where a docstring, or the convention of models and of "
            "`scaled_dot_product_attention(enable_gqa=True)`, counts, consecutive ones do."
        ),
        why=(
            "The query heads are reshaped as (group, head) and not as (head, group), or the keys are "
            "repeated with `repeat` and not with `repeat_interleave`. With one head of keys, or as many as "
            "of queries, both are the same."
        ),
        fix=(
            "Reshape queries to (heads of keys, group, ...), or use `repeat_interleave`. If the other "
            "order is meant, say so in the docstring: `h % heads`."
        ),
        before="""
q = q.reshape(batch, heads_q // heads_kv, heads_kv, size)
""",
        after="""
q = q.reshape(batch, heads_kv, heads_q // heads_kv, size)
""",
        docs=(doc_links.CUSTOM_OP,),
        follows=("stale-result", "uninitialized-output", "outputs-not-repeatable"),
    ),
}

CHECK = Check(
    name="relations.grouped_heads",
    summary="consecutive query heads share one head of the keys",
    run=check_grouped_heads,
    gradients=False,
    needs=_may_share_heads,
    variants=(),
    findings=FINDINGS,
    catches=(
        "Grouped-query attention that pairs heads in another order. Where a docstring gives queries and "
        "keys numbers of heads with different names, each head of the keys is given as often as it is "
        "shared. Heads that are each repeated in a row must change nothing. It is a finding if all heads "
        "tiled one after the other change nothing instead, and a note if no docstring says how heads are "
        "shared."
    ),
    cannot_see=(
        "Ops whose docstrings give no shapes, samples with one head of keys, and heads in one dim with "
        "their numbers."
    ),
    cost="calls",
)
