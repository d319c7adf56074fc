"""Seed, save, restore and compare the random streams of torch, of numpy and of Python."""

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
    """The state of every stream, by its name in messages: `torch's on cuda:0`."""
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

    torch.manual_seed is not used: where CUDA is available and not in use yet, it stores each call with
    its traceback for later.
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
    """Restore the state of every stream after the block."""
    cpu, python = torch.get_rng_state(), random.getstate()
    cuda = _cuda_states()
    numpy: Any = sys.modules.get("numpy")
    numpys = numpy.random.get_state() if numpy is not None else None
    try:
        yield
    finally:
        torch.set_rng_state(cpu)
        random.setstate(python)
        if numpy is not None:
            numpy.random.set_state(numpys)
        if cuda:
            torch.cuda.set_rng_state_all(cuda)


def changed(before: State, after: State) -> Iterator[str]:
    """The names of the streams whose states differ."""
    return (name for name, state in before.items() if after.get(name) != state)


def _bytes(state: torch.Tensor) -> bytes:
    return ctypes.string_at(state.data_ptr(), state.numel())


def _cuda_states() -> list[torch.Tensor]:
    return torch.cuda.get_rng_state_all() if _cuda_used() else []


def _cuda_used() -> bool:
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]
