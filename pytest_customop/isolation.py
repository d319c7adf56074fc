"""Global state before a check is global state after it."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator

import torch

from . import ambient, process, streams, torch_logs


@contextlib.contextmanager
def preserved_state() -> Iterator[None]:
    """Put back what the block changes: random streams, what `ambient` lists, and `process`.

    Gradients are on inside, whatever they were outside; torch does not trace what it compiles for pytest.
    """
    with (
        streams.kept(),
        ambient.kept(),
        process.kept(),
        torch_logs.untraced(),
        warnings.catch_warnings(),
        torch.inference_mode(False),
        torch.enable_grad(),
    ):
        yield
