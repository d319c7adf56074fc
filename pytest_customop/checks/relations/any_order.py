"""`relations.any_order`: entries in another order give the same, if a docstring says so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch

from ...cases.case import Case
from ...cases.documented_orders import clause_of_any_order
from ...cases.documented_shapes import documented_shapes
from ...cases.tensors import is_plain
from ...core.wording import docstring_says
from ...declare.ops import Op
from ...findings import Explanation, doc_links, fail, skip
from ..check import Check
from ..values.memory.calls import skip_if_incomparable
from ..values.memory.limited_copy import answer_if_taken
from .entries.calls import Rearranged, Wrong, differing, follow
from .entries.groups import DimGroup
from .entries.script import rearranging_lines

_ORDERS = (
    "torch.arange({size}).flip(0)",
    "torch.randperm({size}, generator=torch.Generator().manual_seed(1))",
    "torch.randperm({size}, generator=torch.Generator().manual_seed(2))",
)


class _Broken(NamedTuple):
    """A result that differs for entries in another order.

    Args:
        argument: whose entries they are.
        group: their dims.
        order: code of the positions.
        wrong: how the result differs.
    """

    argument: str
    group: DimGroup
    order: str
    wrong: Wrong


def check_any_order(case: Case) -> None:
    """Call the op with the entries in reverse, and shuffled."""
    skip_if_incomparable(case)
    groups = [*_groups(case)]
    if not groups:
        reason = "the sample has fewer than two such entries, or other dims than the docstring"
        raise skip("nothing-to-check", reason, unjudged=False)
    reason = "no result is of floating-point numbers, or the op raises for another order"
    broken = answer_if_taken(case, lambda plain: _answer(plain, groups), reason)
    if broken is not None:
        wrong = broken.wrong
        raise fail(
            "order-matters",
            f"{case.op.name}: with the {broken.group.size} entries along {broken.group} in another order, "
            f"{wrong.name} is neither the same nor in that order: {wrong.text}",
            docstring_says(clause_of_any_order(case.op, broken.argument)),
            repro=_script(case, broken),
            picture=wrong.picture,
        )


def _says_so(op: Op) -> bool:
    return any(clause_of_any_order(op, argument.name) for argument in op.arguments)


def _groups(case: Case) -> Iterator[tuple[str, DimGroup]]:
    """(argument, dims) of the entries: of all arguments that have a dim of this name in the docstring."""
    shapes = documented_shapes(case.op)
    tensors = {name: tensor for name, tensor in case.inputs().tensors() if is_plain(tensor)}
    for argument in tensors:
        named = [dim for dim in shapes.get(argument, ()) if not dim.isdigit()]
        if not named or not clause_of_any_order(case.op, argument):
            continue
        known = {
            name
            for name, tensor in tensors.items()
            if name in shapes and len(shapes[name]) == tensor.dim()
        }
        dims = [
            (name, at) for name in known for at, dim in enumerate(shapes[name]) if dim == named[0]
        ]
        sizes = {tensors[name].shape[at] for name, at in dims}
        of_others = {size for name in tensors.keys() - known for size in tensors[name].shape}
        # A tensor whose dims the docstring does not name may belong to the entries too.
        if len(sizes) == 1 and min(sizes) > 1 and sizes.isdisjoint(of_others):
            yield argument, DimGroup(tuple(sorted(dims)), min(sizes), 1)


def _answer(case: Case, groups: list[tuple[str, DimGroup]]) -> tuple[bool, _Broken | None]:
    """Whether results can be compared, and the first that differs for another order."""
    is_taken = False
    for argument, group in groups:
        calls = Rearranged(case, group)
        for order in _ORDERS:
            order = order.format(size=group.size)
            index: torch.Tensor = eval(order, {"torch": torch})
            found = calls.taken(index, None)
            for name, whole in (calls.whole or {}).items() if found is not None else ():
                if not isinstance(whole, torch.Tensor) or not whole.is_floating_point():
                    continue
                is_taken = True
                wrong = _wrong(case, name, whole, (found or {}).get(name), index)
                if wrong is not None:
                    return True, _Broken(argument, group, order, wrong)
    return is_taken, None


def _wrong(
    case: Case, name: str, whole: torch.Tensor, found: object, index: torch.Tensor
) -> Wrong | None:
    """How a result differs if it neither stays the same nor follows the order along a dim."""
    if not isinstance(found, torch.Tensor) or found.shape != whole.shape:
        return None
    same = differing(case, name, found, whole)
    if same is None:
        return None
    dims = [dim for dim, size in enumerate(whole.shape) if size == len(index)]
    followed = [differing(case, name, found, follow(whole, dim, index)) for dim in dims]
    return None if None in followed else same


def _script(case: Case, broken: _Broken) -> str:
    return (
        rearranging_lines(case, broken.group, broken.wrong, {})
        + f"assert_close(call({broken.order}), call(torch.arange({broken.group.size})))\n"
    )


FINDINGS = {
    "order-matters": Explanation(
        meaning=(
            "A docstring says that the order of an argument's entries does not matter. With the same "
            "entries in another order, a result is another one, and not just in that order."
        ),
        why=(
            "Entries are handled one after the other, and one reads what an earlier one wrote: a copy "
            "within one buffer, an update in place. Or an algorithm for sorted entries gets unsorted ones, "
            "or a sort puts equal numbers in the order in which they come."
        ),
        fix=(
            "Read everything before anything is written: gather, then scatter. Sort where the algorithm "
            "needs it, and handle equal numbers together. If the order matters, say so in the docstring."
        ),
        before="""
for source, destination in pairs:
    cache[destination] = cache[source]     # may have been overwritten
""",
        after="""
sources, destinations = pairs.unbind(1)
cache[destinations] = cache[sources]       # gathers first
""",
        docs=(doc_links.CUSTOM_OP,),
        follows=("stale-result", "uninitialized-output", "outputs-not-repeatable"),
    ),
}

CHECK = Check(
    name="relations.any_order",
    summary="entries in another order give the same, if a docstring says that their order does not matter",
    run=check_any_order,
    gradients=False,
    needs=_says_so,
    variants=("values", "positions", "shape"),
    cheap=True,
    findings=FINDINGS,
    catches=(
        'Updates one after the other where a docstring says that entries come "in any order", are '
        '"unsorted", that their order does not matter, or that results do not depend on it. They are given '
        "in reverse and shuffled; floating-point results must stay the same, or follow the order."
    ),
    cannot_see=(
        "Integer results, which may be positions of entries, and ops whose docstrings give no shape of the "
        "argument, or say nothing of its order. Entries that may change places only within a group."
    ),
    cost="calls",
)
