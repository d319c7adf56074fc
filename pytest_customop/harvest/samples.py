"""Make samples from the recorded calls, in one group for each mark."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ..cases.tensors import is_differentiable
from ..core.wording import dtype_name
from ..declare.inputs import Sample, TensorSpec, tensor
from ..declare.layouts import LAYOUTS, dense_strides, layout_named
from ..declare.ops import Op, OpError, resolve
from .calls import MOST_BYTES, SeenCall, SeenTensor

_LONGEST_ID = 48


class NotReplayed(Exception):
    """A call that no sample can represent; the message says why."""


@dataclass(eq=False)
class Group:
    """The samples that one mark declares: calls of one op on one device, with gradients or without.

    Args:
        op: the op.
        device: as in a mark.
        requires_grad: as in a mark; None for an op without a formula that got tensors which require
            gradients.
        samples: by id.
        seen_in: the test in which each was seen first.
    """

    op: Op
    device: str
    requires_grad: bool | None
    samples: dict[str, Sample] = field(default_factory=dict)
    seen_in: dict[str, str] = field(default_factory=dict)

    @property
    def declared(self) -> dict[str, Any]:
        """The arguments of the mark."""
        arguments = {
            "op": self.op,
            "samples": list(self.samples.values()),
            "devices": self.device,
            "requires_grad": self.requires_grad,
        }
        return {name: value for name, value in arguments.items() if value is not None}


def groups_of(calls: Iterable[SeenCall]) -> tuple[list[Group], Counter[tuple[str, str]]]:
    """The groups of some calls, sorted by op, and the number of calls in no group, by op and reason."""
    groups: dict[tuple[str, str, str], Group] = {}
    left: Counter[tuple[str, str]] = Counter()
    for call in sorted(calls, key=lambda call: (call.op, call.seen_in)):
        try:
            op = _op_of(call)
            sample = sample_of(op, call)
            device = _device_of(call)
        except (NotReplayed, OpError) as reason:
            left[call.op, str(reason)] += call.calls
            continue
        gradients = _gradients_of(op, call)
        name = _id_of(op, call)
        group = groups.setdefault((op.name, device, str(gradients)), Group(op, device, gradients))
        if name not in group.samples:
            group.samples[name] = Sample(sample.args, sample.kwargs, name)
            group.seen_in[name] = call.seen_in
    return [_sorted(groups[key]) for key in sorted(_without_formula_merged(groups))], left


def _without_formula_merged(
    groups: dict[tuple[str, str, str], Group],
) -> dict[tuple[str, str, str], Group]:
    """Merge the groups with and without gradients of an op that has no formula.

    A group with `requires_grad=None` has cases of both kinds, so two groups would have the same ids.
    """
    for name, device, gradients in list(groups):
        no_gradients = groups.get((name, device, "False"))
        if gradients == "None" and no_gradients is not None:
            group = groups[name, device, gradients]
            group.samples = {**no_gradients.samples, **group.samples}
            group.seen_in = {**no_gradients.seen_in, **group.seen_in}
            del groups[name, device, "False"]
    return groups


def _sorted(group: Group) -> Group:
    """The group with its samples sorted by id, whichever call was seen first."""
    group.samples = {name: group.samples[name] for name in sorted(group.samples)}
    return group


def _op_of(call: SeenCall) -> Op:
    """The overload that was called; for a packet, the first overload that accepts the arguments."""
    try:
        return resolve(call.op)
    except OpError:
        if "." in call.op.partition("::")[2]:
            raise
    namespace, _, name = call.op.partition("::")
    packet = getattr(getattr(torch.ops, namespace), name)
    for overload in packet.overloads():
        op = resolve(getattr(packet, overload))
        try:
            sample_of(op, call)
        except (OpError, NotReplayed):
            continue
        return op
    raise NotReplayed("no overload accepts these arguments")


def _gradients_of(op: Op, call: SeenCall) -> bool | None:
    """As in `Group.requires_grad`."""
    if not any(seen.requires_grad for seen in call.tensors):
        return False
    return True if op.has_autograd else None


def _device_of(call: SeenCall) -> str:
    devices = {seen.device for seen in call.tensors}
    if not devices:
        values = (*call.args, *call.kwargs.values())
        devices = {str(value) for value in values if isinstance(value, torch.device)}
    plain = {device.removesuffix(":0") for device in devices} or {"cpu"}
    if len(plain) > 1:
        raise NotReplayed(f"its tensors are on {' and '.join(sorted(plain))}")
    return plain.pop()


# Samples


def sample_of(op: Op, call: SeenCall) -> Sample:
    """The arguments as descriptions, by position as far as the schema allows it.

    Raises:
        NotReplayed: for integers that were not kept, because there were too many.
        OpError: for arguments that do not fit the schema.
    """
    args, kwargs = _ordered(op, call)
    gradients = any(seen.requires_grad for seen in call.tensors)
    names = op.positional_names
    described = [
        _described(value, name, op, gradients) for name, value in zip(names, args, strict=False)
    ]
    named = {name: _described(value, name, op, gradients) for name, value in kwargs.items()}
    sample = Sample(tuple(described), named)
    op.validate_arguments(sample)
    return sample


def _ordered(op: Op, call: SeenCall) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call, with keywords turned into positions where the schema allows it."""
    names = op.positional_names
    if len(call.args) > len(names):
        raise NotReplayed("no overload accepts these arguments")
    arguments = {**dict(zip(names, call.args, strict=False)), **call.kwargs}
    args = []
    for name in names:
        if name not in arguments:
            break
        args.append(arguments.pop(name))
    return tuple(args), arguments


