"""`--junitxml`: each testcase has its op, check, case and findings as properties."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import xmlschema
from kit import Suite

XUNIT2 = Path(__file__).with_name("junit_xunit2.xsd")
CASE = {
    "device": ["cpu"],
    "dtype": ["float32"],
    "requires_grad": ["false"],
    "layout": ["contiguous"],
    "sample": ["a"],
}
SUITE = """
GIVEN = dict(samples=[Sample((tensor(3), 2), id="a")], requires_grad=False)

@customop_cases(scale, checks=["own.passes", "own.fails", "own.skips", "own.breaks", "body"], **GIVEN)
def test_scale(customop_case):
    assert customop_case.device == 'cpu'

@customop_cases(scale, checks="own.fails", known=[Known(reason="see <#12> ]]> \\x1b")], **GIVEN)
def test_known(): ...

@customop_cases(scale, devices=["ABSENT"], **GIVEN)
def test_absent(): ...

def test_by_hand(customop_check):
    customop_check(scale, torch.ones(3), 2)

def test_ordinary(): ...
"""


def properties(suite: Suite, name: str = "junit.xml") -> dict[str, Mapping[str, Sequence[str]]]:
    """The properties of each testcase of a file, which is valid."""
    path = suite.path / name
    xmlschema.XMLSchema(XUNIT2).validate(path)
    testcases: dict[str, dict[str, list[str]]] = {}
    for testcase in ET.parse(path).iter("testcase"):
        values: dict[str, list[str]] = defaultdict(list)
        for element in testcase.iter("property"):
            values[element.attrib["name"]].append(element.attrib["value"])
        testcases[testcase.attrib["name"]] = dict(values)
    return testcases


def write(suite: Suite, source: str = SUITE) -> None:
    from kit import ABSENT

    known = "from pytest_customop import Known\n"
    suite.test(known + source.replace('"ABSENT"', f'"{ABSENT}"'))


def test_a_testcase_has_its_op_check_case_and_finding(suite: Suite) -> None:
    write(suite)
    suite.run("--junitxml=junit.xml", "-Werror", checks="own,body")
    testcases = properties(suite)
    op = {"op": [f"{suite.ns}::scale"], **CASE}
    case = "cpu-float32-nograd-a"
    assert testcases[f"test_scale[{case}-own.passes]"] == {**op, "check": ["own.passes"]}
    finding = {"finding": ["own-finding"]}
    assert testcases[f"test_scale[{case}-own.fails]"] == {**op, "check": ["own.fails"], **finding}
    assert testcases[f"test_scale[{case}-own.breaks]"] == {**op, "check": ["own.breaks"]}
    assert testcases[f"test_scale[{case}-own.skips]"] == {**op, "check": ["own.skips"]}
    assert testcases[f"test_scale[{case}-body]"] == {**op, "check": ["body"]}
    known = {**op, "check": ["own.fails"], **finding, "known": ["see <#12> ]]> #x1B"]}
    assert testcases[f"test_known[{case}-own.fails]"] == known
    assert testcases["test_ordinary"] == {}
    (absent,) = (values for name, values in testcases.items() if name.startswith("test_absent"))
    assert set(absent) == {"op", "device"}


def test_checks_by_hand_have_their_ops_and_findings(suite: Suite) -> None:
    write(suite)
    suite.run("--junitxml=junit.xml", "-Werror", "-k", "by_hand", checks="own.fails")
    assert properties(suite)["test_by_hand"] == {
        "op": [f"{suite.ns}::scale"],
        "finding": ["own-finding"],
    }


@pytest.mark.parametrize("args", [("-n", "2"), ("--customop-isolate=on",)], ids=["xdist", "child"])
def test_the_same_through_other_processes(suite: Suite, args: Sequence[str]) -> None:
    write(suite)
    suite.run("--junitxml=alone.xml", "-Werror", checks="own,body")
    suite.run_apart("--junitxml=apart.xml", "-Werror", *args, checks="own,body")
    assert properties(suite, "alone.xml") == properties(suite, "apart.xml")


def test_every_distinct_finding_of_variants_is_a_property(suite: Suite) -> None:
    write(
        suite,
        """
@torch.library.custom_op("NS::square", mutates_args=())
def square(x: torch.Tensor) -> torch.Tensor:
    return x * x

@square.register_fake
def _(x):
    return x.new_empty(4, 4)  # the size of the sample

@customop_cases(square, [(tensor(4, 4),)])
def test_square(): ...
""",
    )
    options = ("--customop-variants=quick", "--customop-report=report.json")
    suite.run("--junitxml=junit.xml", "-Werror", *options, checks="fake.forward")
    (values,) = (values for name, values in properties(suite).items() if "variants" in name)
    bad = [record for record in suite.results() if record["variant"] and record["finding"]]
    assert len(bad) > 1
    assert values["sample"] == ["0"]
    for name, outcome in (("finding", "failed"), ("note", "noted")):
        codes = {record["finding"] for record in bad if record["outcome"] == outcome}
        assert set(values.get(name, [])) == codes
    assert set(values["variant"]) == {record["variant"] for record in bad}


def test_a_process_that_ends_leaves_its_finding(suite: Suite) -> None:
    suite.write(
        "conftest.py",
        (suite.path / "conftest.py")
        .read_text()
        .replace("raise RuntimeError(", "import os; os._exit(3) or ("),
    )
    write(suite)
    suite.run_apart(
        "--junitxml=junit.xml", "--customop-isolate=on", "-k", "breaks", checks="own,body"
    )
    (values,) = properties(suite).values()
    assert values["check"] == ["own.breaks"]
    assert values["finding"] == ["crash"]


def test_an_item_that_runs_again_has_each_property_once(suite: Suite) -> None:
    suite.write(
        "conftest.py",
        (suite.path / "conftest.py").read_text()
        + """
def pytest_runtest_protocol(item, nextitem):
    from _pytest.runner import runtestprotocol
    runtestprotocol(item, log=False, nextitem=item)
""",
    )
    write(suite)
    suite.run("--junitxml=junit.xml", "-k", "own.fails and not known", checks="own,body")
    (values,) = (values for values in properties(suite).values() if "sample" in values)
    assert values["finding"] == ["own-finding"]
    assert values["op"] == [f"{suite.ns}::scale"]
