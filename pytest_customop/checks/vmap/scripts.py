"""The lines that show what `vmap.loop` finds, by plain torch calls; see `Check.repro`."""

from __future__ import annotations

from typing import Any

_SETUP = """
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

leaves, spec = tree_flatten(inputs())
where = [index for index, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]


def call(*tensors):
    full = list(leaves)
    for index, tensor in zip(where, tensors):
        full[index] = tensor
    args, kwargs = tree_unflatten(full, spec)
    return tuple(tree_leaves(op(*args, **kwargs)))


# The values in the batch differ: the same ones, moved along.
batch = [
    torch.stack([leaves[index].detach().flatten().roll(by).reshape(leaves[index].shape)
                 for by in range(4)])
    for index in where
]
"""
_LOOP = (
    _SETUP
    + """
dims = {dims}
given = [
    one.movedim(0, -1) if dim == -1 else one if dim == 0 else one[0]
    for one, dim in zip(batch, dims)
]
got = torch.vmap(call, in_dims=dims)(*given)
calls = [
    call(*[one[0] if dim is None else one[index] for one, dim in zip(batch, dims)])
    for index in range(4)
]
due = [torch.stack(column) for column in zip(*calls)]
torch.testing.assert_close(list(got), due, equal_nan=True)
"""
)
GRADIENTS = (
    _SETUP
    + """

def gradients(function):
    given = [one.clone().requires_grad_(leaves[at].requires_grad) for one, at in zip(batch, where)]
    outputs = [one for one in function(*given) if one.requires_grad]
    wanted = [one for one in given if one.requires_grad]
    assert outputs, "nothing requires gradients"
    grads = [torch.ones_like(one) for one in outputs]
    return torch.autograd.grad(outputs, wanted, grads, allow_unused=True)


def loop(*tensors):
    return [torch.stack(column) for column in zip(*map(call, *tensors))]


torch.testing.assert_close(gradients(torch.vmap(call)), gradients(loop))
"""
)


def loop(dims: Any) -> str:
    """Lines that compare torch.vmap with a loop, the tensors being batched at these dims."""
    return _LOOP.replace("{dims}", repr(dims))
