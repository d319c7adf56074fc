"""Fixtures of the project's own tests."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

# No vector instructions in generated code, as in `compile.*`: to find out which ones there are, inductor
# builds a program for each set of them. To be set before torch is imported.
os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "0")

import kit
import preloaded
import pytest
import torch
from snapshot import Snapshot, Snapshots

pytest_plugins = ("pytester", "scheduling")
SNAPSHOTS = pytest.StashKey[Snapshots]()
MOST_WORKERS = 4  # each takes about 2 GB
MOST_SECONDS = 900  # of a test, before its process ends with the stacks of all threads


@pytest.hookimpl(tryfirst=True)  # before xdist reads its options
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Run the whole suite with a worker a processor, unless `-n` says otherwise.

    What is named on the command line runs in this process.
    """
    whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    worker = hasattr(config, "workerinput")
    if config.getoption("--rewrite-snapshots"):
        config.option.numprocesses = 0
    elif whole and not worker and getattr(config.option, "numprocesses", 0) is None:
        config.option.numprocesses = "logical"
        config.option.maxprocesses = config.option.maxprocesses or MOST_WORKERS
        if config.option.dist == "no":
            config.option.dist = "loadgroup"
        if hasattr(config.option, "timeout") and config.option.timeout is None:  # pytest-timeout
            config.option.timeout, config.option.timeout_method = MOST_SECONDS, "thread"


def pytest_configure(config: pytest.Config) -> None:
    """Background jobs of a shell ignore Ctrl-C, and so would the processes that the tests start."""
    config.stash[SNAPSHOTS] = Snapshots(config.getoption("--rewrite-snapshots"))
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    if workers > 1:  # threads of torch that wait for a processor take its time
        torch.set_num_threads(max(1, torch.get_num_threads() // workers))
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """How processes are started, and what becomes of texts that differ."""
    parser.addoption(
        "--real-processes",
        action="store_true",
        help="start every process as a new interpreter, and not from one that has torch imported",
    )
    parser.addoption(
        "--rewrite-snapshots",
        action="store_true",
        help="write tests/snapshots from the texts of this session, and compare none of them",
    )


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the texts, if that is asked for."""
    snapshots = session.config.stash[SNAPSHOTS]
    if snapshots.rewrite:
        narrowed = session.config.option.keyword or any(
            "::" in argument for argument in session.config.args
        )
        snapshots.write(whole=not narrowed and not session.testsfailed)


@pytest.fixture(scope="session", autouse=True)
def _preloaded_processes(request: pytest.FixtureRequest) -> Iterator[None]:
    """Have processes of this interpreter started with torch imported: `preloaded`."""
    if preloaded.AVAILABLE and not request.config.getoption("--real-processes"):
        with preloaded.installed():
            yield
    else:
        yield


@pytest.fixture
def new_interpreters() -> Iterator[None]:
    """Have processes started as usual, for tests of what they import and how they start."""
    with preloaded.removed():
        yield


@pytest.fixture
def kept_modules() -> Iterator[dict[str, ModuleType]]:
    """Modules that stay imported when pytester has put `sys.modules` back: torch loads only once."""
    kept: dict[str, ModuleType] = {}
    yield kept
    for name, module in kept.items():
        sys.modules.setdefault(name, module)


# What the processes of a test must not see of the session around it: its workers, and that it runs on a
# server, where pytest prints the short summary in full.
OUTER = (
    *("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_XDIST_TESTRUNUID"),
    *("CI", "BUILD_NUMBER"),
)


@pytest.fixture
def suite(
    kept_modules: dict[str, ModuleType],
    pytester: pytest.Pytester,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[kit.Suite]:
    """A folder of tests to be, whose ops have a namespace of their own.

    Every report that they write is validated.
    """
    for name in OUTER:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", kit.COLUMNS)
    suite = kit.Suite(pytester, request.node.name, kept_modules)
    yield suite
    suite.validate_reports()


@pytest.fixture(scope="module")
def module_suite(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[kit.ModuleSuite]:
    """A suite for all tests of a module, to run once. Mark these with `xdist_group`."""
    name = request.module.__name__
    suite = kit.ModuleSuite(tmp_path_factory.mktemp(name), name)
    yield suite
    suite.validate_reports()


@pytest.fixture
def snapshot(request: pytest.FixtureRequest) -> Snapshot:
    """Compares texts with those in the file of the test's module: `snapshot(text)`."""
    names = {}
    if "suite" in request.fixturenames:
        suite = request.getfixturevalue("suite")
        names = {str(suite.path): "<folder>", suite.ns: "NS"}
    module, test = request.module.__name__, request.node.name
    return Snapshot(request.config.stash[SNAPSHOTS], module, test, names)


@pytest.fixture(scope="session")
def worker_folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the workers of one session share, for native code that they build."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if hasattr(request.config, "workerinput") else base) / "native"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture
def no_constants_of_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hypothesis draws numbers that stand in the modules that are loaded: here, those of other tests."""
    providers = pytest.importorskip("hypothesis.internal.conjecture.providers")
    empty = getattr(providers, "Constants", None)
    if empty is not None:
        monkeypatch.setattr(providers, "_get_local_constants", empty, raising=False)
