"""The custom ops that ship with torch, with their own sample inputs, through the whole matrix.

They are correct ops: what is reported must be a true defect, and stands in `DEFECTS` with its reason.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

# The database needs these, and torch does not bring them.
pytest.importorskip("numpy")
pytest.importorskip("expecttest")

pytestmark = pytest.mark.slow

OPS = (
    "numpy_cat",
    "numpy_cube",
    "numpy_mul",
    "numpy_mul_scalar",
    "numpy_nms",
    "numpy_nonzero",
    "numpy_sort",
    "numpy_split_copy",
    "numpy_split_copy_with_int",
    "numpy_take",
    "numpy_view_copy",
)

# In a process of its own: importing the database changes global flags of torch for good.
MARKED = """
import torch
from torch.testing._internal.custom_op_db import custom_op_db

from pytest_customop import Sample, customop_cases

torch.manual_seed(0)


def samples(entry):
    for dtype in (torch.float32, torch.float64):
        if dtype not in entry.supported_dtypes("cpu"):
            continue
        made = entry.sample_inputs("cpu", dtype, requires_grad=entry.supports_autograd)
        for index, one in zip(range(2), made):
            name = f"{str(dtype).removeprefix('torch.')}_{index}"
            yield Sample((one.input, *one.args), one.kwargs, id=name)


def marked(entry):
    @customop_cases(entry.op, list(samples(entry)))
    def test():
        ...

    return test


for entry in custom_op_db:
    globals()[f"test_{entry.name}"] = marked(entry)
"""

# (op, check, finding) -> why it is true.
DEFECTS: dict[tuple[str, str, str], str] = {}
if hasattr(torch.library, "register_vmap"):
    DEFECTS["numpy_cat", "vmap.loop", "vmap-raises"] = (
        "its vmap rule reads `x_bdim, = in_dims`, and there are two arguments"
    )


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The results of one session over the whole database."""
    folder = tmp_path_factory.mktemp("custom_op_db")
    (folder / "test_db.py").write_text(MARKED, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_db.py"]
    command += ["-p", "no:randomly", "--customop-variants=off", "--customop-report=report.json"]
    session = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert session.returncode in (0, 1), session.stdout + session.stderr
    return _read(folder / "report.json")


def _read(report: Path) -> list[dict[str, Any]]:
    return json.loads(report.read_text(encoding="utf-8"))["results"]


def test_every_op_went_through_the_matrix(results: list[dict[str, Any]]) -> None:
    assert {result["op"] for result in results} == {f"_torch_testing::{name}" for name in OPS}
    assert {result["dtype"] for result in results} == {"float32", "float64"}


@pytest.mark.parametrize("name", OPS)
def test_only_true_defects_are_reported(name: str, results: list[dict[str, Any]]) -> None:
    of_op = [result for result in results if result["op"] == f"_torch_testing::{name}"]
    failures = {
        (name, result["check"], result["finding"] or result["message"]): result["message"]
        for result in of_op
        if result["outcome"] in ("failed", "error")
    }
    expected = {key for key in DEFECTS if key[0] == name}
    assert failures.keys() == expected, failures
    assert {"passed"} <= {result["outcome"] for result in of_op}
