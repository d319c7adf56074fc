"""Where an author describes an op: docstrings of several functions, and comments above its definition."""

import importlib.util
import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch

from pytest_customop.cases.deliberate import speaks_of_nan
from pytest_customop.cases.documentation import mention, texts_about
from pytest_customop.cases.documented_gradients import is_not_differentiable
from pytest_customop.compat.kernel_functions import functions_by_name
from pytest_customop.declare.ops import resolve

PYTHON = '''
"""Ops of a library."""

import torch
from torch import Tensor

lib = torch.library.Library("t_documentation_{n}", "DEF")
# Unrelated.

# The longest rows.
# rows: how many
lib.define("longest(Tensor x, int rows) -> Tensor")


def longest(x, rows):
    """Rows by their norms."""
    return x[x.norm(dim=1).topk(rows).indices]


lib.impl("longest", longest, "CPU")


@torch.library.register_fake("t_documentation_{n}::longest", lib=lib)
def _(x, rows):
    return x.new_empty(rows, x.shape[1])


def longest_rows(x, rows=2):
    """The two longest rows."""
    return torch.ops.t_documentation_{n}.longest(x, rows)


_op = torch.ops.t_documentation_{n}.longest


def longest_row(x):
    """The longest row."""
    return _op(x, 1)


def test_longest(x=None):
    """No part of the documentation."""
    return torch.ops.t_documentation_{n}.longest(torch.ones(3, 2), 1)


def other(x):
    """Something else."""
    return x
'''

UNNAMED = '''
import torch

torch.library.define("t_documentation_{n}::rows", "(Tensor table, Tensor ids) -> Tensor")
torch.library.define("t_documentation_{n}::others", "(Tensor table, Tensor ids) -> Tensor")


@torch.library.impl("t_documentation_{n}::rows", ("cpu", "cuda"))
def _kernel(table, ids):
    """Rows of a table. They are for serving, and not
    differentiable.
    """
    return table[ids]


@torch.library.register_fake("t_documentation_{n}::rows")
def _(table, ids):
    return table.new_empty(ids.shape[0], *table.shape[1:])


@torch.library.impl("t_documentation_{n}::others", "cpu")
def _kernel_of_others(table, ids):
    """Something else."""
    return table[ids + 1]
'''

NATIVE = '''
import torch

SOURCE = """
#include <torch/library.h>

// Adds one to each
// element.
at::Tensor plus_one(const at::Tensor& x) {
  return x + 1;  // not this
}

TORCH_LIBRARY(t_documentation_{n}, m) {
  // not this either
  m.def("other(Tensor x) -> Tensor");
  /* In place of numpy's. */
  m.def("plus_one(Tensor x) -> Tensor");
}
"""
lib = torch.library.Library("t_documentation_{n}", "DEF")
lib.define(
    "plus_one(Tensor x) -> Tensor"
)
lib.impl("plus_one", lambda x: x + 1, "CPU")


@torch.library.register_fake("t_documentation_{n}::plus_one", lib=lib)
def _(x):
    return torch.empty_like(x)
'''


@pytest.fixture
def module(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> types.ModuleType:
    """The module of a text, with a number in its name and its namespace."""
    number, text = request.param
    path = tmp_path / f"documented_{number}.py"
    path.write_text(text.replace("{n}", str(number)))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, path.stem, module)
    spec.loader.exec_module(module)
    return module


def texts_of(module: Any, name: str) -> list[str]:
    return [*texts_about(resolve(getattr(getattr(module.torch.ops, module.lib.ns), name)))]


@pytest.mark.parametrize("module", [(1, PYTHON)], indirect=True)
def test_docstrings_of_the_kernel_and_of_what_calls_the_op(module: types.ModuleType) -> None:
    op = resolve(getattr(module.torch.ops, module.lib.ns).longest)
    kernels = functions_by_name(op.overload)  # torch 2.4 does not say where a library was made
    assert {*texts_of(module, "longest")} == {
        *(["Rows by their norms."] if kernels else []),
        "The two longest rows.",
        "The longest row.",
        "The longest rows.\nrows: how many",
    }


@pytest.mark.parametrize("module", [(5, UNNAMED)], indirect=True)
def test_docstring_of_a_kernel_to_which_no_name_refers(module: types.ModuleType) -> None:
    assert module._kernel is None
    op = resolve(module.torch.ops.t_documentation_5.rows)
    (text,) = texts_about(op)
    assert text.startswith("Rows of a table.")
    assert is_not_differentiable(op)  # the sentence goes on in the next line


@pytest.mark.parametrize(
    "module", [(6, PYTHON.replace("def longest(", "@torch.no_grad()\ndef longest("))], indirect=True
)
def test_docstring_of_a_decorated_kernel(module: types.ModuleType) -> None:
    op = resolve(getattr(module.torch.ops, module.lib.ns).longest)
    kernels = functions_by_name(op.overload)  # torch 2.4 does not say where a library was made
    assert ("Rows by their norms." in texts_of(module, "longest")) == bool(kernels)
    assert kernels == [] or not hasattr(kernels[0], "__wrapped__")


@pytest.mark.parametrize("module", [(2, NATIVE)], indirect=True)
def test_comments_in_native_source(module: types.ModuleType) -> None:
    assert texts_of(module, "plus_one") == [
        "Adds one to each\nelement.",
        "In place of numpy's.",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("A length that is out of range", False),
        ("if a  length is out of range", False),
        ("the rows of a.", True),
        ("for `a` rows", True),
        ("a and b must have one size", True),
        ("a (N,): rows", True),
        ("alpha", False),
    ],
)
def test_an_argument_with_the_name_of_an_article(text: str, said: bool) -> None:
    assert bool(re.search(mention("a", "c"), text, re.IGNORECASE)) is said


def test_a_fake_kernel_of_torch_describes_no_op() -> None:
    def kernel(x: torch.Tensor) -> torch.Tensor:
        """Sines."""
        return x.sin()

    op: Any = torch.library.custom_op("t_documentation::sines_as_torch", kernel, mutates_args=())
    op.register_fake(torch.empty_like)
    texts = texts_about(resolve(op))
    assert "Sines." in texts
    assert not any("uninitialized" in text for text in texts)
    assert not speaks_of_nan(resolve(op))


def test_a_docstring_that_is_set_on_the_op() -> None:
    library = torch.library.Library("t_documentation_set", "DEF")
    library.define("one(Tensor x) -> Tensor")
    library.define("two(Tensor x) -> Tensor")
    torch.ops.t_documentation_set.one.default.__doc__ = "Of the overload.\n\n    x: (N,)"
    torch.ops.t_documentation_set.two.__doc__ = "Of the packet."
    assert "Of the overload.\n\nx: (N,)" in texts_about(resolve("t_documentation_set::one"))
    assert "Of the packet." in texts_about(resolve("t_documentation_set::two"))
