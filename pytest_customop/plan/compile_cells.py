"""`--customop-compile-cells`: choose the cases of a mark on which the `compile` checks run."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..cases.case import Case
from ..declare.declaration import Declaration
from ..settings import COMPILE_CELLS, Settings
from .items import CaseCell
from .omissions import OmittedCompilations, OnOmitted

# A property that cases of a mark share. Each is compiled with gradients and without.
Trait = tuple[str, object, bool]


def compiled_cases(
    declaration: Declaration,
    settings: Settings,
    cases: Sequence[CaseCell],
    on_omitted: OnOmitted | None,
) -> Collection[Case]:
    """The cases of one device that are compiled.

    With `pairwise`, a greedy choice takes few cases. It compiles every sample, dtype, layout and value of
    the mark's own axes with gradients and without, where the matrix has such a case. The choice depends
    only on the cases, so it is the same on every worker.

    Args:
        on_omitted: called with the number of cases that are left out, if there are any.
    """
    supported = [entry for entry in cases if not entry.unsupported]
    if settings.compile_cells == COMPILE_CELLS[0]:
        return [entry.case for entry in supported]
    traits = [_traits(entry) for entry in supported]
    missing = set[Trait]().union(*traits)
    kept: list[int] = []
    while missing:
        best = max(range(len(supported)), key=lambda at: len(traits[at] & missing))
        kept.append(best)
        missing -= traits[best]
    if on_omitted is not None and len(kept) < len(supported):
        device = supported[0].case.placement.device
        on_omitted(
            OmittedCompilations(
                declaration.op.name,
                declaration.where,
                device,
                len(supported),
                len(supported) - len(kept),
            )
        )
    return [supported[at].case for at in sorted(kept)]


def _traits(entry: CaseCell) -> set[Trait]:
    cell = entry.cell
    named = {
        "sample": cell.sample_id,
        "dtype": cell.dtype,
        "layout": cell.layout,
        **{f"axis {name}": repr(value) for name, value in cell.axes.items()},
    }
    return {(name, value, cell.requires_grad) for name, value in named.items()}
