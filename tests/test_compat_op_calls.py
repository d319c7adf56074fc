"""The calls that `compat.op_calls` sees, and that nothing sees it: each private name by its effect."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from pytest_customop.compat.op_calls import (
    is_faking,
    is_stand_in,
    may_read,
    observe,
    reading,
    unobserved,
)
from pytest_customop.compat.xdist_private import is_controller, report_items_of

NS = "test_op_calls"


@torch.library.custom_op(f"{NS}::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


twice.register_fake(lambda x: torch.empty_like(x))
if hasattr(twice, "register_vmap"):  # torch 2.4 has none
    twice.register_vmap(lambda info, dims, x: (twice(x), 0))
PACKET = torch.ops.test_op_calls.twice


@pytest.fixture
def seen() -> Iterator[list[Any]]:
    """The tensors of the calls so far that compute something."""
    tensors: list[Any] = []

    def before(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if type(args[0]) is torch.Tensor:
            tensors.append(args[0])

    end = observe(lambda namespace: namespace == NS, before)
    yield tensors
    end()


def test_every_way_to_call_is_seen_and_put_back(seen: list[Any]) -> None:
    x = torch.ones(2)
    for call in (twice, PACKET, PACKET.default):
        call(x)
    torch.ops.aten.add(x, x)
    assert len(seen) == 3
    with unobserved():
        twice(x)
    assert len(seen) == 3


def test_it_ends() -> None:
    before = torch._ops.OpOverload.__call__, torch._ops.OpOverloadPacket.__call__
    end = observe(lambda namespace: True, lambda *_: None)
    assert torch._ops.OpOverload.__call__ is not before[0]
    end()
    assert (torch._ops.OpOverload.__call__, torch._ops.OpOverloadPacket.__call__) == before


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_code_is_seen_each_time_it_runs(seen: list[Any], backend: str) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: twice(x) + 1, fullgraph=True, backend=backend)
    compiled(torch.ones(3))
    first = len(seen)
    assert first >= 1  # torch may call the op once more, to look at its outputs
    compiled(torch.ones(3))
    assert len(seen) == first + 1


def test_dynamo_compiles_nothing_of_it() -> None:
    frames: list[str] = []

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        frames.append(graph.code)
        return graph.forward

    def counts(*_: Any) -> Any:
        def after() -> None: ...

        return after

    def broken(x: torch.Tensor) -> torch.Tensor:
        torch._dynamo.graph_break()
        return twice(x)

    torch._dynamo.reset()
    end = observe(lambda namespace: namespace == NS, counts)
    try:
        torch.compile(broken, backend=backend)(torch.ones(3))
    finally:
        end()
    assert len(frames) == 1


def test_a_function_mode_does_not_see_what_is_read() -> None:
    names = []

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            names.append(func)
            return func(*args, **(kwargs or {}))

    end = observe(
        lambda namespace: namespace == NS, lambda op, args, kwargs: args[0].shape and None
    )
    try:
        with Mode():
            PACKET.default(torch.ones(2))
    finally:
        end()
    assert "shape" not in str(names)


def test_reading_is_unseen_by_dispatch_modes_and_works_in_inference_mode() -> None:
    class Mode(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            raise AssertionError(func)

    with torch.inference_mode():
        x = torch.ones(2)
        with Mode(), reading():
            kept = x.clone()
    assert not kept.is_inference()


def test_stand_ins() -> None:
    answers = []
    torch.vmap(lambda x: (answers.append(is_stand_in(x)), x)[1])(torch.ones(2))
    assert answers == [True]
    assert not is_stand_in(torch.ones(2))


def test_what_is_faked() -> None:
    assert not is_faking()
    with torch._subclasses.fake_tensor.FakeTensorMode():
        assert is_faking()


def test_a_profiler_would_list_what_is_read() -> None:
    assert may_read(torch.ones(2))
    with torch.profiler.profile():
        assert not may_read(torch.ones(2))


def test_the_names_of_xdist(pytestconfig: pytest.Config, request: pytest.FixtureRequest) -> None:
    remote = pytest.importorskip("xdist.remote")
    assert remote.WorkerInteractor.sendevent
    dsession = pytest.importorskip("xdist.dsession")
    assert dsession.DSession
    assert not is_controller(pytestconfig)
    if not hasattr(pytestconfig, "workerinput"):
        report_items_of(request.session, request.node)
