"""Script lines that show a defect under `torch.compile` with plain torch calls; see `Check.repro`."""

from __future__ import annotations

_AROUND = """
from torch.utils._pytree import tree_leaves, tree_map_only


def tensors(values):
    return [each for each in tree_leaves(values) if isinstance(each, torch.Tensor)]


def around(consume):
    def function(args, kwargs):
        if not op._schema.is_mutable:
            args, kwargs = tree_map_only(torch.Tensor, torch.clone, (args, kwargs))
        before = [each.clone() for each in tensors((args, kwargs))]
        result = op(*args, **kwargs)
        return result, [consume(each) for each in tensors((args, kwargs, result))], before

    return function


def outcome(function, inputs):
    args, kwargs = inputs()
MARK    torch.manual_seed(seed)
    result = function(args, kwargs)
    wanted = [each for each in tensors(result[0]) if each.requires_grad]
    given = [each for each in tensors((args, kwargs)) if each.requires_grad]
    if not (wanted and given):
        return tensors(result), tensors((args, kwargs)), []
    torch.manual_seed(seed + 1)
    grads = [torch.randn_like(each) for each in wanted]
    found = torch.autograd.grad(wanted, given, grads, allow_unused=True)
    return tensors(result), tensors((args, kwargs)), list(found)


for function in (CONSUMERSlambda args, kwargs: [op(*args, **kwargs)]):
    compiled = torch.compile(function, fullgraph=True, backend=backendSTATIC)
    for each in (inputs,OTHER):
        actual, eager = outcome(compiled, each), outcome(function, each)
        torch.testing.assert_close(actual, eager, equal_nan=True)
"""
# Whether Inductor leaves out a size depends on how the arguments reach the compiled function.
BACKWARD = """
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

leaves, structure = tree_flatten(inputs())
for each in leaves:
    for dim, size in enumerate(each.shape if isinstance(each, torch.Tensor) else ()):
        if size > 1:
            torch._dynamo.maybe_mark_dynamic(each, dim)


def function(*leaves):
    args, kwargs = tree_unflatten(leaves, structure)
    return op(*args, **kwargs)


result = tree_leaves(torch.compile(function, fullgraph=True, backend=backend)(*leaves))
wanted = [each for each in result if isinstance(each, torch.Tensor) and each.requires_grad]
torch.autograd.backward(wanted, [torch.ones_like(each) for each in wanted])
"""
_MARK = """    for each in tensors((args, kwargs)):
        for dim, size in enumerate(each.shape):
            if size > 1:
                torch._dynamo.maybe_mark_dynamic(each, dim)
"""
_CLONED = "around(torch.clone), "
_DOUBLED = "around(lambda each: each + each), "


def _filled(mark: str, consumers: str, static: str, other_inputs: str) -> str:
    parts = {"MARK": mark, "CONSUMERS": consumers, "STATIC": static, "OTHER": other_inputs}
    lines = _AROUND
    for name, text in parts.items():
        lines = lines.replace(name, text)
    return lines


STATIC = _filled("", _CLONED, ", dynamic=False", "")
DYNAMIC = _filled(_MARK, _CLONED + _DOUBLED, "", "")
TWO_SIZES = _filled(_MARK, _CLONED + _DOUBLED, "", " other_inputs")
