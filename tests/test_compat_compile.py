"""What `compile.*` needs of torch's private parts: each fails when torch moves it."""

import gc
import importlib
import inspect
import linecache
import os
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo

from pytest_customop import compat


def _add(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def _add_by_another(x: torch.Tensor) -> torch.Tensor:
    return _add(x)  # an object that a guard looks at


def _fresh(function: Any = _add) -> Any:
    return type(_add)(function.__code__.replace(), globals(), "added")


def test_a_counting_backend_counts_and_computes() -> None:
    backend = compat.counting_backend("eager")
    with compat.compile_session():
        compiled = compat.compile_whole(_fresh(), backend, dynamic=False)
        for size in (3, 3, 4):
            assert torch.equal(compiled(torch.zeros(size)), torch.ones(size))
    assert backend.graphs == 2


def test_a_marked_size_may_vary_and_another_may_not() -> None:
    backend = compat.counting_backend("eager")
    with compat.compile_session():
        compiled = compat.compile_whole(_fresh(), backend)
        for rows, columns, graphs in ((3, 5, 1), (4, 5, 1), (4, 6, 2)):
            x = torch.zeros(rows, columns)
            compat.maybe_mark_dynamic(x, 0)
            compiled(x)
            assert backend.graphs == graphs


def test_a_refused_recompile_names_its_guard() -> None:
    with compat.compile_session():
        compiled = compat.compile_whole(_fresh(), compat.counting_backend("eager"), dynamic=False)
        compiled(torch.zeros(3))
        with (
            compat.recompiles_raise(),
            pytest.raises(Exception, match="size mismatch") as caught,
        ):
            compiled(torch.zeros(4))
    assert type(caught.value).__name__ == "RecompileError"
    assert "tensor '" in str(caught.value)


def test_every_setting_exists_under_one_of_its_names() -> None:
    """A setting that this torch does not know is left out silently: its name may have changed."""
    old = {"cache_size_limit": "recompile_limit"}
    late = {  # not in torch 2.4
        "automatic_dynamic_local_pgo",
        "automatic_dynamic_remote_pgo",
        "caching_precompile",
        "enable_autograd_cache",
        "enable_remote_autograd_cache",
        "error_on_custom_op_aliasing",
        "fail_on_cache_limit_hit",
        "fail_on_recompile_limit_hit",
        "recompile_limit",
        "run_gc_after_compile",
    }
    early = tuple(map(int, torch.__version__.split(".")[:2])) < (2, 13)
    for module, wanted in compat.compiler._COMPILE_CONFIG.items():
        config = importlib.import_module(module)
        for name in wanted:
            known = hasattr(config, name) or hasattr(config, old.get(name, name))
            assert known or (early and name in late), f"{module}.{name}"


def test_a_session_sets_its_configuration_and_puts_it_back() -> None:
    config = torch._dynamo.config
    with config.patch(automatic_dynamic_shapes=True, suppress_errors=True):
        with compat.compile_session():
            assert not config.automatic_dynamic_shapes
            assert not config.suppress_errors
            assert config.capture_dynamic_output_shape_ops
        assert config.automatic_dynamic_shapes
        assert config.suppress_errors


def test_a_session_leaves_no_state() -> None:
    utils = torch._dynamo.utils
    backends = set(torch._dynamo.eval_frame.cached_backends)
    failures, stats = set(utils.guard_failures), dict(utils.counters["stats"])
    pgo = sys.modules.get("torch._dynamo.pgo")
    profile = set(getattr(pgo, "_CODE_STATE", None) or ())
    with compat.compile_session():
        compiled = compat.compile_whole(_fresh(), compat.counting_backend("eager"), dynamic=False)
        for size in (3, 4):
            compiled(torch.zeros(size))
        assert set(torch._dynamo.eval_frame.cached_backends) != backends
        assert dict(utils.counters["stats"]) != stats
    assert set(torch._dynamo.eval_frame.cached_backends) == backends
    assert set(utils.guard_failures) == failures
    assert dict(utils.counters["stats"]) == stats
    assert set(getattr(pgo, "_CODE_STATE", None) or ()) == profile


def _compile_once(function: Any) -> None:
    with compat.compile_session():
        compat.compile_whole(function, compat.counting_backend("eager"))(torch.zeros(3))


def test_a_session_forgets_what_it_compiled() -> None:
    _compile_once(_fresh())  # torch itself keeps the first code object that a process compiles
    function = _fresh()
    _compile_once(function)
    code = weakref.ref(function.__code__)
    del function
    gc.collect()
    assert code() is None


def test_a_session_keeps_no_source_of_graphs_but_those_from_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.graph_module import _loader

    torch.fx.symbolic_trace(_fresh())  # the user's own
    before = set(_loader.eval_cache)
    assert before
    for kept in (10**6, 0):
        monkeypatch.setattr("pytest_customop.compat.traces._FAKES_KEPT", kept)
        with compat.compile_session():
            compat.compile_whole(_fresh(), compat.counting_backend("aot_eager"))(torch.zeros(3))
            made = set(_loader.eval_cache) - before
            assert made
            assert made <= set(linecache.cache)
            assert FakeTensorMode.cache
        assert set(_loader.eval_cache) == before
        assert not made & set(linecache.cache)
        assert bool(FakeTensorMode.cache) == bool(kept)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch 2.13 itself
def test_a_session_keeps_no_module_that_inductor_wrote() -> None:
    def written() -> tuple[list[str], list[str]]:
        codecache = importlib.import_module("torch._inductor.codecache")
        prefix = "torch._inductor.runtime.compile_tasks."
        names = [name for name in sys.modules if name.startswith(prefix)]
        return names, list(codecache.PyCodeCache.linemaps)

    function, before = _fresh(), written()
    with compat.compile_session():
        compiled = compat.compile_whole(function, compat.counting_backend("inductor"))
        compiled(torch.zeros(3))
        compat.keep_compiled(function)
        assert written() != before
    assert written() == before
    assert torch.equal(compiled(torch.zeros(3)), torch.ones(3))  # runs without
    compat.forget_compiled(function)


def _alive(*names: str) -> list[int]:
    gc.collect()
    kinds = [type(one).__name__ for one in gc.get_objects()]
    return [kinds.count(name) for name in names]


def test_a_session_lets_go_of_guards_and_shape_environments() -> None:
    names = ("CheckFunctionManager", "ShapeEnv", "FakeTensorMode")

    def compile_once() -> None:
        with compat.compile_session():
            x = torch.zeros(3, 4)
            compat.maybe_mark_dynamic(x, 0)
            compiled = compat.compile_whole(
                _fresh(_add_by_another), compat.counting_backend("aot_eager")
            )
            assert torch.equal(compiled(x), x + 1)
            assert _alive("CheckFunctionManager")[0]

    compile_once()
    before = _alive(*names)
    for _ in range(3):
        compile_once()
    assert _alive(*names) == before


stores = pytest.mark.skipif(not compat.GRAPHS_ARE_STORED, reason="torch's keys take no tag here")


def _double_sine(x: torch.Tensor) -> torch.Tensor:
    return x.sin() * 2


@stores
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch 2.13 itself
def test_graphs_on_disk_are_taken_by_their_tag_and_nothing_of_them_is_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from torch._inductor.codecache import FxGraphCachePickler
    from torch.compiler._cache import CacheArtifactManager

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))

    def compile_once(tag: str) -> int:
        with compat.compile_session(), compat.graphs_on_disk(tag) as taken:
            function = _fresh(_double_sine)
            compiled = compat.compile_whole(function, compat.counting_backend("inductor"))
            assert torch.equal(compiled(torch.zeros(3)), torch.zeros(3))
            return taken()

    assert compile_once("one") == 0
    kept = (
        FxGraphCachePickler._pickleable_type_cache,
        CacheArtifactManager._seen_artifacts,
        torch._dynamo.utils.get_metrics_context()._edits,
    )
    before = [len(each) for each in kept]
    assert compile_once("two") == 0
    assert compile_once("one") > 0
    assert [len(each) for each in kept] == before
    assert torch.compiler.config.cache_key_tag == ""


