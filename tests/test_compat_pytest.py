"""Private API of pytest that the plugin stands on: each test fails when pytest moves it."""

from __future__ import annotations

import inspect
import logging

import pluggy
import pytest

from pytest_customop.compat import pytest_private


def test_xfail_marks_count_for_an_item_that_is_not_set_up(pytester: pytest.Pytester) -> None:
    item = pytester.getitem("""
        import pytest

        @pytest.mark.xfail(reason="known")
        def test_func(): ...
    """)

    def fails() -> None:
        raise AssertionError

    call = pytest.CallInfo.from_call(fails, when="call")
    pytest_private.evaluate_xfail(item)
    report = item.ihook.pytest_runtest_makereport(item=item, call=call)
    assert report.skipped
    assert report.wasxfail == "known"


@pytest.mark.parametrize(
    ("mark", "expected"), [("xfail", True), ("xfail(False, reason='')", False), ("slow", False)]
)
def test_whether_a_mark_expects_a_failure(
    pytester: pytest.Pytester, mark: str, expected: bool
) -> None:
    item = pytester.getitem(f"import pytest\n\n@pytest.mark.{mark}\ndef test_func(): ...\n")
    assert pytest_private.is_expected_to_fail(item) is expected


def test_what_the_next_item_does_not_need_is_torn_down(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("""
        import pytest
        from pytest_customop.compat import pytest_private

        @pytest.hookimpl(wrapper=True)
        def pytest_runtest_call(item):
            yield
            session = item.session
            following = session.items[1] if item is session.items[0] else None
            pytest_private.tear_down(session, following)
            print("after", item.name)
    """)
    pytester.makepyfile("""
        import pytest

        @pytest.fixture(scope="module")
        def of_the_module():
            yield
            print("fixture of module")

        @pytest.fixture
        def of_the_test():
            yield
            print("fixture of test")

        def test_a(of_the_module, of_the_test): ...

        def test_b(of_the_module, of_the_test): ...
    """)
    result = pytester.runpytest("-s", "-p", "no:randomly")
    result.assert_outcomes(passed=2)
    names = ("fixture of test", "fixture of module", "after test_a", "after test_b")
    printed = [word for line in result.outlines for word in names if line.endswith(word)]
    assert printed == [names[0], names[2], names[0], names[1], names[3]]


def test_an_item_gets_another_node_id(pytester: pytest.Pytester) -> None:
    item = pytester.getitem("def test_func(): ...")
    pytest_private.set_nodeid(item, "other.py::test_func")
    assert item.nodeid == "other.py::test_func"


def test_the_folder_for_temporary_files(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert pytest_private.base_temp(request.config) == tmp_path_factory.getbasetemp()
    assert pytest_private.base_temp(object()) is None


def test_the_handlers_that_pytest_adds_to_a_logger(caplog: pytest.LogCaptureFixture) -> None:
    assert pytest_private.is_log_handler(caplog.handler)
    assert not pytest_private.is_log_handler(logging.StreamHandler())


def test_files_of_pytest_and_pluggy_run_tests() -> None:
    for known in (pluggy, pytest.Item):
        assert pytest_private.runs_tests(inspect.getfile(known))
    assert not pytest_private.runs_tests(__file__)


def test_ini_values_are_read_as_they_are_written(pytester: pytest.Pytester) -> None:
    pytester.makepyprojecttoml("""
        [tool.pytest.ini_options]
        testpaths = ["tests", "more"]
    """)
    config = pytester.parseconfig()
    assert hasattr(config, "_inicfg") or hasattr(config, "inicfg")
    assert pytest_private.written_in_ini(config, "testpaths") == ["tests", "more"]
    assert pytest_private.written_in_ini(config, "addopts") is None


def test_the_timer_of_pytest_timeout_starts_again(pytester: pytest.Pytester) -> None:
    pytest.importorskip("pytest_timeout")
    pytester.makepyfile(
        """
        import time

        import pytest
        from pytest_customop.compat.pytest_private import restart_timer

        @pytest.mark.timeout(1.5)
        def test_ends(request):
            for _ in range(3):
                time.sleep(0.9)
                restart_timer(request.node)

        @pytest.mark.timeout(0.3)
        def test_does_not_end(request):
            restart_timer(request.node)
            time.sleep(5)
        """
    )
    pytester.runpytest("-p", "no:randomly").assert_outcomes(passed=1, failed=1)
