"""Ops that take another way while they are exported."""

import functools

import torch
from torch import Tensor

from pytest_customop import tensor

from . import registry

EXPORT = {"also": ("export.roundtrip",)}
specimen = functools.partial(registry.specimen, backend="aot_eager", **EXPORT)
since = registry.since
MATRIX = tensor(4, 3)


def _exporting():
    """Whether torch.export is at work; torch 2.4 does not tell."""
    return getattr(torch.compiler, "is_exporting", lambda: False)()


def _of_other_ops(name, kernel):
    """An op that is made of other ops: torch looks through it."""
    lib = registry.library()
    lib.define(f"{name}(Tensor x) -> Tensor")
    lib.impl(name, kernel, "CompositeImplicitAutograd")
    return getattr(torch.ops.zoo, name).default


COMPOSITE = {
    "opcheck.test_schema": "checker-limit",
    "opcheck.test_faketensor": "checker-limit",
}


@specimen(
    (MATRIX,), expected={"export.roundtrip": since("2.6", "export-mismatch")}, skips=COMPOSITE
)
def exports_an_approximation():
    """Made of other ops, and of others while it is exported."""

    def silu(x):
        return torch.relu(x) if _exporting() else x * torch.sigmoid(x)

    return _of_other_ops("exports_an_approximation", silu)


@specimen((MATRIX,), twin_of="exports_an_approximation", skips=COMPOSITE)
def exports_what_it_is():
    """Made of the same ops whether it is exported or not."""
    return _of_other_ops("exports_what_it_is", lambda x: x * torch.sigmoid(x))


def _first_rows(name, rows):
    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def first(x: Tensor) -> Tensor:
        if x.shape[0] < 2:
            raise ValueError("two rows at least")
        return x[:2].clone(memory_format=torch.contiguous_format)

    first.register_fake(lambda x: x.new_empty(rows(), *x.shape[1:]))
    return first


@specimen((MATRIX,), expected={"export.roundtrip": since("2.6", "export-mismatch")})
def exports_another_size():
    """The fake kernel promises other rows while it is exported."""
    return _first_rows("exports_another_size", lambda: 3 if _exporting() else 2)


@specimen((MATRIX,), twin_of="exports_another_size")
def exports_its_size():
    """The fake kernel promises the rows that there are."""
    return _first_rows("exports_its_size", lambda: 2)
