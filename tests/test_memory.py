"""Collecting allocates nothing, and a case lets go of its tensors."""

from __future__ import annotations

from typing import Any

import pytest
from kit import Suite

from pytest_customop.cases import arguments

HUGE = """
@customop_cases(
    scale, [(tensor(10**6, 10**6), 2)], layouts=["contiguous", "transposed", "expanded"]
)
def test_scale(customop_case): ...
"""


def test_collecting_draws_no_input(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, make_tensor = [], arguments.make_tensor

    def refuse(shape: Any, **options: Any) -> Any:
        if not shape:  # a single element shows whether torch draws the dtype, and is remembered
            return make_tensor(shape, **options)
        calls.append(shape)
        raise AssertionError("an input was made")

    monkeypatch.setattr("pytest_customop.cases.arguments.make_tensor", refuse)
    suite.test(HUGE)
    assert len(suite.ids()) == 6
    assert not calls
    suite.run("-k", "nograd and transposed").assert_outcomes(failed=1)
    assert calls


def test_a_case_lets_go_of_its_tensors_when_its_last_item_has_run(suite: Suite) -> None:
    suite.test("""
import gc, weakref
ALIVE = []

def remember(case):
    ALIVE.append(weakref.ref(case.eager.result))

@customop_cases(scale, [(tensor(3), 2), (tensor(4), 2)], requires_grad=False)
def test_scale(): ...

def test_last():
    gc.collect()
    assert [one() for one in ALIVE] == [None, None]
""")
    suite.write(
        "conftest.py",
        """
import sys
from pytest_customop import Check

def remember(case):
    sys.modules["test_it"].remember(case)

def pytest_customop_register_checks():
    return [Check("own.remember", "remembers results weakly", remember)]
""",
    )
    suite.run().assert_outcomes(passed=3)


def test_the_eager_result_is_computed_once_a_case(suite: Suite) -> None:
    suite.write(
        "conftest.py",
        """
from pytest_customop import Check

def look(case):
    assert case.eager.error is None

def pytest_customop_register_checks():
    return [Check(f"own.look{n}", "looks at the eager result", look) for n in range(4)]
""",
    )
    suite.test("""
@customop_cases(scale, [(tensor(3), 2), (tensor(4), 3)], requires_grad=False)
def test_scale(): ...

def test_last():
    assert CALLS == [2, 3]
""")
    suite.run().assert_outcomes(passed=9)
