"""The unmarked tests of a suite find what they would find without the plugin, whatever ops do."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kit import HEAD, Suite

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("new_interpreters")]

RECORDER = Path(__file__).with_name("recorder.py")

# Where the plugin is not there, the marks are plain marks, and marked tests pass without running.
CONFTEST = """
import random

import numpy
import pytest
import torch

class Without:
    @pytest.fixture
    def customop_case(self):
        return None

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem):
        return True if "customop_case" in pyfuncitem.fixturenames else None

def pytest_configure(config):
    if not config.pluginmanager.has_plugin("customop"):
        config.addinivalue_line("markers", "customop_cases: ...")
        config.pluginmanager.register(Without())

@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart():
    torch.manual_seed(11)
    random.seed(11)
    numpy.random.seed(11)
"""

LOOKS = """
from recorder import record

def test_1_unmarked():
    record("before")

@customop_cases(scale, [(tensor(2, 4), 3)], requires_grad=True)
def test_2_marked(customop_case):
    assert customop_case() is not None

def test_3_unmarked():
    record("between")

@customop_cases(plain, [(tensor(3),)], layouts=["offset"])
class Test4:
    def test_marked(self, customop_case):
        assert customop_case() is not None

    def test_unmarked(self):
        record("in a marked class")

@customop_cases(plain, [(tensor(3),)])
def test_5_marked(): ...

def test_6_unmarked():
    record("after")
"""

# An op a change, each of which leaves its change behind.
BAD = """
import gc, logging, os, random, signal, sys, warnings
import numpy
import torch._dynamo.config, torch._functorch.config, torch._inductor.config
from recorder import record

def own_handler(number, frame): ...
def own_hook(kind, value, traceback): ...

def configure():
    torch._dynamo.config.suppress_errors = True
    torch._dynamo.config.cache_size_limit = 3
    torch._inductor.config.max_autotune = True
    torch._inductor.config.triton.cudagraphs = True
    torch._functorch.config.debug_partitioner = True

CHANGES = {
    "dtype": lambda: torch.set_default_dtype(torch.float64),
    "threads": lambda: torch.set_num_threads(torch.get_num_threads() + 1),
    "grad": lambda: torch.set_grad_enabled(False),
    "autocast": lambda: torch.set_autocast_enabled("cpu", True),
    "deterministic": lambda: torch.use_deterministic_algorithms(True, warn_only=True),
    "matmul": lambda: torch.set_float32_matmul_precision("medium"),
    "precision": lambda: setattr(torch.backends.cuda.matmul, "fp32_precision", "tf32"),
    "cudnn": lambda: setattr(torch.backends.cudnn, "benchmark", True),
    "anomaly": lambda: torch.autograd.set_detect_anomaly(True, check_nan=False),
    "denormal": lambda: torch.set_flush_denormal(True),
    "seed": lambda: [torch.manual_seed(7), random.seed(7), numpy.random.seed(7)],
    "draws": lambda: [torch.rand(5), random.random(), numpy.random.rand()],
    "numpy": lambda: numpy.seterr(all="ignore"),
    "warnings": lambda: warnings.simplefilter("ignore"),
    "logging": lambda: logging.getLogger("torch").setLevel(logging.DEBUG),
    "environment": lambda: os.environ.update(SUITE_LEAK="1"),
    "folder": lambda: os.chdir("/"),
    "gc": gc.disable,
    "recursion": lambda: sys.setrecursionlimit(sys.getrecursionlimit() + 77),
    "path": lambda: sys.path.insert(0, "/nowhere"),
    "hook": lambda: setattr(sys, "excepthook", own_hook),
    "signal": lambda: signal.signal(signal.SIGTERM, own_handler),
    "configuration": configure,
}
if not hasattr(torch.backends.cuda.matmul, "fp32_precision"):
    del CHANGES["precision"]  # came with torch 2.9
library = torch.library.Library("NS_LEAKS", "DEF")

