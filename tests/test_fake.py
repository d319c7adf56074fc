"""The family `fake`: each finding on a broken op, and what a correct op gets in its place."""

import json
import math
import random
import subprocess
import sys
from typing import Any, Callable, Optional

import pytest
import torch
from snapshot import Snapshot
from verdicts import family, finding, skipped

from pytest_customop.cases.arguments import Placement
from pytest_customop.cases.case import Case
from pytest_customop.checks.fake import metadata
from pytest_customop.declare import ops
from pytest_customop.declare.inputs import Sample, tensor
from pytest_customop.declare.layouts import LAYOUTS
from pytest_customop.findings import CheckFailed, CheckSkipped

CHECKS = family("fake")
forward, backward, symbolic = (CHECKS[name] for name in ("forward", "backward", "symbolic"))


def define(
    name: str,
    schema: str,
    real: Callable[..., Any],
    fake: Optional[Callable[..., Any]] = None,
    gradient: Optional[Callable[..., Any]] = None,
    setup: Optional[Callable[..., Any]] = None,
    mutates: tuple = (),
) -> str:
    """Register an op in this module's namespace; returns its name."""
    full = f"t_fake::{name}"
    op = torch.library.custom_op(full, real, mutates_args=mutates, schema=schema)
    if fake is not None:
        op.register_fake(fake)
    if gradient is not None:
        op.register_autograd(gradient, setup_context=setup)
    return full


def case(
    name: str, *args: Any, grad: bool = False, layout: str = "contiguous", **kwargs: Any
) -> Case:
    placement = Placement("cpu", torch.float32, grad, layout)
    return Case(ops.resolve(name), Sample(args, kwargs), placement)


def passes(check: Callable[[Case], None], op_case: Case) -> None:
    assert op_case.eager.error is None, op_case.eager.error
    check(op_case)


X = "(Tensor x) -> Tensor"


def like(x: torch.Tensor, *_: Any) -> torch.Tensor:
    return torch.empty_like(x)


def copy(x: torch.Tensor, *_: Any) -> torch.Tensor:
    return x.clone()


# ------------------------------------------------------------------------------------------ forward

define("right", X, copy, like)
define("missing", X, copy)
define("raises", X, copy, lambda x: x.numpy() and like(x))
define("reads_values", X, copy, lambda x: like(x if x.sum() > 0 else x.abs()))
define("shape", X, copy, lambda x: x.new_empty(x.shape[0], x.shape[1] + 1))
define("rank", X, copy, lambda x: x.new_empty(x.shape[0], x.shape[1], 1))
define("stride", X, lambda x: _columns(x), lambda x: x.new_empty(x.shape))
define("dtype", X, copy, lambda x: torch.empty_like(x, dtype=torch.float64))
define("device", X, copy, lambda x: torch.empty_like(x, device="meta"))
define("offset", X, lambda x: x.new_zeros(x.numel() + 3)[3:].view(x.shape), like)
define(
    "offset_too",
    X,
    lambda x: x.new_zeros(x.numel() + 3)[3:].view(x.shape),
    lambda x: x.new_empty(x.numel() + 3)[3:].view(x.shape),
)
_kept = torch.zeros(3, 4)
define("real_tensor", X, copy, lambda x: _kept)

TWO = "(Tensor x) -> (Tensor, Tensor)"
define("list_length", "(Tensor x) -> Tensor[]", lambda x: [x + 1, x + 2], lambda x: [like(x)])
define("number", "(Tensor x) -> (Tensor, SymInt)", lambda x: (x.clone(), 3), lambda x: (like(x), 4))
define(
    "number_too",
    "(Tensor x) -> (Tensor, SymInt)",
    lambda x: (x.clone(), x.shape[0]),
    lambda x: (like(x), x.shape[0]),
)
define("second_wrong", TWO, lambda x: (x + 1, x.t().contiguous()), lambda x: (like(x), like(x).t()))


def _columns(x: torch.Tensor) -> torch.Tensor:
    return x.new_empty(x.shape[1], x.shape[0]).t().copy_(x)


def _halves(x: torch.Tensor) -> tuple:
    buffer = x.new_empty(2 * x.numel())
    return buffer[: x.numel()].view(x.shape), buffer[x.numel() :].view(x.shape)


