"""Random ops without a seed of their own, and whether their calls draw different numbers."""

import functools

import numpy
import torch

from pytest_customop import tensor

from .registry import library, specimen

aot = functools.partial(specimen, backend="aot_eager")
ROWS = (tensor(4, 6),)


def _noisy(name, seed, said="Adds noise in [0, 1), anew at each call."):
    """Noise from a generator that `seed()` seeds."""

    def noisy(x):
        noise = numpy.random.default_rng(seed()).random(tuple(x.shape))
        return (x + torch.from_numpy(noise).to(x)).contiguous()

    def fake(x):
        return x.new_empty(x.shape)

    fake.__doc__ = said
    lib = library()
    lib.define(f"{name}(Tensor x) -> Tensor", tags=(torch.Tag.nondeterministic_seeded,))
    lib.impl(name, torch.no_grad()(noisy), "CPU")
    torch.library.register_fake(f"zoo::{name}", fake, lib=lib)
    return getattr(torch.ops.zoo, name).default


@aot(ROWS, expected={"relations.fresh_draws": "same-draw-at-each-call"})
def noise_of_the_first_seed():
    """Each call begins with torch's seed."""
    return _noisy("noise_of_the_first_seed", torch.initial_seed)


@aot(ROWS, twin_of="noise_of_the_first_seed")
def noise_of_the_next_number():
    """Each call is seeded from torch's generator, which goes on."""
    return _noisy("noise_of_the_next_number", lambda: int(torch.randint(2**62, ())))


@aot(ROWS)
def one_noise_for_all_calls():
    """Correct: the docstring says that every call gives the same."""
    said = "Adds noise in [0, 1) that is the same at every call until torch is seeded again."
    return _noisy("one_noise_for_all_calls", torch.initial_seed, said)
