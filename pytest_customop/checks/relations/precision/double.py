"""Results in float64 that are no more exact than float32."""

from __future__ import annotations

import torch
from torch import Tensor

from ....cases.arguments import Arguments
from ....cases.case import Case
from ....cases.documented_dtypes import names_float64
from ....cases.tensors import is_differentiable, readable
from ....declare.inputs import TensorSpec
from ....findings import NOT_ASKED, CheckFailed, fail, skip
from ...values.memory.calls import GRADIENT, Leaves, comparable, expression
from ..compare import everything
from ..scripts import call_lines, position
from .default_dtype import Change, changed_by_default_dtype, makes_tensors
from .lost_digits import DRAWS, FAR, FEW, NEAR, PART, Lost, lost_digits

NARROWER = {torch.float64: torch.float32, torch.complex128: torch.complex64}

_FEW = 2  # fewer different numbers prove nothing
_BITS = 16  # numbers with fewer are round: counts, steps, halves
_SHIFT = 2.0**-32  # as a share of a number: float32 loses such a shift
_LOOSE = 1e-6  # tolerances from here on mean that float32 is exact enough


def is_double(case: Case) -> bool:
    """Whether the floating-point inputs of a case have the widest dtype."""
    tensors = case.eager.arguments.tensors()
    dtypes = {tensor.dtype for _, tensor in tensors if is_differentiable(tensor.dtype)}
    return bool(dtypes) and dtypes <= {*NARROWER}


def check_double(case: Case) -> None:
    """Fail for results that consist of float32 numbers, though the inputs do not.

    That counts where the mark, its tensors or a docstring name float64. Results that another default dtype
    changes fail too, or are a note where none of these name it. A sum or a product of 53-bit numbers has
    only 24 bits by chance with a probability of 2**-29.
    """
    if case.kind not in ("", "dtype"):  # the sample, or one like it
        raise skip("nothing-to-check", "nothing is wider than float64", unjudged=False)
    if not _may_be_exact(case):
        reason = "the tolerances of the mark say that float32 is exact enough"
        raise skip("nothing-to-check", reason, unjudged=False)
    shown, by_default = _is_shown(case), makes_tensors(case)
    if not (shown or by_default):
        reason = (
            "no mark, tensor or docstring names float64, and the op's Python code makes no tensors"
        )
        raise skip("nothing-to-check", reason, unjudged=False)
    tensors = [tensor for _, tensor in _inputs(case).tensors() if is_differentiable(tensor.dtype)]
    if not all(_is_exact(tensor) for tensor in tensors):
        reason = "the inputs consist of float32 numbers"
        raise skip("nothing-to-check", reason, unjudged=False)
    for name, leaf in _outputs(case) if shown else ():
        if isinstance(leaf, Tensor) and comparable(leaf) and _is_narrowed(leaf):
            raise _narrowed(case, name, leaf)
    lost = (
        lost_digits(lambda: _inputs(case), lambda arguments: _outputs(case, arguments))
        if shown
        else None
    )
    if lost is not None:
        raise _lost(case, lost)
    changed = changed_by_default_dtype(case, lambda: _outputs(case)) if by_default else None
    if changed is not None:
        raise _made_in_default_dtype(case, changed)


def _may_be_exact(case: Case) -> bool:
    """Whether no tolerance of the mark says that float32 is exact enough."""
    return all(case.tolerance(dtype)[0] < _LOOSE for dtype in NARROWER)


def _is_shown(case: Case) -> bool:
    """Whether the mark, its tensors or a docstring name float64."""
    if names_float64(case.op):
        return True
    described = [spec for _, spec in case.sample_tensors() if isinstance(spec, TensorSpec)]
    by_case = any(spec.dtype is None and spec.values_dtype is None for spec in described)
    listed = case.placement.listed_dtypes
    return case.base_case is None and not (by_case and case.placement.dtype not in (listed or ()))


def _inputs(case: Case) -> Arguments:
    """New inputs. Those of a variant may be cast from float32, so they get digits beyond it."""
    inputs = case.inputs()
    if case.base_case is None:
        return inputs

    def moved(name: str, tensor: Tensor) -> Tensor:
        if tensor.dtype not in NARROWER:
            return tensor
        shares = torch.linspace(0.5, 1.0, tensor.numel(), dtype=torch.float64, device=tensor.device)
        value = tensor.detach() * (1 + _SHIFT * shares.view(tensor.shape))
        return value.requires_grad_(tensor.requires_grad)

    return inputs.map_distinct(moved)


