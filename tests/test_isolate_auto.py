"""--customop-isolate=auto, the default: a child for variants that could crash the process."""

import os
import shutil
import subprocess
import sys
import time

import pytest
from kit import Suite
from test_child import _wait_until_gone

from pytest_customop.plugin.child import starting

compiler = shutil.which("cc") or shutil.which("gcc")
pytestmark = pytest.mark.skipif(
    compiler is None or sys.platform == "win32", reason="needs a C compiler"
)

# The first loops over an unsigned number of elements less one.
KERNEL = """
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

void differences(const float *x, float *out, size_t n) {
    for (size_t i = 0; i < n - 1; i++) out[i] = x[i + 1] - x[i];
}

void careful_differences(const float *x, float *out, size_t n) {
    for (size_t i = 0; i + 1 < n; i++) out[i] = x[i + 1] - x[i];
}

void bins(const float *x, float *out, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (!(x[i] >= 0 && x[i] <= 1)) abort();  // for a write before or behind the bins
        out[x[i] < 1 ? (int)(x[i] * 4) : 3] += 1;
    }
}
"""
SOURCE = """
import ctypes
import os
from pathlib import Path
import torch
from pytest_customop import customop_cases, tensor

HERE = Path(__file__).parent
KERNELS = ctypes.CDLL(str(HERE / "kernel.so"))

with (HERE / "imports").open("a") as log:
    print(os.getpid(), file=log)

def op(name, kernel):
    def call(x: torch.Tensor) -> torch.Tensor:
        with (HERE / "calls").open("a") as log:
            print(os.getpid(), *x.shape, file=log)
        x = x.contiguous()
        out = torch.zeros(max(x.numel() - 1, 0))
        pointer = lambda t: ctypes.c_void_p(t.data_ptr())
        kernel(pointer(x), pointer(out), ctypes.c_size_t(x.numel()))
        return out

    made = torch.library.custom_op("NS::" + name, call, mutates_args=())
    made.register_fake(lambda x: x.new_empty(max(x.numel() - 1, 0)))

op("careless", KERNELS.differences)
op("careful", KERNELS.careful_differences)

@torch.library.custom_op("NS::plain", mutates_args=())
def plain(x: torch.Tensor) -> torch.Tensor:
    return x.clone()

plain.register_fake(torch.empty_like)

@customop_cases("NS::careful", [(tensor(6),)], variants="shape")
def test_careful(): ...

@customop_cases("NS::careless", [(tensor(6),)], variants="shape")
def test_careless(): ...

@customop_cases("NS::plain", [(tensor(6),)], variants="shape")
def test_plain(): ...

def test_unmarked(): ...
"""
BINS = """
import ctypes
from pathlib import Path
import torch
from pytest_customop import customop_cases, tensor

KERNELS = ctypes.CDLL(str(Path(__file__).parent / "kernel.so"))

@torch.library.custom_op("NS::bins", mutates_args=())
def bins(x: torch.Tensor) -> torch.Tensor:
    x, out = x.contiguous(), torch.zeros(4)
    pointer = lambda t: ctypes.c_void_p(t.data_ptr())
    KERNELS.bins(pointer(x), pointer(out), ctypes.c_size_t(x.numel()))
    return out

bins.register_fake(lambda x: x.new_empty(4))

@customop_cases("NS::bins", [(tensor(6, low=0.1, high=0.9),)])
def test_bins(): ...
"""
CHECKS = "fake.forward,values.mutation"


@pytest.fixture
def native(suite: Suite) -> Suite:
    """A suite with two ops in C and one in Python."""
    source = suite.write("kernel.c", KERNEL)
    library = suite.path / "kernel.so"
    assert compiler is not None
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", source, "-o", library], check=True)
    suite.test(SOURCE, ops="")
    return suite


def _run(suite: Suite, *args: str, apart: bool = False) -> pytest.RunResult:
    start = suite.run_apart if apart else suite.run
    options = ("--customop-variants=quick", "--customop-report=report.json")
    return start(*options, *args, checks=CHECKS)