LIBRARY = torch.library.Library("t_fake_lib", "DEF")
LIBRARY.define("alias(Tensor x) -> Tensor")
LIBRARY.impl("alias", lambda x: torch.from_numpy(x.detach().numpy()), "CPU")
LIBRARY.impl("alias", like, "Meta")
LIBRARY.define("view(Tensor(a) x) -> Tensor(a)")
LIBRARY.impl("view", lambda x: torch.ops.aten.alias(x[1:]), "CPU")
LIBRARY.impl("view", lambda x: torch.ops.aten.alias(x[1:]), "Meta")
for _name, _fake in (("one_buffer", lambda x: (like(x), like(x))), ("one_buffer_too", _halves)):
    LIBRARY.define(f"{_name}(Tensor x) -> (Tensor, Tensor)")
    LIBRARY.impl(_name, _halves, "CPU")
    LIBRARY.impl(_name, _fake, "Meta")
for _name, _fake in (("sparse_out", lambda x: like(x).to_sparse()), ("layout", like)):
    LIBRARY.define(f"{_name}(Tensor x) -> Tensor")
    LIBRARY.impl(_name, lambda x: x.to_sparse(), "CPU")
    torch.library.register_fake(f"t_fake_lib::{_name}", _fake, lib=LIBRARY)
LIBRARY.define("missing(Tensor x) -> Tensor")
LIBRARY.impl("missing", copy, "CPU")
LIBRARY.define("composite(Tensor x) -> Tensor")
LIBRARY.impl("composite", lambda x: x.sin() * 2, "CompositeImplicitAutograd")
LIBRARY.define("composite_missing(Tensor x) -> Tensor")
LIBRARY.impl(
    "composite_missing",
    lambda x: torch.ops.t_fake_lib.missing(x) * 2,
    "CompositeImplicitAutograd",
)
LIBRARY.define("write_(Tensor(a!) x) -> ()")
LIBRARY.impl("write_", lambda x: None, "CPU")


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("missing", "fake-missing"),
        ("raises", "fake-raises"),
        ("reads_values", "fake-raises"),
        ("shape", "fake-shape-mismatch"),
        ("rank", "fake-shape-mismatch"),
        ("stride", "fake-stride-mismatch"),
        ("dtype", "fake-dtype-mismatch"),
        ("device", "fake-device-mismatch"),
        ("offset", "fake-metadata-mismatch"),
        ("real_tensor", "fake-metadata-mismatch"),
        ("list_length", "fake-shape-mismatch"),
        ("number", "fake-metadata-mismatch"),
        ("second_wrong", "fake-stride-mismatch"),
    ],
)
def test_forward_finds(name: str, code: str, snapshot: Snapshot) -> None:
    failure = finding(forward, case(f"t_fake::{name}", tensor(3, 4)))
    assert failure.code == code
    assert "\n" not in failure.message
    snapshot.message(failure.message)


def test_forward_finds_memory_that_only_the_real_kernel_shares(snapshot: Snapshot) -> None:
    failure = finding(forward, case("t_fake_lib::alias", tensor(3, 4)))
    assert failure.code == "fake-alias-mismatch"
    snapshot([failure.message, "", failure.evidence], "with an argument")
    failure = finding(forward, case("t_fake_lib::one_buffer", tensor(3, 4)))
    snapshot([failure.message, "", failure.evidence], "with each other")


def test_forward_compares_layouts(snapshot: Snapshot) -> None:
    failure = finding(forward, case("t_fake_lib::layout", tensor(3, 4)))
    assert failure.code == "fake-metadata-mismatch"
    snapshot(failure.message)


def test_a_meta_kernel_that_raises_is_not_a_missing_one(snapshot: Snapshot) -> None:
    lib = torch.library.Library("t_fake_lib", "FRAGMENT")
    lib.define("meta_raises(Tensor x) -> Tensor")
    lib.impl("meta_raises", copy, "CPU")
    lib.impl("meta_raises", lambda x: x.to_sparse(), "Meta")
    failure = finding(forward, case("t_fake_lib::meta_raises", tensor(3, 4)))
    assert failure.code == "fake-raises"
    snapshot.message(failure.message)


def test_forward_names_the_nested_op_that_has_no_fake_kernel(snapshot: Snapshot) -> None:
    failure = finding(forward, case("t_fake_lib::composite_missing", tensor(3, 4)))
    assert failure.code == "fake-missing"
    snapshot(failure.message)
    assert finding(forward, case("t_fake_lib::missing", tensor(3))).code == "fake-missing"


def test_forward_prints_every_output_with_the_wrong_rows_marked(snapshot: Snapshot) -> None:
    failure = finding(forward, case("t_fake::second_wrong", tensor(3, 4)))
    snapshot(failure.evidence)  # the output that is wrong comes first


