"""Read and validate the keywords of a mark, with one function per keyword.

Each takes the author's value, returns it in a uniform form, and raises `MarkError` for a wrong one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from numbers import Real
from typing import TYPE_CHECKING, Any

from ..core.suggest import unknown
from .inputs import GradOptions
from .layouts import LAYOUTS
from .mistakes import MarkError
from .samples import read_id
from .variant import KINDS, STRICT, Predicate

if TYPE_CHECKING:
    import torch


def _listed(value: Any, single: tuple[type, ...]) -> tuple[Any, ...] | None:
    if value is None:
        return None
    if isinstance(value, single):
        return (value,)
    if isinstance(value, Iterable) and not isinstance(value, (str, Mapping)):
        return tuple(value)
    return (value,)


def read_names(value: Any, keyword: str) -> tuple[str, ...] | None:
    listed = _listed(value, (str,))
    if listed is None:
        return None
    if not listed or not all(isinstance(name, str) for name in listed):
        raise MarkError(f"{keyword} is {value!r}: give a list of names")
    return listed


def read_dtypes(value: Any) -> tuple[torch.dtype, ...] | None:
    import torch

    listed = _listed(value, (torch.dtype,))
    if listed is not None and (
        not listed or not all(isinstance(dtype, torch.dtype) for dtype in listed)
    ):
        raise MarkError(f"dtypes is {value!r}: give a list of dtypes, as [torch.float32]")
    return tuple(dict.fromkeys(listed)) if listed is not None else None


def read_requires_grad(value: Any) -> tuple[bool, ...] | None:
    listed = _listed(value, (bool,))
    if listed is not None and (not listed or not all(isinstance(flag, bool) for flag in listed)):
        raise MarkError(f"requires_grad is {value!r}: give False, True, or a list of both")
    return tuple(dict.fromkeys(listed)) if listed is not None else None


def read_layouts(value: Any) -> tuple[str, ...]:
    listed = _listed(value, (str,)) or ()
    if not listed:
        raise MarkError(f"layouts is {value!r}: give a list of layouts ({', '.join(LAYOUTS)})")
    for layout in listed:
        if layout not in LAYOUTS:
            raise MarkError(unknown("layout", str(layout), LAYOUTS))
    return tuple(dict.fromkeys(listed))


def read_axes(value: Any, samples: Any) -> dict[str, tuple[Any, ...]]:
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise MarkError(f"axes is {value!r}: give a dict of names to lists of values")
    if value and not callable(samples):
        raise MarkError(
            "axes are handed to a samples function, and samples is a list: "
            "make it a function (device, dtype, requires_grad, **axes)"
        )
    axes = {name: _listed(values, (str,)) or () for name, values in value.items()}
    for name, values in axes.items():
        _validate_axis(name, values)
    return axes


def _validate_axis(name: str, values: tuple[Any, ...]) -> None:
    """Validate an axis: its name and its values are part of test ids."""
    if not name.isidentifier():
        raise MarkError(f"axes has {name!r}: give the name of an argument of the samples function")
    if not values:
        raise MarkError(f"axes[{name!r}] is empty")
    texts = [str(value) for value in values]
    for index, text in enumerate(texts):
        try:
            read_id(f"{name}{text}", f"axes[{name!r}][{index}] in test ids")
        except MarkError as error:
            raise MarkError(f"{error}; look up other values by a name") from None
        if text in texts[:index]:
            raise MarkError(f"axes[{name!r}] has two values that read {text!r} in test ids")


def read_function(value: Any, keyword: str, description: str) -> Callable[..., Any] | None:
    if value is not None and not callable(value):
        raise MarkError(f"{keyword} is {value!r}: give {description}")
    return value  # type: ignore[no-any-return]


def read_reference(value: Any, samples: Any) -> Callable[..., Any] | None:
    reference = read_function(value, "reference", "a function with the op's arguments")
    if reference is None or callable(samples):
        return reference
    try:
        signature = inspect.signature(reference)
    except (TypeError, ValueError):
        return reference  # written in C: the call itself will raise
    for index, sample in enumerate(samples):
        try:
            signature.bind(*sample.args, **sample.kwargs)
        except TypeError as error:
            raise MarkError(
                f"reference does not take the arguments of samples[{index}]: {error}"
            ) from None
    return reference


def read_variants(value: Any) -> tuple[tuple[str, ...] | Predicate, bool]:
    """The kinds of variants, or the function for unsupported ones; and whether notes are failures."""
    if value is None or value is True:
        return KINDS, False
    if value is False:
        return (), False
    listed = _listed(value, (str,)) or ()
    functions = [item for item in listed if callable(item)]
    names = [item for item in listed if isinstance(item, str)]
    if not listed or len(functions) + len(names) < len(listed):
        raise MarkError(f"variants is {value!r}: give a list of names")
    kinds = tuple(dict.fromkeys(name for name in names if name != STRICT))
    for kind in kinds:
        if kind not in KINDS:
            raise MarkError(unknown("kind of variants", kind, (*KINDS, STRICT)))
    if len(functions) > 1 or (functions and kinds):
        raise MarkError(
            f"variants is {value!r}: give kinds of variants, or one function of a variant; "
            f"{STRICT!r} goes with either"
        )
    return (functions[0] if functions else kinds or KINDS), STRICT in names


def read_tolerances(value: Any) -> Mapping[torch.dtype, tuple[float, float]] | None:
    import torch

    if value is None:
        return None
    if isinstance(value, Mapping):
        pairs = dict(value)
    else:
        floats = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
        complexes = (torch.complex32, torch.complex64, torch.complex128)
        pairs = dict.fromkeys((*floats, *complexes), value)
    for dtype, pair in pairs.items():
        is_pair = isinstance(pair, (tuple, list)) and len(pair) == 2
        if not isinstance(dtype, torch.dtype) or not is_pair or not all(map(_is_tolerance, pair)):
            raise MarkError(
                f"tolerances is {value!r}: give (rtol, atol), or {{dtype: (rtol, atol)}}, "
                "numbers of at least 0"
            )
    return pairs


def _is_tolerance(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and float(value) >= 0


def read_gradcheck(value: Any) -> GradOptions | str:
    if value is None:
        return GradOptions()
    if isinstance(value, GradOptions):
        if not all(map(_is_tolerance, (value.eps, value.atol, value.rtol))) or value.eps == 0:
            raise MarkError(f"gradcheck is {value!r}: give numbers of at least 0, and eps above 0")
        return value
    if isinstance(value, str) and value.strip():
        return value
    raise MarkError(
        f"gradcheck is {value!r}: give GradOptions(eps=, atol=, rtol=), or the reason to leave it out"
    )
