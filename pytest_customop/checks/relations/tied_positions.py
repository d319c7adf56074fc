"""The positions of equal elements in the results of an op, where the first must come first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import torch

from ...cases.arguments import Arguments
from ...cases.case import Case
from ...cases.tensors import base_name, is_differentiable, is_plain
from ..values.memory.calls import Caller, copied_results, expression
from .scripts import call_lines, position

_IN_ROW = 3  # positions: fewer are in reverse by chance


class InReverse(NamedTuple):
    """Positions of equal elements that come in reverse.

    Args:
        result: the name of the result.
        positions: the first row of it.
        changes: by path of a tensor `t`, an expression that makes its elements equal.
    """

    result: str
    positions: list[int]
    changes: Mapping[str, str]

    def script(self, case: Case) -> str:
        """The lines of a script that shows it."""
        lines = ""
        for path, code in self.changes.items():
            place = expression(case, path)
            lines += f"t = {place}.detach()\n{place} = {code}\n"
        return (
            call_lines(self.result)
            + f"\nargs, kwargs = inputs()\nargs = list(args)\n{lines}"
            + f"positions = call(args, kwargs)[{position(case, self.result)}]\n"
            + "rows = positions.reshape(-1, positions.shape[-1]).tolist()\n"
            + "listed = [[at for at in row if at >= 0] for row in rows]\n"
            + "assert all(row == sorted(row) for row in listed), listed\n"
        )


def positions_of_equal(case: Case) -> tuple[bool, InReverse | None]:
    """Whether some result lists positions, and one that lists those of equal elements in reverse."""
    calls = Caller(case)
    usual = dict(copied_results(calls(case.inputs())) or ())
    has_positions = False
    for name, before in usual.items():
        if not isinstance(before, torch.Tensor) or not before.dim() or not before.numel():
            continue
        if before.dtype == torch.bool or is_differentiable(before.dtype):
            continue
        for size, changes in _equalled(case, before):
            if not _are_positions(before, size):
                continue
            has_positions = True
            found = dict(copied_results(calls(_changed(case, changes))) or ())
            after = found.get(name)
            if not isinstance(after, torch.Tensor) or after.shape != before.shape:
                continue
            rows = _rows(after)
            falls = all(len(row) >= _IN_ROW and row == sorted(row, reverse=True) for row in rows)
            if falls and _are_positions(after, size):
                return True, InReverse(name, rows[0], changes)
    return has_positions, None


def _equalled(case: Case, positions: torch.Tensor) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Ways to make equal what a result may list the positions of: how many there are, and the changes.

    Either each row of the result lists elements of the same row of the floating-point tensors, or the
    result lists entries along the first dim of tensors. They become equal to the entry listed first.
    """
    tensors = {
        path: tensor.detach()
        for path, tensor in case.inputs().tensors()
        if is_plain(tensor) and tensor.dim() and tensor.numel()
        if base_name(path) not in case.op.mutated
    }
    floats = {path: t for path, t in tensors.items() if t.dtype.is_floating_point}
    rows = [t.shape[-1] for t in floats.values() if t.shape[:-1] == positions.shape[:-1]]
    if rows:
        changes = {path: f"torch.full_like(t, {_largest(t)!r})" for path, t in floats.items()}
        yield max(rows), changes
    first = next((at for row in _rows(positions) for at in row), 0)
    for size in dict.fromkeys(t.shape[0] for t in tensors.values()):
        if first < size:
            code = f"t[{first} : {first + 1}].expand_as(t).clone()"
            yield size, {path: code for path, t in tensors.items() if t.shape[0] == size}


def _largest(numbers: torch.Tensor) -> float:
    """The largest finite number; 0 without one."""
    finite = numbers[numbers.isfinite()]
    return float(finite.max()) if len(finite) else 0.0


def _rows(positions: torch.Tensor) -> list[list[int]]:
    """The rows of a result; numbers below 0 stand for none."""
    rows = positions.reshape(-1, positions.shape[-1]).tolist()
    return [[at for at in row if at >= 0] for row in rows]


def _are_positions(result: torch.Tensor, size: int) -> bool:
    """Whether each row has different numbers below `size`."""
    return int(result.max()) < size and all(len({*row}) == len(row) for row in _rows(result))


def _changed(case: Case, changes: Mapping[str, str]) -> Arguments:
    def changed(path: str, tensor: torch.Tensor) -> torch.Tensor:
        if path not in changes:
            return tensor
        value: torch.Tensor = eval(changes[path], {"torch": torch, "t": tensor.detach()})
        return value

    return case.inputs().map_distinct(changed)
