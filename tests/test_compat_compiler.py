"""`compiler` and `traces`: each test fails when torch moves what they use."""

import gc
import importlib
import linecache
import sys
import weakref
from typing import Any

import pytest
import torch
import torch._dynamo

from pytest_customop.compat import compiler
from pytest_customop.compat.compiler import (
    compile_session,
    compile_whole,
    counting_backend,
    forget_compiled,
    keep_compiled,
    maybe_mark_dynamic,
    recompiles_raise,
)


def _add(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def _add_by_another(x: torch.Tensor) -> torch.Tensor:
    return _add(x)  # an object that a guard looks at


def _fresh(function: Any = _add) -> Any:
    return type(_add)(function.__code__.replace(), globals(), "added")


def test_a_counting_backend_counts_and_computes() -> None:
    backend = counting_backend("eager")
    with compile_session():
        compiled = compile_whole(_fresh(), backend, dynamic=False)
        for size in (3, 3, 4):
            assert torch.equal(compiled(torch.zeros(size)), torch.ones(size))
    assert backend.graphs == 2


def test_a_marked_size_may_vary_and_another_may_not() -> None:
    backend = counting_backend("eager")
    with compile_session():
        compiled = compile_whole(_fresh(), backend)
        for rows, columns, graphs in ((3, 5, 1), (4, 5, 1), (4, 6, 2)):
            x = torch.zeros(rows, columns)
            maybe_mark_dynamic(x, 0)
            compiled(x)
            assert backend.graphs == graphs


def test_a_recompile_that_raises_names_its_guard() -> None:
    with compile_session():
        compiled = compile_whole(_fresh(), counting_backend("eager"), dynamic=False)
        compiled(torch.zeros(3))
        with (
            recompiles_raise(),
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
    for module, names in compiler._COMPILE_CONFIG.items():
        config = importlib.import_module(module)
        for name in names:
            known = hasattr(config, name) or hasattr(config, old.get(name, name))
            assert known or (early and name in late), f"{module}.{name}"


def test_a_session_sets_its_configuration_and_restores_it() -> None:
    config = torch._dynamo.config
    with config.patch(automatic_dynamic_shapes=True, suppress_errors=True):
        with compile_session():
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
    with compile_session():
        compiled = compile_whole(_fresh(), counting_backend("eager"), dynamic=False)
        for size in (3, 4):
            compiled(torch.zeros(size))
        assert set(torch._dynamo.eval_frame.cached_backends) != backends
        assert dict(utils.counters["stats"]) != stats
    assert set(torch._dynamo.eval_frame.cached_backends) == backends
    assert set(utils.guard_failures) == failures
    assert dict(utils.counters["stats"]) == stats
    assert set(getattr(pgo, "_CODE_STATE", None) or ()) == profile


def _compile_once(function: Any) -> None:
    with compile_session():
        compile_whole(function, counting_backend("eager"))(torch.zeros(3))


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
        with compile_session():
            compile_whole(_fresh(), counting_backend("aot_eager"))(torch.zeros(3))
            sources = set(_loader.eval_cache) - before
            assert sources
            assert sources <= set(linecache.cache)
            assert FakeTensorMode.cache
        assert set(_loader.eval_cache) == before
        assert not sources & set(linecache.cache)
        assert bool(FakeTensorMode.cache) == bool(kept)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch 2.13 itself
def test_a_session_keeps_no_module_that_inductor_wrote() -> None:
    def written() -> tuple[list[str], list[str]]:
        codecache = importlib.import_module("torch._inductor.codecache")
        prefix = "torch._inductor.runtime.compile_tasks."
        names = [name for name in sys.modules if name.startswith(prefix)]
        return names, list(codecache.PyCodeCache.linemaps)

    function, before = _fresh(), written()
    with compile_session():
        compiled = compile_whole(function, counting_backend("inductor"))
        compiled(torch.zeros(3))
        keep_compiled(function)
        assert written() != before
    assert written() == before
    assert torch.equal(compiled(torch.zeros(3)), torch.ones(3))  # runs without
    forget_compiled(function)


def _alive(*names: str) -> list[int]:
    gc.collect()
    kinds = [type(item).__name__ for item in gc.get_objects()]
    return [kinds.count(name) for name in names]


def test_a_session_frees_guards_and_shape_environments() -> None:
    names = ("CheckFunctionManager", "ShapeEnv", "FakeTensorMode")

    def compile_once() -> None:
        with compile_session():
            x = torch.zeros(3, 4)
            maybe_mark_dynamic(x, 0)
            compiled = compile_whole(_fresh(_add_by_another), counting_backend("aot_eager"))
            assert torch.equal(compiled(x), x + 1)
            assert _alive("CheckFunctionManager")[0]

    compile_once()
    before = _alive(*names)
    for _ in range(3):
        compile_once()
    # Objects of earlier tests may go meanwhile.
    assert all(now <= then for now, then in zip(_alive(*names), before, strict=True))


def test_a_session_keeps_the_guards_of_a_graph_that_stays() -> None:
    function, backend = _fresh(_add_by_another), counting_backend("eager")
    (before,) = _alive("CheckFunctionManager")
    with compile_session():
        compiled = compile_whole(function, backend)
        compiled(torch.zeros(3))
        keep_compiled(function)
    assert _alive("CheckFunctionManager") == [before + 1]
    assert torch.equal(compiled(torch.zeros(3)), torch.ones(3))
    assert backend.graphs == 1
    forget_compiled(function)
