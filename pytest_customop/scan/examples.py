"""The file of `--customop-scan-examples`: samples for some of the ops, in a dict or in marked tests."""

from __future__ import annotations

import runpy
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch

from ..core.suggest import did_you_mean
from ..core.tracebacks import error_line
from ..declare.declaration import declare
from ..declare.inputs import Sample
from ..declare.marked import marks_of
from ..declare.mistakes import MarkError
from ..declare.ops import Op, OpError, resolve
from ..declare.samples import read_samples
from ..harvest.calls import MOST_BYTES_OF_SESSION, SeenCall, seen_value
from ..harvest.samples import NotReplayed, sample_of
from .packages import ScanError

NAME = "EXAMPLES"


def read_examples(path: Path, known: Collection[str]) -> dict[str, tuple[Sample, ...]]:
    """The samples by the name of the op; real tensors are replaced by descriptions.

    Args:
        path: the file. Marked tests may be for other ops too; `EXAMPLES` may not.
        known: the names of the ops that are scanned.

    Raises:
        ScanError: for a file that does not run, and for an invalid example.
    """
    try:
        module = runpy.run_path(str(path))
    except Exception as error:  # whatever the file raises
        raise ScanError(f"{path.name} raises {error_line(error)}") from None
    value = module.get(NAME)
    if isinstance(value, dict):
        examples = dict(_read(name, samples, path) for name, samples in value.items())
        for name in examples:
            if name not in known:
                hint = did_you_mean(name, known)
                raise ScanError(
                    f"{path.name}: {NAME} has samples for {name}, which is not scanned{hint}"
                )
        return examples
    marked = _of_marks(module, path)
    if not marked:
        raise ScanError(
            f"{path.name} has no dict {NAME}, as {NAME} = {{'mylib::scale': [(x, 2)]}}, and no marked "
            "test with a list of samples"
        )
    return {name: samples for name, samples in marked.items() if name in known}


def _of_marks(module: Mapping[str, Any], path: Path) -> dict[str, tuple[Sample, ...]]:
    """The samples in the marks of a file, for example one that `--customop-harvest-save` wrote."""
    examples: dict[str, tuple[Sample, ...]] = {}
    for name, value in module.items():
        for mark in marks_of(value):
            where = f"{path.name}: {name}"
            try:
                declaration = declare(mark, where)
                if not callable(declaration.samples):
                    op = declaration.op
                    samples = (_described(op, sample) for sample in declaration.samples)
                    examples[op.name] = (*examples.get(op.name, ()), *samples)
            except (OpError, MarkError, NotReplayed) as error:
                raise ScanError(f"{where}: {error}") from None
    return examples


def _read(name: Any, value: Any, path: Path) -> tuple[str, tuple[Sample, ...]]:
    where = f"{path.name}: {NAME}[{name!r}]"
    try:
        op = resolve(name)
        samples = read_samples(value, op, where)
        return op.name, tuple(_described(op, sample) for sample in samples)
    except (OpError, MarkError, NotReplayed) as error:
        raise ScanError(f"{where}: {error}") from None


def _described(op: Op, sample: Sample) -> Sample:
    if not any(isinstance(leaf, torch.Tensor) for leaf in sample.leaves()):
        return sample
    args = tuple(seen_value(value, True, MOST_BYTES_OF_SESSION) for value in sample.args)
    kwargs = {
        name: seen_value(value, True, MOST_BYTES_OF_SESSION)
        for name, value in sample.kwargs.items()
    }
    described = sample_of(op, SeenCall(op.name, args, kwargs))
    return Sample(described.args, described.kwargs, sample.id)
