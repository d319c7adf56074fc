"""The family `opcheck`: torch's failures in words of the op, and its limits and silences as skips."""

from typing import Any, Callable, Optional

import pytest
import torch
import verdicts

from pytest_customop.cases.arguments import Placement
from pytest_customop.cases.case import Case
from pytest_customop.checks import builtin_checks
from pytest_customop.declare import ops
from pytest_customop.declare.inputs import Sample, tensor
from pytest_customop.findings import CheckSkipped, Finding

CHECKS = [check for check in builtin_checks() if check.family == "opcheck"]
BY_NAME = {check.name.removeprefix("opcheck."): check for check in CHECKS}
SCHEMA, REGISTRATION = "test_schema", "test_autograd_registration"
FAKE, AOT = "test_faketensor", "test_aot_dispatch_dynamic"
UNARY = "(Tensor x) -> Tensor"
PAIR = "(Tensor x) -> (Tensor, Tensor)"
LIBRARY = torch.library.Library("t_opcheck", "FRAGMENT")
COMPARES_STRIDES = not torch.__version__.startswith("2.4.")


def define(
    name: str,
    kernel: Callable[..., Any],
    fake: Optional[Callable[..., Any]] = torch.empty_like,
    schema: str = UNARY,
    backward: Optional[Callable[..., Any]] = None,
    save: Optional[Callable[..., Any]] = None,
) -> None:
    """Register `t_opcheck::<name>` with `torch.library.custom_op`."""
    op = torch.library.custom_op(f"t_opcheck::{name}", kernel, mutates_args=(), schema=schema)
    if fake is not None:
        op.register_fake(fake)
    if backward is not None:
        op.register_autograd(backward, setup_context=save)


def define_raw(
    name: str,
    kernel: Callable[..., Any],
    fake: Optional[Callable[..., Any]] = torch.empty_like,
    schema: str = UNARY,
    key: str = "CPU",
    tags: tuple[torch.Tag, ...] = (),
) -> None:
    """Register `t_opcheck::<name>` with a `torch.library.Library`, which checks less."""
    LIBRARY.define(name + schema, tags=tags)
    LIBRARY.impl(name, kernel, key)
    if fake is not None:
        torch.library.register_fake(f"t_opcheck::{name}", fake, lib=LIBRARY)


def case(
    name: str,
    *args: Any,
    dtype: torch.dtype = torch.float32,
    grad: bool = False,
    device: str = "cpu",
    **kwargs: Any,
) -> Case:
    """A case of `t_opcheck::<name>`; without arguments, on a (3, 4) tensor."""
    sample = Sample(args or (tensor(3, 4),), kwargs)
    placement = Placement(device, dtype, grad, "contiguous")
    return Case(ops.resolve(f"t_opcheck::{name}"), sample, placement)


def finding(utility: str, op_case: Case) -> Finding:
    """What the check reports; it must fail."""
    return verdicts.finding(BY_NAME[utility].run, op_case)


def skipped(utility: str, op_case: Case) -> CheckSkipped:
    """Why the check skips; it must."""
    return verdicts.skipped(BY_NAME[utility].run, op_case)


