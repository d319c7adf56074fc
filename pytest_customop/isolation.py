"""Global state before a check is global state after it."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator

import torch

from . import ambient, streams


@contextlib.contextmanager
def preserved_state() -> Iterator[None]:
    """Put back what the block changes: random streams, and the settings that `ambient` lists.

    Gradients are on inside, whatever they were outside.
    """
    with (
        streams.kept(),
        ambient.kept(),
        warnings.catch_warnings(),
        torch.inference_mode(False),
        torch.enable_grad(),
    ):
        yield
