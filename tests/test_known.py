"""Known failures in the mark: expected, kept with their reasons, strict, and never hiding another one."""

from __future__ import annotations

from typing import Any

import pytest
from kit import Suite, assert_one_error

OPS = """
import os
import torch
from pytest_customop import Known, Sample, customop_cases, tensor

@torch.library.custom_op("NS::turned", mutates_args=())
def turned(x: torch.Tensor) -> torch.Tensor:
    return x.t().contiguous().t()

turned.register_fake(lambda x: torch.empty_like(x))

@torch.library.custom_op("NS::right", mutates_args=())
def right(x: torch.Tensor) -> torch.Tensor:
    return x.clone()

right.register_fake(lambda x: torch.empty_like(x))

@torch.library.custom_op("NS::keeps", mutates_args=())
def keeps(x: torch.Tensor, keep: int) -> torch.Tensor:
    return x[:, :keep].clone(memory_format=torch.contiguous_format)

keeps.register_fake(lambda x, keep: x.new_empty(x.shape[0], keep))

@torch.library.custom_op("NS::ends", mutates_args=())
def ends(x: torch.Tensor) -> torch.Tensor:
    os._exit(3)

ends.register_fake(lambda x: torch.empty_like(x))
"""
CODE = "fake-stride-mismatch"


def run(suite: Suite, op: str, known: str, *args: str, more: str = "", apart: bool = False) -> Any:
    sample = "(tensor(5, 4), 2)" if op == "keeps" else "(tensor(3, 4),)"
    suite.test(
        f'@customop_cases("NS::{op}", [{sample}], known=[{known}]{more})\ndef test(): ...\n',
        ops=OPS,
    )
    start = suite.run_apart if apart else suite.run
    return start("--customop-report=report.json", *args, checks="fake.forward")


def only(suite: Suite) -> dict[str, Any]:
    (record,) = suite.results()
    return record


@pytest.mark.parametrize("apart", [False, True], ids=["alone", "xdist"])
def test_a_known_failure_is_expected_and_kept(suite: Suite, apart: bool) -> None:
    known = f'Known(check="fake", finding="{CODE}", reason="see #12")'
    result = run(suite, "turned", known, *["-n", "2"] * apart, apart=apart)
    result.assert_outcomes(xfailed=1)
    assert result.ret == 0
    record = only(suite)
    assert (record["outcome"], record["finding"], record["known"]) == ("xfailed", CODE, "see #12")
    result.stdout.fnmatch_lines(["Known failures:", f"  {CODE}  *::turned  1 case  see #12"])
    assert "Findings:" not in result.stdout.str()


def test_another_finding_fails(suite: Suite) -> None:
    result = run(suite, "turned", 'Known(finding="fake-shape-mismatch", reason="see #12")')
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [f"{CODE}: *", "known  another finding is known here: fake-shape-mismatch"]
    )


def test_one_that_passes_fails_and_names_the_entry(suite: Suite) -> None:
    result = run(suite, "right", 'Known(check="fake.forward", reason="see #12")')
    result.assert_outcomes(failed=1)
    assert only(suite)["outcome"] == "xpassed"
    result.stdout.fnmatch_lines(
        ["*delete Known(check='fake.forward', reason='see #12') from known="]
    )


@pytest.mark.parametrize(
    ("more", "ini", "passes"),
    [
        (", strict=False", "", True),
        ("", "xfail_strict = false", True),
        ("", "xfail_strict = true", False),
        (", strict=True", "xfail_strict = false", False),
    ],
)
def test_what_is_strict(suite: Suite, more: str, ini: str, passes: bool) -> None:
    suite.write("pytest.ini", f"[pytest]\n{ini}\n")
    result = run(suite, "right", f'Known(check="fake.forward"{more}, reason="see #12")')
    assert (result.ret == 0) is passes


@pytest.mark.parametrize(
    ("field", "matches"),
    [
        ("dtype=torch.float32", True),
        ("dtype=torch.float64", False),
        ("requires_grad=False", True),
        ("requires_grad=True", False),
        ('sample="0"', True),
        ("sample=0", True),
        ('device="cpu"', True),
        ('device="cuda"', False),
        ('layout="contiguous"', True),
        ('check="opcheck"', False),
        ('variant="empty0"', False),
        ('variant="*"', False),
    ],
)
def test_what_an_entry_is_about(suite: Suite, field: str, matches: bool) -> None:
    result = run(suite, "turned", f'Known({field}, reason="see #12")')
    result.assert_outcomes(**({"xfailed": 1} if matches else {"failed": 1}))


