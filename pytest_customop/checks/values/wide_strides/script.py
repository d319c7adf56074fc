"""The script that shows an offset in 32 bits with plain torch calls."""

from __future__ import annotations

from collections.abc import Mapping

from ....cases.case import Case
from ..memory.calls import expression
from .trial import GRAD_OUTPUT


def script_of(case: Case, dim: int, distances: Mapping[str, tuple[int, int]]) -> str:
    """Lines that call the op with rows far apart and with rows near each other, and compare.

    Args:
        case: the case.
        dim: the dim along which the rows lie.
        distances: path of a tensor, or `grad_output` -> its stride there, in elements, far apart and near.
    """
    lines, grad = [], "grad"
    for name, (far, close) in distances.items():
        place = f"{dim}, {far} if far else {close})"
        if name == GRAD_OUTPUT:
            grad = f"rows_apart(grad, {place} if grad.dim() > {dim} else grad"
        else:
            at = expression(case, name)
            lines.append(f"    {at} = rows_apart({at}, {place}")
    backward = _BACKWARD.format(grad=grad) if case.requires_grad else ""
    return _SCRIPT.format(lines="\n".join(lines), backward=backward)


_SCRIPT = """
import mmap

from torch.utils._pytree import tree_leaves


def tensors(found):
    return [each for each in tree_leaves(found) if isinstance(each, torch.Tensor)]


def rows_apart(t, dim, stride):
    strides, step = [stride] * t.dim(), 1
    for each in reversed(range(t.dim())):
        if each != dim:
            strides[each], step = step, step * t.shape[each]
    before = 2**31 * t.itemsize  # an offset that becomes negative leads there
    size = before + t.shape[dim] * 2**32 * t.itemsize
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000  # MAP_NORESERVE: untouched pages are free
    home = torch.frombuffer(mmap.mmap(-1, size, flags=flags), dtype=torch.uint8, offset=before)
    laid = torch.empty(0, dtype=t.dtype).set_(home.untyped_storage(), 0, t.shape, strides)
    laid.copy_(t.detach())
    return laid.requires_grad_(t.requires_grad)


def call(far):
    torch.manual_seed(seed)
    args, kwargs = inputs()
    args = list(args)
{lines}
    result = op(*args, **kwargs)
    found = tensors((result, args, kwargs))
{backward}    return [each.detach().clone() for each in found]


for got, expected in zip(call(far=True), call(far=False)):
    torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-5, equal_nan=True)
"""
_BACKWARD = """\
    outputs = [each for each in tensors(result) if each.requires_grad]
    given = [each for each in tensors((args, kwargs)) if each.requires_grad]
    grads = []
    for output in outputs if given else []:
        grad = torch.randn(output.shape, dtype=output.dtype)
        grads.append({grad})
    slopes = torch.autograd.grad(outputs, given, grads, allow_unused=True) if grads else []
    found += [each for each in slopes if each is not None]
"""
