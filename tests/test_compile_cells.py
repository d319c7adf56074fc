"""--customop-compile-cells: fewer cases that are compiled, and word of those left out."""

from __future__ import annotations

import itertools

import pytest
from kit import Suite, summary_of

PAIRWISE = "--customop-compile-cells=pairwise"
MARK = """
SAMPLES = [Sample((tensor(size, 3), 2), id=f"n{size}") for size in range(2, 8)]

@customop_cases(scale, SAMPLES, dtypes=[torch.float32, torch.float64, torch.float16],
                layouts=["contiguous", "transposed"])
def test_scale(): ...
"""


def cells_of(ids: list[str]) -> set[tuple[str, ...]]:
    """(dtype, grad, layout, sample) of ids like `test_scale[cpu-float32-nograd-n4-compile.static]`."""
    return {
        (parts[1], parts[2], "transposed" if "transposed" in parts else "", parts[-2])
        for parts in (nodeid.partition("[")[2].rstrip("]").split("-") for nodeid in ids)
        if "variants" not in parts
    }


def test_each_sample_dtype_and_layout_is_compiled_with_gradients_and_without(suite: Suite) -> None:
    suite.test(MARK)
    options = ("--customop-variants=off",)
    all_cells = cells_of(suite.ids(*options, checks="compile.static"))
    some = cells_of(suite.ids(PAIRWISE, *options, checks="compile.static"))
    assert len(all_cells) == 6 * 3 * 2 * 2
    assert some < all_cells
    assert len(some) == 2 * 6  # as many as there are samples
    for part in (0, 2, 3):
        pairs = itertools.groupby(sorted({(cell[part], cell[1]) for cell in all_cells}))
        assert {(cell[part], cell[1]) for cell in some} == {pair for pair, _ in pairs}
    assert cells_of(suite.ids(PAIRWISE, *options, checks="compile.dynamic")) == some


def test_other_checks_run_on_every_case(suite: Suite) -> None:
    suite.test(MARK)
    assert suite.ids(PAIRWISE, checks="own,fake") == suite.ids(checks="own,fake")


def test_a_small_mark_is_compiled_whole_and_nothing_is_said(suite: Suite) -> None:
    suite.test("@customop_cases(scale, [(tensor(3), 2)], dtypes=[torch.float32, torch.float64])\n"
               "def test_scale(): ...\n")  # fmt: skip
    assert suite.ids(PAIRWISE, checks="compile.static") == suite.ids(checks="compile.static")
    assert "Left out" not in "".join(summary_of(suite.run(PAIRWISE, checks="own.passes")))


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "workers"])
def test_the_summary_and_the_report_say_how_many_are_left_out(
    suite: Suite, workers: tuple[str, ...]
) -> None:
    suite.test(MARK)
    run = suite.run_apart if workers else suite.run
    result = run(PAIRWISE, *workers, "--customop-report=report.md", checks="own.passes")
    line = "Left out by --customop-compile-cells=pairwise: the compile checks of 60 of 72 cases"
    assert [text for text in summary_of(result) if text.startswith("Left out")] == [
        f"{line} of the marks that have more than it takes"
    ]
    assert "60 of 72 cases" in (suite.path / "report.md").read_text()