def test_a_variant_is_known_by_its_step(suite: Suite) -> None:
    known = 'Known(variant="one1", reason="see #12"), Known(variant="empty1", reason="see #12")'
    result = run(suite, "keeps", known, "--customop-variants=quick", more=', variants="shape"')
    result.assert_outcomes(passed=1, xfailed=1)
    outcomes = {record["variant"]: record["outcome"] for record in suite.results()}
    assert outcomes["one1"] == outcomes["empty1"] == "xfailed"
    result = run(
        suite,
        "keeps",
        'Known(variant="one1", reason="see #12")',
        "--customop-variants=quick",
        more=', variants="shape"',
    )
    result.assert_outcomes(passed=1, failed=1)


@pytest.mark.parametrize(("op", "ret"), [("keeps", 0), ("right", 1)])
def test_an_entry_for_any_variant_needs_one_that_fails(suite: Suite, op: str, ret: int) -> None:
    known = 'Known(variant="*", reason="see #12")'
    result = run(suite, op, known, "--customop-variants=quick", more=', variants="shape"')
    assert result.ret == ret


def test_what_is_not_to_run_does_not(suite: Suite) -> None:
    result = run(suite, "ends", 'Known(run=False, reason="it ends the process")')
    result.assert_outcomes(xfailed=1)
    assert only(suite)["message"] == "not run"
    result.stdout.fnmatch_lines(["  not run  *::ends  1 case  it ends the process"])


def test_a_known_crash_in_a_child(suite: Suite) -> None:
    known = 'Known(finding="crash", reason="it ends the process")'
    result = run(suite, "ends", known, "--customop-isolate", apart=True)
    result.assert_outcomes(xfailed=1)
    assert (only(suite)["outcome"], only(suite)["finding"]) == ("xfailed", "crash")


def test_a_variant_that_does_not_run_is_not_blamed_for_the_end_of_a_child(suite: Suite) -> None:
    suite.test(
        """
@torch.library.custom_op("NS::ends_if_odd", mutates_args=())
def ends_if_odd(x: torch.Tensor) -> torch.Tensor:
    if x.shape[0] % 2:
        os._exit(3)
    return x.clone()

ends_if_odd.register_fake(lambda x: torch.empty_like(x))

@customop_cases(
    "NS::ends_if_odd", [(tensor(4, 6),)], variants="shape",
    known=[Known(variant="empty0", run=False, reason="see #12")],
)
def test(): ...
""",
        ops=OPS,
    )
    options = ("--customop-isolate", "--customop-variants=quick", "--customop-report=report.json")
    suite.run_apart(*options, checks="fake.forward")
    outcomes = {
        record["variant"]: record["finding"] or record["outcome"] for record in suite.results()
    }
    assert outcomes["empty0"] == "xfailed"
    assert outcomes["odd"] == "crash"


def test_a_failure_that_no_entry_is_about_fails(suite: Suite) -> None:
    suite.test(
        f"""
@customop_cases(
    "NS::turned", [(tensor(3, 4),), Sample((tensor(2, 5),), id="wide")],
    known=[Known(sample="wide", finding="{CODE}", reason="see #12")],
)
def test(): ...
""",
        ops=OPS,
    )
    result = suite.run("--customop-report=report.json", checks="fake.forward")
    result.assert_outcomes(failed=1, xfailed=1)


@pytest.mark.parametrize(
    ("known", "reported"),
    [
        ("Known(check='fake')", "missing 1 required keyword-only argument: 'reason'"),
        ("Known(reason=' ')", "known[0] has the reason ' ': say why"),
        ("'fake.forward'", "known[0] is 'fake.forward': give Known(check=..., reason="),
        ("Known(dtype='float32', reason='a')", "known[0] has dtype='float32': give a torch dtype"),
        ("Known(strict=1, reason='a')", "known[0] has strict=1: give True or False"),
        ("Known(layout='rows', reason='a')", "known[0] has an unknown layout 'rows'"),
        (
            "Known(check='fake.forwad', reason='a')",
            "known[0] matches no case: unknown check 'fake.forwad'; did you mean 'fake.forward'?",
        ),
        (
            "Known(finding='fake-stride-mismach', reason='a')",
            "matches no case: unknown finding 'fake-stride-mismach'; did you mean 'fake-stride-mism",
        ),
        ("Known(sample='wide', reason='a')", "matches no case: unknown sample 'wide' (known: 0)"),
        ("Known(layout='strided', reason='a')", "matches no case: unknown layout 'strided'"),
    ],
)
def test_wrong_entries_are_one_error(suite: Suite, known: str, reported: str) -> None:
    result = run(suite, "right", known)
    if "missing" in reported:
        assert reported in result.stdout.str()
    else:
        assert_one_error(result, reported)


def test_a_session_that_runs_a_part_makes_no_entry_wrong(suite: Suite) -> None:
    known = f'Known(check="fake.symbolic", dtype=torch.float64, finding="{CODE}", reason="a")'
    result = run(suite, "right", known)
    result.assert_outcomes(passed=1)