def _described(value: Any, name: str, op: Op, gradients: bool) -> Any:
    if isinstance(value, SeenTensor):
        return _spec(value, name, op, gradients)
    if isinstance(value, list):
        return [
            _described(element, f"{name}[{at}]", op, gradients) for at, element in enumerate(value)
        ]
    return value


def _spec(seen: SeenTensor, name: str, op: Op, gradients: bool) -> TensorSpec:
    if seen.lost_numbers:
        size = seen.elements * seen.dtype.itemsize
        raise NotReplayed(
            f"{name} holds {seen.elements} integers, {size} bytes; at most {MOST_BYTES} are kept"
        )
    about: dict[str, Any] = {"dtype": seen.dtype}
    layout = _layout_of(seen)
    if layout is None:
        about["strides"] = seen.strides
    elif layout != "contiguous":
        about["layout"] = layout
    base = name.partition("[")[0]
    if gradients and is_differentiable(seen.dtype) and base not in op.mutated:
        about |= {} if seen.requires_grad else {"requires_grad": False}
    if seen.values is not None and seen.elements:
        return _listed(seen, about)
    low, high = _narrowed(seen.low, seen.high)
    if low is not None and low == high:
        return tensor(*seen.shape, **about, fill=low)
    return tensor(*seen.shape, **about, low=low, high=high)


def _listed(seen: SeenTensor, about: dict[str, Any]) -> TensorSpec:
    """The description of a tensor by its values."""
    assert seen.values is not None
    first = seen.values.flatten()[0]
    same = seen.values == first
    if seen.elements > 1 and bool(same.all()):
        return tensor(*seen.shape, **about, fill=first.item())
    values = _wide(seen.values)
    if seen.dtype in (torch.int64, torch.bool):
        del about["dtype"]  # torch's own for such values
    listed = values.tolist()
    if seen.dtype.is_floating_point:
        listed = _shortened(listed, seen.dtype)
    return tensor(values=listed, **about)


def _wide(values: torch.Tensor) -> torch.Tensor:
    """The values in a dtype that torch can turn into a list; float8 is converted."""
    is_fp8 = values.dtype.is_floating_point and values.dtype.itemsize == 1
    return values.to(torch.float32) if is_fp8 else values


