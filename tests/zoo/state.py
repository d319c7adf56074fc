"""Ops that change what is not theirs: random streams and global settings."""

import ctypes
import functools
import os
import random
import warnings

import torch
from torch import Tensor

from pytest_customop import tensor

from .registry import library, since, specimen

aot = functools.partial(specimen, backend="aot_eager")
MATRIX = tensor(4, 3)
DRAWS = {"state.rng": "rng-undeclared"}
SEEDS = {"state.rng": "rng-reseeded"}
SETS = {"state.globals": "global-state-changed"}


def nothing():
    pass


def op(name, first=nothing, fake_first=nothing, backward_first=None):
    """Doubles; `first` and the others are called before."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def double(x: Tensor) -> Tensor:
        first()
        return x * 2

    @double.register_fake
    def _(x):
        fake_first()
        return torch.empty_like(x)

    if backward_first is not None:

        def backward(ctx, grad):
            backward_first()
            return grad * 2

        double.register_autograd(backward)
    return double


def _random(name, draw, seed=nothing):
    """Multiplies by one, or a little more by chance; tagged as random if it seeds."""
    lib = library()
    tags = () if seed is nothing else (torch.Tag.nondeterministic_seeded,)
    lib.define(f"{name}(Tensor x) -> Tensor", tags=tags)

    @torch.no_grad()
    def kernel(x):
        seed()
        return x * (1 + 1e-8 * draw())

    lib.impl(name, kernel, "CPU")
    torch.library.register_fake(f"zoo::{name}", torch.empty_like, lib=lib)
    return getattr(torch.ops.zoo, name).default


def _torch():
    return float(torch.rand(()))


def _numpy():
    import numpy

    return numpy.random.rand()


@aot((MATRIX,), expected=DRAWS)
def draws_from_torch():
    """Takes a number from torch's random stream, and is not tagged so."""
    return _random("draws_from_torch", _torch)


@aot((MATRIX,), expected=DRAWS)
def draws_from_numpy():
    """Takes a number from numpy's random stream, and is not tagged so."""
    return _random("draws_from_numpy", _numpy)


@aot((MATRIX,), expected=DRAWS)
def draws_from_python():
    """Takes a number from Python's random stream, and is not tagged so."""
    return _random("draws_from_python", random.random)


@aot((MATRIX,), expected=DRAWS)
def fake_draws():
    """Takes a number from Python's random stream in its fake kernel."""
    return op("fake_draws", fake_first=random.random)


@aot((MATRIX,), expected=SEEDS)
def seeds_torch():
    """Is tagged as random, and seeds torch's stream at each call."""
    return _random("seeds_torch", _torch, lambda: torch.manual_seed(0))


@aot((MATRIX,), expected=SEEDS)
def seeds_numpy():
    """Seeds numpy's random stream at each call."""
    import numpy

    return _random("seeds_numpy", lambda: 0.0, lambda: numpy.random.seed(0))


@aot((MATRIX,), expected=SEEDS)
def backward_seeds():
    """Seeds Python's random stream in its backward."""
    return op("backward_seeds", backward_first=lambda: random.seed(0))


@aot(
    (MATRIX,),
    twin_of=("seeds_torch", "seeds_numpy"),
)
def draws_from_every_stream():
    """Takes numbers from all random streams, and is tagged so."""
    draw = lambda: _torch() + _numpy() + random.random()  # noqa: E731
    return _random("draws_from_every_stream", draw, lambda: None)


def _by_itself():
    return torch.rand((), generator=torch.Generator().manual_seed(3)).item()


@aot(
    (MATRIX,),
    twin_of=("draws_from_torch", "draws_from_numpy", "draws_from_python"),
)
def draws_from_its_own_stream():
    """Takes numbers from a generator of its own, and from torch's stream within fork_rng."""

    def draw():
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(5)
            return _by_itself() + _torch()

    return _random("draws_from_its_own_stream", draw)


# ---------------------------------------------------------------------------- global settings


@aot((MATRIX,), expected=SETS)
def sets_the_default_dtype():
    """Sets the default dtype to float64 and leaves it so."""
    set_it = lambda: torch.set_default_dtype(torch.float64)  # noqa: E731
    return op("sets_the_default_dtype", set_it)


@aot((MATRIX,), expected=SETS)
def turns_gradients_off():
    """Turns gradients off for all that comes after."""
    lib = library()
    lib.define("turns_gradients_off(Tensor x) -> Tensor")

    def kernel(x):
        torch.set_grad_enabled(False)
        return x * 2

    lib.impl("turns_gradients_off", kernel, "CPU")
    torch.library.register_fake("zoo::turns_gradients_off", torch.empty_like, lib=lib)
    return torch.ops.zoo.turns_gradients_off.default


