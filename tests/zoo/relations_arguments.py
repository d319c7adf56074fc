"""Ops that give other values for the same positions, dims and numbers said differently."""

import functools
import math
from typing import List

import numpy
import torch
from torch import Tensor

from pytest_customop import tensor

from .registry import library, specimen

aot = functools.partial(specimen, backend="aot_eager")
MATRIX = tensor(4, 6)


def _bytes(x, dtype, count):
    """The first numbers in the memory of a tensor, read as a dtype of numpy."""
    return numpy.frombuffer(x.contiguous().numpy().tobytes(), dtype)[:count]


TABLE = tensor(8, 3)
INDEX = tensor(6, dtype=torch.int64, low=0, high=8)
INDEX_DTYPE = {"relations.index_dtype": "index-dtype-mismatch"}


def _rows(name, positions, backward_positions=None):
    """The rows of a table at some positions; `positions(index, count)` reads them."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def rows(table: Tensor, index: Tensor) -> Tensor:
        if index.dim() != 1:
            raise ValueError("one row of positions, please")
        return table[positions(index, table.shape[0])]

    rows.register_fake(lambda table, index: table.new_empty(index.shape[0], *table.shape[1:]))
    if backward_positions is not None:

        def setup(ctx, inputs, output):
            ctx.save_for_backward(inputs[1])
            ctx.shape = inputs[0].shape

        def backward(ctx, grad):
            at = backward_positions(ctx.saved_tensors[0], ctx.shape[0])
            return grad.new_zeros(ctx.shape).index_put((at,), grad, accumulate=True), None

        rows.register_autograd(backward, setup_context=setup)
    return rows


def _read_as_int64(index, count):
    """The positions, as a kernel reads them that takes all memory for int64 and wraps around."""
    read = _bytes(torch.cat([index, torch.zeros_like(index)]), "int64", index.numel())
    return torch.from_numpy(read.copy()) % max(count, 1)


def _read(index, count):
    return index.to(torch.int64)


@aot((TABLE, INDEX), expected=INDEX_DTYPE)
def reads_all_positions_as_int64():
    """Reads the memory of positions of any dtype as int64."""
    return _rows("reads_all_positions_as_int64", _read_as_int64)


@aot((TABLE, tensor(6, dtype=torch.int32, low=0, high=8)), expected=INDEX_DTYPE)
def reads_all_positions_as_int32():
    """Reads the memory of positions of any dtype as int32: every second one of int64 is 0."""

    def positions(index, count):
        return torch.from_numpy(_bytes(index, "int32", index.numel()).astype("int64"))

    return _rows("reads_all_positions_as_int32", positions)


def _drops_wide(index, count):
    """Positions of which a table for int32 has the first four alone."""
    return index.long().clamp(max=3) if index.dtype == torch.int32 else index


@aot(
    (TABLE, INDEX),
    expected={"relations.index_dtype": "gradient-depends-on-index-dtype"},
)
def gradient_of_int32_positions_in_the_wrong_rows():
    """Adds the gradients of int32 positions to other rows than those of int64."""
    return _rows("gradient_of_int32_positions_in_the_wrong_rows", _read, _drops_wide)


@aot(
    (TABLE, INDEX),
    twin_of=(
        "reads_all_positions_as_int64",
        "reads_all_positions_as_int32",
        "gradient_of_int32_positions_in_the_wrong_rows",
    ),
)
def casts_positions():
    """Casts positions to int64 first."""
    return _rows("casts_positions", _read, _read)


@aot((tensor(6, dtype=torch.int32, low=0, high=900), 16), twin_of="reads_all_positions_as_int32")
def hashes_the_bytes_of_ids():
    """The hash of an id is that of its bytes, as the docstring says: of four zeros fewer in int32."""

    @torch.library.custom_op("zoo::hashes_the_bytes_of_ids", mutates_args=())
    def places(ids: Tensor, num_buckets: int) -> Tensor:
        """A place for the hash of each id: of all bytes that it has in memory."""
        octets = numpy.frombuffer(ids.contiguous().numpy().tobytes(), numpy.uint8)
        mixed = numpy.zeros(ids.numel(), numpy.uint64)
        for octet in octets.reshape(-1, ids.dtype.itemsize).T:
            mixed = (mixed ^ octet) * numpy.uint64(1099511628211)
        return torch.from_numpy((mixed % num_buckets).astype(numpy.int64)).reshape(ids.shape)

    places.register_fake(lambda ids, num_buckets: ids.new_empty(ids.shape, dtype=torch.int64))
    return places


@aot((TABLE, INDEX), twin_of="reads_all_positions_as_int64")
def rejects_other_positions():
    """Reads positions as int64, and rejects other dtypes."""

    def positions(index, count):
        if index.dtype != torch.int64:
            raise TypeError("positions are int64")
        return _read_as_int64(index, count)

    return _rows("rejects_other_positions", positions)


@aot((tensor(6, low=-1, high=1), INDEX))
def positions_or_the_largest_number():
    """Correct: keeps the positions of positive numbers, the others are the largest of the dtype."""

    @torch.library.custom_op("zoo::positions_or_the_largest_number", mutates_args=())
    def kept(x: Tensor, index: Tensor) -> Tensor:
        if x.shape != index.shape:
            raise ValueError("as many positions as numbers, please")
        return torch.where(x > 0, index, torch.iinfo(index.dtype).max).contiguous()

    kept.register_fake(lambda x, index: index.new_empty(index.shape))
    return kept


@aot((tensor(6), tensor(6, dtype=torch.int32, low=0, high=1000)))
def hash_that_wraps():
    """Correct: a hash of whole numbers that wraps in 32 bits on purpose."""

    @torch.library.custom_op("zoo::hash_that_wraps", mutates_args=())
    def hashed(x: Tensor, cells: Tensor) -> Tensor:
        if x.shape != cells.shape:
            raise ValueError("as many cells as numbers, please")
        return (x + ((cells * 73856093) % 16)).contiguous()

    hashed.register_fake(lambda x, cells: x.new_empty(x.shape))
    return hashed


# --------------------------------------------------------------------------------- arguments

FROM_THE_END = {"relations.arguments": "dim-from-the-end-differs"}


def _reduced(name, kernel):
    """A sum over a dim."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def reduced(x: Tensor, dim: int) -> Tensor:
        return kernel(x, dim)

    @reduced.register_fake
    def _(x, dim):
        return kernel(x, dim) if dim < 0 else x.new_empty([*x.shape[:dim], *x.shape[dim + 1 :]])

    return reduced


