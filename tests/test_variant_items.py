"""The variants of samples in a suite: their items, what the mark and the session say of them."""

from __future__ import annotations

import shlex
from collections import defaultdict
from typing import Any

import pytest
from kit import Suite, assert_one_error

from pytest_customop.plan.variants import ranking

OPS = """
import torch
from pytest_customop import customop_cases, tensor

@torch.library.custom_op("NS::square", mutates_args=())
def square(x: torch.Tensor) -> torch.Tensor:
    if x.dim() != 2:
        raise ValueError(f"two dims, not {x.dim()}")
    return torch.empty_like(x).copy_(x * x)

@square.register_fake
def _(x):
    return torch.empty_like(x)

@torch.library.custom_op("NS::rows", mutates_args=())
def rows(x: torch.Tensor, dim: int) -> torch.Tensor:
    return x.sum(dim)

@rows.register_fake
def _(x, dim):
    return x.new_empty(x.shape[:dim] + x.shape[dim + 1:])

@torch.library.custom_op("NS::wrong", mutates_args=())
def wrong(x: torch.Tensor) -> torch.Tensor:
    return x.clone()

@wrong.register_fake
def _(x):
    return x.new_empty(3)

@torch.library.custom_op("NS::foreign", mutates_args=())
def foreign(x: torch.Tensor) -> torch.Tensor:
    import ctypes
    return x.clone()

@foreign.register_fake
def _(x):
    return torch.empty_like(x)
"""
FORWARD = "fake.forward"


def run(suite: Suite, source: str, *args: str, amount: str = "quick", apart: bool = False) -> Any:
    suite.test(source, ops=OPS)
    start = suite.run_apart if apart else suite.run
    arguments = (f"--customop-variants={amount}", "--customop-report=report.json", *args)
    return start(*arguments, checks=FORWARD)


def near(suite: Suite) -> dict[str, dict[str, Any]]:
    """The results of the variants, by step."""
    return {
        result["variant"]: result for result in suite.results() if result["variant"] is not None
    }


SQUARE = '@customop_cases("NS::square", [(tensor(4, 4),)]{more})\ndef test(): ...\n'
ROWS = '@customop_cases("NS::rows", [(tensor(4, 6), 1)]{more})\ndef test(): ...\n'


def test_the_variants_of_a_case_are_one_item_a_check(suite: Suite) -> None:
    result = run(suite, ROWS.format(more=""), "-v")
    result.assert_outcomes(passed=1, failed=1)
    results = near(suite)
    assert results["dim.negated"]["outcome"] == "failed"
    assert results["dim.negated"]["finding"] == "fake-shape-mismatch"
    assert results["odd"]["outcome"] == "passed"
    result.stdout.fnmatch_lines(
        ["*test_it.py::test[[]cpu-float32-nograd-0-variants-fake.forward[]] FAILED*"]
    )


def test_keywords_select_the_variants(suite: Suite) -> None:
    run(suite, ROWS.format(more=""), "-k", "variants")
    assert None not in {result["variant"] for result in suite.results()}
    run(suite, ROWS.format(more=""), "-k", "not variants")
    assert {result["variant"] for result in suite.results()} == {None}


@pytest.mark.parametrize("amount", ["quick", "off"])
def test_steps_narrow_the_variants(suite: Suite, amount: str) -> None:
    run(suite, ROWS.format(more=""), "--customop-variant=dim.negated,nan", amount=amount)
    assert {*near(suite)} == {"dim.negated", "nan"}


def test_the_command_of_a_failure_runs_its_variant_alone(suite: Suite) -> None:
    run(suite, ROWS.format(more=""))
    command = near(suite)["dim.negated"]["repro"]
    _, nodeid, *flags = shlex.split(command)
    result = suite.run(nodeid, *flags, "--customop-report=again.json", checks=None)
    result.assert_outcomes(failed=1)
    assert [result["variant"] for result in suite.results("again.json")] == ["dim.negated"]


def test_a_wrong_step_is_a_usage_error(suite: Suite) -> None:
    result = run(suite, ROWS.format(more=""), "--customop-variant=dim.negatd")
    assert result.ret == 4
    result.stderr.fnmatch_lines(
        [
            "*--customop-variant=dim.negatd: unknown variant 'dim.negatd'; did you mean 'dim.negated'*"
        ]
    )


def test_different_defects_are_reported_as_such(suite: Suite) -> None:
    source = """
@torch.library.custom_op("NS::narrow", mutates_args=())
def narrow(x: torch.Tensor, keep: int) -> torch.Tensor:
    return x[:, :keep].clone()

@narrow.register_fake
def _(x, keep):
    return x.new_empty(x.shape[0], keep)

@customop_cases("NS::narrow", [(tensor(5, 4), 2)])
def test(): ...
"""
    result = run(suite, "import torch\n" + source)
    codes = {result["finding"] for result in near(suite).values() if result["outcome"] == "failed"}
    assert codes == {"fake-shape-mismatch", "fake-stride-mismatch"}
    result.stdout.fnmatch_lines(
        [
            "fake-stride-mismatch, fake-shape-mismatch: 2 defects",
            "fake-stride-mismatch: *",
            "rerun *--customop-variant=transposed*",
            "fake-shape-mismatch: *",
            "rerun *--customop-variant=*",
            "also   the variant one1",
            "Notes *",
            "  fake-shape-mismatch *one more leading dim*",
        ]
    )


