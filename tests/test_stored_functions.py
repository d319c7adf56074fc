"""Functions on disk: a later group loads them, and never where it would be compiled to another one."""

from __future__ import annotations

import os
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from bending import bending
from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table

from pytest_customop import Check, tensor
from pytest_customop.cases.case import Case
from pytest_customop.checks import builtin_checks
from pytest_customop.checks.compile import group_run
from pytest_customop.compat import stored_functions
from pytest_customop.compat.compiler import compile_session
from pytest_customop.compat.stored_functions import (
    compile_and_store,
    compiler_fingerprint,
    functions_are_stored,
    load_function,
)
from pytest_customop.declare.declaration import declare_call
from pytest_customop.plan.matrix import plan
from pytest_customop.run.engine import run_check
from pytest_customop.settings import Settings, Variants

CHECKS = [check for check in builtin_checks() if check.prepare is not None]
STATIC = next(check for check in CHECKS if check.name == "compile.static")

pytestmark = pytest.mark.skipif(
    not functions_are_stored(), reason="torch stores no functions here, or no keys can be made"
)


class Bent:
    """What the op below does now; each value may be changed between two sessions."""

    factor = 2.0
    when_compiling = False
    keeps_sizes = False
    transposed = False
    wrong_kernel = False


@pytest.fixture(autouse=True)
def bent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Changes what the op does; at first it is right, and nothing is stored."""
    return bending(monkeypatch, tmp_path, Bent)


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each group that could have a stored function, whether there was one."""
    seen: list[bool] = []

    def load(key: str, function: Any) -> Any:
        stored = load_function(key, function)
        seen.append(stored is not None)
        return stored

    monkeypatch.setattr(group_run, "load_function", load)
    return seen


@torch.library.custom_op("stored_functions::double", mutates_args=())
def double(x: torch.Tensor, by: float = 2.0) -> torch.Tensor:
    scaled = x * by
    return scaled.t().contiguous().t() if Bent.wrong_kernel and x.dim() == 2 else scaled


@double.register_fake
def _(x: torch.Tensor, by: float = 2.0) -> torch.Tensor:
    if Bent.transposed and x.dim() == 2:
        return x.new_empty(tuple(reversed(x.shape))).t()
    return torch.empty_like(x)


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.rows = inputs[0].shape[0]


def _backward(ctx: Any, grad: torch.Tensor) -> Any:
    if Bent.when_compiling and torch.compiler.is_compiling():
        return grad * 5, None
    rows = int(ctx.rows) if Bent.keeps_sizes else ctx.rows
    return grad * Bent.factor * grad.new_ones(rows, *grad.shape[1:]), None


double.register_autograd(_backward, setup_context=_setup)


def _outcomes(check: Check, *arguments: tuple[Any, ...]) -> list[tuple[str, Any]]:
    """What a session would say of a mark with these samples, or with two usual ones."""
    samples = list(arguments or ((tensor(3, 4),), (tensor(5, 2, 3),)))
    planned = plan(
        [declare_call({"op": double, "samples": samples, "requires_grad": True}, "here")],
        Settings(variants=Variants("off")),
        lambda _: [check],
        lambda device: None,
    )
    cases: list[Case] = [item.case for item in planned if item.check and item.case]
    assert check.prepare is not None
    check.prepare([cases])
    results = [run_check(check, case) for case in cases]
    return [(result.outcome, result.finding) for result in results]


PASSED = [("passed", None)] * 2
each_check = pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)


@each_check
def test_a_later_session_loads_its_function(check: Check, loaded: list[bool]) -> None:
    for _ in range(2):
        assert _outcomes(check) == PASSED
    assert loaded == [False, True]


# What is changed, and which checks find it.
CHANGES = {
    "transposed": (True, {"compile.static", "compile.dynamic"}),
    "factor": (4.0, set()),  # with it, eager mode changes too
    "when_compiling": (True, {"compile.static", "compile.dynamic"}),
    "keeps_sizes": (True, {"compile.dynamic"}),
}


@each_check
@pytest.mark.parametrize("name", CHANGES)
def test_a_function_is_not_that_of_an_op_that_has_changed(
    name: str, check: Check, bent: Callable[..., None], loaded: list[bool]
) -> None:
    before = getattr(Bent, name)
    value, finders = CHANGES[name]
    assert _outcomes(check) == PASSED
    bent(**{name: value})
    assert (_outcomes(check) != PASSED) == (check.name in finders)
    # With static sizes, a backward that keeps sizes is the same function.
    assert loaded == [False, (name, check.name) == ("keeps_sizes", "compile.static")]
    bent(**{name: before})
    assert _outcomes(check) == PASSED
    assert loaded[-1]


@each_check
def test_a_kernel_that_has_become_wrong_fails_in_a_stored_function(
    check: Check, bent: Callable[..., None], loaded: list[bool]
) -> None:
    assert _outcomes(check) == PASSED
    bent(wrong_kernel=True)  # tracing the op does not show it
    outcomes = _outcomes(check)
    assert [outcome for outcome, _ in outcomes] == ["failed", "passed"]
    assert loaded == [False, True]
    assert _outcomes(check) == outcomes
    assert loaded == [False, True, False]  # what fails leaves nothing


