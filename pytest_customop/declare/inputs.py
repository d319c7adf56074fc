"""How an author describes arguments: `tensor()`, `Sample`, `ErrorSample`, `GradOptions`.

Importing this module imports no torch.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Number, Real
from typing import TYPE_CHECKING, Any

from ..core.suggest import did_you_mean, unknown
from .layouts import LAYOUTS

if TYPE_CHECKING:
    import torch

    from .layouts import Layout

# pytest leaves the frames of this module out, and shows the author's line.
__tracebackhide__ = True

__all__ = ["ErrorSample", "GradOptions", "Sample", "TensorSpec", "tensor"]


@dataclass(frozen=True, eq=False)
class TensorSpec:
    """A description of a tensor, made by `tensor()`; nothing is allocated.

    Two descriptions are equal only if they are the same object: pytest compares parameters, and `==` of
    the tensors inside is not a bool.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype | None = None
    low: float | None = None
    high: float | None = None
    values: Any = None
    fill: float | bool | complex | None = None
    requires_grad: bool | None = None
    layout: Layout | None = None
    strides: tuple[int, ...] | None = None

    @functools.cached_property
    def values_dtype(self) -> torch.dtype | None:
        """The dtype that torch gives the listed values; None without values, or if torch has none."""
        import torch

        try:
            return None if self.values is None else torch.as_tensor(self.values).dtype
        except (RuntimeError, TypeError, ValueError):  # a number too large for int64
            return None

    def __repr__(self) -> str:
        if self.values is not None:
            parts = [f"values={self.values!r}"]
        else:
            parts = [str(size) for size in self.shape]
        for name in ("dtype", "low", "high", "fill", "requires_grad", "layout", "strides"):
            value = getattr(self, name)
            if value is not None:
                parts.append(f"{name}={value!r}")
        return f"tensor({', '.join(parts)})"


def tensor(
    *shape: int | Sequence[int],
    dtype: torch.dtype | None = None,
    low: float | None = None,
    high: float | None = None,
    values: Any = None,
    fill: float | bool | complex | None = None,
    requires_grad: bool | None = None,
    layout: Layout | None = None,
    strides: Sequence[int] | None = None,
) -> TensorSpec:
    """Describe a tensor argument without allocating it.

    Args:
        shape: sizes, as `tensor(3, 64, 64)` or `tensor((3, 64, 64))`; none for a 0-dim tensor.
        dtype: a fixed dtype; None takes the case's dtype. Integer index tensors need one.
        low, high: the half-open range of the values, which `torch.testing.make_tensor` draws from a
            generator seeded by the case's id; None leaves the range to `make_tensor`.
        values: nested lists of numbers, a tensor or an array, in place of a shape and a range.
            Without a `dtype`, integers and booleans get torch's own dtype for them; others take the
            case's dtype.
        fill: one number for every element, in place of a range.
        requires_grad: False keeps this tensor out of the cases with gradients; True puts it in even
            if the op mutates it; None leaves it to the case.
        layout: the memory layout of this tensor alone, in place of the case's.
        strides: in elements, in place of a layout. If they do not fit the sizes of a variant, its memory
            is dense with the dims in the same order.

    Raises:
        TypeError: for an invalid size, dtype or number.
        ValueError: for values of unequal rows, an empty range, an unknown layout, and for more than
            one of values, fill and a range.
    """
    sizes = _sizes(shape)
    if values is not None:
        if shape:
            raise ValueError("tensor(): give a shape or values=, not both")
        values, dtype = _listed(values, dtype)
        sizes = _shape_of(values)
    fill = getattr(fill, "item", lambda: fill)()  # of an array or a tensor without dims
    _validate_dtype(dtype)
    _validate_numbers(low, high, fill)
    if requires_grad is not None and not isinstance(requires_grad, bool):
        raise TypeError(f"tensor(): requires_grad is {requires_grad!r}: give True or False")
    if layout is not None and layout not in LAYOUTS:
        raise ValueError(f"tensor(): {unknown('layout', str(layout), LAYOUTS)}")
    if strides is not None:
        strides = _strides(strides, sizes, layout)
    names = [name for name, value in (("values", values), ("fill", fill)) if value is not None]
    if low is not None or high is not None:
        names.append("low/high")
    if len(names) > 1:
        raise ValueError(f"tensor(): {' and '.join(names)} exclude each other")
    return TensorSpec(sizes, dtype, low, high, values, fill, requires_grad, layout, strides)


def _strides(strides: Any, shape: tuple[int, ...], layout: object) -> tuple[int, ...]:
    if layout is not None:
        raise ValueError("tensor(): layout and strides exclude each other")
    if not isinstance(strides, (list, tuple)) or len(strides) != len(shape):
        raise ValueError(f"tensor(): strides is {strides!r}: give one number per dim, {len(shape)}")
    return _sizes(tuple(strides), "a stride")


