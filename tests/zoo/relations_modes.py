"""Ops that give other values without gradients, in inference mode, or for the same seed."""

import functools
import itertools
import os
import random

import numpy
import torch

from pytest_customop import Sample, tensor

from .registry import library, specimen

aot = functools.partial(specimen, backend="aot_eager")
MATRIX = tensor(4, 6)

MODES = {"relations.grad_modes": "grad-mode-mismatch"}


def _in_library(name, kernel, key="CPU", schema="(Tensor x) -> Tensor", fake=torch.empty_like):
    lib = library()
    lib.define(f"{name}{schema}")
    lib.impl(name, kernel, key)
    torch.library.register_fake(f"zoo::{name}", fake, lib=lib)
    return getattr(torch.ops.zoo, name).default


@aot(
    (MATRIX,),
    expected={
        **MODES,
        "compile.static": "compile-output-mismatch",
        "compile.dynamic": "compile-output-mismatch",
        "opcheck.test_aot_dispatch_dynamic": "opcheck-failure",
    },
)
def approximates_without_gradients():
    """Computes something else where gradients are off."""

    def kernel(x):
        return x.detach().tanh() if torch.is_grad_enabled() else x.detach().clamp(-1, 1)

    return _in_library("approximates_without_gradients", kernel)


@aot((MATRIX,), expected=MODES)
def forgets_the_tail_in_inference_mode():
    """Leaves out the last column in inference mode."""

    def kernel(x):
        out = x.detach().tanh()
        if torch.is_inference_mode_enabled() and out.numel():
            out[..., -1] = 0
        return out

    return _in_library("forgets_the_tail_in_inference_mode", kernel)


@aot((MATRIX,), twin_of=("approximates_without_gradients", "forgets_the_tail_in_inference_mode"))
def computes_otherwise_without_gradients():
    """Computes the same in another way where gradients are off."""

    def kernel(x):
        if torch.is_grad_enabled():
            return x.detach().tanh()
        return 1 - 2 / ((2 * x.detach()).exp() + 1)

    return _in_library("computes_otherwise_without_gradients", kernel)


