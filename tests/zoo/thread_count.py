"""Ops that divide their work among the threads of torch."""

import functools
import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor

from pytest_customop import tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager")
SIGNAL = tensor(40)
COUNT = {"relations.thread_count": "result-depends-on-thread-count"}
_LEAST = 4096  # elements for a thread


def op(name, kernel):
    """An op of a vector; `kernel` gets and returns one of numpy."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def operator(x: Tensor) -> Tensor:
        if x.dim() != 1 or x.dtype not in (torch.float32, torch.float64):
            raise ValueError("a signal of floating-point numbers, please")
        return torch.from_numpy(kernel(x.numpy(force=True)))

    operator.register_fake(lambda x: x.new_empty(x.shape))
    return operator


def _energy(x, least=_LEAST):
    """The energy up to each element of a chunk, from its start; and the ends of the chunks."""
    out = np.empty(x.shape)
    parts = max(1, min(torch.get_num_threads(), x.size // least))
    ends = [x.size * at // parts for at in range(parts + 1)]

    def part(begin, end):
        out[begin:end] = np.cumsum(np.square(x[begin:end], dtype=np.float64))

    with ThreadPoolExecutor(parts) as pool:
        [*pool.map(part, ends[:-1], ends[1:])]
    return out, ends


@aot((SIGNAL,), variant_findings=COUNT, shown_by=("large0",))
def energy_anew_in_each_chunk():
    """The energy so far, of which each chunk knows its own."""
    return op("energy_anew_in_each_chunk", lambda x: _energy(x)[0].astype(x.dtype))


@aot((SIGNAL, 40), variant_findings=COUNT, shown_by=("large0",))
def energy_anew_beside_a_number():
    """The same with a number that is, by chance, the size of the signal."""

    @torch.library.custom_op("zoo::energy_anew_beside_a_number", mutates_args=())
    def operator(x: Tensor, start: int) -> Tensor:
        if x.dim() != 1 or x.dtype not in (torch.float32, torch.float64):
            raise ValueError("a signal of floating-point numbers, please")
        return torch.from_numpy(start + _energy(x.numpy(force=True))[0]).to(x.dtype)

    operator.register_fake(lambda x, start: x.new_empty(x.shape))
    return operator


@aot((SIGNAL,), variant_findings=COUNT, shown_by=("large0",))
def energy_anew_in_each_large_chunk():
    """The same in chunks so large that threads have something to do."""
    kernel = lambda x: _energy(x, 40_000)[0].astype(x.dtype)  # noqa: E731
    return op("energy_anew_in_each_large_chunk", kernel)


@aot(
    (SIGNAL,),
    twin_of=(
        "energy_anew_in_each_chunk",
        "energy_anew_in_each_large_chunk",
        "energy_anew_beside_a_number",
    ),
)
def energy_of_the_chunks_before():
    """The energy so far, with that of the chunks before."""

    def kernel(x):
        out, ends = _energy(x)
        for begin, end in itertools.pairwise(ends[1:]):
            out[begin:end] += out[begin - 1]
        return out.astype(x.dtype)

    return op("energy_of_the_chunks_before", kernel)


def _saturated(x, size):
    """Saturated by chunks of one size, at most one for a thread of torch."""
    out = x.copy()

    def part(at):
        out[at * size : (at + 1) * size] = np.tanh(x[at * size : (at + 1) * size])

    parts = range(torch.get_num_threads())
    with ThreadPoolExecutor(len(parts)) as pool:
        [*pool.map(part, parts)]
    return out


@aot((tensor(21),), expected=COUNT)
def rest_of_equal_chunks_left():
    """Saturates equal chunks, and leaves what remains."""
    size = lambda x: x.size // torch.get_num_threads()  # noqa: E731
    return op("rest_of_equal_chunks_left", lambda x: _saturated(x, size(x)))


@aot((tensor(21),), twin_of="rest_of_equal_chunks_left")
def rest_of_equal_chunks_in_the_last():
    """The last chunk is the smaller one."""
    size = lambda x: -(-x.size // torch.get_num_threads())  # noqa: E731
    return op("rest_of_equal_chunks_in_the_last", lambda x: _saturated(x, size(x)))
