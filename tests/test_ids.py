"""Ids are unique, sorted, say what they run, and do not depend on how the session is run."""

from __future__ import annotations

import json

import pytest
from kit import Suite

SUITE = """
import json, pathlib

@customop_cases(
    scale,
    samples=[(tensor(3, 4), 2), Sample((tensor(2, 2), 3), id="wide")],
    dtypes=[torch.float64, torch.float32],
    layouts=["contiguous", "transposed"],
)
def test_scale(customop_case):
    values = customop_case.args[0].flatten().tolist()
    folder = pathlib.Path(__file__).parent / "drawn"
    folder.mkdir(exist_ok=True)
    name = repr(customop_case).split()[2]
    (folder / (name + ".json")).write_text(json.dumps(values))
"""


def drawn(suite: Suite) -> dict[str, list[float]]:
    """The values that the bodies of SUITE saw, by case; and makes room for the next run."""
    files = sorted((suite.path / "drawn").iterdir())
    values = {file.stem: json.loads(file.read_text()) for file in files}
    for file in files:
        file.unlink()
    return values


def test_an_id_says_device_dtype_gradients_layout_sample_and_check(suite: Suite) -> None:
    suite.test(SUITE)
    expected = [
        f"test_scale[cpu-{dtype}-{gradients}{layout}-{sample}-own.passes]"
        for dtype in ("float32", "float64")
        for gradients in ("nograd", "withgrad")
        for layout in ("", "-transposed")
        for sample in ("0", "wide")
    ]
    assert suite.ids() == expected


def test_the_checks_of_a_case_come_together_in_the_order_of_their_names(suite: Suite) -> None:
    suite.test("""
@customop_cases(plain, [Sample((tensor(3),), id="a"), Sample((tensor(3),), id="a-b")])
def test_plain(): ...
""")
    assert suite.ids("-k", "nograd", checks="own.passes,fake.forward,fake.symbolic") == [
        "test_plain[cpu-float32-nograd-a-fake.forward]",
        "test_plain[cpu-float32-nograd-a-fake.symbolic]",
        "test_plain[cpu-float32-nograd-a-own.passes]",
        "test_plain[cpu-float32-nograd-a-b-fake.forward]",
        "test_plain[cpu-float32-nograd-a-b-fake.symbolic]",
        "test_plain[cpu-float32-nograd-a-b-own.passes]",
    ]


def test_the_id_of_the_design(suite: Suite) -> None:
    suite.test("""
@customop_cases(scale, [Sample((tensor(3), 2), id="wide")])
def test_crop(): ...
""")
    ids = suite.ids(checks="fake")
    assert "test_crop[cpu-float32-withgrad-wide-fake.backward]" in ids
    assert "test_crop[cpu-float32-nograd-wide-fake.backward]" not in ids


def test_axes_are_in_the_id(suite: Suite) -> None:
    suite.test("""
def make(device, dtype, requires_grad, n, name):
    return [Sample((tensor(n), 2), id=name)]

@customop_cases(scale, make, axes={"n": [2, 30], "name": ["a", "b"]}, requires_grad=False)
def test_scale(): ...
""")
    assert suite.ids() == [
        "test_scale[cpu-float32-nograd-n2-namea-a-own.passes]",
        "test_scale[cpu-float32-nograd-n2-nameb-b-own.passes]",
        "test_scale[cpu-float32-nograd-n30-namea-a-own.passes]",
        "test_scale[cpu-float32-nograd-n30-nameb-b-own.passes]",
    ]


def test_stacked_marks_carry_the_op(suite: Suite) -> None:
    suite.test("""
@customop_cases(scale, [(tensor(3), 2)], requires_grad=False)
@customop_cases(plain, [(tensor(3),)], requires_grad=False)
@customop_cases("aten::sin", [(tensor(3),)], requires_grad=False, id="sine")
def test_ops(): ...
""")
    ids = [item_id.replace(suite.ns, "NS") for item_id in suite.ids()]
    assert sorted(ids) == [
        "test_ops[NS.plain-cpu-float32-nograd-0-own.passes]",
        "test_ops[NS.scale-cpu-float32-nograd-0-own.passes]",
        "test_ops[sine-cpu-float32-nograd-0-own.passes]",
    ]


def test_one_op_twice_has_its_own_id(suite: Suite) -> None:
    suite.test("""
@customop_cases(scale, [(tensor(3), 2)], requires_grad=False, id="small")
@customop_cases(scale, [(tensor(30), 2)], requires_grad=False, id="large")
def test_ops(): ...
""")
    assert suite.ids() == [
        "test_ops[large-cpu-float32-nograd-0-own.passes]",
        "test_ops[small-cpu-float32-nograd-0-own.passes]",
    ]


@pytest.mark.parametrize(
    ("keyword", "count"),
    [("withgrad", 8), ("own.passes and wide", 8), ("float64 and not transposed", 4), ("nosuch", 0)],
)
def test_a_keyword_means_what_it_says(suite: Suite, keyword: str, count: int) -> None:
    suite.test(SUITE)
    everything = suite.ids()
    selected = suite.ids("-k", keyword)
    assert len(selected) == count
    assert set(selected) <= set(everything)


def test_a_family_is_a_keyword(suite: Suite) -> None:
    suite.test("@customop_cases(scale, [(tensor(3), 2)])\ndef test_scale(): ...\n")
    selected = suite.ids("-k", "gradcheck", checks=None)
    assert selected == [
        "test_scale[cpu-float32-withgrad-0-gradcheck.backward]",
        "test_scale[cpu-float32-withgrad-0-gradcheck.double]",
    ]


def test_the_same_inputs_alone_together_reordered_and_on_any_worker(suite: Suite) -> None:
    suite.test(SUITE)
    suite.run(checks="body").assert_outcomes(passed=16)
    together = drawn(suite)
    assert len(together) == 16
    assert len({tuple(values) for values in together.values()}) == 16

    alone = "test_it.py::test_scale[cpu-float32-withgrad-transposed-wide-body]"
    suite.run(alone, checks="body").assert_outcomes(passed=1)
    name = "cpu-float32-withgrad-transposed-wide"
    assert drawn(suite) == {name: together[name]}

    suite.run_apart("-n", "2", checks="body").assert_outcomes(passed=16)
    assert drawn(suite) == together


def test_the_seed_changes_the_inputs(suite: Suite) -> None:
    suite.test(SUITE)
    suite.run(checks="body").assert_outcomes(passed=16)
    before = drawn(suite)
    suite.run("--customop-seed=7", checks="body").assert_outcomes(passed=16)
    after = drawn(suite)
    assert before.keys() == after.keys()
    assert all(before[name] != after[name] for name in before)


def test_inputs_do_not_depend_on_pytest_randomly(suite: Suite) -> None:
    pytest.importorskip("pytest_randomly")
    suite.test(SUITE)
    suite.run(checks="body").assert_outcomes(passed=16)
    before = drawn(suite)
    orders = []
    for seed in ("1", "2"):
        result = suite.run("-v", "-p", "randomly", f"--randomly-seed={seed}", checks="body")
        result.assert_outcomes(passed=16)
        orders.append([line for line in result.outlines if "PASSED" in line])
        assert drawn(suite) == before
    assert [line.split()[0] for line in orders[0]] != [line.split()[0] for line in orders[1]]
