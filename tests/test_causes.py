"""Each defect is reported once in full: its consequences and repetitions take a line each."""

from __future__ import annotations

import json
from dataclasses import replace
from graphlib import TopologicalSorter
from typing import Any

import pytest
import torch
from kit import Suite
from test_failure_text import failure

from pytest_customop.checks import builtin_checks, catalogue
from pytest_customop.findings import Finding
from pytest_customop.plan.place import Place
from pytest_customop.report.causes import also_line, causes, with_other_ops
from pytest_customop.run.finding_records import finding_record
from pytest_customop.run.record import FindingRecord, ResultRecord

CHECKS = {check.name: check for check in builtin_checks()}

_OF_PLACE = ("dtype", "sample", "variant", "aspect")


def record(check: str, code: str | None, **changed: Any) -> ResultRecord:
    place = {"device": "cpu", "dtype": "float32", "requires_grad": False, "layout": "contiguous"}
    place |= {name: changed.pop(name) for name in _OF_PLACE if name in changed}
    finding = None
    if code is not None:
        finding = finding_record(Finding(code, "output: wrong", fix="change it"), CHECKS.get(check))
    fields = {
        "nodeid": f"test_it.py::test_op[cpu-float32-nograd-0-{check}]",
        "op": "ns::op",
        "check": check,
        "place": Place(**{"sample": "0", **place}),
        "outcome": "failed" if finding else "passed",
        "finding": finding,
        "message": "output: wrong",
    }
    return ResultRecord(**{**fields, **changed})


def test_a_consequence_names_its_root_whatever_the_order() -> None:
    records = [
        record("compile.static", "compile-stride-assert"),
        record("fake.forward", "fake-stride-mismatch"),
        record("opcheck.test_faketensor", "fake-stride-mismatch"),
    ]
    assert causes(records) == {0: 1, 2: 1}
    assert causes(records[::-1]) == {2: 1, 0: 1}


def test_other_cases_ops_and_tests_have_roots_of_their_own() -> None:
    here = record("fake.forward", "fake-stride-mismatch")
    for place in (
        {"dtype": "float64"},
        {"sample": "1"},
        {"op": "ns::other"},
        {"nodeid": "test_it.py::test_other[x]"},
    ):
        assert causes([here, record("compile.static", "compile-error", **place)]) == {}


def test_a_repetition_is_reported_once_and_another_message_is_not() -> None:
    records = [
        record("fake.forward", "fake-stride-mismatch"),
        record("fake.forward", "fake-stride-mismatch", sample="1"),
        record("fake.forward", "fake-stride-mismatch", sample="2", message="output 1: wrong"),
        record("compile.static", "compile-error", sample="1"),
    ]
    assert causes(records) == {1: 0, 3: 0}


def test_a_size_that_the_fake_kernel_fixes_is_one_defect_with_variants_of_other_sizes() -> None:
    records = [
        record("fake.symbolic", "fake-size-hardcoded"),
        record("fake.forward", "fake-shape-mismatch", variant="odd", aspect="shape"),
        record("fake.forward", "fake-shape-mismatch", variant="x.given", aspect="x"),
        record("fake.forward", "fake-dtype-mismatch", variant="one0", aspect="shape"),
    ]
    assert causes(records) == {1: 0}


def test_large_sizes_are_other_sizes() -> None:
    records = [
        record("fake.backward", "backward-raises", variant="odd", aspect="shape"),
        record("relations.permutation", "backward-raises", variant="long", aspect="long"),
        record("relations.permutation", "backward-raises", variant="n.0", aspect="n"),
    ]
    assert causes(records) == {1: 0}


def test_a_crash_explains_values_of_unwritten_memory_on_variants_of_one_aspect() -> None:
    shape = {"aspect": "shape"}
    records = [
        record("values.uninitialized", "outputs-not-repeatable", variant="one1", **shape),
        record("fake.device", "crash", variant="empty1", **shape),
        record("values.uninitialized", "uninitialized-output", variant="n.0", aspect="n"),
    ]
    assert causes(records) == {0: 1}


def test_a_read_past_the_end_explains_values_that_depend_on_what_lies_there() -> None:
    read = record("values.bounds", "out-of-bounds-read", variant="one0", aspect="shape")
    random = "values.repeat", "outputs-not-repeatable"
    assert causes([record(*random, variant="one1", aspect="shape"), read]) == {0: 1}
    assert causes([record(*random, variant="n.0", aspect="n"), read]) == {}
    fresh = record("values.uninitialized", "uninitialized-output", variant="one0", aspect="shape")
    assert causes([fresh, read]) == {0: 1}
    modes = record("relations.grad_modes", "grad-mode-mismatch", variant="one1", aspect="shape")
    crash = record("fake.device", "crash", variant="empty0", aspect="shape")
    assert causes([read, modes, crash]) == {0: 2, 1: 2}


