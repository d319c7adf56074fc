"""Call a mark's samples function so that it draws the same values in every process."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from ..core import rng
from ..core.seeds import seed_of
from ..core.tracebacks import raised_at
from ..declare.declaration import Declaration
from ..declare.inputs import Sample, TensorSpec
from ..declare.mistakes import MarkError
from ..declare.ops import OpError
from ..declare.samples import read_samples


def call_samples_function(
    declaration: Declaration,
    device: str,
    dtype: torch.dtype,
    requires_grad: bool,
    axes: Mapping[str, Any],
    seed: int,
) -> tuple[Sample, ...]:
    """The samples that the function returns for one device, dtype, requires_grad and value of each axis.

    The random streams of torch, Python and numpy are seeded by the session's seed, the op and the dtype.
    The values depend on nothing else, so they are the same with gradients and without. Afterwards the
    streams continue as before.

    Args:
        seed: of the session.

    Raises:
        MarkError: if the function raises, or returns something other than samples.
    """
    make: Any = declaration.samples
    origin = f"samples function {getattr(make, '__qualname__', make)}"
    try:
        _validate_signature(make, origin, (device, dtype, requires_grad), axes)
        if torch.device(device).type == "cuda" and torch.cuda.is_available():
            torch.cuda.init()  # type: ignore[no-untyped-call] # else its streams cannot be preserved
        with rng.preserved():
            rng.seed(seed_of("samples", seed, declaration.op.name, dtype))
            samples = make(device, dtype, requires_grad, **axes)
            if isinstance(samples, (Sample, TensorSpec)) or not isinstance(samples, Iterable):
                raise MarkError(
                    f"{origin} returned {samples!r}: return or yield tuples of arguments"
                )
            return read_samples(samples, declaration.op, origin)
    except (MarkError, OpError) as error:
        raise declaration.mistake(str(error)) from error.__cause__
    except Exception as error:  # whatever the author's function raises
        what = f"{type(error).__name__}: {error} ({raised_at(error)})"
        raise declaration.mistake(f"{origin} raised {what}") from error


def _validate_signature(
    make: Any, origin: str, arguments: tuple[Any, ...], axes: Mapping[str, Any]
) -> None:
    try:
        signature = inspect.signature(make)
    except (TypeError, ValueError):
        return  # written in C: the call itself will raise
    try:
        signature.bind(*arguments, **axes)
    except TypeError as error:
        names = ", ".join(("device", "dtype", "requires_grad", *axes))
        why = f"{error}"
        if not signature.parameters:
            name = getattr(make, "__name__", "the function")
            why = f"it takes no arguments. For one list of samples for all of them, write {name}()"
        raise MarkError(f"{origin} is called with ({names}): {why}") from None
