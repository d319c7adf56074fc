"""The compiled graphs that torch keeps on disk, and what their keys do not hold."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch._ops import OpOverload

from .ops import traced_functions
from .version import TORCH

# 2.4 has no key of one's own; between, it was not tried.
GRAPHS_ARE_STORED = TORCH >= (2, 13)


@contextmanager
def storing_graphs(tag: str) -> Iterator[Callable[[], int]]:
    """Let torch take compiled graphs from disk and leave new ones there, where it wants. 2.13 to 2.15.

    Where caches are disabled for all (`TORCHINDUCTOR_FORCE_DISABLE_CACHES`), nothing happens.

    Args:
        tag: becomes part of the key of every graph.

    Yields:
        how many graphs were taken from disk so far.
    """
    import torch._functorch.config as functorch
    import torch._inductor.config as inductor
    from torch.compiler._cache import CacheArtifactManager

    counters = torch._dynamo.utils.counters
    whole = f"{torch.compiler.config.cache_key_tag}{tag}"

    def taken() -> int:
        graphs = counters["aot_autograd"]["autograd_cache_hit"]
        return graphs + counters["inductor"]["fxgraph_cache_hit"]

    before = taken()
    with (
        CacheArtifactManager.with_fresh_cache(),  # else it keeps a copy of each in memory
        torch.compiler.config.patch(cache_key_tag=whole),  # type: ignore[attr-defined]
        functorch.patch(enable_autograd_cache=True),
        inductor.patch(fx_graph_cache=True),
    ):
        yield lambda: int(taken() - before)


def compiling_flag_set() -> AbstractContextManager[None]:
    """A context in which `torch.compiler.is_compiling()` says what fake kernels hear. 2.13 to 2.15."""
    flagged: Any = getattr(torch.compiler, "_compile_session_context", nullcontext)
    return flagged()  # type: ignore[no-any-return]


def op_fingerprint(overload: OpOverload) -> str:
    """What compilers are told of an op besides its kernels' results. 2.13 to 2.15.

    Its schema, its tags, the other overloads, and the code of the Python functions that stand in for it
    while it is traced.
    """
    packet = overload._overloadpacket
    names = sorted(packet.overloads())  # type: ignore[no-untyped-call]
    schemas = [str(getattr(packet, name)._schema) for name in names]
    functions = [_text_of(getattr(one, "__code__", None)) for one in traced_functions(overload)]
    return f"{overload._schema} {sorted(map(str, overload.tags))} {schemas} {functions}"


def _text_of(constant: Any) -> str:
    """The same for the same constant of a function in every process; for code, less its lines."""
    if isinstance(constant, types.CodeType):
        parts = (constant.co_code.hex(), constant.co_names, constant.co_consts)
        return f"code {_text_of(parts)}"
    if isinstance(constant, frozenset):
        return f"set ({', '.join(sorted(map(_text_of, constant)))})"
    if isinstance(constant, tuple):
        return f"({', '.join(map(_text_of, constant))})"
    return repr(constant)


def has_custom_lowering(overload: OpOverload) -> bool:
    """Whether compilers do more with the op than call it where its fake kernel says it is called.

    They have a decomposition of it, a lowering, an out variant, an effect or a rule for one of their
    modes. 2.13 to 2.15.
    """
    from torch._decomp import decomposition_table
    from torch._library.simple_registry import singleton

    entry: Any = singleton.find(overload.name())  # type: ignore[no-untyped-call]
    rules = entry.torch_dispatch_rules._data or entry.effect.effect
    own = overload.py_kernels or overload.python_key_table
    if rules or own or overload in decomposition_table:
        return True
    lowering: Any = sys.modules.get("torch._inductor.lowering")
    called = getattr(lowering, "fallbacks", ())  # its lowerings too, but they call the op
    tables = (
        *(() if overload in called else [("torch._inductor.lowering", "lowerings")]),
        ("torch._inductor.decomposition", "decompositions"),
        ("torch._library._out_variant", "_manual_out_variant_registry"),
    )
    return any(overload in getattr(sys.modules.get(where), name, ()) for where, name in tables)
