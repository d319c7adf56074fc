"""Ops whose fake kernels are right for the example, and wrong beside it at other sizes and dtypes."""

import functools
import math

import torch
from torch import Tensor

from pytest_customop import tensor

from . import registry

# A backend that generates no code tells as much about these, and sooner.
specimen = functools.partial(registry.specimen, backend="aot_eager")
MATRIX = tensor(4, 6)
VECTOR = tensor(6)
SHAPE = {"fake.forward": "fake-shape-mismatch"}
DTYPE = {"fake.forward": "fake-dtype-mismatch"}
STRIDE = {"fake.forward": "fake-stride-mismatch"}
RAISES = {"fake.forward": "fake-raises"}
ORDER = {"relations.permutation": "result-depends-on-order"}
PARTS = {"relations.split": "parts-differ-from-whole"}
MANY = ORDER | PARTS  # many entries give something else than few


def _largest(name, squeezed):
    """The largest element of each row, computed as a column; `squeezed(column)` is returned."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def largest(x: Tensor) -> Tensor:
        if x.dim() != 2:
            raise ValueError("a matrix, please")
        return squeezed(x.amax(1, keepdim=True)).clone()

    largest.register_fake(lambda x: x.new_empty(x.shape[0]))
    return largest


@specimen((MATRIX,), variant_findings=SHAPE, shown_by="one0")
def squeezes_every_dim():
    """Squeezes away the dim of the rows too, where there is one row."""
    return _largest("squeezes_every_dim", torch.squeeze)


@specimen((MATRIX,), twin_of="squeezes_every_dim")
def squeezes_one_dim():
    """Squeezes away the dim that it added."""
    return _largest("squeezes_one_dim", lambda column: column.squeeze(1))


def _row_sums(name, fake):
    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def row_sums(x: Tensor) -> Tensor:
        return x.sum(-1).contiguous()

    row_sums.register_fake(fake)
    return row_sums


@specimen((MATRIX,), variant_notes=SHAPE, shown_by="batch")
def fake_sums_matrices_only():
    """The real kernel takes a batch of matrices, the fake one returns a number a row."""
    return _row_sums("fake_sums_matrices_only", lambda x: x.new_empty(x.shape[0]))


@specimen((MATRIX,), twin_of="fake_sums_matrices_only")
def fake_sums_any_dims():
    """Both kernels take any number of dims before the last."""
    return _row_sums("fake_sums_any_dims", lambda x: x.new_empty(x.shape[:-1]))


def _flat(name, rows_of):
    """The elements row by row; `rows_of(x)` is the fake kernel's number of rows."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def flat(x: Tensor) -> Tensor:
        rows = math.prod(x.shape[:-1])
        return x.reshape(rows, x.shape[-1]).clone(memory_format=torch.contiguous_format)

    flat.register_fake(lambda x: x.new_empty(rows_of(x), x.shape[-1]))
    return flat


