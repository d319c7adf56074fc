"""Seed, save, restore and compare the random streams of torch, of numpy and of Python."""

from __future__ import annotations

import contextlib
import ctypes
import random
import sys
from collections.abc import Iterator
from typing import Any

import torch

from .lost_device import error_of

State = dict[str, Any]


def states() -> State:
    """The state of every stream, by its name in messages: `torch's on cuda:0`."""
    by_name: State = {"torch's": _bytes(torch.get_rng_state())}
    for index, state in enumerate(_cuda_states()):
        by_name[f"torch's on cuda:{index}"] = _bytes(state)
    for device, state in _other_states().items():
        by_name[f"torch's on {device}"] = _bytes(state)
    by_name["Python's"] = random.getstate()
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        kind, keys, *rest = numpy.random.get_state()
        by_name["numpy's"] = (kind, keys.tobytes(), *rest)
    return by_name


def seed(number: int) -> None:
    """Seed every stream with a number.

    torch.manual_seed is not used: where CUDA is available and not in use yet, it stores each call with
    its traceback for later.
    """
    torch.default_generator.manual_seed(number)
    if _cuda_used():
        torch.cuda.manual_seed_all(number)
    _, accelerator = _other_accelerator()
    if hasattr(accelerator, "manual_seed_all"):
        accelerator.manual_seed_all(number)
    seed_besides_torch(number)


def seed_besides_torch(number: int) -> None:
    """Seed the streams of Python and of numpy, which `torch.manual_seed` leaves alone."""
    random.seed(number)
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(number % 2**32)


def drawn_since(number: int) -> bool:
    """Whether anything was drawn since `seed(number)`; afterwards every stream is seeded again."""
    before = states()
    seed(number)
    return states() != before


@contextlib.contextmanager
def preserved() -> Iterator[None]:
    """Restore the state of every stream after the block."""
    cpu, python = torch.get_rng_state(), random.getstate()
    cuda, others = _cuda_states(), _other_states()
    numpy: Any = sys.modules.get("numpy")
    numpys = numpy.random.get_state() if numpy is not None else None
    try:
        yield
    finally:
        torch.set_rng_state(cpu)
        random.setstate(python)
        if numpy is not None:
            numpy.random.set_state(numpys)
        if cuda and _cuda_used():
            torch.cuda.set_rng_state_all(cuda)
        _, accelerator = _other_accelerator()
        for device, state in others.items() if accelerator is not None else ():
            accelerator.set_rng_state(state, device)


def changed(before: State, after: State) -> Iterator[str]:
    """The names of the streams whose states differ."""
    return (name for name, state in before.items() if after.get(name) != state)


def _bytes(state: torch.Tensor) -> bytes:
    return ctypes.string_at(state.data_ptr(), state.numel())


def _cuda_states() -> list[torch.Tensor]:
    return torch.cuda.get_rng_state_all() if _cuda_used() else []


def _cuda_used() -> bool:
    if error_of("cuda") is not None:
        return False  # every call raises
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


def _other_states() -> dict[str, torch.Tensor]:
    """The states of the streams of an accelerator that is not a CUDA device, by device: `npu:0`."""
    kind, module = _other_accelerator()
    if not hasattr(module, "get_rng_state") or not hasattr(module, "set_rng_state"):
        return {}
    devices = (f"{kind}:{index}" for index in range(module.device_count()))
    return {device: module.get_rng_state(device) for device in devices}


def _other_accelerator() -> tuple[str, Any]:
    """The type of an accelerator that is not a CUDA device, and its torch module if it is in use, or None.

    torch 2.4 and 2.5 do not report the accelerator, and 2.6 raises if there is none. Left out are MPS,
    which has one stream, without an index, and a device that is lost.
    """
    accelerator: Any = getattr(torch, "accelerator", None)
    try:
        device = accelerator.current_accelerator() if accelerator is not None else None
    except RuntimeError:
        device = None
    if device is None or device.type in ("cuda", "mps") or error_of(device.type) is not None:
        return "", None
    module: Any = getattr(torch, device.type, None)
    used = getattr(module, "is_initialized", None)
    return device.type, module if used is None or used() else None
