"""The file of `--customop-scan-examples`: samples that somebody wrote for some of the ops."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import torch

from ..core.suggest import did_you_mean
from ..core.tracebacks import error_line
from ..declare.inputs import Sample
from ..declare.mistakes import MarkError
from ..declare.ops import Op, OpError, resolve
from ..declare.samples import read_samples
from ..harvest.calls import MOST_BYTES_OF_SESSION, SeenCall, seen_value
from ..harvest.samples import NotReplayed, sample_of
from .packages import ScanError

NAME = "EXAMPLES"


def read_examples(path: Path) -> dict[str, tuple[Sample, ...]]:
    """The samples by the name of the op; real tensors become descriptions of them.

    Raises:
        ScanError: for a file that does not run, and for what is no example.
    """
    try:
        found = runpy.run_path(str(path)).get(NAME)
    except Exception as error:  # whatever the file raises
        raise ScanError(f"{path.name} raises {error_line(error)}") from None
    if not isinstance(found, dict):
        raise ScanError(f"{path.name} has no dict {NAME}, as {NAME} = {{'mylib::scale': [(x, 2)]}}")
    return dict(_read(name, given, path) for name, given in found.items())


def _read(name: Any, given: Any, path: Path) -> tuple[str, tuple[Sample, ...]]:
    where = f"{path.name}: {NAME}[{name!r}]"
    try:
        op = resolve(name)
        samples = read_samples(given, op, where)
        return op.name, tuple(_described(op, one) for one in samples)
    except (OpError, MarkError, NotReplayed) as error:
        raise ScanError(f"{where}: {error}") from None


def _described(op: Op, sample: Sample) -> Sample:
    if not any(isinstance(one, torch.Tensor) for one in sample.leaves()):
        return sample
    args = tuple(seen_value(one, True, MOST_BYTES_OF_SESSION) for one in sample.args)
    kwargs = {
        name: seen_value(one, True, MOST_BYTES_OF_SESSION) for name, one in sample.kwargs.items()
    }
    made = sample_of(op, SeenCall(op.name, args, kwargs))
    return Sample(made.args, made.kwargs, sample.id)


def unknown_ops(examples: dict[str, tuple[Sample, ...]], known: list[str]) -> list[str]:
    """A sentence about each op with examples that is not among those that are scanned."""
    return [
        f"there are examples for {name}, which is not scanned{did_you_mean(name, known)}"
        for name in examples
        if name not in known
    ]
