"""The family `compile`: each finding on a broken op and not on its correct twin."""

import gc
import os
import subprocess
import sys
import warnings
import weakref
from collections import Counter
from pathlib import Path
from typing import Any, Callable, Optional

import pytest
import torch
import torch._dynamo
from kit import Suite
from snapshot import Snapshot
from verdicts import finding, skipped

from pytest_customop.cases.arguments import Placement
from pytest_customop.cases.case import Case
from pytest_customop.checks.compile.dynamic import check_dynamic
from pytest_customop.checks.compile.errors import compiler_session, pinned_size
from pytest_customop.checks.compile.harness import OpHarness
from pytest_customop.checks.compile.opaque import opaque_ops
from pytest_customop.checks.compile.static import check_static
from pytest_customop.checks.compile.unsupported import skip_without_compiler
from pytest_customop.compat import compiler
from pytest_customop.declare import ops
from pytest_customop.declare.inputs import Sample, tensor
from pytest_customop.declare.layouts import LAYOUTS
from pytest_customop.findings import CheckSkipped

# From 2.5 on, generated code asserts the strides of what ops return.
ASSERTS_STRIDES = not torch.__version__.startswith("2.4.")
LIBRARY = torch.library.Library("t_compile", "FRAGMENT")
UNARY = "(Tensor x) -> Tensor"


def define(
    name: str,
    kernel: Callable[..., Any],
    fake: Optional[Callable[..., Any]] = torch.empty_like,
    schema: str = UNARY,
    writes: tuple[str, ...] = (),
    backward: Optional[Callable[..., Any]] = None,
    save: Optional[Callable[..., Any]] = None,
) -> None:
    """Register `t_compile::<name>`."""
    op = torch.library.custom_op(f"t_compile::{name}", kernel, mutates_args=writes, schema=schema)
    if fake is not None:
        op.register_fake(fake)
    if backward is not None:
        op.register_autograd(backward, setup_context=save)


def case(
    name: str,
    *args: Any,
    dtype: torch.dtype = torch.float32,
    grad: bool = False,
    layout: str = "contiguous",
    backend: str = "inductor",
    **kwargs: Any,
) -> Case:
    """A case of `t_compile::<name>`; without arguments, on a (3, 4) tensor."""
    sample = Sample(args or (tensor(3, 4),), kwargs)
    placement = Placement("cpu", dtype, grad, layout)
    return Case(ops.resolve(f"t_compile::{name}"), sample, placement, backend=backend)


def column_major(x: torch.Tensor) -> torch.Tensor:
    return x.new_empty(x.shape[1], x.shape[0]).t()


