"""Ops with lists of ids, of which the docstring says that repeated ones count once."""

import functools

import torch
from torch import Tensor

from pytest_customop import tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager", requires_grad=[False])
AGAIN = {"relations.counts_once": "repeated-counts-again"}
TOKENS = (tensor(10), torch.tensor([3, 7, 1, 4, 4]))


def _penalised(name, chosen, said="A token counts once, however often it comes."):
    """Scores of which some are halved; `chosen(tokens)` gives each as often as its score is."""

    def kernel(scores: Tensor, tokens: Tensor) -> Tensor:
        if scores.dim() != 1 or tokens.dim() != 1 or tokens.dtype != torch.int64:
            raise ValueError("scores (V,) and tokens (T,) of int64, please")
        if len(tokens) and not 0 <= int(tokens.min()) <= int(tokens.max()) < len(scores):
            raise IndexError("tokens from 0 to V - 1, please")
        found = scores.clone(memory_format=torch.contiguous_format)
        for token in chosen(tokens.tolist()):
            found[token] *= 0.5
        return found

    kernel.__doc__ = f"""Scores (V,) of which those of tokens are halved.

    tokens: (T,) int64. {said}
    """
    op = torch.library.custom_op(f"zoo::{name}", kernel, mutates_args=())
    op.register_fake(lambda scores, tokens: scores.new_empty(scores.shape[0]))
    return op


def _unlike_the_last(tokens):
    return [token for last, token in zip([-1, *tokens], tokens, strict=False) if token != last]


@aot(TOKENS, expected=AGAIN)
def halves_a_token_that_comes_again_later():
    """Leaves out only those that are like the one before."""
    return _penalised("halves_a_token_that_comes_again_later", _unlike_the_last)


@aot(TOKENS, twin_of="halves_a_token_that_comes_again_later")
def halves_each_token_once():
    """A set of tokens."""
    return _penalised("halves_each_token_once", set)


@aot(TOKENS)
def halves_a_token_each_time():
    """Correct: the docstring says that each one counts."""
    return _penalised("halves_a_token_each_time", list, "Each occurrence halves its score again.")


@aot((torch.tensor([[0, 3, 1, 5, 2], [1, 4, 2, 6, 0]]), 8))
def joins_nodes_by_repeated_edges():
    """Correct: what is repeated are edges, not the nodes that they join."""

    @torch.library.custom_op("zoo::joins_nodes_by_repeated_edges", mutates_args=())
    def op(edges: Tensor, nodes: int) -> Tensor:
        """The smallest node that each of some nodes is connected with.

        edges: (2, E) int64, from 0 to nodes - 1. Self loops are allowed, and repeated edges are ignored.
        """
        if edges.dim() != 2 or edges.shape[0] != 2 or edges.dtype != torch.int64 or nodes < 0:
            raise ValueError("pairs of nodes (2, E) in int64, please")
        if edges.numel() and not 0 <= int(edges.min()) <= int(edges.max()) < nodes:
            raise IndexError("nodes from 0 to their number, please")
        found = torch.arange(nodes)
        for _ in range(nodes):
            for one, other in edges.t().tolist():
                found[one] = found[other] = min(int(found[one]), int(found[other]))
        return found

    op.register_fake(lambda edges, nodes: edges.new_empty(nodes))
    return op
