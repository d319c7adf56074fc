"""Other values for the same tensors, as functions and as source code for scripts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ....cases.arguments import Arguments
from ....cases.case import Case
from ....cases.crash_risk import may_crash
from ....cases.tensors import is_differentiable, is_plain

_NAN = "float('nan')"
# NaNs of both signs differ in their bits; -0.0 and 0.0 differ in nothing else.
_SPECIAL = f"{_NAN}, -0.0, float('inf'), 0.0, -float('inf'), 1.0, -{_NAN}, -1.0"
_FINITE = "-0.0, 1.0, torch.finfo(t.real.dtype).tiny, -1.0, torch.finfo(t.real.dtype).max, 0.0"


@dataclass(frozen=True)
class Change:
    """New values for tensors.

    Args:
        description: for a message: `negated`.
        code: an expression of `t`, the tensor, that gives a tensor of the same shape.
        whole: whether integer and boolean tensors change, instead of floating-point and complex ones.
    """

    description: str
    code: str
    whole: bool = False

    def apply(self, arguments: Arguments) -> Arguments:
        """Copies of the arguments with the new values in all tensors that change."""
        changed = arguments.copy()
        with torch.no_grad():
            for _, tensor in self.targets(changed):
                write(tensor, self.values(tensor.detach()))
        return changed

    def targets(self, arguments: Arguments) -> list[tuple[str, torch.Tensor]]:
        """(path, tensor) of the tensors that change."""
        return [
            (name, tensor)
            for name, tensor in _filled(arguments)
            if is_differentiable(tensor.dtype) != self.whole
        ]

    def values(self, tensor: torch.Tensor) -> torch.Tensor:
        """The new values for one tensor."""
        changed: torch.Tensor = eval(self.code, {"torch": torch, "t": _widened(tensor)})
        return changed

    def keeps_range(self, arguments: Arguments) -> bool:
        """Whether every new value lies between the smallest and the largest one of its tensor."""
        for _, tensor in self.targets(arguments):
            old, new = _widened(tensor.detach()), self.values(tensor.detach())
            if old.is_complex() or not bool(((new >= old.min()) & (new <= old.max())).all()):
                return False
        return True

    def script(self) -> str:
        """Script lines that define `changed()`: `inputs()` with the new values."""
        return _SCRIPT.format(code=self.code, which="not " if self.whole else "")

    def line(self, place: str) -> str:
        """The script line that gives the new values to one argument."""
        return f"{place} = (lambda t: ({self.code}).to(t))({place}.detach())"


def _cycle(numbers: str) -> str:
    return (
        f"torch.tensor([{numbers}], dtype=torch.float64)"
        ".repeat(-(-t.numel() // 6))[: t.numel()].reshape(t.shape).to(t.device)"
    )


ROLLED = "t.flatten().roll(1).reshape(t.shape)"
OTHERS: Sequence[Change] = (
    Change("rolled by one and multiplied by -0.5", f"{ROLLED} * -0.5"),
    Change("rolled by one and halved", f"{ROLLED} * 0.5"),
    Change("rolled by one", ROLLED),
)
# Offsets go from 0 to a size that is larger than their number; others would leave results unwritten.
_OFFSETS = "t.dim() == 1 and int(t[0]) == 0 and bool((t.long().diff() >= 0).all()) and int(t[-1]) >= len(t)"
OTHER_INTEGERS: Sequence[Change] = (
    Change(
        "every integer but offsets set to the first of its tensor",
        f"t.clone() if {_OFFSETS} else t.flatten()[0].clone().expand(t.shape)",
        whole=True,
    ),
    Change(
        "integers that are not sorted rolled by one",
        f"t.clone() if bool((t.flatten().long().diff() >= 0).all()) else {ROLLED}",
        whole=True,
    ),
)
NEGATED = Change("negated", "-t")
EXTREMES: Sequence[Change] = (
    Change("NaN, infinity, zeros of both signs among them", _cycle(_SPECIAL)),
    Change("zeros of both signs, tiny and huge numbers among them", _cycle(_FINITE)),
    NEGATED,
    Change("multiplied by 100", "t * 100"),
)
# An op may sort integers where they lie, if those of the sample are sorted, or limit them to a size.
UNCHECKED_INTEGERS: Sequence[Change] = (
    Change("in reverse order", "t.flatten().flip(0).reshape(t.shape)", whole=True),
    Change("increased by 100", "t + 100", whole=True),
    Change("decreased by 100", "t + -100", whole=True),
)
# Changes by some roundings, by another amount for each number.
ROUNDINGS: Sequence[Change] = tuple(
    Change(
        f"moved by up to {size} roundings",
        f"t * (1 + {size} * torch.finfo(t.real.dtype).eps * torch.sin({seed} + 12.9898 * "
        "torch.arange(t.numel(), device=t.device).reshape(t.shape)).to(t.real.dtype))",
    )
    for seed, size in enumerate((4, 16, 4, 16, 4, 16))
)

# Dtypes that torch does not compute in, and wider ones to use instead.
_WIDE = {
    torch.float8_e4m3fn: torch.float32,
    torch.float8_e4m3fnuz: torch.float32,
    torch.float8_e5m2: torch.float32,
    torch.float8_e5m2fnuz: torch.float32,
    torch.complex32: torch.complex64,
    torch.uint16: torch.int32,  # torch before 2.5 turns round none of these three
    torch.uint32: torch.int64,
    torch.uint64: torch.int64,
}
_SCRIPT = """
def changed():
    args, kwargs = inputs()
    with torch.no_grad():
        for t in tree_leaves((args, kwargs)):
            if isinstance(t, torch.Tensor) and t.numel():
                if {which}(t.is_floating_point() or t.is_complex()):
                    t.copy_({code})
    return args, kwargs
