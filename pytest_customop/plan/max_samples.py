"""At most so many samples of a mark: which ones, and what that leaves out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from ..cases.case import seed_of
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
    """The cells of the samples that `--customop-max-samples` leaves, in their order.

    A list of samples is capped as a whole; of a samples function, what each call returns. Which ones
    stay follows from the session's seed, the op and their ids alone: the same ones on every device
    and worker, in every dtype. Samples that have no cell anyway do not count.

    Args:
        on_omitted: called with what is left out, if anything is.
    """
    every = list(cells)
    if settings.max_samples is None:
        return every
    stay = _chosen(declaration, settings.seed, settings.max_samples, every)
    kept = [one for one in every if _origin(declaration, one[0]) in stay]
    if on_omitted is not None and len(kept) < len(every):
        here = dict.fromkeys(cell.sample_id for cell, _ in kept)
        gone = dict.fromkeys(
            cell.sample_id for cell, _ in every if _origin(declaration, cell) not in stay
        )
        on_omitted(OmittedSamples(declaration.op.name, declaration.where, tuple(here), tuple(gone)))
    return kept


def _origin(declaration: Declaration, cell: Cell) -> tuple[str, str]:
    """The list that a cell's sample stands in, and its id there."""
    if not callable(declaration.samples):
        return "", cell.sample_id
    return repr((cell.dtype, cell.requires_grad, [*cell.axes.items()])), cell.sample_id


def _chosen(
    declaration: Declaration, seed: int, most: int, every: Sequence[CellSample]
) -> set[tuple[str, str]]:
    lists: dict[str, dict[str, int]] = defaultdict(dict)
    for cell, _ in every:
        origin, name = _origin(declaration, cell)
        lists[origin][name] = seed_of("max-samples", seed, declaration.op.name, name)
    return {
        (origin, name)
        for origin, ranks in lists.items()
        for name in sorted(ranks, key=ranks.__getitem__)[:most]
    }
