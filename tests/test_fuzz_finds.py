"""Defects that need two changes at once, or one size or value among many: generated inputs find them.

The quick variants of one plain sample do not. The correct twin of each op stays silent.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch

from pytest_customop import check_op, tensor
from pytest_customop.global_state.preserve import preserved_state

pytest.importorskip("hypothesis")

from tests.zoo.generated import searched
from tests.zoo.plain import plain_mark
from tests.zoo.registry import specimens

Kernel = Callable[..., torch.Tensor]


def blends(right: bool) -> Kernel:
    """Another dtype for a large count and several rows."""

    def kernel(x: torch.Tensor, count: int = 2) -> torch.Tensor:
        out = (x * count).contiguous()
        return out.double() if not right and count > 4 and x.shape[0] > 4 else out

    return kernel


def clips(right: bool) -> Kernel:
    """The bound itself belongs to the other side."""

    def kernel(x: torch.Tensor) -> torch.Tensor:
        inside = x.abs() <= 8 if right else x.abs() < 8
        return torch.where(inside, x, x.sign())

    return kernel


def adds_blocks(right: bool) -> Kernel:
    """Rows after the first block of 32 are left out where the second is not whole."""

    def kernel(x: torch.Tensor) -> torch.Tensor:
        rows = 32 if not right and 32 < len(x) < 64 else len(x)
        return x[:rows].sum(0)

    return kernel


def turns(right: bool) -> Kernel:
    """Other strides for a transposed argument and a scale of 0."""

    def kernel(x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        out = (x * scale).contiguous()
        odd = scale == 0 and not x.is_contiguous() and x.dim() == 2 and not right
        return out.t().contiguous().t() if odd else out

    return kernel


def shares(right: bool) -> Kernel:
    """One row and a shift of 0 give the argument itself."""

    def kernel(x: torch.Tensor, shift: int = 1) -> torch.Tensor:
        same = shift == 0 and x.shape[0] == 1 and not right
        return x.view(x.shape) if same else x + shift

    return kernel


def like(x: torch.Tensor, *rest: Any) -> torch.Tensor:
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


def first_row(x: torch.Tensor) -> torch.Tensor:
    return x.new_empty(x.shape[1:])


SAMPLE = [(tensor(4, 6),)]
DEFECTS = [
    (blends, like, None, "fake.forward", "fake-dtype-mismatch"),
    (clips, like, clips(True), "reference.values", "reference-mismatch"),
    (adds_blocks, first_row, adds_blocks(True), "reference.values", "reference-mismatch"),
    (turns, like, None, "fake.forward", "fake-stride-mismatch"),
    (shares, torch.empty_like, None, "values.aliasing", None),
]


@functools.cache
def op_of(make: Callable[[bool], Kernel], fake: Kernel, right: bool) -> Any:
    """The op; inputs are drawn by its name, which is the same in every run."""
    name = f"{make.__name__}_{'right' if right else 'wrong'}"
    op = torch.library.custom_op(f"of_fuzz::{name}", make(right), mutates_args=())
    op.register_fake(fake)
    return op


def findings(op: Any, check: str, reference: Kernel | None, count: int = 600) -> list[str | None]:
    """What a check fails on generated inputs."""
    mark = {"op": op, "samples": SAMPLE, "reference": reference}
    return [
        failure.finding or failure.message
        for _, result in searched(mark, [check], count)
        for failure in result.failures
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "fake", "reference", "check", "code"),
    DEFECTS,
    ids=[defect[0].__name__ for defect in DEFECTS],
)
def test_generated_inputs_find_what_quick_variants_miss(
    make: Any, fake: Kernel, reference: Kernel | None, check: str, code: str | None
) -> None:
    wrong = op_of(make, fake, right=False)
    with preserved_state():
        results = check_op(wrong, SAMPLE, checks=check, reference=reference)
    assert {result.outcome for result in results} <= {"passed", "skipped"}
    codes = findings(wrong, check, reference)
    assert codes
    assert code is None or codes == [code]
    assert findings(op_of(make, fake, right=True), check, reference) == []


def test_the_size_of_an_optional_tensor_that_is_another_one_is_a_guess() -> None:
    """`bias` of the size of `x` works forward, and not backward: no sample says that it has that size."""
    specimen = specimens()["optional_tensor"]
    samples, options = plain_mark(specimen)
    mark = {"op": specimen.op(), "samples": samples, **options}
    ((_, result),) = searched(mark, ["gradcheck.backward"], 50)
    assert result.accepted
    assert not result.failures