"""


def _widened(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor in a dtype that torch computes in."""
    return tensor.to(_WIDE.get(tensor.dtype, tensor.dtype))


def safe_changes(case: Case, changes: Sequence[Change]) -> Sequence[Change]:
    """Those changes that no kernel answers by writing to memory of others.

    Compiled code may compute positions from numbers, as a histogram does, and check none of them. It gets
    no number that is outside of the range of the sample.
    """
    if not may_crash(case):
        return changes
    drawn = case.inputs()
    return [change for change in changes if change.keeps_range(drawn)]


def changeable(arguments: Arguments) -> list[tuple[str, torch.Tensor]]:
    """(path, tensor) of the tensors that may have any values: floating-point and complex ones."""
    return [
        (name, tensor) for name, tensor in _filled(arguments) if is_differentiable(tensor.dtype)
    ]


def _filled(arguments: Arguments) -> list[tuple[str, torch.Tensor]]:
    return [
        (name, tensor)
        for name, tensor in arguments.tensors()
        if is_plain(tensor) and tensor.numel()
    ]


def write(tensor: torch.Tensor, values: torch.Tensor) -> None:
    """Write values in place; for a dim of stride 0, only the first slice."""
    for dim, stride in enumerate(tensor.stride()):
        if stride == 0:
            tensor, values = tensor.narrow(dim, 0, 1), values.narrow(dim, 0, 1)
    tensor.copy_(values)


def same_strides(left: Arguments, right: Arguments) -> bool:
    """Whether the tensors of two sets of arguments have the same shapes and strides."""
    pairs = zip(left.tensors(), right.tensors(), strict=True)
    return all(
        first.shape == second.shape and (not is_plain(first) or first.stride() == second.stride())
        for (_, first), (_, second) in pairs
    )


def write_all(target: Arguments, source: Arguments) -> None:
    """Write the values of one set of arguments into the tensors of another, in place."""
    with torch.no_grad():
        for (_, tensor), (_, values) in zip(target.tensors(), source.tensors(), strict=True):
            if is_plain(tensor) and tensor.numel():
                write(tensor, values.detach())