def _first_for_negative(x, dim):
    """The sum over a dim, and over the first one for each negative dim."""
    return x.sum(max(dim, 0))


@aot((tensor(4, 4), 1), variants=False, expected=FROM_THE_END)
def takes_negative_dims_for_the_first():
    """Takes the first dim for each negative one."""
    return _reduced("takes_negative_dims_for_the_first", _first_for_negative)


@aot((tensor(4, 4), -1), variants=False, expected=FROM_THE_END)
def knows_the_last_dim_alone():
    """Knows -1, and takes each other dim for the first."""
    return _reduced("knows_the_last_dim_alone", lambda x, dim: x.sum(-1 if dim == -1 else 0))


@aot((tensor(4, 4), [1]), variants=False, expected=FROM_THE_END)
def scales_dims_that_it_finds():
    """Scales along the dims in a list, and finds none for a negative one."""

    @torch.library.custom_op("zoo::scales_dims_that_it_finds", mutates_args=())
    def scaled(x: Tensor, dims: List[int]) -> Tensor:
        factor = sum(x.shape[dim] for dim in range(x.dim()) if dim in dims)
        return x * factor

    scaled.register_fake(lambda x, dims: torch.empty_like(x))
    return scaled


def _sum(x, dim):
    return x.sum(dim)


@aot(
    (tensor(4, 4), 1),
    twin_of=("takes_negative_dims_for_the_first", "knows_the_last_dim_alone"),
)
def counts_dims_from_either_end():
    """Takes a dim from either end."""
    return _reduced("counts_dims_from_either_end", _sum)


@aot((tensor(4, 4), 1), twin_of="takes_negative_dims_for_the_first")
def rejects_negative_dims():
    """Rejects negative dims."""

    def kernel(x, dim):
        if dim < 0:
            raise IndexError("a dim from 0 on")
        return x.sum(dim)

    return _reduced("rejects_negative_dims", kernel)


@aot((tensor(4, 4), [1]), twin_of="scales_dims_that_it_finds")
def scales_dims_from_either_end():
    """Scales along the dims in a list, which it counts from the first."""

    @torch.library.custom_op("zoo::scales_dims_from_either_end", mutates_args=())
    def scaled(x: Tensor, dims: List[int]) -> Tensor:
        unique_dims = {dim % x.dim() for dim in dims}
        return x * sum(x.shape[dim] for dim in unique_dims)

    scaled.register_fake(lambda x, dims: torch.empty_like(x))
    return scaled


@aot((tensor(4, 4), 1))
def stacks_at_a_dim():
    """Correct: puts in a new dim, which is one of the output: -1 is the one after the last."""

    @torch.library.custom_op("zoo::stacks_at_a_dim", mutates_args=())
    def stacked(x: Tensor, dim: int) -> Tensor:
        return torch.stack([x, x * 2], dim)

    stacked.register_fake(lambda x, dim: torch.stack([x, x], dim))
    return stacked