def test_the_traceback_of_a_fake_kernel_shows_the_authors_line() -> None:
    failure = finding(forward, case("t_fake::raises", tensor(3, 4)))
    assert "test_fake.py" in failure.evidence
    assert "site-packages/torch" not in failure.evidence


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (1, 4), (3, 4), (2, 3, 4, 5)])
def test_forward_passes_on_every_layout(shape: tuple, layout: str, grad: bool) -> None:
    passes(forward, case("t_fake::right", tensor(*shape), layout=layout, grad=grad))


@pytest.mark.parametrize(
    "name",
    [
        "t_fake::offset_too",
        "t_fake_lib::one_buffer_too",
        "t_fake::number_too",
        "t_fake_lib::sparse_out",
        "t_fake_lib::view",
        "t_fake_lib::composite",
        "t_fake_lib::write_",
    ],
)
def test_forward_passes(name: str) -> None:
    passes(forward, case(name, tensor(3, 4)))


def test_forward_ignores_strides_without_meaning() -> None:
    passes(forward, case("t_fake::stride", tensor(1, 4)))
    passes(forward, case("t_fake::stride", tensor(0, 4)))


@pytest.mark.parametrize("dtype", [torch.int32, torch.bool, torch.complex64, torch.float8_e4m3fn])
def test_forward_passes_on_dtypes(dtype: torch.dtype) -> None:
    passes(forward, case("t_fake::right", tensor(3, 4, dtype=dtype)))


def test_forward_passes_on_conjugated_and_shared_inputs() -> None:
    x = torch.randn(3, 4, dtype=torch.complex64)
    passes(forward, case("t_fake::right", x.conj()))
    base = torch.randn(6)
    define("add", "(Tensor x, Tensor y) -> Tensor", lambda x, y: x + y, lambda x, y: x + y)
    passes(forward, case("t_fake::add", base[1:4], base[2:5]))


def _count(x: torch.Tensor, low: int) -> torch.Tensor:
    return x.new_empty(torch.library.get_ctx().new_dynamic_size(min=low), 2)


define("dynamic", X, lambda x: x.new_zeros(int((x > 0).sum()), 2), lambda x: _count(x, 0))
define("dynamic_low", X, lambda x: x.new_zeros(int((x > 0).sum()), 2), lambda x: _count(x, 5))
define(
    "dynamic_both",
    TWO,
    lambda x: (x.new_zeros(2, 3), x.new_zeros(3)),
    lambda x: _twice(x, lambda n: (x.new_empty(n, 3), x.new_empty(n))),
)
define(
    "dynamic_stride",
    X,
    lambda x: x.new_zeros(2, int((x > 0).sum())).t(),
    lambda x: _count(x, 0),
)


def _twice(x: torch.Tensor, build: Callable[..., Any]) -> Any:
    return build(torch.library.get_ctx().new_dynamic_size())


def test_a_data_dependent_size_matches_any_real_size_in_its_range(snapshot: Snapshot) -> None:
    for high in (1.0, -0.5):  # some positive, none
        passes(forward, case("t_fake::dynamic", tensor(8, low=-1, high=high)))
    failure = finding(forward, case("t_fake::dynamic_low", tensor(values=[1.0, 1.0])))
    assert failure.code == "fake-shape-mismatch"
    snapshot(failure.message)
    passes(forward, case("t_fake::dynamic_low", tensor(8, fill=1.0)))


def test_one_data_dependent_size_is_one_size(snapshot: Snapshot) -> None:
    failure = finding(forward, case("t_fake::dynamic_both", tensor(4)))
    assert failure.code == "fake-shape-mismatch"
    snapshot(failure.message)


def test_strides_of_a_data_dependent_size(snapshot: Snapshot) -> None:
    failure = finding(forward, case("t_fake::dynamic_stride", tensor(8, fill=1.0)))
    assert failure.code == "fake-stride-mismatch"
    snapshot(failure.message)


def test_forward_compares_requires_grad(snapshot: Snapshot) -> None:
    lib = torch.library.Library("t_fake_lib", "FRAGMENT")
    lib.define("detaches(Tensor x) -> Tensor")

    def either(x: torch.Tensor) -> torch.Tensor:
        fake = type(x).__name__ == "FakeTensor"
        return torch.empty_like(x.detach()) if fake else x * 2

    lib.impl("detaches", either, "CompositeImplicitAutograd")
    failure = finding(forward, case("t_fake_lib::detaches", tensor(3), grad=True))
    assert failure.code == "fake-metadata-mismatch"
    snapshot(failure.message)
    passes(forward, case("t_fake_lib::detaches", tensor(3)))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_forward_cannot_fake_quantised_tensors() -> None:
    lib = torch.library.Library("t_fake_lib", "FRAGMENT")
    lib.define("quantise(Tensor x) -> Tensor")
    lib.impl("quantise", lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8), "CPU")
    lib.define("dequantise(Tensor x) -> Tensor")
    lib.impl("dequantise", lambda x: x.dequantize(), "QuantizedCPU")
    quantised = torch.quantize_per_tensor(torch.randn(3), 0.1, 0, torch.qint8)
    for op_case in (
        case("t_fake_lib::quantise", tensor(3)),
        case("t_fake_lib::dequantise", quantised),
    ):
        limit = skipped(forward, op_case)
        assert limit.code == "checker-limit"
        assert limit.unjudged


