"""The items of a mark, and the case in each cell of its matrix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from ..cases.arguments import Placement, wants_grad
from ..cases.case import Case
from ..checks import BODY, Check
from ..core.seeds import seed_of
from ..core.wording import counted, dtype_name
from ..declare.declaration import Declaration
from ..declare.inputs import Sample
from ..declare.known import Known
from ..declare.variant import Variant
from ..settings import Settings
from .cells import Cell, skip_reason, validate_drawable
from .place import ALL_VARIANTS, GENERATED, Place

if TYPE_CHECKING:
    from .fuzz_plan import FuzzPlan

# The parts of an id; items are sorted by it.
Key = tuple[str, ...]
VARIANTS = "variants"  # part of the id of an item that runs the variants of a case


@dataclass(frozen=True, eq=False)
class PlannedVariant:
    """One variant of an item's case.

    Args:
        case: the variant.
        skip: why it does not run; None if it does.
        needs_child: whether it could make a kernel read out of bounds, and so runs only in a child
            process.
    """

    case: Case
    skip: str | None = None
    needs_child: bool = False


@dataclass(frozen=True, eq=False)
class PlannedItem:
    """A planned pytest item: a check on a case or on all its variants, the test's body on a case, or a
    reason why nothing runs.

    Two are equal only if they are the same object: pytest compares parameters, and `==` of the tensors
    inside is not a bool.

    Args:
        id: unique within its test.
        op: `namespace::name`.
        case: None if the device is absent, or nothing applies. For variants, the case of the sample.
        check: None for the body, and if nothing runs.
        skip: why nothing runs; None if something does.
        missing_device: the device that is absent.
        variants: those that the check runs on; empty for an item of the case itself.
        known: the known failures of the mark that may be about this item.
        fuzz: the inputs that the item generates, if it does; `case` is then the case of the first
            sample.
    """

    id: str
    op: str
    case: Case | None = None
    check: Check | None = None
    skip: str | None = None
    missing_device: str | None = None
    variants: tuple[PlannedVariant, ...] = ()
    known: tuple[Known, ...] = ()
    fuzz: FuzzPlan | None = None

    @property
    def needs_child(self) -> bool:
        """Whether it runs only in a child process: one of its inputs could crash the process."""
        if self.fuzz is not None:
            return self.fuzz.risk is not None
        return any(variant.needs_child for variant in self.variants)

    @property
    def is_body(self) -> bool:
        """Whether this is the test's own body on a case."""
        return self.check is None and self.skip is None

    @property
    def check_name(self) -> str:
        """The check's name in the report; empty where nothing runs."""
        return self.check.name if self.check else BODY if self.is_body else ""

    @property
    def place(self) -> Place:
        """The place of the item's case; only the device if that is absent."""
        if self.case is None:
            return Place(device=self.missing_device)
        place = place_of(self.case)
        if self.fuzz is not None:
            return replace(place, sample=None, variant=GENERATED)
        return replace(place, variant=ALL_VARIANTS) if self.variants else place

    @property
    def checked_cases(self) -> tuple[Case, ...]:
        """The cases that the check runs on: the variants, or the case itself; without generated ones."""
        if self.variants:
            return tuple(variant.case for variant in self.variants)
        return () if self.case is None or self.fuzz is not None else (self.case,)

    @property
    def cases(self) -> tuple[Case, ...]:
        """The case and its variants."""
        if self.fuzz is not None:
            return tuple(base.case for base in self.fuzz.bases)
        of_sample = (self.case,) if self.variants and self.case is not None else ()
        return (*of_sample, *self.checked_cases)


def place_of(case: Case) -> Place:
    """The place of a case in the matrix of its test."""
    placement = case.placement
    return Place(
        device=placement.device,
        dtype=dtype_name(placement.dtype),
        requires_grad=placement.requires_grad,
        layout=placement.layout,
        sample=(case.base_case or case).sample_id,
        variant=case.variant,
        aspect=case.aspect or None,
    )


