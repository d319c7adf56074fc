"""Write a case as the sample that an author adds to the mark."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from ..cases.case import Case
from ..cases.tensors import is_differentiable, is_plain
from ..declare.inputs import SameAs, Sample, TensorSpec
from ..global_state.preserve import preserved_state
from ..harvest.source import sample_source
from ..run.results import CheckResult

_LISTED = 64  # the most values of a tensor that are written out
# Decimal digits that distinguish all numbers of a dtype. For float64, Python prints enough.
_DIGITS = {torch.float32: 9, torch.float16: 5, torch.bfloat16: 4}


@dataclass(frozen=True)
class _Source:
    """Python that stands for a value."""

    text: str

    def __repr__(self) -> str:
        return self.text


def with_sample(
    result: CheckResult, case: Case, *, listed: bool, name: str = "fuzz"
) -> CheckResult:
    """A result whose evidence ends with the case as a line to paste into the mark.

    Args:
        listed, name: as in `as_sample`.
    """
    paste = f"as a sample of the mark:\n{as_sample(case, listed=listed, name=name)}"
    return replace(result, evidence="\n\n".join(filter(None, [result.evidence, paste])))


def as_sample(case: Case, *, listed: bool, name: str = "fuzz") -> str:
    """The source of the sample.

    Args:
        listed: whether drawn values are written out, for a defect that depends on them. Values of larger
            tensors are not written out.
        name: the id of the sample.
    """
    with preserved_state():
        tensors = dict(case.inputs().tensors())
    sample = case.sample
    twice = {leaf.argument for leaf in sample.leaves() if isinstance(leaf, SameAs)}
    names = case.op.positional_names[: len(sample.args)]

    def written(argument: str, value: Any) -> Any:
        if argument in twice:  # a description would be drawn twice
            return _Source(f"({argument} := {_made(tensors[argument])})")
        return _described(value, argument, tensors, listed)

    args = [written(*pair) for pair in zip(names, sample.args, strict=True)]
    kwargs = {key: written(key, value) for key, value in sample.kwargs.items()}
    return sample_source(Sample(args, kwargs, name))


def _made(tensor: torch.Tensor) -> str:
    if tensor.numel() > _LISTED or not is_plain(tensor):
        return (
            f"torch.testing.make_tensor({tuple(tensor.shape)}, dtype={tensor.dtype}, device='cpu')"
        )
    listed = f"torch.tensor({tensor.tolist()}, dtype={tensor.dtype})"
    return listed if tensor.numel() else f"torch.empty({tuple(tensor.shape)}, dtype={tensor.dtype})"


def _described(value: Any, name: str, tensors: dict[str, torch.Tensor], listed: bool) -> Any:
    """A value of the sample in a form that can be written."""
    if isinstance(value, (list, tuple)):
        return [_described(item, f"{name}[{at}]", tensors, listed) for at, item in enumerate(value)]
    if isinstance(value, SameAs):
        return _Source(value.argument)
    tensor = tensors.get(name)
    if isinstance(value, torch.Tensor) and is_plain(value):
        return _values(TensorSpec(tuple(value.shape), value.dtype), value)
    if not isinstance(value, TensorSpec) or tensor is None:
        return value
    if value.values is not None:
        return _values(value, torch.as_tensor(value.values).to(tensor.dtype))
    drawn = value.fill is None
    return _values(value, tensor) if listed and drawn else value


def _values(spec: TensorSpec, values: torch.Tensor) -> TensorSpec:
    """The description with the values of a tensor, if there are few."""
    if values.numel() == 0 or not is_plain(values):
        whole = not is_differentiable(values.dtype)
        return replace(spec, values=None, dtype=values.dtype if whole else spec.dtype)
    if bool((values == values.flatten()[0]).all()):
        only = values.flatten()[0].item()
        whole = not is_differentiable(values.dtype) and values.dtype != torch.bool
        dtype = values.dtype if whole else spec.dtype
        return replace(spec, values=None, low=None, high=None, fill=only, dtype=dtype)
    if values.numel() > _LISTED:
        return replace(spec, values=None) if spec.values is None else _ranged(spec, values)
    listed = values.detach().cpu().tolist()
    return replace(spec, values=_shortest(listed, values.dtype), low=None, high=None)


def _shortest(values: Any, dtype: torch.dtype) -> Any:
    """Nested lists of numbers with the digits that a dtype needs."""
    if isinstance(values, list):
        return [_shortest(item, dtype) for item in values]
    digits = _DIGITS.get(dtype)
    return values if digits is None else float(f"{values:.{digits}g}")


def _ranged(spec: TensorSpec, values: torch.Tensor) -> TensorSpec:
    """The description of many values by their range."""
    if values.dtype.is_complex or values.dtype == torch.bool:
        return replace(spec, values=None, dtype=spec.dtype or values.dtype)
    low, high = values.min().item(), values.max().item()
    if is_differentiable(values.dtype):
        return replace(spec, values=None, low=low, high=high if high > low else None)
    return replace(spec, values=None, dtype=values.dtype, low=low, high=high + 1)
