"""What `compat` replaces in torch: each name is still called, and everything is put back."""

from __future__ import annotations

import platform
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch._dynamo.guards
import torch._inductor.config
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from pytest_customop.compat import patches
from pytest_customop.compat.compiler import compile_session, compile_whole, counting_backend
from pytest_customop.compat.fakes import fake_mode
from pytest_customop.compat.version import TORCH


def test_torch_makes_shape_environments_by_the_patched_name() -> None:
    original = ShapeEnv.__init__
    with patches.shape_environments_made() as references:
        environment = ShapeEnv()
        mode = fake_mode()
    assert [reference() for reference in references] == [environment, mode.shape_env]
    assert ShapeEnv.__init__ is original


def test_compiling_makes_shape_environments_by_the_patched_name() -> None:
    with patches.shape_environments_made() as references, compile_session():
        compile_whole(lambda x: x + 1, counting_backend("eager"))(torch.zeros(3))
        assert references == []  # the innermost block has them
    with compile_session(), patches.shape_environments_made() as references:
        compile_whole(lambda x: x + 1, counting_backend("eager"))(torch.zeros(3))
        assert references


@pytest.mark.skipif(TORCH < (2, 13), reason="dynamo does not measure guards in torch 2.4")
def test_dynamo_measures_guards_by_the_patched_name(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = []
    guards = torch._dynamo.guards
    monkeypatch.setattr(guards, "profile_guard_manager", lambda *args: measured.append(args) or 0.0)

    def compile_once() -> None:
        compiled = torch.compile(lambda x: x + 1, backend="eager")
        compiled(torch.zeros(3))

    compile_once()
    assert measured
    measured.clear()
    with patches.guards_unmeasured():
        compile_once()
    assert not measured
    torch._dynamo.reset()


class _Largest(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        largest = x.amax()
        ctx.mark_non_differentiable(largest)
        return largest


def test_formulas_mark_outputs_by_the_patched_name() -> None:
    original = torch.autograd.function.FunctionCtx.mark_non_differentiable
    x = torch.ones(3, requires_grad=True)
    with patches.marked_non_differentiable() as marked:
        output = _Largest.apply(x)
    assert [tensor.item() for tensor in marked] == [1.0]
    assert not output.requires_grad
    assert torch.autograd.function.FunctionCtx.mark_non_differentiable is original


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="nothing is replaced")
def test_inductor_looks_for_vector_instructions_by_the_patched_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sets = patches._instruction_sets()
    searches: list[str] = []
    monkeypatch.setattr(sets, "valid_vec_isa_list", lambda: searches.append("one") or [])
    with torch._inductor.config.patch({"cpp.vec_isa_ok": None}):
        assert not sets.pick_vec_isa()
        assert searches
        searches.clear()
        with compile_session():
            assert not sets.pick_vec_isa()
        assert not searches
    with torch._inductor.config.patch({"cpp.vec_isa_ok": True}), compile_session():
        assert not sets.pick_vec_isa()
    assert searches, "they were asked for"


# ------------------------------------------------------------------------------ one patch, by itself


@pytest.fixture
def owner() -> Any:
    return SimpleNamespace(function=lambda x: x)


@pytest.fixture
def patch(owner: Any) -> patches._Patch:
    def call(original: Callable[[int], int], value: int, x: int) -> int:
        return original(x) + value

    return patches._Patch(lambda: owner, "function", call)


def test_blocks_nest_and_the_function_is_put_back(owner: Any, patch: patches._Patch) -> None:
    original = owner.function
    with patch.block(10):
        with patch.block(100):
            assert owner.function(1) == 101
        assert owner.function(1) == 11
    assert owner.function is original


def test_an_exception_puts_the_function_back(owner: Any, patch: patches._Patch) -> None:
    original = owner.function
    with pytest.raises(KeyError), patch.block(10):
        raise KeyError
    assert owner.function is original


def test_a_name_that_torch_does_not_have_is_left_alone(owner: Any, patch: patches._Patch) -> None:
    del owner.function
    with patch.block(10):
        assert not vars(owner)


def test_threads_do_not_see_each_other(owner: Any, patch: patches._Patch) -> None:
    original = owner.function
    seen: list[int] = []
    opened, closed = threading.Event(), threading.Event()

    def work() -> None:
        seen.append(owner.function(1))  # the other thread's block is open
        with patch.block(100):
            opened.set()
            closed.wait(10)
            seen.append(owner.function(1))  # the block that put it in place is closed

    with patch.block(10):
        thread = threading.Thread(target=work)
        thread.start()
        opened.wait(10)
        assert owner.function(1) == 11
    assert owner.function(1) == 1
    assert owner.function is not original
    closed.set()
    thread.join()
    assert seen == [1, 101]
    assert owner.function is original


def test_a_patch_of_another_library_stays(owner: Any, patch: patches._Patch) -> None:
    original = owner.function
    with patch.block(10):
        below = owner.function
        owner.function = foreign = lambda x: 1000 * below(x)
        assert owner.function(1) == 11_000
    assert owner.function is foreign
    assert owner.function(1) == 1000
    with patch.block(10):
        assert owner.function(1) == 11_000
    owner.function = below  # the foreign patch is removed
    with patch.block(10):
        assert owner.function(1) == 11
    assert owner.function is original


def test_many_threads_leave_nothing(owner: Any, patch: patches._Patch) -> None:
    original = owner.function
    wrong = []

    def work(number: int) -> None:
        for _ in range(200):
            with ExitStack() as stack:
                stack.enter_context(patch.block(number))
                if owner.function(1) != 1 + number:
                    wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert owner.function is original


def _assignments() -> Iterator[str]:
    import ast

    from pytest_customop.core.paths import PACKAGE_ROOT

    for path in PACKAGE_ROOT.rglob("*.py"):
        if path.name == "patches.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            targets = node.targets if isinstance(node, ast.Assign) else []
            for target in targets:
                if isinstance(target, ast.Attribute) and target.attr in (
                    "__init__",
                    "profile_guard_manager",
                    "mark_non_differentiable",
                ):
                    yield f"{path.relative_to(PACKAGE_ROOT)}:{node.lineno}"


def test_no_other_module_patches_torch() -> None:
    assert list(_assignments()) == []