# ----------------------------------------------------------------------------------------- backward


def _save(ctx: Any, inputs: tuple, output: Any) -> None:
    ctx.save_for_backward(inputs[0])


define("by_aten", X, copy, like, lambda ctx, grad: grad * 2)
define("by_right", X, copy, like, lambda ctx, grad: torch.ops.t_fake.right(grad))
define("by_stride", X, copy, like, lambda ctx, grad: torch.ops.t_fake.stride(grad))
define("by_missing", X, copy, like, lambda ctx, grad: torch.ops.t_fake.missing(grad))
define("by_error", X, copy, like, lambda ctx, grad: grad.no_such_thing())
define("by_item", X, copy, like, lambda ctx, grad: grad * grad.max().item())
define("by_branch", X, copy, like, lambda ctx, grad: grad * 2 if grad.max() > 9 else grad)
define("write", "(Tensor(a!) x) -> ()", lambda x: _double(x), mutates=("x",))


def _double(x: torch.Tensor) -> None:
    x.mul_(2)


def _through_write(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
    copied = grad.clone()
    torch.ops.t_fake.write(copied)
    return torch.ops.t_fake.right(copied.t()).t()


define("by_write", X, copy, like, _through_write)
define(
    "not_differentiable", X, lambda x: x.long(), lambda x: like(x).long(), lambda ctx, grad: None
)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("by_stride", "fake-stride-mismatch"),
        ("by_missing", "fake-missing"),
        ("by_error", "backward-raises"),
        ("by_item", "fake-raises"),
        ("by_branch", "fake-raises"),
    ],
)
def test_backward_finds(name: str, code: str, snapshot: Snapshot) -> None:
    failure = finding(backward, case(f"t_fake::{name}", tensor(3, 4), grad=True))
    assert failure.code == code
    snapshot.message(failure.message)


def test_backward_prints_the_table_of_the_op_called(snapshot: Snapshot) -> None:
    failure = finding(backward, case("t_fake::by_stride", tensor(3, 4), grad=True))
    snapshot(failure.evidence)


def test_backward_passes() -> None:
    for name in ("by_right", "by_write"):
        passes(backward, case(f"t_fake::{name}", tensor(3, 4), grad=True))


def test_backward_with_nothing_to_compare() -> None:
    only_aten = skipped(backward, case("t_fake::by_aten", tensor(3, 4), grad=True))
    assert (only_aten.code, only_aten.unjudged) == ("nothing-to-check", False)
    assert "aten ops only" in only_aten.reason
    nothing = skipped(backward, case("t_fake::not_differentiable", tensor(3, 4), grad=True))
    assert (nothing.code, nothing.unjudged) == ("nothing-to-check", False)


def test_backward_compares_with_the_arguments_as_they_were() -> None:
    """The op called gets a transposed gradient: its fake is right on a contiguous one only."""
    define(
        "keeps",
        X,
        lambda x: x.clone(memory_format=torch.preserve_format),
        lambda x: x.new_empty(x.shape),
    )
    define("by_keeps", X, copy, like, lambda ctx, grad: torch.ops.t_fake.keeps(grad.t()).t())
    passes(forward, case("t_fake::keeps", tensor(3, 4)))
    failure = finding(backward, case("t_fake::by_keeps", tensor(3, 4), grad=True))
    assert failure.code == "fake-stride-mismatch"
    assert "t_fake::keeps" in failure.message


# ----------------------------------------------------------------------------------------- symbolic

