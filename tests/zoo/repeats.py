"""Ops that give other values, or other memory, from one call to the next."""

import functools
import itertools
import random
import threading

import torch
from torch import Tensor

from pytest_customop import tensor

from .registry import library, specimen

aot = functools.partial(specimen, backend="aot_eager")
MATRIX = tensor(4, 3)
POSITIVE = tensor(4, 3, low=0.1, high=1)


def op(name, kernel):
    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def operator(x: Tensor) -> Tensor:
        return kernel(x)

    operator.register_fake(lambda x: x.new_empty(x.shape))
    return operator


@aot((MATRIX,), expected={"values.repeat": "outputs-not-repeatable"})
def noise_in_the_last_bits():
    """Adds noise of its own, so that the last bits change from call to call."""
    noise = itertools.cycle([4e-7, 0.0, -4e-7])
    return op("noise_in_the_last_bits", lambda x: x * (1 + next(noise)))


def _sums(name, tags=()):
    """The sums of the columns, added up in an order that varies as that of parallel threads does."""
    lib = library()
    turns = itertools.count()

    def kernel(x):
        count = x.shape[0]
        first = next(turns) % count if count else 0
        total = x.new_zeros(x.shape[1:])
        for row in range(count):
            total += x[(first + row) % count]
        return total

    lib.define(f"{name}(Tensor x) -> Tensor", tags=tags)
    lib.impl(name, torch.no_grad()(kernel), "CPU")
    torch.library.register_fake(f"zoo::{name}", lambda x: x.new_empty(x.shape[1:]), lib=lib)
    return getattr(torch.ops.zoo, name).default


TALL = tensor(50, 3)
COMPARED = (
    "compile.static",
    "compile.dynamic",
    "opcheck.test_aot_dispatch_dynamic",
)


@aot((TALL,), notes={"values.repeat": "outputs-not-repeatable"})
def sums_in_any_order():
    """Correct, and noted: adds up in an order that varies, without the tag for it."""
    return _sums("sums_in_any_order")


@aot((TALL,))
def sums_in_any_order_and_says_so():
    """Correct: adds up in an order that varies, and is tagged so."""
    return _sums("sums_in_any_order_and_says_so", (torch.Tag.nondeterministic_bitwise,))


@aot(
    (TALL,),
    expected={"values.repeat": "outputs-not-repeatable"},
    skips=dict.fromkeys(COMPARED, "nondeterministic"),
)
def loses_an_addend():
    """Loses one of the numbers that it adds up, a random one, as threads without atomics do."""
    chance = random.Random(0)

    def kernel(x):
        kept = x.clone()
        if len(kept):
            kept[chance.randrange(len(kept))] = 0
        return kept.sum(0)

    @torch.library.custom_op("zoo::loses_an_addend", mutates_args=())
    def sums(x: Tensor) -> Tensor:
        return kernel(x)

    sums.register_fake(lambda x: x.new_empty(x.shape[1:]))
    return sums


@aot((TALL,), twin_of="loses_an_addend")
def loses_no_addend():
    """Adds up everything, in one order."""

    @torch.library.custom_op("zoo::loses_no_addend", mutates_args=())
    def sums(x: Tensor) -> Tensor:
        return x.sum(0)

    sums.register_fake(lambda x: x.new_empty(x.shape[1:]))
    return sums


@aot((MATRIX, 3), twin_of="noise_in_the_last_bits")
def noise_from_a_seed():
    """Adds noise that starts from an argument."""

    @torch.library.custom_op("zoo::noise_from_a_seed", mutates_args=())
    def noise(x: Tensor, seed: int) -> Tensor:
        return x * (1 + random.Random(seed).uniform(-5e-7, 5e-7))

    noise.register_fake(lambda x, seed: torch.empty_like(x))
    return noise


@aot((MATRIX,))
def noise_declared():
    """Correct: adds noise from torch's random stream, and is tagged so."""
    lib = library()
    tags = (torch.Tag.nondeterministic_seeded,)
    lib.define("noise_declared(Tensor x) -> Tensor", tags=tags)
    lib.impl("noise_declared", torch.no_grad()(lambda x: x * (1 + 5e-7 * torch.rand(()))), "CPU")
    torch.library.register_fake("zoo::noise_declared", torch.empty_like, lib=lib)
    return torch.ops.zoo.noise_declared.default


