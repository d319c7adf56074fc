"""A built-in check is one file: ids, options, lists, docs and reports follow from it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_customop.checks import builtin_checks, families
from pytest_customop.checks.check import COSTS
from pytest_customop.checks.families import find_families

ROOT = Path(__file__).parents[1]

# The example of the page, as it stands there.
PAGE = (ROOT / "docs" / "writing-a-check.md").read_text(encoding="utf-8")
CHECK = next(
    block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "CHECK =" in block
)

SUITE = """
import torch
from pytest_customop import customop_cases, tensor

@torch.library.custom_op("t_one_file::inverse", mutates_args=())
def inverse(x: torch.Tensor) -> torch.Tensor:
    return 1 / x

@customop_cases(inverse, [(tensor(3, fill=0),)])
def test_inverse(): ...
"""

# Everything in one process, because each import of torch takes seconds.
DRIVER = """
import runpy
import pytest

pytest.main(["--customop-list-checks"])
pytest.main(["--customop-explain=numerics-infinite"])
pytest.main(["-v", "--customop-checks=values.finite,numerics.finite", "--customop-report=report.json"])
runpy.run_path("tree/.ci/tables.py", run_name="__main__")
"""


def _tree(path: Path) -> Path:
    """A copy of the package, and of what is generated from it."""
    tree = path / "tree"
    ignored = shutil.ignore_patterns("__pycache__")
    for folder in ("pytest_customop", ".ci", "docs"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=ignored)
    return tree


def _add(tree: Path, family: str) -> None:
    """Add a check to a family; a family that is not there yet is a folder with a docstring."""
    folder = tree / "pytest_customop" / "checks" / family
    if not folder.exists():
        folder.mkdir()
        (folder / "__init__.py").write_text('"""What outputs are made of."""\n', encoding="utf-8")
    source = CHECK.replace("values.finite", f"{family}.finite")
    source = source.replace("output-infinite", f"{family}-infinite")
    (folder / "finite.py").write_text(source, encoding="utf-8")


def test_one_file_adds_a_check(tmp_path: Path) -> None:
    tree = _tree(tmp_path)
    added = ("values", "numerics")
    for family in added:
        _add(tree, family)
    (tmp_path / "test_it.py").write_text(SUITE, encoding="utf-8")
    run = subprocess.run(
        [sys.executable, "-c", DRIVER],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    lines = [line.split(maxsplit=1) for line in run.stdout.splitlines()]
    results = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["results"]
    page = (tree / "docs" / "checks.md").read_text(encoding="utf-8")
    for family in added:
        name = f"{family}.finite"
        assert [name, "no output is infinite"] in lines
        nodeid = f"test_it.py::test_inverse[cpu-float32-nograd-0-{name}]"
        assert f"{nodeid} FAILED" in run.stdout
        (result,) = (record for record in results if record["check"] == name)
        assert (result["finding"], result["fix"]) == (f"{family}-infinite", "Guard the division.")
        assert f"| [`{name}`](#{name.replace('.', '')}) | no output is infinite |" in page
        assert f"## {family}\n" in page
        assert f"### `{name}`\n\nNo output is infinite." in page
        assert f"`{family}-infinite`" in page
    assert len(results) == len(added)
    assert ["op", "numerics  values"] in lines  # the summary's columns
    assert "numerics-infinite\n\nAn output has an infinite element." in run.stdout


@pytest.mark.parametrize("check", builtin_checks(), ids=lambda check: check.name)
def test_a_built_in_check_documents_itself(check) -> None:
    for text in (check.catches, check.cannot_see):
        assert text[:1].isupper() or text.startswith("`"), text
        assert text.endswith("."), text
    assert check.cost in COSTS


def test_a_module_has_the_name_of_its_check() -> None:
    for check in builtin_checks():
        family, name = check.name.split(".")
        module = f"pytest_customop.checks.{family}.{name.removeprefix('test_')}"
        assert sys.modules[module].CHECK is check


def test_a_family_says_what_it_is_about() -> None:
    for family in families():
        assert family.summary.endswith("."), family.name
        assert family.checks


MADE = """
from pytest_customop import Check
from pytest_customop.findings import Explanation

CHECK = Check({name!r}, "a check", print, findings={{{code!r}: Explanation("", "")}})
"""


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"a/one.py": ("a.same", "x-y"), "a/two.py": ("a.same", "x-z")},
            "PACKAGE.a.two declares the check 'a.same', which is declared already",
        ),
        (
            {"a/one.py": ("b.one", "x-y")},
            "PACKAGE.a.one declares the check 'b.one': in the folder of the family a write a.<check>",
        ),
        (
            {"a/one.py": ("a.one", "x-y"), "a/two.py": ("a.two", "x-y")},
            "PACKAGE.a.two explains the finding 'x-y', which is explained already",
        ),
        (
            {"a/one.py": ("a.one", "x-y"), "b/one.py": ("b.one", "x-y")},
            "the finding 'x-y' is explained twice: in the families a and b",
        ),
    ],
)
def test_a_name_that_is_taken_is_an_error(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    files: dict[str, tuple[str, str]],
    message: str,
) -> None:
    package = f"checks_{abs(hash(request.node.name))}"
    for path, (name, code) in files.items():
        file = tmp_path / package / path
        file.parent.mkdir(parents=True, exist_ok=True)
        for folder in (file.parent, file.parent.parent):
            (folder / "__init__.py").touch()
        file.write_text(MADE.format(name=name, code=code), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=re.escape(message.replace("PACKAGE", package))):
        find_families(package)
