"""What a mark may stand on: functions and classes that pytest collects, and nothing else."""

from __future__ import annotations

from kit import Suite, assert_one_error

MARK = "@customop_cases(scale, [(tensor(3), 2)])\n"


def test_a_body_that_would_never_run(suite: Suite) -> None:
    path = suite.test(f"{MARK}def test_op():\n    assert False\n")
    reported = assert_one_error(suite.run(), "this body would never run", "customop_case")
    assert reported.endswith(f" [{path}:{suite.line_of('@customop')} (test_op)]")


def test_a_body_of_a_docstring_is_empty(suite: Suite) -> None:
    suite.test(f'{MARK}def test_op():\n    """scale is conformant."""\n')
    suite.run().assert_outcomes(passed=2)


def test_a_body_of_pass_is_empty(suite: Suite) -> None:
    suite.test(f"{MARK}def test_op():\n    pass\n")
    suite.run().assert_outcomes(passed=2)


def test_an_empty_body_that_requests_the_case_runs_once_a_case_or_not_at_all(suite: Suite) -> None:
    suite.test(f"{MARK}def test_op(customop_case): ...\n")
    assert suite.ids(checks="own,body") == [
        "test_op[cpu-float32-nograd-0-own.passes]",
        "test_op[cpu-float32-withgrad-0-own.passes]",
    ]


def test_a_marked_module(suite: Suite) -> None:
    suite.test("pytestmark = customop_cases(scale, [(tensor(3), 2)])\ndef test_op(): ...\n")
    assert_one_error(suite.run(), "customop_cases in test_it.py (pytestmark): ", "not modules")


def test_a_marked_unittest_class(suite: Suite) -> None:
    suite.test(f"""
import unittest

{MARK}class TestOp(unittest.TestCase):
    def test_it(self): ...
""")
    assert_one_error(
        suite.run(), "customop_cases: a unittest.TestCase cannot be parametrized", "(TestOp)]"
    )


def test_a_marked_unittest_method(suite: Suite) -> None:
    suite.test(f"""
import unittest

class TestOp(unittest.TestCase):
    {MARK}    def test_it(self): ...
""")
    assert_one_error(
        suite.run(),
        "customop_cases: a unittest.TestCase cannot be parametrized",
        "(TestOp.test_it)]",
    )


def test_a_function_that_pytest_does_not_collect(suite: Suite) -> None:
    suite.test(f"{MARK}def check_op(): ...\n")
    assert_one_error(
        suite.run(), "customop_cases: pytest does not collect this function", "(check_op)]"
    )


def test_the_case_without_a_mark(suite: Suite) -> None:
    path = suite.test("def test_op(customop_case): ...\n")
    line = suite.line_of("def test_op")
    assert_one_error(
        suite.run(),
        f"requests customop_case and has no customop_cases mark [{path}:{line} (test_op)]",
    )


def test_a_class_mark_checks_once_and_serves_every_method(suite: Suite) -> None:
    suite.test(f"""
{MARK}class TestOp:
    def test_a(self, customop_case):
        assert customop_case().shape == (3,)

    def test_b(self, customop_case):
        assert customop_case.op.name() == "NS::scale"

    def test_other(self):
        assert True
""")
    assert suite.ids(checks="own,body") == [
        "TestOp::test_a[cpu-float32-nograd-0-body]",
        "TestOp::test_a[cpu-float32-withgrad-0-body]",
        "TestOp::test_b[cpu-float32-nograd-0-body]",
        "TestOp::test_b[cpu-float32-withgrad-0-body]",
        "TestOp::test_other",
        "TestOp::test_customop[cpu-float32-nograd-0-own.passes]",
        "TestOp::test_customop[cpu-float32-withgrad-0-own.passes]",
    ]
    suite.run(checks="own,body").assert_outcomes(passed=7)


def test_a_subclass_runs_the_checks_of_its_own_mark_and_those_it_inherits(suite: Suite) -> None:
    suite.test(f"""
{MARK}class TestBase:
    def test_a(self, customop_case):
        assert customop_case.op is not None

@customop_cases(plain, [(tensor(2),)])
class TestDerived(TestBase):
    pass
""")
    derived = [
        item_id for item_id in suite.ids(checks="own,body") if item_id.startswith("TestDerived")
    ]
    assert [item_id.replace(suite.ns, "NS") for item_id in derived] == [
        "TestDerived::test_a[NS.plain-cpu-float32-nograd-0-body]",
        "TestDerived::test_a[NS.scale-cpu-float32-nograd-0-body]",
        "TestDerived::test_a[NS.scale-cpu-float32-withgrad-0-body]",
        "TestDerived::test_customop[NS.plain-cpu-float32-nograd-0-own.passes]",
        "TestDerived::test_customop[NS.scale-cpu-float32-nograd-0-own.passes]",
        "TestDerived::test_customop[NS.scale-cpu-float32-withgrad-0-own.passes]",
    ]
    suite.run(checks="own,body").assert_outcomes(passed=10)


