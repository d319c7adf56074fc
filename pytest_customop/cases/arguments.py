"""Draw the arguments of a call: turn descriptions and a seed into tensors on a device, in a layout."""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.testing import make_tensor
from torch.utils.weak import WeakTensorKeyDictionary

from ..core.tracebacks import error_line, message_line
from ..declare.inputs import SameAs, Sample, TensorSpec
from ..declare.layouts import lay_out, strided
from ..declare.mistakes import MarkError
from ..declare.ops import Op
from ..declare.samples import shortened
from .tensors import Copier, base_name, is_differentiable, leaves, map_tensors, once_each

# The errors that torch raises for values that a dtype cannot hold, for lack of memory, and for a device
# that it is not built for.
_UNDRAWABLE = (RuntimeError, TypeError, ValueError, OverflowError, AssertionError)


@dataclass(frozen=True, eq=False)
class Arguments:
    """The arguments of one call of an op."""

    op: Op
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def call(self) -> Any:
        """Call the op on these very tensors."""
        if _on_call is None:
            return self.op(*self.args, **self.kwargs)
        _on_call(self)
        try:
            return self.op(*self.args, **self.kwargs)
        finally:
            _on_call(None)

    def named(self) -> Iterator[tuple[str, Any]]:
        """Every argument with its name in the schema; the elements of a list one by one (`xs[1]`)."""
        positional = self.op.positional_names
        for name, value in (*zip(positional, self.args, strict=False), *self.kwargs.items()):
            yield from leaves(value, name)

    def tensors(self) -> list[tuple[str, torch.Tensor]]:
        """The tensor arguments with their names, in order."""
        return [(name, leaf) for name, leaf in self.named() if isinstance(leaf, torch.Tensor)]

    def differentiable(self) -> list[tuple[str, torch.Tensor]]:
        """The tensor arguments that require gradients."""
        return [(name, leaf) for name, leaf in self.tensors() if leaf.requires_grad]

    def mutated(self) -> list[tuple[str, torch.Tensor]]:
        """The tensor arguments that the schema says are written to."""
        if not self.op.mutated:
            return []
        return [(name, leaf) for name, leaf in self.tensors() if base_name(name) in self.op.mutated]

    def map(self, change: Callable[[torch.Tensor], Any]) -> Arguments:
        """The same arguments with every tensor replaced by `change(tensor)`, in order."""
        args = map_tensors(self.args, change)
        kwargs = {name: map_tensors(value, change) for name, value in self.kwargs.items()}
        return Arguments(self.op, args, kwargs)

    def map_distinct(self, change: Callable[[str, torch.Tensor], torch.Tensor]) -> Arguments:
        """The same arguments with every tensor replaced by `change(name, tensor)`, in order.

        A tensor that is two arguments is changed once, under its first name, and stays one tensor.
        """
        names = iter([name for name, _ in self.tensors()])
        replacements: dict[int, torch.Tensor] = {}

        def changed(tensor: torch.Tensor) -> torch.Tensor:
            name = next(names)
            if id(tensor) not in replacements:
                replacements[id(tensor)] = change(name, tensor)
            return replacements[id(tensor)]

        return self.map(changed)

    def copy(self) -> Arguments:
        """Copies in their own storage, with the same strides, sharing and requires_grad.

        A tensor that is two arguments is one tensor in the copy too.
        """
        copier = Copier()
        return self.map(
            once_each(lambda tensor: copier(tensor).requires_grad_(tensor.requires_grad))
        )


_on_call: Callable[[Arguments | None], None] | None = None


@contextlib.contextmanager
def calls_watched(on_call: Callable[[Arguments | None], None]) -> Iterator[None]:
    """Call a function with the arguments before each `Arguments.call`, and with None after it."""
    global _on_call
    _on_call = on_call
    try:
        yield
    finally:
        _on_call = None


