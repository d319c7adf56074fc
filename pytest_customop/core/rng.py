"""Random streams: torch's on every device in use, numpy's and Python's."""

from __future__ import annotations

import contextlib
import ctypes
import random
import sys
from collections.abc import Iterator
from typing import Any

import torch

State = dict[str, Any]


def states() -> State:
    """The state of every stream, by what a message calls it."""
    found: State = {"torch's": _bytes(torch.get_rng_state())}
    for index, state in enumerate(_cuda_states()):
        found[f"torch's on cuda:{index}"] = _bytes(state)
    found["Python's"] = random.getstate()
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        kind, keys, *rest = numpy.random.get_state()
        found["numpy's"] = (kind, keys.tobytes(), *rest)
    return found


def seed(number: int) -> None:
    """Start every stream from a number.

    Not by torch.manual_seed: where CUDA is there and not in use yet, that keeps the call and its
    traceback for later, at each call.
    """
    torch.default_generator.manual_seed(number)
    if _cuda_used():
        torch.cuda.manual_seed_all(number)
    random.seed(number)
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(number % 2**32)


@contextlib.contextmanager
def preserved() -> Iterator[None]:
    """Put every stream back to where it was before the block."""
    own, python = torch.get_rng_state(), random.getstate()
    cuda = _cuda_states()
    numpy: Any = sys.modules.get("numpy")
    numpys = numpy.random.get_state() if numpy is not None else None
    try:
        yield
    finally:
        torch.set_rng_state(own)
        random.setstate(python)
        if numpy is not None:
            numpy.random.set_state(numpys)
        if cuda:
            torch.cuda.set_rng_state_all(cuda)


def changed(before: State, after: State) -> Iterator[str]:
    """The streams whose state is another one."""
    return (name for name, state in before.items() if after.get(name) != state)


def _bytes(state: torch.Tensor) -> bytes:
    return ctypes.string_at(state.data_ptr(), state.numel())


def _cuda_states() -> list[torch.Tensor]:
    return torch.cuda.get_rng_state_all() if _cuda_used() else []


def _cuda_used() -> bool:
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]