def test_an_unmarked_subclass_does_not_lose_the_checks(suite: Suite) -> None:
    suite.test(f"{MARK}class TestBase: ...\n\nclass TestDerived(TestBase): ...\n")
    classes = {item_id.partition("::")[0] for item_id in suite.ids()}
    assert classes == {"TestBase", "TestDerived"}


def test_a_marked_method_in_a_class(suite: Suite) -> None:
    suite.test(f"""
class TestOp:
    {MARK}    def test_a(self): ...

    {MARK}    @staticmethod
    def test_b(customop_case):
        assert customop_case().shape == (3,)

    @staticmethod
    {MARK}    def test_c(customop_case):
        assert customop_case().shape == (3,)
""")
    result = suite.run("-v", checks="own,body")
    result.assert_outcomes(passed=10)
    for method in ("test_a", "test_b", "test_c"):
        assert f"TestOp::{method}[cpu-float32-withgrad-0-own.passes] PASSED" in result.stdout.str()


def test_the_mark_of_a_method_replaces_that_of_its_class(suite: Suite) -> None:
    suite.test(f"""
{MARK}class TestOp:
    @customop_cases(plain, [(tensor(2),)])
    def test_a(self, customop_case):
        assert customop_case.op.name() == "NS::plain"
""")
    suite.run(checks="body,own").assert_outcomes(passed=4)


def test_an_async_test_is_checked(suite: Suite) -> None:
    suite.test(f"{MARK}async def test_op(): ...\n")
    suite.run().assert_outcomes(passed=2)


def test_parametrize_multiplies_the_body_only(suite: Suite) -> None:
    suite.test(f"""
{MARK}@pytest.mark.parametrize("k", [1, 2])
def test_op(customop_case, k):
    assert k in (1, 2)
""")
    ids = suite.ids(checks="own,body")
    assert len([item_id for item_id in ids if item_id.endswith("own.passes]")]) == 2
    assert len([item_id for item_id in ids if "body" in item_id]) == 4
    suite.run(checks="own,body").assert_outcomes(passed=6)


def test_checks_set_up_autouse_fixtures_and_none_of_the_function_s_own(suite: Suite) -> None:
    suite.test(f"""
SET_UP = []

@pytest.fixture(autouse=True)
def everywhere():
    SET_UP.append("everywhere")

@pytest.fixture
def own():
    SET_UP.append("own")

{MARK}def test_op(customop_case, own): ...

def test_last():
    assert SET_UP == ["everywhere"] * 3
""")
    suite.run("-p", "no:randomly").assert_outcomes(passed=3)


def test_an_autouse_fixture_with_parameters(suite: Suite) -> None:
    suite.test(f"""
@pytest.fixture(autouse=True, params=[1, 2])
def number(request):
    return request.param

{MARK}def test_op(): ...
""")
    assert_one_error(suite.run(), "parametrizes number, which would multiply the checks")


def test_parametrize_on_a_marked_class(suite: Suite) -> None:
    suite.test(f"""
{MARK}@pytest.mark.parametrize("k", [1, 2])
class TestOp:
    def test_a(self, customop_case, k): ...
""")
    assert_one_error(suite.run(), "parametrize('k') on the class or module would multiply")


def test_marks_of_the_function_hold_for_its_checks(suite: Suite) -> None:
    suite.test(f"""
{MARK}@pytest.mark.skip(reason="not today")
def test_skipped(): ...

{MARK}@pytest.mark.xfail(reason="known")
def test_xpassed(): ...

@customop_cases(scale, [(tensor(3), 2)], checks=["own.fails"])
@pytest.mark.xfail(reason="known")
def test_xfailed(): ...
""")
    result = suite.run("-rsxX")
    result.stdout.fnmatch_lines(["SKIPPED*not today", "XFAIL*known*", "XPASS*known*"])
    assert result.parseoutcomes() == {"skipped": 2, "xfailed": 2, "xpassed": 2}


def test_a_check_that_did_not_execute_is_an_error(suite: Suite) -> None:
    suite.write(
        "conftest.py",
        suite.path.joinpath("conftest.py").read_text()
        + """

class Other:
    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem):
        return True

def pytest_collection_finish(session):
    session.config.pluginmanager.register(Other())
""",
    )
    suite.test(f"{MARK}def test_op(): ...\n\ndef test_ordinary(): ...\n")
    result = suite.run("--customop-report=report.json")
    result.assert_outcomes(failed=2, passed=1)
    result.stdout.fnmatch_lines(["*own.passes did not run: another plugin took this item's call*"])
    assert {record["outcome"] for record in suite.results()} == {"error"}
