"""What is compiled for several cases decides nothing: alone and in a group, a case says the same."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from kit import Suite

from pytest_customop import Check, Known, tensor
from pytest_customop.cases.case import Case
from pytest_customop.checks import builtin_checks
from pytest_customop.checks.compile import graph_cache, group_members, group_run, groups
from pytest_customop.checks.compile.compilation import Compilation
from pytest_customop.checks.compile.disk_cache import tag_of
from pytest_customop.checks.compile.harness import OpHarness
from pytest_customop.compat.compiler import GRAPHS_CAN_STAY
from pytest_customop.compat.graph_caches import GRAPHS_ARE_STORED
from pytest_customop.declare.declaration import declare_call
from pytest_customop.plan.items import PlannedItem
from pytest_customop.plan.matrix import plan
from pytest_customop.run.engine import run_check
from pytest_customop.run.prepare import prepare_checks
from pytest_customop.settings import Settings
from tests.zoo import Specimen, specimens

CHECKS = {check.name: check for check in builtin_checks() if check.prepare is not None}
STATIC, DYNAMIC = CHECKS["compile.static"], CHECKS["compile.dynamic"]
# All on which one of these checks says something, but for those that say something else from call to call.
REPORTED = [
    (name, check)
    for name, specimen in specimens().items()
    for check in CHECKS
    if any(
        check == where for where, _ in specimen.findings() | specimen.noted() | specimen.limits()
    )
    and (check, "nondeterministic") not in specimen.limits()
]

pytestmark = pytest.mark.skipif(not GRAPHS_CAN_STAY, reason="every case has its own graph here")


@pytest.fixture(autouse=True)
def nothing_shared() -> Any:
    graph_cache.discard_all()
    yield
    graph_cache.discard_all()


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """For each group that ran, how many cases were compiled together, and how many agreed."""
    seen: list[tuple[int, int]] = []
    real = group_run._agreeing

    def agreeing(slots: Any, *, dynamic: bool) -> list[Case]:
        cases = real(slots, dynamic=dynamic)
        seen.append((sum(len(slot.members) for slot in slots), len(cases)))
        return cases

    monkeypatch.setattr(group_run, "_agreeing", agreeing)
    return seen


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of the cases that are compiled by themselves."""
    seen: list[str] = []
    real = Compilation.compile

    def compile(self: Any) -> None:
        seen.append(self.case.id)
        real(self)

    monkeypatch.setattr(Compilation, "compile", compile)
    return seen