@aot((tensor(2, 3, 4), tensor(4), 0))
def dim_of_the_second_tensor():
    """Correct: the dim is one of the second tensor, which has fewer than the first."""

    @torch.library.custom_op("zoo::dim_of_the_second_tensor", mutates_args=())
    def scaled(x: Tensor, weight: Tensor, dim: int) -> Tensor:
        return x * weight.sum(dim)

    scaled.register_fake(lambda x, weight, dim: torch.empty_like(x))
    return scaled


def _decays(name, factor):
    lib = library()
    lib.define(f"{name}(Tensor x, Scalar rate) -> Tensor")
    lib.impl(name, torch.no_grad()(lambda x, rate: x * factor(rate)), "CPU")
    torch.library.register_fake(f"zoo::{name}", lambda x, rate: torch.empty_like(x), lib=lib)
    return getattr(torch.ops.zoo, name).default


@aot(
    (MATRIX, 2),
    variants=False,
    expected={"relations.arguments": "number-type-changes-result"},
)
def divides_whole_numbers():
    """Divides whole numbers as whole numbers: half of 1 is 0."""
    return _decays(
        "divides_whole_numbers", lambda rate: 1 // rate if isinstance(rate, int) else 1 / rate
    )


@aot((MATRIX, 2), (MATRIX, 0.5), twin_of="divides_whole_numbers")
def divides_numbers():
    """Divides all numbers alike."""
    return _decays("divides_numbers", lambda rate: 1 / rate if rate else 0.0)


@aot((tensor(3, 4), 0))
def turns_the_first_numbers():
    """Turns `rot_dim` numbers of each row, all of them for 0: a size, which has no other end."""

    @torch.library.custom_op("zoo::turns_the_first_numbers", mutates_args=())
    def turns(x: Tensor, rot_dim: int = 0) -> Tensor:
        if x.dim() != 2:
            raise ValueError("a matrix, please")
        out = x.clone(memory_format=torch.contiguous_format)
        out[:, : rot_dim or x.shape[1]] *= -1
        return out

    turns.register_fake(lambda x, rot_dim=0: x.new_empty(x.shape))
    return turns


def _ordered_edges(name, key):
    """The order of edges by row and column; `key(row, column, nodes)` is what they are sorted by."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def ordered(edge_index: Tensor, nodes: int) -> Tensor:
        if edge_index.dim() != 2 or len(edge_index) != 2 or nodes < 1:
            raise ValueError("rows and columns of edges, please")
        row, column = edge_index
        return key(row, column, nodes).argsort(stable=True)

    ordered.register_fake(
        lambda edge_index, nodes: edge_index.new_empty(edge_index.shape[1], dtype=torch.int64)
    )
    return ordered


EDGES = tensor(values=[[4, 0, 3, 5, 2], [1, 2, 0, 5, 1]], dtype=torch.int64)


@aot((EDGES, 6), expected=INDEX_DTYPE)
def edges_by_a_key_of_their_dtype():
    """The key of an edge is as narrow as the positions, too narrow for many nodes."""
    return _ordered_edges(
        "edges_by_a_key_of_their_dtype", lambda row, column, nodes: row * nodes + column
    )


@aot((EDGES, 6), twin_of="edges_by_a_key_of_their_dtype")
def edges_by_a_wide_key():
    """The key of an edge has 64 bits."""
    return _ordered_edges(
        "edges_by_a_wide_key", lambda row, column, nodes: row.long() * nodes + column
    )


@aot((EDGES, 6))
def edges_as_one_number():
    """Correct: one number for each edge, in the dtype of the positions, as far as that goes."""

    @torch.library.custom_op("zoo::edges_as_one_number", mutates_args=())
    def numbered(edge_index: Tensor, nodes: int) -> Tensor:
        if edge_index.dim() != 2 or len(edge_index) != 2:
            raise ValueError("rows and columns of edges, please")
        return edge_index[0] * nodes + edge_index[1]

    numbered.register_fake(lambda edge_index, nodes: edge_index.new_empty(edge_index.shape[1]))
    return numbered


def _cells_of_a_grid(name, dtype):
    """The number of each cell, int64; `dtype` is that of the products."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def numbers(coords: Tensor, dims: List[int]) -> Tensor:
        if coords.dim() != 2 or coords.shape[1] != len(dims) or coords.dtype.is_floating_point:
            raise ValueError("as many coordinates as the grid has dims, please")
        coords = coords.to(dtype or coords.dtype)
        number = coords.new_zeros(coords.shape[0])
        for at, size in enumerate(dims):
            number = number * size + coords[:, at]
        return number.clone() if number.dtype == torch.int64 else number.to(torch.int64)

    @numbers.register_fake
    def _(coords, dims):
        if coords.dim() != 2 or coords.shape[1] != len(dims) or coords.dtype.is_floating_point:
            raise ValueError("as many coordinates as the grid has dims, please")
        return coords.new_empty(coords.shape[0], dtype=torch.int64)

    return numbers


