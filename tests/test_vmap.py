"""`vmap.loop`: which batches are tried, and which ops there is nothing to try on."""

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor

from pytest_customop import check_op, tensor
from pytest_customop.cases.arguments import Placement
from pytest_customop.cases.case import Case
from pytest_customop.checks.vmap.loop import check_loop as loop
from pytest_customop.declare import ops
from pytest_customop.declare.inputs import Sample
from pytest_customop.findings import CheckFailed, CheckSkipped

_numbers = itertools.count()
RULES = pytest.mark.skipif(
    not hasattr(torch.library, "register_vmap"), reason="torch has vmap rules from 2.5 on"
)
TWO = "(Tensor x, Tensor y) -> Tensor"


def define(kernel: Any, rule: Any = None, schema: str = TWO, **options: Any) -> str:
    name = f"t_vmap::op_{next(_numbers)}"
    op = torch.library.custom_op(name, kernel, mutates_args=(), schema=schema, **options)
    if rule is not None:
        op.register_vmap(rule)
    return name


def case(name: str, *args: Any, dtype: torch.dtype = torch.float32, **fields: Any) -> Case:
    placement = Placement("cpu", dtype, fields.pop("grad", False), "contiguous")
    return Case(ops.resolve(name), Sample(args, fields.pop("kwargs", {})), placement, **fields)


def skipped(op_case: Case) -> CheckSkipped:
    with pytest.raises(CheckSkipped) as caught:
        loop(op_case)
    return caught.value


def fronted(info: Any, in_dims: Any, *tensors: Tensor) -> list[Tensor]:
    """Every tensor with the batch in front."""
    return [
        tensor.expand(info.batch_size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
        for tensor, dim in zip(tensors, in_dims, strict=True)
    ]


def test_without_a_rule_there_is_nothing_to_run() -> None:
    assert check_op(define(torch.add), [(tensor(3), tensor(3))], checks="vmap") == []


@RULES
@pytest.mark.parametrize("dtype", [torch.float16, torch.int64, torch.bool, torch.complex64])
def test_every_batch_is_tried(dtype: torch.dtype) -> None:
    seen = []

    def rule(info: Any, in_dims: Any, x: Tensor, y: Tensor) -> Any:
        seen.append(in_dims)
        return torch.add(*fronted(info, in_dims, x, y)), 0

    loop(case(define(torch.add, rule), tensor(3, 4), tensor(3, 4), dtype=dtype))
    batched = [(0, 0), (2, 2), (1, 1), (2, 0)]
    assert seen == [*batched, (0, None), (None, 0), (2, None), (None, 2)]


@RULES
def test_lists_keywords_and_several_outputs() -> None:
    def kernel(xs: Any, y: Tensor, *, scale: float) -> Any:
        return [x * scale for x in xs], y.sum() * scale

    def rule(info: Any, in_dims: Any, xs: Any, y: Tensor, *, scale: float) -> Any:
        fronts = fronted(info, in_dims[0], *xs)
        (y,) = fronted(info, in_dims[1:], y)
        return ([x * scale for x in fronts], y.flatten(1).sum(1) * scale), ([0] * len(xs), 0)

    name = define(kernel, rule, "(Tensor[] xs, Tensor y, *, float scale) -> (Tensor[], Tensor)")
    arguments = ([tensor(3), tensor(2, 2)], tensor(4))
    loop(case(name, *arguments, kwargs={"scale": 2.0}))


@RULES
@pytest.mark.parametrize("dim", [0, 1])
def test_the_wrong_output_dim_is_a_finding_with_the_batch_named(dim: int) -> None:
    def rule(info: Any, in_dims: Any, x: Tensor) -> Any:
        return x * 2, dim

    op_case = case(define(lambda x: x * 2, rule, "(Tensor x) -> Tensor"), tensor(3, 3))
    with pytest.raises(CheckFailed) as caught:
        loop(op_case)
    finding = caught.value.finding
    assert finding.code == "vmap-mismatch"
    assert f"under torch.vmap with a batch of x at dim {-1 if dim == 0 else 0}: " in finding.message


@RULES
def test_real_tensors_differ_in_the_batch_too() -> None:
    def rule(info: Any, in_dims: Any, x: Tensor) -> Any:
        x = x.movedim(in_dims[0], 0)
        return x[:1].expand_as(x).clone(), 0  # the first of the batch for all

    op_case = case(define(torch.clone, rule, "(Tensor x) -> Tensor"), torch.arange(6.0))
    with pytest.raises(CheckFailed):
        loop(op_case)


@RULES
def test_gradients_go_through_the_rule() -> None:
    @torch.library.custom_op("t_vmap::double", mutates_args=())
    def double(x: Tensor) -> Tensor:
        return x * 2

    double.register_autograd(lambda ctx, g: g * 2)
    double.register_vmap(lambda info, in_dims, x: (double(x), in_dims[0]))
    loop(case("t_vmap::double", tensor(3, 4), grad=True))


@RULES
def test_what_torch_vmap_cannot_do_is_a_skip() -> None:
    def rule(info: Any, in_dims: Any, x: Tensor) -> Any:
        raise AssertionError("not to be called")

    count = define(lambda x: x.numel(), rule, "(Tensor x) -> int")
    assert skipped(case(count, tensor(3))).code == "checker-limit"
    nothing = define(lambda x: None, rule, "(Tensor x) -> ()")
    assert skipped(case(nothing, tensor(3))).code == "checker-limit"
    hits = define(lambda x: x.nonzero(), rule, "(Tensor x) -> Tensor")
    with pytest.raises(CheckFailed):
        loop(case(hits, tensor(values=[1.0, 0.0])))


@RULES
def test_a_rule_that_rejects_is_believed() -> None:
    def never(info: Any, in_dims: Any, x: Tensor) -> Any:
        raise NotImplementedError("not in a batch")

    skip = skipped(case(define(torch.clone, never, "(Tensor x) -> Tensor"), tensor(3)))
    assert (skip.code, skip.unjudged) == ("vmap-not-implemented", False)
    assert "rejects everything: NotImplementedError: not in a batch" in skip.reason


@RULES
@pytest.mark.parametrize("batched_only", [False, True])
def test_a_backward_that_raises_is_no_mistake_of_the_check(batched_only: bool) -> None:
    name = define(
        lambda x: x * 2,
        lambda info, in_dims, x: (
            (torch.ops.t_vmap_raises.batched(x.clone()), 0) if batched_only else (x * 2, 0)
        ),
        "(Tensor x) -> Tensor",
    )

    def raises(ctx: Any, grad: Tensor) -> Tensor:
        raise RuntimeError("no backward")

    if batched_only:
        library = torch.library.Library("t_vmap_raises", "FRAGMENT")
        library.define("batched(Tensor x) -> Tensor")
        library.impl("batched", lambda x: _Raises.apply(x), "CompositeImplicitAutograd")
        torch.library.register_autograd(name, lambda ctx, grad: grad * 2)
        with pytest.raises(CheckFailed, match=r"the backward of .* no backward") as caught:
            loop(case(name, tensor(3), grad=True))
        assert caught.value.finding.code == "vmap-raises"
        library._destroy()
    else:
        torch.library.register_autograd(name, raises)
        reason = skipped(case(name, tensor(3), grad=True)).reason
        assert "the backward raises without torch.vmap too (RuntimeError: no backward)" in reason


class _Raises(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        raise RuntimeError("no backward")
