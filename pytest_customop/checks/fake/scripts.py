"""Script lines that show a wrong fake kernel with plain torch calls; see `Check.repro`."""

from __future__ import annotations

from collections.abc import Iterable

COMPARE = """
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._pytree import tree_leaves, tree_map_only


def facts(args, result):
    tensors = [leaf for leaf in tree_leaves((args, result)) if isinstance(leaf, torch.Tensor)]
    homes = [each.untyped_storage()._cdata for each in tensors]
    return [
        (each.shape, each.stride(), each.dtype, each.device, each.storage_offset(),
         homes.index(home))
        for each, home in zip(tensors, homes)
    ] + [leaf for leaf in tree_leaves(result) if not isinstance(leaf, torch.Tensor)]


def compare(func, args, kwargs):
    mode = FakeTensorMode(shape_env=ShapeEnv())
    fake = tree_map_only(
        torch.Tensor, lambda each: mode.from_tensor(each, static_shapes=True), (args, kwargs)
    )
    with mode:
        promised = facts(fake, func(*fake[0], **fake[1]))
    result = func(*args, **kwargs)
    got = facts((args, kwargs), result)
    assert promised == got, f"{func}: the fake kernel promises {promised}, the real one gives {got}"
    return result
"""
FORWARD = (
    COMPARE
    + """

compare(op, *inputs())
"""
)
_TRACE = """
from torch.utils._pytree import tree_leaves

args, kwargs = inputs()
tensors = [each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
for index, dim in {places}:
    torch._dynamo.{mark}(tensors[index], dim)
compiled = torch.compile(lambda a, k: op(*a, **k), fullgraph=True, backend="aot_eager")
compiled(args, kwargs)
"""

_TRACE_TWICE = """
import torch._dynamo.config
from torch.utils._pytree import tree_leaves

compiled = torch.compile(lambda a, k: op(*a, **k), fullgraph=True, backend="aot_eager")
for each in (inputs, other_inputs):
    args, kwargs = each()
    tensors = [each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
    for index, dim in {places}:
        torch._dynamo.mark_dynamic(tensors[index], dim)
    compiled(args, kwargs)
    torch._dynamo.config.error_on_recompile = True
"""


def trace_script(places: Iterable[tuple[int, int]], *, insist: bool) -> str:
    """Lines that trace the op with dynamic sizes.

    Args:
        places: (position among the tensor arguments, dim) of each dynamic size.
        insist: whether a size that becomes a constant is an error.
    """
    mark = "mark_dynamic" if insist else "maybe_mark_dynamic"
    return _TRACE.format(places=list(places), mark=mark)


def retrace_script(places: Iterable[tuple[int, int]]) -> str:
    """Lines that trace the op with dynamic sizes, and fail if other sizes have to be traced again.

    Args:
        places: (position among the tensor arguments, dim) of each dynamic size.
    """
    return _TRACE_TWICE.format(places=list(places))
