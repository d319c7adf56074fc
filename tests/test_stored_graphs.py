"""Graphs on disk: a later check takes them, and never where tracing the op has come to give another one."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from bending import bending

from pytest_customop import Sample, tensor
from pytest_customop.cases.case import Case
from pytest_customop.checks import builtin_checks
from pytest_customop.checks.compile import static
from pytest_customop.checks.compile.disk_cache import tag_of
from pytest_customop.checks.compile.harness import OpHarness
from pytest_customop.compat.compiler import compile_session
from pytest_customop.compat.graph_caches import GRAPHS_ARE_STORED, graphs_on_disk
from pytest_customop.declare.declaration import declare_call
from pytest_customop.plan.matrix import plan
from pytest_customop.run.engine import run_check
from pytest_customop.settings import Settings, Variants

STATIC = next(check for check in builtin_checks() if check.name == "compile.static")

stores = pytest.mark.skipif(not GRAPHS_ARE_STORED, reason="torch's keys take no tag here")


class Bent:
    """What the op below does now; each value may be changed between two checks."""

    factor = 2.0
    by_tensor = False
    transposed = False
    when_compiling = False
    wrong_kernel = False
    aliases = False


@pytest.fixture(autouse=True)
def bent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Changes what the op does; at first it is right, and nothing is stored."""
    return bending(monkeypatch, tmp_path, Bent)


@torch.library.custom_op("stored::double", mutates_args=())
def double(x: torch.Tensor) -> torch.Tensor:
    return x * (3 if Bent.wrong_kernel else 2)


@double.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    if Bent.transposed:
        return x.new_empty(tuple(reversed(x.shape))).t()
    return torch.empty_like(x)


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs)


def _backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
    (x,) = ctx.saved_tensors
    if Bent.when_compiling and torch.compiler.is_compiling():
        return grad * 5
    if Bent.by_tensor:
        return grad * torch.tensor([2.0, Bent.factor, 2.0, 2.0], dtype=grad.dtype)
    if Bent.aliases:
        return (grad + grad.view(grad.shape)) + (x - x.view(x.shape))
    return grad * Bent.factor


double.register_autograd(_backward, setup_context=_setup)


def _case(**options: Any) -> Case:
    declared = {"op": double, "samples": [Sample((tensor(3, 4),))], "requires_grad": True}
    planned = plan(
        [declare_call(declared, "here")],
        Settings(variants=Variants("off"), **options),
        lambda _: [STATIC],
        lambda device: None,
    )
    assert planned[0].case is not None
    return planned[0].case


def _reported() -> tuple[str, Any]:
    case = _case()
    try:
        result = run_check(STATIC, case)
        return result.outcome, result.finding
    finally:
        case.release()


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many graphs each check has taken from disk."""
    counted: list[int] = []
    real = graphs_on_disk

    @contextmanager
    def storing(tag: str) -> Iterator[Callable[[], int]]:
        with real(tag) as count:
            try:
                yield count
            finally:
                counted.append(count())

    monkeypatch.setattr(static, "graphs_on_disk", storing)
    return counted


@stores
def test_a_later_check_takes_its_graphs_from_disk(taken: list[int]) -> None:
    for _ in range(2):
        assert _reported() == ("passed", None)
    assert taken[0] == 0
    assert taken[1] > 0


WRONG = {
    "the fake kernel": {"transposed": True},
    "a number in the backward": {"factor": 4.0},
    "a constant tensor in the backward": {"by_tensor": True, "factor": 4.0},
    "the backward while it is compiled": {"when_compiling": True},
}


@stores
@pytest.mark.parametrize("changed", WRONG.values(), ids=WRONG)
def test_what_was_broken_since_is_found_and_what_was_fixed_passes(
    changed: dict[str, Any], bent: Callable[..., None], taken: list[int]
) -> None:
    kept = {name: getattr(Bent, name) for name in changed}
    if "by_tensor" in changed:
        bent(by_tensor=True)
    first, right = OpHarness(_case()), _reported()
    before = _tag(first)
    bent(**changed)
    assert _tag(first) not in (None, before)
    broken = _reported()
    bent(**{**kept, "by_tensor": "by_tensor" in changed})
    assert _tag(first) == before
    fixed = _reported()
    assert taken[0] == taken[1] == 0
    assert taken[2] > 0
    assert right == fixed == ("passed", None)
    if "factor" not in changed:  # with it, eager mode changes too
        assert broken[0] == "failed"


def _tag(harness: OpHarness) -> Any:
    with compile_session():
        return tag_of(harness, harness.case)


@stores
def test_a_failure_on_a_graph_from_disk_is_judged_again_without_it(
    monkeypatch: pytest.MonkeyPatch, bent: Callable[..., None], taken: list[int]
) -> None:
    monkeypatch.setattr(static, "tag_of", lambda harness, case: "whatever it does")
    assert _reported() == ("passed", None)
    bent(factor=4.0)  # the graph on disk still doubles
    assert _reported() == ("passed", None)
    assert taken[1] > 0


@stores
def test_a_kernel_that_has_become_wrong_fails_on_graphs_from_disk(
    bent: Callable[..., None], taken: list[int]
) -> None:
    bent(aliases=True)
    assert _reported() == ("passed", None)
    bent(transposed=True)
    first = _reported()
    assert first[0] == "failed"
    assert _reported() == first  # what fails leaves nothing that a later check could take
    assert taken[1] == 0


@stores
def test_calls_with_the_same_words_on_other_memory_differ(
    bent: Callable[..., None],
) -> None:
    harness = OpHarness(_case())
    before = _tag(harness)
    bent(aliases=True)
    assert _tag(harness) != before


@stores
def test_where_caches_are_off_for_all_none_is_used(taken: list[int], tmp_path: Path) -> None:
    with torch.compiler.config.patch(force_disable_caches=True):
        for _ in range(2):
            assert _reported() == ("passed", None)
    assert taken == [0, 0]


def test_other_backends_have_no_tag() -> None:
    case = _case(backend="aot_eager")
    assert _tag(OpHarness(case)) is None


def test_without_a_tag_nothing_is_stored(monkeypatch: pytest.MonkeyPatch, taken: list[int]) -> None:
    monkeypatch.setattr(static, "tag_of", lambda harness, case: None)
    for _ in range(2):
        assert _reported() == ("passed", None)
    assert taken == []