def test_a_failure_says_what_was_changed_and_how_to_run_it_again(suite: Suite) -> None:
    result = run(suite, ROWS.format(more=""))
    result.stdout.fnmatch_lines(
        [
            "case   cpu-float32-nograd-0~dim.negated",
            "       a variant of the sample: dim=-1, the same dim counted the other way",
            "rerun  pytest *0-variants-fake.forward[]]*--customop-variant=dim.negated",
        ]
    )


def test_the_summary_keeps_variants_apart(suite: Suite) -> None:
    result = run(suite, ROWS.format(more=""))
    result.stdout.fnmatch_lines(
        [
            "op*fake*variants",
            f"{suite.ns}::rows  1 ok  1 failed, * ok",
            "",
            "Variants of the samples:",
            f"  {suite.ns}::rows: * tried*",
            "",
            "Findings:",
            f"  fake-shape-mismatch  {suite.ns}::rows  0~dim.negated  fake.forward",
        ]
    )


def test_what_the_op_rejects_is_no_failure(suite: Suite) -> None:
    result = run(suite, SQUARE.format(more=""))
    batch = near(suite)["batch"]
    assert batch["outcome"] == "skipped"
    assert batch["message"].startswith("rejected: ")
    assert "ValueError: two dims, not 3" in batch["message"]
    assert batch["message"].endswith("; its fake kernel accepts it")
    result.stdout.fnmatch_lines(
        [
            f"  {suite.ns}::square: * tried, 1 of them rejected by the op (its fake kernel accepts 1 *"
        ]
    )
    assert result.ret == 0
    assert "Could not be checked" not in result.stdout.str()


def test_a_defect_of_the_sample_is_reported_there_only(suite: Suite) -> None:
    run(suite, '@customop_cases("NS::wrong", [(tensor(4, 6),)])\ndef test(): ...\n')
    sample_results = [result for result in suite.results() if result["variant"] is None]
    assert [result["outcome"] for result in sample_results] == ["failed"]
    outcomes = {result["outcome"] for result in near(suite).values()}
    assert outcomes == {"skipped"}
    assert all(result["message"].startswith("as-sample: ") for result in near(suite).values())


def test_what_could_read_out_of_bounds_is_not_run_without_a_child(suite: Suite) -> None:
    source = '@customop_cases("NS::foreign", [(tensor(4, 6),)])\ndef test(): ...\n'
    result = run(suite, source, "--customop-isolate=off")
    results = near(suite)
    assert results["empty0"]["outcome"] == "skipped"
    assert "the kernel uses ctypes" in results["empty0"]["message"]
    assert results["odd"]["outcome"] == "passed"
    result.stdout.fnmatch_lines(["*not run, they could read out of bounds (--customop-isolate*"])


@pytest.mark.parametrize("more", ["", ", requires_grad=False"])
def test_off_derives_none(suite: Suite, more: str) -> None:
    run(suite, ROWS.format(more=more), amount="off")
    assert near(suite) == {}
    assert len(suite.results()) == 1


def test_false_in_the_mark_derives_none(suite: Suite) -> None:
    run(suite, ROWS.format(more=", variants=False"), amount="full")
    assert near(suite) == {}


def test_kinds_in_the_mark(suite: Suite) -> None:
    run(suite, ROWS.format(more=', variants=["layout", "shape"]'), amount="full")
    assert {"transposed", "odd"} <= {*near(suite)}
    assert {"dim.negated", "zeros", "float64"}.isdisjoint(near(suite))


def test_a_predicate_with_a_reason(suite: Suite) -> None:
    source = (
        "def unfit(near):\n    return 'dims count from 0' if near.step == 'dim.negated' else None\n"
    )
    run(suite, source + ROWS.format(more=", variants=unfit"))
    result = near(suite)["dim.negated"]
    assert (result["outcome"], result["message"]) == ("skipped", "dims count from 0")


def test_a_number_caps_them_and_the_summary_says_so(suite: Suite) -> None:
    result = run(suite, ROWS.format(more=""), amount="3")
    assert len(near(suite)) == 3
    result.stdout.fnmatch_lines(["*::rows: 3 tried; * left out (--customop-variants=full)"])


def test_full_has_more_than_quick(suite: Suite) -> None:
    run(suite, ROWS.format(more=""))
    quick = {*near(suite)}
    run(suite, ROWS.format(more=""), amount="full")
    full = {*near(suite)}
    assert quick < full
    assert {"nan", "doubled"} <= full - quick