@stores
def test_is_compiling_is_true_where_it_is_asked_to_be() -> None:
    assert not torch.compiler.is_compiling()
    with compat.compiling_flag_set():
        assert torch.compiler.is_compiling()
    assert not torch.compiler.is_compiling()


@stores
def test_what_compilers_are_told_of_an_op_has_its_schema_tags_and_overloads() -> None:
    torch.library.define(
        "stored_told::op", "(Tensor x) -> Tensor", tags=(torch.Tag.needs_fixed_stride_order,)
    )
    torch.library.define("stored_told::op.other", "(Tensor x, int by) -> Tensor")
    told = compat.op_fingerprint(torch.ops.stored_told.op.default)
    for part in ("(Tensor x) -> Tensor", "needs_fixed_stride_order", "op.other"):
        assert part in told


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
def test_the_code_of_functions_that_stand_in_for_an_op_is_told(way: str) -> None:
    told = []
    for index, fake in enumerate(_fake_kernels()):
        name = f"stored_code::{way}{index}"
        if way == "custom_op":
            defined = torch.library.custom_op(name, lambda x: x + 1, mutates_args=(), schema=SCHEMA)
            defined.register_fake(fake)
        else:
            torch.library.define(name, SCHEMA)
            torch.library.register_fake(name, fake)
        overload = getattr(torch.ops.stored_code, f"{way}{index}").default
        told.append(compat.op_fingerprint(overload).replace(name, "op"))
    assert told[0] == told[1] != told[2]


def test_code_is_told_alike_in_every_process() -> None:
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

    torch.library.register_torch_dispatch(op, FunctionalTensorMode, lambda *given: None)


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
def test_rules_by_which_an_op_is_compiled_are_seen(rule: Any) -> None:
    name = f"stored_rules::op{rule.__name__}"
    torch.library.define(name, "(Tensor x) -> Tensor")
    op = getattr(torch.ops.stored_rules, f"op{rule.__name__}").default
    rule(op)
    assert compat.has_custom_lowering(op) == (rule is not _no_rule)


@stores
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch 2.13 itself
def test_an_op_that_inductor_only_calls_is_compiled_by_no_rule() -> None:
    @torch.library.custom_op("stored_rules::called", mutates_args=())
    def called(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    called.register_fake(torch.empty_like)
    op = torch.ops.stored_rules.called.default
    assert not compat.has_custom_lowering(op)
    with compat.compile_session():
        compiled = compat.compile_whole(lambda x: op(x), compat.counting_backend("inductor"))
        assert torch.equal(compiled(torch.zeros(3)), torch.ones(3))
    assert op in importlib.import_module("torch._inductor.lowering").lowerings
    assert not compat.has_custom_lowering(op)


def test_a_session_keeps_the_guards_of_a_graph_that_stays() -> None:
    function, backend = _fresh(_add_by_another), compat.counting_backend("eager")
    (before,) = _alive("CheckFunctionManager")
    with compat.compile_session():
        compiled = compat.compile_whole(function, backend)
        compiled(torch.zeros(3))
        compat.keep_compiled(function)
    assert _alive("CheckFunctionManager") == [before + 1]
    assert torch.equal(compiled(torch.zeros(3)), torch.ones(3))
    assert backend.graphs == 1
    compat.forget_compiled(function)