define("int_size", X, copy, lambda x: x.new_empty(int(x.shape[0]), x.shape[1]))
define("loops", X, copy, lambda x: x.new_empty(sum(1 for _ in range(x.shape[0])), x.shape[1]))
define("fixed_rows", X, copy, lambda x: x.new_empty(3, x.shape[1]))
define(
    "hint",
    X,
    copy,
    lambda x: x.new_empty([getattr(getattr(s, "node", None), "hint", s) for s in x.shape]),
)
define("int_numel", X, lambda x: x.flatten().clone(), lambda x: x.new_empty(int(x.numel())))
define("int_float", X, lambda x: x.new_zeros(int(x.shape[0] * 1.5)), lambda x: _halfway(x))
define(
    "half",
    X,
    lambda x: x.new_zeros(3 * x.shape[0] // 2),
    lambda x: x.new_empty(3 * x.shape[0] // 2),
)
define("text", X, copy, lambda x: _needs(str(x.shape[0]).isdigit()) or like(x))
define("none", X, copy, lambda x: like(x) if str(x.shape[0]).isdigit() else None)
define(
    "ceil",
    X,
    lambda x: x.new_zeros(math.ceil(x.shape[0] / 2)),
    lambda x: x.new_empty((x.shape[0] + 1) // 2),
)
define(
    "one_block",
    X,
    lambda x: x.clone(),
    lambda x: like(x) if x.shape[0] // 8 == 1 else torch.empty_like(x),
)
define("only_3", X, copy, lambda x: _needs(x.shape[0] == 3) or like(x))
define(
    "needs_3",
    X,
    lambda x: _needs(x.shape[0] == 3) or x.clone(),
    lambda x: _needs(x.shape[0] == 3) or like(x),
)
define(
    "needs_8",
    X,
    lambda x: _needs(x.shape[0] % 8 == 0) or x.clone(),
    lambda x: _needs(x.shape[0] % 8 == 0) or like(x),
)
define("parity", X, copy, lambda x: x.new_empty(x.shape) if x.shape[0] % 2 else like(x))
define("at_most", X, copy, lambda x: torch._check(x.shape[0] <= 1000) or like(x))
define("by_numel", X, lambda x: x.flatten().clone(), lambda x: x.new_empty(x.numel()))
define(
    "matmul",
    "(Tensor x, Tensor y) -> Tensor",
    lambda x, y: x @ y,
    lambda x, y: _needs(x.shape[1] == y.shape[0]) or x.new_empty(x.shape[0], y.shape[1]),
)
define(
    "sums",
    "(Tensor x, Tensor y) -> Tensor",
    lambda x, y: x + y,
    lambda x, y: torch.empty_like(x + y),
)
define("exact", X, lambda x: _needs(x.shape == (2, 3, 4)) or x.clone(), like)
define("wrong_dim", X, lambda x: x.new_zeros(x.shape[0]), lambda x: x.new_empty(x.shape[1]))
define(
    "reshape",
    "(Tensor x, SymInt[] shape) -> Tensor",
    lambda x, shape: x.reshape(shape).clone(),
    lambda x, shape: x.new_empty(shape),
)
define(
    "first",
    "(Tensor x, SymInt n) -> Tensor",
    lambda x, n: _needs(x.shape[0] == n) or x.clone(),
    lambda x, n: _needs(x.shape[0] == n) or like(x),
)
define(
    "first_lenient",
    "(Tensor x, SymInt n) -> Tensor",
    lambda x, n: x[:n].clone(),
    lambda x, n: _needs(x.shape[0] == n) or like(x),
)
define(
    "unbind",
    "(Tensor x) -> Tensor[]",
    lambda x: [r.clone() for r in x],
    lambda x: [like(r) for r in x],
)
define(
    "count",
    "(Tensor x) -> (Tensor, SymInt)",
    lambda x: (x.clone(), x.shape[0]),
    lambda x: (like(x), 3),
)
define("rows_contiguous", X, lambda x: x.contiguous().clone(), lambda x: x.new_empty(x.shape))
define(
    "stride_64",
    X,
    lambda x: x.new_empty_strided(x.shape, (x.shape[1] + 2, 1)).copy_(x),
    lambda x: x.new_empty_strided(x.shape, (6, 1)),
)
define(
    "setup_int",
    X,
    copy,
    like,
    lambda ctx, g: g * ctx.n,
    lambda ctx, inputs, output: _setup(ctx, inputs),
)
define("by_int_size", X, copy, like, lambda ctx, grad: torch.ops.t_fake.int_size(grad))
define("by_fixed_rows", X, copy, like, lambda ctx, grad: torch.ops.t_fake.fixed_rows(grad))
define("by_text", X, copy, like, lambda ctx, grad: torch.ops.t_fake.text(grad))


def _needs(condition: bool) -> None:
    if not condition:
        raise ValueError("no such size")


def _halfway(x: torch.Tensor) -> torch.Tensor:
    return x.new_empty(int(x.shape[0] * 1.5))


def _setup(ctx: Any, inputs: tuple) -> None:
    ctx.n = int(inputs[0].shape[0])


@pytest.mark.parametrize("name", ["int_size", "loops", "int_numel", "int_float"])
def test_symbolic_finds_a_specialized_size(name: str, snapshot: Snapshot) -> None:
    failure = finding(symbolic, case(f"t_fake::{name}", tensor(3, 4)))
    assert failure.code == "fake-size-specialized", failure
    assert "test_fake.py:" in failure.message  # the line of the fake kernel
    snapshot(failure.message)
    assert "works too: x (4, " in failure.evidence or "works too: x (3, " in failure.evidence


def test_symbolic_finds_an_int_in_setup_context() -> None:
    failure = finding(symbolic, case("t_fake::setup_int", tensor(3, 4), grad=True))
    assert failure.code == "fake-size-specialized", failure
    assert "in _setup: ctx.n = int(" in failure.message


@pytest.mark.parametrize("name", ["fixed_rows", "hint", "only_3", "stride_64", "count"])
def test_symbolic_finds_what_is_wrong_at_other_sizes(name: str, snapshot: Snapshot) -> None:
    failure = finding(symbolic, case(f"t_fake::{name}", tensor(3, 4)))
    codes = {"stride_64": "fake-stride-mismatch", "count": "fake-metadata-mismatch"}
    assert failure.code == codes.get(name, "fake-size-hardcoded")
    snapshot(failure.message)


def test_symbolic_finds_the_wrong_one_of_equal_sizes(snapshot: Snapshot) -> None:
    passes(forward, case("t_fake::wrong_dim", tensor(4, 4)))
    failure = finding(symbolic, case("t_fake::wrong_dim", tensor(4, 4)))
    assert failure.code == "fake-shape-mismatch"
    snapshot(failure.message)


def test_symbolic_finds_what_works_on_plain_sizes_only(snapshot: Snapshot) -> None:
    for name in ("text", "none"):
        failure = finding(symbolic, case(f"t_fake::{name}", tensor(3, 4)))
        assert failure.code == "fake-not-symbolic"
        assert name == "none" or "test_fake.py" in failure.evidence
        snapshot.message(failure.message, name)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("by_int_size", "fake-size-specialized"),
        ("by_fixed_rows", "fake-size-hardcoded"),
        ("by_text", "fake-not-symbolic"),
    ],
)
def test_symbolic_follows_the_backward(name: str, code: str, snapshot: Snapshot) -> None:
    failure = finding(symbolic, case(f"t_fake::{name}", tensor(3, 4), grad=True))
    assert failure.code == code
    snapshot.message(failure.message)
    passes(symbolic, case(f"t_fake::{name}", tensor(3, 4)))


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("right", (tensor(3, 4),)),
        ("needs_3", (tensor(3, 4),)),
        ("needs_3", (tensor(3, 3),)),
        ("needs_8", (tensor(16, 4),)),
        ("parity", (tensor(3, 4),)),
        ("parity", (tensor(4, 4),)),
        ("at_most", (tensor(3, 4),)),
        ("by_numel", (tensor(3, 4),)),
        ("half", (tensor(3),)),
        ("ceil", (tensor(5),)),
        ("one_block", (tensor(9),)),
        ("matmul", (tensor(3, 4), tensor(4, 5))),
        ("matmul", (tensor(4, 4), tensor(4, 4))),
        ("sums", (tensor(3, 4), tensor(3, 4))),
        ("sums", (tensor(3, 4), tensor(4))),
        ("sums", (tensor(3, 1), tensor(1, 4))),
        ("reshape", (tensor(3, 4), [4, 3])),
        ("reshape", (tensor(2, 3, 4), [6, 4])),
        ("reshape", (tensor(2, 3, 4), [2, 12])),
        ("first", (tensor(3, 4), 3)),
        ("first_lenient", (tensor(3, 4), 3)),
        ("unbind", (tensor(3, 4),)),
        ("dynamic", (tensor(8),)),
        ("number_too", (tensor(3, 4),)),
        ("write", (tensor(3, 4),)),
        ("write", (torch.zeros(3, 4),)),
    ],
)
def test_symbolic_passes(name: str, args: tuple) -> None:
    passes(symbolic, case(f"t_fake::{name}", *args))


