"""Read and validate the keywords of a mark, one function a keyword.

Each takes what the author gave and returns it in one form; None stays None. Each raises `MarkError`.
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


def _listed(given: Any, single: tuple[type, ...]) -> tuple[Any, ...] | None:
    if given is None:
        return None
    if isinstance(given, single):
        return (given,)
    if isinstance(given, Iterable) and not isinstance(given, (str, Mapping)):
        return tuple(given)
    return (given,)


def read_names(given: Any, keyword: str) -> tuple[str, ...] | None:
    listed = _listed(given, (str,))
    if listed is None:
        return None
    if not listed or not all(isinstance(name, str) for name in listed):
        raise MarkError(f"{keyword} is {given!r}: give a list of names")
    return listed


def read_dtypes(given: Any) -> tuple[torch.dtype, ...] | None:
    import torch

    listed = _listed(given, (torch.dtype,))
    if listed is not None and (
        not listed or not all(isinstance(dtype, torch.dtype) for dtype in listed)
    ):
        raise MarkError(f"dtypes is {given!r}: give a list of dtypes, as [torch.float32]")
    return tuple(dict.fromkeys(listed)) if listed is not None else None


def read_requires_grad(given: Any) -> tuple[bool, ...] | None:
    listed = _listed(given, (bool,))
    if listed is not None and (not listed or not all(isinstance(flag, bool) for flag in listed)):
        raise MarkError(f"requires_grad is {given!r}: give False, True, or a list of both")
    return tuple(dict.fromkeys(listed)) if listed is not None else None


def read_layouts(given: Any) -> tuple[str, ...]:
    listed = _listed(given, (str,)) or ()
    if not listed:
        raise MarkError(f"layouts is {given!r}: give a list of layouts ({', '.join(LAYOUTS)})")
    for layout in listed:
        if layout not in LAYOUTS:
            raise MarkError(unknown("layout", str(layout), LAYOUTS))
    return tuple(dict.fromkeys(listed))


def read_axes(given: Any, samples: Any) -> dict[str, tuple[Any, ...]]:
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise MarkError(f"axes is {given!r}: give a dict of names to lists of values")
    if given and not callable(samples):
        raise MarkError(
            "axes are handed to a samples function, and samples is a list: "
            "make it a function (device, dtype, requires_grad, **axes)"
        )
    axes = {name: _listed(values, (str,)) or () for name, values in given.items()}
    for name, values in axes.items():
        _validate_axis(name, values)
    return axes


def _validate_axis(name: str, values: tuple[Any, ...]) -> None:
    """Values of an axis stand in test ids, after its name."""
    if not name.isidentifier():
        raise MarkError(f"axes has {name!r}: give the name of an argument of the samples function")
    if not values:
        raise MarkError(f"axes[{name!r}] is empty")
    words = [str(value) for value in values]
    for index, word in enumerate(words):
        try:
            read_id(f"{name}{word}", f"axes[{name!r}][{index}] in test ids")
        except MarkError as error:
            raise MarkError(f"{error}; look up other values by a name") from None
        if word in words[:index]:
            raise MarkError(f"axes[{name!r}] has two values that read {word!r} in test ids")


def read_function(given: Any, keyword: str, wanted: str) -> Callable[..., Any] | None:
    if given is not None and not callable(given):
        raise MarkError(f"{keyword} is {given!r}: give {wanted}")
    return given  # type: ignore[no-any-return]


def read_reference(given: Any, samples: Any) -> Callable[..., Any] | None:
    reference = read_function(given, "reference", "a function with the op's arguments")
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


def read_variants(given: Any) -> tuple[tuple[str, ...] | Predicate, bool]:
    """The kinds of variants, or the function of those that are not supported; and whether it is strict."""
    if given is None or given is True:
        return KINDS, False
    if given is False:
        return (), False
    listed = _listed(given, (str,)) or ()
    functions = [one for one in listed if callable(one)]
    words = [one for one in listed if isinstance(one, str)]
    if not listed or len(functions) + len(words) < len(listed):
        raise MarkError(f"variants is {given!r}: give a list of names")
    kinds = tuple(dict.fromkeys(word for word in words if word != STRICT))
    for kind in kinds:
        if kind not in KINDS:
            raise MarkError(unknown("kind of variants", kind, (*KINDS, STRICT)))
    if len(functions) > 1 or (functions and kinds):
        raise MarkError(
            f"variants is {given!r}: give kinds of variants, or one function of a variant; "
            f"{STRICT!r} goes with either"
        )
    return (functions[0] if functions else kinds or KINDS), STRICT in words


def read_tolerances(given: Any) -> Mapping[torch.dtype, tuple[float, float]] | None:
    import torch

    if given is None:
        return None
    if isinstance(given, Mapping):
        pairs = dict(given)
    else:
        floats = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
        complexes = (torch.complex32, torch.complex64, torch.complex128)
        pairs = dict.fromkeys((*floats, *complexes), given)
    for dtype, pair in pairs.items():
        two = isinstance(pair, (tuple, list)) and len(pair) == 2
        if not isinstance(dtype, torch.dtype) or not two or not all(map(_is_tolerance, pair)):
            raise MarkError(
                f"tolerances is {given!r}: give (rtol, atol), or {{dtype: (rtol, atol)}}, "
                "numbers of at least 0"
            )
    return pairs


def _is_tolerance(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and float(value) >= 0


def read_gradcheck(given: Any) -> GradOptions | str:
    if given is None:
        return GradOptions()
    if isinstance(given, GradOptions):
        if not all(map(_is_tolerance, (given.eps, given.atol, given.rtol))) or given.eps == 0:
            raise MarkError(f"gradcheck is {given!r}: give numbers of at least 0, and eps above 0")
        return given
    if isinstance(given, str) and given.strip():
        return given
    raise MarkError(
        f"gradcheck is {given!r}: give GradOptions(eps=, atol=, rtol=), or the reason to leave it out"
    )
