"""Call the op with a graph, run its backward, and compare gradients.

Gradients are compared in double precision, by argument name. None equals zeros, as it does for autograd.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ...cases.arguments import Arguments
from ...cases.case import Case
from ...cases.deliberate import backward_raises
from ...cases.run import Run, gradients, random_like
from ...cases.tensors import in_double, is_differentiable, largest_magnitude
from ...core import rng
from ...core.tables import aligned
from ...core.tracebacks import error_line, reraise_bug
from ...findings import CheckSkipped, skip
from .limits import Limits

Gradients = dict[str, Tensor]
Named = list[tuple[str, Tensor]]


class Graph:
    """One call of the op, with its autograd graph.

    Args:
        case: the case.
        arguments: the arguments of the call; None: the case's own.
        unjudged: whether its skips count as unjudged: for `backward.linear` only.

    Raises:
        CheckSkipped: if the op raises, or there is nothing to differentiate.
    """

    def __init__(
        self, case: Case, arguments: Arguments | None = None, *, unjudged: bool = False
    ) -> None:
        self.case = case
        self.arguments = case.inputs() if arguments is None else arguments
        self.inputs = self.arguments.differentiable()
        if not any(tensor.numel() for _, tensor in self.inputs):
            raise skip(
                "nothing-to-check", "no argument with elements requires gradients", unjudged=False
            )
        self.run = call(case, self.arguments, unjudged=unjudged)
        named = self.run.differentiable_outputs
        self.outputs = [(name, output) for name, output in named if output.numel() > 0]
        if not self.outputs:
            raise _no_outputs(self.run, unjudged)

    def vjp(
        self,
        weights: Sequence[Tensor],
        outputs: Sequence[int] | None = None,
        *,
        retain_graph: bool = True,
    ) -> Gradients:
        """Run the backward, with the random streams at the case's seed.

        Args:
            weights: the grad_outputs.
            outputs: the positions of the outputs that they belong to; None: all.
            retain_graph: whether the backward can run again.

        Returns:
            The gradients by argument name, in double precision; those that are None are left out.
        """
        chosen = self.outputs if outputs is None else [self.outputs[index] for index in outputs]
        rng.seed(self.case.seed)
        grads = gradients(self.arguments, chosen, list(weights), retain_graph=retain_graph)
        return {name: in_double(grad) for name, grad in grads.items() if grad is not None}

    def given(self, weights: Sequence[Tensor]) -> list[Tensor]:
        """grad_outputs with these values, in new memory with the strides of the outputs."""
        return [
            torch.empty_like(tensor.detach()).copy_(weight)
            for (_, tensor), weight in zip(self.outputs, weights, strict=True)
        ]

    def random(self, index: int) -> list[Tensor]:
        """A random grad_output for each output: in double precision, with values of the output's dtype."""
        seed = self.case.seed + 1 + index * len(self.outputs)
        return [
            in_double(random_like(tensor, seed + position))
            for position, (_, tensor) in enumerate(self.outputs)
        ]

    @property
    def dtypes(self) -> set[torch.dtype]:
        """The dtypes of the outputs and of the arguments that require gradients."""
        return {tensor.dtype for _, tensor in (*self.outputs, *self.inputs)}


def call(case: Case, arguments: Arguments, *, unjudged: bool = False) -> Run:
    """Call the op with the random streams at the case's seed.

    Raises:
        CheckSkipped: if it raises.
    """
    rng.seed(case.seed)
    try:
        return Run(arguments, arguments.call())
    except Exception as error:  # whatever an op raises
        reraise_bug(error)
        raise skip(
            "nondeterministic",
            f"the op raises {error_line(error)} only on some calls with such inputs",
            unjudged=unjudged,
        ) from error


def _no_outputs(run: Run, unjudged: bool) -> CheckSkipped:
    floating = [name for name, output in run.outputs if is_differentiable(output.dtype)]
    what = f"{floating[0]} does not require gradients" if floating else "no output can require them"
    return skip("nothing-to-check", what, unjudged=unjudged and bool(floating))


