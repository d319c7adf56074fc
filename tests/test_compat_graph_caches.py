"""`graph_caches`: each test fails when torch moves what it uses."""

import importlib
import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo

from pytest_customop.compat import graph_caches
from pytest_customop.compat.compiler import compile_session, compile_whole, counting_backend
from pytest_customop.compat.graph_caches import (
    GRAPHS_ARE_STORED,
    compiling_flag_set,
    graphs_on_disk,
    has_custom_lowering,
    op_fingerprint,
)

stores = pytest.mark.skipif(not GRAPHS_ARE_STORED, reason="torch's keys take no tag here")


def _double_sine(x: torch.Tensor) -> torch.Tensor:
    return x.sin() * 2


@stores
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch 2.13 itself
def test_graphs_on_disk_are_found_by_their_tag_and_nothing_of_them_is_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from torch._inductor.codecache import FxGraphCachePickler
    from torch.compiler._cache import CacheArtifactManager

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))

    def compile_once(tag: str) -> int:
        with compile_session(), graphs_on_disk(tag) as taken:
            function = type(_double_sine)(_double_sine.__code__.replace(), globals(), "fresh")
            compiled = compile_whole(function, counting_backend("inductor"))
            assert torch.equal(compiled(torch.zeros(3)), torch.zeros(3))
            return taken()

    assert compile_once("one") == 0
    kept = (
        FxGraphCachePickler._pickleable_type_cache,
        CacheArtifactManager._seen_artifacts,
        torch._dynamo.utils.get_metrics_context()._edits,
    )
    before = [len(cache) for cache in kept]
    assert compile_once("two") == 0
    assert compile_once("one") > 0
    assert [len(cache) for cache in kept] == before
    monkeypatch.setattr(graph_caches, "vector_instructions", lambda: ["others"])
    assert compile_once("one") == 0  # its C++ would not compile with these
    assert torch.compiler.config.cache_key_tag == ""


@stores
def test_is_compiling_is_true_where_it_is_asked_to_be() -> None:
    assert not torch.compiler.is_compiling()
    with compiling_flag_set():
        assert torch.compiler.is_compiling()
    assert not torch.compiler.is_compiling()


@stores
def test_the_fingerprint_of_an_op_has_its_schema_tags_and_overloads() -> None:
    torch.library.define(
        "stored_fingerprint::op", "(Tensor x) -> Tensor", tags=(torch.Tag.needs_fixed_stride_order,)
    )
    torch.library.define("stored_fingerprint::op.other", "(Tensor x, int by) -> Tensor")
    fingerprint = op_fingerprint(torch.ops.stored_fingerprint.op.default)
    for part in ("(Tensor x) -> Tensor", "needs_fixed_stride_order", "op.other"):
        assert part in fingerprint


def _fake_kernels() -> list[Any]:
    def fake(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x)

    def same(x: torch.Tensor) -> torch.Tensor:  # on other lines
        return torch.empty_like(x)

    def other(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x) if x.is_contiguous() else torch.zeros_like(x)

    return [fake, same, other]


@stores
@pytest.mark.parametrize("way", ["custom_op", "register_fake"])
def test_the_fingerprint_of_an_op_has_the_code_of_its_python_functions(way: str) -> None:
    fingerprints = []
    for index, fake in enumerate(_fake_kernels()):
        name = f"stored_code::{way}{index}"
        if way == "custom_op":
            defined = torch.library.custom_op(name, lambda x: x + 1, mutates_args=(), schema=SCHEMA)
            defined.register_fake(fake)
        else:
            torch.library.define(name, SCHEMA)
            torch.library.register_fake(name, fake)
        overload = getattr(torch.ops.stored_code, f"{way}{index}").default
        fingerprints.append(op_fingerprint(overload).replace(name, "op"))
    assert fingerprints[0] == fingerprints[1] != fingerprints[2]


def test_code_has_one_text_in_every_process() -> None:
    source = "from pytest_customop.compat.graph_caches import _text_of\n" + inspect.cleandoc(
        """
        def kernel(x):
            return x in {"a", "b", "c", "d"}, [y for y in (1, ("e", 2.0))]

        print(_text_of(kernel.__code__))
        """
    )
    environment = {**os.environ, "PYTHONHASHSEED": "random"}
    printed = {
        subprocess.run(
            [sys.executable, "-c", source], env=environment, capture_output=True, check=True
        ).stdout
        for _ in range(2)
    }
    assert len(printed) == 1
    assert all(b"'%c'" % letter in next(iter(printed)) for letter in b"abcde")


SCHEMA = "(Tensor x) -> Tensor"


def _no_rule(op: Any) -> None:
    del op


def _dispatch_rule(op: Any) -> None:
    from torch._subclasses.functional_tensor import FunctionalTensorMode

    torch.library.register_torch_dispatch(op, FunctionalTensorMode, lambda *args: None)


def _decomposition(op: Any) -> None:
    torch._decomp.register_decomposition(op)(lambda x: x)


def _inductor_decomposition(op: Any) -> None:
    from torch._inductor.decomposition import decompositions

    decompositions[op] = lambda x: x


def _lowering(op: Any) -> None:
    from torch._inductor.lowering import register_lowering

    register_lowering(op)(lambda x: x)


def _effect(op: Any) -> None:
    from torch._library.effects import EffectType

    entry = torch._library.simple_registry.singleton.find(op.name())
    entry.effect.register(EffectType.ORDERED)


def _kernel_for_functionalization(op: Any) -> None:
    op.py_impl(torch._C.DispatchKey.Functionalize)(lambda x: x)


RULES = [
    _no_rule,
    _dispatch_rule,
    _decomposition,
    _inductor_decomposition,
    _lowering,
    _effect,
    _kernel_for_functionalization,
]


@stores
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_rule_of_a_compiler_for_an_op_is_a_custom_lowering(rule: Any) -> None:
    name = f"stored_rules::op{rule.__name__}"
    torch.library.define(name, "(Tensor x) -> Tensor")
    op = getattr(torch.ops.stored_rules, f"op{rule.__name__}").default
    rule(op)
    assert has_custom_lowering(op) == (rule is not _no_rule)


@stores
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch 2.13 itself
def test_an_op_that_inductor_only_calls_has_no_custom_lowering() -> None:
    @torch.library.custom_op("stored_rules::called", mutates_args=())
    def called(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    called.register_fake(torch.empty_like)
    op = torch.ops.stored_rules.called.default
    assert not has_custom_lowering(op)
    with compile_session():
        compiled = compile_whole(lambda x: op(x), counting_backend("inductor"))
        assert torch.equal(compiled(torch.zeros(3)), torch.ones(3))
    assert op in importlib.import_module("torch._inductor.lowering").lowerings
    assert not has_custom_lowering(op)
