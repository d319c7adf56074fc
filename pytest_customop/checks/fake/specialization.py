"""Run a fake kernel at symbolic sizes, and find the sizes that it turns into constants."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ...cases.case import Case
from ...cases.fake_run import FakeRun, fake_run, shapes_of
from ...cases.resize import Place, places
from ...cases.run import gradients
from ...compat.fakes import enter_fake_mode
from ...compat.symbols import guards, is_constant_size, substitute
from ...core.tracebacks import reraise_bug

_FAKE_KERNEL = "the fake kernel"
_BACKWARD = "the backward"
_SETUP = "what is saved for the backward"
_TO_INT = re.compile(r"\bint\(")
# A line that converts a size to a plain number, and does not branch on it.
_CONVERSION = re.compile(r"^(?!.*(==|\b(if|while|assert)\b)).*\b(int|math\.\w+)\(")


@dataclass(frozen=True)
class Pin:
    """Sizes that became constants, alone or together.

    Args:
        places: which sizes.
        line: the line of the author's code that did it, if torch knows.
        relation: the expression that became constant, if it is not the size itself: `Eq(s0*s1, 12)`.
        culprit: `the fake kernel`, `what is saved for the backward`, or `the backward`.
    """

    places: tuple[Place, ...]
    line: str | None
    relation: str | None
    culprit: str

    @property
    def is_of_backward(self) -> bool:
        """Whether the autograd formula made the constant, and not the fake kernel.

        Saving a size as `int(...)` counts like a mistake in the fake kernel, because the size itself could
        be saved. `1 / math.sqrt(size)` does not: it is meant to be computed once.
        """
        saved_as_int = self.line is not None and bool(_TO_INT.search(self.line))
        return self.culprit == _BACKWARD or (self.culprit == _SETUP and not saved_as_int)

    def __str__(self) -> str:
        dims: dict[int, list[str]] = {}
        for place in self.places:
            dims.setdefault(place.size, []).append(f"dim {place.dim} of `{place.argument}`")
        return " and ".join(f"size {size} at {', '.join(where)}" for size, where in dims.items())


@dataclass(frozen=True, eq=False)
class Traced:
    """A call on symbolic sizes, and the assumptions that it made about them.

    Args:
        fake: the call.
        pins: the sizes that became constants.
        backward_error: what its backward raised, if it ran and raised.
    """

    fake: FakeRun
    pins: tuple[Pin, ...] = ()
    backward_error: Exception | None = None

    def bindings(self, case: Case) -> dict[Any, int] | None:
        """The sizes of a case, by symbol; None if the case violates an assumption of the trace."""
        bindings = self.fake.bindings(case.eager.arguments)
        if bindings is None or not all(
            substitute(relation, bindings) is True for relation, _ in guards(self.fake.mode)
        ):
            return None
        return bindings


def trace(case: Case, *, backward: bool) -> Traced:
    """Call the op with one symbol for each size, and then its backward.

    Args:
        case: the case; its int arguments stay numbers.
        backward: whether to run the backward, if the call works.
    """
    fake = fake_run(shapes_of(case), symbolic=True)
    if fake.error is not None:
        return Traced(fake)
    pins = _told_apart(case, _pins(case, fake, _FAKE_KERNEL))
    if not backward:
        return Traced(fake, tuple(pins))
    error = fake_gradients(fake)
    if error is not None:
        return Traced(fake, tuple(pins), error)
    before = {place for pin in pins for place in pin.places}
    for pin in _pins(case, fake, _BACKWARD):
        if not before.issuperset(pin.places):
            pins.append(pin)
    return Traced(fake, tuple(pins))


def _told_apart(case: Case, pins: list[Pin]) -> list[Pin]:
    """Attribute to the formula the constants that the call makes only when it runs with gradients."""
    if not pins or not case.requires_grad:
        return pins
    with torch.no_grad():
        plain = fake_run(shapes_of(case), symbolic=True)
    if plain.error is not None:
        return pins
    own = {place for pin in _pins(case, plain, _FAKE_KERNEL) for place in pin.places}
    return [pin if own & {*pin.places} else replace(pin, culprit=_SETUP) for pin in pins]


def only_next_to_one(case: Case, changed: Case, places: Collection[tuple[str, int]]) -> bool:
    """Whether sizes are constants in a case only because an output has a size of 0 or 1 there.

    Torch makes such a size a constant, and with it the sizes that it is computed from: a size 4, where an
    output has 4 - 3 elements. At other sizes, where the output is larger, they stay symbolic.

    Args:
        changed: the case at other sizes.
        places: the arguments and dims of the constants.
    """
    if _differs_below_two(case, changed):
        return True
    if not _grows_from_one(case, changed):
        return False
    traced = trace(changed, backward=False)
    pinned = {(place.argument, place.dim) for pin in traced.pins for place in pin.places}
    return traced.fake.error is None and not pinned & {*places}


def _differs_below_two(case: Case, changed: Case) -> bool:
    """Whether an output size is 0 in one of the cases and 1 in the other: a constant in both."""
    return any({*sizes} == {0, 1} for sizes in _output_sizes(case, changed))


def _grows_from_one(case: Case, changed: Case) -> bool:
    """Whether an output size is 0 or 1 in one of the cases, and larger in the other."""
    return any((small < 2) != (large < 2) for small, large in _output_sizes(case, changed))


def _output_sizes(case: Case, changed: Case) -> Iterator[tuple[int, int]]:
    """Each output size, as a pair: in the first case and in the other."""
    first, second = (
        {name: output.shape for name, output in item.eager.outputs if isinstance(output, Tensor)}
        for item in (case, changed)
    )
    for name, shape in first.items():
        yield from zip(shape, second.get(name, ()), strict=False)


def fake_gradients(fake: FakeRun) -> Exception | None:
    """Run the backward of a call on fake tensors; returns what it raises."""
    outputs = fake.run.differentiable_outputs
    try:
        with enter_fake_mode(fake.mode):
            grad_outputs = [tensor.detach().clone() for _, tensor in outputs]
            gradients(fake.run.arguments, outputs, grad_outputs)
    except Exception as error:  # whatever a backward raises is a result here
        reraise_bug(error)
        return error
    return None


def _pins(case: Case, fake: FakeRun, culprit: str) -> list[Pin]:
    """The sizes that are constant now: equal ones together, then those in a relation."""
    origins = {place: fake.origins[place.argument, "size", place.dim] for place in places(case)}
    now = dict(fake.run.arguments.tensors())
    constant: dict[int, list[Place]] = {}
    for place, origin in origins.items():
        size = now[place.argument].shape[place.dim]
        if getattr(origin, "is_Symbol", False) and is_constant_size(size):
            constant.setdefault(place.size, []).append(place)
    assumed = guards(fake.mode)
    pins = [
        Pin(tuple(group), _line({origins[place] for place in group}, assumed), None, culprit)
        for group in constant.values()
    ]
    done = {origins[place] for group in constant.values() for place in group}
    values = fake.bindings(case.eager.arguments) or {}
    for relation, line in assumed:
        if relation.free_symbols <= done or not _pinning(relation, values, line):
            continue
        among = tuple(place for place in origins if origins[place] in relation.free_symbols)
        if among:
            pins.append(Pin(among, line, str(relation), culprit))
            done |= relation.free_symbols
    return pins


def _line(symbols: set[Any], assumed: list[tuple[Any, str | None]]) -> str | None:
    """The line that made these symbols constants: the first that compared only them with a number.

    If there is none: the first line with any relation of only these symbols.
    """
    alone = [(relation, line) for relation, line in assumed if relation.free_symbols <= symbols]
    alone.sort(key=lambda pair: not _is_equation_with_number(pair[0]))
    return alone[0][1] if alone else None


def _is_equation_with_number(relation: Any) -> bool:
    is_equation = getattr(relation, "rel_op", None) == "=="
    return is_equation and bool(relation.lhs.is_number or relation.rhs.is_number)


def _pinning(relation: Any, values: Mapping[Any, int], line: str | None) -> bool:
    """Whether a relation fixes its symbols: an equation with a number that other values do not fulfill.

    Divisibility does not fix them, nor does a comparison of sizes with each other, nor `n // 8 == 1`.
    A conversion, `int(n / 8)`, leaves an equation that nearby values fulfill too, so only doubled values
    are tried.
    """
    symbols = relation.free_symbols
    if (
        not _is_equation_with_number(relation)
        or "Mod" in str(relation)
        or not symbols <= set(values)
    ):
        return False
    return all(
        substitute(relation, {**values, **changed}) is False
        for changed in _changed_values(
            {symbol: values[symbol] for symbol in symbols},
            nearby=not _CONVERSION.search(line or ""),
        )
    )


def _changed_values(values: Mapping[Any, int], *, nearby: bool) -> Iterator[dict[Any, int]]:
    """Other values: doubled and, if `nearby`, one less and one more, together and one at a time."""
    yield {symbol: 2 * value for symbol, value in values.items()}
    for step in (-1, 1) if nearby else ():
        yield {symbol: value + step for symbol, value in values.items()}
        for symbol, value in values.items():
            yield {symbol: value + step}
