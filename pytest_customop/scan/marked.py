"""The file of marked tests for the inputs that were found."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from ..core.wording import dtype_name
from ..declare.inputs import Sample, TensorSpec
from ..declare.ops import Op
from ..harvest.samples import Group
from ..harvest.source import file_of, piece_of

_LONGEST_ID = 48


@dataclass(frozen=True)
class Inputs:
    """The samples of one op.

    Args:
        op: the op.
        samples: the samples that it accepts.
        origin: where they come from, for a comment.
    """

    op: Op
    samples: tuple[Sample, ...]
    origin: str


def marked_tests(inputs: Iterable[Inputs], packages: Sequence[str], option: str) -> str:
    """The source of the file: one marked test per op.

    Args:
        packages: the packages that register the ops.
        option: the command-line option that makes the file again.
    """
    pieces = []
    for op_inputs in inputs:
        named = _named(op_inputs.samples)
        group = Group(
            op=op_inputs.op,
            device="cpu",
            requires_grad=None,
            samples={str(sample.id): sample for sample in named},
            seen_in={str(sample.id): op_inputs.origin for sample in named},
        )
        modules = {name: sys.modules.get(_home(op_inputs.op, packages)) for name in group.samples}
        pieces.append(piece_of(group, modules))
    title = f'"""Marked tests of the inputs that a scan found: `pytest {option}`."""'
    return file_of(pieces, title)


def _home(op: Op, packages: Sequence[str]) -> str:
    """The package that registers an op: the one with the name of the namespace, or the first."""
    namespace = op.name.partition("::")[0]
    named = [package for package in packages if package.replace(".", "_") == namespace]
    return [*named, *packages][0]


def _named(samples: Sequence[Sample]) -> list[Sample]:
    """The samples with descriptive ids; a number distinguishes samples with equal ids."""
    by_id: dict[str, Sample] = {}
    for sample in samples:
        name = base = _id_of(sample) if (sample.id or "0").isdigit() else str(sample.id)
        number = 2
        while name in by_id:
            name, number = f"{base}.{number}", number + 1
        by_id[name] = replace(sample, id=name)
    return [*by_id.values()]


def _id_of(sample: Sample) -> str:
    parts = [_word(value) for value in sample.args]
    parts += [f"{name}={_word(value)}" for name, value in sample.kwargs.items()]
    plain = re.sub(r"[^\w.,+=-]+", "_", ",".join(parts))
    return plain[:_LONGEST_ID].strip(".,-_") or "empty"


def _word(value: Any) -> str:
    if isinstance(value, TensorSpec):
        size = "x".join(map(str, value.shape)) or "scalar"
        return size if value.dtype is None else f"{size}.{dtype_name(value.dtype)}"
    if isinstance(value, (list, tuple)):
        return "+".join(map(_word, value)) or "empty"
    return dtype_name(value) if isinstance(value, torch.dtype) else str(value)
