"""Results in float64 that have no more digits than float32."""

from __future__ import annotations

import torch
from torch import Tensor

from ....cases.case import Case
from ....cases.tensors import is_differentiable, readable
from ....declare.inputs import TensorSpec
from ....findings import CheckFailed, fail, skip
from ...values.memory.calls import GRADIENT, Leaves, comparable
from ..compare import everything
from ..scripts import call_lines, position

NARROWER = {torch.float64: torch.float32, torch.complex128: torch.complex64}

_FEW = 4  # numbers that tell nothing
_BITS = 16  # numbers with fewer are round: counts, steps, halves
_LOOSE = 1e-6  # tolerances from here on say that float32 is exact enough


def is_double(case: Case) -> bool:
    """Whether the floating-point inputs of a case have the widest dtype."""
    given = case.eager.arguments.tensors()
    found = {one.dtype for _, one in given if is_differentiable(one.dtype)}
    return bool(found) and found <= {*NARROWER}


def check_double(case: Case) -> None:
    """Fail for results of which each number is one of float32, though those of the inputs are not.

    A sum or a product of numbers with 53 bits has 24 by chance with a probability of 2**-29.
    """
    if not _is_meant(case):
        reason = "neither the mark nor its tensors say float64"
        raise skip("nothing-to-check", reason, unjudged=False)
    given = [one for _, one in case.inputs().tensors() if is_differentiable(one.dtype)]
    if not all(_is_exact(one) for one in given):
        reason = "the numbers of the inputs are numbers of float32"
        raise skip("nothing-to-check", reason, unjudged=False)
    for name, leaf in _found(case):
        if isinstance(leaf, Tensor) and comparable(leaf) and _is_narrowed(leaf):
            raise _failure(case, name, leaf)


def _is_meant(case: Case) -> bool:
    """Whether the author says that the op is made for float64, and exact in it."""
    described = [one for _, one in case.sample_tensors() if isinstance(one, TensorSpec)]
    by_case = any(one.dtype is None and one.values_dtype is None for one in described)
    listed = case.placement.listed_dtypes
    if case.base_case is not None or (by_case and case.placement.dtype not in (listed or ())):
        return False
    return all(case.tolerance(dtype)[0] < _LOOSE for dtype in NARROWER)


def _found(case: Case) -> Leaves:
    run = case.run(case.inputs())
    return [] if run.error is not None else everything(case, run)


def _is_exact(tensor: Tensor) -> bool:
    """Whether most numbers of a tensor are none of the narrower dtype."""
    numbers = _numbers(tensor)
    return tensor.dtype in NARROWER and bool((numbers != numbers.float()).float().mean() > 0.5)


def _is_narrowed(tensor: Tensor) -> bool:
    """Whether all numbers are of the narrower dtype, and most of them have more bits than round ones."""
    numbers = _numbers(tensor)
    if tensor.dtype not in NARROWER or int(numbers.sort().values.diff().count_nonzero()) + 1 < _FEW:
        return False
    scaled = torch.frexp(numbers).mantissa * 2**_BITS
    return bool((numbers == numbers.float()).all()) and bool((scaled % 1 != 0).float().mean() > 0.5)


def _numbers(tensor: Tensor) -> Tensor:
    """The finite real numbers of a tensor in float64."""
    value = readable(tensor)
    flat = (torch.view_as_real(value) if value.is_complex() else value).double().flatten()
    return flat[flat.isfinite()]


def _failure(case: Case, name: str, leaf: Tensor) -> CheckFailed:
    narrow = NARROWER[leaf.dtype]
    count = len(_numbers(leaf))
    return fail(
        "gradient-narrowed" if name.startswith(GRADIENT) else "result-narrowed",
        f"{case.op.name}: {name} is {leaf.dtype} with the digits of {narrow}: each of its {count} numbers "
        "is one of the narrower dtype, and those of the inputs are not",
        repro=call_lines(name) + _SCRIPT.format(narrow=narrow, at=position(case, name)),
    )


_SCRIPT = """
found = call(*inputs())[{at}]
assert not torch.equal(found, found.to({narrow}).to(found.dtype)), "each number is one of {narrow}"
"""