def _crashes(suite: Suite) -> set[tuple[str, str | None]]:
    """Check and variant of each crash that is reported."""
    crashes = {
        (record["check"], record["variant"])
        for record in suite.results()
        if record["finding"] == "crash"
    }
    assert {record["finding"] for record in suite.results()} <= {None, "crash"}
    return crashes


def _pids(suite: Suite, name: str) -> list[int]:
    return [int(line.split()[0]) for line in (suite.path / name).read_text().splitlines()]


def _assert_ended(pids: set[int]) -> None:
    if sys.platform == "linux":
        for pid in pids:
            _wait_until_gone(pid)


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "workers"])
def test_a_kernel_that_reads_out_of_range_is_reported_and_the_session_goes_on(
    native: Suite, workers: tuple[str, ...]
) -> None:
    result = _run(native, *workers, apart=bool(workers))
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert _crashes(native) == {("fake.forward", "empty0")} or workers
    assert {variant for _, variant in _crashes(native)} == {"empty0"}
    variants = {
        record["variant"] for record in native.results() if record["op"].endswith("careless")
    }
    assert {"empty0", "odd"} <= variants
    result.stdout.fnmatch_lines(["crash: *::careless dies of SIGSEGV in a plain call"])
    _assert_ended({*_pids(native, "calls"), *_pids(native, "imports")} - {os.getpid()})


def test_a_correct_native_op_is_silent_and_its_samples_run_here(native: Suite) -> None:
    result = _run(native, "-k", "careful")
    assert result.ret == 0
    assert {record["outcome"] for record in native.results()} == {"passed"}
    assert {record["variant"] for record in native.results()} >= {None, "empty0", "odd"}
    lines = (native.path / "calls").read_text().splitlines()
    here = [line.split()[1:] for line in lines if int(line.split()[0]) == os.getpid()]
    there = {tuple(line.split()[1:]) for line in lines if int(line.split()[0]) != os.getpid()}
    assert {*map(tuple, here)} == {("6",)}
    assert ("0",) in there
    assert "not run" not in result.stdout.str()
    assert len({*_pids(native, "imports")}) == 2


def test_a_kernel_that_trusts_the_range_of_numbers_gets_no_others_here(native: Suite) -> None:
    native.test(BINS, ops="")
    checks = "values.mutation,values.repeat,values.uninitialized,relations.special_entry"
    options = ("--customop-report=report.json", "--customop-variants=off")
    result = native.run(*options, checks=checks)
    assert result.ret == 0
    passed = {each["check"] for each in native.results() if each["outcome"] == "passed"}
    assert {"values.mutation", "values.repeat", "values.uninitialized"} <= passed


def test_a_session_without_any_option(native: Suite) -> None:
    source = (native.path / "test_it.py").read_text(encoding="utf-8")
    few = source.replace('variants="shape"', 'variants="shape", checks="fake.forward"')
    (native.path / "test_it.py").write_text(few, encoding="utf-8")
    native.pytester.runpytest_subprocess().assert_outcomes(passed=6, failed=1)


def test_ops_in_python_start_no_process(native: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*args: object) -> None:
        raise AssertionError("a child was started")

    monkeypatch.setattr(starting, "_interpreter", start)
    _run(native, "-k", "plain or unmarked").assert_outcomes(passed=5)
    _run(native, "-k", "careless and not variants").assert_outcomes(passed=2)
    _run(native, "--collect-only")
    assert {*_pids(native, "imports")} == {os.getpid()}


def test_the_first_failure_ends_the_session_and_is_run_again_alone(native: Suite) -> None:
    first = _run(native, "-x", "-k", "careless")
    first.assert_outcomes(failed=1, passed=1)  # the checks that cost more come later
    again = _run(native, "--lf")
    again.assert_outcomes(failed=1)
    assert _crashes(native) == {("fake.forward", "empty0")}


def test_the_line_that_runs_it_again_needs_no_option(native: Suite) -> None:
    _run(native, "-k", "careless")
    (failed,) = (record for record in native.results() if record["finding"] == "crash")
    name = failed["nodeid"].partition("::")[2]
    assert "--customop-isolate" not in failed["repro"]
    assert "--customop-variant=empty0" in failed["repro"]
    assert name in failed["repro"]


