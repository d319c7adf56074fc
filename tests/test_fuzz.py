"""`--customop-fuzz`: inputs that are drawn from the samples of a mark, one item per check."""

from __future__ import annotations

import re
from typing import Any

import pytest
from kit import Suite

from pytest_customop import Sample, tensor

pytest.importorskip("hypothesis")
pytestmark = pytest.mark.usefixtures("no_constants_of_modules")

WRONG_SOMEWHERE = """
@torch.library.custom_op("NS::weigh", mutates_args=())
def weigh(x: torch.Tensor, w: torch.Tensor, n: int = 2) -> torch.Tensor:
    out = x * w * n
    return out.double() if n == 6 and x.shape[0] > 4 else out

@weigh.register_fake
def _(x, w, n=2):
    return torch.empty_like(x)

@torch.library.custom_op("NS::clip", mutates_args=())
def clip(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x.abs() < 8, x, x.sign())

clip.register_fake(torch.empty_like)

@torch.library.custom_op("NS::fixed", mutates_args=())
def fixed(x: torch.Tensor) -> torch.Tensor:
    if x.shape != (3,) or x.dtype != torch.float32 or x.requires_grad:
        raise ValueError("three numbers")
    return x.clone()

fixed.register_fake(torch.empty_like)
"""
MARKS = """
@customop_cases(weigh, samples=[(tensor(4, 6), tensor(6)), (tensor(2, 3), tensor(3), 3)])
def test_weigh(): ...
"""


def run(suite: Suite, *args: str, checks: str = "fake.forward") -> pytest.RunResult:
    report = "--customop-report=report.json"
    return suite.run("--customop-fuzz=200", report, *args, checks=checks)


def generated(suite: Suite) -> list[dict[str, Any]]:
    """The results of the items that generate inputs."""
    return [record for record in suite.results() if "-fuzz-" in record["nodeid"]]


def write(suite: Suite, marks: str) -> None:
    suite.test(WRONG_SOMEWHERE + marks)


def pasted(text: str) -> Any:
    """The sample that a failure shows."""
    line = re.search(r"^Sample\(.*$", text, re.MULTILINE)
    assert line
    return eval(line[0], {"Sample": Sample, "tensor": tensor})


def test_a_failure_is_shrunk_and_printed_as_a_sample(suite: Suite) -> None:
    write(suite, MARKS)
    result = run(suite)
    result.assert_outcomes(passed=2, failed=1)
    (record,) = [record for record in generated(suite) if record["outcome"] == "failed"]
    assert record["finding"] == "fake-dtype-mismatch"
    assert record["nodeid"] == "test_it.py::test_weigh[cpu-float32-nograd-fuzz-fake.forward]"
    sample = pasted(record["evidence"])
    x, w = sample.specs()
    assert x.shape[0] == 5  # the smallest that shows it
    assert x.shape[1:] == w.shape
    assert 6 in (*sample.args[2:], *sample.kwargs.values())
    rerun = f"pytest '{record['nodeid']}' --customop-checks=fake.forward --customop-fuzz=200"
    assert record["repro"] == rerun
    result.stdout.re_match_lines([r"  \S+::weigh: \d+ that it accepts, by 1 check"])


def test_what_failed_comes_first_the_next_time_and_seeds_differ(suite: Suite) -> None:
    write(suite, MARKS)
    run(suite)
    first = [record["evidence"] for record in generated(suite) if record["outcome"] == "failed"]
    run(suite, "--customop-fuzz=1", "--customop-seed=7", "-k", "fuzz")
    again = [record["evidence"] for record in generated(suite) if record["outcome"] == "failed"]
    assert [evidence.partition("as a sample")[2] for evidence in again] == [
        evidence.partition("as a sample")[2] for evidence in first
    ]


def test_it_hunts_for_a_disagreement_with_the_reference(suite: Suite) -> None:
    write(
        suite,
        """
@customop_cases(
    clip, samples=[(tensor(4, 6),)], reference=lambda x: torch.where(x.abs() <= 8, x, x.sign())
)
def test_clip(): ...
""",
    )
    run(suite, "-k", "fuzz", checks="reference.values").assert_outcomes(failed=1)
    (record,) = generated(suite)
    sample = pasted(record["evidence"])
    (x,) = sample.specs()
    assert x.fill in (8.0, -8.0) or x.values is not None


