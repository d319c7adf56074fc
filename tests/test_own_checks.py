"""A check that a conftest registers is a check like any other."""

from __future__ import annotations

import pytest
from kit import HEAD, Suite, assert_one_error

from pytest_customop import check_op, tensor
from pytest_customop.core.hooks import HookError

CONFTEST = """
def fits(case):
    if case.eager.result.numel() > 3:
        raise fail("team-too-large", "output has more than 3 elements", fix="return less")

def pytest_customop_register_checks():
    return [Check("team.fits", "the output is small", fits)]
"""
SUITE = """
@customop_cases(scale, [Sample((tensor(3), 2), id="small"), Sample((tensor(4), 2), id="large")])
def test_scale(): ...
"""


def test_it_is_in_ids_options_summary_and_report(suite: Suite) -> None:
    suite.write("conftest.py", CONFTEST, head=HEAD)
    suite.test(SUITE)
    result = suite.run("--customop-checks=team.fits", "--customop-report=report.json", checks=None)
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(
        [
            "op *team",
            f"{suite.ns}::scale *2 failed, 2 ok",
            f"  team-too-large *{suite.ns}::scale *2 cases *team.fits",
            "FAILED test_it.py::test_scale[[]cpu-float32-nograd-large-team.fits]*",
        ]
    )
    results = suite.results()
    assert {record["check"] for record in results} == {"team.fits"}
    assert [record["finding"] for record in results].count("team-too-large") == 2
    result = suite.run("--customop-list-checks", checks=None)
    result.stdout.fnmatch_lines(["team.fits * the output is small"])


def test_it_runs_unasked_and_the_mark_can_remove_it(suite: Suite) -> None:
    suite.write("conftest.py", CONFTEST, head=HEAD)
    suite.test(SUITE)
    assert any("team.fits" in item_id for item_id in suite.ids(checks=None))
    suite.ns += "_again"
    suite.test(SUITE.replace('id="large")]', 'id="large")], checks="-team"'))
    assert not any("team.fits" in item_id for item_id in suite.ids(checks=None))


@pytest.mark.parametrize(
    ("returned", "reported"),
    [
        ("[Check('fake.forward', 'a twin', fits)]", "two checks are named 'fake.forward'"),
        ("[fits]", "a check is a pytest_customop.Check, not <function fits"),
        ("Check('team.fits', 'no list', fits)", "returned the check team.fits: return a list"),
        ("[Check('fits', 'no family', fits)]", "check name 'fits': write family.name"),
        ("[Check('team.fits', '', fits)]", "check team.fits: the summary is one line"),
        (
            "[Check('team.fits', 'a check', fits, gradients=True, once_per_sample=True)]",
            "check team.fits: once_per_sample=True decides about cases with gradients itself",
        ),
    ],
)
def test_a_wrong_registration_is_reported_in_one_line(
    suite: Suite, returned: str, reported: str
) -> None:
    source = f"{CONFTEST.partition('def pytest')[0]}def pytest_customop_register_checks():\n"
    path = suite.write("conftest.py", f"{source}    return {returned}\n", head=HEAD)
    suite.test(SUITE)
    place = f"pytest_customop_register_checks at {path}:"
    assert_one_error(suite.run(checks=None), reported, place)


def test_a_wrong_registration_with_a_selection_is_a_usage_error(suite: Suite) -> None:
    source = f"{CONFTEST.partition('def pytest')[0]}def pytest_customop_register_checks():\n"
    suite.write("conftest.py", f"{source}    return [fits]\n", head=HEAD)
    suite.test(SUITE)
    for option in ("--customop-checks=fake", "--customop-list-checks"):
        result = suite.run(option, checks=None)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert "a check is a pytest_customop.Check" in result.stderr.str()
        assert "Traceback" not in result.stderr.str()


def test_a_hook_changes_the_cases_of_a_test(suite: Suite) -> None:
    suite.write(
        "conftest.py",
        CONFTEST
        + """
def pytest_customop_modify_cases(definition, planned):
    if definition.name == "test_scale":
        planned[:] = [one for one in planned if one.case.sample_id == "small"]
""",
        head=HEAD,
    )
    suite.test(SUITE)
    suite.run("--customop-checks=team", checks=None).assert_outcomes(passed=2)


HOOKS = {
    "pytest_customop_modify_cases": "definition, planned",
    "pytest_customop_register_checks": "",
    "pytest_customop_device_available": "device",
}


@pytest.mark.parametrize("hook", HOOKS)
def test_an_error_in_a_hook_is_reported_with_its_place(suite: Suite, hook: str) -> None:
    source = (
        f"def {hook}({HOOKS[hook]}):\n    return helper()\n\ndef helper():\n    return int('x')\n"
    )
    path = suite.write("conftest.py", source, head=HEAD)
    suite.test(SUITE)
    line = suite.line_of("int('x')", "conftest.py")
    reported = assert_one_error(suite.run("--customop-devices=cpu", checks=None))
    assert reported == (
        f"{hook} at {path}:{line} raised ValueError: invalid literal for int() with base 10: 'x'"
    )


def test_an_error_in_a_hook_of_check_op_is_reported_with_its_place() -> None:
    class Plugin:
        def pytest_customop_modify_cases(self, definition: object, planned: object) -> None:
            raise KeyError("boom")

    with pytest.raises(HookError, match=r"modify_cases at .*test_own_checks.py:\d+ raised KeyErr"):
        check_op("aten::sin", [(tensor(3),)], checks="fake.forward", plugins=[Plugin()])


def test_a_check_sees_the_case_and_nothing_of_pytest(suite: Suite) -> None:
    suite.write(
        "conftest.py",
        """
def look(case):
    assert case.op.name.endswith("::scale")
    assert case.placement.device == "cpu"
    assert case.requires_grad == case.inputs().args[0].requires_grad
    first, second = case.inputs(), case.inputs()
    assert torch.equal(first.args[0], second.args[0])
    assert first.args[0].data_ptr() != second.args[0].data_ptr()
    assert torch.equal(case.eager.result, first.args[0] * 2)
    assert torch.is_grad_enabled()

def pytest_customop_register_checks():
    return [Check("own.look", "looks at the case", look)]
""",
        head=HEAD,
    )
    suite.test(SUITE)
    suite.run().assert_outcomes(passed=4)
