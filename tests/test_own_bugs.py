"""A mistake in the package is an error of the check, and never something about the op."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from pytest_customop import Check, check_op, fail, tensor
from pytest_customop.cases import case as cases
from pytest_customop.cases import fake_contract, fake_run
from pytest_customop.cases.arguments import Arguments, Placement
from pytest_customop.cases.tensors import largest_magnitude
from pytest_customop.checks.backward import vjp
from pytest_customop.checks.compile import disk_cache, eager
from pytest_customop.checks.compile.harness import OP_ONLY, OpHarness
from pytest_customop.checks.reference import gradients as reference_gradients
from pytest_customop.checks.reference import values as reference_values
from pytest_customop.checks.vmap import loop as vmap
from pytest_customop.checks.vmap.batch import Batch
from pytest_customop.core.paths import PACKAGE_ROOT
from pytest_customop.core.tracebacks import is_own_bug, reraise_bug
from pytest_customop.declare import ops
from pytest_customop.declare.inputs import Sample
from pytest_customop.run import engine

_numbers = itertools.count()


def define(kernel: Any = torch.sin, backward: Any = None) -> str:
    name = f"t_own_bugs::op_{next(_numbers)}"
    op = torch.library.custom_op(
        name, lambda x: kernel(x).clone(), mutates_args=(), schema="(Tensor x) -> Tensor"
    )
    op.register_fake(torch.empty_like)
    op.register_autograd(
        backward or (lambda ctx, grad: grad * ctx.x.cos()),
        setup_context=lambda ctx, inputs, output: setattr(ctx, "x", inputs[0]),
    )
    return name


def make_case(name: str, *, grad: bool = False, **fields: Any) -> cases.Case:
    placement = Placement("cpu", torch.float32, grad, "contiguous")
    return cases.Case(
        ops.resolve(name), Sample((tensor(3, requires_grad=grad),)), placement, **fields
    )


def raised_by(call: Any) -> BaseException:
    with pytest.raises(Exception) as caught:  # noqa: PT011 -- which one is the question
        call()
    return caught.value


# --------------------------------------------------------------------------- what a mistake is


def test_what_the_op_raises_is_no_mistake_of_the_package() -> None:
    def kernel(x: torch.Tensor) -> Any:
        return x.no_such_method()

    assert not is_own_bug(raised_by(lambda: ops.resolve(define(kernel))(torch.ones(3))))
    assert not is_own_bug(raised_by(lambda: ops.resolve("aten::relu")("no tensor")))


def test_what_the_package_raises_on_purpose_is_no_mistake() -> None:
    assert not is_own_bug(raised_by(lambda: ops.resolve("no::op")))
    assert not is_own_bug(raised_by(lambda: vjp.Reference.of(make_case(define()))))


def test_what_torch_cannot_do_is_no_mistake() -> None:
    # The call is written in C++, so the last frame is one of the package.
    error = raised_by(lambda: largest_magnitude(torch.ones(3, dtype=torch.float8_e5m2)))
    assert isinstance(error, RuntimeError)
    assert not is_own_bug(error)


def test_errors_from_pythons_own_library_belong_to_their_caller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = make_case(define())
    monkeypatch.setattr(cases.Sample, "__init__", lambda self: None)
    error = raised_by(lambda: case.resized(lambda path, dim, size: size + 1))
    assert is_own_bug(error)
    with pytest.raises(type(error)):
        reraise_bug(error)


# -------------------------------------------------------------------------- where it is reported


@pytest.mark.parametrize("check", ["fake.forward", "values.repeat", "backward.linear"])
def test_a_mistake_in_the_call_of_an_op_is_an_error(
    check: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Arguments, "call", None)
    (result,) = check_op(define(), [(tensor(3, requires_grad=True),)], checks=check)[-1:]
    assert result.outcome == "error"
    assert "the check broke: TypeError: 'NoneType' object is not callable" in result.message


def test_a_mistake_while_a_defect_is_confirmed_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(case: cases.Case) -> None:
        if case.base_case is None:
            monkeypatch.setattr(Arguments, "call", None)
            case.run(case.inputs())
        raise fail("own-finding", "wrong")

    base = make_case(define())
    variant = make_case(define(), base_case=base, variant_description="x halved")
    result = engine.run_check(Check("own.check", "a check", check), variant)
    assert (result.outcome, "the check broke" in result.message) == ("error", True)


def widened_comparison() -> Any:
    case = make_case(define(), grad=True)
    expected = eager.run_eager(OpHarness(case, OP_ONLY), case)
    return lambda: expected.wide


def vmapped_in_double() -> Any:
    case = make_case(define())
    batch = Batch.of(case)
    return lambda: vmap._exact(batch, (0,), 0)


def reference_in_double() -> Any:
    case = make_case(define(), reference=torch.sin)
    return lambda: reference_values._exact_outputs(case, [])


def reference_gradient_in_double() -> Any:
    case = make_case(define(), grad=True, reference=torch.sin)
    gradient = torch.ones(3)
    return lambda: reference_gradients._gradient_difference(case, "x", gradient, gradient + 1, [])


def faked() -> Any:
    case = make_case(define())
    return lambda: fake_run.fake_run(case.inputs())


def sized_by_data() -> Any:
    case = make_case(define())
    return lambda: fake_contract.data_dependent(case.inputs())


def gradients_of_a_graph() -> Any:
    case = make_case(define(), grad=True)
    return lambda: vjp.Reference.of(case)


def key_of_a_graph() -> Any:
    case = make_case(define())
    harness = OpHarness(case, OP_ONLY)
    return lambda: disk_cache.tag_of(harness, case)


@pytest.mark.parametrize(
    ("prepare", "module", "name"),
    [
        (widened_comparison, eager.OpHarness, "run"),
        (vmapped_in_double, vmap, "_loop"),
        (reference_in_double, reference_values, "call_reference"),
        (reference_gradient_in_double, reference_gradients, "_differentiable_call"),
        (faked, Arguments, "call"),
        (sized_by_data, fake_contract, "_fake_result"),
        (gradients_of_a_graph, vjp, "gradients"),
        (key_of_a_graph, eager.OpHarness, "run"),
    ],
)
def test_a_mistake_is_not_taken_for_what_an_op_does(
    prepare: Any, module: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = prepare()
    call() if prepare is not reference_gradient_in_double else None
    call = prepare()
    monkeypatch.setattr(module, name, None)
    with pytest.raises(TypeError, match="'NoneType' object is not callable"):
        call()


def test_an_op_that_takes_no_float64_is_not_judged_there() -> None:
    def kernel(x: torch.Tensor) -> torch.Tensor:
        if x.dtype == torch.float64:
            raise TypeError("float32 only")
        return x.sin()

    case = make_case(define(kernel), grad=True, reference=kernel)
    assert eager.run_eager(OpHarness(case, OP_ONLY), case).wide is None
    assert reference_values._exact_outputs(case, []) == {}
    batch = Batch.of(make_case(define(kernel)))
    assert vmap._exact(batch, (0,), 0) is None


# ---------------------------------------------------------------------------- every handler


def handlers() -> Iterator[tuple[str, ast.ExceptHandler, str]]:
    for path in sorted(PACKAGE_ROOT.rglob("*.py")):
        lines = path.read_text(encoding="utf-8").splitlines()
        for node in ast.walk(ast.parse("\n".join(lines))):
            if isinstance(node, ast.ExceptHandler):
                place = f"{path.relative_to(PACKAGE_ROOT)}:{node.lineno}"
                yield place, node, lines[node.lineno - 1]


def is_wide(handler: ast.ExceptHandler) -> bool:
    return handler.type is None or ast.unparse(handler.type) in ("Exception", "BaseException")


def lets_mistakes_out(handler: ast.ExceptHandler) -> bool:
    """Whether it raises everything again, or the package's own mistakes."""
    body = "\n".join(map(ast.unparse, handler.body))
    raises = any(
        isinstance(statement, ast.Raise) and statement.exc is None for statement in handler.body
    )
    return raises or "reraise_bug(" in body or "is_own_bug(" in body