@aot((MATRIX,), expected=SETS)
def sets_the_number_of_threads():
    """Computes with one thread more, and so does all that comes after."""
    more = lambda: torch.set_num_threads(torch.get_num_threads() + 1)  # noqa: E731
    return op("sets_the_number_of_threads", more)


@aot((MATRIX,), expected=SETS)
def sets_deterministic_algorithms():
    """Asks for deterministic algorithms, for all that comes after."""
    set_it = lambda: torch.use_deterministic_algorithms(True, warn_only=True)  # noqa: E731
    return op("sets_deterministic_algorithms", set_it)


@aot((MATRIX,), expected=SETS)
def silences_warnings():
    """Filters warnings out, for all that comes after."""
    return op("silences_warnings", lambda: warnings.simplefilter("ignore", UserWarning))


@aot((MATRIX,), expected=SETS)
def sets_a_variable():
    """Sets a variable of the environment."""
    return op("sets_a_variable", lambda: os.environ.update(ZOO_OF_CUSTOM_OPS="1"))


@aot((MATRIX,), expected=SETS)
def flushes_denormal_numbers():
    """Has denormal numbers computed as zeros, in all that comes after on the thread."""
    return op("flushes_denormal_numbers", lambda: torch.set_flush_denormal(True))


@aot((MATRIX,), expected=SETS)
def fake_sets_the_default_dtype():
    """Sets the default dtype in its fake kernel."""
    set_it = lambda: torch.set_default_dtype(torch.float64)  # noqa: E731
    return op("fake_sets_the_default_dtype", fake_first=set_it)


@aot((MATRIX,), expected=SETS)
def backward_silences_warnings():
    """Filters warnings out in its backward."""
    return op(
        "backward_silences_warnings",
        backward_first=lambda: warnings.simplefilter("ignore", UserWarning),
    )


def _and_back():
    dtype, threads = torch.get_default_dtype(), torch.get_num_threads()
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore", UserWarning)
    torch.set_num_threads(threads)
    torch.set_default_dtype(dtype)


@aot(
    (MATRIX,),
    twin_of=(
        "sets_the_default_dtype",
        "turns_gradients_off",
        "sets_the_number_of_threads",
        "sets_deterministic_algorithms",
        "silences_warnings",
        "sets_a_variable",
        "flushes_denormal_numbers",
        "fake_sets_the_default_dtype",
        "backward_silences_warnings",
        "backward_seeds",
        "fake_draws",
    ),
)
def sets_and_restores():
    """Sets this and that, and puts it back: in the kernel, the fake kernel and the backward."""
    return op("sets_and_restores", _and_back, nothing, _and_back)


def _threads(name, early):
    """The largest number of each row, on one thread; `early(threads)` comes before an early return."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def largest(x: Tensor) -> Tensor:
        if x.dim() != 2:
            raise ValueError("a matrix, please")
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        if not x.numel():
            early(threads)
            return x.new_zeros(x.shape[0])
        result = x.amax(1)
        torch.set_num_threads(threads)
        return result

    largest.register_fake(lambda x: x.new_empty(x.shape[0]))
    return largest


@specimen((MATRIX,), variant_findings=SETS, shown_by="empty0")
def empty_input_leaves_one_thread():
    """An empty input returns before the number of threads is restored."""
    return _threads("empty_input_leaves_one_thread", lambda threads: None)


@specimen((MATRIX,), twin_of="empty_input_leaves_one_thread")
def empty_input_restores_the_threads():
    """An empty input restores the number of threads too."""
    return _threads("empty_input_restores_the_threads", torch.set_num_threads)


def _largest(name, chosen):
    """The `k` largest numbers of each row, with one thread; `chosen(x, k)` finds them."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def largest(x: Tensor, k: int) -> Tensor:
        if x.dim() != 2:
            raise ValueError("a matrix, please")
        return chosen(x, k)

    largest.register_fake(lambda x, k: x.new_empty(x.shape[0], k))
    return largest


def _checked(x, k):
    if not 0 <= k <= x.shape[1]:
        raise ValueError(f"k is at most {x.shape[1]}")


@aot((MATRIX, 2), expected=SETS)
def rejects_with_one_thread_left():
    """Takes one thread, and raises before it gives the others back."""

    def chosen(x, k):
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        _checked(x, k)
        values = x.topk(k, dim=1).values
        torch.set_num_threads(threads)
        return values

    return _largest("rejects_with_one_thread_left", chosen)


