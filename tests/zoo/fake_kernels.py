"""Fake kernels that do not say what the real ones do."""

from typing import List, Sequence, Tuple

import torch
from torch import Tensor

from pytest_customop import tensor

from .registry import library, specimen

MATRIX = tensor(4, 3)


@specimen(
    (MATRIX,),
    expected={
        "fake.forward": "fake-missing",
        "opcheck.test_faketensor": "fake-missing",
        "opcheck.test_aot_dispatch_dynamic": "fake-missing",
        "compile.static": "fake-missing",
        "compile.dynamic": "fake-missing",
    },
)
def no_fake_kernel():
    """There is no fake kernel at all."""

    @torch.library.custom_op("zoo::no_fake_kernel", mutates_args=())
    def double(x: Tensor) -> Tensor:
        return x * 2

    return double


@specimen((MATRIX,), twin_of="no_fake_kernel")
def with_fake_kernel():
    """The least that a correct op needs."""

    @torch.library.custom_op("zoo::with_fake_kernel", mutates_args=())
    def double(x: Tensor) -> Tensor:
        return x * 2

    double.register_fake(lambda x: torch.empty_like(x))
    return double


@specimen(
    (MATRIX, tensor(3, low=1, high=3, dtype=torch.int64)),
    expected={
        "fake.forward": "fake-raises",
        "compile.static": "compile-error",
        "compile.dynamic": "compile-error",
        "opcheck.test_faketensor": "fake-raises",
        "opcheck.test_aot_dispatch_dynamic": "fake-raises",
    },
)
def fake_reads_values():
    """The fake kernel asks a tensor for its values to compute a size."""

    @torch.library.custom_op("zoo::fake_reads_values", mutates_args=())
    def repeat(x: Tensor, times: Tensor) -> Tensor:
        return torch.cat([x] * int(times.sum()))

    @repeat.register_fake
    def _(x, times):
        return x.new_empty(x.shape[0] * int(times.numpy().sum()), *x.shape[1:])

    return repeat


@specimen(
    (MATRIX, tensor(3, low=1, high=3, dtype=torch.int64)),
    twin_of="fake_reads_values",
)
def fake_leaves_values_alone():
    """The size that depends on values is a new symbol in the fake kernel."""

    @torch.library.custom_op("zoo::fake_leaves_values_alone", mutates_args=())
    def repeat(x: Tensor, times: Tensor) -> Tensor:
        return torch.cat([x] * int(times.sum()))

    @repeat.register_fake
    def _(x, times):
        return x.new_empty(torch.library.get_ctx().new_dynamic_size(), *x.shape[1:])

    return repeat


def _column_sums(name, fake):
    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def column_sums(x: Tensor) -> Tensor:
        if x.dim() != 2:
            raise ValueError("a matrix, please")
        return x.sum(0)

    column_sums.register_fake(fake)
    return column_sums


@specimen(
    (MATRIX,),
    expected={
        "fake.forward": "fake-shape-mismatch",
        "compile.static": "compile-output-mismatch",
        "compile.dynamic": "compile-output-mismatch",
        "opcheck.test_faketensor": "fake-shape-mismatch",
    },
)
def fake_sums_the_other_dim():
    """The fake kernel returns one number a row, the real one a number a column."""
    return _column_sums("fake_sums_the_other_dim", lambda x: x.new_empty(x.shape[0]))


@specimen((MATRIX,), twin_of=("fake_sums_the_other_dim", "fake_on_another_device"))
def fake_sums_the_right_dim():
    """One number a column, in both kernels."""
    return _column_sums("fake_sums_the_right_dim", lambda x: x.new_empty(x.shape[1]))


def _without_last(name, count):
    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def without_last(xs: Sequence[Tensor]) -> List[Tensor]:
        return [x.clone() for x in xs[:-1]]

    without_last.register_fake(lambda xs: [torch.empty_like(x) for x in xs[:count]])
    return without_last


@specimen(
    ([MATRIX, MATRIX, MATRIX],),
    expected={
        "fake.forward": "fake-shape-mismatch",
        "compile.static": "compile-output-mismatch",
        "compile.dynamic": "compile-output-mismatch",
        "opcheck.test_faketensor": "fake-shape-mismatch",
        "opcheck.test_aot_dispatch_dynamic": "opcheck-failure",
    },
)
def fake_returns_one_tensor_more():
    """The fake kernel returns a list of three tensors, the real one of two."""
    return _without_last("fake_returns_one_tensor_more", None)


@specimen(([MATRIX, MATRIX, MATRIX],), twin_of="fake_returns_one_tensor_more")
def fake_returns_as_many_tensors():
    """Lists of two tensors, in both kernels."""
    return _without_last("fake_returns_as_many_tensors", -1)


def _ranks(name, fake):
    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def ranks(x: Tensor) -> Tensor:
        return x.argsort(dim=1)

    ranks.register_fake(fake)
    return ranks


