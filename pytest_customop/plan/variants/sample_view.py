"""A sample seen as named arguments that can be changed one by one."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from ...cases.arguments import Placement, dtype_of, wants_grad
from ...cases.tensors import is_differentiable, is_plain
from ...declare.inputs import Sample, TensorSpec
from ...declare.ops import Op
from ...declare.variant import SEPARATOR, Step


@dataclass(frozen=True, eq=False)
class TensorArgument:
    """One dense tensor among the arguments, or in a list among them.

    Args:
        path: `x`, or `xs[1]`.
        spec: its description; a real tensor is described by its values.
        dtype: its dtype in the case.
        mutated: whether the op writes to it.
        wants_grad: whether it requires gradients in a case with gradients.
    """

    path: str
    spec: TensorSpec
    dtype: torch.dtype
    mutated: bool
    wants_grad: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """Its sizes."""
        return self.spec.shape

    @property
    def floating(self) -> bool:
        """Whether it holds floating-point or complex numbers."""
        return is_differentiable(self.dtype)

    @property
    def holds_positions(self) -> bool:
        """Whether it holds whole numbers, which may be positions in other tensors."""
        return not self.floating and self.dtype != torch.bool

    @property
    def resizable(self) -> bool:
        """Whether values can be drawn for another size.

        They cannot for listed whole numbers: these are mostly positions, which must fit each other.
        """
        return self.spec.redrawable or (self.floating and self.spec.values is not None)

    @property
    def listed_whole(self) -> bool:
        """Whether its values are whole numbers that the author listed: mostly positions."""
        return not self.floating and self.spec.values is not None

    @functools.cached_property
    def listed(self) -> torch.Tensor:
        """Its listed values, on the CPU."""
        return torch.as_tensor(self.spec.values).detach().cpu()

    @functools.cached_property
    def counted(self) -> frozenset[int]:
        """The sizes that listed whole numbers may refer to: the end of offsets, the sum of lengths."""
        if not self.listed_whole or self.dtype == torch.bool:
            return frozenset()
        if not self.listed.numel():
            return frozenset()
        most = int(self.listed.max())
        return frozenset({most, most + 1, int(self.listed.sum())})

    @functools.cached_property
    def highest_position(self) -> int | None:
        """The largest of its numbers if all may be positions: whole, and 0 or more; None otherwise."""
        if not self.holds_positions:
            return None
        if self.spec.values is not None:
            listed = self.listed
            return int(listed.max()) if listed.numel() and int(listed.min()) >= 0 else None
        low, high = self.spec.low, self.spec.high
        return int(high) - 1 if low is not None and low >= 0 and high is not None else None

    @functools.cached_property
    def span(self) -> tuple[float, float] | None:
        """The smallest and the largest finite value that is listed; None where none are listed."""
        if self.spec.values is None or not self.dtype.is_floating_point:
            return None
        listed = self.listed.to(torch.float64)
        finite = listed[listed.isfinite()]
        return (float(finite.min()), float(finite.max())) if finite.numel() else (0.0, 1.0)

    def resized(self, shape: tuple[int, ...]) -> TensorSpec:
        """The description at another size, with values drawn in the range of those that were listed."""
        if shape == self.shape:
            return self.spec
        if self.spec.redrawable:
            return replace(self.spec, shape=shape)
        low, high = self.span or (None, None)
        if low is not None and low == high:
            return replace(self.spec, shape=shape, values=None, fill=low)
        return replace(self.spec, shape=shape, values=None, low=low, high=high)


@dataclass(frozen=True, eq=False)
class SampleView:
    """A sample of an op as variants are derived from it.

    Args:
        placement: of the case: its dtype, and what becomes of real tensors.
    """

    op: Op
    sample: Sample
    placement: Placement

    @functools.cached_property
    def given(self) -> dict[str, Any]:
        """The arguments that the sample gives, by schema name."""
        return {argument.name: value for argument, value in self.op.bind(self.sample)}

    @functools.cached_property
    def tensors(self) -> list[TensorArgument]:
        """The dense tensors among the arguments, in order."""
        return [*self._tensors()]

    def _tensors(self) -> Iterator[TensorArgument]:
        for name, value in self.given.items():
            listed = isinstance(value, (list, tuple))
            for index, leaf in enumerate(value if listed else [value]):
                spec = self._described(leaf)
                if spec is not None:
                    path = f"{name}[{index}]" if listed else name
                    dtype = dtype_of(spec, self.placement.dtype)
                    mutated = name in self.op.mutated
                    grad = wants_grad(spec, self.placement.dtype, mutated)
                    yield TensorArgument(path, spec, dtype, mutated, grad)

    def _described(self, leaf: Any) -> TensorSpec | None:
        if isinstance(leaf, TensorSpec):
            return leaf
        if not isinstance(leaf, torch.Tensor) or not is_plain(leaf):
            return None
        cast = self.placement.cast_real is not None and is_differentiable(leaf.dtype)
        return TensorSpec(
            tuple(leaf.shape),
            None if cast else leaf.dtype,
            values=leaf.detach(),
            requires_grad=leaf.requires_grad if self.placement.keep_requires_grad else None,
        )

    def apply(self, step: Step) -> Sample:
        """The changed sample; its id ends with the step."""
        values = self._with(step.changes)
        by_position = [*values][: len(self.sample.args)]
        for name in step.dropped:
            values.pop(name, None)
            if name in by_position:  # those after it are given by name
                del by_position[by_position.index(name) :]
        args = tuple(values.pop(name) for name in by_position)
        return Sample(args, values, f"{self.sample.id}{SEPARATOR}{step.name}")

    def _with(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        new = dict(self.given)
        for path, value in changes.items():
            name, bracket, index = path.partition("[")
            if bracket:
                elements = list(new[name])
                elements[int(index[:-1])] = value
                new[name] = type(new[name])(elements)
            else:
                new[name] = value
        return new