def test_handlers_of_everything_say_why_and_let_mistakes_out() -> None:
    wide = [(place, node, line) for place, node, line in handlers() if is_wide(node)]
    assert len(wide) > 40
    silent = [
        place for place, node, line in wide if "#" not in line and not lets_mistakes_out(node)
    ]
    assert silent == [], "name the errors, or say in a comment on the line why any may come"
    hiding = {
        Path(place.partition(":")[0]).as_posix()
        for place, node, _ in wide
        if not lets_mistakes_out(node)
    }
    assert hiding <= CALLERS_OF_FOREIGN_CODE, "call reraise_bug first"


# They call functions of the author and of other plugins in the handled block itself. Such a function may
# be written in C, without a frame, so that what it raises looks like a mistake of the package. Or they
# hand the exception on, to another thread or process, which raises it again, or to who reports it as a
# mistake of the package.
CALLERS_OF_FOREIGN_CODE = {
    "checks/fake/kernel_devices.py",
    "checks/reference/calls.py",
    "checks/values/threads/running.py",
    "core/forked.py",
    "core/hooks.py",
    "core/tracebacks.py",
    "declare/ops.py",
    "declare/samples.py",
    "harvest/recorder.py",
    "plan/cells.py",
    "plan/samples_function.py",
    "plan/variants/ranking.py",
    "plugin/child/preloaded.py",
    "run/engine.py",
    "scan/examples.py",
}
