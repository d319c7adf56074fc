"""Tables, names, counts and lists, as messages print them."""

from __future__ import annotations

import torch

from pytest_customop.cases.tensors import largest_magnitude
from pytest_customop.core.tables import aligned
from pytest_customop.core.tracebacks import error_line, message_line
from pytest_customop.core.wording import counted, dtype_name, first_line, layout_name, listed


def test_columns_are_as_wide_as_their_widest_cell():
    rows = [("op", "a check", ""), ("ns::long", "b", "wrong")]
    assert aligned(rows) == ["op        a check", "ns::long  b        wrong"]


def test_names_of_dtypes_and_layouts_have_no_module():
    assert dtype_name(torch.float8_e4m3fn) == "float8_e4m3fn"
    assert layout_name(torch.sparse_coo) == "sparse_coo"


def test_counts_and_lists():
    assert [counted(count, "case") for count in (0, 1, 2)] == ["0 cases", "1 case", "2 cases"]
    assert [listed(list(names)) for names in ("x", "xy", "xyz")] == ["x", "x and y", "x, y and z"]


def test_first_lines_are_cut():
    assert first_line("\n  one \n two") == "one"
    assert first_line("") == ""
    assert len(first_line("x" * 1000)) == 244
    assert error_line(ValueError("one\ntwo")) == "ValueError: one"
    assert error_line(ValueError()) == "ValueError"
    assert message_line(ValueError(" one\ntwo")) == "one"


def test_the_largest_magnitude_is_a_finite_number():
    values = torch.tensor([-3.0, torch.nan, torch.inf, 2.0])
    assert largest_magnitude(values) == 3.0
    assert largest_magnitude(torch.tensor([3 + 4j, complex(torch.inf, 0)])) == 5.0
    assert largest_magnitude(torch.empty(0)) == 0.0
    assert largest_magnitude(torch.tensor([torch.nan])) == 0.0