@specimen((tensor(2, 3, 4),), variant_findings=RAISES, shown_by="empty2")
def fake_divides_by_a_size():
    """The fake kernel divides by the size of the last dim, which may be 0."""
    return _flat("fake_divides_by_a_size", lambda x: x.numel() // x.shape[-1])


@specimen((tensor(2, 3, 4),), twin_of="fake_divides_by_a_size")
def fake_multiplies_sizes():
    """The fake kernel multiplies the sizes before the last."""
    return _flat("fake_multiplies_sizes", lambda x: math.prod(x.shape[:-1]))


def _product(name, fits, fake):
    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def product(x: Tensor, y: Tensor) -> Tensor:
        if not fits(x, y):
            raise ValueError("tensors that fit each other, please")
        return (x * y).contiguous()

    product.register_fake(fake)
    return product


def _same_dtype(x, y):
    return x.dtype == y.dtype


def _same_shape(x, y):
    return x.shape == y.shape


@specimen((MATRIX, MATRIX), variant_notes=SHAPE, shown_by="x.one0")
def fake_does_not_broadcast():
    """The real kernel broadcasts its first argument, the fake one returns its shape."""
    return _product("fake_does_not_broadcast", _same_dtype, lambda x, y: x.new_empty(x.shape))


@specimen((MATRIX, MATRIX), twin_of="fake_does_not_broadcast")
def fake_broadcasts():
    """Both kernels broadcast."""
    return _product("fake_broadcasts", _same_dtype, lambda x, y: (x * y).contiguous())


@specimen((VECTOR, VECTOR), variant_notes=DTYPE, shown_by="y.float64")
def fake_does_not_promote():
    """The real kernel promotes, the fake one returns the dtype of the first argument."""
    return _product("fake_does_not_promote", _same_shape, lambda x, y: x.new_empty(x.shape))


@specimen((VECTOR, VECTOR), twin_of="fake_does_not_promote")
def fake_promotes():
    """Both kernels promote."""
    fake = lambda x, y: x.new_empty(x.shape, dtype=torch.promote_types(x.dtype, y.dtype))  # noqa: E731
    return _product("fake_promotes", _same_shape, fake)


def _cosine(name, dtype_of):
    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def cosine(x: Tensor) -> Tensor:
        return x.cos()

    cosine.register_fake(lambda x: torch.empty_like(x, dtype=dtype_of(x)))
    return cosine


@specimen((MATRIX,), variant_findings=DTYPE, shown_by="float64")
def fake_is_always_single():
    """The real kernel keeps the dtype, the fake one says float32."""
    return _cosine("fake_is_always_single", lambda x: torch.float32)


@specimen((MATRIX,), twin_of="fake_is_always_single")
def fake_is_of_any_dtype():
    """Both kernels keep the dtype."""
    return _cosine("fake_is_of_any_dtype", lambda x: x.dtype)


def _squashed(name, narrow):
    """A tanh, in double precision if there is a NaN; `narrow(y, dtype)` comes after."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def squashed(x: Tensor) -> Tensor:
        wide = x.double() if bool(x.isnan().any()) else x
        return narrow(wide.tanh(), x.dtype)

    squashed.register_fake(lambda x: torch.empty_like(x))
    return squashed


@specimen(
    (MATRIX,),
    variant_notes={**DTYPE, "compile.static": "compile-output-mismatch"},
    shown_by="nan",
    variant_set="full",
)
def widens_for_nan():
    """Computes in double precision where there is a NaN, and returns that."""
    return _squashed("widens_for_nan", lambda y, dtype: y)


@specimen((MATRIX,), twin_of="widens_for_nan")
def widens_for_nan_and_narrows():
    """Computes in double precision where there is a NaN, and returns the dtype that it was given."""
    return _squashed("widens_for_nan_and_narrows", lambda y, dtype: y.to(dtype))


def _frames(name, length):
    """Frames of two numbers; with `pad`, the last one may be half full. `length(n)` rounds up to it."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def frames(x: Tensor, pad: bool = False) -> Tensor:
        if x.dim() != 1:
            raise ValueError("a vector, please")
        size = (len(x) + 1) // 2 * 2 if pad else len(x) // 2 * 2
        full = x.new_zeros(size)
        full[: min(size, len(x))] = x[:size]
        return full.view(-1, 2)

    def fake(x, pad=False):
        if x.dim() != 1:
            raise ValueError("a vector, please")
        size = length(x.shape[0]) if pad else x.shape[0] // 2 * 2
        return x.new_empty(size // 2, 2)

    frames.register_fake(fake)
    return frames


@specimen((VECTOR,), variant_findings={"fake.symbolic": "fake-not-symbolic"}, shown_by="pad.true")
def fake_looks_a_padded_length_up():
    """Its fake kernel passes the length to a cache, which no symbolic size can be a key of."""
    return _frames("fake_looks_a_padded_length_up", functools.lru_cache(lambda n: (n + 1) // 2 * 2))


@specimen((VECTOR,), twin_of="fake_looks_a_padded_length_up")
def fake_computes_a_padded_length():
    """Computes it."""
    return _frames("fake_computes_a_padded_length", lambda n: (n + 1) // 2 * 2)
