"""A sample seen as named arguments that can be changed one by one."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ...cases.arguments import Placement, dtype_of, wants_grad
from ...cases.crash_risk import crash_risk
from ...cases.documented_numbers import at_least_zero
from ...cases.documented_shapes import names_of_sizes
from ...cases.template import (
    counted_sizes,
    described,
    is_permutation,
    is_redrawable,
    is_sorted,
    listed,
    record_size,
    redrawn,
    sizes_besides,
)
from ...cases.tensors import has_repeats, is_differentiable
from ...declare.inputs import Sample, TensorSpec
from ...declare.ops import Op
from ...declare.variant import SEPARATOR, Step
from .named_dtypes import named_dtypes

MOST_LISTED = 2**14  # elements: larger tensors are left out where a step lists all values


@dataclass(frozen=True, eq=False)
class TensorArgument:
    """One dense tensor among the arguments, or in a list among them.

    Args:
        path: `x`, or `xs[1]`.
        spec: its description; a real tensor is described by its values.
        dtype: its dtype in the case.
        others: the sizes of the other tensors of the sample.
        mutated: whether the op writes to it.
        wants_grad: whether it requires gradients in a case with gradients.
        at_least_zero: whether a docstring says that its numbers are not negative, and gives no largest.
    """

    path: str
    spec: TensorSpec
    dtype: torch.dtype
    others: frozenset[int]
    mutated: bool
    wants_grad: bool
    at_least_zero: bool = False

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
        """Whether it holds integers, which may be positions in other tensors."""
        return not self.floating and self.dtype != torch.bool

    @property
    def resizable(self) -> bool:
        """Whether it can get values at another size."""
        return is_redrawable(self.spec, self.dtype, self.others)

    @property
    def record_sizes(self) -> frozenset[int]:
        """The size of the dim that counts integers which belong together, if it has one."""
        size = record_size(self.spec, self.dtype)
        return frozenset() if size is None else frozenset((size,))

    @property
    def listed_whole(self) -> bool:
        """Whether its values are integers or booleans that the author listed: mostly positions."""
        return not self.floating and self.spec.values is not None

    @functools.cached_property
    def listed(self) -> torch.Tensor:
        """Its listed values, on the CPU."""
        return listed(self.spec)

    @functools.cached_property
    def is_permutation(self) -> bool:
        """Whether its listed numbers, more than one, are consecutive in some order.

        In several dims they are a permutation only if they are as many as entries of another tensor.
        """
        if self.spec.values is None or not is_permutation(self.listed):
            return False
        return len(self.shape) == 1 or self.listed.numel() in self.others

    @functools.cached_property
    def has_distinct_numbers(self) -> bool:
        """Whether no listed number occurs twice."""
        return self.spec.values is not None and not has_repeats(self.listed)

    @functools.cached_property
    def is_sorted(self) -> bool:
        """Whether its listed numbers, more than one, never decrease."""
        return self.spec.values is not None and is_sorted(self.listed)

    @functools.cached_property
    def counted(self) -> frozenset[int]:
        """The sizes that listed integers may refer to: the end of offsets, the sum of lengths."""
        return counted_sizes(self.spec, self.dtype)

    @property
    def counts_others(self) -> frozenset[int]:
        """The sizes of other tensors that its listed integers may refer to."""
        return self.counted & self.others

    @functools.cached_property
    def value_limits(self) -> tuple[float, float] | None:
        """The range that floating-point values of a variant stay in.

        It is the range of the description, or of the values that the author listed. Listed values stand
        for any numbers if they have both signs and exceed 1, as those of `torch.randn` do, and for larger
        ones if a docstring says only that they are not negative. None if the values are sorted, complex
        or all the same.
        """
        spec = self.spec
        if spec.fill is not None:
            return None
        if spec.values is None:
            low = -math.inf if spec.low is None else float(spec.low)
            return low, math.inf if spec.high is None else float(spec.high)
        if self.dtype.is_complex or (self.listed.dim() == 1 and self.is_sorted):
            return None
        finite = self.listed[self.listed.isfinite()].to(torch.float64)
        if not finite.numel():
            return None
        low, high = float(finite.min()), float(finite.max())
        if low < 0 < high and max(-low, high) > 1:
            return -math.inf, math.inf
        if low >= 0 and self.at_least_zero:
            return low, math.inf
        return (low, high) if low < high else None

    @functools.cached_property
    def highest_position(self) -> int | None:
        """The largest of its numbers if all may be positions: integers of 0 or more; None otherwise."""
        if not self.holds_positions:
            return None
        if self.spec.values is not None:
            listed = self.listed
            return int(listed.max()) if listed.numel() and int(listed.min()) >= 0 else None
        low, high = self.spec.low, self.spec.high
        return int(high) - 1 if low is not None and low >= 0 and high is not None else None

    def resized(self, shape: tuple[int, ...]) -> TensorSpec:
        """The description at another size, with values like the listed ones.

        Raises:
            ValueError: if it is not `resizable`.
        """
        spec = self.redrawn(shape)
        if spec is None:
            raise ValueError(f"{self.path} cannot be drawn at another size")
        return spec

    def redrawn(self, shape: tuple[int, ...]) -> TensorSpec | None:
        """The same; None if it cannot be drawn at that size."""
        return redrawn(self.spec, self.dtype, shape, self.others)


@dataclass(frozen=True, eq=False)
class SampleView:
    """A sample of an op, for deriving variants.

    Args:
        placement: of the case; it decides the dtype, and the treatment of real tensors.
    """

    op: Op
    sample: Sample
    placement: Placement

    @functools.cached_property
    def given(self) -> dict[str, Any]:
        """The arguments that the sample gives, by schema name."""
        return {argument.name: value for argument, value in self.op.bind(self.sample)}

    def value_of(self, argument: Any) -> Any:
        """The sample's value for an argument of the schema, or its default; None without either."""
        default = argument.default_value if argument.has_default_value() else None
        return self.given.get(argument.name, default)

    @functools.cached_property
    def tensors(self) -> list[TensorArgument]:
        """The dense tensors among the arguments, in order."""
        return [*self._tensors()]

    @functools.cached_property
    def may_read_outside(self) -> bool:
        """Whether the kernel may read out of bounds if its arguments do not fit."""
        return crash_risk(self.op, self.placement.device) is not None

    @functools.cached_property
    def named_dtypes(self) -> list[torch.dtype]:
        """The dtypes of tensors that the op's Python code names."""
        return named_dtypes(self.op)

    @functools.cached_property
    def free_sizes(self) -> frozenset[int]:
        """The sizes that can change: no tensor has to keep them, and no listed integers refer to them."""
        fixed = {size for tensor in self.tensors if not tensor.resizable for size in tensor.shape}
        fixed |= {
            size for tensor in self.tensors for size in tensor.counts_others | tensor.record_sizes
        }
        all_sizes = {size for tensor in self.tensors for size in tensor.shape}
        return frozenset(all_sizes - fixed)

    @functools.cached_property
    def size_names(self) -> Mapping[tuple[str, int], str]:
        """How docstrings call each size, by path and dim; empty unless they give all shapes."""
        return names_of_sizes(self.op, {tensor.path: tensor.shape for tensor in self.tensors}) or {}

    def _tensors(self) -> Iterator[TensorArgument]:
        descriptions = [*self._descriptions()]
        shapes = {path: spec.shape for path, _, spec in descriptions}
        for path, name, spec in descriptions:
            others = sizes_besides(path, shapes)
            dtype = dtype_of(spec, self.placement.dtype)
            mutated = name in self.op.mutated
            grad = wants_grad(spec, self.placement.dtype, mutated)
            positive = at_least_zero(self.op, name)
            yield TensorArgument(path, spec, dtype, others, mutated, grad, positive)

    def _descriptions(self) -> Iterator[tuple[str, str, TensorSpec]]:
        """(path, argument, description) of each dense tensor."""
        for name, value in self.given.items():
            is_list = isinstance(value, (list, tuple))
            for index, leaf in enumerate(value if is_list else [value]):
                spec = self._described(leaf)
                if spec is not None:
                    yield f"{name}[{index}]" if is_list else name, name, spec

    def _described(self, leaf: Any) -> TensorSpec | None:
        if isinstance(leaf, TensorSpec):
            return leaf
        return described(leaf, self.placement) if isinstance(leaf, torch.Tensor) else None

    def apply(self, step: Step) -> Sample:
        """The changed sample; its id ends with the step."""
        values = self._with(step.changes)
        by_position = [*values][: len(self.sample.args)]
        for name in step.dropped:
            values.pop(name, None)
            if name in by_position:  # the arguments after it are given by name
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
