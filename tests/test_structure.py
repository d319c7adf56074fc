"""Imports inside of the package run one way; the script that counts them can fail."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / ".ci" / "structure.py"
pytestmark = pytest.mark.skipif(not SCRIPT.exists(), reason="not in the source distribution")


@pytest.fixture(scope="module")
def structure():
    spec = importlib.util.spec_from_file_location("structure", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def package(tmp_path):
    def write(files):
        for name, text in {"__init__.py": "", **files}.items():
            path = tmp_path / "package" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path / "package"

    return write


def test_the_package_has_no_circles_and_no_imports_that_run_back():
    run = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")
    assert " folders, " in run.stdout


def test_every_kind_of_import_is_found(structure, package):
    imports = structure.imports_of(
        package(
            {
                "core/__init__.py": "",
                "core/files.py": "import package.core.paths",
                "core/paths.py": "from typing import TYPE_CHECKING\n"
                "if TYPE_CHECKING:\n    from ..run import engine\nelse:\n    from . import files",
                "run/__init__.py": "from .engine import run",
                "run/engine.py": "def run():\n    from .. import core\n    from ..core import files\n",
            }
        )
    )
    assert imports == {
        "__init__": set(),
        "core.__init__": set(),
        "core.files": {"core.paths"},
        "core.paths": {"core.files"},
        "run.__init__": {"run.engine"},
        "run.engine": {"core.__init__", "core.files"},
    }


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        (
            {"core/a.py": "from . import b", "core/b.py": "from . import a"},
            "modules import each other",
        ),
        (
            {
                "checks/fake/a.py": "from ..compile import b",
                "checks/compile/b.py": "",
                "checks/compile/c.py": "from ..fake import d",
                "checks/fake/d.py": "",
            },
            "a circle of imports in checks: checks.compile, checks.fake",
        ),
        (
            {"core/a.py": "def f():\n    from ..run import b", "run/b.py": ""},
            "core.a imports run.b, a later layer",
        ),
        ({"helpers/a.py": ""}, "helpers has no place in LAYERS"),
        ({f"m{number}.py": "" for number in range(10)}, "11 modules at the top"),
    ],
)
def test_what_breaks_a_rule_is_reported(structure, package, files, complaint):
    complaints = structure.complaints(structure.imports_of(package(files)), {})
    assert any(complaint in line for line in complaints), complaints


def test_exceptions_have_to_be_needed(structure, package):
    graph = structure.imports_of(package({"core/a.py": "from ..run import b", "run/b.py": ""}))
    needed, unneeded = ("core.a", "run.b"), ("run.b", "core.a")
    assert structure.complaints(graph, {needed: "why"}) == []
    assert structure.unneeded(graph, {needed: "why"}) == []
    assert "run.b -> core.a is no longer needed" in structure.unneeded(graph, {unneeded: "why"})[0]


def test_floors_count_the_longest_chain(structure):
    assert structure.floors({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == 3
    assert structure.floors({"a": {"b"}, "b": {"a"}, "c": {"a"}}) == 2
