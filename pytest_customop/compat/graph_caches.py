"""Use torch's compiled graphs on disk, with keys that add what torch's own keys leave out.

Private names, seen in torch 2.13 to 2.15 (in 2.4 graphs on disk are not used, see `GRAPHS_ARE_STORED`):

- `torch._functorch.config.enable_autograd_cache`, `torch._inductor.config.fx_graph_cache`: the switches of
  the two caches. Public: environment variables that are read once.
- `torch.compiler.config.cache_key_tag`: public, but not documented.
- `torch.compiler._cache.CacheArtifactManager`: keeps a copy of each graph, for `save_cache_artifacts`.
- `torch._dynamo.utils.counters`: counts the graphs that were loaded. Nothing public does.
- `torch.compiler._compile_session_context`: sets the flag that `torch.compiler.is_compiling` reads.
- `overload._schema`, `overload._overloadpacket`, `py_kernels`, `python_key_table`;
  `torch._decomp.decomposition_table`; `torch._library.simple_registry.singleton` with
  `torch_dispatch_rules._data` and `effect`; `torch._library._out_variant`, `torch._inductor.lowering` and
  `torch._inductor.decomposition`: the tables in which compilers look up an op. Nothing public reads them.
- `torch._ops.OpOverload`: see `fakes`.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch._ops import OpOverload

from .ops import traced_functions
from .patches import vector_instructions
from .version import TORCH

# In torch 2.4 nothing can be added to a key. Versions between 2.4 and 2.13 were not tried.
GRAPHS_ARE_STORED = TORCH >= (2, 13)


@contextmanager
def graphs_on_disk(tag: str) -> Iterator[Callable[[], int]]:
    """Let torch load compiled graphs from its folder on disk, and store new ones there.

    Nothing happens where caches are disabled for all (`TORCHINDUCTOR_FORCE_DISABLE_CACHES`).

    Args:
        tag: becomes part of the key of every graph.

    Yields:
        a function that returns how many graphs were loaded so far.
    """
    import torch._functorch.config as functorch
    import torch._inductor.config as inductor
    from torch.compiler._cache import CacheArtifactManager

    counters = torch._dynamo.utils.counters
    # Without the vector instructions in the key, a graph could be loaded whose C++ does not compile here.
    parts = (torch.compiler.config.cache_key_tag, tag, *vector_instructions())
    key_tag = " ".join(parts)

    def taken() -> int:
        graphs = counters["aot_autograd"]["autograd_cache_hit"]
        return graphs + counters["inductor"]["fxgraph_cache_hit"]

    before = taken()
    with (
        CacheArtifactManager.with_fresh_cache(),  # else it keeps a copy of each graph in memory
        torch.compiler.config.patch(cache_key_tag=key_tag),  # type: ignore[attr-defined]
        functorch.patch(enable_autograd_cache=True),
        inductor.patch(fx_graph_cache=True),
    ):
        yield lambda: int(taken() - before)


def compiling_flag_set() -> AbstractContextManager[None]:
    """A context in which `torch.compiler.is_compiling()` is True, as fake kernels see it in a compiler."""
    flagged: Any = getattr(torch.compiler, "_compile_session_context", nullcontext)
    return flagged()  # type: ignore[no-any-return]


def op_fingerprint(overload: OpOverload) -> str:
    """A text with what compilers know of an op besides the results of its kernels.

    It contains the schema, the tags, the other overloads, and the code of the Python functions that stand
    in for the op while it is traced.
    """
    packet = overload._overloadpacket
    names = sorted(packet.overloads())  # type: ignore[no-untyped-call]
    schemas = [str(getattr(packet, name)._schema) for name in names]
    functions = [
        _text_of(getattr(function, "__code__", None)) for function in traced_functions(overload)
    ]
    return f"{overload._schema} {sorted(map(str, overload.tags))} {schemas} {functions}"


def _text_of(constant: Any) -> str:
    """A constant of a function as a text that is equal in every process; code without line numbers."""
    if isinstance(constant, types.CodeType):
        parts = (constant.co_code.hex(), constant.co_names, constant.co_consts)
        return f"code {_text_of(parts)}"
    if isinstance(constant, frozenset):
        return f"set ({', '.join(sorted(map(_text_of, constant)))})"
    if isinstance(constant, tuple):
        return f"({', '.join(map(_text_of, constant))})"
    return repr(constant)


def has_custom_lowering(overload: OpOverload) -> bool:
    """Whether compilers do more with the op than call it.

    They do if the op has a decomposition, a lowering, an out variant, an effect, or a rule for one of the
    compilers' modes.
    """
    from torch._decomp import decomposition_table
    from torch._library.simple_registry import singleton

    entry: Any = singleton.find(overload.name())  # type: ignore[no-untyped-call]
    rules = entry.torch_dispatch_rules._data or entry.effect.effect
    kernels = overload.py_kernels or overload.python_key_table
    if rules or kernels or overload in decomposition_table:
        return True
    lowering: Any = sys.modules.get("torch._inductor.lowering")
    called = getattr(lowering, "fallbacks", ())  # ops with a lowering that only calls them
    tables = (
        *(() if overload in called else [("torch._inductor.lowering", "lowerings")]),
        ("torch._inductor.decomposition", "decompositions"),
        ("torch._library._out_variant", "_manual_out_variant_registry"),
    )
    return any(overload in getattr(sys.modules.get(module), name, ()) for module, name in tables)