def _outputs(case: Case, arguments: Arguments | None = None) -> Leaves:
    run = case.run(_inputs(case) if arguments is None else arguments)
    return [] if run.error is not None else everything(case, run)


def _is_exact(tensor: Tensor) -> bool:
    """Whether the narrower dtype cannot hold most numbers of a tensor."""
    numbers = _numbers(tensor)
    return tensor.dtype in NARROWER and bool((numbers != numbers.float()).float().mean() > 0.5)


def _is_narrowed(tensor: Tensor) -> bool:
    """Whether the narrower dtype holds all numbers, and most of them have more bits than round ones."""
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


def _narrowed(case: Case, name: str, leaf: Tensor) -> CheckFailed:
    narrow = NARROWER[leaf.dtype]
    count = len(_numbers(leaf))
    text = (
        f"{name} is {leaf.dtype} with the digits of {narrow}: the narrower dtype holds each of its {count} "
        "numbers, but not those of the inputs"
    )
    return _failure(case, name, text, _EACH.format(narrow=narrow))


def _lost(case: Case, lost: Lost) -> CheckFailed:
    text = (
        f"{lost.result} stays the same when numbers of `{lost.argument}` change by less than float32 "
        "holds, but not when they change by more: on the way they are cast to float32"
    )
    place = expression(case, lost.argument)
    script = _LOST.format(
        place=place, near=NEAR, nearly=FAR - NEAR, far=FAR, draws=DRAWS, part=PART, few=FEW
    )
    return _failure(case, lost.result, text, script)


def _made_in_default_dtype(case: Case, changed: Change) -> CheckFailed:
    text = (
        f"{changed.name} differs once torch.set_default_dtype(torch.float64) is called, {changed.text}: "
        "something in it is made in the default dtype instead of the dtype of the inputs"
    )
    return _failure(case, changed.name, text, _DEFAULT)


def _failure(case: Case, name: str, text: str, script: str) -> CheckFailed:
    at = position(case, name)
    return fail(
        "gradient-narrowed" if name.startswith(GRADIENT) else "result-narrowed",
        f"{case.op.name}: {text}",
        repro=call_lines(name) + _CALL.format(at=at) + script,
        note=None if _is_shown(case) else NOT_ASKED,
    )


_CALL = """
def with_digits(x):
    # beyond those of float32
    if not x.dtype.is_floating_point and not x.dtype.is_complex:
        return x
    shares = torch.linspace(0.5, 1.0, x.numel(), dtype=torch.float64, device=x.device)
    value = x.detach() * (1 + 2.0**-32 * shares.view(x.shape))
    return value.requires_grad_(x.requires_grad)


def found(change=lambda args, kwargs: None):
    args, kwargs = tree_map_only(torch.Tensor, with_digits, inputs())
    args = list(args)
    change(args, kwargs)
    return call(args, kwargs)[{at}]


first = found()
"""
_LOST = """

def moved(way, draw):
    def change(args, kwargs):
        x = {place}.detach().float()
        gap = x.nextafter(torch.full_like(x, torch.inf)).double() - x.double()
        drawn = torch.rand(x.shape, generator=torch.Generator().manual_seed(draw)) < {part}
        value = x.double() + way * gap * drawn.to(x.device)
        {place} = value.requires_grad_({place}.requires_grad)

    return change


lost = 0
for draw in range({draws}):
    start, near, nearly, end = (found(moved(way, draw)) for way in (0, {near}, {nearly}, {far}))
    lost += ((start != end) & (near == start) & (nearly == end)).sum()
assert lost < {few}, f"{{lost}} numbers are the same where float32 rounds to the same"
"""
_EACH = """
assert not torch.equal(first, first.to({narrow}).to(first.dtype)), "each number is one of {narrow}"
"""
_DEFAULT = """
torch.set_default_dtype(torch.float64)
torch.testing.assert_close(first, found(), rtol=1e-11, atol=1e-13)
"""
