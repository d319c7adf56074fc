"""`relations.sorted_results`: results that a docstring calls sorted are so for other numbers too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from ...cases.case import Case
from ...cases.documented_orders import clause_of_sorted_results
from ...cases.tensors import comparable
from ...core.wording import docstring_says
from ...declare.ops import Op
from ...findings import Explanation, doc_links, fail, skip
from ..check import Check
from ..values.memory.calls import Caller, expression, results, skip_if_incomparable
from ..values.memory.limited_copy import answer_safely
from .other_numbers import replaceable, results_with
from .scripts import call_lines, position

_FACTOR = 1000.0
_FEWEST = 6  # different entries in a row: fewer may be in order by chance


class _Order(NamedTuple):
    """How the entries of a result lie.

    Args:
        by_rows: whether whole rows, along the first dim, are in lexicographic order; otherwise the
            elements along the last dim are sorted.
        falling: whether they fall.
    """

    by_rows: bool
    falling: bool

    def __str__(self) -> str:
        what = "rows, in lexicographic order," if self.by_rows else "elements along the last dim"
        return f"{what} {'fall' if self.falling else 'grow'}"


class _Unsorted(NamedTuple):
    """A result that is not sorted.

    Args:
        name: of the result.
        order: how it lies for the sample.
        at: the entry after which a smaller one comes.
        scaled: the argument whose numbers are larger than the sample's; empty on a variant.
    """

    name: str
    order: _Order
    at: int
    scaled: str = ""


def check_sorted_results(case: Case) -> None:
    """Find the results that are sorted for the sample, and look whether they are for other numbers.

    On the sample, one argument after the other is multiplied; on a variant, its own results count.
    """
    skip_if_incomparable(case)
    orders = _orders(case.base_case or case)
    if not orders:
        reason = "no result of the sample has enough different entries that are sorted"
        raise skip("nothing-to-check", reason, unjudged=False)
    if case.base_case is not None:
        unsorted = _first_unsorted(results(case.eager), orders)
    else:
        unsorted = answer_safely(case, lambda plain: _where_scaled(plain, orders))
    if unsorted is None:
        return
    larger = f" with {unsorted.scaled} {_FACTOR:g} times as large," if unsorted.scaled else ""
    raise fail(
        "result-not-sorted",
        f"{case.op.name}:{larger} {unsorted.name} is not sorted from entry {unsorted.at} to entry "
        f"{unsorted.at + 1}; for the sample, {unsorted.order}",
        docstring_says(clause_of_sorted_results(case.op)),
        repro=_script(case, unsorted),
    )


def _where_scaled(case: Case, orders: Mapping[str, _Order]) -> _Unsorted | None:
    calls = Caller(case)
    for path, numbers in replaceable(case):
        found = _first_unsorted(results_with(calls, path, numbers * _FACTOR) or (), orders)
        if found is not None:
            return found._replace(scaled=path)
    return None


def _first_unsorted(
    leaves: Iterable[tuple[str, object]], orders: Mapping[str, _Order]
) -> _Unsorted | None:
    for name, leaf in leaves:
        order = orders.get(name)
        if order is not None and isinstance(leaf, Tensor) and _is_sortable(leaf):
            at = _first_out_of_order(leaf, order)
            if at is not None:
                return _Unsorted(name, order, at)
    return None


def _says_so(op: Op) -> bool:
    return bool(clause_of_sorted_results(op))


def _orders(case: Case) -> dict[str, _Order]:
    """How the results of a case are sorted, by name; those that are not are left out."""
    found = {}
    for name, leaf in results(case.eager):
        if not isinstance(leaf, Tensor) or not _is_sortable(leaf):
            continue
        orders = (
            _Order(by_rows, falling) for by_rows in (True, False) for falling in (True, False)
        )
        sorted_by = [order for order in orders if _is_evident(leaf, order)]
        if sorted_by:
            found[name] = sorted_by[0]
    return found


def _is_sortable(leaf: Tensor) -> bool:
    is_usual = 0 < leaf.dim() < 3 and leaf.numel() > 0 and not leaf.is_complex()
    return is_usual and not bool(leaf.isnan().any())


def _is_evident(leaf: Tensor, order: _Order) -> bool:
    """Whether a result is in this order, with so many different entries that it is not so by chance."""
    steps = _entries(leaf, order).diff(dim=-1)
    return bool((steps >= 0).all()) and int((steps > 0).sum(-1).min()) + 1 >= _FEWEST


def _entries(leaf: Tensor, order: _Order) -> Tensor:
    """What must grow: numbers along the last dim, of one or more rows."""
    value = comparable(leaf.detach())
    value = value.to(torch.float64 if value.is_floating_point() else torch.int64)
    value = -value if order.falling else value
    if not order.by_rows:
        return value.reshape(-1, value.shape[-1])
    ranks: Tensor = torch.unique(
        value.flatten(1) if value.dim() > 1 else value, dim=0, return_inverse=True
    )[1]
    return ranks.reshape(1, -1)


def _first_out_of_order(leaf: Tensor, order: _Order) -> int | None:
    """The first entry after which a smaller one comes, but for equal ones at the end, which are padding."""
    entries = _entries(leaf, order)
    is_padding = (entries == entries[:, -1:]).flip(-1).cumprod(-1).flip(-1).bool()
    wrong = (entries.diff(dim=-1) < 0) & ~is_padding[:, 1:]
    return int(wrong.nonzero()[0][1]) if bool(wrong.any()) else None


def _script(case: Case, unsorted: _Unsorted) -> str:
    order, at = unsorted.order, unsorted.at
    lines = call_lines(unsorted.name) + "args, kwargs = inputs()\nargs = list(args)\n"
    if unsorted.scaled:
        place = expression(case, unsorted.scaled)
        lines += f"{place} = {place}.detach() * {_FACTOR:g}\n"
    lines += f"found = call(args, kwargs)[{position(case, unsorted.name)}]\n"
    if order.by_rows:
        lines += (
            f"first, second = found[{at}].flatten().tolist(), found[{at + 1}].flatten().tolist()\n"
        )
    else:
        lines += f"rows = found.reshape(-1, found.shape[-1])[:, {at} : {at + 2}].tolist()\n"
        sign = "<" if order.falling else ">"
        lines += f"first, second = next(row for row in rows if row[0] {sign} row[1])\n"
    return lines + f"assert first {'>=' if order.falling else '<='} second, (first, second)\n"


FINDINGS = {
    "result-not-sorted": Explanation(
        meaning=(
            "A docstring says that a result is sorted, and for the sample it is. For other numbers it is "
            "not."
        ),
        why=(
            "A key that several numbers are packed into exceeds its dtype, or parts are sorted one by one "
            "and joined. Code that searches the result by bisection then finds nothing."
        ),
        fix=(
            "Compute the key in int64, or sort by one column after the other with a stable sort. If the "
            "result is sorted for some inputs only, say so in the docstring."
        ),
        before="""
key = (x * height + y) * depth + z           # int32
order = key.argsort()
""",
        after="""
key = (x.long() * height + y) * depth + z
order = key.argsort()
""",
        docs=(doc_links.CUSTOM_OP,),
        follows=("stale-result", "uninitialized-output", "outputs-not-repeatable"),
    ),
}

CHECK = Check(
    name="relations.sorted_results",
    summary="results that a docstring calls sorted are so for other numbers too",
    run=check_sorted_results,
    gradients=False,
    needs=_says_so,
    variants=("values", "magnitudes", "large", "long", "shape", "arguments", "dtype"),
    cheap=True,
    findings=FINDINGS,
    catches=(
        "Sort keys that exceed their dtype, and parts that are sorted apart. Where a docstring says that a "
        "result is sorted, the check finds out which results of the sample are, by rows or along the last "
        f"dim, with at least {_FEWEST} different entries; they must be with numbers {_FACTOR:g} times as "
        "large, and on variants. Equal entries at the end may be padding."
    ),
    cannot_see="Results that are sorted by another result, and those that are sorted within groups.",
    cost="calls",
)