@pytest.mark.parametrize("plugins", [(), ("-p", "no:timeout")], ids=["with", "without"])
def test_a_hang_in_c_is_ended(native: Suite, plugins: tuple[str, ...]) -> None:
    """pytest-timeout, which could not end it, has the items of this process."""
    stuck = KERNEL.replace("i + 1 < n; i++)", "i + 1 < n || n == 0; i++) if (n)")
    source = native.write("kernel.c", stuck)
    assert compiler is not None
    command = [compiler, "-O0", "-shared", "-fPIC", source, "-o", native.path / "kernel.so"]
    subprocess.run(command, check=True)
    limit = ("--customop-timeout=3",)
    if plugins:
        native.write("conftest.py", "import pytest_customop.core.watchdog as w\nw.SECONDS = -7.0\n")
        limit = ()
    else:
        pytest.importorskip("pytest_timeout")
    begun = time.monotonic()
    _run(native, *limit, *plugins, "-k", "careful", apart=True)
    assert time.monotonic() - begun < 250
    hangs = {
        (record["variant"], record["message"]) for record in native.results() if record["finding"]
    }
    assert {variant for variant, _ in hangs} == {"empty0"}
    assert all("does not end within 3 s in a plain call" in message for _, message in hangs)


def test_a_system_without_children_says_so(native: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_customop.plugin.read_options.POSIX", False)
    result = _run(native, "-k", "careless")
    assert result.ret == 0
    reason = "could read out of bounds (a child process runs them on Linux and macOS)"
    assert reason in result.stdout.str()
    skipped = {record["variant"] for record in native.results() if record["outcome"] == "skipped"}
    assert "empty0" in skipped


IN_CHILD = "len((Path(__file__).parent / 'imports').read_text().split()) > 1"


@pytest.mark.parametrize(
    ("begins", "why"),
    [
        ("raise OSError('the port is in use')", "the child process cannot collect *in use"),
        ("os.abort()", "the child process dies of SIGABRT while it imports the test's file"),
    ],
)
def test_a_file_that_the_child_cannot_import_is_a_skip(
    native: Suite, begins: str, why: str
) -> None:
    source = (native.path / "test_it.py").read_text(encoding="utf-8")
    once = source.replace("def op(name", f"if {IN_CHILD}:\n    {begins}\n\ndef op(name")
    (native.path / "test_it.py").write_text(once, encoding="utf-8")
    result = _run(native, "-k", "careful", "-rs")
    result.assert_outcomes(passed=2, skipped=2)
    result.stdout.fnmatch_lines([f"SKIPPED * a child process cannot run them: {why}"])
    result.stdout.fnmatch_lines(["*::careful: 0 tried; 4 not run, they could read out of bounds *"])


def test_a_set_up_that_works_only_once_is_a_skip(native: Suite) -> None:
    native.write(
        "conftest.py",
        "import pytest\nfrom pathlib import Path\n"
        "@pytest.fixture(scope='session', autouse=True)\n"
        "def exclusive():\n"
        "    Path(__file__).with_name('taken').mkdir()\n",
    )
    result = _run(native, "-k", "careful", "-rs")
    result.assert_outcomes(passed=2, skipped=2)
    result.stdout.fnmatch_lines(["SKIPPED *: the set-up of the test fails there: FileExistsError*"])


def test_fixtures_of_the_session_are_set_up_in_the_child_too(native: Suite) -> None:
    native.write(
        "conftest.py",
        "import os, pytest\nfrom pathlib import Path\n"
        "@pytest.fixture(scope='session', autouse=True)\n"
        "def logged():\n"
        "    with Path(__file__).with_name('fixtures').open('a') as log:\n"
        "        print(os.getpid(), file=log)\n"
        "    yield\n"
        "    with Path(__file__).with_name('fixtures').open('a') as log:\n"
        "        print(os.getpid(), file=log)\n",
    )
    assert _run(native, "-k", "careful").ret == 0
    pids = _pids(native, "fixtures")
    assert len(pids) == 4
    assert len({*pids}) == 2