@specimen(
    (MATRIX,),
    expected={
        "fake.forward": "fake-dtype-mismatch",
        "compile.static": "compile-output-mismatch",
        "compile.dynamic": "compile-output-mismatch",
        "opcheck.test_faketensor": "fake-dtype-mismatch",
    },
)
def fake_keeps_the_input_dtype():
    """The fake kernel returns the input's dtype, the real one indices."""
    return _ranks("fake_keeps_the_input_dtype", lambda x: torch.empty_like(x))


@specimen((MATRIX,), twin_of="fake_keeps_the_input_dtype")
def fake_returns_indices():
    """Indices in both kernels."""
    return _ranks("fake_returns_indices", lambda x: torch.empty_like(x, dtype=torch.int64))


@specimen(
    (MATRIX,),
    expected={
        "fake.forward": "fake-device-mismatch",
        "compile.static": "compile-output-mismatch",
        "compile.dynamic": "compile-output-mismatch",
        "opcheck.test_faketensor": "fake-device-mismatch",
    },
)
def fake_on_another_device():
    """The fake kernel returns a tensor on the meta device, the real one on the input's."""
    return _column_sums("fake_on_another_device", lambda x: torch.empty(x.shape[1], device="meta"))


def _aligned(name, fake):
    """A copy, which begins 16 elements inside its storage."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def copy(x: Tensor) -> Tensor:
        padded = x.new_zeros(x.numel() + 16)
        padded[16:] = x.flatten()
        return padded[16:].view(x.shape)

    copy.register_fake(fake)
    return copy


@specimen(
    (MATRIX,),
    expected={
        "fake.forward": "fake-metadata-mismatch",
        "opcheck.test_faketensor": "fake-metadata-mismatch",
    },
)
def fake_forgets_the_offset():
    """The real output begins inside its storage, the fake one at its start."""
    return _aligned("fake_forgets_the_offset", lambda x: x.new_empty(x.shape))


@specimen((MATRIX,), twin_of="fake_forgets_the_offset")
def fake_has_the_offset():
    """Real and fake output begin at the same place inside their storage."""
    return _aligned("fake_has_the_offset", lambda x: x.new_empty(x.numel() + 16)[16:].view(x.shape))


def _pair(name, second):
    """Two outputs; a library op, because custom_op looks for such aliases itself on new torches."""
    lib = library()
    lib.define(f"{name}(Tensor x) -> (Tensor, Tensor)")

    @torch.no_grad()
    def kernel(x: Tensor) -> Tuple[Tensor, Tensor]:
        first = x * 2
        return first, second(first)

    lib.impl(name, kernel, "CPU")
    torch.library.register_fake(
        f"zoo::{name}", lambda x: (torch.empty_like(x), torch.empty_like(x)), lib=lib
    )
    return getattr(torch.ops.zoo, name).default


@specimen(
    (MATRIX,),
    expected={
        "fake.forward": "fake-alias-mismatch",
        "values.aliasing": "outputs-share-memory",
        "opcheck.test_schema": "outputs-share-memory",
        "opcheck.test_faketensor": "fake-alias-mismatch",
    },
)
def outputs_share_memory():
    """The two real outputs are one memory, the fake ones two."""
    return _pair("outputs_share_memory", lambda first: first.view(first.shape))


@specimen((MATRIX,), twin_of="outputs_share_memory")
def outputs_of_their_own():
    """Two outputs, each with memory of its own."""
    return _pair("outputs_of_their_own", torch.clone)


def _positives(name, offset):
    """As many elements as are positive; the tag says that sizes depend on values."""
    lib = library()
    lib.define(f"{name}(Tensor x) -> Tensor", tags=(torch.Tag.dynamic_output_shape,))

    @torch.no_grad()
    def kernel(x: Tensor) -> Tensor:
        positives = x[x > 0]
        return torch.cat([positives.new_zeros(16), positives])[16:]

    def fake(x: Tensor) -> Tensor:
        count = torch.library.get_ctx().new_dynamic_size()
        return x.new_empty(count + offset).as_strided((count,), (1,), offset)

    lib.impl(name, kernel, "CPU")
    torch.library.register_fake(f"zoo::{name}", fake, lib=lib)
    return getattr(torch.ops.zoo, name).default


@specimen(
    (MATRIX,),
    expected={"fake.forward": "fake-metadata-mismatch"},
    skips={"opcheck.test_faketensor": "checker-limit"},
)
def dynamic_size_and_a_forgotten_offset():
    """Forgets the offset; the tag for sizes that depend on values makes opcheck look away."""
    return _positives("dynamic_size_and_a_forgotten_offset", 0)


@specimen(
    (MATRIX,),
    skips={"opcheck.test_faketensor": "checker-limit"},
    twin_of="dynamic_size_and_a_forgotten_offset",
)
def dynamic_size_and_the_offset():
    """The fake output begins where the real one does, whatever its size."""
    return _positives("dynamic_size_and_the_offset", 16)