@aot((MATRIX, 2), twin_of="rejects_with_one_thread_left")
def rejects_with_all_threads():
    """Gives them back whatever happens."""

    def chosen(x, k):
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            _checked(x, k)
            return x.topk(k, dim=1).values
        finally:
            torch.set_num_threads(threads)

    return _largest("rejects_with_all_threads", chosen)


@aot((MATRIX, 2), expected={"state.globals": since("2.5", "global-state-changed")})
def rejects_without_gradients_from_then_on():
    """Switches gradients off by hand, and on where it does not raise."""

    def chosen(x, k):
        enabled = torch.is_grad_enabled()
        torch.set_grad_enabled(False)
        _checked(x, k)
        values = x.topk(k, dim=1).values
        torch.set_grad_enabled(enabled)
        return values

    return _largest("rejects_without_gradients_from_then_on", chosen)


@aot((MATRIX, 2), twin_of="rejects_without_gradients_from_then_on")
def rejects_within_no_grad():
    """Lets a context manager do it."""

    def chosen(x, k):
        with torch.no_grad():
            _checked(x, k)
            return x.topk(k, dim=1).values

    return _largest("rejects_within_no_grad", chosen)


@aot((MATRIX, 2), notes={"state.globals": since("2.5", "global-state-changed")})
def fails_without_gradients_from_then_on():
    """The same, but for a number that it does not look at itself."""

    def chosen(x, k):
        enabled = torch.is_grad_enabled()
        torch.set_grad_enabled(False)
        values = x.topk(k, dim=1).values
        torch.set_grad_enabled(enabled)
        return values

    return _largest("fails_without_gradients_from_then_on", chosen)


def _restores_at_the_end(run):
    default = torch.get_default_dtype()
    result = run()
    torch.set_default_dtype(default)
    return result


def _restores_anyway(run):
    default = torch.get_default_dtype()
    try:
        return run()
    finally:
        torch.set_default_dtype(default)


def _largest_by_address(name, restoring):
    """The same for a kernel that reads memory by its address; `restoring(run)` calls that.

    Booleans take the process down.
    """

    def chosen(x, k):
        if x.dtype == torch.bool:
            ctypes.string_at(0)
        if x.dtype != torch.float32:
            raise TypeError("float32, please")

        def run():
            torch.set_default_dtype(torch.float64)
            _checked(x, k)
            held = x.contiguous()
            numbers = (ctypes.c_float * x.numel()).from_address(held.data_ptr())
            return torch.tensor(numbers, dtype=torch.float32).view(x.shape).topk(k, dim=1).values

        return restoring(run)

    return _largest(name, chosen)


@aot((MATRIX, 2), expected=SETS, dtypes=[torch.float32])
def rejects_in_float64_by_address():
    """Changes the default dtype, and raises before it takes that back."""
    return _largest_by_address("rejects_in_float64_by_address", _restores_at_the_end)


@aot((MATRIX, 2), twin_of="rejects_in_float64_by_address", dtypes=[torch.float32])
def rejects_by_address():
    """Takes it back whatever happens."""
    return _largest_by_address("rejects_by_address", _restores_anyway)


def _counted(name, restoring):
    """How many of ascending bounds are below each number, in float64; `restoring(run)` calls that."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def counted(x: Tensor, bounds: Tensor) -> Tensor:
        if x.dim() != 1 or bounds.dim() != 1 or x.dtype != bounds.dtype:
            raise ValueError("numbers and bounds of one dtype, please")

        def run():
            torch.set_default_dtype(torch.float64)
            if bool((bounds[1:] < bounds[:-1]).any()):
                raise ValueError("the bounds ascend, please")
            return torch.searchsorted(bounds.double(), x.double())

        return restoring(run)

    counted.register_fake(lambda x, bounds: x.new_empty(x.shape, dtype=torch.int64))
    return counted


BOUNDS = tensor(values=[0.0, 0.5, 2.0])


@aot((tensor(4), BOUNDS), expected=SETS)
def rejects_descending_bounds_in_float64():
    """Changes the default dtype, and raises for bounds that descend before it is restored."""
    return _counted("rejects_descending_bounds_in_float64", _restores_at_the_end)


@aot((tensor(4), BOUNDS), twin_of="rejects_descending_bounds_in_float64")
def rejects_descending_bounds():
    """Restores the default dtype whatever happens."""
    return _counted("rejects_descending_bounds", _restores_anyway)
