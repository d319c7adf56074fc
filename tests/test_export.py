"""`export.roundtrip`: what survives it, and what torch.export itself cannot do."""

import itertools
from typing import Any, Optional, Sequence

import pytest
import torch
from torch import Tensor

from pytest_customop import check_op, tensor
from pytest_customop.cases.arguments import Placement
from pytest_customop.cases.case import Case
from pytest_customop.checks.export.roundtrip import CHECK as roundtrip
from pytest_customop.declare import ops
from pytest_customop.declare.inputs import Sample
from pytest_customop.findings import CheckFailed, CheckSkipped

_numbers = itertools.count()


def case(op: Any, *args: Any, **kwargs: Any) -> Case:
    placement = Placement("cpu", torch.float32, False, "contiguous")
    return Case(ops.resolve(op), Sample(args, kwargs), placement)


def test_it_runs_only_when_asked_for() -> None:
    assert not roundtrip.default
    samples = [Sample(([tensor(3)], 2), {"kind": torch.float64, "word": "a"})]
    results = check_op(mixed, samples, checks="export.roundtrip")
    assert [result.outcome for result in results] == ["passed"]
    assert check_op(mixed, samples, checks="export") == []


@torch.library.custom_op("t_export::mixed", mutates_args=())
def mixed(
    xs: Sequence[Tensor],
    n: int,
    w: Optional[Tensor] = None,
    *,
    scale: float = 9.0,
    kind: torch.dtype,
    word: str,
) -> Tensor:
    total = sum(x.sum() for x in xs) * n
    return (total if w is None else total * w).to(kind).clamp(max=scale)


@mixed.register_fake
def _(xs, n, w=None, *, scale=9.0, kind, word):
    return xs[0].new_empty(() if w is None else w.shape, dtype=kind)


def test_arguments_of_every_kind_survive() -> None:
    two = [tensor(3), tensor(2, 2)]
    roundtrip.run(case(mixed, two, 2, scale=float("inf"), kind=torch.float64, word="a"))
    roundtrip.run(case(mixed, two, -3, tensor(4), scale=0.5, kind=torch.float16, word="b"))


def test_written_arguments_and_sizes_that_depend_on_data() -> None:
    @torch.library.custom_op("t_export::fill", mutates_args={"out"})
    def fill(x: Tensor, out: Tensor) -> Tensor:
        out.copy_(x * 2)
        return x.nonzero().contiguous()

    @fill.register_fake
    def _(x, out):
        rows = torch.library.get_ctx().new_dynamic_size()
        return x.new_empty(rows, x.dim(), dtype=torch.int64)

    roundtrip.run(case(fill, tensor(values=[0.0, 1.0, 2.0]), tensor(3)))


def test_an_exception_of_torch_export_is_a_limit_and_one_of_the_author_a_finding() -> None:
    def define(fake: Any) -> str:
        name = f"t_export::op_{next(_numbers)}"
        op = torch.library.custom_op(
            name, torch.sin, mutates_args=(), schema="(Tensor x) -> Tensor"
        )
        op.register_fake(fake)
        return name

    def raises(x: Tensor) -> Tensor:
        raise LookupError("not while tracing")

    def refuses(x: Tensor) -> Tensor:
        raise NotImplementedError("not while tracing")

    with pytest.raises(CheckFailed) as caught:
        roundtrip.run(case(define(raises), tensor(3)))
    assert "raises LookupError: not while tracing, but works in eager" in str(caught.value)
    with pytest.raises(CheckSkipped, match=r"checker-limit: torch\.export\.export raises"):
        roundtrip.run(case(define(refuses), tensor(3)))


def test_arguments_that_cannot_be_saved_are_a_skip() -> None:
    name = "(Tensor x, Generator? g=None) -> Tensor"
    op = torch.library.custom_op(
        "t_export::noise", lambda x, g=None: x.clone(), mutates_args=(), schema=name
    )
    op.register_fake(lambda x, g=None: torch.empty_like(x))
    roundtrip.run(case(op, tensor(3)))
    with pytest.raises(CheckSkipped, match="argument g is a Generator"):
        roundtrip.run(case(op, tensor(3), g=torch.Generator()))
