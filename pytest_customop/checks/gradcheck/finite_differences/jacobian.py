"""Find where an autograd formula and finite differences differ, and whether that proves a defect.

A mismatch proves one only where the function is smooth. At a kink, the one-sided differences differ as
much as formula and central difference. If the central difference has yet another value at a larger step,
no step can be trusted. Such places are unclear, not wrong.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from ....declare.inputs import GradOptions
from .projection import Draw, gradient_of, tolerance
from .vectors import ROUNDING, Output, Slopes, VectorFunction

RIGHT, UNCLEAR, WRONG = "right", "unclear", "wrong"

# Differences between difference quotients explain a mismatch if they exceed this share of it: 2 was
# measured at the kinks of relu, 0.004 at wrong gradients.
_EXPLAINS = 0.1


@dataclass(frozen=True)
class Pair:
    """The comparison of one output's derivative by one input.

    Args:
        source, target: the positions of the input and of the output.
        verdict: right, wrong, or unclear.
        numeric, formula: the derivative by finite differences and by the formula, at the first wrong
            element or, for a larger function, of the weighted output along the direction.
        element: that element as text; empty for a larger function.
        still: whether no element of the output changes smoothly, and some do not change at all.
        zero: whether the formula gives no gradient at all.
        factor: formula / numeric, if that is the same for all elements.
        jacobians: for small functions: by finite differences and by the formula.
        confirmed: for small functions: the elements that are certainly wrong.
        partial: whether the formula is 0 at the element, and not for all elements of the output.
    """

    source: int
    target: int
    verdict: str
    numeric: float
    formula: float
    element: str = ""
    still: bool = False
    zero: bool = False
    factor: float | None = None
    jacobians: tuple[Tensor, Tensor] | None = field(default=None, repr=False)
    confirmed: Tensor | None = field(default=None, repr=False)
    partial: bool = False

    def same_place(self, other: Pair) -> bool:
        """Whether both have the same input and output, and a wrong element in common."""
        if (self.source, self.target) != (other.source, other.target):
            return False
        if self.confirmed is None or other.confirmed is None:
            return True
        return bool((self.confirmed & other.confirmed).any())


def compare(function: VectorFunction, draw: Draw | None, options: GradOptions) -> list[Pair]:
    """Compare the derivative of every output by every input.

    Args:
        function: the function.
        draw: weights and directions for a large function; None compares element by element.
        options: step and tolerances.

    Raises:
        CallError, OutputsChanged: if the function cannot be called one step away.
    """
    if draw is None:
        return _compare_elements(function, options)
    return _compare_projected(function, draw, options)


# ------------------------------------------------------------------------------ element by element


@dataclass(frozen=True)
class _Columns:
    """The slopes of one output along the elements of one input, as the columns of matrices."""

    ahead: Tensor
    behind: Tensor
    centre: Tensor
    wide: Tensor

    @staticmethod
    def of(slopes: list[Slopes], target: int) -> _Columns:
        """The columns of one output, one for each direction."""
        return _Columns(
            *(
                torch.stack([getattr(slope, name)[target] for slope in slopes], 1)
                for name in ("ahead", "behind", "centre", "wide")
            )
        )


def _noise(output: Output, eps: float) -> Tensor:
    """The error of difference quotients from rounding of the outputs, a row for each element."""
    return 8 * ROUNDING * output.values.abs()[:, None] / eps


def _compare_elements(function: VectorFunction, options: GradOptions) -> list[Pair]:
    rows = [_rows(function, target) for target in range(len(function.outputs))]
    pairs = []
    for source, point in enumerate(function.point):
        slopes = [
            function.slopes(source, unit, options.eps)
            for unit in torch.eye(point.numel()).to(point)
        ]
        if not slopes:
            continue
        taken = torch.stack([slope.step.sum() for slope in slopes])
        for target in range(len(function.outputs)):
            columns = _Columns.of(slopes, target)
            formula = rows[target][source] * taken
            pairs.append(_elements_pair(function, (source, target), columns, formula, options))
    return pairs


def _rows(function: VectorFunction, target: int) -> list[Tensor]:
    """The Jacobian of one output by each input, by the formula."""
    values = function.outputs[target].values
    rows = [gradient_of(function, target, unit) for unit in torch.eye(values.numel()).to(values)]
    return [torch.stack(column) for column in zip(*rows, strict=True)]


def _elements_pair(
    function: VectorFunction,
    place: tuple[int, int],
    columns: _Columns,
    formula: Tensor,
    options: GradOptions,
) -> Pair:
    source, target = place
    output = function.outputs[target]
    noise = _noise(output, options.eps)
    larger = torch.maximum(columns.centre.abs(), formula.abs())
    error = (columns.centre - formula).abs()
    wrong = ~(error <= options.atol + options.rtol * larger + noise)
    confirmed = wrong & _certain(columns, formula, noise)
    verdict = WRONG if confirmed.any() else UNCLEAR if wrong.any() else RIGHT
    first = (confirmed if confirmed.any() else wrong).nonzero()
    row, column = (int(i) for i in first[0]) if len(first) else (0, 0)
    smooth, still, _ = _motion(columns, noise, options.eps)
    return Pair(
        source,
        target,
        verdict,
        float(columns.centre[row, column]),
        float(formula[row, column]),
        element=f"{output.name}{output.where(row)} by "
        f"{function.inputs[source].name}{function.inputs[source].where(column)}",
        still=bool(still.any() and not smooth.any()),
        zero=not formula.any(),
        factor=_common_factor(columns.centre, formula),
        jacobians=(columns.centre, formula),
        confirmed=confirmed,
        partial=not formula[row, column] and bool(formula[:, column].any()),
    )


def _certain(columns: _Columns, formula: Tensor, noise: Tensor) -> Tensor:
    """The elements where difference quotients agree with each other far better than with the formula."""
    error = (columns.centre - formula).abs()
    bend = (columns.ahead - columns.behind).abs()
    spread = (columns.centre - columns.wide).abs()
    counted = (columns.centre != 0) | (formula != 0)
    usual = max(_median(bend[counted]), _median(spread[counted]))
    # NaN in a quotient or in the formula makes these comparisons false.
    limit = _EXPLAINS * error
    apart = (bend <= limit) & (spread <= limit) & (error > 2 * noise) & (limit > usual)
    # NaN or inf is wrong where no output has a kink; at a kink, 0 * inf spreads over a whole column.
    mild = 0.1 * (1 + columns.centre.abs())
    plain = ((bend <= mild) & (spread <= mild)).all(0)
    return torch.where(formula.isfinite(), apart, plain)


def _median(values: Tensor) -> float:
    finite = values[values.isfinite()]
    return float(finite.median()) if finite.numel() else 0.0


def _motion(columns: _Columns, noise: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """Where outputs change smoothly, where not at all, and where a larger step gives the same slope."""
    still = (columns.ahead.abs() <= noise) & (columns.behind.abs() <= noise)
    size = columns.centre.abs()
    share = min(0.05, max(1e-3, 30 * eps))  # a smooth function bends by some eps
    limit = share * (size + _median(size[size > 0])) + 2 * noise
    smooth = ((columns.ahead - columns.behind).abs() <= limit) & ~still
    return smooth, still, (columns.centre - columns.wide).abs() <= limit


def _common_factor(numeric: Tensor, formula: Tensor) -> float | None:
    counted = numeric.abs() > 1e-3 * numeric.abs().max()
    if not counted.any():
        return None
    factors = formula[counted] / numeric[counted]
    middle = float(factors.median())
    same = (factors - middle).abs() <= 1e-4 * abs(middle)
    return middle if math.isfinite(middle) and bool(same.all()) and middle != 0 else None


# ------------------------------------------------------------------------------- along a direction


def _compare_projected(function: VectorFunction, draw: Draw, options: GradOptions) -> list[Pair]:
    slopes = {
        source: function.slopes(source, direction, options.eps)
        for source, direction in enumerate(draw.directions)
        if direction.numel() > 0
    }
    return [
        _projected_pair(function, (source, target), weight, source_slopes, options)
        for source, source_slopes in slopes.items()
        for target, weight in enumerate(draw.weights)
    ]


def _projected_pair(
    function: VectorFunction,
    place: tuple[int, int],
    weight: Tensor,
    slopes: Slopes,
    options: GradOptions,
) -> Pair:
    """The comparison along a direction; only a mismatch without the elements at kinks is wrong."""
    columns = _Columns.of([slopes], place[1])
    noise = _noise(function.outputs[place[1]], options.eps)
    smooth, still, steady = _motion(columns, noise, options.eps)

    def look(kept: Tensor) -> Pair:
        masked = torch.where(kept[:, 0], weight, 0)
        gradient = gradient_of(function, place[1], masked)[place[0]]
        numeric = _weighted(columns.centre, masked).sum()
        formula = gradient @ slopes.step
        allowed = tolerance(function, place[1], masked, gradient, options)
        verdict = _projected_verdict(columns, masked, numeric - formula, allowed)
        return Pair(
            *place,
            verdict if 2 * int(kept.sum()) >= kept.numel() else UNCLEAR,
            float(numeric),
            float(formula),
            still=bool(still.any() and not smooth.any()),
            zero=not gradient.any(),
            factor=float(formula / numeric) if numeric and formula else None,
        )

    result = look(smooth | still)
    if result.verdict == RIGHT:
        return result
    if not math.isfinite(result.formula):
        return _not_finite(function, result, options)
    result = look((smooth | still) & steady)
    return result if result.verdict == WRONG else replace(result, verdict=UNCLEAR)


def _not_finite(function: VectorFunction, pair: Pair, options: GradOptions) -> Pair:
    """The pair; wrong if the formula gives NaN or inf for an element where no output has a kink."""
    output = function.outputs[pair.target]
    gradient = gradient_of(function, pair.target, torch.ones_like(output.values))[pair.source]
    for index in (~gradient.isfinite()).nonzero()[:4, 0].tolist():
        unit = torch.zeros_like(gradient)
        unit[index] = 1
        slopes = function.slopes(pair.source, unit, options.eps)
        columns = _Columns.of([slopes], pair.target)
        formula = gradient[index].expand_as(columns.centre)
        if _certain(columns, formula, _noise(output, options.eps)).all():
            where = function.inputs[pair.source].where(index)
            return replace(
                pair,
                verdict=WRONG,
                numeric=float(columns.centre.sum()),
                formula=float(gradient[index]),
                element=f"{output.name} (summed) by {function.inputs[pair.source].name}{where}",
            )
    return replace(pair, verdict=UNCLEAR)


def _projected_verdict(
    columns: _Columns, weight: Tensor, difference: Tensor, allowed: float
) -> str:
    error = float(difference.abs())
    if error <= allowed:
        return RIGHT
    bend = float(_weighted(columns.ahead - columns.behind, weight).norm())
    spread = float(_weighted(columns.centre - columns.wide, weight).norm())
    return WRONG if max(bend, spread) <= _EXPLAINS * error else UNCLEAR


def _weighted(column: Tensor, weight: Tensor) -> Tensor:
    # The column may be NaN where the weight is zero.
    return torch.where(weight != 0, column[:, 0] * weight, 0)