def _refuse_other_dtypes(x):
    if x.dtype != torch.float32:
        raise TypeError("float32 only")


def _in_workspaces(name, count):
    spaces = [torch.empty(64) for _ in range(count)]

    def kernel(x):
        _refuse_other_dtypes(x)
        spaces.append(spaces.pop(0))
        return torch.mul(x, 2, out=spaces[0][: x.numel()].view(x.shape))

    return op(name, kernel)


@aot((MATRIX,), expected={"values.repeat": "output-memory-reused"})
def output_in_a_workspace():
    """Returns a piece of one workspace at every call."""
    return _in_workspaces("output_in_a_workspace", 1)


@aot((MATRIX,), expected={"values.repeat": "output-memory-reused"})
def output_in_two_workspaces():
    """Returns pieces of two workspaces by turns."""
    return _in_workspaces("output_in_two_workspaces", 2)


@aot(
    (MATRIX,),
    expected={"values.repeat": "output-memory-reused"},
    skips={"gradcheck.backward": "no-float64", "gradcheck.double": "no-float64"},
)
def output_with_a_formula_in_a_workspace():
    """Torch refuses to tell the autograd node of such an output after the next call."""
    operator = _in_workspaces("output_with_a_formula_in_a_workspace", 1)
    operator.register_autograd(lambda ctx, grad: 2 * grad)
    return operator


@aot(
    (MATRIX,),
    twin_of=(
        "output_in_a_workspace",
        "output_in_two_workspaces",
        "output_with_a_formula_in_a_workspace",
    ),
)
def output_copied_from_a_workspace():
    """Computes in a workspace, and returns a copy."""
    space, lock = torch.empty(64), threading.Lock()

    def kernel(x):
        _refuse_other_dtypes(x)
        with lock:
            return torch.mul(x, 2, out=space[: x.numel()].view(x.shape)).clone()

    return op("output_copied_from_a_workspace", kernel)


def _cached(name, key):
    kept = {}  # with the inputs, so that no other tensor gets their addresses

    def kernel(x):
        cached = kept.get(key(x))
        if cached is None:
            for old in list(kept)[:-8]:
                kept.pop(old, None)
            cached = kept[key(x)] = x, x.flatten().cumsum(0).view(x.shape)
        return cached[1].clone()

    return op(name, kernel)


@aot((MATRIX,), expected={"values.repeat": "stale-result"})
def cache_by_address():
    """Remembers results by the address of the input, whatever is written there since."""
    return _cached("cache_by_address", lambda x: (x.data_ptr(), x.shape, x.stride(), x.dtype))


@aot((MATRIX,), twin_of="cache_by_address")
def cache_by_address_and_version():
    """Remembers results by the address of the input and the number of writes to it.

    Tensors of inference mode do not count writes, so nothing is remembered for them.
    """

    def key(x):
        version = object() if x.is_inference() else x._version
        return x.data_ptr(), version, x.shape, x.stride(), x.dtype

    return _cached("cache_by_address_and_version", key)


def _counts(name, key):
    kept = {}

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def op(bins: Tensor, size: int) -> Tensor:
        cached = kept.get(key(bins))
        if cached is None:
            for old in list(kept)[:-8]:
                kept.pop(old, None)
            cached = kept[key(bins)] = bins, torch.bincount(bins, minlength=size)
        return cached[1][bins]

    op.register_fake(lambda bins, size: torch.empty_like(bins))
    return op


@aot((torch.tensor([0, 3, 1, 3, 2, 3]), 4), expected={"values.repeat": "stale-result"})
def counts_kept_by_address():
    """Counts whole numbers once for each address."""
    return _counts("counts_kept_by_address", lambda x: (x.data_ptr(), x.shape, x.stride()))


