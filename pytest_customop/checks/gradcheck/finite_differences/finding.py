"""Describe a wrong gradient: which one, by how much, and what the error looks like."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ....core.tables import aligned
from ....declare.inputs import GradOptions
from ....findings import CheckFailed, fail
from .jacobian import Pair
from .staircase import follows_staircase
from .vectors import CallError, OutputsChanged, VectorFunction


@dataclass(frozen=True)
class FindingCodes:
    """The codes and words of findings, for gradients of the first or the second order.

    Args:
        mismatch, missing, step: the codes.
        derivative: the subject of messages, with `{input}` for the name of an input.
        ties: whether gradients at equal elements are judged.
    """

    mismatch: str
    missing: str
    step: str
    derivative: str
    ties: bool = False


def mismatch(
    function: VectorFunction,
    pairs: list[Pair],
    twice: tuple[Pair, Pair],
    codes: FindingCodes,
    options: GradOptions,
    seed: int,
) -> CheckFailed:
    """The finding about a gradient that two draws showed to be wrong.

    Args:
        pairs: every input and output of the first draw, for the table.
        twice: the wrong pair in the first draw and in the second.
        seed: of the draws.
    """
    pair = twice[0]
    source, target = function.inputs[pair.source].name, function.outputs[pair.target].name
    subject = codes.derivative.format(input=source)
    evidence = "\n".join([*_table(function, pairs, pair, options), *_hints(pairs, twice)])
    if pair.zero:
        return fail(
            codes.missing,
            f"{subject} is missing: the formula gives none for {target}, but {_place(pair)} is "
            f"{pair.numeric:.6g} by finite differences",
            evidence,
        )
    if pair.still and _moves(function, pair, options):
        return fail(
            codes.step,
            f"{target} does not change at all with steps of {options.eps:g} in `{source}`, but "
            f"{_place(pair)} is {pair.formula:.6g} by {subject}",
            evidence,
        )
    if follows_staircase(function, pair, seed):
        return fail(
            codes.step,
            f"{target} jumps as `{source}` changes, and {subject} is the slope over many steps: "
            f"{_place(pair)} is {pair.formula:.6g} by the formula and {pair.numeric:.6g} by finite "
            "differences within one step",
            evidence,
        )
    but = f" (not so for other elements of {target})" if pair.partial else ""
    return fail(
        codes.mismatch,
        f"{subject} is wrong: {_place(pair)} is {pair.formula:.6g} by the formula{but} and "
        f"{pair.numeric:.6g} by finite differences",
        evidence,
    )


def _place(pair: Pair) -> str:
    if pair.element:
        return f"the derivative of {pair.element}"
    return "the derivative of the weighted output along a random direction"


def _moves(function: VectorFunction, pair: Pair, options: GradOptions) -> bool:
    """Whether a larger step of the input changes the output at all."""
    point = function.point[pair.source]
    size = max(float(point.abs().max()), 1.0)  # a threshold may be larger than the numbers
    for reach in (1e-3, 1e-2, 1e-1, 1.0):
        for sign in (1, -1):
            try:
                there = function.at(pair.source, point + sign * max(reach * size, options.eps))
            except CallError:
                continue
            except OutputsChanged:
                return True
            if not torch.equal(there[pair.target], function.outputs[pair.target].values):
                return True
    return False


def _table(
    function: VectorFunction, pairs: list[Pair], pair: Pair, options: GradOptions
) -> list[str]:
    rows = [("input", "output", "finite differences", "formula", "")]
    for item in pairs:
        source, target = function.inputs[item.source].name, function.outputs[item.target].name
        rows.append((source, target, f"{item.numeric:.9g}", f"{item.formula:.9g}", item.verdict))
    how = (
        "each at the first element that differs, or else at the first"
        if pair.element
        else "derivatives of the outputs, weighted at random, along random directions of +1 and -1"
    )
    return [*aligned(rows), f"({how}; central differences in float64, eps={options.eps:g})"]


def _hints(pairs: list[Pair], twice: tuple[Pair, Pair]) -> list[str]:
    pair, second = twice
    if pair.zero:
        return [
            "if no gradient is intended: describe the argument with tensor(..., requires_grad=False)"
        ]
    if pair.factor and second.factor and abs(pair.factor / second.factor - 1) < 1e-3:
        return [
            f"everywhere the formula is {pair.factor:.6g} times the finite difference",
            'if a gradient is scaled or reversed on purpose, give the mark gradcheck="the reason"',
        ]
    for item in pairs:
        if item.source != pair.source and item.target == pair.target and _swapped(pair, item):
            return ["the gradients of the two inputs look swapped"]
    return []


def _swapped(pair: Pair, second: Pair) -> bool:
    if pair.jacobians is None or second.jacobians is None:
        return False
    (numeric, formula), (numeric2, formula2) = pair.jacobians, second.jacobians
    return (
        numeric.shape == numeric2.shape
        and torch.allclose(numeric, formula2, rtol=1e-4, atol=1e-5)
        and torch.allclose(numeric2, formula, rtol=1e-4, atol=1e-5)
    )
