"""Treat a function of tensors as a function of real vectors, and take difference quotients of it.

Steps are taken along the coordinates of an input's memory, so an input keeps its strides and its offset,
and an expanded one stays expanded. A complex number is two real ones; autograd itself converts the
gradients by torch's convention.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ....cases.tensors import Copier, largest_magnitude, overlaps_itself
from ....core.tracebacks import reraise_bug

Named = list[tuple[str, Tensor]]
ROUNDING = 2.0**-52


class CallError(Exception):
    """The function raised; `error` is what it raised."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(f"{type(error).__name__}: {error}")
        self.error = error


class BackwardError(CallError):
    """The backward of the function raised."""


class OutputsChanged(Exception):
    """A step along the inputs changed the number, the shape or the dtype of the outputs."""


class _InLayoutOf(torch.autograd.Function):
    """Copies values into the memory layout of another tensor; the identity for autograd."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, like: Tensor) -> Tensor:
        ctx.shape = values.shape
        if _is_simple(like):
            return values.to(like.dtype, copy=True)
        placed = Copier()(like)
        placed[_distinct(placed)].copy_(values)
        return placed

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad.sum_to_size(ctx.shape), None


def _is_simple(tensor: Tensor) -> bool:
    """Whether a plain copy has the same layout as the tensor."""
    whole = tensor.untyped_storage().nbytes() == tensor.numel() * tensor.itemsize
    flagged = tensor.is_conj() or tensor.is_neg()
    return whole and tensor.is_contiguous() and not flagged


def _distinct(tensor: Tensor) -> tuple[slice, ...]:
    """The index of a tensor's elements without repetitions in dims of stride 0."""
    return tuple(slice(1) if stride == 0 else slice(None) for stride in tensor.stride())


class Coordinates:
    """Converts the elements of one tensor to a real vector, and back.

    Elements that share an address, as in an expanded tensor, are one coordinate.
    """

    def __init__(self, name: str, tensor: Tensor) -> None:
        self.name = name
        kept = tensor.detach()
        self.like = kept.contiguous() if overlaps_itself(kept) else kept
        self.shape = self.like[_distinct(self.like)].shape

    def read(self) -> Tensor:
        """The tensor's values as a vector."""
        return flat(self.like[_distinct(self.like)]).clone()

    def tensor(self, vector: Tensor) -> Tensor:
        """A new tensor with these values, laid out like the original."""
        if self.like.is_complex():
            values = torch.view_as_complex(vector.reshape(*self.shape, 2))
        else:
            values = vector.reshape(self.shape)
        placed: Tensor = _InLayoutOf.apply(values, self.like)
        return placed

    def where(self, index: int) -> str:
        """A coordinate as text: `[0, 2]`, or `[0, 2] (imaginary part)`."""
        return element_text(index, tuple(self.shape), self.like.is_complex())


def element_text(index: int, shape: tuple[int, ...], is_complex: bool) -> str:
    """The element at a position of a flat vector, as text."""
    part = ""
    if is_complex:
        index, imaginary = divmod(index, 2)
        part = " (imaginary part)" if imaginary else " (real part)"
    where: list[int] = []
    for size in reversed(shape):
        index, position = divmod(index, size)
        where.insert(0, position)
    return f"{where if where else ''}{part}"


def flat(tensor: Tensor) -> Tensor:
    """The real numbers of a tensor as a float64 vector; differentiable."""
    value = tensor.resolve_conj().resolve_neg()
    if value.is_complex():
        value = torch.view_as_real(value)
    return value.reshape(-1).to(torch.float64)


