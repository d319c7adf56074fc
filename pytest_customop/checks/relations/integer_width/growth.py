"""Multiply integers by small factors, and predict from the results those for a large factor.

This finds sums and products that wrap in an op that takes one dtype only: the result differs from the
predicted one by a multiple of 2 to the number of bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch

from ....cases.arguments import Arguments
from ....cases.case import Case
from ....cases.crash_risk import may_crash
from ....cases.tensors import is_differentiable
from ...values.memory.calls import Caller, comparable, copied, results
from .arguments import Argument

_BITS = (32, 16, 8)
_LEARNED = range(5)  # factors
_FACTORS = (300, 50_000)  # those whose squares exceed 16 and 32 bits
_COUNTS = 64  # a floating-point result may be a multiple of a sum of at most so many products
_MIDDLE = 2_000  # for 32 bits: if a product with this wraps, the other factor is that of a hash
_LARGEST_UNIT = 2**15  # the most that one more may add to an integer; more is a factor of a hash
_STEPS = (5, 1)  # elements from one that is not 0 to the next


class Wrapped(NamedTuple):
    """A result that wraps.

    Args:
        wrong: how it differs from the predicted one.
        result: its name.
        every: elements from one that is not 0 to the next.
        factor: what the numbers are multiplied by.
        bits: in which it wraps.
        beyond: whether the sample shows no such numbers.
    """

    wrong: str
    result: str
    every: int
    factor: int
    bits: int
    beyond: bool


class _Curve(NamedTuple):
    """A result as a polynomial of the factor: `first + factor * slope + factor ** 2 * bend`."""

    first: torch.Tensor
    slope: torch.Tensor
    bend: torch.Tensor

    def at(self, factor: int) -> torch.Tensor:
        """The predicted result, in float64."""
        return self.first + factor * self.slope + factor**2 * self.bend

    @property
    def unit(self) -> torch.Tensor:
        """How much one product, or one number, adds; a sum of some adds more."""
        return torch.where(self.bend != 0, self.bend, self.slope).abs()


def wrapped_result(case: Case, arguments: Sequence[Argument]) -> Wrapped | None:
    """The first result that wraps; None without one."""
    if any(argument.shown.low > 0 or argument.shown.high < _LEARNED[-1] for argument in arguments):
        return None
    return _Growth(case, arguments).wrapped()


class _Growth:
    def __init__(self, case: Case, arguments: Sequence[Argument]) -> None:
        self._case = case
        self._arguments = arguments
        self._calls = Caller(case)
        self._is_native = may_crash(case)

    def wrapped(self) -> Wrapped | None:
        for step in _STEPS:
            outputs = [self._at(step, factor) for factor in _LEARNED]
            curves = _curves([output for output in outputs if output is not None])
            curves = {
                name: curve for name, curve in curves.items() if self._holds(name, curve, step)
            }
            for factor, beyond in self._factors() if curves else ():
                actual = self._at(step, factor)
                for name, curve in curves.items():
                    if actual is not None and name in actual:
                        bits = _bits_that_explain(actual[name], curve, factor, self._own_bits)
                        if bits and self._repeats(name, curve, step, factor, bits):
                            text = _text(name, actual[name], curve.at(factor))
                            return Wrapped(text, name, step, factor, bits, beyond)
        return None

    @property
    def _own_bits(self) -> int:
        return 8 * min(argument.dtype.itemsize for argument in self._arguments)

    def _repeats(self, name: str, curve: _Curve, step: int, factor: int, bits: int) -> bool:
        """Whether the same bits explain the result for another factor: one may match by chance."""
        output = self._at(step, factor - 2)
        if output is None or name not in output:
            return False
        return _bits_that_explain(output[name], curve, factor - 2, self._own_bits) == bits

    def _holds(self, name: str, curve: _Curve, step: int) -> bool:
        """Whether a result for 32 bits is as predicted for a medium factor too."""
        if self._own_bits < 32:
            return True
        if min(argument.shown.high for argument in self._arguments) < _MIDDLE:
            return False
        output = self._at(step, _MIDDLE)
        if output is None or name not in output:
            return False
        predicted = curve.at(_MIDDLE)
        gaps = (output[name].double() - predicted).abs()
        return bool((gaps <= 1e-3 * predicted.abs()).all())

    def _factors(self) -> Iterator[tuple[int, bool]]:
        """Large factors, and whether the sample shows no such numbers."""
        shown = min(argument.shown.high for argument in self._arguments)
        highest = min(argument.limits.high for argument in self._arguments)
        for limit, beyond in ((shown, False), (highest, True)):
            if beyond and (self._is_native or shown == highest):
                continue
            for factor in sorted({*(factor for factor in _FACTORS if factor < limit), limit - 2}):
                if factor > _LEARNED[-1]:
                    yield factor, beyond

    def _at(self, step: int, factor: int) -> dict[str, torch.Tensor] | None:
        """The results by their names; None where the op raises."""
        run = self._calls(self._inputs(step, factor))
        if run.error is not None:
            return None
        return {
            name: value
            for name, value in copied(results(run))
            if isinstance(value, torch.Tensor) and comparable(value) and value.dtype != torch.bool
            if not value.is_complex() and value.layout == torch.strided
        }

    def _inputs(self, step: int, factor: int) -> Arguments:
        names = [argument.name for argument in self._arguments]

        def change(name: str, tensor: torch.Tensor) -> torch.Tensor:
            return multiples(tensor, step, factor) if name in names else tensor

        return self._case.inputs().map_distinct(change)


def multiples(like: torch.Tensor, step: int, factor: int) -> torch.Tensor:
    """A tensor of the sizes, strides and dtype of another one: the factor, and 0 between."""
    values = torch.where(torch.arange(like.numel()) % step == 0, factor, 0)
    return torch.empty_like(like).copy_(values.reshape(like.shape))


def _curves(outputs: Sequence[dict[str, torch.Tensor]]) -> dict[str, _Curve]:
    """The results that are such a polynomial for all small factors, by their names."""
    if len(outputs) < len(_LEARNED):
        return {}
    curves = {}
    for name, first in outputs[0].items():
        if any(name not in output or output[name].shape != first.shape for output in outputs):
            continue
        values = [output[name].double() for output in outputs]
        bend = (values[2] - 2 * values[1] + values[0]) / 2
        curve = _Curve(values[0], values[1] - values[0] - bend, bend)
        allowed = 1e-5 * max(float(value.abs().max()) for value in values) if first.numel() else 0.0
        allowed = allowed if is_differentiable(first.dtype) else 0.0
        follows = all(
            bool(((value - curve.at(factor)).abs() <= allowed).all())
            for factor, value in enumerate(values)
        )
        small = is_differentiable(first.dtype) or bool((curve.unit <= _LARGEST_UNIT).all())
        if follows and small and bool((curve.unit > allowed).any()):
            curves[name] = curve
    return curves


def _bits_that_explain(actual: torch.Tensor, curve: _Curve, factor: int, own_bits: int) -> int:
    """The number of bits in which a result wraps; 0 where it is as predicted, or differs otherwise.

    Args:
        own_bits: the number of bits of the argument.
    """
    fractions = is_differentiable(actual.dtype)
    known = torch.finfo(actual.dtype) if fractions else torch.iinfo(actual.dtype)
    predicted = curve.at(factor)
    if actual.shape != predicted.shape or (fractions and actual.dtype.itemsize < 4):
        return 0
    fits = (predicted >= known.min) & (predicted <= known.max) & (predicted.abs() < 2.0**52)
    gaps = actual.double() - predicted
    wrong = fits & (gaps.abs() > 1e-3 * predicted.abs()) & actual.double().isfinite()
    if not bool(wrong.any()):
        return 0
    unit = curve.unit[wrong] if fractions else torch.ones_like(gaps[wrong])
    if bool((unit == 0).any()):
        return 0
    turns, sizes = gaps[wrong] / unit, (predicted - curve.first)[wrong] / unit
    for bits in _BITS:
        if bits <= 8 if fractions else bits >= 8 * actual.dtype.itemsize:
            continue
        counts = range(1, _COUNTS + 1) if fractions else (1,)
        # Reading the same bits with or without a sign is no sum that wraps.
        least = 2.0**bits if bits == own_bits else 2.0 ** (bits - 1)
        allowed = 2e-5 if fractions else 0.0
        if any(_explains(turns * count, sizes * count, bits, least, allowed) for count in counts):
            return bits
    return 0


def _explains(
    gaps: torch.Tensor, sizes: torch.Tensor, bits: int, least: float, allowed: float
) -> bool:
    """Whether all differences are multiples of 2 to the bits, for numbers of at least `least`.

    The rest must then fit into so many bits.
    """
    turns = gaps / 2.0**bits
    exact = bool(((turns - turns.round()).abs() <= allowed).all())
    wrapped = bool((turns.round() != 0).all()) and bool((sizes.abs() >= least).all())
    return exact and wrapped and bool(((sizes + gaps).abs() <= 2.0**bits).all())


def _text(name: str, actual: torch.Tensor, predicted: torch.Tensor) -> str:
    wrong = (actual.double() - predicted).abs() > 1e-3 * predicted.abs()
    place = tuple(int(i) for i in wrong.nonzero()[0])
    where = f" at {list(place)}" if place else ""
    return f"{name}{where}: {actual[place].item():.9g} instead of {predicted[place].item():.9g}"