@dataclass(frozen=True)
class Placement:
    """Where and how the tensors of a case are made.

    Args:
        device: the name of a torch device.
        dtype: of the described tensors that do not fix their own.
        requires_grad: whether the tensors that can require gradients do.
        layout: of the described tensors that do not fix their own. Real tensors get it too, unless it
            is `contiguous`: then they keep theirs.
        cast_real: the dtype that real floating-point tensors are cast to; None: they keep theirs.
        switch_real: whether all real tensors that can require gradients do so in a case with gradients;
            False: only those with `requires_grad=True`.
        gradients_asked: whether the mark gives `requires_grad`.
        listed_dtypes: the dtypes that the mark lists; None where it lists none.
    """

    device: str
    dtype: torch.dtype
    requires_grad: bool
    layout: str
    cast_real: torch.dtype | None = None
    switch_real: bool = False
    gradients_asked: bool = False
    listed_dtypes: frozenset[torch.dtype] | None = None

    @property
    def guesses_gradients(self) -> bool:
        """Whether neither the mark nor a tensor declares that gradients are wanted."""
        return self.switch_real and not self.gradients_asked


def draw(op: Op, sample: Sample, where: Placement, seed: int) -> Arguments:
    """The arguments of a sample as tensors.

    The values are drawn by `torch.testing.make_tensor` on the CPU, so that they are the same on every
    device. The session's random state stays as it was.

    Raises:
        MarkError: if torch cannot make one of the tensors.
    """
    copier = Copier()
    values: dict[str, Any] = {}
    keeps_cpu = _has_tensor_there(sample, torch.device(where.device))

    def realise(value: Any, name: str) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(realise(element, name) for element in value)
        if isinstance(value, SameAs):
            return values[value.argument]
        if isinstance(value, TensorSpec):
            return _place_spec(value, name, op, where)
        if isinstance(value, torch.Tensor):
            return _place_real(value, copier, where, name in op.mutated, keeps_cpu)
        if isinstance(value, torch.device):
            return torch.device(where.device)
        return value

    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        positional = op.positional_names
        for name, value in (*zip(positional, sample.args, strict=False), *sample.kwargs.items()):
            try:
                values[name] = realise(value, name)
            except _UNDRAWABLE as error:
                raise MarkError(
                    f"argument {name!r} cannot be made of {shortened(value)} on {where.device}: "
                    f"{error_line(error)}"
                ) from None
    args = tuple(values[name] for name in positional[: len(sample.args)])
    return Arguments(op, args, {name: values[name] for name in sample.kwargs})


def dtype_of(spec: TensorSpec, default: torch.dtype) -> torch.dtype:
    """The dtype of a described tensor in a case of dtype `default`."""
    if spec.dtype is not None:
        return spec.dtype
    if spec.values is not None:
        values_dtype = spec.values_dtype
        return default if values_dtype is None or is_differentiable(values_dtype) else values_dtype
    return torch.bool if isinstance(spec.fill, bool) else default


def why_undrawable(spec: TensorSpec, default: torch.dtype) -> str | None:
    """Why torch cannot draw a described tensor in a case of dtype `default`; None if it can."""
    dtype = dtype_of(spec, default)
    if spec.values is None:
        return _why_no_element(dtype, spec.low, spec.high, spec.fill)
    return None if isinstance(spec.values, torch.Tensor) else _error_of_drawing(spec, dtype)


def is_drawable(spec: TensorSpec) -> bool:
    """Whether torch can draw a described tensor that has a dtype."""
    assert spec.dtype is not None
    return why_undrawable(spec, spec.dtype) is None


@functools.lru_cache(maxsize=1024)
def _why_no_element(dtype: torch.dtype, low: Any, high: Any, fill: Any) -> str | None:
    """As `why_undrawable`, tried on a single element. The random state is preserved."""
    with torch.random.fork_rng(devices=[]):
        return _error_of_drawing(TensorSpec((), dtype, low, high, fill=fill), dtype)


def _error_of_drawing(spec: TensorSpec, dtype: torch.dtype) -> str | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, about new dtypes
        try:
            dense_values(spec, dtype)
        except _UNDRAWABLE as error:
            return message_line(error)
    return None


