"""Lines of scripts that compare torch.vmap of an op with a loop; see `Check.repro`."""

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


# Each call of the batch has the same values, shifted.
batch = [
    torch.stack([leaves[index].detach().flatten().roll(by).reshape(leaves[index].shape)
                 for by in range(4)])
    for index in where
]
"""
LOOP = (
    _SETUP
    + """
dims = {dims}
batched = [
    tensor[0] if dim is None else tensor.movedim(0, dim)
    for tensor, dim in zip(batch, dims)
]
actual = torch.vmap(call, in_dims=dims)(*batched)
calls = [
    call(*[tensor[0] if dim is None else tensor[index] for tensor, dim in zip(batch, dims)])
    for index in range(4)
]
expected = [torch.stack(column) for column in zip(*calls)]
torch.testing.assert_close(list(actual), expected, equal_nan=True)
"""
)
GRADIENTS = (
    _SETUP
    + """

def gradients(function):
    copies = [tensor.clone().requires_grad_(leaves[at].requires_grad) for tensor, at in zip(batch, where)]
    outputs = [output for output in function(*copies) if output.requires_grad]
    inputs = [tensor for tensor in copies if tensor.requires_grad]
    assert outputs, "nothing requires gradients"
    grads = [torch.ones_like(output) for output in outputs]
    return torch.autograd.grad(outputs, inputs, grads, allow_unused=True)


def loop(*tensors):
    return [torch.stack(column) for column in zip(*map(call, *tensors))]


torch.testing.assert_close(gradients(torch.vmap(call)), gradients(loop))
"""
)
