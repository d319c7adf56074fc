"""Share compiled graphs with dynamic sizes between cases; compiling is the largest cost of a check.

Two cases share a graph if they differ only in sizes and values, as far as a compiler can see. The guards
of the graph check the sizes when it is called. A shared graph never decides a failure: a case that
disagrees with eager mode on it is compiled again by itself, and only that result is reported.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ...cases.case import Case
from ...cases.tensors import is_plain
from ...compat.compiler import GRAPHS_CAN_STAY, forget_compiled, keep_compiled, recompiles_raise
from ...core.tracebacks import reraise_bug
from .harness import Function, OpHarness

_LIMIT = 8  # kept graphs: samples that share one come one after the other


@dataclass(frozen=True)
class Key:
    """Everything that must be equal for two cases to share a graph.

    Args:
        text: the source of the function around the op, with all arguments that are not tensors.
        constants: the objects that the source uses; the op is one.
        backend: the `torch.compile` backend.
        tensors: for each tensor argument everything except sizes and values.
        aliases: for each tensor argument the position of the first one with the same memory.
    """

    text: str
    constants: tuple[Any, ...]
    backend: str
    tensors: tuple[tuple[Any, ...], ...]
    aliases: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Graph:
    """A compiled function.

    Args:
        source: the function before compilation.
        function: the compiled function.
        backend: the counting backend that compiled it.
    """

    source: Function
    function: Function
    backend: Any


def key_of(harness: OpHarness, case: Case) -> Key | None:
    """The key of a case and the function around its op; None if it cannot share a graph."""
    tensors = [tensor for _, tensor in case.inputs().tensors()]
    if not GRAPHS_CAN_STAY or not all(is_plain(tensor) for tensor in tensors):
        return None
    homes = [tensor.untyped_storage().data_ptr() for tensor in tensors]
    code = harness.code
    key = Key(
        code.text,
        code.constants,
        case.backend,
        tuple(_kind(tensor) for tensor in tensors),
        tuple(homes.index(home) if home else at for at, home in enumerate(homes)),
    )
    try:
        hash(key)
    except TypeError:  # an argument that cannot be compared
        return None
    return key


def _kind(tensor: torch.Tensor) -> tuple[Any, ...]:
    """All properties of a tensor except its values and its sizes above 1."""
    strides, sizes = tensor.stride(), tensor.shape
    order = tuple(sorted(range(tensor.dim()), key=lambda dim: (strides[dim], dim)))
    return (
        type(tensor),
        tensor.dtype,
        tensor.device,
        tensor.requires_grad,
        tensor.is_conj(),
        tensor.is_neg(),
        tensor.is_contiguous(),
        tensor.storage_offset() == 0,
        order,
        tuple(min(stride, 2) for stride in strides),
        tuple(min(size, 2) for size in sizes),
    )


_graphs: OrderedDict[Key, Graph] = OrderedDict()


def find(key: Key | None) -> Graph | None:
    """The graph for a key, if there is one."""
    if key is None or key not in _graphs:
        return None
    _graphs.move_to_end(key)
    return _graphs[key]


def keep(key: Key | None, graph: Graph) -> None:
    """Keep a graph beyond the compiler session; its own case agreed with eager mode on it."""
    if key is None:
        return
    discard(key)
    keep_compiled(graph.source)
    _graphs[key] = graph
    while len(_graphs) > _LIMIT:
        discard(next(iter(_graphs)))


def discard(key: Key | None) -> None:
    """Drop the graph for a key, if there is one."""
    if key is not None and key in _graphs:
        forget_compiled(_graphs.pop(key).source)


def discard_all() -> None:
    """Drop every graph."""
    while _graphs:
        discard(next(iter(_graphs)))


def holds(graph: Graph, call: Callable[[], None]) -> bool:
    """Whether `call`, which calls the graph and compares, neither raises nor compiles anything."""
    before = graph.backend.graphs
    try:
        with recompiles_raise():
            call()
    except Exception as error:  # of any kind: the case then gets a graph of its own
        reraise_bug(error)
        return False
    return bool(graph.backend.graphs == before)
