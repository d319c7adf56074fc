"""Ops that draw numbers row by row from a seed that is an argument."""

import functools

import torch
from torch import Tensor

from pytest_customop import tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager")
OVERLAP = {"relations.seed_streams": "streams-overlap"}
ROWS = (tensor(3, 5), 7)
PROMISE = "Adds noise in [0, 1) to rows. Calls with different seeds are independent of each other."


def _noise(name, said, seed_of):
    """Noise from a generator; `seed_of(seed, i)` seeds it for row `i`, if it is not None."""

    def kernel(x: Tensor, seed: int) -> Tensor:
        if x.dim() != 2:
            raise ValueError("rows, please")
        out, generator = torch.empty_like(x).contiguous(), torch.Generator().manual_seed(seed)
        for i, row in enumerate(x):
            start = seed_of(seed, i)
            if start is not None:
                generator.manual_seed(start)
            out[i] = row + torch.rand(row.shape, generator=generator, dtype=torch.float64).to(x)
        return out

    kernel.__doc__ = said
    noise = torch.library.custom_op(f"zoo::{name}", kernel, mutates_args=())
    noise.register_fake(lambda x, seed: x.new_empty(x.shape))
    return noise


@aot(ROWS, expected=OVERLAP)
def noise_of_seed_and_row():
    """Row 1 of one seed is row 0 of the next."""
    return _noise("noise_of_seed_and_row", PROMISE, lambda seed, i: seed + i)


@aot(ROWS, twin_of="noise_of_seed_and_row")
def noise_of_one_stream():
    """All rows draw from one stream."""
    return _noise("noise_of_one_stream", PROMISE, lambda seed, i: None)


@aot(ROWS, twin_of="noise_of_seed_and_row")
def noise_of_mixed_seeds():
    """Correct: seed and row are mixed."""
    return _noise("noise_of_mixed_seeds", PROMISE, lambda seed, i: hash((seed, i)) % 2**31)


@aot(ROWS, notes=OVERLAP)
def noise_that_promises_nothing():
    """The same overlap, and no docstring says that seeds are independent."""
    said = "Adds noise in [0, 1) to rows."
    return _noise("noise_that_promises_nothing", said, lambda seed, i: seed + i)


@aot(ROWS)
def noise_that_says_how():
    """Correct: the docstring says how rows are seeded."""
    said = "Adds noise in [0, 1) to rows: row `i` draws from `seed + i`."
    return _noise("noise_that_says_how", said, lambda seed, i: seed + i)
