"""The family `backward`: what holds for every backward and finite differences do not see."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from ..case import Case, Run, gradients, random_like
from ..draw import is_differentiable
from ..findings import fail, skip
from ..tracebacks import traceback_text
from ..values import readable
from .gradcheck import seed_random
from .registry import Check

Gradients = dict[str, Tensor]


def check_linear(case: Case) -> None:
    """Compare gradients for multiples and sums of grad_outputs with multiples and sums of gradients.

    Factors are powers of two, for which a correct backward is exact; for sums the rounding that
    multiples by 3, 5, ... show is allowed for.
    """
    vjp = _Backward(case)
    g, h = vjp.random(0), vjp.random(1)
    base = _repeatable(vjp, g)
    limits = _Limits.of(vjp, g, base)
    rows = [*_multiples(vjp, g, base, limits), *_sums(vjp, g, h, base, limits)]
    wrong = [row for row in rows if row.wrong]
    if wrong:
        first = wrong[0]
        raise fail(
            "backward-not-linear",
            f"the gradient for `{first.input}` is not linear in grad_output: for {first.words} it is "
            f"{first.got} where {first.expected} is due",
            _table(rows),
        )


CHECKS = [
    Check(
        "backward.linear",
        "the backward is linear in grad_output: negative, large, tiny, zero and added-up ones",
        check_linear,
        gradients=True,
        formula=True,
    )
]


class _Backward:
    """The vector-Jacobian product of a case, at the case's own dtype.

    Raises:
        CheckSkipped: no gradients can be asked for.
    """

    def __init__(self, case: Case) -> None:
        self._case = case
        self._run = self._forward()
        self.fresh = False  # run the forward before each backward, in place of one for all
        if not any(tensor.numel() for _, tensor in self._run.arguments.differentiable()):
            raise skip(
                "nothing-to-check", "no argument with elements requires gradients", limit=False
            )
        self.outputs = self._differentiable(self._run)
        if not self.outputs:
            floating = [name for name, one in self._run.outputs if is_differentiable(one.dtype)]
            what = f"{floating[0]} does not require gradients" if floating else "no output can"
            raise skip("nothing-to-check", what, limit=bool(floating))

    @staticmethod
    def _differentiable(run: Run) -> list[tuple[str, Tensor]]:
        return [(name, one) for name, one in run.differentiable_outputs if one.numel() > 0]

    def _forward(self) -> Run:
        run = self._case.run(self._case.inputs())
        if run.error is not None:
            raise skip("nondeterministic", "the op raises only on some calls with equal inputs")
        return run

    @property
    def dtypes(self) -> set[torch.dtype]:
        """The dtypes of the outputs and of the arguments that require gradients."""
        named = [*self.outputs, *self._run.arguments.differentiable()]
        return {tensor.dtype for _, tensor in named}

    def random(self, index: int) -> list[Tensor]:
        """A random grad_output an output, in double precision, with values that its dtype has."""
        seed = self._case.seed + 1 + index * len(self.outputs)
        return [
            _double(random_like(tensor, seed + position))
            for position, (_, tensor) in enumerate(self.outputs)
        ]

    def __call__(self, weights: list[Tensor], words: str) -> Gradients:
        """The gradients by argument name, in double precision; those that are None left out.

        Raises:
            CheckFailed: the backward raises, also on a graph of its own.
        """
        if not self.fresh:
            try:
                return self._differentiate(self._run, weights)
            except Exception:  # a second backward on one graph is not what is checked here
                self.fresh = True
        try:
            return self._differentiate(self._forward(), weights)
        except Exception as error:
            raise fail(
                "backward-raises",
                f"for {words} the backward raises {type(error).__name__}: {error}".splitlines()[0],
                traceback_text(error),
            ) from error

    def _differentiate(self, run: Run, weights: list[Tensor]) -> Gradients:
        outputs = self._differentiable(run)
        given = [
            torch.empty_like(tensor.detach()).copy_(weight)
            for (_, tensor), weight in zip(outputs, weights, strict=True)
        ]
        seed_random(self._case)
        found = gradients(run.arguments, outputs, given, retain_graph=True)
        return {name: _double(one) for name, one in found.items() if one is not None}


def _double(tensor: Tensor) -> Tensor:
    value = readable(tensor)
    return value.to(torch.complex128 if value.is_complex() else torch.float64)


def _repeatable(vjp: _Backward, g: list[Tensor]) -> Gradients:
    """The gradients for a grad_output, once they are seen to be the same a second time."""
    base, again = (vjp(g, "a random grad_output") for _ in range(2))
    if not _same(base, again):
        vjp.fresh = True  # what a backward leaves behind on its graph is not what is checked here
        base, again = (vjp(g, "a random grad_output") for _ in range(2))
    if not _same(base, again):
        raise skip(
            "nondeterministic",
            "the backward gives different gradients for the same grad_output from one call to the next",
        )
    if not base:
        raise skip("nothing-to-check", "the backward returns no gradients")
    if not any(one.isfinite().any() for one in base.values() if one.numel()):
        raise skip("not-finite", "all gradients are NaN or inf")
    return base


def _same(first: Gradients, second: Gradients) -> bool:
    return first.keys() == second.keys() and all(
        torch.allclose(one, second[name], rtol=0.0, atol=1e-3 * _size(one), equal_nan=True)
        for name, one in first.items()
    )


def _size(gradient: Tensor) -> float:
    """The largest magnitude, NaN and inf left out."""
    finite = gradient.abs()[gradient.isfinite()]
    return float(finite.max()) if finite.numel() else 0.0


@dataclass(frozen=True)
class _Limits:
    """What the narrowest dtype of the case leaves room for.

    Args:
        share: the allowed error, as a share of the largest magnitude.
        rounding: the relative rounding of one number.
        smallest: the smallest number above 0.
        factors: what grad_output is multiplied by.
    """

    share: float
    rounding: float
    smallest: float
    factors: tuple[float, ...]

    @staticmethod
    def of(vjp: _Backward, g: list[Tensor], base: Gradients) -> _Limits:
        """The limits for these grad_outputs and gradients."""
        infos = [torch.finfo(dtype) for dtype in vjp.dtypes]
        largest = max(_size(one) for one in (*g, *base.values()))
        room = min(info.max for info in infos) / (64 * max(largest, 1.0))
        up = min(20, math.floor(math.log2(room)))
        down = min({4: 10, 8: 10, 2: 4, 1: 1}[_width(info)] for info in infos)
        return _Limits(
            share=min(0.5, max(1e-4, *(4 * info.eps for info in infos))),
            rounding=max(info.eps for info in infos),
            smallest=max(info.tiny * info.eps for info in infos),
            factors=(-1.0, 0.0, *([2.0**up] if up > 0 else []), 2.0**-down),
        )


def _width(info: torch.finfo) -> int:
    """Bytes of a number, bfloat16 counted by its range."""
    return 4 if info.tiny < 1e-30 else info.bits // 8


@dataclass(frozen=True)
class _Row:
    """One comparison, shown at its worst element."""

    words: str
    input: str
    expected: str
    got: str
    wrong: bool


def _multiples(vjp: _Backward, g: list[Tensor], base: Gradients, limits: _Limits) -> Iterator[_Row]:
    for factor in limits.factors:
        words = f"{_in_words(factor)} * grad_output"
        got = vjp([factor * one for one in g], words)
        for name, gradient in base.items():
            size = max(abs(factor), limits.factors[-1]) * _size(gradient)
            allowed = limits.share * size + 4 * limits.smallest * max(1.0, abs(factor))
            found = got.get(name, torch.zeros_like(gradient))
            # A backward that computes in a dtype of smaller range overflows: linear for all that.
            counted = found.isfinite() if factor > 1 else None
            yield _row(words, name, factor * gradient, found, allowed, counted)


def _in_words(factor: float) -> str:
    return f"2**{math.log2(factor):g}" if factor > 0 else f"{factor:g}"


def _sums(
    vjp: _Backward, g: list[Tensor], h: list[Tensor], base: Gradients, limits: _Limits
) -> Iterator[_Row]:
    words = "grad_output + another one"
    other = vjp(h, "another random grad_output")
    got = vjp([one + two for one, two in zip(g, h, strict=True)], words)
    strays = [*_strays(vjp, g, base, (3.0, 5.0, 7.0)), *_strays(vjp, h, other, (3.0, 5.0))]
    # A gradient that cancels to nothing is as rough as the terms that cancel, which are not seen;
    # the largest of the gradients and grad_outputs stands for them.
    terms = max(_size(one) for one in (*g, *h, *base.values(), *other.values()))
    for name, gradient in base.items():
        zeros = torch.zeros_like(gradient)
        added = gradient + other.get(name, zeros)
        rounding = 16 * max(_size(stray[name]) for stray in strays if name in stray)
        size = max(_size(gradient), _size(added))
        allowed = limits.share * size + rounding + 16 * limits.rounding * terms
        yield _row(words, name, added, got.get(name, zeros), allowed + 4 * limits.smallest)


def _strays(
    vjp: _Backward, weights: list[Tensor], base: Gradients, factors: tuple[float, ...]
) -> Iterator[Gradients]:
    """How far gradients for multiples that round are from multiples of the gradients."""
    for factor in factors:
        found = vjp([factor * one for one in weights], f"{factor:g} * grad_output")
        yield {
            name: found.get(name, torch.zeros_like(one)) / factor - one
            for name, one in base.items()
        }


def _row(
    words: str,
    name: str,
    expected: Tensor,
    got: Tensor,
    allowed: float,
    counted: Tensor | None = None,
) -> _Row:
    error = (got - expected).abs().nan_to_num(torch.inf, torch.inf)
    judged = expected.isfinite() if counted is None else expected.isfinite() & counted
    error = torch.where(judged, error, 0.0).reshape(-1)
    if not error.numel():
        return _Row(words, name, "", "", False)
    worst = int(error.argmax())
    values = [f"{one.reshape(-1)[worst].item():.6g}" for one in (expected, got)]
    return _Row(words, name, values[0], values[1], float(error[worst]) > allowed)


def _table(rows: list[_Row]) -> str:
    cells = [("grad_output", "input", "expected", "got", "")]
    cells += [
        (row.words, row.input, row.expected, row.got, "wrong" if row.wrong else "") for row in rows
    ]
    widths = [max(len(line[column]) for line in cells) for column in range(5)]
    lines = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in cells]
    return "\n".join([*lines, "(the element that differs most of each)"])