def test_memory_read_as_another_dtype_is_read_past_its_end_where_that_is_narrower() -> None:
    wrong = record("relations.precision", "precision-mismatch")
    random = "values.uninitialized", "outputs-not-repeatable"
    assert causes([wrong, record(*random, variant="float16", aspect="dtype")]) == {1: 0}
    assert causes([wrong, record(*random, variant="one1", aspect="shape")]) == {}


def test_unrelated_findings_and_passes_are_left_alone() -> None:
    records = [
        record("fake.forward", "fake-stride-mismatch"),
        record("gradcheck.backward", "gradient-mismatch"),
        record("own.check", "own-finding"),
        record("compile.static", None),
    ]
    assert causes(records) == {}


def test_a_wrong_value_explains_another_one_in_compiled_code_and_no_exception_there() -> None:
    wrong = record("values.layouts", "layout-dependent-result")
    assert causes([wrong, record("compile.dynamic", "compile-output-mismatch")]) == {1: 0}
    assert causes([wrong, record("compile.dynamic", "compile-error")]) == {}


def test_findings_of_an_author_s_own_checks_are_reported_once_too() -> None:
    records = [
        record("own.check", "own-finding"),
        record("own.other", "own-finding"),
        record("own.check", "own-finding", sample="1"),
        record("own.check", "own-finding", sample="2", message="output: wrong elsewhere"),
    ]
    assert causes(records) == {1: 0, 2: 0}


def test_a_finding_on_a_variant_repeats_one_of_a_sample() -> None:
    records = [
        record("fake.forward", "fake-stride-mismatch", variant="a", aspect="shape", sample="1"),
        record("fake.forward", "fake-stride-mismatch"),
    ]
    assert causes(records) == {0: 1}


def test_a_finding_on_a_variant_follows_from_one_of_its_sample() -> None:
    variant = {"variant": "a", "aspect": "shape"}
    records = [
        record("compile.static", "compile-error", **variant),
        record("fake.forward", "fake-stride-mismatch"),
        record("compile.static", "compile-error", sample="1", **variant),
    ]
    assert causes(records) == {0: 1}


def test_on_variants_a_defect_is_a_code_and_what_they_change() -> None:
    shape, flag = {"aspect": "shape"}, {"aspect": "reverse"}
    mismatch = "fake.forward", "fake-stride-mismatch"
    records = [
        record(*mismatch, variant="a", message="one", **shape),
        record(*mismatch, variant="b", message="two", sample="1", **shape),
        record(*mismatch, variant="c", message="one", **flag),
        record("opcheck.test_faketensor", "fake-stride-mismatch", variant="a", **shape),
    ]
    assert causes(records) == {1: 0, 3: 0}


def test_sizes_and_dtypes_make_no_other_defect() -> None:
    mismatch = "fake.forward", "fake-stride-mismatch"
    records = [
        record(*mismatch, message="output 0: fake strides (2, 1), real (1, 5)"),
        record(*mismatch, message="output 0: fake strides (4, 1), real (1, 7)", sample="1"),
        record(*mismatch, message="output 1: fake strides (2, 1), real (1, 5)", sample="2"),
        record(*mismatch, message="output 0: fake float32, real float64", sample="3"),
        record(*mismatch, message="output 0: fake bfloat16, real float64", sample="4"),
    ]
    assert causes(records) == {1: 0, 4: 3}


def test_two_variants_of_a_sample_are_named() -> None:
    mismatch = "fake.forward", "fake-stride-mismatch"
    root, *others = (
        record(*mismatch, variant=step, aspect="shape", sample=sample)
        for step, sample in (("a", "0"), ("b", "0"), ("a", "1"))
    )
    assert also_line(root, others) == "also   the variants b, 1~a"


def test_a_tilde_in_the_id_of_a_sample_makes_no_variant() -> None:
    tilde = record("fake.forward", "fake-stride-mismatch", sample="a~b", message="one")
    second = record("fake.forward", "fake-stride-mismatch", sample="c~d", message="two")
    assert causes([tilde, second]) == {}


def of_ops(count: int, message: str = "{op} output: strides ({at}, 1)") -> list[ResultRecord]:
    return [
        record(
            "fake.forward",
            "fake-stride-mismatch",
            op=f"ns::op{at}",
            nodeid=f"test_it.py::test_{at}[cpu-float32-nograd-0-fake.forward]",
            message=message.format(op=f"ns::op{at}", at=at),
        )
        for at in range(count)
    ]


def test_a_defect_of_many_ops_has_one_root_for_readers() -> None:
    records = of_ops(4)
    assert causes(records) == {}
    assert with_other_ops(records, {}) == {1: 0, 2: 0, 3: 0}
    assert with_other_ops(of_ops(2), {}) == {}
    # What follows from one of them follows from the first.
    follows = replace(
        records[3], check="compile.static", finding=FindingRecord("compile-stride-assert")
    )
    assert with_other_ops([*records, follows], {4: 3})[4] == 0
    # The name of a formula has the op's in it.
    formulas = of_ops(3, "the backward of {op}: GeneratedBackwardFor_ns_op{at}_default")
    assert with_other_ops(formulas, {}) == {1: 0, 2: 0}


