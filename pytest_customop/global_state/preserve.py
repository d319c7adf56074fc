"""Save and restore process-global state around a check."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator

import torch

from ..core import rng
from . import process, settings, torch_logging


@contextlib.contextmanager
def preserved_state(*, streams: bool = True) -> Iterator[Callable[[], None]]:
    """Restore what the block changes: random streams, global settings, and the state of the process.

    Inside, gradients are on and inference mode is off, and torch writes no trace for pytest's handlers.

    Args:
        streams: False if the caller restores the random streams, once for many blocks.

    Yields:
        a function that restores all but the random streams at once, as they were before the block.
    """
    with (
        rng.preserved() if streams else contextlib.nullcontext(),
        warnings.catch_warnings(),
        torch.inference_mode(False),
        torch.enable_grad(),
        settings.preserved() as restore_settings,
        process.preserved() as restore_process,
        torch_logging.untraced(),
    ):

        def restore() -> None:
            restore_process()
            restore_settings()

        yield restore
