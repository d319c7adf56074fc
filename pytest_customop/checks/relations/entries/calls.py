"""Calls of an op on some entries of a group of dims, in some order, and how two results compare."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch

from ....cases.arguments import Arguments
from ....cases.case import Case
from ....cases.picture import picture_of
from ....cases.rounding import share_of_order
from ....cases.run import Run
from ....cases.tensors import (
    difference,
    equal_values,
    in_double,
    is_differentiable,
    largest_gap,
    largest_magnitude,
    same_bits,
)
from ...values.memory.calls import Caller, Leaves, comparable, copied, gradients_of, results
from .groups import DimGroup

Results = Mapping[str, Any]
# By name of an output: its dim that follows the entries; None without one.
Along = Mapping[str, int | None]


class Rearranged:
    """Calls of an op on entries of a group of dims.

    Args:
        case: the case whose op is called.
        group: the dims.
        arguments: gives fresh arguments; None: those of the case.
    """

    def __init__(
        self, case: Case, group: DimGroup, arguments: Callable[[], Arguments] | None = None
    ) -> None:
        self.case = case
        self._group = group
        self._arguments = arguments or case.inputs
        self._calls = Caller(case)
        self._grad_outputs: dict[str, torch.Tensor] = {}

    @functools.cached_property
    def whole(self) -> Results | None:
        """The results by name, and the gradients for random grad_outputs; None where the op raises."""
        return self._found(self._arguments(), None, {})

    def taken(self, index: torch.Tensor, along: Along | None) -> Results | None:
        """The results for the entries at some positions; None where the op raises.

        Args:
            index: the positions.
            along: the dim of each output's grad_output that follows; None: no gradients are wanted.
        """
        return self._found(self._group.taken(self._arguments(), index), index, along)

    def changed(self, change: Callable[[Arguments], Arguments]) -> Rearranged:
        """Calls on changed arguments."""
        return Rearranged(self.case, self._group, lambda: change(self._arguments()))

    def depending(self, whole: Results, size: int) -> set[str]:
        """The results that change when each second entry is replaced by the one beside it.

        Args:
            whole: the results of all entries.
            size: the number of entries.
        """
        names = set()
        first = torch.arange(size) // 2 * 2
        for index in (first, (first + 1).clamp(max=size - 1)):
            replaced = self.taken(index, None) or {}
            common = whole.keys() & replaced.keys()
            names |= {name for name in common if not _is_equal(replaced[name], whole[name])}
        return names

    def _found(
        self, arguments: Arguments, index: torch.Tensor | None, along: Along | None
    ) -> Results | None:
        run = self._calls(arguments)
        if run.error is not None:
            return None
        leaves = copied(results(run))
        if along is not None and self.case.requires_grad:
            leaves += copied(self._gradients(run, index, along))
        return dict(leaves)

    def _gradients(self, run: Run, index: torch.Tensor | None, along: Along) -> Leaves:
        """The gradients; none where a grad_output is not known, or has no entry for each position."""

        def fits(name: str) -> bool:
            dim = along[name]
            if dim is None or index is None or not index.numel():
                return True
            return self._grad_outputs[name].shape[dim] > int(index.max())

        def grad_outputs(outputs: list[tuple[str, torch.Tensor]]) -> list[torch.Tensor]:
            if index is None:
                drawn = self.case.grad_outputs(outputs)
                names = [name for name, _ in outputs]
                self._grad_outputs = dict(zip(names, drawn, strict=True))
                return drawn
            return [follow(self._grad_outputs[name], along[name], index) for name, _ in outputs]

        known = {name for name in along.keys() & self._grad_outputs.keys() if fits(name)}
        if index is not None and not {name for name, _ in run.differentiable_outputs} <= known:
            return []
        return gradients_of(self.case, run, grad_outputs) or []


def _is_equal(left: Any, right: Any) -> bool:
    if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
        return same_bits(left, right)
    return equal_values(left, right)


def follow(tensor: torch.Tensor, dim: int | None, index: torch.Tensor) -> torch.Tensor:
    """The entries of a tensor at these positions along a dim; the tensor itself without one."""
    return tensor if dim is None else tensor.index_select(dim, index.to(tensor.device))


class Wrong(NamedTuple):
    """Two results that must agree and do not.

    Args:
        name: of the result.
        text: how they differ.
        actual, expected: the two.
        rtol, atol: how far they may differ.
    """

    name: str
    text: str
    actual: Any
    expected: Any
    rtol: float = 0.0
    atol: float = 0.0

    @property
    def has_one_shape(self) -> bool:
        """Whether the two have one shape; a shape may depend on values, which is no mistake."""
        shapes = [getattr(value, "shape", None) for value in (self.actual, self.expected)]
        return bool(shapes[0] == shapes[1])

    @property
    def picture(self) -> Mapping[str, Any] | None:
        """The two as a picture."""
        return picture_of(self.name, self.actual, self.expected)


def differing(case: Case, name: str, actual: Any, expected: Any) -> Wrong | None:
    """How two results differ beyond another order of additions; None if they do not.

    Args:
        case: whose arguments and tolerances count.
        name: of the results.
    """
    if not (isinstance(actual, torch.Tensor) and isinstance(expected, torch.Tensor)):
        same = equal_values(actual, expected)
        return (
            None if same else Wrong(name, f"{actual!r} instead of {expected!r}", actual, expected)
        )
    if not (comparable(actual) and comparable(expected)) or same_bits(actual, expected):
        return None
    rtol, atol = 0.0, 0.0
    if is_differentiable(expected.dtype) and actual.shape == expected.shape:
        rtol, _ = case.tolerance(expected.dtype)
        tensors = [tensor for _, tensor in case.inputs().tensors()]
        largest = max(largest_magnitude(in_double(tensor)) for tensor in (actual, expected))
        atol = share_of_order(actual, expected, tensors) * largest
    text = difference(actual, expected, rtol, atol)
    return None if text is None else Wrong(name, text, actual, expected, rtol, atol)


def gap(actual: Any, expected: Any) -> float:
    """The largest difference of two results; for integers, how many differ."""
    if not isinstance(actual, torch.Tensor) or not isinstance(expected, torch.Tensor):
        return 0.0 if equal_values(actual, expected) else float("inf")
    if actual.shape != expected.shape:
        return float("inf")
    return largest_gap(actual, expected)
