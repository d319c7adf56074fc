"""Script lines that call an op and collect its results; see `Check.repro`."""

from __future__ import annotations

from typing import Any

from ...cases.case import Case
from ...cases.tensors import output_leaves
from ..values.memory.calls import GRADIENT, expression

START = """
from torch.utils._pytree import tree_leaves, tree_map_only


def numbers(found):
    kinds = (torch.Tensor, bool, int, float, complex)
    return [torch.as_tensor(each) for each in tree_leaves(found) if isinstance(each, kinds)]


def tensors(found):
    return [each for each in tree_leaves(found) if isinstance(each, torch.Tensor)]

"""
_RESULTS = """
def call(args, kwargs):
    torch.manual_seed(seed)
    result = op(*args, **kwargs)
    return [each.detach() for each in (*numbers(result), *tensors((args, kwargs)))]

"""
_GRADIENTS = """
def call(args, kwargs):
    torch.manual_seed(seed)
    outputs = [each for each in tensors(op(*args, **kwargs)) if each.requires_grad]
    grads = []
    for index, output in enumerate(outputs):
        generator = torch.Generator().manual_seed(seed + 1 + index)
        wide = torch.complex128 if output.is_complex() else torch.float64
        drawn = torch.randn(output.shape, generator=generator, dtype=wide){rounded}
        grads.append(torch.empty_like(output.detach()).copy_(drawn))
    given = [each for each in tensors((args, kwargs)) if each.requires_grad]
    found = torch.autograd.grad(outputs, given, grads, allow_unused=True)
    return [torch.zeros_like(x) if grad is None else grad for x, grad in zip(given, found)]

"""


def call_lines(name: str, rounded_to: object = None) -> str:
    """Lines that define `call(args, kwargs)`: results and arguments of a call, or its gradients.

    Args:
        name: of the result, as in `compare.everything`.
        rounded_to: the dtype that the grad_outputs are rounded to; None: that of the outputs.
    """
    rounded = "" if rounded_to is None else f".to({rounded_to}).to(wide)"
    is_gradient = name.startswith(GRADIENT)
    return START + (_GRADIENTS.replace("{rounded}", rounded) if is_gradient else _RESULTS)


def element_lines(case: Case, path: str, change: str, name: str, place: int) -> str:
    """Lines that define `result(number)`: one element of a result, with an argument changed.

    Args:
        path: of the argument.
        change: a line that changes `t`, a contiguous copy of the argument, by `number`.
        name: of the result, as in `call_lines`.
        place: of the element in the flattened result.
    """
    argument = expression(case, path)
    return (
        call_lines(name)
        + "\ndef result(number):\n    args, kwargs = inputs()\n    args = list(args)\n"
        + f"    t = {argument}.detach().clone(memory_format=torch.contiguous_format)\n"
        + f"    {change}\n    {argument} = t\n"
        + f"    return call(args, kwargs)[{position(case, name)}].flatten()[{place}]\n\n\n"
    )


def position(case: Case, name: str) -> int:
    """The index of a result in the list that `call` of `call_lines` returns."""
    run = case.eager
    if name.startswith(GRADIENT):
        names = [path for path, _ in run.arguments.differentiable()]
        return names.index(name.removeprefix(GRADIENT))
    outputs = [output for output, leaf in output_leaves(run.result) if _is_number(leaf)]
    if name in outputs:
        return outputs.index(name)
    argument = name.removeprefix("argument ").removesuffix(" after the call")
    return len(outputs) + [path for path, _ in run.arguments.tensors()].index(argument)


def _is_number(leaf: Any) -> bool:
    return leaf is not None and not isinstance(leaf, str)


def compare_lines(case: Case, name: str, *, same_dtype: bool = True) -> str:
    """Lines that compare one result of `expected` and `got`, both lists from `call`."""
    at = position(case, name)
    rtol, atol = 1e-3, 1e-5
    return (
        f"torch.testing.assert_close(got[{at}], expected[{at}], rtol={rtol}, atol={atol}, "
        f"equal_nan=True, check_dtype={same_dtype})\n"
    )
