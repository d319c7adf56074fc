"""`relations.overflow`: which numbers are tried, and what is no finding."""

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from pytest_customop import CheckResult, check_op, tensor

Tensor = torch.Tensor
PIXELS = tensor(4, 6, dtype=torch.uint8)


def op_of(name: str, doc: str, kernel: Callable[..., Tensor], dtype: torch.dtype) -> Any:
    """An op of one tensor and a number, whose result has the shape of the tensor."""

    @torch.library.custom_op(f"t_overflow::{name}", mutates_args=())
    def op(x: Tensor, number: int = 3) -> Tensor:
        return kernel(x, number)

    op._init_fn.__doc__ = doc
    op.register_fake(lambda x, number=3: x.new_empty(x.shape, dtype=dtype))
    return op


def outcome(op: Any, sample: Sequence[Any], **options: Any) -> CheckResult:
    """The result of the check on one sample."""
    (result,) = check_op(op, [sample], checks="relations.overflow", variants=False, **options)
    return result


def test_the_message_shows_the_line_and_the_numbers() -> None:
    op = op_of("line", "", lambda x, _: (x + x) // 2, torch.uint8)
    result = outcome(op, (PIXELS,))
    assert (result.outcome, result.finding) == ("failed", "intermediate-overflow")
    assert "`op = op_of(" in result.message
    assert "(test_overflow.py:" in result.message
    assert "overflows uint8" in result.message
    assert "so output is wrong" in result.message


@pytest.mark.parametrize(
    ("doc", "largest", "fails"),
    [
        ("x: int16 samples.", 4000, True),
        ("x: 12-bit samples.", 4000, False),
        ("x: int16 codes.", 20, False),
        ("x: float or integer.", 4000, True),
    ],
)
def test_a_docstring_says_which_numbers_are_allowed(doc: str, largest: int, fails: bool) -> None:
    name = f"doc_{largest}_{len(doc)}"
    op = op_of(name, doc, lambda x, _: (x + x).float(), torch.float32)
    result = outcome(op, (torch.full((4,), largest, dtype=torch.int16),))
    assert (result.outcome == "failed") == fails


@pytest.mark.parametrize(("doc", "fails"), [("", True), ("number: at most 40.", False)])
def test_plain_numbers_grow_if_nothing_limits_them(doc: str, fails: bool) -> None:
    op = op_of(f"grows_{fails}".lower(), doc, lambda x, n: (x * n * n).to(torch.int64), torch.int64)
    result = outcome(op, (torch.arange(100, dtype=torch.int32), 30))
    assert (result.outcome == "failed") == fails


def test_a_name_says_that_numbers_wrap() -> None:
    op = op_of("checksum", "", lambda x, _: (x + x).float(), torch.float32)
    result = outcome(op, (PIXELS,))
    assert (result.outcome, result.skip_code) == ("skipped", "nothing-to-check")


def test_a_kernel_without_numbers_of_few_bits_is_skipped() -> None:
    op = op_of("wide", "", lambda x, _: x * 2, torch.float32)
    result = outcome(op, (tensor(4),))
    assert (result.outcome, result.skip_code) == ("skipped", "nothing-to-check")


def test_the_script_raises_as_long_as_the_numbers_overflow(tmp_path: Path) -> None:
    test = tmp_path / "test_it.py"
    test.write_text(
        "import torch\nfrom pytest_customop import customop_cases, tensor\n"
        "@torch.library.custom_op('t_script::half', mutates_args=())\n"
        "def half(x: torch.Tensor) -> torch.Tensor:\n    return (x + x) // 2\n"
        "half.register_fake(lambda x: torch.empty_like(x))\n"
        "@customop_cases(half, [(tensor(4, dtype=torch.uint8),)], variants=False)\n"
        "def test_half(): ...\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", str(test)]
    options = ["--customop-checks=relations.overflow", f"--customop-repro-dir={tmp_path / 'r'}"]
    subprocess.run([*command, *options], cwd=tmp_path, check=False)
    (script,) = (tmp_path / "r").glob("*.py")
    failed = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert failed.returncode == 1
    assert "AssertionError" in failed.stderr
    test.write_text(test.read_text().replace("(x + x) // 2", "((x.int() + x) // 2).to(x.dtype)"))
    mended = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert mended.returncode == 0, mended.stderr


def test_a_cast_of_a_numpy_array_to_fewer_bits_is_there_to_cut_them_off() -> None:
    @torch.library.custom_op("t_overflow::low_byte", mutates_args=())
    def low_byte(x: torch.Tensor) -> torch.Tensor:
        if x.dtype != torch.uint8:
            raise TypeError("bytes, please")
        low = (x.numpy().astype("int32") * 3).astype("uint8")
        return torch.from_numpy(low.astype("int64"))

    low_byte.register_fake(lambda x: torch.empty_like(x, dtype=torch.int64))
    sample = (torch.tensor([200, 100, 7], dtype=torch.uint8),)
    (result,) = check_op(low_byte, [sample], checks=["relations.overflow"], variants=False)
    assert result.outcome == "passed"


def test_kernels_that_write_to_arguments_are_not_watched_in_numpy() -> None:
    @torch.library.custom_op("t_overflow::added_in_place", mutates_args=("total",))
    def added(total: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        total.numpy()[...] += x.numpy()
        return total.to(torch.int64)

    added.register_fake(lambda total, x: torch.empty_like(total, dtype=torch.int64))
    sample = (torch.full((3,), 100, dtype=torch.int8), torch.tensor([5, 100, 7], dtype=torch.int8))
    (result,) = check_op(added, [sample], checks=["relations.overflow"], variants=False)
    assert result.outcome == "skipped"


def test_an_overflow_beside_results_of_fewer_bits() -> None:
    @torch.library.custom_op("t_overflow::steps", mutates_args=())
    def steps(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Differences modulo 2**16, their last bytes, and whether they are positive."""
        if x.dim() != 1 or x.dtype != torch.int16:
            raise TypeError("int16 (N,), please")
        values = x.numpy()
        found = values[1:] - values[:-1]
        last = torch.tensor([int(step) & 255 for step in found], dtype=torch.uint8)
        return torch.from_numpy(found), last, last > 0

    @steps.register_fake
    def _(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(
            x.new_empty(x.shape[0] - 1, dtype=dtype)
            for dtype in (torch.int16, torch.uint8, torch.bool)
        )

    sample = (torch.tensor([30000, -30000, 5, 7], dtype=torch.int16),)
    (result,) = check_op(steps, [sample], checks=["relations.overflow"], variants=False)
    assert result.outcome == "passed"