@dataclass(frozen=True, eq=False)
class CaseCell:
    """A case in its cell of the matrix.

    Args:
        key: the parts of the case's id.
        cell: a variant has the cell of its sample.
        unsupported: why the mark's `skip_if` leaves the case out; None if it does not.
    """

    key: Key
    cell: Cell
    case: Case
    unsupported: str | None = None

    def item(self, check: Check | None) -> tuple[Key, PlannedItem]:
        """The item of a check on the case, with its key; None: the item of the test's body."""
        name = check.name if check else BODY
        item = PlannedItem(f"{self.case.id}-{name}", self.case.op.name, self.case, check)
        return (*self.key, name), item

    def skipped(self, reason: str) -> tuple[Key, PlannedItem]:
        """The one skipped item in place of all checks of the case, with its key."""
        return self.key, PlannedItem(self.case.id, self.case.op.name, self.case, skip=reason)

    def variants_item(
        self, check: Check, variants: Sequence[PlannedVariant]
    ) -> tuple[Key, PlannedItem]:
        """The item of a check on variants of the case, with its key."""
        key = (*self.key, VARIANTS, check.name)
        name, runs = self.case.op.name, tuple(variants)
        return key, PlannedItem(join_key(key), name, self.case, check, variants=runs)

    def not_run_item(
        self, variants: Sequence[PlannedVariant], reasons: Sequence[str]
    ) -> tuple[Key, PlannedItem]:
        """The skipped item of variants that do not run, with its key.

        Args:
            variants: each with its own reason.
            reasons: why there are not more of them.
        """
        key = (*self.key, VARIANTS)
        skip = "; ".join([*_reasons(variants), *reasons])
        name, left = self.case.op.name, tuple(variants)
        return key, PlannedItem(join_key(key), name, self.case, skip=skip, variants=left)

    def with_variant(self, variant: Variant, settings: Settings) -> Case:
        """The same case on a variant of its sample."""
        name = variant.sample.id or ""
        key = (*self.key[:-1], name)
        return replace(
            self.case,
            sample=variant.sample,
            id=join_key(key),
            seed=_seed(settings, self.case.op.name, key),
            sample_id=name,
            base_case=self.case,
            variant=variant.step,
            variant_description=variant.description,
            kind=variant.kind,
            aspect=variant.aspect,
            beyond=variant.beyond,
        )


def _reasons(variants: Sequence[PlannedVariant]) -> list[str]:
    """Why variants do not run, each reason once."""
    counts = Counter(variant.skip for variant in variants)
    return [f"{counted(count, 'variant')}: {reason}" for reason, count in counts.items()]


def join_key(key: Key) -> str:
    """The id made from a key."""
    return "-".join(filter(None, key))


def case_cell(
    declaration: Declaration, settings: Settings, cell: Cell, sample: Sample, prefix: str
) -> CaseCell:
    """The case of a sample in a cell.

    Args:
        prefix: the op's part of the ids; empty where the test has one mark only.

    Raises:
        MarkError: for a sample that cannot be drawn in the cell's dtype.
    """
    key: Key = (
        prefix,
        cell.device,
        dtype_name(cell.dtype),
        "withgrad" if cell.requires_grad else "nograd",
        "" if cell.layout == "contiguous" else cell.layout,
        *(f"{name}{value}" for name, value in cell.axes.items()),
        cell.sample_id,
    )
    templates = not declaration.as_given
    listed = declaration.dtypes
    placement = Placement(
        device=cell.device,
        dtype=cell.dtype,
        requires_grad=cell.requires_grad,
        layout=cell.layout,
        cast_real=cell.dtype if templates and declaration.dtypes is not None else None,
        switch_real=templates and not _says_which(sample, cell.dtype),
        gradients_asked=declaration.requires_grad is not None,
        listed_dtypes=None if listed is None else frozenset(listed),
    )
    case = Case(
        op=declaration.op,
        sample=sample,
        placement=placement,
        id=join_key(key),
        seed=_seed(settings, declaration.op.name, key),
        tolerances=declaration.tolerances,
        gradcheck=declaration.gradcheck,
        backend=settings.backend,
        sample_id=cell.sample_id,
        axes=cell.axes,
        reference=declaration.reference,
        strict=declaration.strict or settings.variants.strict,
    )
    unsupported = skip_reason(declaration, cell)
    if unsupported is None:
        validate_drawable(declaration, cell, sample)
    return CaseCell(key, cell, case, unsupported)


def _says_which(sample: Sample, dtype: torch.dtype) -> bool:
    """Whether a real or a described tensor of a sample requires gradients, which decides for the others."""
    real = (leaf for leaf in sample.leaves() if isinstance(leaf, torch.Tensor))
    return any(leaf.requires_grad for leaf in real) or any(
        wants_grad(spec, dtype, mutated=False) for spec in sample.specs()
    )


def _seed(settings: Settings, op: str, key: Key) -> int:
    """The seed of a case, made from the session's seed, the op and the id without the device."""
    without_device = join_key((*key[:1], *key[2:]))
    return seed_of(settings.seed, op, without_device)