def test_the_body_runs_on_the_samples_only(suite: Suite) -> None:
    source = (
        '@customop_cases("NS::rows", [(tensor(4, 6), 1)])\n'
        "def test(customop_case):\n    assert customop_case.sample_id == '0'\n"
    )
    result = run(suite, source, "--customop-checks=fake.forward,body")
    bodies = [result for result in suite.results() if result["check"] == "body"]
    assert [result["sample"] for result in bodies] == ["0"]
    assert near(suite)
    del result


def test_an_own_sample_is_no_variant_of_another(suite: Suite) -> None:
    source = (
        '@customop_cases("NS::rows", [(tensor(4, 6), 1), (tensor(4, 6), -1)])\ndef test(): ...\n'
    )
    run(suite, source)
    assert "dim.negated" not in near(suite)
    assert {result["sample"] for result in suite.results() if result["outcome"] == "failed"} == {
        "1"
    }


def test_each_sample_has_its_own(suite: Suite) -> None:
    source = (
        '@customop_cases("NS::square", [Sample((tensor(4, 4),), id="even"), (tensor(7, 9),)])\n'
        "def test(): ...\n"
    )
    suite.write("conftest.py", "")
    run(suite, "from pytest_customop import Sample\n" + source)
    variants = defaultdict(set)
    for result in suite.results():
        variants[result["sample"]].add(result["variant"])
    assert {None, "odd", "empty0"} <= variants["even"]
    assert {None, "odd", "empty0"} <= variants["1"]


def test_a_cell_that_the_mark_leaves_out_has_none(suite: Suite) -> None:
    more = ", requires_grad=False, skip_if=lambda cell: 'no' if cell.sample_id.startswith('0') else None"
    run(suite, ROWS.format(more=more))
    assert [result["outcome"] for result in suite.results()] == ["skipped"]
    assert near(suite) == {}


def test_the_same_under_xdist(suite: Suite) -> None:
    run(suite, ROWS.format(more="") + SQUARE.format(more="").replace("def test(", "def test_b("))
    here = {(result["nodeid"], result["outcome"], result["message"]) for result in suite.results()}
    result = run(
        suite,
        ROWS.format(more="") + SQUARE.format(more="").replace("def test(", "def test_b("),
        "-n",
        "2",
        amount="quick",
        apart=True,
    )
    there = {(result["nodeid"], result["outcome"], result["message"]) for result in suite.results()}
    assert here == there
    result.stdout.fnmatch_lines(["*::rows: * tried*left out (--customop-variants=full)"])


@pytest.mark.parametrize(
    ("more", "reported"),
    [
        (', variants="shapes"', "unknown kind of variants 'shapes'; did you mean 'shape'?"),
        (", variants=3", "variants is 3: give a list of names"),
        (", variants=lambda near: True", "variants returned True: return the reason as a string"),
        (", variants=lambda near: 1 / 0", "variants raised ZeroDivisionError: division by zero"),
    ],
)
def test_wrong_use_is_one_error(suite: Suite, more: str, reported: str) -> None:
    result = run(suite, ROWS.format(more=more))
    line = assert_one_error(result, reported)
    assert "test_it.py" in line


@pytest.mark.parametrize("given", ["some", "-1", "1.5"])
def test_a_wrong_amount_is_a_usage_error(suite: Suite, given: str) -> None:
    result = run(suite, ROWS.format(more=""), amount=given)
    assert result.ret == 4
    result.stderr.fnmatch_lines(
        [f"*--customop-variants={given}: unknown amount or kind of variants '{given}'*"]
    )


def test_an_own_id_has_no_tilde(suite: Suite) -> None:
    mark = '@customop_cases("NS::rows", [Sample((tensor(4, 6), 1), id="a~b")])'
    source = f"from pytest_customop import Sample\n{mark}\ndef test(): ...\n"
    assert_one_error(run(suite, source), "'~' stands between a sample and its variants")


def test_variants_that_cannot_be_derived_are_left_out_with_the_reason(
    suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(view: object) -> list[Any]:
        raise IndexError(f"no room in {type(view).__name__}")

    monkeypatch.setitem(ranking._STEPS, "shape", (broken,))
    result = run(suite, ROWS.format(more=""))
    result.assert_outcomes(passed=1, failed=1, skipped=1)
    assert near(suite)["dim.negated"]["outcome"] == "failed"  # the other kinds run
    (skipped,) = [record for record in suite.results() if record["check"] is None]
    assert skipped["nodeid"].endswith("[cpu-float32-nograd-0-variants]")
    assert skipped["message"].startswith(
        "variants of the kind 'shape' could not be derived from this sample, which is a bug of "
        "pytest-customop, not of the op (IndexError: no room in SampleView at test_variant_items.py:"
    )