CELLS = (tensor(values=[[0, 0, 0], [3, 2, 1], [2, 0, 3]], dtype=torch.int32), [4, 4, 4])
NO_SIZE = {"fake.symbolic": "no-second-size"}  # the listed coordinates may refer to every size


@aot(
    CELLS,
    expected=INDEX_DTYPE,
    notes={"relations.integer_width": "integer-overflow"},
    skips=NO_SIZE,
)
def numbers_of_cells_in_their_dtype():
    """The products are as narrow as the coordinates, and cast to int64 only at the end."""
    return _cells_of_a_grid("numbers_of_cells_in_their_dtype", None)


@aot(CELLS, twin_of="numbers_of_cells_in_their_dtype", skips=NO_SIZE)
def numbers_of_cells_in_64_bits():
    """The products have 64 bits."""
    return _cells_of_a_grid("numbers_of_cells_in_64_bits", torch.int64)


def _weighted_along(name, entries_apart):
    """Weights for the entries of a dim; `entries_apart(shape, dim)` is the distance of two in memory."""

    def check(x, weights, dim):
        fits = -x.dim() <= dim < x.dim() and weights.shape == (x.shape[dim],)
        if not fits or weights.dtype != x.dtype:
            raise ValueError("a weight for each entry of the dim, please")

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def weighted(x: Tensor, weights: Tensor, dim: int) -> Tensor:
        check(x, weights, dim)
        apart = max(entries_apart(x.shape, dim), 1)
        entry = torch.arange(x.numel()) // apart % max(x.shape[dim], 1)
        return (x.reshape(-1) * weights[entry]).reshape(x.shape)

    @weighted.register_fake
    def _(x, weights, dim):
        check(x, weights, dim)
        return x.new_empty(x.shape)

    return weighted


ROW_WEIGHTS = (tensor(4, 6), tensor(4), 0)


@aot(ROW_WEIGHTS, variant_findings=FROM_THE_END, shown_by="dim.-1_of_swapped")
def multiplies_all_sizes_after_the_last():
    """For dim -1, `shape[dim + 1 :]` begins at the first dim."""
    return _weighted_along(
        "multiplies_all_sizes_after_the_last", lambda shape, dim: math.prod(shape[dim + 1 :])
    )


@aot(ROW_WEIGHTS, twin_of="multiplies_all_sizes_after_the_last")
def multiplies_the_sizes_after_a_dim():
    """Counts the dim from the front first."""
    return _weighted_along(
        "multiplies_the_sizes_after_a_dim",
        lambda shape, dim: math.prod(shape[dim % len(shape) + 1 :]),
    )


def _hashed(name, unsigned):
    """A number for each row of keys; `unsigned(keys)` gives their bits in 64."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def hashed(keys: Tensor) -> Tensor:
        """A hash of each row of integers, the same in whichever integer dtype they are stored."""
        if keys.dim() != 2 or keys.dtype not in (torch.int8, torch.int16, torch.int32, torch.int64):
            raise ValueError("rows of signed integers, please")
        found = numpy.full(keys.shape[0], 1469598103934665603, dtype=numpy.uint64)
        for column in unsigned(keys.numpy()).T:
            found = (found ^ column) * numpy.uint64(1099511628211)
        return torch.from_numpy(found.view(numpy.int64))

    hashed.register_fake(lambda keys: keys.new_empty(keys.shape[0], dtype=torch.int64))
    return hashed


KEYS = (tensor(4, 3, dtype=torch.int64, low=-20, high=20),)


@aot(KEYS, expected=INDEX_DTYPE)
def fills_int32_up_with_zeros():
    """Negative integers of 32 bits become large ones of 64."""

    def unsigned(keys):
        narrow = keys.dtype == numpy.int32
        return (keys.view(numpy.uint32) if narrow else keys.astype(numpy.int64)).astype(
            numpy.uint64
        )

    return _hashed("fills_int32_up_with_zeros", unsigned)


@aot(KEYS, twin_of="fills_int32_up_with_zeros")
def keeps_the_sign_of_int32():
    """Negative integers stay so in 64 bits."""
    return _hashed(
        "keeps_the_sign_of_int32",
        lambda keys: keys.astype(numpy.int64).view(numpy.uint64),
    )
