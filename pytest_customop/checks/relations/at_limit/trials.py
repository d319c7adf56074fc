"""What is compared with a limit, and how arguments are changed so that it equals the limit."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from ....cases.case import Case
from ....cases.documented_limits import side_of_limit
from ....cases.tensors import base_name, is_plain
from ....declare.ops import Op

_NUMBERS = ("int", "float", "number", "Scalar", "SymInt", "Optional[int]", "Optional[float]")
_TENSORS = ("Tensor", "Optional[Tensor]")
_TRIED = 4  # elements of a tensor, and limits in another one
_EDGES = re.compile(r"(^|_)(edges?|bounds?|boundaries|breaks?|bins?|cuts?|knots?)($|_)")
_PARTS = 64  # of a floating-point limit: how near the numbers beside it are
_FAR = 8  # times the limit: what is apart from everything
_MOST = 2**20  # of a whole limit
# One element, of all others none near the limit.
_ELEMENT = "x.flatten().index_fill(0, torch.tensor([x.numel() // 2]), n).reshape(x.shape)"
# Two numbers, or two points, so far apart; all others far away.
_GAP = "(torch.arange(len(x)) * far).index_fill(0, torch.tensor([1]), n)"
_POINT = "torch.nn.functional.pad({}.double()[:, None], (0, x.shape[1] - 1))"
_POINTS = _POINT.format(_GAP)
_OTHERS = _POINT.format("(torch.arange(len(x)) * far).index_fill(0, torch.tensor([0]), n)")
_QUERIES = _POINT.format("(torch.arange(len(x)) * -far)")


class Trial(NamedTuple):
    """A quantity that is compared with a limit.

    Args:
        limit: the argument.
        value: its value; 0 for a tensor, whose element is changed instead of the quantity.
        step: to the numbers beside it.
        paths: of the tensors that are changed.
        what: is the quantity, for a message.
        code: of each changed tensor, with the names `x`, `n` (the quantity) and `far`.
        element: of a tensor that is the limit, for a message.
        is_whole: whether the quantity is an integer.
    """

    limit: str
    value: float
    step: float
    paths: tuple[str, ...]
    what: str
    code: tuple[str, ...]
    element: str = ""
    is_whole: bool = False

    @property
    def far(self) -> float:
        """What is apart from everything."""
        return _FAR * self.value

    def changed(self, path: str, tensor: Tensor, number: float) -> Tensor:
        """A tensor of the arguments, for another value of the quantity."""
        if path not in self.paths:
            return tensor
        code = self.code[self.paths.index(path)]
        x = tensor.detach().clone(memory_format=torch.contiguous_format)
        kind = float if x.dtype.is_floating_point else int
        names = {"torch": torch, "x": x, "n": kind(number), "far": kind(self.far)}
        new: Tensor = eval(code, names)
        return new.to(tensor.dtype)


def limits_of(op: Op) -> list[str]:
    kinds = (*_NUMBERS, *_TENSORS)
    names = [argument.name for argument in op.arguments if str(argument.type) in kinds]
    return [name for name in names if side_of_limit(op, name)]


def trials(case: Case) -> Iterator[Trial]:
    values = {argument.name: value for argument, value in case.op.bind(case.sample)}
    for name in limits_of(case.op):
        argument = next(each for each in case.op.arguments if each.name == name)
        value = values.get(name, argument.default_value)
        if str(argument.type) in _TENSORS:
            yield from _of_limits(case, name)
        elif type(value) in (int, float) and 0 < value < _MOST:
            yield from _of_limit(case, name, value)


def _of_limits(case: Case, limits: str) -> Iterator[Trial]:
    """The first elements of another tensor, and an element of the limits that becomes equal to each."""
    tensors = dict(case.inputs().tensors())
    if limits not in tensors or limits in case.op.mutated or not is_plain(tensors[limits]):
        return
    dtype, count = tensors[limits].dtype, tensors[limits].numel()
    # The last bin of a histogram often has its right edge.
    places = range(1, count - 1) if _EDGES.search(limits) else range(count)
    if not (dtype.is_floating_point or dtype in (torch.int32, torch.int64)):
        return
    others = limits_of(case.op)
    for path, tensor in tensors.items():
        if path in others or tensor.dtype != dtype or not is_plain(tensor):
            continue  # of two limits, one may have to be above the other
        numbers = tensor.detach().flatten()
        for at, to in itertools.product(range(min(len(numbers), _TRIED)), places[:_TRIED]):
            apart = (numbers - numbers[at]).abs().double()
            apart = apart[apart > 0]
            step = float(apart.min()) / _PARTS if dtype.is_floating_point and len(apart) else 1
            if not math.isfinite(numbers[at]) or bool((apart <= 2 * step).any()):
                continue
            new = f"{numbers[at].item()!r} - n"
            code = f"x.flatten().index_fill(0, torch.tensor([{to}]), {new}).view(x.shape)"
            what, element = f"element {at} of {path}", f"element {to} of {limits}"
            whole = not dtype.is_floating_point
            yield Trial(limits, 0, step, (limits,), what, (code,), element, whole)


def _of_limit(case: Case, limit: str, value: float) -> Iterator[Trial]:
    points = []
    for path, tensor in case.inputs().tensors():
        if not is_plain(tensor) or not tensor.numel() or base_name(path) in case.op.mutated:
            continue
        floating = tensor.dtype.is_floating_point
        if not floating and (tensor.dtype not in (torch.int32, torch.int64) or value != int(value)):
            continue
        near = value if isinstance(value, int) else _short(value)
        step = near / _PARTS if floating else 1
        wide = tensor.detach().double()
        if not bool(((wide - near).abs() <= 2 * step).any()):
            what = f"an element of {path}"
            yield Trial(limit, near, step, (path,), what, (_ELEMENT,), is_whole=not floating)
        if tensor.dim() == 1 and len(tensor) > 1 and bool((tensor.diff() >= 0).all()) and near > 1:
            what = f"the difference of two elements of {path}"
            yield Trial(limit, near, step, (path,), what, (_GAP,), is_whole=not floating)
        if floating and tensor.dim() == 2 and tensor.shape[1]:
            points.append((path, tensor, near, step))
    for path, tensor, near, step in points:
        if len(tensor) > 1:
            yield Trial(limit, near, step, (path,), f"the distance of two of {path}", (_POINTS,))
        for other, second, *_ in points:
            if other != path and second.shape[1] == tensor.shape[1]:
                what = f"the distance of one of {path} and one of {other}"
                yield Trial(limit, near, step, (path, other), what, (_QUERIES, _OTHERS))


def _short(value: float) -> float:
    """A number near another, of three binary digits: its squares and sums are exact."""
    fraction, exponent = math.frexp(value)
    return math.ldexp(round(fraction * 8) / 8, exponent)