def wants_grad(spec: TensorSpec, dtype: torch.dtype, mutated: bool) -> bool:
    """Whether a described tensor requires gradients in a case with gradients."""
    if not is_differentiable(dtype_of(spec, dtype)):
        return False
    return not mutated if spec.requires_grad is None else spec.requires_grad


def _place_spec(spec: TensorSpec, name: str, op: Op, where: Placement) -> torch.Tensor:
    dtype = dtype_of(spec, where.dtype)
    mutated = name in op.mutated
    layout = spec.layout or where.layout
    dense = dense_values(spec, dtype).to(where.device)
    if spec.strides is not None and spec.layout is None:
        written = mutated and 0 in spec.strides  # through stride 0 it is undefined
        value = dense if written else strided(dense, spec.strides)
        return value.requires_grad_(where.requires_grad and wants_grad(spec, where.dtype, mutated))
    if mutated and layout == "expanded":
        layout = "contiguous"  # writing through stride 0 is undefined
    value = lay_out(dense, layout)
    requires_grad = where.requires_grad and wants_grad(spec, where.dtype, mutated)
    return value.requires_grad_(requires_grad)


def dense_values(spec: TensorSpec, dtype: torch.dtype) -> torch.Tensor:
    """A described tensor in contiguous memory on the CPU, drawn from torch's default generator."""
    if isinstance(spec.values, torch.Tensor):
        return _on_cpu(spec.values).detach().clone().to(dtype)
    if spec.values is not None:
        return torch.tensor(spec.values, dtype=dtype)
    # torch cannot draw float8, and torch 2.4 cannot fill it either
    drawable = torch.float32 if dtype.is_floating_point and dtype.itemsize == 1 else dtype
    if spec.fill is not None:
        return torch.full(spec.shape, spec.fill, dtype=drawable).to(dtype)
    tensor = make_tensor(spec.shape, dtype=drawable, device="cpu", low=spec.low, high=spec.high)
    return tensor.to(dtype)


def _has_tensor_there(sample: Sample, device: torch.device) -> bool:
    """Whether a sample has a real tensor on this type of device, if that is not the CPU.

    Then its real tensors on the CPU are meant to be there: offsets, a size, a scalar.
    """
    real = (leaf for leaf in sample.leaves() if isinstance(leaf, torch.Tensor))
    return device.type != "cpu" and any(tensor.device.type == device.type for tensor in real)


# The values of real tensors on other devices, which a copy of this process cannot read: on a GPU, trying
# to breaks the device for this process too.
_values_on_cpu: Any = WeakTensorKeyDictionary()


def _on_cpu(tensor: torch.Tensor) -> torch.Tensor:
    """The values of a real tensor on the CPU, copied once."""
    if tensor.device.type == "cpu":
        return tensor
    version = 0 if tensor.is_inference() else tensor._version
    values: torch.Tensor
    known_version, values = _values_on_cpu.get(tensor, (None, tensor))
    if known_version != version:
        values = tensor.detach().cpu()
        _values_on_cpu[tensor] = (version, values)
    return values


def _place_real(
    tensor: torch.Tensor, copier: Copier, where: Placement, mutated: bool, keeps_cpu: bool
) -> torch.Tensor:
    """A copy of a real tensor on the device of a case.

    Args:
        keeps_cpu: whether a tensor on the CPU stays there.
    """
    value = copier(_on_cpu(tensor) if where.device == "cpu" else tensor)
    if where.cast_real is not None and is_differentiable(value.dtype):
        value = value.to(where.cast_real)
    stays = keeps_cpu and value.device.type == "cpu"
    if not stays and value.device != torch.device(where.device):
        value = value.to(where.device)
    if where.layout != "contiguous" and not (mutated and where.layout == "expanded"):
        value = lay_out(value.contiguous(), where.layout)
    requires_grad = tensor.requires_grad or (where.switch_real and not mutated)
    allowed = where.requires_grad and is_differentiable(value.dtype)
    return value.requires_grad_(requires_grad and allowed)