class Backward:
    """Runs the backward of a case in its own dtype, over one graph as long as that works."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.graph = Graph(case, unjudged=True)
        self.fresh = False  # whether each backward gets a graph of its own

    def __call__(self, weights: Sequence[Tensor], description: str) -> Gradients:
        """The gradients for these grad_outputs.

        Args:
            weights: the grad_outputs.
            description: names them in a message: `-1 * grad_output`.

        Raises:
            CheckFailed: if the backward raises even on a graph of its own.
        """
        if not self.fresh:
            try:
                return self._differentiate(self.graph, weights)
            except Exception as error:  # whatever a second backward on one graph raises
                reraise_bug(error)
                self.fresh = True
        try:
            return self._differentiate(Graph(self.case, unjudged=True), weights)
        except CheckSkipped:
            raise
        except Exception as error:  # whatever a backward raises
            reraise_bug(error)
            text = f"for {description} the backward raises {error_line(error)}"
            raise backward_raises(text, error) from error

    def _differentiate(self, graph: Graph, weights: Sequence[Tensor]) -> Gradients:
        return graph.vjp(graph.given(weights))

    def repeatable(self, weights: Sequence[Tensor]) -> Gradients:
        """The gradients for these grad_outputs, after a second backward gave the same.

        Raises:
            CheckSkipped: if it did not, or there are no gradients.
        """
        base, again = (self(weights, "a random grad_output") for _ in range(2))
        if not same(base, again):
            self.fresh = True  # state that a backward leaves on its graph is not checked here
            base, again = (self(weights, "a random grad_output") for _ in range(2))
        if not same(base, again):
            raise skip(
                "nondeterministic",
                "the backward gives different gradients for the same grad_output from one call to "
                "the next",
            )
        if not base:
            raise skip("nothing-to-check", "the backward returns no gradients")
        if not any(grad.isfinite().any() for grad in base.values() if grad.numel()):
            raise skip("not-finite", "all gradients are NaN or inf")
        return base


@dataclass(frozen=True)
class Reference:
    """The gradients of a case for a random grad_output, confirmed on a second graph.

    Args:
        case: the case.
        weights: the grad_outputs, in double precision.
        gradients: the gradients for them.
        limits: the allowed differences.
    """

    case: Case
    weights: list[Tensor]
    gradients: Gradients
    limits: Limits

    @staticmethod
    def of(case: Case) -> Reference:
        """The reference of a case.

        Raises:
            CheckSkipped: if there is none. `backward.linear` reports why, so these skips do not count
                as unjudged.
        """
        try:
            first = Graph(case)
            weights = first.random(0)
            base = first.vjp(first.given(weights))
            second = Graph(case)
            again = second.vjp(second.given(weights))
        except CheckSkipped:
            raise
        except Exception as error:  # whatever a backward raises
            reraise_bug(error)
            raise skip(
                "no-first-order", f"the backward raises {error_line(error)}", unjudged=False
            ) from error
        if not same(base, again):
            raise skip(
                "nondeterministic", "the backward differs from one call to the next", unjudged=False
            )
        if not any(grad.isfinite().any() for grad in base.values() if grad.numel()):
            raise skip("nothing-to-check", "there are no finite gradients", unjudged=False)
        limits = Limits.of(first.dtypes, [*weights, *base.values()])
        return Reference(case, weights, base, limits)

    def rows(
        self,
        description: str,
        actual: Gradients,
        expected: Gradients,
        names: Sequence[str] | None = None,
    ) -> list[Row]:
        """Compare gradients with the expected ones, one row for each input.

        A small gradient that is a sum of large terms has their error. The terms are unknown, so the
        largest of the gradients and grad_outputs stands for them.
        """
        terms = max(map(largest_magnitude, (*self.weights, *self.gradients.values())))
        rows = []
        for name in names or list(dict.fromkeys((*expected, *actual))):
            known = expected.get(name, actual.get(name))
            if known is None:
                continue
            zeros = torch.zeros_like(known)
            due, gradient = expected.get(name, zeros), actual.get(name, zeros)
            usual = self.gradients.get(name, due)
            size = max(largest_magnitude(due), largest_magnitude(usual))
            allowed = self.limits.share * size + 16 * self.limits.rounding * terms
            rows.append(row(description, name, due, gradient, allowed + 4 * self.limits.smallest))
        return rows


def same(first: Gradients, second: Gradients) -> bool:
    """Whether two sets of gradients are equal except for rounding."""
    return first.keys() == second.keys() and all(
        torch.allclose(
            grad, second[name], rtol=0.0, atol=1e-3 * largest_magnitude(grad), equal_nan=True
        )
        for name, grad in first.items()
    )


@dataclass(frozen=True)
class Row:
    """One comparison of two gradients, at the element that differs most.

    Args:
        description: the grad_output in words.
        input: the argument whose gradients are compared.
        expected, actual: the two values.
        wrong: whether they differ by more than is allowed.
    """

    description: str
    input: str
    expected: str
    actual: str
    wrong: bool


def row(
    description: str,
    name: str,
    expected: Tensor,
    actual: Tensor,
    allowed: float,
    counted: Tensor | None = None,
) -> Row:
    """Compare two gradients where the expected one is finite, and `counted` is True if given."""
    error = (actual - expected).abs().nan_to_num(torch.inf, torch.inf)
    judged = expected.isfinite() if counted is None else expected.isfinite() & counted
    error = torch.where(judged, error, 0.0).reshape(-1)
    if not error.numel():
        return Row(description, name, "", "", False)
    worst = int(error.argmax())
    values = [f"{gradient.reshape(-1)[worst].item():.6g}" for gradient in (expected, actual)]
    return Row(description, name, values[0], values[1], float(error[worst]) > allowed)


def table(rows: Sequence[Row], first: str = "grad_output") -> str:
    """The rows as a table; `first` is the heading of the first column."""
    cells = [(first, "input", "expected", "got", "")]
    cells += [
        (row.description, row.input, row.expected, row.actual, "wrong" if row.wrong else "")
        for row in rows
    ]
    return "\n".join([*aligned(cells), "(each at the element that differs most)"])


def powers_of_two(room: float) -> int:
    """How many times a number can be doubled before it is `room` times as large."""
    return math.floor(math.log2(room)) if room > 0 else 0
