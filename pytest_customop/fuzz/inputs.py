"""Draw argument lists of an op: templates with other sizes, and a few steps of variants on top.

The steps, and the rules for what goes beyond a template, are those of variants: `plan/variants`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from hypothesis import strategies as st

from ..cases.argument_names import names_dims
from ..declare.variant import KINDS, LARGE, SEPARATOR, Predicate, Step, Variant
from ..plan.place import GENERATED
from ..plan.variants.arguments import Words, words_given
from ..plan.variants.numeric import other_in_list, other_number
from ..plan.variants.ranking import steps_of
from ..plan.variants.sample_view import SampleView
from ..plan.variants.shape import DimPlace, by_size, free_places, resizing
from ..plan.variants.shown_sizes import beyond_sample
from .elements import element_steps

_STEPS = 3  # the most steps that are taken after sizes and numbers are drawn
_MOSTLY = st.sampled_from((True, True, True, False))
# At most one step of these kinds: a second one would treat values or dtypes of the first as the author's.
_ONCE = (("values", "magnitudes", "special"), ("positions",), ("dtype", "complex"))
_SMALL = 16
_POWERS = (16, 32, 64, 128, 256, 512, 1024)
_AROUND = tuple(power + by for power in _POWERS for by in (0, -1, 1))
_ELEMENTS = 2**13  # of all tensors of an input, unless the template has more
SALTS = 2**16 - 1  # the largest salt; each salt draws other values

Draw = Callable[[st.SearchStrategy[Any]], Any]


@dataclass(frozen=True)
class Rules:
    """The allowed changes of a template.

    Args:
        kinds: the kinds of steps, of `KINDS`.
        within: whether inputs beyond what the template shows are left out.
        declared_dtypes: whether the mark declares which dtypes the op supports.
        unsupported: returns why the op does not support a step, like the function in a mark's
            `variants=`. None: the op supports everything that it accepts.
    """

    kinds: frozenset[str] = frozenset(KINDS)
    within: bool = True
    declared_dtypes: bool = True
    unsupported: Predicate | None = None


@dataclass(frozen=True, eq=False)
class Generated:
    """One drawn input.

    Args:
        template: the position of the template that it is derived from.
        variant: the changed template.
        salt: selects other values for the same sizes.
        changed: whether it differs from the template.
    """

    template: int
    variant: Variant
    salt: int = 0
    changed: bool = True


@st.composite
def inputs(draw: Draw, templates: Sequence[SampleView], rules: Rules) -> Generated:
    """Inputs similar to some templates; smaller and less changed ones come first.

    Args:
        templates: samples of one op.
    """
    at = draw(st.integers(0, len(templates) - 1))
    within = rules.within or draw(_MOSTLY)
    words = words_given(templates[at].op, (template.sample for template in templates))
    changing = _Changing(draw, templates[at], replace(rules, within=within), words)
    if "shape" in rules.kinds:
        changing.take("shape", changing.sizes())
    if "arguments" in rules.kinds:
        changing.take_numbers()
        if draw(st.booleans()):
            changing.take_any("arguments")
    others = [kind for kind in KINDS if kind not in (*LARGE, "pairs")]
    kinds = [kind for kind in others if kind in rules.kinds]
    if "layout" in kinds and draw(st.sampled_from((False, False, True))):
        changing.take_any("layout")
    if "values" in kinds and draw(st.booleans()):
        changing.take("values", element_steps(draw, changing.view, "values"))
        kinds = [kind for kind in kinds if kind not in _ONCE[0]]
    # A flag before each step, instead of a number of steps, lets Hypothesis leave out any step.
    for _ in range(_STEPS):
        if not kinds or not draw(st.booleans()):
            break
        kind = draw(st.sampled_from(kinds))
        changing.take_any(kind)
        once = next((some for some in _ONCE if kind in some), ())
        kinds = [kind for kind in kinds if kind not in once]
    salt = draw(st.integers(0, SALTS))
    return Generated(at, changing.variant(), salt, bool(changing.taken or salt))


class _Changing:
    """A template to which steps are applied: `view` is its current state."""

    def __init__(self, draw: Draw, template: SampleView, rules: Rules, words: Words) -> None:
        self._draw = draw
        self._template = self.view = template
        self._rules = rules
        self._words = words
        self.taken: list[tuple[str, Step]] = []

    def variant(self) -> Variant:
        """The input as a variant of the template."""
        steps = [step for _, step in self.taken]
        name = f"{self._template.sample.id}{SEPARATOR}{GENERATED}"
        return Variant(
            kind=GENERATED,
            step=GENERATED,
            description="; ".join(step.description for step in steps) or "other values",
            sample=replace(self.view.sample, id=name),
            reads_beyond=any(step.reads_beyond for step in steps),
            beyond=next((step.beyond for step in steps if step.beyond), None),
            aspect=",".join(dict.fromkeys(kind for kind, _ in self.taken)) or GENERATED,
        )

    def take(self, kind: str, step: Step | None) -> None:
        """Take a step, unless it leads beyond what may be tried."""
        if step is None or (self._rules.within and step.beyond):
            return
        sample = self.view.apply(step)
        why = self._rules.unsupported
        if why is not None and why(
            Variant(kind, step.name, step.description, sample, beyond=step.beyond)
        ):
            return
        self.taken.append((kind, step))
        self.view = replace(self.view, sample=sample)

    def take_any(self, kind: str) -> None:
        """Take one of the steps of a kind."""
        draw, view = self._draw, self.view
        if kind in ("values", "positions", "special") and draw(st.booleans()):
            self.take(kind, element_steps(draw, view, kind))
            return
        steps = list(steps_of(view, kind, self._rules.declared_dtypes, self._words))
        if self._rules.within:
            steps = [step for step in steps if step.beyond is None]
        if steps:
            self.take(kind, draw(st.sampled_from(steps)))

    def take_numbers(self) -> None:
        """Replace some numbers, alone or in lists."""
        for argument in self._template.op.arguments:
            name = argument.name
            value = self.view.value_of(argument)
            if _is_number(value) and not names_dims(name) and self._draw(st.booleans()):
                self.take("arguments", _other(self._draw, self.view, name, value))

    def sizes(self) -> Step | None:
        """Other sizes. Sizes that are equal in the template change together."""
        view = self.view
        groups = [group for group in by_size(free_places(view)) if group[0].size > 1]
        limit = max(_ELEMENTS, _elements(view, {}))
        sizes: dict[tuple[str, int], int] = {}
        for group in groups:
            new = self._draw(_sizes_like(group[0].size))
            changed = {**sizes, **_of_group(group, new)}
            fits = _elements(view, changed) <= limit
            if fits and not (self._rules.within and beyond_sample(view, changed)):
                sizes = changed
        new_shapes = {
            argument.path: "x".join(
                str(sizes.get((argument.path, dim), size))
                for dim, size in enumerate(argument.shape)
            )
            for argument in view.tensors
        }
        description = "sizes " + ", ".join(f"{path} {text}" for path, text in new_shapes.items())
        return next(resizing(view, sizes, "sizes", description, 0), None)


def _sizes_like(size: int) -> st.SearchStrategy[int]:
    """Sizes in order: small ones, those around powers of two, multiples of the template's.

    The template's own size is repeated, so that half of the sizes stay. A single draw decides, without a
    second one for whether the size changes: so Hypothesis can shrink any size to the smallest.
    """
    others = {*range(_SMALL), *_AROUND, 2 * size, 3 * size} - {size}
    return st.sampled_from(sorted([*others, *[size] * len(others)]))


def _of_group(group: Sequence[DimPlace], size: int) -> dict[tuple[str, int], int]:
    return {place.key: size for place in group}


def _elements(view: SampleView, sizes: dict[tuple[str, int], int]) -> int:
    """The elements of all tensors at these sizes."""
    return sum(
        prod(sizes.get((argument.path, dim), size) for dim, size in enumerate(argument.shape))
        for argument in view.tensors
    )


# Numbers


def _other(draw: Draw, view: SampleView, name: str, value: Any) -> Step | None:
    """The step to another number, in place of the value or of one element of a list."""
    if isinstance(value, (list, tuple)):
        at = draw(st.integers(0, len(value) - 1))
        number = draw(_whole(value[at]))
        return other_in_list(view, name, value, at, number) if number != value[at] else None
    number = draw(_fraction(value) if isinstance(value, float) else _whole(value))
    return other_number(view, name, value, number) if number != value else None


def _is_number(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return bool(value) and all(type(item) is int for item in value)
    return type(value) in (int, float)


def _whole(value: int) -> st.SearchStrategy[int]:
    return st.integers(min(-2, 2 * value), max(8, 2 * value + 2))


def _fraction(value: float) -> st.SearchStrategy[float]:
    limit = max(4.0, 4 * abs(value)) if abs(value) < 1e6 else 4.0
    drawn = st.floats(-limit, limit, allow_subnormal=False)
    return drawn.map(lambda number: float(f"{number:.3g}"))