@each_check
def test_other_constants_and_dtypes_are_other_functions(check: Check, loaded: list[bool]) -> None:
    assert _outcomes(check) == PASSED
    samples = ((tensor(3, 4), 3.0), (tensor(5, 2, 3),))
    assert _outcomes(check, *samples) == PASSED
    wide = [(tensor(*shape, dtype=torch.float64),) for shape in ((3, 4), (5, 2, 3))]
    assert _outcomes(check, *wide) == PASSED
    assert loaded == [False] * 3


@each_check
def test_a_stored_function_that_disagrees_is_compiled_again(
    check: Check, monkeypatch: pytest.MonkeyPatch, bent: Callable[..., None], loaded: list[bool]
) -> None:
    monkeypatch.setattr(group_run, "function_key", lambda *args, **options: "whatever")
    assert _outcomes(check) == PASSED
    bent(factor=4.0)  # the stored function still doubles
    assert _outcomes(check) == PASSED
    assert _outcomes(check) == PASSED
    assert loaded == [False, True, True]


def test_what_fails_leaves_no_function(bent: Callable[..., None], loaded: list[bool]) -> None:
    bent(transposed=True)
    first = _outcomes(STATIC)
    assert first != PASSED
    assert _outcomes(STATIC) == first
    assert not any(loaded)


def test_a_function_that_cannot_be_stored_is_compiled_as_ever(
    monkeypatch: pytest.MonkeyPatch, loaded: list[bool]
) -> None:
    def fail(*args: Any, **options: Any) -> Any:
        raise OSError("no space left")

    monkeypatch.setattr(group_run, "compile_and_store", fail)
    assert _outcomes(STATIC) == _outcomes(STATIC) == PASSED
    assert loaded == [False, False]


def test_where_caches_are_off_for_all_nothing_is_stored(loaded: list[bool]) -> None:
    with torch.compiler.config.patch(force_disable_caches=True):
        assert _outcomes(STATIC) == PASSED
    assert loaded == []
    assert not stored_functions._path("any").parent.exists()


def _add(tensors: list[torch.Tensor]) -> torch.Tensor:
    return tensors[0] + 1


def _fresh() -> Any:
    return type(_add)(_add.__code__.replace(), {"__builtins__": __builtins__}, "added")


def test_a_function_is_stored_loaded_and_discarded() -> None:
    with compile_session():
        assert load_function("one", _fresh()) is None
        first = compile_and_store("one", _fresh(), [torch.zeros(3)], dynamic=False)
        second = load_function("one", _fresh())
        for function in (first, second):
            assert torch.equal(function([torch.zeros(3)]), torch.ones(3))
            with pytest.raises(RuntimeError, match="size mismatch"):
                function([torch.zeros(4)])
        assert os.listdir(stored_functions._path("one").parent) == ["one"]
        stored_functions.discard_function("one")
        assert load_function("one", _fresh()) is None


def test_triton_kernels_of_the_process_are_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = types.SimpleNamespace(fn=types.SimpleNamespace(__module__="gone", __name__="kernel"))
    monkeypatch.setattr(kernel_side_table, "id_to_kernel", {0: kernel})
    monkeypatch.setattr(kernel_side_table, "constant_args", {0: {"block": 16}})
    with compile_session():
        compile_and_store("one", _fresh(), [torch.zeros(3)], dynamic=False)
        assert kernel_side_table.id_to_kernel == {0: kernel}
        assert load_function("one", _fresh()) is not None
    assert kernel_side_table.id_to_kernel == {0: kernel}
    assert kernel_side_table.constant_args == {0: {"block": 16}}


def test_a_broken_file_is_removed() -> None:
    path = stored_functions._path("one")
    path.parent.mkdir(parents=True)
    path.write_bytes(b"half")
    assert load_function("one", _fresh()) is None
    assert not path.exists()


def test_nothing_is_kept_of_functions_that_are_gone() -> None:
    from torch._dynamo.precompile_context import PrecompileContext

    before = len(PrecompileContext._backend_artifacts_by_key)
    with compile_session():
        compile_and_store("one", _fresh(), [torch.zeros(3)], dynamic=False)
    assert len(PrecompileContext._backend_artifacts_by_key) == before


def test_the_compiler_has_one_fingerprint_in_every_process_and_another_with_other_settings() -> (
    None
):
    source = "\n".join(
        (
            "from pytest_customop.compat.compiler import compile_session",
            "from pytest_customop.compat.stored_functions import compiler_fingerprint",
            "with compile_session():",
            "    print(compiler_fingerprint())",
        )
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", source],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(printed) == 1
    first = compiler_fingerprint()
    with torch._inductor.config.patch(size_asserts=False):
        assert compiler_fingerprint() != first
    assert compiler_fingerprint() == first