@dataclass(frozen=True)
class Output:
    """One output of a function: name, shape and dtype, and its values at the point as a vector."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    values: Tensor

    def where(self, index: int) -> str:
        """An element as text."""
        return element_text(index, self.shape, self.dtype.is_complex)


@dataclass(frozen=True)
class Slopes:
    """Difference quotients along one direction of one input, a vector for each output.

    Args:
        step: the direction after rounding.
        ahead, behind: the one-sided differences.
        centre: the central difference.
        wide: the central difference at a larger step; NaN if the function cannot be called there.
    """

    step: Tensor
    ahead: list[Tensor]
    behind: list[Tensor]
    centre: list[Tensor]
    wide: list[Tensor]


class VectorFunction:
    """A function of tensors as a function of real vectors, at the values of its inputs.

    Args:
        inputs: (name, tensor) of the inputs by which it is differentiated.
        call: takes one tensor for each input and returns the named outputs; raises `CallError`.

    Raises:
        CallError: if the function raises at the point.
    """

    def __init__(self, inputs: Named, call: Callable[[list[Tensor]], Named]) -> None:
        self.inputs = [Coordinates(name, tensor) for name, tensor in inputs]
        self._call = call
        self._names: set[str] | None = None
        self._start([item.read() for item in self.inputs])

    def _start(self, point: list[Tensor]) -> None:
        self.point = point
        self._leaves = _leaves(point)
        named = self._outputs(self._leaves)
        self._values = [flat(tensor) for _, tensor in named]
        self.outputs = [
            Output(name, tuple(tensor.shape), tensor.dtype, values.detach())
            for (name, tensor), values in zip(named, self._values, strict=True)
        ]
        self._names = {name for name, _ in named}

    def moved(self, point: list[Tensor]) -> VectorFunction:
        """The same function at another point.

        Raises:
            OutputsChanged: if it has other outputs there.
        """
        function = object.__new__(VectorFunction)
        function.inputs, function._call, function._names = self.inputs, self._call, self._names
        function._start(point)
        if function._names != self._names:
            raise OutputsChanged
        return function

    def _outputs(self, vectors: Sequence[Tensor]) -> Named:
        tensors = [item.tensor(vector) for item, vector in zip(self.inputs, vectors, strict=True)]
        named = [(name, tensor) for name, tensor in self._call(tensors) if tensor.numel() > 0]
        if self._names is None:
            return [(name, tensor) for name, tensor in named if tensor.requires_grad]
        return [(name, tensor) for name, tensor in named if name in self._names]

    def __call__(self, *vectors: Tensor) -> tuple[Tensor, ...]:
        """The outputs as vectors, connected to the given vectors by a graph.

        Raises:
            OutputsChanged: if their shapes or dtypes are not those at the point.
        """
        named = self._outputs(vectors)
        signatures = [(name, tuple(tensor.shape), tensor.dtype) for name, tensor in named]
        if signatures != [(output.name, output.shape, output.dtype) for output in self.outputs]:
            raise OutputsChanged
        return tuple(flat(tensor) for _, tensor in named)

    def leaves(self) -> list[Tensor]:
        """The vectors of the point as leaves of a new graph; do not write to them."""
        return _leaves(self.point)

    def at(self, index: int, vector: Tensor) -> list[Tensor]:
        """The outputs at another vector for one input, without a graph."""
        vectors = list(self.point)
        vectors[index] = vector
        return [value.detach() for value in self(*_leaves(vectors))]

    def again(self) -> list[Tensor]:
        """The outputs at the point, computed once more."""
        return [value.detach() for value in self(*self.leaves())]

    def vjp(self, weights: Mapping[int, Tensor]) -> list[Tensor | None]:
        """The gradient of the weighted outputs by each input; None if there is none.

        Args:
            weights: a vector of weights for each output, by its position.

        Raises:
            BackwardError: if the backward raises.
        """
        try:
            return self._differentiate(weights)
        except Exception as error:  # whatever a backward raises; it may run only once on a graph
            reraise_bug(error)
            self._start(self.point)
        try:
            return self._differentiate(weights)
        except Exception as error:  # whatever a backward raises
            reraise_bug(error)
            raise BackwardError(error) from error

    def _differentiate(self, weights: Mapping[int, Tensor]) -> list[Tensor | None]:
        gradients = torch.autograd.grad(
            [self._values[output] for output in weights],
            self._leaves,
            [weight.to(self.outputs[output].values) for output, weight in weights.items()],
            allow_unused=True,
            retain_graph=True,
        )
        return [None if gradient is None else gradient.detach() for gradient in gradients]

    def slopes(self, index: int, direction: Tensor, eps: float) -> Slopes:
        """Difference quotients along a direction of one input."""
        here = self.point[index]
        ends = [here + sign * eps * direction for sign in (1, -1)]
        above, below = (self.at(index, end) for end in ends)
        reach = eps * _larger_step(here, eps)
        try:
            far, near = (self.at(index, here + sign * reach * direction) for sign in (1, -1))
            wide = [(left - right) / (2 * reach) for left, right in zip(far, near, strict=True)]
        except (CallError, OutputsChanged):
            wide = [torch.full_like(output.values, torch.nan) for output in self.outputs]
        base = [output.values for output in self.outputs]
        return Slopes(
            step=torch.where(here.isfinite(), (ends[0] - ends[1]) / (2 * eps), 0),
            ahead=[(value - zero) / eps for value, zero in zip(above, base, strict=True)],
            behind=[(zero - value) / eps for value, zero in zip(below, base, strict=True)],
            centre=[(left - right) / (2 * eps) for left, right in zip(above, below, strict=True)],
            wide=wide,
        )


def _larger_step(point: Tensor, eps: float) -> float:
    """A second step in units of `eps`: small relative to the values, and a power of two for grids."""
    size = largest_magnitude(point) or 1.0
    ratio = 3e-5 * size / eps
    if not ratio > 2:  # also NaN, where a kernel has written to its input
        return 2.0
    return float(2 ** math.floor(math.log2(min(ratio, 1024.0))))


def _leaves(vectors: Sequence[Tensor]) -> list[Tensor]:
    return [vector.detach().requires_grad_() for vector in vectors]
