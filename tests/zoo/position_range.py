"""Edges of a graph, which are sorted by keys of 32 or of 64 bits."""

import functools
from typing import Tuple

import numpy
import torch
from torch import Tensor

from pytest_customop import tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager")

EDGES = (torch.tensor([[0, 2, 1, 0, 3, 2], [1, 3, 0, 1, 3, 3]]), 5)
WRAPS = {"relations.position_range": "position-overflow"}
NO_SIZE = {"fake.symbolic": "no-second-size"}  # the listed positions may refer to every size


def _distinct_edges(name, number, most=None):
    """The distinct edges of a graph, and how often each occurs; keys are of the dtype `number`."""

    def check(edge_index, num_nodes):
        if edge_index.dim() != 2 or edge_index.shape[0] != 2 or edge_index.dtype != torch.int64:
            raise ValueError("expected int64 [2, edges]")
        if num_nodes < 1 or (most is not None and num_nodes > most):
            raise ValueError("too few or too many nodes")

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def distinct(edge_index: Tensor, num_nodes: int) -> Tuple[Tensor, Tensor]:
        check(edge_index, num_nodes)
        rows, columns = edge_index.numpy().astype(number)
        keys, counts = numpy.unique(rows * number(num_nodes) + columns, return_counts=True)
        edges = numpy.stack([keys // num_nodes, keys % num_nodes]).astype(numpy.int64)
        return torch.from_numpy(edges), torch.from_numpy(counts)

    @distinct.register_fake
    def _(edge_index, num_nodes):
        check(edge_index, num_nodes)
        count = torch.library.get_ctx().new_dynamic_size()
        return edge_index.new_empty(2, count), edge_index.new_empty(count)

    return distinct


@aot(EDGES, expected=WRAPS, skips=NO_SIZE)
def edges_by_keys_of_32_bits():
    """row * num_nodes + column overflows in int32."""
    return _distinct_edges("edges_by_keys_of_32_bits", numpy.int32)


@aot(EDGES, twin_of="edges_by_keys_of_32_bits", skips=NO_SIZE)
def edges_by_keys_of_64_bits():
    """The keys are of 64 bits."""
    return _distinct_edges("edges_by_keys_of_64_bits", numpy.int64)


@aot(EDGES, twin_of="edges_by_keys_of_32_bits", skips=NO_SIZE)
def edges_of_small_graphs():
    """The keys are of 32 bits, and it raises for more nodes than they can tell apart."""
    return _distinct_edges("edges_of_small_graphs", numpy.int32, most=46340)


@aot((tensor(6, dtype=torch.int64, low=0, high=9), 9), twin_of="edges_by_keys_of_32_bits")
def positions_cut_to_a_window():
    """Positions beyond a window of 1000 on each side of the middle count as its ends."""

    @torch.library.custom_op("zoo::positions_cut_to_a_window", mutates_args=())
    def cut(positions: Tensor, max_position: int) -> Tensor:
        middle = max_position // 2
        return (positions - middle).clamp(-1000, 1000)

    cut.register_fake(lambda positions, max_position: torch.empty_like(positions))
    return cut
