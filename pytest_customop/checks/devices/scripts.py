"""Script lines that compare an op on two devices with plain torch calls; see `Check.repro`."""

from __future__ import annotations

from ...cases.case import Case

_CALL = """
from torch.utils._pytree import tree_leaves, tree_map_only


def tensors(found):
    return [each for each in tree_leaves(found) if isinstance(each, torch.Tensor)]


def moved(given, device):
    def move(each):
        return each.detach().to(device).requires_grad_(each.requires_grad)

    given = tree_map_only(torch.Tensor, move, given)
    return tree_map_only(torch.device, lambda each: torch.device(device), given)


def results(device):
    args, kwargs = moved(inputs(), device)
    torch.manual_seed(seed)
    outputs = op(*args, **kwargs)
"""
_OUTPUTS = """    return tensors(({what}))
"""
_GRADIENTS = """    outputs = [each for each in tensors(outputs) if each.requires_grad]
    grads = []
    for index, output in enumerate(outputs):
        generator = torch.Generator().manual_seed(seed + 1 + index)
        wide = torch.complex128 if output.is_complex() else torch.float64
        drawn = torch.randn(output.shape, generator=generator, dtype=wide)
        grads.append(torch.empty_like(output.detach()).copy_(drawn))
    given = [each for each in tensors((args, kwargs)) if each.requires_grad]
    found = torch.autograd.grad(outputs, given, grads, allow_unused=True)
    return [torch.zeros_like(x) if grad is None else grad for x, grad in zip(given, found)]
"""
_COMPARE = """

here, there = results({here!r}), results({there!r})
assert len(here) == len(there), (len(here), len(there))
got, wanted = here[{at}].detach().cpu(), there[{at}].detach().cpu()
torch.testing.assert_close(got, wanted, rtol={rtol!r}, atol={atol!r}, equal_nan=True)
assert here[{at}].requires_grad == there[{at}].requires_grad
"""


def output_script(case: Case, name: str) -> str:
    """Lines that compare one output, or one written argument; empty for one that is not a tensor."""
    argument = name.removeprefix("argument ").removesuffix(" after the call")
    in_arguments = argument != name
    run = case.eager
    tensors = run.arguments.tensors() if in_arguments else run.outputs
    names = [path for path, _ in tensors]
    key = argument if in_arguments else name
    if key not in names:
        return ""
    at = names.index(key)
    body = _OUTPUTS.format(what="args, kwargs" if in_arguments else "outputs")
    return _CALL + body + _compare(case, at, dict(tensors)[key].dtype)


def gradient_script(case: Case, name: str) -> str:
    """Lines that compare the gradient of one argument."""
    tensors = case.eager.arguments.differentiable()
    at = [path for path, _ in tensors].index(name)
    return _CALL + _GRADIENTS + _compare(case, at, dict(tensors)[name].dtype)


def _compare(case: Case, at: int, dtype: object) -> str:
    rtol, atol = case.tolerance(dtype)  # type: ignore[arg-type]
    here, there = case.placement.device, case.reference_device
    return _COMPARE.format(here=here, there=there, at=at, rtol=rtol, atol=atol)
