"""Lines that the scripts of this family share: the op's graph, and gradients; see `Check.repro`."""

from __future__ import annotations

GRAPH = """
from torch.utils._pytree import tree_leaves


def tensors(values):
    return [each for each in tree_leaves(values) if isinstance(each, torch.Tensor)]


def call():
    given = inputs()
    torch.manual_seed(seed)
    result = op(*given[0], **given[1])
    outputs = [each for each in tensors(result) if each.requires_grad and each.numel()]
    return tensors(given), [each for each in tensors(given) if each.requires_grad], outputs


def gradients(outputs, leaves, grads):
    torch.manual_seed(seed)
    return torch.autograd.grad(
        outputs, leaves, grads, retain_graph=True, allow_unused=True, materialize_grads=True
    )


def assert_same(got, expected):
    torch.testing.assert_close(got, expected, rtol=0.01, atol=0.001, equal_nan=True)


given, leaves, outputs = call()
grads = [torch.randn_like(each) for each in outputs]
"""


def filled(lines: str, **parts: object) -> str:
    for name, text in parts.items():
        lines = lines.replace(name, str(text))
    return lines
