"""`backward.linear`: the backward is linear in grad_output, as every vector-Jacobian product is."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from ...cases.case import Case
from ...cases.tensors import largest_magnitude
from ...findings import CheckFailed, Explanation, doc_links, fail
from ..check import Check
from .limits import Limits
from .scripts import GRAPH
from .vjp import Backward, Gradients, Row, powers_of_two, row, table


def _compare(case: Case) -> None:
    """Compare gradients for multiples and sums of grad_outputs with multiples and sums of gradients.

    Factors are powers of two, for which a correct backward is exact. For sums, the allowed difference is
    the rounding that multiples by 3, 5 and 7 show.
    """
    vjp = Backward(case)
    g, h = vjp.graph.random(0), vjp.graph.random(1)
    base = vjp.repeatable(g)
    limits = Limits.of(vjp.graph.dtypes, [*g, *base.values()])
    factors = _factors(vjp.graph.dtypes, limits.room)
    rows = [*_multiples(vjp, g, base, limits, factors), *_sums(vjp, g, h, base, limits)]
    wrong = [row for row in rows if row.wrong]
    if wrong:
        first = wrong[0]
        raise fail(
            "backward-not-linear",
            f"the gradient for `{first.input}` is not linear in grad_output: for {first.description} it is "
            f"{first.actual} and should be {first.expected}",
            table(rows),
        )


def check_linear(case: Case) -> None:
    """Check that the backward is linear, and report a backward that raises."""
    try:
        _compare(case)
    except CheckFailed as failure:
        finding = failure.finding
        if finding.code == "backward-raises":
            raise CheckFailed(replace(finding, repro=_RAISES)) from None
        raise


def _factors(dtypes: set[torch.dtype], room: float) -> tuple[float, ...]:
    """The factors for grad_output; the last is the smallest above 0."""
    infos = [torch.finfo(dtype) for dtype in dtypes]
    up = min(20, powers_of_two(room / 64))
    down = min({4: 10, 8: 10, 2: 4, 1: 1}[_width(info)] for info in infos)
    return (-1.0, 0.0, *([2.0**up] if up > 0 else []), 2.0**-down)


def _width(info: torch.finfo) -> int:
    """The bytes of a number. bfloat16 counts as float32, which has the same range."""
    return 4 if info.tiny < 1e-30 else info.bits // 8


def _multiples(
    vjp: Backward, g: list[Tensor], base: Gradients, limits: Limits, factors: tuple[float, ...]
) -> Iterator[Row]:
    for factor in factors:
        description = f"{_in_words(factor)} * grad_output"
        actual = vjp([factor * weight for weight in g], description)
        for name, gradient in base.items():
            size = max(abs(factor), factors[-1]) * largest_magnitude(gradient)
            allowed = limits.share * size + 4 * limits.smallest * max(1.0, abs(factor))
            scaled = actual.get(name, torch.zeros_like(gradient))
            # A backward that computes in a dtype of smaller range may overflow and still be linear.
            counted = scaled.isfinite() if factor > 1 else None
            yield row(description, name, factor * gradient, scaled, allowed, counted)


def _in_words(factor: float) -> str:
    return f"2**{math.log2(factor):g}" if factor > 0 else f"{factor:g}"


def _sums(
    vjp: Backward, g: list[Tensor], h: list[Tensor], base: Gradients, limits: Limits
) -> Iterator[Row]:
    description = "grad_output + another one"
    second = vjp(h, "another random grad_output")
    actual = vjp([left + right for left, right in zip(g, h, strict=True)], description)
    strays = [*_strays(vjp, g, base, (3.0, 5.0, 7.0)), *_strays(vjp, h, second, (3.0, 5.0))]
    # A small gradient that is a sum of large terms has their error. The terms are unknown, so the largest
    # of the gradients and grad_outputs stands for them.
    terms = max(largest_magnitude(tensor) for tensor in (*g, *h, *base.values(), *second.values()))
    for name, gradient in base.items():
        zeros = torch.zeros_like(gradient)
        added = gradient + second.get(name, zeros)
        rounding = 16 * max(largest_magnitude(stray[name]) for stray in strays if name in stray)
        size = max(largest_magnitude(gradient), largest_magnitude(added))
        allowed = limits.share * size + rounding + 16 * limits.rounding * terms
        allowed += 4 * limits.smallest
        in_range = added.abs() < limits.most  # other sums may overflow
        yield row(description, name, added, actual.get(name, zeros), allowed, in_range)


def _strays(
    vjp: Backward, weights: list[Tensor], base: Gradients, factors: tuple[float, ...]
) -> Iterator[Gradients]:
    """The rounding errors of gradients for multiples that are not powers of two."""
    for factor in factors:
        grads = vjp([factor * weight for weight in weights], f"{factor:g} * grad_output")
        yield {
            name: grads.get(name, torch.zeros_like(gradient)) / factor - gradient
            for name, gradient in base.items()
        }


_RAISES = (
    GRAPH
    + """
gradients(outputs, leaves, grads)
"""
)
_SCRIPT = (
    GRAPH
    + """
once = gradients(outputs, leaves, grads)
for factor in (-1.0, 0.0, 2.0**10, 2.0**-10):
    found = gradients(outputs, leaves, [factor * each for each in grads])
    for got, expected in zip(found, once):
        atol = 0.01 * abs(factor) * expected.abs().max().item()
        torch.testing.assert_close(got, factor * expected, rtol=0.01, atol=atol)
others = [torch.randn_like(each) for each in outputs]
apart = zip(once, gradients(outputs, leaves, others))
together = gradients(outputs, leaves, [one + two for one, two in zip(grads, others)])
assert_same(together, tuple(one + two for one, two in apart))
"""
)

FINDINGS = {
    "backward-not-linear": Explanation(
        meaning=(
            "The backward is not linear in grad_output, as every vector-Jacobian product is: "
            "scaling or adding up grad_outputs must scale or add up the gradients."
        ),
        why=(
            "Training goes wrong if grad_output differs from that of the test: if it is "
            "negative, large (a scaled loss), tiny, or the sum of several losses. gradcheck "
            "sends only zeros and ones."
        ),
        fix=(
            "Compute the gradient from grad_output by sums and products with values saved in "
            "forward. Do not round or clamp grad_output, convert it to an 8-bit image, or "
            "replace it by a constant."
        ),
        before="""
def backward(ctx, grad):
    image = (grad * 255).byte()          # rounds, and wraps what is negative
    return paste(image).float() / 255
""",
        after="""
def backward(ctx, grad):
    return paste(grad)
""",
        docs=(doc_links.REGISTER_AUTOGRAD, doc_links.GRADCHECK),
        follows=("uninitialized-gradient",),
    ),
}

CHECK = Check(
    name="backward.linear",
    summary="the backward is linear in grad_output: negative, large, tiny, zero and summed ones",
    run=check_linear,
    variants=("shape", "large", "arguments"),
    cheap_variants=("arguments",),
    gradients=True,
    needs_autograd=True,
    repro=_SCRIPT,
    findings=FINDINGS,
    catches=(
        "A backward that is not linear in grad_output: for negative, large and tiny ones, "
        "for zeros and for sums. gradcheck cannot see this, because it sends only zeros and "
        "ones. This check also reports a backward that raises. If the backward raises, or "
        "differs from call to call, the other checks of the family are skipped."
    ),
    cannot_see="A backward that is linear but wrong: gradcheck finds it.",
    cost="many calls",
)
