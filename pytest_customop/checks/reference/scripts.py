"""The lines that show what `reference.*` find, by plain torch calls; see `Check.repro`."""

from __future__ import annotations

import math
from typing import Any

import torch

from ...cases.case import Case
from ...cases.tensors import readable


def _place(own: torch.Tensor, wanted: torch.Tensor, tolerance: tuple[float, float]) -> Any:
    """The index of the first element that differs, and the value due there."""
    mine, theirs = readable(own), readable(wanted)
    kind = torch.complex128 if mine.is_complex() else torch.float64
    close = torch.isclose(
        mine.to(kind), theirs.to(kind), rtol=tolerance[0], atol=tolerance[1], equal_nan=True
    )
    index = tuple((~close).nonzero()[0].tolist())
    return index, theirs[index].item()


def _assertion(case: Case, own: torch.Tensor, wanted: torch.Tensor | None) -> str:
    """Lines that compare `found` with what is due."""
    if wanted is None:
        return "assert found is None or not found.any()\n"
    facts = f"assert (found.shape, found.dtype) == ({tuple(wanted.shape)}, {wanted.dtype})\n"
    if own.shape != wanted.shape or own.dtype != wanted.dtype:
        return facts
    rtol, atol = case.tolerance(own.dtype)
    index, due = _place(own, wanted, (rtol, atol))
    got = f"got = found[{index}].item()\n"
    if due != due:
        return f"{got}assert got != got, got  # the reference gives NaN\n"
    if due in (math.inf, -math.inf):
        return f'{got}assert got == float("{due}"), got  # by the reference\n'
    return (
        f"{got}due = {due!r}  # by the reference\n"
        f"assert got == due or abs(got - due) <= {atol} + {rtol} * abs(due), (got, due)\n"
    )


def values_script(case: Case, name: str, own: Any, wanted: Any) -> str:
    """Lines that compare one output, or one written argument, with the reference's."""
    call = "args, kwargs = inputs()\ntorch.manual_seed(seed)\nresult = op(*args, **kwargs)\n"
    if not isinstance(own, torch.Tensor):
        return f"{call}assert result == {wanted!r}\n" if name == "output" else ""
    if not isinstance(wanted, torch.Tensor) or own.is_quantized or own.layout != torch.strided:
        return ""
    if name.startswith("argument "):
        at = [path for path, _ in case.eager.arguments.tensors()].index(name.split()[1])
        tree = "(args, kwargs)"
    else:
        tensors = [path for path, _ in case.eager.outputs]
        at, tree = tensors.index(name), "result"
    leaves = f"torch.utils._pytree.tree_leaves({tree})"
    found = (
        f"found = [leaf for leaf in {leaves} if isinstance(leaf, torch.Tensor)][{at}].detach()\n"
    )
    return call + found + _assertion(case, own, wanted)


ANY_GRADIENT = """
args, kwargs = inputs()
leaves = torch.utils._pytree.tree_leaves
torch.manual_seed(seed)
outputs = [
    leaf for leaf in leaves(op(*args, **kwargs))
    if isinstance(leaf, torch.Tensor) and leaf.requires_grad
]
grads = []
for index, output in enumerate(outputs):
    generator = torch.Generator().manual_seed(seed + 1 + index)
    wide = torch.complex128 if output.is_complex() else torch.float64
    drawn = torch.randn(output.shape, generator=generator, dtype=wide)
    grads.append(torch.empty_like(output.detach()).copy_(drawn))
given = [
    leaf for leaf in leaves((args, kwargs)) if isinstance(leaf, torch.Tensor) and leaf.requires_grad
]
gradients = torch.autograd.grad(outputs, given, grads, allow_unused=True)
"""


def requiring(case: Case, name: str) -> str:
    """Lines that want gradients of an output."""
    at = [path for path, _ in case.eager.outputs].index(name)
    leaves = "torch.utils._pytree.tree_leaves(op(*args, **kwargs))"
    return (
        f"args, kwargs = inputs()\nleaves = {leaves}\n"
        f"outputs = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]\n"
        f"assert outputs[{at}].requires_grad\n"
    )


def gradient_script(
    case: Case, name: str, own: torch.Tensor | None, wanted: torch.Tensor | None
) -> str:
    """Lines that compare the gradient of one argument with the reference's."""
    at = [path for path, _ in case.eager.arguments.differentiable()].index(name)
    lines = f"{ANY_GRADIENT}found = gradients[{at}]\n"
    if own is None:
        return lines + "assert found is not None\n"
    return lines + _assertion(case, own, wanted)
