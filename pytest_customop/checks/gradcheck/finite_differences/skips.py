"""The skips for functions that finite differences cannot judge, each with its reason and a way out."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ....cases.tensors import largest_magnitude
from ....core.wording import dtype_name, first_line
from ....declare.inputs import GradOptions
from ....findings import CheckSkipped, skip
from .jacobian import RIGHT, Pair
from .projection import gradient_of, random_weights, signs
from .vectors import ROUNDING, CallError, VectorFunction

# Dtypes that ops compute in, with a step far above their rounding, in units of that rounding.
_NARROW = {torch.float32: 128, torch.bfloat16: 4, torch.float16: 4}


def skip_if_unsuitable(function: VectorFunction, options: GradOptions, seed: int) -> None:
    """Skip a function that is empty, not finite, not deterministic, or too large for the step."""
    elements = sum(point.numel() for point in function.point)
    if not elements or not function.outputs:
        raise skip("nothing-to-check", "inputs or outputs have no elements", unjudged=False)
    for output in function.outputs:
        if not output.values.isfinite().all():
            raise skip(
                "not-finite",
                f"{output.name} has NaN or inf, so no difference can be taken from it",
            )
    gradients = random_gradients(function, seed)
    _skip_if_nondeterministic(function, gradients, seed)
    _skip_if_lost_in_rounding(function, gradients, options)


def random_gradients(function: VectorFunction, seed: int) -> list[Tensor]:
    """The gradients for random grad_outputs, of the inputs that get one."""
    generator = torch.Generator().manual_seed(seed)
    weights = [random_weights(output.values, generator) for output in function.outputs]
    gradients = function.vjp(dict(enumerate(weights)))
    return [gradient for gradient in gradients if gradient is not None and gradient.numel() > 0]


def _skip_if_nondeterministic(function: VectorFunction, gradients: list[Tensor], seed: int) -> None:
    if not _repeat(gradients, random_gradients(function, seed), 1e-9):
        raise skip(
            "nondeterministic",
            "the backward gives different gradients for the same grad_output from one call to the next",
        )
    bases = [output.values for output in function.outputs]
    if not _repeat(bases, function.again(), 1e-12):
        raise skip(
            "nondeterministic", "equal inputs give different outputs from one call to the next"
        )


def _repeat(first: list[Tensor], second: list[Tensor], share: float) -> bool:
    """Whether values are equal up to a share of the largest."""
    return len(first) == len(second) and all(
        torch.equal(left, right)
        or torch.allclose(
            left, right, rtol=0.0, atol=share * largest_magnitude(left), equal_nan=True
        )
        for left, right in zip(first, second, strict=True)
    )


def _skip_if_lost_in_rounding(
    function: VectorFunction, gradients: list[Tensor], options: GradOptions
) -> None:
    size = max(largest_magnitude(point) for point in function.point if point.numel() > 0)
    if 100 * ROUNDING * size > options.eps:
        raise skip(
            "lost-in-rounding",
            f"a step of {options.eps:g} is lost in inputs as large as {size:g}. {_EPS}",
        )
    slope = max((largest_magnitude(gradient) for gradient in gradients), default=0.0)
    noise = (
        8
        * ROUNDING
        * max(largest_magnitude(output.values) for output in function.outputs)
        / options.eps
    )
    if noise > 0.01 * slope and noise > 1e3 * options.atol:
        raise skip(
            "lost-in-rounding",
            f"the outputs are so large that a step of {options.eps:g} is lost in their rounding. {_EPS}",
        )


_EPS = "Give a larger step: gradcheck=GradOptions(eps=...)."


def narrow_outputs(
    function: VectorFunction, pairs: list[Pair], options: GradOptions, seed: int
) -> dict[int, torch.dtype]:
    """The outputs that are not right and are computed in a narrower dtype than float64, with that dtype."""
    dtypes: dict[int, torch.dtype] = {}
    for pair in pairs:
        if pair.verdict != RIGHT and pair.target not in dtypes:
            dtype = _narrow_dtype(function, pair, options, seed)
            if dtype is not None:
                dtypes[pair.target] = dtype
    return dtypes


def is_lost_in(dtype: torch.dtype, options: GradOptions) -> bool:
    """Whether rounding to a dtype leaves too little of the step."""
    return dtype in _NARROW and _NARROW[dtype] * torch.finfo(dtype).eps > options.eps


def narrow_gradient(function: VectorFunction, pair: Pair, seed: int) -> torch.dtype | None:
    """The dtype in which a gradient is computed, if its rounding explains the difference."""
    generator = torch.Generator().manual_seed(seed)
    weight = random_weights(function.outputs[pair.target].values, generator)
    gradient = gradient_of(function, pair.target, weight)[pair.source]
    scale = float(gradient.norm() if pair.jacobians is None else pair.jacobians[1].abs().max())
    for dtype in _NARROW:
        if _holds(gradient, dtype) and _error(pair) <= 4 * torch.finfo(dtype).eps * scale:
            return dtype
    return None


def _error(pair: Pair) -> float:
    """The largest error of the formula that is finite."""
    if pair.jacobians is None:
        error = torch.tensor(pair.formula - pair.numeric)
    else:
        error = pair.jacobians[1] - pair.jacobians[0]
    return largest_magnitude(error)


def narrow(name: str, dtype: torch.dtype, options: GradOptions) -> CheckSkipped:
    """The skip for an output or gradient that is computed in a narrower dtype."""
    codes = dtype_name(dtype)
    coarse = "1e-1" if dtype == torch.bfloat16 else "1e-2"
    return skip(
        "float32-internal",
        f"for float64 inputs {name} has only the precision of {codes}: the op computes in {codes}, "
        f"and steps of {options.eps:g} are lost in its rounding. Compare coarsely, "
        f"gradcheck=GradOptions(eps={coarse}, atol={coarse}, rtol={coarse}), or give a reason to leave it "
        "out.",
    )


def _narrow_dtype(
    function: VectorFunction, pair: Pair, options: GradOptions, seed: int
) -> torch.dtype | None:
    """The dtype in which an output is computed, if its rounding explains the difference.

    An output on a grid, like that of 8-bit images, may also have no more digits than float32. But if the
    op computes in float32, a step of many float32 roundings changes the output in both directions.
    """
    generator = torch.Generator().manual_seed(seed)
    base = function.outputs[pair.target].values
    count = math.sqrt(base.numel()) if pair.jacobians is None else 1.0
    for source, point in enumerate(function.point):
        if point.numel() == 0:
            continue
        direction = signs(point, generator)
        moved = point + options.eps * direction
        output = function.at(source, moved)[pair.target]
        size = float(point.abs().max()) or 1.0
        for dtype, roundings in _NARROW.items():
            if _holds(moved, dtype) or not _holds(output, dtype):
                continue
            rounding = torch.finfo(dtype).eps * max(size, largest_magnitude(base)) / options.eps
            if _error(pair) > 16 * count * rounding:
                continue
            reach = max(options.eps, roundings * torch.finfo(dtype).eps * size)
            above = function.at(source, point + reach * direction)[pair.target]
            below = function.at(source, point - reach * direction)[pair.target]
            up, down = above != base, below != base
            if int((up & down).sum()) > int((up ^ down).sum()):
                return dtype
    return None


def _holds(values: Tensor, dtype: torch.dtype) -> bool:
    return torch.equal(values.to(dtype).to(values.dtype), values)


def not_smooth(function: VectorFunction, pairs: list[Pair], options: GradOptions) -> CheckSkipped:
    """The skip for a function with kinks, or one that becomes NaN or inf a step away."""
    pair = next(pair for pair in pairs if pair.verdict != RIGHT)
    source, target = function.inputs[pair.source].name, function.outputs[pair.target].name
    if pair.numeric != pair.numeric:
        return skip(
            "not-finite",
            f"{target} becomes NaN or inf a step of {options.eps:g} away in `{source}`",
        )
    return skip(
        "not-smooth",
        f"formula and finite differences differ for `{source}`, but finite differences from the two "
        f"sides or with another step differ as much: {target} has kinks there, or is computed with "
        f"less than the precision of float64. Other directions and points nearby did not help. Give "
        "inputs away from kinks (low=, high=, values=), or another step, gradcheck=GradOptions(eps=...).",
    )


def here_alone() -> CheckSkipped:
    """The skip for a formula that is wrong at the point, and right at the points nearby."""
    return skip(
        "not-smooth",
        "formula and finite differences differ at these values only, and agree at three points nearby: a "
        "branch of the formula ends here. Give other values (low=, high=, values=).",
    )


def out_of_domain(error: CallError, options: GradOptions) -> CheckSkipped:
    """The skip for an op that raises a step away."""
    return skip(
        "out-of-domain",
        first_line(f"with inputs {options.eps:g} away the op raises {error}")
        + ". Give inputs further inside its domain, or another step, gradcheck=GradOptions(eps=...).",
    )


def outputs_change(options: GradOptions) -> CheckSkipped:
    """The skip for an op whose outputs have other shapes a step away."""
    return skip(
        "not-smooth",
        f"with inputs {options.eps:g} away the outputs have other shapes. Give inputs that are not so "
        "close to where the number of results changes.",
    )