def test_symbolic_changes_all_but_the_size_that_is_needed() -> None:
    """A size that must be 3 does not hide a hard-coded one."""
    define(
        "needs_3_fixes_4",
        X,
        lambda x: _needs(x.shape[0] == 3) or x.clone(),
        lambda x: _needs(x.shape[0] == 3) or x.new_empty(x.shape[0], 4),
    )
    failure = finding(symbolic, case("t_fake::needs_3_fixes_4", tensor(3, 4)))
    assert failure.code == "fake-size-hardcoded"
    assert "fake shape (3, 4), real (3, 5)" in failure.message


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("grad", [False, True])
def test_symbolic_passes_on_every_layout(layout: str, grad: bool) -> None:
    for name in ("t_fake::rows_contiguous", "t_fake::by_right"):
        passes(symbolic, case(name, tensor(2, 3, 4, 5), layout=layout, grad=grad and "by" in name))
    passes(symbolic, case("t_fake::sums", tensor(3, 4), tensor(3, 4), layout=layout))


def test_symbolic_without_other_sizes(snapshot: Snapshot) -> None:
    numbers = torch.randperm(12).reshape(3, 4)
    real = skipped(symbolic, case("t_fake::right", numbers))
    assert (real.code, real.unjudged) == ("no-second-size", True)
    snapshot(real.reason, "of whole numbers")
    constant = skipped(symbolic, case("t_fake::int_size", numbers))
    assert constant.code == "no-second-size"
    snapshot(constant.reason, "of a constant")
    nothing = skipped(symbolic, case("t_fake::right", tensor(1, 0)))
    assert (nothing.code, nothing.unjudged) == ("nothing-to-check", False)
    refused = skipped(symbolic, case("t_fake::exact", tensor(2, 3, 4)))
    assert refused.code == "no-second-size"
    snapshot(refused.reason, "rejected")


