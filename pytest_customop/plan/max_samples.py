"""`--customop-max-samples`: choose which samples of a mark run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from ..core.seeds import seed_of
from ..declare.declaration import Declaration
from ..declare.inputs import Sample
from ..settings import Settings
from .cells import Cell
from .omissions import OmittedSamples, OnOmitted

CellSample = tuple[Cell, Sample]


def limit_samples(
    declaration: Declaration,
    settings: Settings,
    cells: Iterable[CellSample],
    on_omitted: OnOmitted | None,
) -> list[CellSample]:
    """The cells of the samples that run, in their order.

    The limit applies to a whole list of samples, and to the result of each call of a samples function.
    The choice depends only on the session's seed, the op and the ids of the samples, so it is the same
    on every device and worker and in every dtype. Samples without a cell do not count.

    Args:
        on_omitted: called with the samples that are left out, if there are any.
    """
    all_cells = list(cells)
    if settings.max_samples is None:
        return all_cells
    stay = _choose(declaration, settings.seed, settings.max_samples, all_cells)
    kept = [
        cell_sample for cell_sample in all_cells if _origin(declaration, cell_sample[0]) in stay
    ]
    if on_omitted is not None and len(kept) < len(all_cells):
        here = dict.fromkeys(cell.sample_id for cell, _ in kept)
        gone = dict.fromkeys(
            cell.sample_id for cell, _ in all_cells if _origin(declaration, cell) not in stay
        )
        on_omitted(OmittedSamples(declaration.op.name, declaration.where, tuple(here), tuple(gone)))
    return kept


def _origin(declaration: Declaration, cell: Cell) -> tuple[str, str]:
    """The list of samples that a cell's sample comes from, and its id there."""
    if not callable(declaration.samples):
        return "", cell.sample_id
    return repr((cell.dtype, cell.requires_grad, [*cell.axes.items()])), cell.sample_id


def _choose(
    declaration: Declaration, seed: int, most: int, cells: Sequence[CellSample]
) -> set[tuple[str, str]]:
    """The origins of the samples that run, at most `most` from each list."""
    lists: dict[str, dict[str, int]] = defaultdict(dict)
    for cell, _ in cells:
        origin, name = _origin(declaration, cell)
        lists[origin][name] = seed_of("max-samples", seed, declaration.op.name, name)
    return {
        (origin, name)
        for origin, ranks in lists.items()
        for name in sorted(ranks, key=ranks.__getitem__)[:most]
    }
