"""The project's own suite ends, and runs every other test once, when a worker dies."""

from __future__ import annotations

from pathlib import Path

import pytest

TESTS = """
import os
import pytest

@pytest.mark.parametrize("number", range(20))
def test_passes(number): ...

def test_dies():
    with open("starts", "a") as starts:
        starts.write("x")
    os._exit(3)

@pytest.mark.xdist_group("together")
@pytest.mark.parametrize("number", range(3))
def test_in_a_group(number): ...

"""


@pytest.mark.parametrize("after", [0, 1, 40])
@pytest.mark.usefixtures("new_interpreters")
def test_the_session_ends_when_a_worker_dies(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    pytester.makeconftest("pytest_plugins = 'scheduling'")
    pytester.makepyfile(
        TESTS + "".join(f"def test_after_{number}(): ...\n" for number in range(after))
    )
    run = pytester.runpytest_subprocess(
        *("-n", "2", "--dist=loadgroup", "-p", "no:randomly", "-p", "no:customop"), timeout=60
    )
    run.assert_outcomes(passed=23 + after, failed=1)
    assert (pytester.path / "starts").read_text() == "x"
    run.stdout.fnmatch_lines(["*crashed while running 'test_*.py::test_dies'*"])