class _Doubling(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad * 2


def _raise(x: torch.Tensor) -> torch.Tensor:
    raise ValueError("three channels only")


def _plain_sizes_only(x: torch.Tensor) -> torch.Tensor:
    if not all(isinstance(size, int) for size in x.shape):
        raise TypeError("no symbols, please")
    return torch.empty_like(x)


def _no_way_back(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
    raise ValueError("no way back")


def _other_when_traced(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
    return grad.clone() * (3 if type(grad) is not torch.Tensor else 1)


def _both(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    copy = x.clone()
    return copy, copy[0]


def _halves(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    first, second = torch.stack([x, x]).unbind()
    return first, second


define_raw("writes", lambda x: x.mul_(2).clone())
define_raw("writes_self", lambda self: self.mul_(2).clone(), schema="(Tensor self) -> Tensor")
define_raw("writes_openly", lambda x: x.mul_(2).clone(), schema="(Tensor(a!) x) -> Tensor")
define_raw("views", lambda x: x.view(-1), lambda x: x.new_empty(x.numel()))
define_raw("returns_it", lambda x: x, lambda x: x)
define_raw("shares", _both, lambda x: (torch.empty_like(x), x.new_empty(x.shape[1:])), PAIR)
define_raw("halves", _halves, lambda x: (torch.empty_like(x), torch.empty_like(x)), PAIR)
define_raw("in_kernel", _Doubling.apply)
define_raw("bare", lambda x: x * 2, None)
define("no_fake", lambda x: x * 2, None)
define("raises", lambda x: x * 2, _raise)
define("not_symbolic", lambda x: x * 2, _plain_sizes_only)
define("dtype", lambda x: x * 2, lambda x: torch.empty_like(x, dtype=torch.int64))
define("shape", lambda x: x * 2, lambda x: x.new_empty(x.shape[0] + 1, x.shape[1]))
define("second", lambda x: (x * 2, x * 2), lambda x: (x * 2, x[:1] * 2), PAIR)
define("strides", lambda x: (x * 2).t().contiguous().t())
define("list", lambda x: [x * 2], lambda x: [x * 2, x * 2], "(Tensor x) -> Tensor[]")
define("no_way_back", lambda x: x.clone(), backward=_no_way_back)
define("other_gradient", lambda x: x.clone(), backward=_other_when_traced)
define("copies", lambda x: x.clone(), backward=lambda ctx, grad: grad.clone())

BROKEN = [
    ("writes", SCHEMA, "undeclared-mutation", "argument x is written to"),
    ("writes_self", SCHEMA, "undeclared-mutation", "argument self is written to"),
    ("views", SCHEMA, "undeclared-alias", "shares memory with argument x"),
    ("returns_it", SCHEMA, "undeclared-alias", "argument x"),
    ("shares", SCHEMA, "outputs-share-memory", "outputs 0 and 1 share memory"),
    ("halves", SCHEMA, "outputs-share-storage", "outputs 0 and 1 share memory"),
    ("views", FAKE, "fake-alias-mismatch", "outputs_alias_inputs is False with the fake kernel"),
    ("bare", FAKE, "fake-missing", "t_opcheck::bare has no fake kernel"),
    ("bare", AOT, "fake-missing", "t_opcheck::bare has no fake kernel"),
    ("no_fake", FAKE, "fake-missing", "t_opcheck::no_fake has no fake kernel"),
    ("raises", FAKE, "fake-raises", "ValueError: three channels only"),
    ("raises", AOT, "fake-raises", "ValueError: three channels only"),
    ("not_symbolic", AOT, "fake-not-symbolic", "TypeError: no symbols, please"),
    ("dtype", FAKE, "fake-dtype-mismatch", "real dtype is torch.float32, the fake one torch.int64"),
    ("shape", FAKE, "fake-shape-mismatch", "real shape is torch.Size([3, 4]), the fake one"),
    ("second", FAKE, "fake-shape-mismatch", "output 1: the real shape is"),
    ("list", FAKE, "fake-shape-mismatch", "the fake kernel returns 2 outputs, the real one 1"),
]


@pytest.mark.parametrize(("name", "utility", "code", "text"), BROKEN)
def test_what_torch_finds_is_reported(name: str, utility: str, code: str, text: str) -> None:
    failure = finding(utility, case(name))
    assert failure.code == code
    assert text in failure.message
    assert "scroll up" not in failure.message + failure.evidence
    assert "opcheck(op, ...)" not in failure.message + failure.evidence


def test_the_strides_of_a_fake_kernel_are_reported_where_torch_compares_them() -> None:
    if COMPARES_STRIDES:
        failure = finding(FAKE, case("strides"))
        assert failure.code == "fake-stride-mismatch"
        assert "the real strides are (1, 3), the fake ones (4, 1)" in failure.message
    else:
        BY_NAME[FAKE].run(case("strides"))


def test_gradients_made_in_a_kernel_are_reported() -> None:
    failure = finding(REGISTRATION, case("in_kernel", grad=True))
    assert failure.code == "autograd-registration"
    BY_NAME[REGISTRATION].run(case("copies", grad=True))


def test_a_backward_that_raises_is_reported() -> None:
    failure = finding(AOT, case("no_way_back", grad=True))
    assert failure.code == "backward-raises"
    assert "ValueError: no way back" in failure.message
    assert "_no_way_back" in failure.evidence


def test_other_gradients_are_reported() -> None:
    failure = finding(AOT, case("other_gradient", grad=True))
    assert failure.code == "opcheck-failure"
    assert "gradients differ between eager mode and AOTDispatcher's tracing" in failure.message


@pytest.mark.parametrize("utility", BY_NAME)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.complex64])
def test_right_ops_pass(utility: str, dtype: torch.dtype) -> None:
    BY_NAME[utility].run(case("copies", dtype=dtype, grad=True))


def test_declared_writes_pass() -> None:
    BY_NAME[SCHEMA].run(case("writes_openly"))


def _only_once(x: torch.Tensor) -> torch.Tensor:
    if _CALLS:
        raise RuntimeError("once is enough")
    _CALLS.append(1)
    return x.clone()


_CALLS: list[int] = []
define("only_once", _only_once)


def test_any_other_failure_is_reported_in_torchs_words() -> None:
    op_case = case("only_once")
    assert op_case.eager.error is None
    failure = finding(SCHEMA, op_case)
    assert failure.code == "opcheck-failure"
    assert failure.message == "test_schema: RuntimeError: once is enough"
    assert "_only_once" in failure.evidence


# --- right ops that torch's utilities cannot take ---


def _no_gradient(ctx: Any, grad: torch.Tensor) -> None:
    return None


def _second_only(ctx: Any, _: Any, grad: torch.Tensor) -> torch.Tensor:
    return grad.clone()


def _first_is_whole(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.mark_non_differentiable(output[0])


_NUMBERS = iter(range(10**9))
define("nans", lambda x: x / 0 * 0, backward=lambda ctx, grad: grad.clone())
define("inverts", lambda x: x.abs(), backward=lambda ctx, grad: grad / 0 * 0)
define("counts_up", lambda x: x + next(_NUMBERS))
define(
    "whole_first",
    lambda x: (x.to(torch.int64), x.clone()),
    lambda x: (torch.empty_like(x, dtype=torch.int64), torch.empty_like(x)),
    PAIR,
    backward=_second_only,
    save=_first_is_whole,
)
define("wants_offset", lambda x: x.clone() if x.storage_offset() else _raise(x))
define("no_gradient", lambda x: x.clone(), backward=_no_gradient)
define("no_formula", lambda x: x.clone())
define_raw(
    "counts_up_tagged",
    lambda x: x + next(_NUMBERS),
    tags=(torch.Tag.nondeterministic_seeded,),
)
define_raw(
    "nonzero",
    lambda x: torch.nonzero(x).contiguous(),
    lambda x: x.new_empty(torch.library.get_ctx().new_dynamic_size(), x.dim(), dtype=torch.int64),
    tags=(torch.Tag.dynamic_output_shape,),
)
define_raw("composite", lambda x: x * 2 + 1, None, key="CompositeImplicitAutograd")
define_raw("densifies", lambda x: x.to_dense(), lambda x: x.new_empty(x.shape), key="SparseCPU")
define_raw("nothing", lambda x: None, None, schema="(Tensor(a!) x) -> ()")


def _limits() -> dict[str, tuple[str, Case, str]]:
    return {
        "NaN outputs": (AOT, case("nans"), "outputs contain NaN"),
        "NaN gradients": (AOT, case("inverts", grad=True), "gradients contain NaN"),
        "tagged random": (AOT, case("counts_up_tagged"), "tagged nondeterministic"),
        "whole numbers first": (AOT, case("whole_first", grad=True), "dtype of the first one"),
        "fp8 schema": (SCHEMA, case("copies", dtype=torch.float8_e4m3fn), "not implemented"),
        "fp8 gradients": (AOT, case("copies", dtype=torch.float8_e5m2, grad=True), "not implem"),
        "half complex": (AOT, case("copies", dtype=torch.complex32, grad=True), "ComplexHalf"),
        "no formula": (AOT, case("no_formula", grad=True), "no autograd formula"),
        "sparse": (SCHEMA, case("densifies", torch.eye(3).to_sparse()), "is sparse_coo"),
        "dense copies": (AOT, case("wants_offset", torch.ones(5)[1:]), "calls the op on dense"),
        "tag": (FAKE, case("nonzero"), "torch.Tag.dynamic_output_shape"),
        "composite fake": (FAKE, case("composite"), "above the level of kernels"),
        "composite schema": (SCHEMA, case("composite"), "above the level of kernels"),
    }


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("kind", _limits())
def test_limits_of_torchs_own_checkers_are_skips(kind: str) -> None:
    utility, op_case, text = _limits()[kind]
    if op_case.eager.error is not None:
        pytest.skip("this torch rejects such inputs in eager mode")
    why = skipped(utility, op_case)
    assert (why.code, why.unjudged) == ("checker-limit", True)
    assert text in why.reason


def test_a_failure_inside_torch_that_does_not_repeat_is_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As torch 2.4 fails on unsigned integers, once for each graph."""
    real, failures = torch.library.opcheck, [KeyError("uint16")]

    def opcheck(*args: Any, **kwargs: Any) -> Any:
        if failures:
            raise RuntimeError("opcheck(op, ...) failed") from failures.pop()
        return real(*args, **kwargs)

    monkeypatch.setattr(torch.library, "opcheck", opcheck)
    why = skipped(SCHEMA, case("copies"))
    assert why.code == "checker-limit"
    assert "KeyError: 'uint16'" in why.reason


def test_an_op_that_does_not_repeat_its_values_is_a_skip() -> None:
    assert skipped(AOT, case("counts_up")).code == "nondeterministic"


def test_an_op_without_any_gradient_is_no_finding() -> None:
    BY_NAME[AOT].run(case("no_gradient", grad=True))


@pytest.mark.parametrize(
    ("utility", "made"),
    [
        (REGISTRATION, case("copies", dtype=torch.int64)),
        *((utility, case("copies", device="meta", grad=True)) for utility in BY_NAME),
    ],
)
def test_success_without_having_looked_is_a_skip(utility: str, made: Case) -> None:
    """torch reports SUCCESS for these and runs nothing."""
    torch.library.opcheck(made.op.overload, made.inputs().args, test_utils=(utility,))
    why = skipped(utility, made)
    assert (why.code, why.unjudged) == ("nothing-to-check", False)


def test_an_op_that_needs_no_fake_kernel_passes() -> None:
    BY_NAME[FAKE].run(case("nothing"))


def test_the_family() -> None:
    assert sorted(BY_NAME) == [AOT, REGISTRATION, FAKE, SCHEMA]
    assert BY_NAME[REGISTRATION].gradients is True
    assert BY_NAME[REGISTRATION].runs_without_autograd is True
    assert all(check.gradients is None for name, check in BY_NAME.items() if name != REGISTRATION)
