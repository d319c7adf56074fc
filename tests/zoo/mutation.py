"""Writes and aliases that the schema does not declare."""

import torch
from torch import Tensor

from pytest_customop import tensor

from .registry import library, specimen

MATRIX = tensor(4, 3)


def _running_mean(name, mutates):
    @torch.library.custom_op(f"zoo::{name}", mutates_args=mutates)
    def center(x: Tensor, mean: Tensor) -> Tensor:
        mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
        return x - mean

    center.register_fake(lambda x, mean: x - mean)
    return center


@specimen(
    (MATRIX, tensor(3)),
    expected={
        "opcheck.test_schema": "undeclared-mutation",
        "values.mutation": "undeclared-mutation",
        "compile.static": "compile-mutation-mismatch",
        "compile.dynamic": "compile-mutation-mismatch",
    },
)
def running_mean_undeclared():
    """Updates a running mean on the way, and declares no mutation."""
    return _running_mean("running_mean_undeclared", ())


@specimen((MATRIX, tensor(3)), twin_of="running_mean_undeclared")
def running_mean():
    """Updates a running mean, and declares it."""
    return _running_mean("running_mean", {"mean"})


def _library_op(name, schema, kernel, fake):
    lib = library()
    lib.define(f"{name}{schema}")
    lib.impl(name, torch.no_grad()(kernel), "CPU")
    torch.library.register_fake(f"zoo::{name}", fake, lib=lib)
    return getattr(torch.ops.zoo, name).default


@specimen(
    (MATRIX,),
    expected={
        "opcheck.test_schema": "undeclared-alias",
        "values.aliasing": "undeclared-alias",
        "fake.forward": "fake-alias-mismatch",
        "opcheck.test_faketensor": "fake-alias-mismatch",
    },
)
def returns_its_input():
    """Returns the input itself where there is nothing to do; the schema promises fresh memory."""
    return _library_op(
        "returns_its_input",
        "(Tensor x) -> Tensor",
        lambda x: x if x.is_contiguous() else x.contiguous(),
        lambda x: x.new_empty(x.shape),
    )


@specimen(
    (MATRIX,),
    expected={
        "opcheck.test_schema": "undeclared-alias",
        "values.aliasing": "undeclared-alias",
        "compile.dynamic": "compile-output-mismatch",
    },
)
def returns_its_input_in_both_kernels():
    """Real and fake kernel return the input itself; the schema promises fresh memory."""
    return _library_op(
        "returns_its_input_in_both_kernels", "(Tensor x) -> Tensor", lambda x: x, lambda x: x
    )


@specimen(
    (tensor(),),
    expected={
        "opcheck.test_schema": "undeclared-alias",
        "values.aliasing": "undeclared-alias",
    },
)
def returns_its_number():
    """The same with one number, where compiled code does not happen to write to it."""
    return _library_op("returns_its_number", "(Tensor x) -> Tensor", lambda x: x, lambda x: x)


@specimen(
    (MATRIX,),
    (tensor(),),
    twin_of=("returns_its_number", "returns_its_input", "returns_its_input_in_both_kernels"),
)
def returns_a_copy():
    """Returns a copy, also where there is nothing to do."""
    return _library_op(
        "returns_a_copy",
        "(Tensor x) -> Tensor",
        lambda x: x.clone(memory_format=torch.contiguous_format),
        lambda x: x.new_empty(x.shape),
    )


def _without_repeats(name, positions_of):
    """The sum of the numbers at some positions, each once; `positions_of(p)` may be sorted in place."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def total(x: Tensor, positions: Tensor) -> Tensor:
        """Adds up x (N,) at positions (P,), in any order and with repeats: each counts once."""
        if x.dim() != 1 or positions.dim() != 1 or positions.dtype != torch.int64:
            raise ValueError("numbers and their positions, please")
        ids = positions_of(positions).numpy()
        ids.sort()
        first = [at == 0 or ids[at] != ids[at - 1] for at in range(len(ids))]
        return x[torch.from_numpy(ids[first])].sum()

    total.register_fake(lambda x, positions: x.new_empty(()))
    return total


SORTED = (tensor(6), torch.tensor([0, 2, 2, 4]))


@specimen(SORTED, requires_grad=[False], expected={"values.mutation": "undeclared-mutation"})
def sorts_positions_in_place():
    """Sorts the positions where they lie; those of the sample are sorted."""
    return _without_repeats("sorts_positions_in_place", lambda positions: positions)


@specimen(SORTED, requires_grad=[False], twin_of="sorts_positions_in_place")
def sorts_a_copy_of_positions():
    """Sorts a copy."""
    return _without_repeats("sorts_a_copy_of_positions", torch.clone)


def _quantiles(name, finish):
    """Quantiles of numbers, where those below 0 count as 0; `finish(numbers)` are the ones to change."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def quantiles(x: Tensor, shares: Tensor) -> Tensor:
        if x.dtype != torch.float64 or shares.dtype != torch.float64 or x.dim() != 1:
            raise TypeError("two lists of float64, please")
        if not bool(((shares >= 0) & (shares <= 1)).all()):
            raise ValueError("shares are from 0 to 1")
        return torch.quantile(finish(x).clamp_(min=0), shares) if x.numel() else shares.clone()

    quantiles.register_fake(lambda x, shares: torch.empty_like(shares))
    return quantiles


SHARES = (
    torch.tensor([0.5, 2.0, 1.5, 4.0], dtype=torch.float64),
    torch.tensor([0.25, 0.5], dtype=torch.float64),
)


@specimen(SHARES, requires_grad=[False], expected={"values.mutation": "undeclared-mutation"})
def clamps_numbers_in_place():
    """Writes 0 over numbers below 0; with other shares below 0 the op raises."""
    return _quantiles("clamps_numbers_in_place", lambda x: x)


@specimen(SHARES, requires_grad=[False], twin_of="clamps_numbers_in_place")
def clamps_a_copy_of_numbers():
    """Copies them first."""
    return _quantiles("clamps_a_copy_of_numbers", torch.clone)
