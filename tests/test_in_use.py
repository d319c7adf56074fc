"""What a session loads: next to nothing, until something in it uses the plugin."""

from __future__ import annotations

import pytest
from kit import Suite, summary_of

LOADED = """
import sys

def pytest_unconfigure():
    names = [name for name in sys.modules if name.partition(".")[0] == "pytest_customop"]
    print("loaded:", *sorted(name.partition(".")[2] for name in names))
"""
MARKED = """
@customop_cases(scale, [(tensor(3), 2)], checks="opcheck.test_schema", variants=False)
def test_scale(): ...
"""
BY_HAND = """
def test_by_hand(request):
    request.getfixturevalue("customop_check")(scale, torch.ones(3), 2)
"""
DEVICE = "def test_device(customop_device):\n    assert customop_device == 'cpu'\n"
DTYPE = "def test_dtype(customop_dtype):\n    assert customop_dtype is torch.float32\n"
PLAIN = "def test_plain(): ...\n"


def without_options(suite: Suite, *args: str) -> pytest.RunResult:
    """Run the suite with no option and no ini value of the plugin's."""
    return suite.pytester.runpytest_subprocess("-p", "no:randomly", *args, timeout=300)


def test_a_session_without_use_loads_few_modules(suite: Suite) -> None:
    suite.write("conftest.py", LOADED)
    suite.write("test_it.py", PLAIN)
    result = without_options(suite)
    result.assert_outcomes(passed=1)
    plugin = "plugin plugin.fixture_names plugin.fixtures plugin.options"
    result.stdout.fnmatch_lines(
        [f"loaded:  compat compat.pytest_private declare declare.marked hookspecs {plugin}"]
    )
    result.stdout.no_fnmatch_line("=* customop =*")


def test_a_mark_is_a_use(suite: Suite) -> None:
    suite.test(PLAIN + MARKED)
    result = without_options(suite)
    result.assert_outcomes(passed=3)
    assert summary_of(result)[1].split()[1:] == ["2", "ok"]


def test_a_fixture_is_a_use_when_it_is_asked_for_by_name(suite: Suite) -> None:
    suite.test(PLAIN + BY_HAND)
    result = without_options(suite)
    result.assert_outcomes(passed=2)
    assert summary_of(result)[1].split()[0].endswith("::scale")


def test_devices_and_dtypes_are_uses(suite: Suite) -> None:
    suite.test(DEVICE + DTYPE)
    without_options(suite).assert_outcomes(passed=2)


def test_what_workers_use_the_controller_reports(suite: Suite) -> None:
    suite.test(PLAIN + MARKED + DEVICE)
    result = without_options(suite, "-n", "2")
    result.assert_outcomes(passed=4)
    assert summary_of(result)[1].split()[1:] == ["2", "ok"]


def test_a_report_is_a_use_of_a_session_without_marks(suite: Suite) -> None:
    suite.write("pytest.ini", "[pytest]\ncustomop_report = report.json\n")
    suite.write("test_it.py", PLAIN)
    without_options(suite).assert_outcomes(passed=1)
    assert suite.results() == []