class _Tanh(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.tanh()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad * (1 - y * y)


RAISES = {"relations.grad_modes": "grad-mode-raises"}


@aot(
    (MATRIX,),
    expected=RAISES,
    skips={"opcheck.test_schema": "checker-limit", "opcheck.test_faketensor": "checker-limit"},
)
def kernel_at_the_autograd_key_alone():
    """Has one kernel, at the Autograd key, which inference mode leaves out."""
    return _in_library("kernel_at_the_autograd_key_alone", _Tanh.apply, "Autograd")


@aot((MATRIX,), expected=RAISES)
def reads_the_version():
    """Reads the version of its argument, which tensors of inference mode do not have."""

    def kernel(x):
        return x.detach().tanh() if x._version >= 0 else x

    return _in_library("reads_the_version", kernel)


@aot((MATRIX,), twin_of=("kernel_at_the_autograd_key_alone", "reads_the_version"))
def kernel_for_the_cpu_and_a_formula():
    """Has a kernel for the CPU, and a formula at the Autograd key."""
    name = "kernel_for_the_cpu_and_a_formula"
    operator = _in_library(name, lambda x: x.tanh())

    class Formula(_Tanh):
        @staticmethod
        def forward(ctx, x):
            with torch._C._AutoDispatchBelowAutograd():
                y = operator(x)
            ctx.save_for_backward(y)
            return y

    library().impl(name, Formula.apply, "Autograd")
    return operator


# --------------------------------------------------------------------------------- seeds

UNSTEADY = {
    "opcheck.test_aot_dispatch_dynamic": "checker-limit",
    "values.repeat": "nondeterministic",
}
SEED = {"relations.seed": "outputs-ignore-seed"}
RANDOM = (torch.Tag.nondeterministic_seeded,)


def _noisy(name, noise, more="", said=""):
    """Adds noise; tagged as random. `noise(x, *more)` makes it, and `said` is the docstring."""

    def fake(x, **given):
        return torch.empty_like(x)

    fake.__doc__ = said
    lib = library()
    lib.define(f"{name}(Tensor x{more}) -> Tensor", tags=RANDOM)
    lib.impl(name, torch.no_grad()(lambda x, **given: x + noise(x, **given)), "CPU")
    torch.library.register_fake(f"zoo::{name}", fake, lib=lib)
    return getattr(torch.ops.zoo, name).default


def _of_numpy(x, seed):
    drawn = numpy.random.default_rng(seed).random(tuple(x.shape))
    return torch.from_numpy(drawn).to(x.dtype)


@aot((MATRIX,), expected=SEED, skips=UNSTEADY)
def noise_from_the_system():
    """Draws from a stream that the system seeds."""
    return _noisy(
        "noise_from_the_system", lambda x: _of_numpy(x, int.from_bytes(os.urandom(8), "big"))
    )


@aot((MATRIX,), expected=SEED, skips=UNSTEADY)
def noise_from_a_count_of_calls():
    """Draws from a stream that the number of calls seeds."""
    turns = itertools.count()
    return _noisy("noise_from_a_count_of_calls", lambda x: _of_numpy(x, next(turns)))


def _rounded(name, generator):
    """Rounds float32 to bfloat16, up or down by chance."""

    def kernel(x):
        bits = x.contiguous().view(torch.int32)
        noise = torch.randint(2**16, x.shape, generator=generator, dtype=torch.int32)
        return ((bits + noise) & -(2**16)).view(torch.float32).to(torch.bfloat16)

    lib = library()
    lib.define(f"{name}(Tensor x) -> Tensor", tags=RANDOM)
    lib.impl(name, kernel, "CPU")
    torch.library.register_fake(
        f"zoo::{name}", lambda x: x.new_empty(x.shape, dtype=torch.bfloat16), lib=lib
    )
    return getattr(torch.ops.zoo, name).default


@aot((MATRIX,), expected=SEED, dtypes=[torch.float32])
def rounds_from_its_own_stream():
    """Stochastic rounding from a generator that no seed reaches: only last digits vary."""
    return _rounded("rounds_from_its_own_stream", torch.Generator().manual_seed(1))


@aot((MATRIX,), twin_of="rounds_from_its_own_stream", dtypes=[torch.float32])
def rounds_from_the_stream_of_torch():
    """Stochastic rounding from torch's stream."""
    return _rounded("rounds_from_the_stream_of_torch", None)


@aot((MATRIX,), twin_of=("noise_from_the_system", "noise_from_a_count_of_calls"))
def noise_seeded_by_torch():
    """Draws from a stream of its own that torch's seeds."""
    return _noisy("noise_seeded_by_torch", lambda x: _of_numpy(x, int(torch.randint(2**31, ()))))


def _of_python(x):
    return torch.tensor([random.random() for _ in range(x.numel())], dtype=x.dtype).reshape(x.shape)


FOLLOWS = "Add noise; the same torch.manual_seed gives the same noise."


@aot((MATRIX,), expected=SEED)
def noise_that_torchs_seed_does_not_start():
    """Draws from Python's stream, and says that torch's seed decides."""
    return _noisy("noise_that_torchs_seed_does_not_start", _of_python, said=FOLLOWS)


@aot((MATRIX,), notes=SEED, skips={"opcheck.test_aot_dispatch_dynamic": "checker-limit"})
def noise_of_some_stream():
    """Draws from Python's stream, and says nothing of a seed."""
    return _noisy("noise_of_some_stream", _of_python)


@aot((MATRIX,), twin_of="noise_that_torchs_seed_does_not_start")
def noise_that_torchs_seed_starts():
    """Seeds a stream of its own from torch's."""

    def noise(x):
        own = random.Random(int(torch.randint(2**31, ())))
        drawn = [own.random() for _ in range(x.numel())]
        return torch.tensor(drawn, dtype=x.dtype).reshape(x.shape)

    return _noisy("noise_that_torchs_seed_starts", noise, said=FOLLOWS)


@aot((MATRIX,), twin_of="noise_from_the_system", skips=UNSTEADY)
def noise_of_its_own_generator():
    """Correct: has a generator of its own, and says that torch's seed does not start it."""
    own = torch.Generator().manual_seed(0)
    return _noisy(
        "noise_of_its_own_generator",
        lambda x: torch.rand(x.shape, generator=own, dtype=x.dtype),
        said="Add noise from a generator of its own; torch.manual_seed has no effect on it.",
    )


GENERATOR = ", *, Generator? generator=None"


@aot((MATRIX,), expected={"relations.seed": "outputs-ignore-generator"})
def noise_without_its_generator():
    """Takes a generator, and draws from torch's stream."""
    return _noisy(
        "noise_without_its_generator",
        lambda x, generator=None: torch.rand(x.shape, dtype=x.dtype),
        GENERATOR,
    )


@aot((MATRIX,), twin_of="noise_without_its_generator")
def noise_of_its_generator():
    """Takes a generator, and draws from it."""
    return _noisy(
        "noise_of_its_generator",
        lambda x, generator=None: torch.rand(x.shape, dtype=x.dtype, generator=generator),
        GENERATOR,
    )


def _of_optional_seed(name, is_given, said=""):
    """Noise by a seed; without one it is drawn from torch's stream."""

    def noise(x, seed=None):
        generator = torch.Generator().manual_seed(seed) if is_given(seed) else None
        return torch.rand(x.shape, dtype=x.dtype, generator=generator)

    return _noisy(name, noise, ", *, int? seed=None", said)


@aot((MATRIX,), expected={"relations.seed": "zero-taken-for-no-seed"})
def noise_that_takes_zero_for_no_seed():
    """Asks whether the seed is true."""
    return _of_optional_seed("noise_that_takes_zero_for_no_seed", bool)


@aot((MATRIX,), twin_of="noise_that_takes_zero_for_no_seed")
def noise_of_any_seed():
    """Asks whether there is a seed."""
    return _of_optional_seed("noise_of_any_seed", lambda seed: seed is not None)


@aot((MATRIX,), twin_of="noise_that_takes_zero_for_no_seed")
def noise_that_rejects_zero():
    """Takes positive seeds alone."""

    def is_given(seed):
        if seed is not None and seed <= 0:
            raise ValueError(f"a positive seed, please, not {seed}")
        return seed is not None

    return _of_optional_seed("noise_that_rejects_zero", is_given)


@aot(Sample((MATRIX,), {"seed": 3}), twin_of="noise_that_takes_zero_for_no_seed")
def noise_that_needs_a_seed():
    """Rejects None, which its schema takes."""

    def noise(x, seed=None):
        generator = torch.Generator().manual_seed(seed)
        return torch.rand(x.shape, dtype=x.dtype, generator=generator)

    return _noisy("noise_that_needs_a_seed", noise, ", *, int? seed=None")


FROM_ZERO = """Add noise.

seed: None draws from torch's default generator. A whole number >= 0 decides alone, and the default
    generator is left untouched.
"""


@aot((MATRIX,), expected={"relations.seed": "zero-taken-for-no-seed"})
def noise_of_seeds_above_zero():
    """Asks whether the seed is true, where 0 is documented as one."""
    return _of_optional_seed("noise_of_seeds_above_zero", bool, FROM_ZERO)


@aot((MATRIX,), twin_of="noise_of_seeds_above_zero")
def noise_of_seeds_from_zero():
    """Asks whether there is a seed."""
    return _of_optional_seed("noise_of_seeds_from_zero", lambda seed: seed is not None, FROM_ZERO)


@aot((MATRIX,), twin_of="noise_that_takes_zero_for_no_seed")
def noise_without_a_seed_at_zero():
    """Takes 0 for no seed, and says so."""
    said = "Add noise.\n\nseed: of the noise; 0 or None draws from torch's stream."
    return _of_optional_seed("noise_without_a_seed_at_zero", bool, said)


@aot((MATRIX,))
def noise_whose_sum_comes_in_any_order():
    """Correct: draws from torch's stream, and adds up in an order that varies."""
    turns = itertools.count()

    def noise(x):
        drawn = torch.rand(50, *x.shape, dtype=x.dtype).roll(next(turns) % 50, 0)
        total = torch.zeros_like(x)
        for sample in drawn:
            total = total + sample
        return total

    return _noisy("noise_whose_sum_comes_in_any_order", noise)