@pytest.fixture
def bend(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Changes what the op does."""

    def change(**changed: Any) -> None:
        for name, value in changed.items():
            monkeypatch.setattr(Bent, name, value)

    return change


def _planned(op: Any, samples: Sequence[Any], check: Check, backend: str, **options: Any) -> Any:
    declared = {"op": op, "samples": samples, **options}
    settings = Settings(backend=backend)
    planned = plan(
        [declare_call(declared, "here")], settings, lambda _: [check], lambda device: None
    )
    return [item.case for item in planned if item.check is not None and item.case is not None]


def _cases(specimen: Specimen, check: Check) -> list[Case]:
    """The cases of a specimen, in two dtypes if it does not say which, and the same at other sizes."""
    options = {"dtypes": [torch.float32, torch.float64], **specimen.options}
    cases = _planned(specimen.op(), specimen.samples, check, specimen.backend, **options)
    larger: list[Case] = []
    for case in cases:
        resized = case.resized(lambda name, dim, size: size + 2 if size > 1 else size)
        if resized is not None:
            object.__setattr__(resized, "id", f"{resized.id}-larger")
            larger.append(resized)
    return [*cases, *larger]


def _outcome(check: Check, case: Case) -> tuple[Any, ...]:
    try:
        result = run_check(check, case)
        return (result.outcome, result.finding, result.skip_code, result.message)
    finally:
        case.release()


def _alone(check: Check, cases: Sequence[Case]) -> list[tuple[Any, ...]]:
    outcomes = []
    for case in cases:
        graph_cache.discard_all()
        outcomes.append(_outcome(check, case))
    return outcomes


def _together(
    check: Check, cases: Sequence[Case], seed: int = 0, *others: Sequence[Case]
) -> list[tuple[Any, ...]]:
    """What the cases say in groups, in a random order; `others` are those of other marks."""
    graph_cache.discard_all()
    assert check.prepare is not None
    check.prepare([cases, *others])
    order = list(range(len(cases)))
    random.Random(seed).shuffle(order)
    outcomes = {index: _outcome(check, cases[index]) for index in order}
    return [outcomes[index] for index in range(len(cases))]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "check"), REPORTED)
def test_a_specimen_says_the_same_alone_and_in_a_group(name: str, check: str) -> None:
    cases = _cases(specimens()[name], CHECKS[check])
    alone = _alone(CHECKS[check], cases)
    assert _together(CHECKS[check], cases, len(name)) == alone
    correct = list(
        _planned(
            double, [(tensor(3, 4),)], CHECKS[check], cases[0].backend, requires_grad=(True, False)
        )
    )
    assert _together(CHECKS[check], cases, len(name), correct) == alone


class Bent:
    """What the ops below do now; each value may be changed."""

    constant = False


@torch.library.custom_op("grouped::double", mutates_args=())
def double(x: torch.Tensor, by: int = 2) -> torch.Tensor:
    return x * by


@double.register_fake
def _(x: torch.Tensor, by: int = 2) -> torch.Tensor:
    if x.dim() == 3 and torch.compiler.is_compiling():
        raise RuntimeError("no three dims")
    return torch.empty_like(x)


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.rows, ctx.by = inputs[0].shape[0], inputs[1]


def _backward(ctx: Any, grad: torch.Tensor) -> Any:
    rows = int(ctx.rows) if Bent.constant else ctx.rows
    return grad.new_ones(rows, *grad.shape[1:]) * grad * ctx.by, None


double.register_autograd(_backward, setup_context=_setup)


@torch.library.custom_op("grouped::triple", mutates_args=())
def triple(x: torch.Tensor) -> torch.Tensor:
    return x * 3


@torch.library.custom_op("grouped::noise", mutates_args=())
def noise(x: torch.Tensor) -> torch.Tensor:
    return x + torch.rand_like(x)


triple.register_fake(torch.empty_like)
noise.register_fake(torch.empty_like)

LIBRARY = torch.library.Library("grouped", "FRAGMENT")
LIBRARY.define("same(Tensor x) -> Tensor")
LIBRARY.impl("same", lambda x: x, "CPU")
LIBRARY.impl("same", lambda x: x, "Meta")

SHAPES = [(3, 4), (5, 2), (4,)]
WRONG = (2, 3, 4)


def _cases_of(
    *shapes: tuple[int, ...], check: Check = STATIC, op: Any = double, **options: Any
) -> Any:
    options = {"requires_grad": False, **options}
    return _planned(op, [(tensor(*shape),) for shape in shapes], check, "aot_eager", **options)


def _outcomes(outcomes: Sequence[tuple[Any, ...]]) -> list[str]:
    return [outcome[0] for outcome in outcomes]


@pytest.mark.parametrize("check", [STATIC, DYNAMIC], ids=lambda check: check.name)
@pytest.mark.parametrize("seed", range(3))
def test_cases_that_agree_are_compiled_once(
    check: Check, seed: int, ran: list[tuple[int, int]], alone: list[str]
) -> None:
    cases = _cases_of(*SHAPES, check=check, dtypes=[torch.float32, torch.float64])
    assert _outcomes(_together(check, cases, seed)) == ["passed"] * 6
    assert ran == [(6, 6)]
    assert alone == []


def test_cases_with_gradients_are_groups_of_their_own(
    ran: list[tuple[int, int]], alone: list[str]
) -> None:
    cases = _cases_of(*SHAPES, requires_grad=(True, False))
    assert _outcomes(_together(STATIC, cases)) == ["passed"] * 6
    assert ran == [(3, 3), (3, 3)]
    assert alone == []


@pytest.mark.parametrize("check", [STATIC, DYNAMIC], ids=lambda check: check.name)
def test_a_case_that_fails_among_others_fails_alone(
    check: Check, ran: list[tuple[int, int]], alone: list[str]
) -> None:
    cases = _cases_of(*SHAPES, WRONG, check=check)
    expected = _alone(check, cases)
    alone.clear()
    assert sorted(_outcomes(expected)) == ["failed", *["passed"] * 3]
    for seed in range(3):
        assert _together(check, cases, seed) == expected
    assert ran == [(4, 0)] * 3
    assert {*alone} == {case.id for case in cases}


def test_a_recompilation_is_found_for_its_case(ran: list[tuple[int, int]], bend: Any) -> None:
    bend(constant=True)
    cases = _cases_of(*SHAPES, check=DYNAMIC, requires_grad=True)
    outcomes = _together(DYNAMIC, cases)
    assert ran == [(3, 0)]
    assert outcomes == _alone(DYNAMIC, cases)
    assert {outcome[1] for outcome in outcomes} == {"compile-recompiles"}


@pytest.mark.skipif(not GRAPHS_ARE_STORED, reason="torch's keys take no tag here")
def test_a_graph_on_disk_is_not_that_of_a_backward_that_keeps_sizes(bend: Any) -> None:
    (case,) = _cases_of((3, 4), check=DYNAMIC, requires_grad=True)
    harness = OpHarness(replace(case, backend="inductor"))
    plain, symbolic = (tag_of(harness, harness.case, symbolic=value) for value in (False, True))
    assert None not in (plain, symbolic)
    bend(constant=True)
    assert tag_of(harness, harness.case) == plain
    assert tag_of(harness, harness.case, symbolic=True) != symbolic


def test_outputs_that_are_an_argument_are_left_to_themselves(
    ran: list[tuple[int, int]], alone: list[str]
) -> None:
    cases = _cases_of(*SHAPES, op=torch.ops.grouped.same.default)
    _together(STATIC, cases)
    assert ran == []
    assert len(alone) == 3


def test_checks_compare_with_the_same_eager_calls_and_keep_none(
    monkeypatch: pytest.MonkeyPatch, ran: list[tuple[int, int]]
) -> None:
    called: list[str] = []
    real = group_members.run_eager

    def run_eager(harness: OpHarness, case: Case) -> Any:
        called.append(case.id)
        return real(harness, case)

    monkeypatch.setattr(group_members, "run_eager", run_eager)
    cases = _cases_of(*SHAPES, requires_grad=True)
    assert _outcomes(_together(DYNAMIC, cases)) == ["passed"] * 3
    assert len(called) == 6  # at second sizes too
    assert {*group_members._last_calls} == {*cases}
    assert _outcomes(_together(STATIC, cases)) == ["passed"] * 3
    assert len(called) == 6
    assert not group_members._last_calls
    assert ran == [(3, 3)] * 2


def test_eager_calls_of_larger_cases_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_members, "_KEPT", 9)
    cases = _cases_of(*SHAPES)
    _together(STATIC, cases)
    assert [case.sample.args[0].shape for case in group_members._last_calls] == [(4,)]


def test_groups_are_small(ran: list[tuple[int, int]]) -> None:
    cases = _cases_of(*((size, 2) for size in range(2, 4 + groups.MOST_CASES)))
    _together(STATIC, cases)
    assert sorted(ran) == [(2, 2), (16, 16)]


def test_marks_share_a_function(ran: list[tuple[int, int]], alone: list[str]) -> None:
    cases, others = _cases_of(*SHAPES), _cases_of((6,), (2, 2), op=triple)
    assert _outcomes(_together(STATIC, cases, 0, others)) == ["passed"] * 3
    assert _outcome(STATIC, others[0])[0] == "passed"
    assert ran == [(5, 5)]
    assert alone == []


def test_a_wrong_op_among_others_leaves_them_their_own_groups(
    ran: list[tuple[int, int]], alone: list[str]
) -> None:
    wrong, others = _cases_of(*SHAPES, WRONG), _cases_of((6,), (2, 2), op=triple)
    assert sorted(_outcomes(_together(STATIC, wrong, 0, others))) == ["failed", *["passed"] * 3]
    assert ran == [(6, 0), (4, 0)]
    alone.clear()
    assert [_outcome(STATIC, case)[0] for case in others] == ["passed"] * 2
    assert ran == [(6, 0), (4, 0), (2, 2)]
    assert alone == []


def test_an_op_in_native_code_stays_with_its_mark(
    ran: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        groups, "crash_risk", lambda op, device: "it is" if "triple" in op.name else None
    )
    cases, others = _cases_of(*SHAPES), _cases_of((6,), (2, 2), op=triple)
    _together(STATIC, cases, 0, others)
    _outcome(STATIC, others[0])
    assert ran == [(3, 3), (2, 2)]


def test_an_op_that_draws_random_numbers_is_alone(
    ran: list[tuple[int, int]], alone: list[str]
) -> None:
    cases = _cases_of(*SHAPES, op=noise)
    assert _outcomes(_together(STATIC, cases)) == ["passed"] * 3
    assert ran == []
    assert len(alone) == 3


def test_a_large_case_is_alone(
    ran: list[tuple[int, int]], alone: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "_MOST_ELEMENTS", 40)
    cases = _cases_of((3, 4), (2, 2), (30,), (50,))
    assert _outcomes(_together(STATIC, cases)) == ["passed"] * 4
    assert ran == [(2, 2)]
    assert len(alone) == 2


def test_cases_are_divided_among_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[int]] = []
    check = replace(STATIC, prepare=lambda marks: seen.append([len(cases) for cases in marks]))
    items = [
        PlannedItem(case.id, "grouped::double", case, check, known=known)
        for case, known in zip(
            _cases_of(*SHAPES, (7,), (9,)), [(), (), (), (), (Known(reason="why"),)], strict=True
        )
    ]
    prepare_checks([(item, None) for item in items], workers=2)
    prepare_checks([(replace(item, skip="a reason"), None) for item in items])
    assert seen == [[2], [2]]


def test_cases_that_share_do_not_depend_on_the_order_of_items() -> None:
    seen: list[list[list[str]]] = []
    check = replace(
        STATIC, prepare=lambda marks: seen.append([[case.id for case in cases] for cases in marks])
    )
    cases = [*_cases_of(*SHAPES), *_cases_of(*SHAPES, op=triple)]
    items = [(PlannedItem(case.id, case.op.name, case, check), None) for case in cases]
    prepare_checks(items)
    for seed in range(3):
        random.Random(seed).shuffle(items)
        prepare_checks(items)
    assert [len(ids) for ids in seen[0]] == [len(SHAPES)] * 2
    assert seen == [seen[0]] * 4


SUITE = """
@torch.library.custom_op("NS::double", mutates_args=())
def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2

@double.register_fake
def _(x):
    if x.dim() == 3 and torch.compiler.is_compiling():
        raise RuntimeError("no three dims")
    return torch.empty_like(x)

@customop_cases(double, [(tensor(3, 4),), (tensor(5),), (tensor(2, 2, 2),), (tensor(6, 2),)])
def test_double(): ...

@customop_cases(plain, [(tensor(3),), (tensor(4, 2),), (tensor(2, 5),)], requires_grad=False)
def test_plain(): ...
"""
TOGETHER = """
@customop_cases(double, [(tensor(3, 4),), (tensor(5),)])
def test_double(): ...

@customop_cases(plain, [(tensor(3),), (tensor(4, 2),)], requires_grad=False)
def test_plain(): ...

class TestWithAFixture:
    @pytest.fixture(autouse=True)
    def other(self): ...

    @customop_cases(plain, [(tensor(3),), (tensor(4, 2),)], requires_grad=False)
    def test_plain(self): ...
"""
REVERSED = """
def pytest_collection_modifyitems(items):
    items.reverse()
"""


@pytest.mark.slow
@pytest.mark.usefixtures("new_interpreters")
def test_a_session_says_the_same_in_any_order_on_workers_and_alone(suite: Suite) -> None:
    suite.test(SUITE)
    checks, backend = "compile.static,compile.dynamic", "--customop-backend=aot_eager"
    options = (backend, "--customop-variants=off")

    def outcomes_of(name: str, *args: str) -> dict[str, tuple[Any, ...]]:
        suite.run_apart(*options, *args, f"--customop-report={name}.json", checks=checks)
        records = suite.results(f"{name}.json")
        return {record["nodeid"]: (record["outcome"], record["finding"]) for record in records}

    whole = outcomes_of("whole")
    assert sorted(outcome[0] for outcome in whole.values()) == ["failed"] * 2 + ["passed"] * 12
    assert outcomes_of("workers", "-n", "2") == whole
    assert outcomes_of("isolated", "--customop-isolate=on") == whole
    part = outcomes_of("part", "-k", "test_double and 2")
    assert part
    assert part.items() <= whole.items()
    suite.write("conftest.py", REVERSED)
    assert outcomes_of("reversed") == whole


def test_only_marks_with_the_same_fixtures_share(suite: Suite, ran: list[tuple[int, int]]) -> None:
    suite.test(SUITE.split("@customop_cases", maxsplit=1)[0] + TOGETHER)
    options = ("--customop-backend=aot_eager", "--customop-variants=off")
    suite.run(*options, checks="compile.static").assert_outcomes(passed=6)
    assert ran == [(4, 4), (2, 2)]
