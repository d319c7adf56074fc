"""Arrays that hold int64 and claim a dtype of fewer bits. Imports numpy, which may be missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from .shadow_values import Overflow, running_at

WATCHED = ("int8", "uint8", "int16", "int32")
_BITS = frozenset(
    {
        *("bitwise_and", "bitwise_or", "bitwise_xor", "invert", "bitwise_not"),
        *("left_shift", "right_shift", "remainder", "fmod", "divmod", "bitwise_count"),
    }
)

# Methods in C that return another dtype than that of the array: their functions find it out.
_METHODS = (
    *(
        "cumsum",
        "cumprod",
        "dot",
        "trace",
        "mean",
        "var",
        "std",
        "round",
        "searchsorted",
        "nonzero",
    ),
    *("argsort", "argmax", "argmin", "argpartition"),
)


class Watch:
    """What happens to the arrays of one block.

    Attributes:
        arrays: how many arrays of few bits a kernel got.
        first: the first overflow; None without one.
    """

    def __init__(self, is_of_author: Callable[[str], bool]) -> None:
        self.arrays = 0
        self.first: Overflow | None = None
        self._is_of_author = is_of_author

    def note(self, operator: str, wide: Any, narrow: Any) -> None:
        """Keep the first overflow: a number of `wide` that `narrow` does not have."""
        if self.first is not None or wide.shape != narrow.shape:
            return
        differs = (wide != narrow).reshape(-1)
        if not differs.any():
            return
        at = int(differs.argmax())
        exact, actual = int(wide.reshape(-1)[at]), int(narrow.reshape(-1)[at])
        dtype = getattr(torch, narrow.dtype.name)
        place = running_at(self._is_of_author)
        self.first = Overflow(operator, dtype, exact, actual, *place)


class WideArray(np.ndarray):
    """An array that holds int64 and claims a dtype of few bits.

    Attributes:
        claimed: the dtype.
        watch: keeps the first overflow.
    """

    claimed: Any = None
    watch: Any = None

    @classmethod
    def of(cls, values: Any, claimed: Any, watch: Watch) -> WideArray:
        array: WideArray = values.view(cls)
        array.claimed, array.watch = claimed, watch
        return array

    def __array_finalize__(self, other: Any) -> None:
        if other is not None:
            self.claimed = getattr(other, "claimed", None)
            self.watch = getattr(other, "watch", None)

    @property
    def dtype(self) -> Any:
        return self.claimed or np.ndarray.dtype.__get__(self)

    def narrow(self) -> Any:
        return self.plain().astype(self.claimed)

    def plain(self) -> Any:
        return np.ndarray.view(self, np.ndarray)

    def __array_ufunc__(
        self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **kwargs: Any
    ) -> Any:
        call = getattr(ufunc, method)
        if method == "at":
            return self._at(call, *inputs)
        found = self._both(call, ufunc.__name__, inputs, kwargs)
        if out is None:
            return found
        results = found if isinstance(found, tuple) else (found,)
        for target, result in zip(out, results, strict=True):
            if target is not None:
                _write(target, result, kwargs.get("where", True))
        return out[0] if len(out) == 1 else out

    def _at(self, call: Any, target: Any, *others: Any) -> None:
        if isinstance(target, WideArray):
            call(target.plain(), *map(_plain_of, others))
        else:
            call(target, *map(_narrow_of, others))

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        out = kwargs.pop("out", None)
        if func.__name__ == "copyto":
            return _write(args[0], args[1], kwargs.get("where", True))
        if func.__name__ in ("fill_diagonal", "put", "place", "putmask", "put_along_axis"):
            change = _plain_of if isinstance(args[0], WideArray) else _narrow_of
            return func(*map(change, args), **{k: change(v) for k, v in kwargs.items()})
        found = self._both(func, func.__name__, args, kwargs)
        if out is None:
            return found
        target = out[0] if isinstance(out, tuple) else out
        _write(target, found, True)
        return target

    def _both(self, call: Any, name: str, args: Any, kwargs: Any) -> Any:
        """The result with few bits, and in int64 where that is more."""
        natural = call(*_mapped(_narrow_of, args), **_mapped(_narrow_of, kwargs))
        if name in _BITS or not _has_numbers(natural):
            return self._wrapped(natural, natural, name)
        wide_kwargs = _mapped(_plain_of, kwargs)
        if kwargs.get("dtype") is not None and np.dtype(kwargs["dtype"]).name in WATCHED:
            wide_kwargs["dtype"] = np.int64
        try:
            wide = call(*_mapped(_plain_of, args), **wide_kwargs)
        except TypeError:  # it takes bytes only
            wide = natural
        return self._wrapped(natural, wide, name)

    def _wrapped(self, natural: Any, wide: Any, name: str) -> Any:
        if isinstance(natural, (tuple, list)):
            pairs = zip(natural, wide, strict=True)
            return type(natural)(self._wrapped(*pair, name) for pair in pairs)
        if not isinstance(natural, (np.ndarray, np.generic)):
            return natural
        if np.shape(wide) != natural.shape:
            return wide
        if natural.dtype.name in WATCHED:
            values = np.asarray(wide).astype(np.int64)
            self.watch.note(name, values, np.asarray(natural))
            return WideArray.of(values, natural.dtype, self.watch)
        return np.asarray(wide).astype(natural.dtype)[()]

    def astype(self, dtype: Any, *args: Any, **kwargs: Any) -> Any:
        target = np.dtype(dtype)
        if target.name not in WATCHED:
            few = target.kind in "iu" and target.itemsize < 8
            return (self.narrow() if few else self.plain()).astype(target)
        fits = np.can_cast(self.claimed, target)
        values = self.plain() if fits else self.narrow().astype(target)
        return WideArray.of(values.astype(np.int64), target, self.watch)

    def view(self, *args: Any, **kwargs: Any) -> Any:
        if args or kwargs:
            return self.narrow().view(*args, **kwargs)  # memory read as something else
        return super().view()

    def tobytes(self, *args: Any, **kwargs: Any) -> bytes:
        data: bytes = self.narrow().tobytes(*args, **kwargs)
        return data

    def __reduce__(self) -> Any:
        return self.narrow().__reduce__()


def _method(name: str) -> Callable[..., Any]:
    function = getattr(np, name)

    def call(self: WideArray, *args: Any, **kwargs: Any) -> Any:
        return function(self, *args, **kwargs)

    return call


for _name in _METHODS:
    setattr(WideArray, _name, _method(_name))


def _plain_of(value: Any) -> Any:
    return value.plain() if isinstance(value, WideArray) else value


def _narrow_of(value: Any) -> Any:
    return value.narrow() if isinstance(value, WideArray) else value


def _mapped(change: Callable[[Any], Any], value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _mapped(change, each) for key, each in value.items()}
    if type(value) in (tuple, list):
        return type(value)(_mapped(change, each) for each in value)
    return change(value)


def _has_numbers(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return any(map(_has_numbers, value))
    return isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "biuf"


def _write(target: Any, value: Any, where: Any) -> None:
    """Write into an array: with all bits if it is a wide one."""
    if isinstance(target, WideArray):
        np.copyto(target.plain(), _plain_of(value), casting="unsafe", where=_plain_of(where))
    else:
        np.copyto(target, _narrow_of(value), casting="unsafe", where=_plain_of(where))