def test_under_xdist_it_finds_the_same(suite: Suite) -> None:
    write(suite, MARKS)
    result = suite.run_apart(
        "-n2", "--customop-fuzz=200", "--customop-report=report.json", checks="fake.forward"
    )
    result.assert_outcomes(passed=2, failed=1)
    (record,) = [record for record in generated(suite) if record["outcome"] == "failed"]
    assert pasted(record["evidence"]).specs()[0].shape[0] == 5


def test_what_the_op_rejects_is_no_input(suite: Suite) -> None:
    write(suite, "@customop_cases(fixed, [(tensor(3),)])\ndef test_fixed(): ...\n")
    run(suite, "-k", "fuzz").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("variants", "items"),
    [
        ("False", 0),
        ('["layout"]', 1),
        ('lambda variant: "n is small" if variant.sample.kwargs.get("n") == 6 else None', 1),
    ],
)
def test_the_mark_says_what_changes(suite: Suite, variants: str, items: int) -> None:
    write(
        suite,
        f"@customop_cases(weigh, [(tensor(5, 6), tensor(6))], variants={variants})\n"
        "def test_weigh(): ...\n",
    )
    run(suite, "-k", "fuzz")
    records = generated(suite)
    assert len({record["nodeid"] for record in records}) == items
    assert "failed" not in {record["outcome"] for record in records}


def test_beyond_the_samples_it_is_a_note(suite: Suite) -> None:
    suite.test(
        """
@torch.library.custom_op("NS::add", mutates_args=())
def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x + y

add.register_fake(lambda x, y: torch.empty_like(x))

@customop_cases(add, [(tensor(4, 6), tensor(4, 6))], variants=["shape"])
def test_add(): ...
"""
    )
    result = run(suite, "-k", "fuzz")
    result.assert_outcomes(skipped=1, deselected=1)
    assert {record["outcome"] for record in generated(suite)} == {"noted"}
    assert {record["reason"] for record in generated(suite)} == {"beyond-sample"}


def test_a_known_failure_of_any_variant_counts(suite: Suite) -> None:
    write(
        suite,
        """
from pytest_customop import Known

@customop_cases(
    weigh, [(tensor(4, 6), tensor(6))],
    known=[Known(reason="issue 7", check="fake.forward", variant="*", strict=False)],
)
def test_weigh(): ...
""",
    )
    run(suite, "-k", "fuzz").assert_outcomes(xfailed=1, deselected=1)


def test_native_code_runs_in_a_child_process(suite: Suite) -> None:
    suite.test(
        """
import ctypes

@torch.library.custom_op("NS::crashes", mutates_args=())
def crashes(x: torch.Tensor) -> torch.Tensor:
    if x.numel() > 40:
        ctypes.string_at(0)
    return x.clone()

crashes.register_fake(torch.empty_like)

@customop_cases(crashes, [(tensor(4, 6),)])
def test_crashes(): ...
"""
    )
    result = suite.run_apart(
        *("--customop-fuzz=50", "--customop-report=report.json", "-k", "fuzz"),
        checks="fake.forward",
    )
    result.assert_outcomes(failed=1, deselected=1)
    (record,) = generated(suite)
    assert record["finding"] == "crash"
    (x,) = pasted(record["evidence"]).specs()
    assert x.shape[0] * x.shape[1] > 40


def test_random_streams_are_as_before(suite: Suite) -> None:
    suite.test(
        WRONG_SOMEWHERE
        + MARKS
        + """
import random
torch.manual_seed(0)  # the stream goes on after the import
BEFORE = torch.get_rng_state(), random.getstate()

def test_zzz():
    assert torch.equal(torch.get_rng_state(), BEFORE[0])
    assert random.getstate() == BEFORE[1]
"""
    )
    run(suite, "-k", "fuzz or zzz").assert_outcomes(passed=1, failed=1, deselected=2)


def test_without_hypothesis_it_says_what_to_install(
    suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    import importlib.util

    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: None if name == "hypothesis" else find_spec(name, *rest),
    )
    write(suite, MARKS)
    result = run(suite)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*--customop-fuzz=200: Hypothesis * pip install 'pytest-customop[[]fuzz]'"]
    )


def test_a_session_without_it_imports_no_part_of_it(suite: Suite) -> None:
    write(suite, MARKS)
    suite.write(
        "conftest.py",
        "import sys\ndef pytest_unconfigure():\n"
        "    print('loaded:', [n for n in sys.modules if n.startswith('pytest_customop.fuzz')])\n",
    )
    result = suite.run_apart(checks="fake.forward")
    result.stdout.fnmatch_lines(["loaded: []"])
