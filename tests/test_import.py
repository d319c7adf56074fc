"""Nobody pays for torch who does not use it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import pytest_customop

WATCH = """
import sys

def pytest_unconfigure():
    print("torch was imported:", "torch" in sys.modules)
"""


def imported(*arguments: str) -> set[str]:
    """The top-level packages that a Python process imports."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}


def test_importing_the_package_imports_no_torch() -> None:
    packages = imported("-c", "import pytest_customop")
    assert "pytest_customop" in packages
    assert not packages & {"torch", "numpy", "pytest", "_pytest"}


@pytest.mark.parametrize("plugin", ["customop", "pytest_customop.plugin"])
def test_loading_the_plugin_imports_no_torch(
    plugin: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if plugin != "customop":  # without its entry point
        monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.chdir(tmp_path)
    packages = imported("-m", "pytest", "-p", plugin, "--help")
    assert "pytest_customop" in packages
    assert "torch" not in packages


def test_the_names_are_resolved_when_they_are_used() -> None:
    assert set(pytest_customop.__all__) <= set(dir(pytest_customop))
    for name in pytest_customop.__all__:
        assert getattr(pytest_customop, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nosuch'"):
        _ = pytest_customop.nosuch


@pytest.mark.usefixtures("new_interpreters")
@pytest.mark.parametrize("marked", [False, True])
def test_a_suite_without_the_marker_imports_no_torch(
    pytester: pytest.Pytester, marked: bool
) -> None:
    pytester.makeconftest(WATCH)
    source = (
        "import pytest\n\n@pytest.mark.parametrize('a', [1, 2])\ndef test_a(a, tmp_path): ...\n"
    )
    if marked:
        source += "\n@pytest.mark.customop_cases('aten::sin', [(3,)])\ndef test_op(): ...\n"
    pytester.makepyfile(source)
    result = pytester.runpytest_subprocess("-p", "no:randomly", "--customop-seed=3")
    result.stdout.fnmatch_lines([f"torch was imported: {marked}"])


def test_describing_samples_imports_no_torch() -> None:
    script = (
        "import sys; from pytest_customop import Sample, customop_cases, tensor; "
        "customop_cases('ns::op', [Sample((tensor(3, low=0),))], layouts='strided')(lambda: None); "
        "assert 'torch' not in sys.modules"
    )
    assert "torch" not in imported("-c", script)
