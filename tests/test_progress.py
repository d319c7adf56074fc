"""What the terminal shows while the session runs: `-v`, `-q`, the progress under xdist."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from kit import Suite

CASE = "cpu-float32-nograd-wide"
SUITE = """
GIVEN = dict(samples=[Sample((tensor(3), 2), id="wide")], requires_grad=False)

@customop_cases(scale, checks=["own.passes", "own.fails", "own.skips", "own.breaks"], **GIVEN)
def test_scale(): ...

@customop_cases(scale, checks="own.fails", **GIVEN)
@pytest.mark.xfail(reason="known")
def test_known(): ...

def test_by_hand(customop_check):
    customop_check(scale, torch.ones(3), 2)

def test_ordinary(): ...
"""
PERCENT = re.compile(r"\[ *(\d+)%\]")


def lines(result: pytest.RunResult) -> list[str]:
    """What is printed while items run."""
    outlines = result.outlines
    end = next(at for at, line in enumerate(outlines) if "= customop =" in line)
    failures = (at for at, line in enumerate(outlines) if "= FAILURES =" in line)
    return outlines[: next(failures, end)]


def percents(result: pytest.RunResult) -> list[int]:
    matches = (PERCENT.search(line) for line in lines(result))
    return [int(match[1]) for match in matches if match]


def test_a_line_has_the_op_the_check_the_case_and_what_was_found(suite: Suite) -> None:
    suite.test(SUITE)
    result = suite.run("-v", checks="own")
    op = f"{suite.ns}::scale"
    test = f"test_it.py::test_scale[[]{CASE}-own"
    for line in (
        f"{test}.passes[]] PASSED {op} *[[]*%[]]",
        f"{test}.fails[]] FAILED {op}: own-finding *[[]*%[]]",
        f"{test}.skips[]] SKIPPED {op} *[[]*%[]]",
        f"{test}.breaks[]] FAILED {op} *[[]*%[]]",
        f"test_it.py::test_known[[]{CASE}-own.fails[]] XFAIL {op}: own-finding *[[]*%[]]",
        "test_it.py::test_by_hand PASSED *[[]*%[]]",
        "test_it.py::test_ordinary PASSED *[[]100%[]]",
        f"FAILED {test}.fails[]] - own-find*",
    ):
        result.stdout.fnmatch_lines([line])
    assert percents(result) == sorted(percents(result))


def test_the_short_summary_keeps_its_words(suite: Suite) -> None:
    suite.test(SUITE)
    result = suite.run("-v", "-rA", checks="own")
    result.stdout.fnmatch_lines([f"PASSED test_it.py::test_scale[[]{CASE}-own.passes[]]"])


@pytest.mark.parametrize("args", [(), ("-q",), ("-qq",), ("--no-summary",)], ids=" ".join)
def test_without_v_only_letters(suite: Suite, args: Sequence[str]) -> None:
    suite.test(SUITE)
    result = suite.run(*args, checks="own")
    printed = "\n".join(lines(result) if args != ("--no-summary",) else result.outlines)
    assert "PASSED" not in printed
    assert "::scale" not in printed.partition("= customop =")[0]


def test_what_an_ini_file_asks_for_counts_and_no_terminal_is_needed(suite: Suite) -> None:
    suite.write("pytest.ini", "[pytest]\nverbosity_test_cases = 1\n")
    suite.test(SUITE)
    result = suite.run(checks="own.passes")
    result.stdout.fnmatch_lines([f"*own.passes[]] PASSED {suite.ns}::scale *"])
    suite.run("-p", "no:terminal", checks="own.passes")


def test_the_variants_of_a_line_are_counted(suite: Suite) -> None:
    suite.test("@customop_cases(scale, [(tensor(3), 2)], requires_grad=False)\ndef test(): ...\n")
    result = suite.run("-v", "--customop-variants=quick", checks="fake.forward")
    word = f"PASSED {suite.ns}::scale [0-9]* variants"
    result.stdout.fnmatch_lines([f"*variants-fake.forward[]] {word} *"])


@pytest.mark.parametrize("args", [(), ("-v",)], ids=["letters", "lines"])
def test_the_progress_of_workers_ends_at_100(suite: Suite, args: Sequence[str]) -> None:
    suite.test(SUITE)
    options = ("-n", "2", "--customop-isolate=on", "--customop-variants=quick", *args)
    result = suite.run_apart(*options, checks="own,fake.forward")
    numbers = percents(result)
    assert numbers == sorted(numbers)
    assert numbers[-1] == 100
    if args:
        line = (
            f"[[]gw?[]] [[]*%[]] FAILED {suite.ns}::scale: own-finding test_it.py::test_scale[[]*"
        )
        result.stdout.fnmatch_lines([line])


def test_the_progress_of_harvested_calls_ends_at_100(suite: Suite) -> None:
    suite.test("""
@pytest.mark.parametrize("n", range(4))
def test_calls(n):
    scale(torch.ones(n + 1), n)
""")
    options = ("-n", "2", "-v", f"--customop-harvest={suite.ns}")
    result = suite.run_apart(*options, checks="own,fake.forward,opcheck.test_schema")
    numbers = percents(result)
    # Each worker says how many items it adds when it begins with them, from when on the progress is right.
    assert numbers[:4] == [25, 50, 75, 100]
    assert sum(later < earlier for earlier, later in itertools.pairwise(numbers)) <= 2
    assert numbers[-1] == 100


@pytest.mark.parametrize(
    "args", [("-n", "1"), (), ("--customop-isolate=on",)], ids=["worker", "here", "child"]
)
def test_the_first_compilation_is_announced(suite: Suite, args: Sequence[str]) -> None:
    suite.write("conftest.py", "")
    suite.test("@customop_cases(plain, [(tensor(3),), (tensor(4),)])\ndef test(): ...\n")
    options = ("--customop-backend=eager", "-v", *args)
    result = suite.run_apart(*options, checks="opcheck.test_schema,compile.static")
    announced = [
        line for line in lines(result) if "the first compilation may take a minute" in line
    ]
    assert len(announced) == 1
    node = r"\[gw0\] " if "-n" in args else ""
    id_ = r"test_it.py::test\[cpu-float32-nograd-0-compile.static\]"
    assert re.match(
        rf"{node}{id_} \(the first compilation may take a minute\) \.\.\.", announced[0]
    )
    if not node:
        assert re.search(rf"\.\.\. PASSED {suite.ns}::plain +\[ *\d+%\]$", announced[0])


def test_a_first_session_says_what_it_waits_for(
    suite: Suite, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    suite.test("@customop_cases(plain, [(tensor(3),)], variants=False)\ndef test(): ...\n")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    # Tests of this process may have compiled.
    monkeypatch.setattr("pytest_customop.compat.compiler.has_compiled", lambda backend: False)

    def announced(*args: str) -> bool:
        # Stops before it compiles.
        result = suite.run("-x", *args, checks="own.fails,compile.static")
        return "customop: 1 item to compile; on a new machine" in result.stdout.str()

    assert announced()
    assert not announced("-q")
    assert not announced("--customop-backend=eager")
    assert not announced("--collect-only")
    (tmp_path / "cache" / "fxgraph").mkdir(parents=True)
    assert not announced()


def test_what_takes_long_has_its_seconds(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    from pytest_customop.plugin import progress

    monkeypatch.setattr(progress, "_LONG", 0.0)
    suite.test(SUITE)
    result = suite.run("-v", checks="own.passes")
    result.stdout.fnmatch_lines([f"*own.passes[]] PASSED {suite.ns}::scale in 0 s *"])