def test_other_messages_of_many_ops_are_other_defects() -> None:
    assert with_other_ops(of_ops(6, "{op} output of kind{at}: wrong"), {}) == {}


def test_a_defect_of_many_ops_is_printed_once(suite: Suite) -> None:
    suite.test(
        """
def strided(name):
    made = torch.library.custom_op("NS::" + name, lambda x: x.t().contiguous().t(), mutates_args=(),
                                   schema="(Tensor x) -> Tensor")
    made.register_fake(torch.empty_like)
    return made
"""
        + "".join(
            f"""
@customop_cases(strided("op{at}"), [(tensor(3, 4),)])
def test_{at}(): ...
"""
            for at in range(6)
        )
    )
    result = suite.run(checks="fake.forward")
    text = result.stdout.str()
    assert text.count("real strides from the fake kernel") == 1
    assert (
        text.count("reported in full at test_it.py::test_0[cpu-float32-nograd-0-fake.forward]") == 5
    )
    also = f"also   the ops {suite.ns}::op1, {suite.ns}::op2, {suite.ns}::op3, {suite.ns}::op4 and 1 more"
    result.stdout.fnmatch_lines([also, "  fake-stride-mismatch  6 ops  6 cases  fake.forward"])


def test_what_follows_is_in_the_catalogue_and_goes_one_way() -> None:
    for code, entry in catalogue().items():
        for root in entry.follows:
            assert root in catalogue(), f"{code} follows from {root}, which is not there"
    graph = {code: entry.follows for code, entry in catalogue().items()}
    assert set(TopologicalSorter(graph).static_order()) == set(catalogue())  # no circle


STRIDES = """
@torch.library.custom_op("NS::turned", mutates_args=())
def turned(x: torch.Tensor) -> torch.Tensor:
    return x.t().contiguous().t()

turned.register_fake(lambda x: torch.empty_like(x))

@customop_cases(turned, [(tensor(3, 4),)], requires_grad=False)
def test_turned(): ...
"""


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_a_wrong_stride_is_one_story(suite: Suite, workers: tuple[str, ...]) -> None:
    suite.test(STRIDES)
    checks = "fake.forward,opcheck.test_faketensor,compile.static"
    result = suite.run_apart(*workers, checks=checks)
    result.assert_outcomes(failed=3)
    base = "test_turned[cpu-float32-nograd-0-"

    def op_fingerprint(check: str) -> list[str]:
        lines = failure(result, f"{base}{check}]")
        return [line for line in lines if not line.startswith("[gw")]  # xdist's own

    root = op_fingerprint("fake.forward")
    assert root[0].startswith("fake-stride-mismatch: ")
    assert "> stride          (4, 1)   (1, 3)" in root
    assert root[-1].startswith("also   compile.static (compile-stride-assert), ")
    assert root[-1].endswith("opcheck.test_faketensor")
    shown = f"reported in full at test_it.py::{base}fake.forward]"
    opcheck = op_fingerprint("opcheck.test_faketensor")
    assert len(opcheck) == 2
    assert opcheck[1] == f"the same finding is {shown}"
    compiled = op_fingerprint("compile.static")
    assert len(compiled) == 2
    assert compiled[1] == f"it may follow from fake-stride-mismatch, {shown}"


WATCH = """
import sys

def pytest_unconfigure(config):
    if not hasattr(config, "workerinput"):
        print("torch was imported:", "torch" in sys.modules)
"""


@pytest.mark.usefixtures("new_interpreters")
def test_the_controller_of_workers_prints_and_reports_without_torch(suite: Suite) -> None:
    suite.write("conftest.py", WATCH)
    suite.write("pytest.ini", "[pytest]\ncustomop_checks = fake.forward,opcheck.test_faketensor\n")
    suite.test(STRIDES)
    result = suite.run_apart("-n", "1", "--customop-report=report.json", checks=None)
    result.assert_outcomes(failed=2)
    text = result.stdout.str()
    assert "the same finding is reported in full at" in text
    assert "torch was imported: False" in text
    report = json.loads((suite.path / "report.json").read_text(encoding="utf-8"))
    assert report["environment"]["torch"] == torch.__version__


def test_the_short_summary_has_one_line_a_failure_on_a_build_machine_too(
    suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "1")
    suite.test(STRIDES)
    result = suite.run(checks="fake.forward")
    lines = result.outlines
    start = next(at for at, line in enumerate(lines) if "short test summary" in line)
    assert lines[start + 1].startswith("FAILED test_it.py::test_turned")
    assert "fake-stride-mismatch: " in lines[start + 1]
    assert lines[start + 2].startswith("===")