@aot((torch.tensor([0, 3, 1, 3, 2, 3]), 4), twin_of="counts_kept_by_address")
def counts_kept_by_version():
    """Counts them anew after each write."""

    def key(bins):
        version = object() if bins.is_inference() else bins._version
        return bins.data_ptr(), version, bins.shape, bins.stride()

    return _counts("counts_kept_by_version", key)


@aot((POSITIVE,), expected={"values.uninitialized": "uninitialized-output"})
def unwritten_where_nan():
    """Writes the square roots of what is not NaN, and nothing where it is."""

    def kernel(x):
        out = torch.empty_like(x, memory_format=torch.contiguous_format)
        known = ~x.isnan()
        out[known] = x[known] * 2
        return out

    return op("unwritten_where_nan", kernel)


@aot((torch.tensor([0, 2, 0, 5, 1, 0]),))
def unwritten_as_documented():
    """Correct: a docstring says which part of the result is not written."""

    @torch.library.custom_op("zoo::unwritten_as_documented", mutates_args=())
    def found(codes: Tensor) -> tuple[Tensor, Tensor]:
        """The places of the codes above 0, and how many there are; the other entries are uninitialized."""
        places = codes.flatten().nonzero().flatten()
        out = torch.empty(codes.numel(), dtype=torch.int64)
        out[: len(places)] = places
        return out, torch.tensor(len(places))

    @found.register_fake
    def _(codes):
        return codes.new_empty(codes.numel(), dtype=torch.int64), codes.new_empty(
            (), dtype=torch.int64
        )

    return found


@aot((POSITIVE,), expected={"values.uninitialized": "uninitialized-output"})
def unwritten_by_numpy():
    """The same, in memory that numpy allocates."""
    import numpy as np

    def kernel(x):
        out = np.empty(x.shape, dtype=np.float32)
        np.multiply(x.numpy(), np.float32(2), out=out, where=~np.isnan(x.numpy()))
        return torch.from_numpy(out)

    return op("unwritten_by_numpy", kernel)


@aot((POSITIVE,), twin_of=("unwritten_where_nan", "unwritten_by_numpy"))
def written_where_nan():
    """Writes NaN where the input is NaN; its scratch memory is never read unwritten."""

    def kernel(x):
        scratch = torch.empty(x.numel() + 5, dtype=x.dtype)
        scratch[: x.numel()] = x.flatten()
        return (scratch[: x.numel()] * 2).view(x.shape)

    return op("written_where_nan", kernel)


def _weighted(name, weigh):
    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def operator(a: Tensor, b: Tensor) -> Tensor:
        return weigh(a, b)

    operator.register_fake(lambda a, b: a * 1.0 + b * 3.0)
    return operator


@aot((MATRIX, MATRIX), expected={"values.same_tensor": "same-tensor-result"})
def tells_arguments_by_address():
    """Keeps a weight for each argument under its address, which two arguments may share."""

    def weigh(a, b):
        weights = {a.data_ptr(): 1.0, b.data_ptr(): 3.0}
        return a * weights[a.data_ptr()] + b * weights[b.data_ptr()]

    return _weighted("tells_arguments_by_address", weigh)


@aot((MATRIX, MATRIX), twin_of="tells_arguments_by_address")
def tells_arguments_by_place():
    """Keeps a weight for each place."""
    return _weighted("tells_arguments_by_place", lambda a, b: a * 1.0 + b * 3.0)


@aot((MATRIX,), (tensor(4, 3, low=-1, high=0),))
def random_with_a_generator():
    """Correct: draws from a generator that it is given."""
    lib = library()
    lib.define("random_with_a_generator(Tensor x, *, Generator? generator=None) -> Tensor")

    def kernel(x, *, generator=None):
        chosen = torch.Generator().manual_seed(3) if generator is None else generator
        return x + torch.rand(x.shape, dtype=x.dtype, generator=chosen)

    lib.impl("random_with_a_generator", torch.no_grad()(kernel), "CPU")
    torch.library.register_fake(
        "zoo::random_with_a_generator",
        lambda x, *, generator=None: x + x.new_empty(x.shape),
        lib=lib,
    )
    return torch.ops.zoo.random_with_a_generator.default
