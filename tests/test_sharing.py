"""What cases share decides nothing: alone, in any order and after any other, a case says the same."""

import random
from typing import Any

import pytest
import torch

from pytest_customop import Check, CheckResult, Sample, tensor
from pytest_customop.cases.case import Case
from pytest_customop.checks import builtin_checks
from pytest_customop.checks.compile import graph_cache
from pytest_customop.checks.compile.compilation import Compilation
from pytest_customop.compat.compiler import GRAPHS_CAN_STAY
from pytest_customop.declare.declaration import declare_call
from pytest_customop.plan.matrix import plan
from pytest_customop.run.engine import run_check
from pytest_customop.settings import Settings
from tests.zoo import Specimen, specimens

DYNAMIC = next(check for check in builtin_checks() if check.name == "compile.dynamic")
# What shares graphs with others, and what must not: all specimens that this check fails on, and those of
# the others that are there for their sizes.
SHARING = {
    name: specimen
    for name, specimen in specimens().items()
    if any(check == "compile.dynamic" for check, _ in specimen.findings()) or "siz" in name
}
# A size made constant in the fake kernel, in the backward and in Python, and the same done right.
FAST = (
    *("fake_makes_a_size_constant", "fake_keeps_sizes_symbolic"),
    *("backward_makes_a_size_constant", "backward_keeps_sizes_symbolic"),
    *("size_kept_in_python", "size_of_the_input", "size_tied_to_an_argument", "any_size"),
)
ORDERS = 3
BACKEND = "aot_eager"  # what is shared hangs on guards, which no backend makes; it compiles fast


@pytest.fixture(autouse=True)
def nothing_shared() -> Any:
    graph_cache.discard_all()
    yield
    graph_cache.discard_all()


def _cases(specimen: Specimen) -> list[Case]:
    """The cases of a specimen that the check takes, and the same ones at other sizes."""
    declared = {"op": specimen.op(), "samples": specimen.samples, **specimen.options}
    settings = Settings(backend=BACKEND)
    planned = plan(
        [declare_call(declared, "here")], settings, lambda _: [DYNAMIC], lambda device: None
    )
    cases = [item.case for item in planned if item.check is not None and item.case is not None]
    larger = [
        case.resized(lambda name, dim, size: size + 2 if size > 1 else size) for case in cases
    ]
    return cases + [case for case in larger if case is not None]


def _reported(result: CheckResult) -> tuple[Any, ...]:
    return (result.outcome, result.finding, result.skip_code, result.message)


def _run(case: Case) -> tuple[Any, ...]:
    try:
        return _reported(run_check(DYNAMIC, case))
    finally:
        case.release()


@pytest.mark.parametrize(
    "name",
    [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in SHARING],
)
def test_a_specimen_says_the_same_alone_and_in_any_order(name: str) -> None:
    cases = _cases(SHARING[name])
    alone = []
    for case in cases:
        graph_cache.discard_all()
        alone.append(_run(case))
    for seed in range(ORDERS):
        order = list(range(len(cases)))
        random.Random(seed).shuffle(order)
        for index in order:
            assert _run(cases[index]) == alone[index], cases[index].id


@pytest.mark.parametrize("name", ["sets_deterministic_algorithms", "silences_warnings"])
def test_a_check_starts_the_same_whether_or_not_the_eager_result_was_kept(name: str) -> None:
    case = _cases(specimens()[name])[0]
    check = next(check for check in builtin_checks() if check.name == "state.globals")
    alone = _reported(run_check(check, case))
    assert alone[0] == "failed"
    assert _reported(run_check(check, case)) == alone  # the first time, the op was called once more


def test_a_check_draws_the_same_numbers_whether_or_not_the_eager_result_was_kept() -> None:
    drawn = []
    check = Check("own.draws", "draws", lambda case: drawn.append(float(torch.rand(()))))
    case = _case(twice, 3, 4)
    for _ in range(2):
        run_check(check, case)
        torch.rand(())  # as other tests do
    assert drawn[0] == drawn[1]


@torch.library.custom_op("sharing::twice", mutates_args=())
def twice(x: torch.Tensor, by: int) -> torch.Tensor:
    return x * 2 + by


@twice.register_fake
def _(x: torch.Tensor, by: int) -> torch.Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("sharing::picky", mutates_args=())
def picky(x: torch.Tensor, by: int) -> torch.Tensor:
    return x * 2 + by


@picky.register_fake
def _(x: torch.Tensor, by: int) -> torch.Tensor:
    # Right up to 8 rows; above, a constant in place of the size.
    return x.new_empty(x.shape) if x.shape[0] <= 8 else x.new_empty((int(x.shape[0]), *x.shape[1:]))


def _case(op: Any, *shape: int, by: int = 1) -> Case:
    declared = {"op": op, "samples": [Sample((tensor(*shape), by))], "requires_grad": False}
    settings = Settings(backend=BACKEND)
    planned = plan(
        [declare_call(declared, "here")], settings, lambda _: [DYNAMIC], lambda device: None
    )
    assert planned[0].case is not None
    return planned[0].case


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of the cases for which something was compiled."""
    seen: list[str] = []
    real = Compilation.compile

    def compile(self: Any) -> None:
        seen.append(str([*self.case.inputs().tensors()[0][1].shape]))
        real(self)

    monkeypatch.setattr(Compilation, "compile", compile)
    return seen


shares = pytest.mark.skipif(not GRAPHS_CAN_STAY, reason="every case has its own graph here")


@shares
def test_cases_that_differ_in_sizes_share_a_graph(compiled: list[str]) -> None:
    for shape in ((3, 4), (5, 7), (6, 2)):
        assert _run(_case(twice, *shape))[0] == "passed"
    assert compiled == ["[3, 4]"]


@pytest.mark.parametrize(
    ("shape", "by"), [((3, 4), 2), ((3, 1), 1), ((3, 4, 2), 1)], ids=["argument", "one", "dims"]
)
def test_others_do_not(shape: tuple[int, ...], by: int, compiled: list[str]) -> None:
    _run(_case(twice, 5, 7))
    assert _run(_case(twice, *shape, by=by))[0] == "passed"
    assert compiled == ["[5, 7]", str([*shape])]


@shares
def test_a_failure_seen_on_a_shared_graph_is_the_case_s_own(compiled: list[str]) -> None:
    assert _run(_case(picky, 3, 4))[0] == "passed"
    outcome = _run(_case(picky, 11, 4))
    assert outcome[:2] == ("failed", "compile-recompiles")
    assert compiled == ["[3, 4]", "[11, 4]"]
    graph_cache.discard_all()
    assert _run(_case(picky, 11, 4)) == outcome


@shares
def test_a_case_that_fails_shares_nothing(compiled: list[str]) -> None:
    for _ in range(2):
        assert _run(_case(picky, 11, 4))[0] == "failed"
    assert len(compiled) == 2


@shares
def test_graphs_that_are_kept_are_few() -> None:
    for by in range(graph_cache._LIMIT + 3):
        assert _run(_case(twice, 3, 4, by=by))[0] == "passed"
    assert len(graph_cache._graphs) == graph_cache._LIMIT


def test_a_graph_that_a_reset_took_away_is_not_used(compiled: list[str]) -> None:
    _run(_case(twice, 3, 4))
    torch._dynamo.reset()
    assert _run(_case(twice, 5, 7))[0] == "passed"
    assert compiled == ["[3, 4]", "[5, 7]"]
