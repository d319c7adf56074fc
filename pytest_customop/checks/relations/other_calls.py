"""The call of a sample, and calls that differ in one thing: a size, a dtype, values, an argument."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from ...cases.arguments import Placement
from ...cases.case import Case
from ...cases.compared_constants import compared_constants
from ...cases.crash_risk import crash_risk
from ...cases.template import is_sorted
from ...cases.tensors import comparable, is_differentiable, readable
from ...core.wording import dtype_name
from ...declare.inputs import Sample, TensorSpec
from ...declare.ops import Op

_OTHER_FLOAT = {
    torch.float32: torch.float64,
    torch.float64: torch.float32,
    torch.bfloat16: torch.float32,
    torch.float16: torch.float32,
}
_NEAR = 15 / 16  # of a float
_PART = 0.375  # of 1
_SMALLER, _LARGER = 0.5, 1.5
_ALONE = 4  # the most tensors that are changed alone
_INSIDE = 4  # numbers of a list from which on two lie inside
_WORDS = 3  # the most strings that are tried for one argument


@dataclass(frozen=True)
class Call:
    """One call of the op.

    Args:
        name: how it differs from the sample's call; empty for that one.
        sample, placement, seed: of its arguments.
        is_other_dtype: whether it differs in the dtype of the tensors.
        only_before: whether its own results are not compared: a native kernel that does not check a
            number may read outside its arguments, and those of a near number say nothing more.
        changes_one_tensor: whether only one of several tensors differs. The sample's call comes after it;
            its own results are not compared.
    """

    name: str
    sample: Sample
    placement: Placement
    seed: int
    is_other_dtype: bool = False
    only_before: bool = False
    changes_one_tensor: bool = False

    def case(self, base: Case) -> Case:
        """The case of the call, with the tolerances and other settings of `base`."""
        return replace(base, sample=self.sample, placement=self.placement, seed=self.seed)


def other_calls(case: Case) -> Iterator[Call]:
    """The call of the sample, and calls that differ from it in one thing."""
    sample, placement, seed = case.sample, case.placement, case.seed
    base = Call("", sample, placement, seed)
    yield base
    larger = case.resized(lambda name, dim, size: 2 * size)
    if larger is not None:
        yield replace(base, name="sizes doubled", sample=larger.sample)
    if placement.dtype in _OTHER_FLOAT:
        dtype = _OTHER_FLOAT[placement.dtype]
        new_placement = replace(placement, dtype=dtype, cast_real=dtype)
        name = f"tensors of {dtype_name(dtype)}"
        yield replace(base, name=name, placement=new_placement, is_other_dtype=True)
    yield replace(base, name="other values", sample=_halved(sample), seed=seed + 1)
    # After equal rows, or positions that come twice, a kernel may return before it has cleaned up.
    yield replace(base, name="equal values", sample=_mapped(sample, _equal))
    native = crash_risk(case.op, placement.device) is not None
    for name, argument, tensor in _changed_alone(case, native):
        changed = _with(case.op, sample, argument, tensor)
        yield replace(
            base,
            name=name,
            sample=changed,
            only_before=True,
            changes_one_tensor=True,
        )
    for name in _optional_tensors(case):
        yield replace(base, name=f"{name}=None", sample=_with(case.op, sample, name, None))
    for name, value, others in _arguments(case):
        if native and not isinstance(value, float):
            continue  # with other integers a kernel that checks nothing could overwrite memory
        for new_value in others:
            changed = _with(case.op, sample, name, new_value)
            yield replace(base, name=f"{name}={new_value!r}", sample=changed, only_before=native)
        for near in _near(value) if isinstance(value, float) else ():  # a key may hold it rounded
            changed = _with(case.op, sample, name, near)
            yield replace(base, name=f"{name}={near!r}", sample=changed, only_before=True)


def _near(value: float) -> list[float]:
    """A number that is a little smaller, and one with the same whole part if that is not 0."""
    fractions = [value + part for part in (_PART, -_PART)] if 1 <= abs(value) < math.inf else []
    alike = [near for near in fractions if math.trunc(near) == math.trunc(value) and near != value]
    return [value * _NEAR, *alike[:1]]


def _changed_alone(case: Case, native: bool) -> Iterator[tuple[str, str, torch.Tensor]]:
    """Each of several tensors with other values, with a name of the change, and the argument.

    They are larger or smaller numbers, integers in reverse, or, in lists such as the edges of a grid,
    numbers with the same ends: a key may hold the ends alone.
    """
    names = {argument.name for argument in case.op.arguments}
    tensors = [
        (name, tensor.detach())
        for name, tensor in case.inputs().tensors()
        if name in names and tensor.layout == torch.strided and tensor.dim()
    ]
    for name, tensor in tensors[:_ALONE] if len(tensors) > 1 else ():
        if is_differentiable(tensor.dtype):
            # Smaller numbers stay probabilities, larger ones stay above a least size.
            numbers = readable(tensor)  # torch does not multiply in float8
            factor = _SMALLER if bool((numbers.abs() <= 1).all()) else _LARGER
            yield f"another {name}", name, (numbers * factor).to(tensor.dtype)
        elif not native:  # other integers together with these tensors may be out of bounds
            yield f"another {name}", name, tensor.flip(0)
    for name, tensor in tensors[:_ALONE]:
        if is_differentiable(tensor.dtype) and tensor.dim() == 1 and len(tensor) >= _INSIDE:
            yield f"other numbers inside of {name}", name, _other_inside(tensor)


def _other_inside(tensor: torch.Tensor) -> torch.Tensor:
    """A list with the same ends, and the same sum: its inside in reverse, or moved if it is sorted."""
    other = tensor.clone()
    if not is_sorted(tensor):
        other[1:-1] = tensor[1:-1].flip(0)
        return other
    step = float(torch.diff(tensor).min()) / 4
    other[1] += step
    other[2] -= step
    return other


def _optional_tensors(case: Case) -> list[str]:
    """The optional tensors that the sample gives: what a call does for them may stay in a table."""
    return [
        argument.name
        for argument, value in case.op.bind(case.sample)
        if str(argument.type) == "Optional[Tensor]" and value is not None
    ]


def _arguments(case: Case) -> Iterator[tuple[str, Any, list[Any]]]:
    """(name, value, other values) of the arguments that are not tensors, given or left to their defaults.

    The others are numbers and flags, the strings that the op's Python code compares the argument with, its
    default, and None.
    """
    values = {argument.name: value for argument, value in case.op.bind(case.sample)}
    for argument in case.op.arguments:
        name, written = argument.name, str(argument.type)
        has_default = argument.has_default_value()
        if re.search("Tensor|Generator", written) or not (has_default or name in values):
            continue
        value = values.get(name, argument.default_value)
        others = [*_other_values(value)][: None if name in values else 1]
        if "str" in written:
            constants = compared_constants(case.op, name)
            others += [constant for constant in constants if isinstance(constant, str)][:_WORDS]
        if has_default:
            others.append(argument.default_value)
        if written.startswith("Optional["):
            others.append(None)
        distinct = [
            new_value
            for at, new_value in enumerate(others)
            if new_value not in (value, *others[:at])
        ]
        yield name, value, distinct


def _halved(sample: Sample) -> Sample:
    """The sample with half of each real floating-point tensor; others are drawn from another seed."""

    def half(leaf: Any) -> Any:
        is_real = isinstance(leaf, torch.Tensor) and is_differentiable(leaf.dtype)
        return leaf.detach() / 2 if is_real else leaf

    return _mapped(sample, half)


def _equal(leaf: Any) -> Any:
    """A tensor that has one of its values everywhere; for integers, the smallest."""
    if isinstance(leaf, torch.Tensor) and leaf.numel() and leaf.layout == torch.strided:
        floating = is_differentiable(leaf.dtype)
        value = leaf.detach().flatten()[0] if floating else comparable(leaf).min()
        return torch.full_like(leaf, value.item(), requires_grad=False)
    if isinstance(leaf, TensorSpec) and leaf.fill is None and leaf.values is None:
        low = 0.5 if leaf.low is None else leaf.low
        return replace(leaf, low=None, high=None, fill=low)
    return leaf


def _mapped(sample: Sample, change: Callable[[Any], Any]) -> Sample:
    """The sample with all of its arguments changed, and the elements of lists among them."""

    def mapped(value: Any) -> Any:
        is_list = isinstance(value, (list, tuple))
        return type(value)(map(mapped, value)) if is_list else change(value)

    kwargs = {name: mapped(value) for name, value in sample.kwargs.items()}
    return replace(sample, args=tuple(map(mapped, sample.args)), kwargs=kwargs)


def _other_values(value: Any) -> Iterator[Any]:
    """Other numbers and flags."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield value + 1
        if value > 1:
            yield value - 1
    elif isinstance(value, float):
        yield 2 * value if value else 0.5
    elif isinstance(value, (list, tuple)) and value and all(type(item) is int for item in value):
        yield type(value)(item + 1 for item in value)


def _with(op: Op, sample: Sample, name: str, value: Any) -> Sample:
    """The sample with another value of an argument."""
    names = op.positional_names[: len(sample.args)]
    if name not in names:
        return replace(sample, kwargs={**sample.kwargs, name: value})
    args = list(sample.args)
    args[names.index(name)] = value
    return replace(sample, args=tuple(args))