def _shortened(values: Any, dtype: torch.dtype) -> Any:
    """Numbers with the fewest digits that give the same values in the dtype."""
    if isinstance(values, list):
        return [_shortened(element, dtype) for element in values]
    exact = torch.tensor(values, dtype=dtype)
    candidates = (float(f"{values:.{digits}g}") for digits in range(1, 17))
    close = (
        candidate
        for candidate in candidates
        if torch.equal(torch.tensor(candidate, dtype=dtype), exact)
    )
    return next(close, values)


def _narrowed(low: float | None, high: float | None) -> tuple[float | None, float | None]:
    """The range in three digits, and not wider: an op may reject other values."""
    if low is None or high is None or low == high:
        return low, high
    rounded = _rounded(low, math.ceil), _rounded(high, math.floor)
    return rounded if rounded[0] < rounded[1] else (low, high)


def _rounded(value: float, to: Any) -> float:
    if value == 0:
        return 0.0
    digits = 2 - math.floor(math.log10(abs(value)))
    if abs(digits) > 200:
        return value
    shift = 10.0 ** abs(digits)
    rounded = to(value * shift) / shift if digits >= 0 else to(value / shift) * shift
    return float(f"{rounded:.3g}")


def _layout_of(seen: SeenTensor) -> str | None:
    """The layout whose strides a tensor has; None if no layout has them."""
    shape, strides = seen.shape, seen.strides
    if 0 in shape or not shape or _same(shape, strides, dense_strides(shape)):
        return "offset" if seen.offset and 0 not in shape else "contiguous"
    for name in LAYOUTS:
        layout = layout_named(name)
        if layout.changes(shape) and _same(shape, strides, layout.place(shape).strides):
            return name
    return None


def _same(shape: Sequence[int], strides: Sequence[int], others: Sequence[int]) -> bool:
    pairs = zip(shape, strides, others, strict=True)
    return all(stride == expected for size, stride, expected in pairs if size > 1)


# Ids


def _id_of(op: Op, call: SeenCall) -> str:
    """A name for the signature: the same in every session, whatever else was called.

    It consists of the sizes, dtypes other than float32, and the plain arguments, as in `4x3,2`. A hash is
    added if these do not describe the signature completely.
    """
    args, kwargs = _ordered(op, call)
    parts = [_word(value) for value in args]
    parts += [f"{name}={_word(value)}" for name, value in sorted(kwargs.items())]
    text = ",".join(parts)
    plain = re.sub(r"[^\w.,+=-]+", "_", text).replace("~", "_")
    gradients = any(seen.requires_grad for seen in call.tensors)
    left_out = [_left_out(seen, gradients) for seen in call.tensors]
    if plain == text and len(text) <= _LONGEST_ID and text and not any(left_out):
        return text
    key = repr((text, left_out)).encode()
    return f"{plain[:_LONGEST_ID].strip('.,-')}.{hashlib.sha256(key).hexdigest()[:6]}".lstrip(".")


def _word(value: Any) -> str:
    if isinstance(value, SeenTensor):
        size = "x".join(map(str, value.shape)) or "scalar"
        layout = _layout_of(value)
        parts = [size, *([] if value.dtype == torch.float32 else [dtype_name(value.dtype)])]
        return ".".join([*parts, *([layout] if layout not in (None, "contiguous") else [])])
    if isinstance(value, list):
        return "+".join(_word(element) for element in value) or "empty"
    return dtype_name(value) if isinstance(value, torch.dtype) else str(value)


def _left_out(seen: SeenTensor, gradients: bool) -> Any:
    """The properties of a tensor that its word does not show; None if it shows everything.

    Args:
        gradients: whether any tensor of the call requires them.
    """
    strides = seen.strides if _layout_of(seen) is None else None
    without = gradients and is_differentiable(seen.dtype) and not seen.requires_grad
    return (strides, without) if strides or without else None
