"""Ops on int64 numbers that pass through dtypes without large ones, and ops with limits on purpose."""

import functools

import numpy
import torch
from torch import Tensor

from pytest_customop import tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager")
LOST = {"relations.large_integers": "large-integers-differ"}
NUMBERS = tensor(12, dtype=torch.int64)


def _of_numbers(name, kernel, dtype=torch.int64, shape=lambda x: x.shape):
    """An op of one row of int64 numbers."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def operator(x: Tensor) -> Tensor:
        if x.dim() != 1 or x.dtype != torch.int64:
            raise ValueError("a row of int64 numbers, please")
        return kernel(x).contiguous()

    operator.register_fake(lambda x: x.new_empty(shape(x), dtype=dtype))
    return operator


@aot((NUMBERS,), expected=LOST)
def ranks_by_float64():
    """The number of smaller ones, by float64: beyond 2**53 neighbours are equal."""

    def kernel(x):
        x = x.double()
        return (x[:, None] > x).sum(1)

    return _of_numbers("ranks_by_float64", kernel)


@aot((NUMBERS,), expected=LOST)
def ranks_by_float32():
    """The same by float32."""

    def kernel(x):
        x = x.float()
        return (x[:, None] > x).sum(1)

    return _of_numbers("ranks_by_float32", kernel)


@aot((NUMBERS,), expected=LOST)
def ranks_by_int32():
    """The same by int32, in which large numbers are small or negative."""

    def kernel(x):
        x = x.numpy().astype(numpy.int32)
        return torch.from_numpy((x[:, None] > x).sum(1))

    return _of_numbers("ranks_by_int32", kernel)


@aot((NUMBERS,), twin_of=("ranks_by_float64", "ranks_by_float32", "ranks_by_int32"))
def ranks_by_int64():
    """Compares the numbers as they are."""
    return _of_numbers("ranks_by_int64", lambda x: (x[:, None] > x).sum(1))


def _of_times(name, kernel):
    """An op of times in nanoseconds."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def gaps(stamps: Tensor) -> Tensor:
        if stamps.dim() != 1 or stamps.dtype != torch.int64:
            raise ValueError("a row of times, please")
        return kernel(stamps) * 1e-9

    gaps.register_fake(lambda stamps: stamps.new_empty(stamps.shape, dtype=torch.float64))
    return gaps


@aot((NUMBERS,), expected=LOST)
def gaps_of_float64_times():
    """Seconds between times in nanoseconds, which are subtracted as float64."""
    return _of_times(
        "gaps_of_float64_times", lambda x: torch.diff(x.double(), prepend=x[:1].double())
    )


@aot((NUMBERS,), twin_of="gaps_of_float64_times")
def gaps_of_int64_times():
    """Subtracts first, then casts."""
    return _of_times("gaps_of_int64_times", lambda x: torch.diff(x, prepend=x[:1]).double())


@aot((NUMBERS,), expected=LOST)
def running_maximum_by_numpy_float64():
    """A running maximum in a buffer that numpy makes: of float64."""

    def kernel(x):
        out = numpy.full(x.shape, -numpy.inf)
        for at, number in enumerate(x.numpy()):
            out[at] = max(number, out[at - 1]) if at else number
        return torch.from_numpy(out.astype(numpy.int64))

    return _of_numbers("running_maximum_by_numpy_float64", kernel)


@aot((NUMBERS,), expected=LOST)
def running_maximum_in_int32():
    """A running maximum that is kept in int32."""
    kernel = lambda x: x.to(torch.int32).cummax(0).values.long()  # noqa: E731
    return _of_numbers("running_maximum_in_int32", kernel)


@aot((NUMBERS,), twin_of=("running_maximum_by_numpy_float64", "running_maximum_in_int32"))
def running_maximum():
    """A running maximum in int64."""
    return _of_numbers("running_maximum", lambda x: x.cummax(0).values)


def _joined(name, kernel):
    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def joined(user_ids: Tensor, known_ids: Tensor) -> Tensor:
        if user_ids.dim() != 1 or known_ids.dim() != 1:
            raise ValueError("two rows of ids, please")
        return kernel(user_ids, known_ids)

    joined.register_fake(
        lambda user_ids, known_ids: user_ids.new_empty(user_ids.shape, dtype=torch.bool)
    )
    return joined


IDS = (torch.tensor([5, 3, 8, 1, 4]), torch.tensor([3, 4, 9]))


@aot(IDS, expected=LOST)
def known_ids_by_float64():
    """Compares ids as float64."""
    return _joined("known_ids_by_float64", lambda a, b: (a.double()[:, None] == b.double()).any(1))


@aot(IDS, twin_of="known_ids_by_float64")
def known_ids():
    """Compares ids as they are."""
    return _joined("known_ids", torch.isin)


# Correct ones that change at large numbers.


@aot((NUMBERS,))
def up_to_a_million():
    """Correct: numbers up to a million."""
    return _of_numbers("up_to_a_million", lambda x: x.clamp(max=10**6))


