"""Sort the variants of a sample by how likely they are to find something."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from functools import cache, partial
from itertools import chain
from types import MappingProxyType
from typing import Any

import torch

from ...cases.arguments import Placement
from ...core.seeds import seed_of
from ...declare.inputs import Sample, TensorSpec
from ...declare.ops import Op
from ...declare.variant import Step, Variant
from . import (
    alias,
    arguments,
    dtype,
    formulas,
    gradients,
    large,
    layout,
    no_entries,
    pairs,
    parts,
    repeats,
    sentinels,
    shape,
    special_numbers,
    spread,
    values,
)
from .arguments import Words
from .sample_view import SampleView

# Called with a kind of variants and the exception that kept them from being derived.
OnBug = Callable[[str, Exception], None]

_Found = tuple[Step, str, Sample, Any]  # the step, its kind, the changed sample and its signature
_LATER = 3  # ranks by which a step beyond the sample comes later
ONLY_FULL = 10  # steps of this rank and above belong to the full set only
# The steps of each kind that need only the sample.
_STEPS: dict[str, tuple[Callable[[SampleView], Iterable[Step]], ...]] = {
    "layout": (layout.steps,),
    "shape": (shape.steps, no_entries.steps, formulas.steps),
    "large": (large.steps, parts.steps),
    "long": (large.long_steps,),
    "values": (values.steps, spread.steps, spread.uneven, special_numbers.steps),
    "magnitudes": (spread.magnitudes,),
    "positions": (values.positions, repeats.steps, sentinels.steps),
    "special": (values.special,),
    "gradients": (gradients.steps,),
    "alias": (alias.steps,),
}


def ranked_variants(
    op: Op,
    sample: Sample,
    placement: Placement,
    *,
    kinds: Collection[str],
    declared_dtypes: bool,
    seed: int,
    seen: set[Any],
    words: Words = MappingProxyType({}),
    on_bug: OnBug | None = None,
) -> Iterator[Variant]:
    """The variants of a sample, those most likely to find something first.

    Args:
        placement: of the case that they are derived from.
        kinds: the kinds to derive, of `KINDS`.
        declared_dtypes: whether the mark or the session declares which dtypes the op supports.
        seed: orders the steps of the same rank.
        seen: the signatures of what already runs, which is not derived again; the signatures of the
            variants are added.
        words: the strings and dtypes of all samples of the mark, which are tried in this one too.
        on_bug: called with a kind that cannot be derived, and the exception: a mistake in this package.
            The other kinds are derived. Without it, the exception is raised.
    """
    view = SampleView(op, sample, placement)
    seen.add(call_signature(sample))

    def derive(changed: SampleView, kind: str) -> Iterable[Step]:
        return steps_of(changed, kind, declared_dtypes, words)

    def place(candidate: _Found) -> tuple[bool, int, bool, int]:
        step, kind, *_ = candidate
        # Steps beyond the sample give only notes and come later, except positions that an op should reject.
        later = _LATER if step.beyond is not None and kind != "positions" else 0
        rank = (step.rank >= ONLY_FULL, step.rank + later)
        return *rank, kind == "pairs", _order(seed, op.name, step.name)

    alone = [kind for kind in kinds if kind != "pairs"]
    candidates = [
        found
        for kind in alone
        for found in _applied(view, kind, partial(derive, view, kind), on_bug)
    ]
    if "pairs" in kinds:
        # A step that leads to another sample is left out: that sample has its own variants.
        new = [(step, kind) for step, kind, _, signature in candidates if signature not in seen]
        candidates += _applied(view, "pairs", partial(pairs.steps, view, new, derive), on_bug)
    for step, kind, changed, signature in sorted(candidates, key=place):
        if signature not in seen:
            seen.add(signature)
            likely = step.rank < ONLY_FULL
            yield Variant(
                kind,
                step.name,
                step.description,
                changed,
                step.reads_beyond,
                likely,
                step.beyond,
                _aspect(view, step, kind),
            )


def _applied(
    view: SampleView, kind: str, steps: Callable[[], Iterable[Step]], on_bug: OnBug | None
) -> list[_Found]:
    """The samples that the steps of a kind lead to; none if they cannot be derived."""
    try:
        changed = [(step, view.apply(step)) for step in steps()]
        return [(step, kind, sample, call_signature(sample)) for step, sample in changed]
    except Exception as error:  # a mistake in a module of steps
        if on_bug is None:
            raise
        on_bug(kind, error)
        return []


def _aspect(view: SampleView, step: Step, kind: str) -> str:
    """What a step changes: the named arguments, the number of dims, or else its kind."""
    if step.aspect is not None:
        return step.aspect
    if kind == "arguments":
        return ",".join([*step.changes, *step.dropped])
    dims = {tensor.path: len(tensor.shape) for tensor in view.tensors}
    changed = [(path, to) for path, to in step.changes.items() if isinstance(to, TensorSpec)]
    if any(len(to.shape) != dims.get(path, len(to.shape)) for path, to in changed):
        return "dims"
    return kind


@cache
def _order(*parts: object) -> int:
    """The position of a step among those of its rank; cached, as every sample has the same steps."""
    return seed_of(*parts)


def steps_of(view: SampleView, kind: str, declared_dtypes: bool, words: Words) -> Iterable[Step]:
    """Every step of a kind from a sample.

    Args:
        kind: one of `KINDS` except `pairs`, which combine the others.
        declared_dtypes, words: as in `ranked_variants`.
    """
    if kind == "dtype":
        return dtype.steps(view, declared_dtypes)
    if kind == "complex":
        return () if declared_dtypes else dtype.complex_numbers(view)
    if kind == "arguments":
        return arguments.steps(view, words)
    return chain.from_iterable(steps(view) for steps in _STEPS[kind])


def call_signature(sample: Sample) -> Any:
    """A hashable value that is equal for samples that describe the same call."""
    named = sorted((name, _signature_of(value)) for name, value in sample.kwargs.items())
    return tuple(map(_signature_of, sample.args)), tuple(named)


def _signature_of(value: Any) -> Any:
    if isinstance(value, TensorSpec):
        if isinstance(value.values, torch.Tensor):
            return f"{value.values.data_ptr()} {replace(value, values=None)!r}"
        return repr(value)
    if isinstance(value, (list, tuple)):
        return tuple(map(_signature_of, value))
    if isinstance(value, torch.Tensor):
        return f"tensor {id(value)}"
    return repr(value)