def _listed(values: Any, dtype: torch.dtype | None) -> tuple[Any, torch.dtype | None]:
    """The values as lists; an integer or boolean tensor keeps its dtype."""
    if not hasattr(values, "tolist"):
        return values, dtype
    native: Any = getattr(values, "dtype", None)
    whole = hasattr(native, "is_floating_point") and not (
        native.is_floating_point or native.is_complex
    )
    return values.tolist(), native if whole and dtype is None else dtype


def _sizes(shape: tuple[int | Sequence[int], ...], what: str = "a size") -> tuple[int, ...]:
    flat: Any = shape
    if len(shape) == 1 and isinstance(shape[0], (list, tuple)):
        flat = shape[0]
    sizes = tuple(flat)
    for size in sizes:
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise TypeError(f"tensor(): {what} is an integer of at least 0, not {size!r}")
    return sizes


def _shape_of(values: Any) -> tuple[int, ...]:
    if not isinstance(values, (list, tuple)):
        if not isinstance(values, Number) and not hasattr(values, "item"):
            raise TypeError(
                f"tensor(): values= has {values!r}: give nested lists of numbers, a tensor or an array"
            )
        return ()
    shapes = set(map(_shape_of, values))
    if len(shapes) > 1:
        raise ValueError("tensor(): values= has rows of different lengths")
    return (len(values), *(shapes.pop() if shapes else ()))


def _validate_dtype(dtype: Any) -> None:
    loaded: Any = sys.modules.get("torch")  # a dtype can only come from an imported torch
    if dtype is None or (loaded is not None and isinstance(dtype, loaded.dtype)):
        return
    hint = ""
    if isinstance(dtype, str):
        import torch

        known = [
            f"torch.{key}" for key, value in vars(torch).items() if isinstance(value, torch.dtype)
        ]
        hint = did_you_mean(f"torch.{dtype.removeprefix('torch.')}", known)
    raise TypeError(f"tensor(): dtype is {dtype!r}: give a torch dtype, as torch.float32{hint}")


def _validate_numbers(low: Any, high: Any, fill: Any) -> None:
    for name, value in (("low", low), ("high", high)):
        if value is not None and (not isinstance(value, Real) or math.isnan(value)):
            raise TypeError(f"tensor(): {name} is {value!r}: give a number")
    if fill is not None and not isinstance(fill, Number):
        raise TypeError(f"tensor(): fill is {fill!r}: give one number for every element")
    if low is not None and high is not None and not low < high:
        raise ValueError(f"tensor(): low={low} is not below high={high}")


@dataclass(frozen=True, eq=False)
class SameAs:
    """Stands for the tensor of an earlier argument: one tensor passed as two arguments.

    Args:
        argument: the name of the earlier argument.
    """

    argument: str

    def __repr__(self) -> str:
        return f"the tensor given as {self.argument}"


@dataclass(frozen=True, eq=False)
class Sample:
    """One set of arguments for the op.

    Args:
        args: the positional arguments: `tensor()` descriptions, real tensors, and plain values.
        kwargs: the keyword arguments, likewise.
        id: the name of the sample in test ids; None: its position in the list.
    """

    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    id: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.args, (str, bytes)) or not isinstance(self.args, (tuple, Sequence)):
            name = type(self).__name__
            raise TypeError(
                f"{name}(): args is a tuple of the op's arguments, not {self.args!r}; "
                f"for one argument write {name}((x,))"
            )
        object.__setattr__(self, "args", tuple(self.args))
        object.__setattr__(self, "kwargs", dict(self.kwargs))

    def leaves(self) -> Iterator[Any]:
        """Every argument in order; the elements of a list in its place."""
        for value in (*self.args, *self.kwargs.values()):
            if isinstance(value, (list, tuple)):
                yield from value
            else:
                yield value

    def specs(self) -> list[TensorSpec]:
        """The described tensors, in order."""
        return [leaf for leaf in self.leaves() if isinstance(leaf, TensorSpec)]


@dataclass(frozen=True, eq=False)
class ErrorSample(Sample):
    """Arguments that the op must reject, for `errors=`.

    Both the real and the fake kernel must raise. Only the checks `errors.real` and `errors.fake` run.

    Args:
        args, kwargs, id: as in `Sample`; without an id, `error` and the position in the list.
        raises: the type of the exception, or a tuple of types.
        match: a regular expression that `re.search` finds in the message; None: any message.
        data_dependent: whether only the values in the tensors are wrong. A fake kernel sees no values,
            and need not raise then.
    """

    raises: type[Exception] | tuple[type[Exception], ...] = field(kw_only=True)
    match: str | None = field(default=None, kw_only=True)
    data_dependent: bool = field(default=False, kw_only=True)


@dataclass(frozen=True)
class GradOptions:
    """How gradients are compared with finite differences, in `gradcheck.*`.

    Args:
        eps: the step of the central difference, in units of the input. For an op that computes on a
            grid (an 8-bit image), a multiple of the grid's step.
        atol, rtol: absolute and relative tolerance of the comparison, as `torch.autograd.gradcheck`
            takes them.
    """

    eps: float = 1e-6
    atol: float = 1e-6
    rtol: float = 1e-5
