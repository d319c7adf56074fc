"""A script imports what registers the op: its modules, its library, or else the file of the mark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from kit import Suite

from pytest_customop.run.registering import registers
from tests.native.ops import why_not

MODULE = """
import torch

lib = torch.library.Library("NS::"[:-2], "DEF")
lib.define("turned(Tensor x) -> Tensor")
lib.impl("turned", lambda x: x.t().contiguous().t(), "CPU")

@torch.library.register_fake("NS::turned")
def _(x):
    return torch.empty_like(x)
"""
IN_CPP = """
from torch.utils.cpp_extension import load_inline

SOURCE = '''
#include <ATen/ATen.h>
#include <torch/library.h>

at::Tensor turned(const at::Tensor& x) { return x.t().contiguous().t(); }
at::Tensor fake(const at::Tensor& x) { return at::empty(x.sizes(), x.options()); }

TORCH_LIBRARY(NAMESPACE, m) { m.def("turned(Tensor x) -> Tensor"); }
TORCH_LIBRARY_IMPL(NAMESPACE, CPU, m) { m.impl("turned", &turned); }
TORCH_LIBRARY_IMPL(NAMESPACE, Meta, m) { m.impl("turned", &fake); }
'''

load_inline("NAMESPACE_ops", SOURCE, is_python_module=False, build_directory=".", no_implicit_headers=True)
"""
MARK = """
@customop_cases("NS::turned", [(tensor(3, 4),)])
def test_it(): ...
"""


def written(suite: Suite, *args: str) -> Path:
    """The one script that a failure writes; it fails, as it should."""
    result = suite.run_apart("--customop-repro-dir=repros", *args, checks="fake.forward")
    result.assert_outcomes(failed=1)
    (script,) = (suite.path / "repros").glob("*.py")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert done.returncode == 1, done.stdout
    assert "AssertionError" in done.stderr
    return script


def test_an_op_of_a_library_is_registered_by_its_module_alone(suite: Suite) -> None:
    suite.write("my_ops.py", MODULE)
    suite.test("import my_ops\n" + MARK)
    text = written(suite).read_text()
    assert "import my_ops  # registers the op" in text
    assert "test_it" not in text.partition("\n")[2]


def test_a_kernel_in_another_module_is_imported_too(suite: Suite) -> None:
    definition, _, fake = MODULE.partition("@torch.library.register_fake")
    suite.write("my_ops.py", definition)
    suite.write("my_fakes.py", "import torch\n\n@torch.library.register_fake" + fake)
    suite.test("import my_ops, my_fakes\n" + MARK)
    text = written(suite).read_text()
    assert text.index("import my_ops ") < text.index("import my_fakes ")


def test_an_op_of_the_file_of_the_mark_is_registered_by_that_file(suite: Suite) -> None:
    suite.test(MODULE + MARK)
    assert "import test_it  # registers the op" in written(suite).read_text()


@pytest.mark.slow
@pytest.mark.skipif(bool(why_not()), reason=why_not())
def test_an_op_in_cpp_is_loaded_from_its_library(suite: Suite) -> None:
    suite.test(IN_CPP.replace("NAMESPACE", suite.ns) + MARK)
    text = written(suite, "--customop-isolate=off").read_text()
    assert f"torch.ops.load_library('{suite.path}/{suite.ns}_ops.so')" in text
    assert "test_it" not in text.partition("\n")[2]


def test_a_library_that_is_gone_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.ops, "loaded_libraries", {str(tmp_path / "gone.so")})
    assert registers("nowhere::op", None) == "# Import here what registers the op."