def test_hard_evidence_needs_no_other_size() -> None:
    assert finding(symbolic, case("t_fake::text", torch.randn(3, 4))).code == "fake-not-symbolic"


def test_symbolic_leaves_to_forward_what_is_wrong_already() -> None:
    assert "fake.forward" in skipped(symbolic, case("t_fake::missing", tensor(3, 4))).reason
    passes(symbolic, case("t_fake::stride", tensor(3, 4)))


# torch's own ops as fake kernels: with them, only torch decides what becomes a constant.
RESIZES = {
    "pad": lambda x: torch.nn.functional.pad(x, (1, 2)),
    "interpolate": lambda x: torch.nn.functional.interpolate(x, scale_factor=2.0),
    "bilinear": lambda x: torch.nn.functional.interpolate(x, scale_factor=1.5, mode="bilinear"),
    "convolution": lambda x: torch.nn.functional.conv2d(x, x.new_ones(5, 3, 3, 3), padding=1),
    "pool": lambda x: torch.nn.functional.max_pool2d(x, 2),
    "matmul_t": lambda x: x @ x.transpose(-1, -2),
    "unfold": lambda x: x.unfold(3, 2, 1).contiguous(),
    "blocks": lambda x: x.new_zeros((x.shape[-1] + 7) // 8 if (x.shape[-1] + 7) // 8 > 1 else 1),
}


@pytest.mark.parametrize("name", RESIZES)
@pytest.mark.parametrize("layout", ["contiguous", "channels_last", "row_padded"])
def test_symbolic_passes_where_torchs_ops_do(name: str, layout: str) -> None:
    full = f"t_fake::torchs_{name}"
    if f"torchs_{name}" not in dir(torch.ops.t_fake):
        define(f"torchs_{name}", X, RESIZES[name], RESIZES[name])
    passes(symbolic, case(full, tensor(2, 3, 4, 6), layout=layout))


def test_forward_of_an_op_without_tensors() -> None:
    define("make", "(SymInt n) -> Tensor", lambda n: torch.zeros(n), lambda n: torch.empty(n))
    passes(forward, case("t_fake::make", 3))
    assert skipped(symbolic, case("t_fake::make", 3)).code == "nothing-to-check"


def test_fake_kernels_see_keyword_only_and_optional_arguments() -> None:
    define(
        "named",
        "(Tensor x, Tensor? bias=None, *, float scale=1.0) -> (Tensor, Tensor?)",
        lambda x, bias=None, scale=1.0: (x * scale, None),
        lambda x, bias=None, scale=1.0: (like(x), like(x) if scale == 3.0 else None),
    )
    for check in (forward, symbolic):
        passes(check, case("t_fake::named", tensor(3, 4), scale=2.0))
        passes(check, case("t_fake::named", tensor(3, 4), tensor(4), scale=2.0))
    failure = finding(forward, case("t_fake::named", tensor(3, 4), scale=3.0))
    assert failure.code == "fake-shape-mismatch"
    assert "output 1: fake kind a tensor float32(3, 4), real None" in failure.message


def test_the_checks_do_not_write_to_what_cases_share() -> None:
    for name, grad in (("right", True), ("by_right", True), ("write", False), ("by_item", True)):
        op_case = case(f"t_fake::{name}", tensor(3, 4), grad=grad)
        before = [
            (value.clone(), value.requires_grad) for _, value in op_case.eager.arguments.tensors()
        ]
        for check in CHECKS.values():
            try:
                check(op_case)
            except (CheckFailed, CheckSkipped):
                continue
        after = op_case.eager.arguments.tensors()
        for (values, requires_grad), (_, value) in zip(before, after, strict=True):
            assert torch.equal(values, value)
            assert value.requires_grad == requires_grad
            assert value.grad is None


def test_the_second_half_of_a_backward_table_lists_what_agrees(snapshot: Snapshot) -> None:
    def formula(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return torch.ops.t_fake.stride(torch.ops.t_fake.right(grad))

    define("by_both", X, copy, like, formula)
    failure = finding(backward, case("t_fake::by_both", tensor(3, 4), grad=True))
    snapshot([failure.message, "", failure.evidence])


def test_many_outputs_get_a_line_each_after_the_first_tables(snapshot: Snapshot) -> None:
    define(
        "twenty",
        "(Tensor x) -> Tensor[]",
        lambda x: [x + n for n in range(20)],
        lambda x: [like(x) if n != 15 else like(x.double()) for n in range(20)],
    )
    failure = finding(forward, case("t_fake::twenty", tensor(3, 4)))
    assert len(failure.evidence.splitlines()) < 100
    snapshot([failure.message, "", failure.evidence])


# Torch's own correct ops, at described sizes; in a process of its own, because importing the
# database changes global flags of torch for good.
DATABASE = """
import json
import torch
from torch.testing._internal.custom_op_db import custom_op_db
from pytest_customop.checks.fake import metadata
from pytest_customop.declare import ops
from pytest_customop.cases.case import Case
from pytest_customop.checks import builtin_checks
from pytest_customop.cases.arguments import Placement
from pytest_customop.findings import CheckFailed, CheckSkipped
from pytest_customop.declare.inputs import Sample, tensor

CHECKS = [one for one in builtin_checks() if one.family == "fake" and one.name != "fake.data_dependent"]

def described(value):
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return tensor(*value.shape, dtype=value.dtype, low=0.1, high=5)
    return type(value)(map(described, value)) if isinstance(value, (list, tuple)) else value

def outcome(check, one):
    try:
        check.run(one)
    except CheckFailed as failed:
        return f"failed: {failed}"
    except CheckSkipped as skipped:
        return skipped.code
    return "passed"

found = {}
for entry in custom_op_db:
    op = ops.resolve(entry.op)
    for grad in {False, entry.supports_autograd}:
        for made in entry.sample_inputs("cpu", torch.float32, requires_grad=grad):
            sample = Sample(described((made.input, *made.args)), made.kwargs)
            one = Case(op, sample, Placement("cpu", torch.float32, grad, "contiguous"))
            assert one.eager.error is None, one.eager.error
            for check in CHECKS:
                if check.name != "fake.backward" or (grad and op.has_autograd):
                    key = f"{op.name.split('::')[1]} {check.name}"
                    found.setdefault(key, []).append(outcome(check, one))
print(json.dumps(found))
"""


def test_torchs_own_custom_ops_pass() -> None:
    pytest.importorskip("numpy")
    pytest.importorskip("expecttest")
    command = [sys.executable, "-W", "ignore", "-c", DATABASE]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    outcomes = json.loads(run.stdout.splitlines()[-1])
    not_passed = {key: codes for key, codes in outcomes.items() if set(codes) != {"passed"}}
    assert not_passed == {
        # every size of its samples is 0 or 1
        "numpy_cube fake.symbolic": ["nothing-to-check"]
        * len(outcomes["numpy_cube fake.symbolic"]),
        "numpy_mul fake.backward": ["nothing-to-check"],
        "numpy_mul_scalar fake.backward": ["nothing-to-check"],
    }
    assert len(outcomes) > 25


def test_spans_that_overlap_are_found_pair_by_pair() -> None:
    draw = random.Random(0)
    for _ in range(50):
        starts = [draw.randrange(40) for _ in range(12)]
        spans = [(draw.randrange(20), start, start + draw.randrange(1, 9)) for start in starts]
        expected = {
            (first, second)
            for first, span in enumerate(spans)
            for second, later in enumerate(spans[first + 1 :], first + 1)
            if span[0] == later[0] or max(span[1], later[1]) < min(span[2], later[2])
        }
        pairs = {(min(pair), max(pair)) for pair in metadata._overlapping(spans)}
        assert pairs == expected