@aot((NUMBERS,))
def up_to_the_largest_int32():
    """Correct: numbers up to the largest of int32, in which they are stored later on."""
    return _of_numbers("up_to_the_largest_int32", lambda x: x.clamp(-(2**31), 2**31 - 1))


@aot((NUMBERS,))
def large_ones_marked():
    """Correct: whether a number exceeds 2**31."""
    return _of_numbers("large_ones_marked", lambda x: x > 2**31, torch.bool)


@aot((NUMBERS,))
def order_where_small():
    """Correct: the order of numbers, of which those above a billion come last as they are."""
    kernel = lambda x: torch.where(x > 10**9, 2**40, x).argsort(stable=True)  # noqa: E731
    return _of_numbers("order_where_small", kernel)


@aot((NUMBERS,))
def deviations_of_float64():
    """Correct: numbers without their mean, in float64 as the result is."""
    kernel = lambda x: x.double() - x.double().mean()  # noqa: E731
    return _of_numbers("deviations_of_float64", kernel, torch.float64)


@aot((NUMBERS,))
def shares_of_float32():
    """Correct: a softmax of whole numbers in float32, as the result is."""
    kernel = lambda x: x.float().softmax(0)  # noqa: E731
    return _of_numbers("shares_of_float32", kernel, torch.float32)


@aot((NUMBERS,))
def order_of_keys_of_two_parts():
    """Correct: an order by a key of two parts, which has room for numbers below 2**53."""
    kernel = lambda x: (x * 1024 + torch.arange(x.shape[0])).argsort()  # noqa: E731
    return _of_numbers("order_of_keys_of_two_parts", kernel)


@aot((NUMBERS,))
def hash_of_numbers():
    """Correct: a hash of 31 bits, which takes the low ones."""
    kernel = lambda x: (x * 2654435761) & 0x7FFFFFFF  # noqa: E731
    return _of_numbers("hash_of_numbers", kernel)


@aot((tensor(20, 3), torch.tensor([4, 0, 19, 7])))
def rows_by_ids():
    """Correct: ids are positions in a table."""

    @torch.library.custom_op("zoo::rows_by_ids", mutates_args=())
    def rows(table: Tensor, ids: Tensor) -> Tensor:
        return table[ids]

    rows.register_fake(lambda table, ids: table.new_empty(*ids.shape, *table.shape[1:]))
    return rows


@aot((torch.tensor([3, 1, 3, 8, 1]),))
def counted_by_a_table():
    """Correct: how often each number comes, by a table as long as the largest one."""

    def kernel(x):
        if not len(x):
            return x.clone()
        table = torch.zeros(int(x.max()) - int(x.min()) + 1, dtype=torch.int64)
        table.index_add_(0, x - x.min(), torch.ones_like(x))
        return table[x - x.min()]

    return _of_numbers("counted_by_a_table", kernel)


@aot((torch.tensor([3, 1, 4, 8, 9]),))
def marked_in_a_table_from_0():
    """Correct: whether a number comes first, by a table from 0 to the largest one."""

    def kernel(x):
        table = torch.full((max(x.tolist(), default=-1) + 1,), -1)
        for at, number in enumerate(x.tolist()):
            if table[number] < 0:
                table[number] = at
        return table[x] == torch.arange(x.shape[0])

    return _of_numbers("marked_in_a_table_from_0", kernel, torch.bool)


@aot((NUMBERS,))
def evens_first():
    """Correct: even numbers before odd ones."""
    return _of_numbers("evens_first", lambda x: (x % 2).argsort(stable=True))


def _bins(name, dtype):
    """How many edges are not above each number; numbers and edges are compared in `dtype`."""

    def check(x, edges):
        if x.dim() != 1 or edges.dim() != 1 or x.dtype != edges.dtype or x.dtype.is_complex:
            raise ValueError("numbers and edges of one real dtype, please")

    def bins(x: Tensor, edges: Tensor) -> Tensor:
        """The bin of each number.

        x: (N,), floating-point numbers or integers; large integers are fine.
        edges: (B,), increasing edges of the bins, of the dtype of x.
        """
        check(x, edges)
        return (x.to(dtype(x))[:, None] >= edges.to(dtype(x))).sum(1)

    bins = torch.library.custom_op(f"zoo::{name}", bins, mutates_args=())

    @bins.register_fake
    def _(x, edges):
        check(x, edges)
        return x.new_empty(x.shape[0], dtype=torch.int64)

    return bins


NUMBERS_AND_EDGES = (torch.arange(24) * 17 % 100, torch.arange(5, 95, 9))


@aot(NUMBERS_AND_EDGES, expected=LOST)
def bins_by_float32():
    """Compares integers as float32, which rounds large ones to the edges beside them."""
    return _bins("bins_by_float32", lambda x: torch.float32)


@aot(NUMBERS_AND_EDGES, twin_of="bins_by_float32")
def bins_of_the_given_dtype():
    """Compares them as they are."""
    return _bins("bins_of_the_given_dtype", lambda x: x.dtype)
