"""Global state before a check is global state after it."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator

import torch

from . import ambient, process, streams, torch_logs


@contextlib.contextmanager
def preserved_state() -> Iterator[Callable[[], None]]:
    """Put back what the block changes: random streams, what `ambient` lists, and `process`.

    Gradients are on inside, whatever they were outside; torch does not trace what it compiles for
    pytest. What the block is given puts all but random streams back at once, as they were when it began.
    """
    with (
        streams.kept(),
        warnings.catch_warnings(),
        torch.inference_mode(False),
        torch.enable_grad(),
        ambient.kept() as put_settings_back,
        process.kept() as put_process_back,
        torch_logs.untraced(),
    ):

        def put_back() -> None:
            put_process_back()
            put_settings_back()

        yield put_back