def save_input(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(inputs[0])


# --- broken ops, each with its correct twin ---

define("strides_wrong", lambda x: (x * 2).t().contiguous().t())
define("strides_right", lambda x: (x * 2).t().contiguous().t(), column_major)


def test_wrong_strides_are_caught():
    failure = finding(check_static, case("strides_wrong"))
    if ASSERTS_STRIDES:
        assert failure.code == "compile-stride-assert"
        assert "t_compile::strides_wrong" in failure.message
        assert "expected size 3==3, stride 1==4 at dim=0" in failure.message
        assert "torch.ops.t_compile.strides_wrong.default" in failure.message
    else:
        assert failure.code == "compile-output-mismatch"
        assert "as an op after it reads it" in failure.message


def test_right_strides_pass():
    check_static(case("strides_right"))


def test_wrong_strides_are_caught_in_generated_code():
    failure = finding(check_dynamic, case("strides_wrong"))
    assert failure.code in ("compile-stride-assert", "compile-output-mismatch")


define(
    "paste_in_backward",
    lambda x: x.sin(),
    backward=lambda ctx, grad: torch.ops.t_compile.strides_wrong(grad) / 2,
)
define(
    "right_in_backward",
    lambda x: x.sin(),
    backward=lambda ctx, grad: torch.ops.t_compile.strides_right(grad) / 2,
)


def test_wrong_strides_in_the_backward_are_caught():
    failure = finding(check_static, case("paste_in_backward", grad=True))
    if ASSERTS_STRIDES:
        assert failure.code == "compile-stride-assert"
        assert "t_compile::strides_wrong" in failure.message
    else:
        assert failure.code == "compile-gradient-mismatch"
    check_static(case("right_in_backward", grad=True))


define("dtype_wrong", lambda x: x * 2, lambda x: torch.empty_like(x, dtype=torch.float64))
define("size_wrong", lambda x: x * 2, lambda x: x.new_empty(x.shape[0] + 1, x.shape[1]))
define("reach_wrong", lambda x: x * 2, lambda x: x.new_empty(3, 99)[:, :4])
define("count_wrong", lambda x: [x * 2], lambda x: [x * 2, x * 2], schema="(Tensor x) -> Tensor[]")
define(
    "liar_in_backward",
    lambda x: x.sin(),
    backward=lambda ctx, grad: torch.ops.t_compile.dtype_wrong(grad),
)


@pytest.mark.parametrize("name", ["dtype_wrong", "size_wrong", "reach_wrong", "count_wrong"])
def test_code_that_would_leave_its_memory_is_not_run(name: str, snapshot: Snapshot) -> None:
    for check in (check_static, check_dynamic):
        failure = finding(check, case(name))
        assert failure.code == "compile-output-mismatch"
        assert "was not run" in failure.evidence
        snapshot(failure.message, check.__name__)


def test_a_backward_that_would_leave_its_memory_is_not_run(snapshot: Snapshot) -> None:
    failure = finding(check_static, case("liar_in_backward", grad=True))
    assert failure.code == "fake-dtype-mismatch"
    snapshot(failure.message)


define("no_fake", lambda x: x * 2, None)
LIBRARY.define(f"no_fake_library{UNARY}")
LIBRARY.impl("no_fake_library", lambda x: x * 2, "CPU")


@pytest.mark.parametrize("name", ["no_fake", "no_fake_library"])
def test_a_missing_fake_kernel_is_named_as_by_other_checks(name: str, snapshot: Snapshot) -> None:
    failure = finding(check_static, case(name, backend="aot_eager"))
    assert failure.code == "fake-missing"
    snapshot(failure.message)


define("reads_data", lambda x: x * 2, lambda x: x.new_empty(int(x.sum())))


def test_a_fake_kernel_that_reads_data_is_a_graph_break():
    failure = finding(check_static, case("reads_data", backend="aot_eager"))
    assert failure.code == "compile-graph-break"
    assert "t_compile::reads_data" in failure.message
    assert "int(x.sum())" in failure.evidence


define("counts", lambda x: 3, lambda x: 3, schema="(Tensor x) -> int")


def test_an_op_that_cannot_be_traced_is_a_graph_break():
    failure = finding(check_static, case("counts", backend="aot_eager"))
    assert failure.code == "compile-graph-break"
    assert "non-Tensor" in failure.message
    assert "compiled.py" not in failure.message
    assert "TORCHDYNAMO_VERBOSE" not in failure.message + failure.evidence


def _three_channels(x):
    raise ValueError("three channels only")


define("fake_raises", lambda x: x * 2, _three_channels)


def _plain_sizes_only(x):
    if not all(isinstance(size, int) for size in x.shape):
        raise TypeError("no symbols, please")
    return torch.empty_like(x)


define("not_symbolic", lambda x: x * 2, _plain_sizes_only)


def test_an_exception_of_the_fake_kernel_is_named():
    failure = finding(check_static, case("fake_raises", backend="aot_eager"))
    assert failure.code == "compile-error"
    assert "raises ValueError: three channels only" in failure.message
    assert "in _three_channels" in failure.evidence


def test_an_exception_on_symbolic_sizes_is_named():
    check_static(case("not_symbolic", backend="aot_eager"))
    failure = finding(check_dynamic, case("not_symbolic", backend="aot_eager"))
    assert failure.code == "compile-error"
    assert "given symbolic sizes, raises TypeError: no symbols, please" in failure.message
    assert "in _plain_sizes_only" in failure.evidence


def _write(x, out):
    out.copy_(x * 2)


def _write_and_copy(x, out):
    out.mul_(1.00001)
    return x * 2


WRITES = "(Tensor x, Tensor(a!) out) -> ()"
define("writes", _write, lambda x, out: None, schema=WRITES, writes=("out",))
define(
    "writes_secretly",
    _write_and_copy,
    lambda x, out: torch.empty_like(x),
    schema="(Tensor x, Tensor out) -> Tensor",
)
define(
    "writes_openly",
    _write_and_copy,
    lambda x, out: torch.empty_like(x),
    schema="(Tensor x, Tensor(a!) out) -> Tensor",
    writes=("out",),
)


@pytest.mark.parametrize("check", [check_static, check_dynamic])
def test_a_small_undeclared_write_is_caught(
    check: Callable[[Case], None], snapshot: Snapshot
) -> None:
    failure = finding(check, case("writes_secretly", tensor(3, 4), tensor(3, 4, fill=1)))
    assert failure.code == "compile-mutation-mismatch"
    snapshot.message(failure.message)


@pytest.mark.parametrize("check", [check_static, check_dynamic])
@pytest.mark.parametrize("name", ["writes", "writes_openly"])
def test_a_declared_write_passes(check, name):
    check(case(name, tensor(3, 4), tensor(3, 4, fill=1)))


# --- gradients ---


def _traced(grad: torch.Tensor) -> bool:
    return type(grad) is not torch.Tensor


def _other_when_traced(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
    return grad.clone() * (3 if _traced(grad) else 1)


def _none_when_traced(ctx: Any, grad: torch.Tensor) -> Optional[torch.Tensor]:
    return None if _traced(grad) else grad.clone()


def _raises(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
    raise ValueError("no way back")


def _raises_when_traced(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
    if _traced(grad):
        raise ValueError("no way back here")
    return grad.clone()


def _cosine(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
    (x,) = ctx.saved_tensors
    return grad * x.cos()


define("gradient_other", lambda x: x.clone(), backward=_other_when_traced)
define("gradient_none", lambda x: x.clone(), backward=_none_when_traced)
define("gradient_raises", lambda x: x.clone(), backward=_raises)
define("gradient_raises_traced", lambda x: x.clone(), backward=_raises_when_traced)
define("sine", lambda x: x.sin(), backward=_cosine, save=save_input)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("gradient_other", "compile-gradient-mismatch"),
        ("gradient_none", "compile-gradient-mismatch"),
        ("gradient_raises", "backward-raises"),
        ("gradient_raises_traced", "compile-error"),
    ],
)
def test_wrong_gradients_are_caught(name: str, code: str, snapshot: Snapshot) -> None:
    failure = finding(check_static, case(name, grad=True, backend="aot_eager"))
    assert failure.code == code
    snapshot.message(failure.message)


@pytest.mark.parametrize("check", [check_static, check_dynamic])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_right_gradients_pass(check: Callable[[Case], None], dtype: torch.dtype) -> None:
    check(
        case(
            "sine",
            grad=True,
            dtype=dtype,
            backend="inductor" if dtype.itemsize == 8 else "aot_eager",
        )
    )


def _normalised(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
    (x,) = ctx.saved_tensors
    scale = (x.var(-1, keepdim=True, unbiased=False) + 1e-5).rsqrt()
    unit = (x - x.mean(-1, keepdim=True)) * scale
    inner = grad - grad.mean(-1, keepdim=True) - unit * (grad * unit).mean(-1, keepdim=True)
    return scale * inner


define(
    "layer_norm",
    lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:]),
    backward=_normalised,
    save=save_input,
)


def test_rounding_in_fused_code_is_no_mismatch() -> None:
    """Generated code keeps more digits than eager mode between two steps in half precision."""
    op_case = case("layer_norm", tensor(33, 257), grad=True, dtype=torch.float16)
    check_static(op_case)


# --- sizes ---


def _fixed_rows(x: torch.Tensor) -> torch.Tensor:
    return x.new_empty(int(x.shape[0]), x.shape[1])


def _asks_for_four(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x) if x.shape[1] == 4 else x.new_empty(x.shape)


def _asks_for_even(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x) if x.shape[1] % 2 == 0 else x.new_empty(x.shape)


def _needs_three(x: torch.Tensor) -> torch.Tensor:
    if x.shape[0] != 3:
        raise ValueError("three channels")
    return torch.empty_like(x)


define("fixed_rows", lambda x: x * 2, _fixed_rows)
define("asks_for_four", lambda x: x * 2, _asks_for_four)
define("asks_for_even", lambda x: x * 2, _asks_for_even)
define("needs_three", lambda x: _needs_three(x).copy_(x), _needs_three)
define("hard_coded", lambda x: x * 2, lambda x: x.new_empty(3, 4))


@pytest.mark.parametrize("name", ["fixed_rows", "asks_for_four"])
def test_a_size_made_constant_is_caught(name: str, snapshot: Snapshot) -> None:
    failure = finding(check_dynamic, case(name, backend="aot_eager"))
    assert failure.code == "compile-recompiles"
    snapshot(failure.message)
    check_static(case(name, backend="aot_eager"))


@pytest.mark.parametrize("name", ["sine", "asks_for_even", "needs_three"])
def test_what_sizes_force_is_no_finding(name: str) -> None:
    check_dynamic(case(name, backend="aot_eager"))


def test_a_hard_coded_size_is_caught_at_the_second_size(snapshot: Snapshot) -> None:
    failure = finding(check_dynamic, case("hard_coded", backend="aot_eager"))
    assert failure.code == "compile-output-mismatch"
    snapshot(failure.message)
    check_static(case("hard_coded", backend="aot_eager"))


def test_without_a_second_size_the_first_one_counts() -> None:
    check_dynamic(case("fixed_rows", torch.ones(3, 4, dtype=torch.int64), backend="aot_eager"))
    assert finding(check_dynamic, case("strides_wrong", torch.arange(12).view(3, 4))).code


def test_sizes_of_0_and_1_leave_nothing_to_vary() -> None:
    for op_case in (case("sine", tensor(1, 1)), case("sine", tensor(())), case("makes", 4)):
        why = skipped(check_dynamic, op_case)
        assert (why.code, why.unjudged) == ("nothing-to-check", False)


GUARDS = {
    "tensor 'tensors[1]' size mismatch at index 0. expected 3, actual 4": ("b", 0, 3),
    "tensor 'L['tensors'][0]' size mismatch at index 1. expected 4, actual 5": ("a", 1, 4),
    "tensors[0].size()[1] == 4  # f.py:1": ("a", 1, 4),
    "Eq(L['tensors'][0].size()[1], 4)": ("a", 1, 4),
    "tensor 'L['tensors'][0]' stride mismatch at index 0. expected 4, actual 5": ("a", 1, 4),
    "tensor 'tensors[0]' size mismatch at index 0. expected 1, actual 4": None,
    "(tensors[0].size()[1] % 2) == 0": None,
    "Eq(Mod(L['tensors'][0].size()[1], 2), 0)": None,
    "tensors[0].size()[0] == 2*tensors[0].size()[1]": None,
    "tensors[0].size()[0] == tensors[0].size()[1]": None,
    "8 <= tensors[0].size()[0]": None,
    "tensor 'tensors[0]' dtype mismatch. expected Float, actual Double": None,
}


@pytest.mark.parametrize("guard", GUARDS)
def test_guards_are_read(guard: str) -> None:
    before = [("a", torch.ones(3, 4)), ("b", torch.ones(3))]
    after = [("a", torch.ones(4, 5)), ("b", torch.ones(4))]
    assert pinned_size(guard, before, after) == GUARDS[guard]


# --- right ops of every kind ---


def _data_sized(x: torch.Tensor) -> torch.Tensor:
    return x.new_empty(torch.library.get_ctx().new_dynamic_size(), x.dim(), dtype=torch.int64)


def _sum_both(ctx: Any, grads: list[torch.Tensor]) -> torch.Tensor:
    return grads[0] + 2 * grads[1]


def _save_first_differentiable(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.mark_non_differentiable(output[1])


PAIR = "(Tensor x) -> (Tensor, Tensor)"
define(
    "sorts",
    lambda x: tuple(part.contiguous() for part in torch.sort(x, dim=0)),
    lambda x: (x.new_empty(x.shape), x.new_empty(x.shape, dtype=torch.int64)),
    PAIR,
)
define(
    "ranks",
    lambda x: (x.clone(), x.to(torch.int64)),
    lambda x: (torch.empty_like(x), torch.empty_like(x, dtype=torch.int64)),
    PAIR,
    backward=lambda ctx, grad, _: grad.clone(),
    save=_save_first_differentiable,
)
define(
    "splits",
    lambda x: [x.clone(), x * 2],
    lambda x: [torch.empty_like(x), torch.empty_like(x)],
    "(Tensor x) -> Tensor[]",
    backward=_sum_both,
)
define("nonzero", lambda x: torch.nonzero(x).contiguous(), _data_sized)
define("copies", lambda x: x.clone(), backward=lambda ctx, grad: grad.clone())
define("nans", lambda x: x / 0 * 0)
define("empty", lambda x: x.new_empty(0, 3), lambda x: x.new_empty(0, 3))
define("nothing", lambda x: None, lambda x: None, "(Tensor x) -> ()")
define(
    "scaled",
    lambda x, *, by: x * by,
    lambda x, *, by: torch.empty_like(x),
    "(Tensor x, *, float by) -> Tensor",
)
define(
    "makes",
    lambda n: torch.arange(n),
    lambda n: torch.empty(n, dtype=torch.int64),
    "(int n) -> Tensor",
)
define(
    "adds_all",
    lambda xs, y: sum(xs) if y is None else sum(xs) + y,
    lambda xs, y: torch.empty_like(xs[0]),
    "(Tensor[] xs, Tensor? y) -> Tensor",
)
define(
    "half_gradient",
    lambda x, y: x * y,
    lambda x, y: torch.empty_like(x),
    "(Tensor x, Tensor y) -> Tensor",
    backward=lambda ctx, grad: (None, grad * ctx.saved_tensors[0]),
    save=save_input,
)
define(
    "shifted", lambda x: torch.zeros(15)[3:].view(3, 4) + 0 * x.sum(), lambda x: x.new_empty(3, 4)
)
LIBRARY.define(f"composite{UNARY}")
LIBRARY.impl("composite", lambda x: x * 2 + 1, "CompositeImplicitAutograd")

RIGHT = {
    "integer output": lambda: case("sorts"),
    "one output not differentiable": lambda: case("ranks", grad=True),
    "list of outputs": lambda: case("splits", grad=True),
    "sizes from data": lambda: case("nonzero"),
    "no nonzero": lambda: case("nonzero", tensor(3, 4, fill=0)),
    "NaN outputs": lambda: case("nans"),
    "empty output": lambda: case("empty"),
    "empty input": lambda: case("copies", tensor(0, 3), grad=True),
    "0-dim": lambda: case("copies", tensor(()), grad=True),
    "no output": lambda: case("nothing"),
    "keyword-only": lambda: case("scaled", tensor(3, 4), by=2.5),
    "no tensor argument": lambda: case("makes", 5),
    "list argument, None": lambda: case("adds_all", [tensor(3), tensor(3)], None),
    "list argument, tensor": lambda: case("adds_all", [tensor(3), tensor(3)], tensor(3)),
    "None for a gradient": lambda: case("half_gradient", tensor(3), tensor(3), grad=True),
    "composite": lambda: case("composite", grad=True),
    "offset output": lambda: case("shifted"),
    "one tensor twice": lambda: _with_itself(),
    "complex64": lambda: case("copies", grad=True, dtype=torch.complex64),
    "bool": lambda: case("copies", dtype=torch.bool),
    "uint8": lambda: case("copies", dtype=torch.uint8),
    "bfloat16": lambda: case("copies", grad=True, dtype=torch.bfloat16),
    "fp8": lambda: case("copies", dtype=torch.float8_e4m3fn),
}


def _with_itself() -> Case:
    value = torch.ones(3)
    return case("half_gradient", value, value)


@pytest.mark.parametrize("kind", RIGHT)
def test_right_ops_pass(kind: str) -> None:
    op_case = RIGHT[kind]()
    assert op_case.eager.error is None
    check_static(op_case)


@pytest.mark.parametrize("kind", ["sizes from data", "complex64", "bool", "list of outputs"])
def test_right_ops_pass_with_dynamic_sizes_and_generated_code(kind: str) -> None:
    check_dynamic(RIGHT[kind]())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_passes(layout: str) -> None:
    shape = (2, 3, 4, 5) if layout == "channels_last" else (3, 4)
    for check in (check_static, check_dynamic):
        check(case("copies", tensor(*shape), grad=True, layout=layout, backend="aot_eager"))


def test_complex_dtypes_pass_where_warnings_are_errors() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_static(case("copies", tensor(3, 5), dtype=torch.complex128))


# --- what cannot be judged ---


def _random(x: torch.Tensor) -> torch.Tensor:
    return x + next(_NUMBERS)


_NUMBERS = iter(range(10**9))
define("random", _random)
LIBRARY.define(f"random_tagged{UNARY}", tags=(torch.Tag.nondeterministic_seeded,))
LIBRARY.impl("random_tagged", _random, "CPU")
torch.library.register_fake("t_compile::random_tagged", torch.empty_like, lib=LIBRARY)
LIBRARY.define("seeded(Tensor x, *, Generator? generator=None) -> Tensor")
LIBRARY.impl("seeded", lambda x, generator=None: x + torch.rand(1, generator=generator), "CPU")
torch.library.register_fake(
    "t_compile::seeded", lambda x, generator=None: torch.empty_like(x), lib=LIBRARY
)
LIBRARY.define(f"densifies{UNARY}")
LIBRARY.impl("densifies", lambda x: x.to_dense(), "SparseCPU")
torch.library.register_fake("t_compile::densifies", lambda x: x.new_empty(x.shape), lib=LIBRARY)


def test_random_values_are_not_compared() -> None:
    check_static(case("random_tagged", backend="aot_eager"))
    why = skipped(check_static, case("random", backend="aot_eager"))
    assert why.code == "nondeterministic"


def test_what_the_compiler_takes_from_no_op_is_a_limit() -> None:
    generator = torch.Generator()
    why = skipped(check_static, case("seeded", tensor(3), generator=generator, backend="aot_eager"))
    assert why.code == "checker-limit"
    assert "torch.Generator" in why.reason
    why = skipped(check_static, case("densifies", torch.eye(3).to_sparse(), backend="aot_eager"))
    assert why.code == "checker-limit"
    assert "sparse_coo" in why.reason


def test_tensors_without_values_leave_nothing_to_check() -> None:
    op_case = Case(
        ops.resolve("t_compile::copies"),
        Sample((tensor(3),)),
        Placement("meta", torch.float32, False, "contiguous"),
    )
    assert skipped(check_static, op_case).unjudged is False


def test_a_compiler_that_is_switched_off_is_no_pass() -> None:
    with torch._dynamo.config.patch(disable=True):
        assert skipped(check_static, case("copies", backend="aot_eager")).code == "compiler-off"


NO_COMPILER = """
import torch
import torch._inductor.config
torch._inductor.config.cpp.cxx = ("/no/such",)
from pytest_customop.declare import ops
from pytest_customop.cases.case import Case
from pytest_customop.checks.compile.dynamic import check_dynamic
from pytest_customop.cases.arguments import Placement
from pytest_customop.findings import CheckSkipped
from pytest_customop.declare.inputs import Sample, tensor

unary = "(Tensor x) -> Tensor"
torch.library.custom_op("t_nocxx::f", lambda x: x * 2, mutates_args=(), schema=unary)
torch.library.register_fake("t_nocxx::f", torch.empty_like)
torch.library.register_autograd("t_nocxx::f", lambda ctx, grad: grad * 2)
placement = Placement("cpu", torch.float32, True, "contiguous")
try:
    check_dynamic(Case(ops.resolve("t_nocxx::f"), Sample((tensor(3),)), placement))
except CheckSkipped as skipped:
    print("skipped:", skipped.code)
"""


@pytest.mark.usefixtures("new_interpreters")  # torch reads CXX when it is imported
def test_a_missing_cxx_compiler_is_not_the_ops_fault(tmp_path: Path) -> None:
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", NO_COMPILER]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert "skipped: no-cxx-compiler" in ran.stdout, ran.stderr


def test_generated_code_that_does_not_compile_is_a_limit() -> None:
    class CppCompileError(RuntimeError):
        pass

    with pytest.raises(CheckSkipped) as caught:
        skip_without_compiler(CppCompileError("C++ compile error"))
    assert caught.value.code == "checker-limit"
    skip_without_compiler(RuntimeError("anything else"))


def _untraceable(*args: Any) -> torch.Tensor:
    torch._dynamo.graph_break()
    return args[-1]


def test_surroundings_that_do_not_compile_are_not_the_ops_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The op is then judged alone: right where it is right, wrong where it is wrong."""
    produce, _ = opaque_ops()
    monkeypatch.setattr(
        "pytest_customop.checks.compile.harness.opaque_ops", lambda: (produce, _untraceable)
    )
    check_static(case("copies", grad=True, backend="aot_eager"))
    assert finding(check_static, case("gradient_other", grad=True, backend="aot_eager"))
    assert finding(check_static, case("no_fake", backend="aot_eager"))


def test_an_op_that_compiles_only_alone_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands around it compiles without it, it compiles without that, and the two do not."""
    real = OpHarness.run

    def run(self: OpHarness, function: Any, arguments: Any) -> Any:
        if function is not self.function and self.config.producers:
            raise ValueError("only together")
        return real(self, function, arguments)

    monkeypatch.setattr(OpHarness, "run", run)
    failure = finding(check_static, case("copies", backend="aot_eager"))
    assert failure.code == "compile-error"
    assert "ValueError: only together" in failure.message


# --- ops that return what they write to ---

LIBRARY.define("returns_written(Tensor(a!) x) -> Tensor(a!)")
LIBRARY.impl("returns_written", lambda x: x.mul_(2), "CPU")
torch.library.register_fake("t_compile::returns_written", lambda x: x, lib=LIBRARY)
if hasattr(torch.Tag, "inplace"):
    LIBRARY.define("doubles_(Tensor(a!) x) -> Tensor(a!)", tags=(torch.Tag.inplace,))
    LIBRARY.impl("doubles_", lambda x: x.mul_(2), "CPU")
    torch.library.register_fake("t_compile::doubles_", lambda x: x, lib=LIBRARY)
    LIBRARY.define("sine_out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)", tags=(torch.Tag.out,))
    LIBRARY.impl("sine_out", lambda x, *, out: out.copy_(x.sin()), "CPU")
    torch.library.register_fake("t_compile::sine_out", lambda x, *, out: out, lib=LIBRARY)


def test_a_returned_argument_names_the_tags(snapshot: Snapshot) -> None:
    failure = finding(check_static, case("returns_written", backend="aot_eager"))
    assert failure.code == "untagged-returned-argument"
    snapshot(failure.message)
    assert ("torch.Tag.inplace or torch.Tag.out" in str(failure.fix)) == hasattr(
        torch.Tag, "inplace"
    )


@pytest.mark.skipif(not hasattr(torch.Tag, "inplace"), reason="this torch has no such tags")
@pytest.mark.parametrize("check", [check_static, check_dynamic])
def test_tagged_ops_may_return_their_argument(check: Callable[[Case], None]) -> None:
    check(case("doubles_"))
    check(case("sine_out", tensor(3, 4), out=tensor(3, 4)))


# --- what is left behind ---


class Watched:
    """A function that was compiled before the checks, and how often it is compiled."""

    def __init__(self) -> None:
        self.graphs = 0
        self.function = torch.compile(self._body, backend=self._backend, dynamic=False)

    def _backend(self, graph: Any, inputs: Any) -> Any:
        self.graphs += 1
        return graph

    def _body(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


def test_what_was_compiled_before_stays_compiled() -> None:
    watched = Watched()
    watched.function(torch.ones(3, 4))
    check_dynamic(case("copies", backend="aot_eager"))
    finding(check_static, case("strides_wrong"))
    watched.function(torch.ones(3, 4))
    assert watched.graphs == 1


def _state() -> dict[str, Any]:
    import torch._functorch.config
    import torch._inductor.config

    dynamo = torch._dynamo
    pgo = sys.modules.get("torch._dynamo.pgo")
    configs = {name: sys.modules[name] for name in compiler._COMPILE_CONFIG}
    return {
        "configs": {
            (module, name): getattr(configs[module], name, None)
            for module, names in compiler._COMPILE_CONFIG.items()
            for name in names
        },
        "counters": {name: Counter(counter) for name, counter in dynamo.utils.counters.items()},
        "guard failures": list(dynamo.utils.guard_failures),
        "graph breaks": list(dynamo.utils.graph_break_reasons),
        "backends": set(dynamo.eval_frame.cached_backends),
        "profile": set(getattr(pgo, "_CODE_STATE", None) or ()),
    }


def test_the_compilers_state_is_as_before() -> None:
    before = _state()
    check_dynamic(case("sine", backend="aot_eager"))
    finding(check_dynamic, case("fixed_rows", backend="aot_eager"))
    finding(check_static, case("counts", backend="aot_eager"))
    assert _state() == before


def test_code_objects_are_released() -> None:
    def compiled() -> Any:
        with compiler_session():
            harness = OpHarness(case("copies"))
            function = harness.compiled("aot_eager", dynamic=False)
            harness.run(function, harness.case.inputs())
        return weakref.ref(harness.function.__code__)

    compiled()  # torch keeps the first code that it compiles in a process
    code = compiled()
    gc.collect()
    assert code() is None


def test_no_case_dies_of_anothers_recompile_limit() -> None:
    limit = (
        "recompile_limit"
        if hasattr(torch._dynamo.config, "recompile_limit")
        else "cache_size_limit"
    )
    with torch._dynamo.config.patch({limit: 1}):
        for size in range(2, 14):
            check_static(case("copies", tensor(size), backend="eager"))


@pytest.mark.parametrize(
    "setting",
    [
        {"automatic_dynamic_shapes": True, "assume_static_by_default": False},
        {"suppress_errors": True},
        {"error_on_recompile": True},
    ],
)
def test_the_sessions_own_configuration_does_not_matter(setting: dict[str, Any]) -> None:
    with torch._dynamo.config.patch(setting):
        check_dynamic(case("asks_for_even", backend="aot_eager"))
        assert finding(check_static, case("no_fake", backend="aot_eager")).code


_FAKES: dict[int, Callable[[torch.Tensor], torch.Tensor]] = {0: torch.empty_like}
define("fixed_later", lambda x: x * 2, lambda x: _FAKES[0](x))


def test_a_fake_kernel_that_changed_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The backend's own caches of graphs know nothing of fake kernels."""
    check_static(case("fixed_later"))
    monkeypatch.setitem(_FAKES, 0, column_major)
    assert finding(check_static, case("fixed_later")).code.startswith("compile-")
    monkeypatch.undo()
    check_static(case("fixed_later"))


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    finding(check_dynamic, case("fixed_rows", backend="aot_eager"))
    finding(check_static, case("counts", backend="aot_eager"))
    finding(check_static, case("reads_data", backend="aot_eager"))
    check_dynamic(case("asks_for_even", backend="aot_eager"))
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")


def test_more_functions_are_compiled_than_one_code_object_may_be_compiled_anew() -> None:
    """Before 2.13, torch compiles all functions without a module within one code object."""
    with compiler_session():
        for _ in range(20):
            harness = OpHarness(case("copies"))
            function = harness.compiled("eager", dynamic=False)
            compiled = dict(harness.run(function, harness.case.inputs()).outputs)
            eager = dict(harness.case.eager.outputs)
            assert torch.equal(compiled["output"], eager["output"])


TRITON_OP = """
import torch
import triton
import triton.language as tl
from pytest_customop import customop_cases, tensor

@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)

@torch.library.triton_op("NS::double", mutates_args=())
def double(x: torch.Tensor) -> torch.Tensor:
    x = x.contiguous()
    y = torch.empty_like(x)
    if x.numel():
        grid = (triton.cdiv(x.numel(), 64),)
        torch.library.wrap_triton(kernel)[grid](x, y, x.numel(), BLOCK=64)
    return y

@double.register_kernel("cpu")
def _(x):
    return x.contiguous() * 2

@customop_cases(double, [(tensor(5, 4),)])
def test_double(): ...
"""


@pytest.mark.skipif(torch.cuda.is_available(), reason="Triton has no driver here otherwise")
def test_a_triton_op_with_a_kernel_for_the_cpu(suite: Suite) -> None:
    """torch traces its Triton kernel on the CPU too, which is nothing that its author can change."""
    pytest.importorskip("triton")
    if not hasattr(torch.library, "triton_op"):
        pytest.skip("torch has no triton_op before 2.6")
    suite.test(TRITON_OP, ops="")
    suite.run("--customop-report=report.json", checks="compile,opcheck")
    outcomes = {record["check"]: record["outcome"] for record in suite.results()}
    assert set(outcomes.values()) == {"passed", "skipped"}
    for check in ("compile.static", "compile.dynamic", "opcheck.test_aot_dispatch_dynamic"):
        (reason,) = {r["message"] for r in suite.results() if r["check"] == check}
        assert "traces the Triton kernels of a triton_op on the CPU too" in reason
