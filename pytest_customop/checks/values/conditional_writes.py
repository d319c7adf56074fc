"""Decide whether an op may rightly leave a declared argument unwritten."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from ...cases.arguments import Arguments
from ...cases.case import Case
from ...cases.tensors import base_name, is_plain
from .memory.calls import Caller, plain_arguments, with_argument
from .memory.perturb import changeable, write
from .memory.storage import Snapshot


def may_stay_unwritten(calls: Caller, name: str) -> bool:
    """Whether the op may rightly leave a declared argument unwritten on this case.

    It may for tensors without elements, for zeros (a lock, or a workspace that is reset to zero), and
    if another argument may decide that nothing is written.
    """
    case = calls.case
    arguments = case.inputs()
    tensors = dict(arguments.tensors())
    target = tensors[name]
    if not is_plain(target) or any(not tensor.numel() for tensor in tensors.values()):
        return True
    if not bool((target.detach() != 0).any()):
        return True
    for path, tensor in arguments.tensors():
        known = is_plain(tensor) and (tensor.is_floating_point() or tensor.is_complex())
        if not known and path != name and bool((tensor.detach() == tensor.flatten()[0]).all()):
            return True
    only = len(arguments.mutated()) == 1 and not case.eager.outputs
    plain = [value for _, value in plain_arguments(arguments)]
    if not all(_cannot_decide(value, only=only) for value in plain):
        return True
    different = (_all_different(case, scale) for scale in (1, 100))
    others = (*_other_numbers(case), *_other_flags(case, name), *different)
    return _defaulted(case) or any(_changes(calls, name, changed) for changed in others)


def _cannot_decide(value: Any, *, only: bool) -> bool:
    """Whether this value of a plain argument cannot be what prevents the write.

    Args:
        value: the value.
        only: whether the op has one written argument and no outputs.
    """
    if isinstance(value, (bool, float)):
        return True  # other values of it are tried too
    return only and isinstance(value, int) and value not in (-1, 0, 1)


def _defaulted(case: Case) -> bool:
    """Whether the sample leaves out an argument: its default may prevent the write."""
    names = {base_name(name) for name, _ in case.inputs().named()}
    return any(argument.name not in names for argument in case.op.arguments)


def _changes(calls: Caller, name: str, arguments: Arguments) -> bool:
    """Whether a call changes an argument, or raises."""
    snapshot = Snapshot(arguments)
    return calls(arguments).error is not None or name in snapshot.mutated()


def _other_numbers(case: Case) -> Iterator[Arguments]:
    """The arguments with one float at a time replaced by another number."""
    for path, value in plain_arguments(case.inputs()):
        if isinstance(value, float) and "[" not in path:
            yield with_argument(case.inputs(), path, value * 0.5 + 0.25)


def _other_flags(case: Case, name: str) -> Iterator[Arguments]:
    """The arguments with 0 or 1 in a one-element tensor, which may be a flag that prevents the write."""
    for path, tensor in changeable(case.inputs()):
        for number in (0.0, 1.0) if tensor.numel() == 1 and path != name else ():
            arguments = case.inputs()
            with torch.no_grad():
                dict(arguments.tensors())[path].fill_(number)
            yield arguments


def _all_different(case: Case, scale: float) -> Arguments:
    """Arguments whose tensors have a different number below `scale` in each element, none of them 0."""
    arguments = case.inputs()
    with torch.no_grad():
        for index, (_, tensor) in enumerate(changeable(arguments)):
            steps = torch.arange(tensor.numel(), dtype=torch.float64).reshape(tensor.shape)
            numbers = scale * (0.3 + 0.11 * index + 0.5 * steps / tensor.numel())
            write(tensor, numbers.to(tensor.device))
    return arguments
