"""Global state before a check is global state after it."""

from __future__ import annotations

import contextlib
import logging
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

Restore = Callable[[], Any]


@contextlib.contextmanager
def preserved_state() -> Iterator[None]:
    """Put back what the block changes.

    Random streams (torch on every used device, numpy, random), default dtype, grad and inference
    mode, deterministic flags, thread count, warnings filters, and the levels of torch's loggers.
    Gradients are on inside, whatever they were outside.
    """
    restores = [take() for take in _TAKERS]
    with contextlib.ExitStack() as stack:
        for restore in restores:
            stack.callback(restore)
        stack.enter_context(warnings.catch_warnings())
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        yield


def _random() -> Restore:
    cpu, python = torch.get_rng_state(), random.getstate()
    numpy = sys.modules.get("numpy")
    numpy_state = numpy.random.get_state() if numpy is not None else None
    on_cuda = torch.cuda.is_available() and torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    cuda = torch.cuda.get_rng_state_all() if on_cuda else None

    def restore() -> None:
        torch.set_rng_state(cpu)
        random.setstate(python)
        if numpy is not None:
            numpy.random.set_state(numpy_state)
        if cuda is not None:
            torch.cuda.set_rng_state_all(cuda)

    return restore


def _defaults() -> Restore:
    dtype = torch.get_default_dtype()
    threads = torch.get_num_threads()

    def restore() -> None:
        torch.set_default_dtype(dtype)
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)

    return restore


def _determinism() -> Restore:
    on = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    cudnn = torch.backends.cudnn
    benchmark, deterministic = cudnn.benchmark, cudnn.deterministic

    def restore() -> None:
        torch.use_deterministic_algorithms(on, warn_only=warn_only)
        # Only what changed: after torch.backends.disable_global_flags(), which torch's own test
        # helpers call, setting a flag raises even if nothing changes.
        if cudnn.benchmark != benchmark:
            cudnn.benchmark = benchmark
        if cudnn.deterministic != deterministic:
            cudnn.deterministic = deterministic

    return restore


def _loggers() -> Restore:
    levels = {
        name: logger.level
        for name, logger in logging.root.manager.loggerDict.items()
        if isinstance(logger, logging.Logger) and name.startswith("torch")
    }

    def restore() -> None:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)

    return restore


_TAKERS: tuple[Callable[[], Restore], ...] = (_random, _defaults, _determinism, _loggers)
