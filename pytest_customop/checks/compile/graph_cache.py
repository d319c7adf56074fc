"""Graphs with dynamic sizes that several cases use; compiling one takes longer than all else of a check.

A graph is one case's if nothing that a compiler could look at tells it from the case that it was
compiled for, but the sizes: and those are held to the graph's guards when it is called. Whoever uses one
reports nothing that it shows: a case that does not agree on it is judged by a graph of its own.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ... import compat
from ...cases.case import Case
from ...cases.tensors import is_plain
from ...core.tracebacks import reraise_bug
from .harness import Function, OpHarness

_LIMIT = 8  # graphs that are kept: samples that share one come one after the other


@dataclass(frozen=True)
class Key:
    """All that has to be equal.

    Args:
        text: the lines of the function around the op, every argument that is no tensor in them.
        constants: what the lines name: the op is one.
        backend: the `torch.compile` backend.
        tensors: of each tensor argument all but its sizes and values.
        aliases: which tensor arguments share memory, each told by the first that has it.
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
        source: the function that was compiled.
        function: what was made of it.
        backend: the counting backend that compiled it.
    """

    source: Function
    function: Function
    backend: Any


def key_of(surrounded: OpHarness, case: Case) -> Key | None:
    """The key of a case in the function around its op; None if it can share no graph."""
    tensors = [tensor for _, tensor in case.inputs().tensors()]
    if not compat.GRAPHS_CAN_STAY or not all(is_plain(tensor) for tensor in tensors):
        return None
    homes = [tensor.untyped_storage().data_ptr() for tensor in tensors]
    code = surrounded.code
    key = Key(
        code.text,
        code.constants,
        case.backend,
        tuple(_kind(tensor) for tensor in tensors),
        tuple(homes.index(home) if home else at for at, home in enumerate(homes)),
    )
    try:
        hash(key)
    except TypeError:  # an argument of a kind that cannot be told from others
        return None
    return key


def _kind(tensor: torch.Tensor) -> tuple[Any, ...]:
    """All of a tensor but its values and the sizes above 1."""
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
    """The graph of that key, if there is one."""
    if key is None or key not in _graphs:
        return None
    _graphs.move_to_end(key)
    return _graphs[key]


def keep(key: Key | None, graph: Graph) -> None:
    """Keep a graph on which its own case agreed with eager mode, beyond the session of the compiler."""
    if key is None:
        return
    discard(key)
    compat.keep_compiled(graph.source)
    _graphs[key] = graph
    while len(_graphs) > _LIMIT:
        discard(next(iter(_graphs)))


def discard(key: Key | None) -> None:
    """Drop the graph of that key, if there is one."""
    if key is not None and key in _graphs:
        compat.forget_compiled(_graphs.pop(key).source)


def discard_all() -> None:
    """Drop every graph."""
    while _graphs:
        discard(next(iter(_graphs)))


def unchanged(graph: Graph, call: Callable[[], None]) -> bool:
    """Whether a call of the graph, which compares, neither raised nor compiled anything."""
    before = graph.backend.graphs
    try:
        with compat.recompiles_raise():
            call()
    except Exception as error:  # of every kind: a graph of the case's own shows what it is worth
        reraise_bug(error)
        return False
    return bool(graph.backend.graphs == before)
