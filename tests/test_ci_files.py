"""What hosting and packaging read: the workflow, pre-commit's configuration, the licence."""

import os
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

import pytest_customop

ROOT = Path(__file__).parents[1]


def _workflow() -> dict[str, Any]:
    text = (ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8")
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded


def _commands() -> list[str]:
    jobs = _workflow()["jobs"].values()
    return [step["run"] for job in jobs for step in job["steps"] if "run" in step]


def test_the_workflow_runs_every_supported_version() -> None:
    entries = _workflow()["jobs"]["versions"]["strategy"]["matrix"]["include"]
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    supported = set(re.findall(r"Programming Language :: Python :: (3\.\d+)", project))
    assert {entry["python"] for entry in entries} == supported
    assert {entry["torch"] for entry in entries} == {"torch==2.4.*", "torch==2.13.*", "torch"}
    assert {entry["pytest"] for entry in entries} == {"pytest==8.0.*", "pytest"}
    oldest = {"python": "3.10", "torch": "torch==2.4.*", "pytest": "pytest==8.0.*"}
    newest = {"python": "3.13", "torch": "torch", "pytest": "pytest"}
    assert oldest in entries
    assert newest in entries


def test_the_workflow_runs_scripts_and_sessions_that_exist() -> None:
    commands = [shlex.split(command) for command in _commands()]
    assert [".ci/run"] in commands
    assert [".ci/run", "slow", "processes"] in commands
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    sessions = [command[command.index("-s") + 1] for command in commands if command[0] == "nox"]
    noxfile = (ROOT / ".ci" / "noxfile.py").read_text(encoding="utf-8")
    assert sessions
    for name in sessions:
        assert f"def {name}(session" in noxfile, name


def test_pre_commit_runs_scripts_that_exist() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    entries = [shlex.split(hook["entry"]) for repo in config["repos"] for hook in repo["hooks"]]
    assert {"ruff", "mypy"} <= {entry[0] for entry in entries}
    for entry in entries:
        for word in entry:
            assert not word.endswith(".py") or (ROOT / word).exists(), word


def test_the_licence_is_an_expression_and_not_its_text() -> None:
    tomllib = pytest.importorskip("tomllib")  # Python 3.11
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["license"] == "MIT"
    assert project["license-files"] == ["LICENSE"]
    assert not [name for name in project["classifiers"] if name.startswith("License ::")]


def test_the_version_is_the_same_everywhere() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    stated = re.findall(r'^version = "(.*)"$', project, re.MULTILINE)
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert stated == [citation["version"]] == [pytest_customop.__version__]
    assert citation["license"] == "MIT"
