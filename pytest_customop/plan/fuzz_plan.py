"""The plan of an item of generated inputs: the cases of the samples, and what may be changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..cases.case import Case
from ..cases.crash_risk import crash_risk
from ..core.seeds import seed_of
from ..declare.inputs import Sample
from ..declare.variant import Predicate, Variant
from ..settings import Settings
from .items import CaseCell
from .place import GENERATED


@dataclass(frozen=True, eq=False)
class FuzzPlan:
    """The inputs that one item generates.

    Args:
        bases: the cases of the samples, in one cell of the matrix.
        kinds: the kinds of steps, of `KINDS`, that may be taken from a sample.
        count: how many accepted inputs to generate.
        settings: of the session.
        declared_dtypes: whether the mark or the session declares which dtypes the op supports.
        unsupported: the function in the mark's `variants=`.
        id: of the item; the item's seed is made from it and the session's seed.
    """

    bases: Sequence[CaseCell]
    kinds: frozenset[str]
    count: int
    settings: Settings
    declared_dtypes: bool
    unsupported: Predicate | None
    id: str

    @property
    def seed(self) -> int:
        """The seed with which the inputs are drawn."""
        return seed_of(self.settings.seed, GENERATED, self.id)

    @property
    def samples(self) -> list[Sample]:
        """The samples that the inputs are derived from."""
        return [base.case.sample for base in self.bases]

    @property
    def risk(self) -> str | None:
        """Why an input may not run in this process; None if it may."""
        base = self.bases[0]
        return crash_risk(base.case.op, base.cell.device)

    def case(self, template: int, variant: Variant, salt: int) -> Case:
        """The case of a generated input.

        Args:
            template: the position of the sample that it is derived from.
            salt: changes the drawn values; with 0 they are those of the sample's own variants.
        """
        case = self.bases[template].with_variant(variant, self.settings)
        return replace(case, seed=seed_of(case.seed, salt)) if salt else case