def define(name, change):
    def kernel(x):
        change()
        return x * 2
    library.define(f"{name}(Tensor x) -> Tensor")
    library.impl(name, kernel, "CompositeExplicitAutograd")
    torch.library.register_fake(f"NS_LEAKS::{name}", torch.empty_like, lib=library)

for name, change in CHANGES.items():
    define(name, change)

def marked(name):
    @customop_cases(f"NS_LEAKS::{name}", [(tensor(3),)], checks=[
        "state", "values.repeat", "fake.forward", "opcheck.test_schema"])
    def test(customop_case):
        customop_case()
    return test

def unmarked(name):
    def test():
        record(name)
    return test

globals()["test_0_unmarked"] = unmarked("before")
for number, name in enumerate(CHANGES, 10):
    globals()[f"test_{number}_marked"] = marked(name)
    globals()[f"test_{number}_unmarked"] = unmarked(name)
"""


@pytest.fixture
def watched(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> Suite:
    """A suite with folders of its own for temporary files and what is compiled."""
    (suite.path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(suite.path / "temporary"))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(suite.path / "compiled"))
    suite.write("conftest.py", CONFTEST)
    suite.write("recorder.py", RECORDER.read_text(encoding="utf-8"))
    return suite


def test_correct_ops_and_every_check_leave_nothing_behind(watched: Suite) -> None:
    watched.test(LOOKS)
    with_plugin, without = recorded(watched, plugin=True), recorded(watched, plugin=False)
    assert [test["name"] for test in without] == ["before", "between", "in a marked class", "after"]
    for actual, expected in zip(with_plugin, without, strict=True):
        assert list(differences(actual, expected)) == [], actual["name"]


def test_ops_that_change_all_they_can_leave_nothing_behind(watched: Suite) -> None:
    watched.test(BAD.replace("NS_LEAKS", watched.ns), ops=HEAD)
    with_plugin, without = recorded(watched, plugin=True), recorded(watched, plugin=False)
    assert len(without) > 20
    for actual, expected in zip(with_plugin, without, strict=True):
        assert list(differences(actual, expected)) == [], actual["name"]


def test_the_recorder_sees_what_a_test_changes(watched: Suite) -> None:
    """The same changes, made by ordinary tests: each shows in what is recorded after it."""
    changes = (
        BAD[: BAD.index("library = ")]
        + """
@pytest.mark.parametrize("name", CHANGES)
def test_change(name):
    CHANGES[name]()
    record(name)
"""
    )
    watched.write("test_0.py", "from recorder import record\ndef test_0(): record('before')\n")
    watched.test(changes, ops=HEAD)
    seen = recorded(watched, plugin=False)
    assert len(seen) > 20
    for before, after in itertools.pairwise(seen):
        changed = [line for line in differences(before, after) if not line.startswith(".name")]
        shown = [line for line in changed if not line.startswith(".random")]
        assert shown or after["name"] in ("seed", "draws"), after["name"]
    seeds = {test["name"]: test["random"]["seed"] for test in seen}
    assert seeds["numpy"] == seeds["seed"] == 7 != seeds["before"]


def recorded(suite: Suite, *args: str, plugin: bool) -> list[dict[str, Any]]:
    """What the unmarked tests recorded, one line each."""
    path = suite.path / "RECORDED"
    path.unlink(missing_ok=True)
    options = ["-p", "no:randomly", "-p", "no:cacheprovider", *args]
    options += ["--customop-variants=off"] if plugin else ["-p", "no:customop"]
    result = suite.pytester.runpytest_subprocess(*options, timeout=300)
    assert path.exists(), result.stdout.str()
    return [json.loads(line) for line in path.read_text().splitlines()]


def differences(first: Any, second: Any, path: str = "") -> Iterator[str]:
    """The differences, as `a.b: 1 != 2`."""
    if isinstance(first, dict) and isinstance(second, dict):
        for key in {**first, **second}:
            yield from differences(first.get(key), second.get(key), f"{path}.{key}")
    elif first != second:
        yield f"{path}: {first} != {second}"
