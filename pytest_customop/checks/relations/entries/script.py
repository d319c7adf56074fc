"""Script lines that call an op on entries of a group of dims, in some order."""

from __future__ import annotations

from ....cases.case import Case
from ...values.memory.calls import GRADIENT, expression
from ..scripts import START, position
from .calls import Along, Wrong
from .groups import DimGroup

_RESULT = """
def call(index):
    args, kwargs = taken(index)
    torch.manual_seed(seed)
    result = op(*args, **kwargs)
    return [each.detach() for each in (*numbers(result), *tensors((args, kwargs)))][{at}]


"""
_GRADIENT = """
def call(index):
    args, kwargs = taken(index)
    torch.manual_seed(seed)
    outputs = [each for each in tensors(op(*args, **kwargs)) if each.requires_grad]
    grads = []
    for number, (output, dim) in enumerate(zip(outputs, {dims})):
        shape = list(output.shape)
        if dim is not None:
            shape[dim] = {size}
        generator = torch.Generator().manual_seed(seed + 1 + number)
        wide = torch.complex128 if output.is_complex() else torch.float64
        drawn = torch.randn(shape, generator=generator, dtype=wide).to(output.dtype)
        grads.append(drawn if dim is None else drawn.index_select(dim, index))
    given = [each for each in tensors((args, kwargs)) if each.requires_grad]
    return torch.autograd.grad(outputs, given, grads, allow_unused=True)[{at}]


"""
_CLOSE = """
def assert_close(got, expected):
    torch.testing.assert_close(got, expected, rtol={rtol:.3g}, atol={atol:.3g}, equal_nan=True)

"""


def rearranging_lines(case: Case, group: DimGroup, wrong: Wrong, along: Along) -> str:
    """Lines that define `call(index)`, the result for these entries, and `assert_close`.

    Args:
        case, group: whose entries are taken.
        wrong: the result that is looked at.
        along: as in `Rearranged.taken`.
    """
    at = position(case, wrong.name)
    lines = _RESULT.format(at=at)
    if wrong.name.startswith(GRADIENT):
        dims = [along.get(name) for name, _ in case.eager.differentiable_outputs]
        lines = _GRADIENT.format(at=at, dims=dims, size=group.size)
    return (
        START + _taken_lines(case, group) + lines + _CLOSE.format(rtol=wrong.rtol, atol=wrong.atol)
    )


def _taken_lines(case: Case, group: DimGroup) -> str:
    """Lines that define `taken(index)`: `inputs()` with these entries of the group's dims."""
    start = "def taken(index):\n    args, kwargs = inputs()\n    args = list(args)\n"
    return f"{start}{taking_lines(case, group)}    return args, kwargs\n"


def taking_lines(case: Case, group: DimGroup) -> str:
    """Lines of a function that replace tensors in `args` by their entries at the positions `index`."""
    places = [(expression(case, path), dim) for path, dim in group.dims]
    return "".join(
        f"    {place} = {place}.detach().index_select({dim}, index)"
        f".requires_grad_({place}.requires_grad)\n"
        for place, dim in places
    )
