"""Failures as scripts: what they import, how they make their inputs, where they are written."""

import subprocess
import sys
from pathlib import Path
from typing import Any, Optional, Sequence

import pytest
import torch
from kit import Suite
from torch import Tensor

from pytest_customop import CheckResult, Sample, check_op, tensor
from pytest_customop.cases.arguments import Placement
from pytest_customop.cases.case import Case
from pytest_customop.declare.ops import resolve
from pytest_customop.run.literals import inputs_source

SPARSE = pytest.mark.filterwarnings("ignore:Validating sparse tensor invariants")


# torch 2.4 does not infer the schema of an op that has a str with a default.
MANY = """(
    Tensor x, Tensor[] xs, Tensor? y=None, *, float scale=1.0, SymInt[]? sizes=None, str mode="plain"
) -> Tensor"""


@torch.library.custom_op("t_repro::many", mutates_args=(), schema=MANY)
def many(
    x: Tensor,
    xs: Sequence[Tensor],
    y: Optional[Tensor] = None,
    *,
    scale: float = 1.0,
    sizes: Optional[Sequence[int]] = None,
    mode: str = "plain",
) -> Tensor:
    return x.clone()


@torch.library.custom_op("t_repro::wrong", mutates_args=())
def wrong(x: Tensor) -> Tensor:
    return x.t().contiguous().t()


wrong.register_fake(lambda x: torch.empty_like(x))


def case_of(op: Any, *args: Any, layout: str = "contiguous", grad: bool = False, **kw: Any) -> Case:
    placement = Placement("cpu", torch.float32, grad, layout)
    return Case(resolve(op), Sample(args, kw), placement, seed=11)


def remade(case: Case, folder: Path) -> tuple[tuple[Any, ...], dict[str, Any]]:
    source, files = inputs_source(case)
    for ending, content in files.items():
        (folder / "script").with_suffix(ending).write_bytes(content)
    scope: dict[str, Any] = {"torch": torch, "__file__": str(folder / "script.py")}
    exec(source, scope)
    return scope["inputs"]()


def assert_same(case: Case, folder: Path) -> None:
    args, kwargs = remade(case, folder)
    inputs = case.inputs()
    assert len(args) == len(inputs.args)
    assert kwargs.keys() == dict(inputs.kwargs).keys()

    def flat(values: Any) -> list[Any]:
        return torch.utils._pytree.tree_leaves(values)

    for actual, expected in zip(
        flat((args, kwargs)), flat((inputs.args, dict(inputs.kwargs))), strict=True
    ):
        if not isinstance(expected, torch.Tensor):
            assert type(actual) is type(expected)
            assert actual == expected or expected != expected
            continue
        assert actual.dtype == expected.dtype
        assert actual.stride() == expected.stride()
        assert actual.storage_offset() == expected.storage_offset()
        assert actual.requires_grad == expected.requires_grad
        torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("size", [3, 100])
@pytest.mark.parametrize(
    "layout", ["contiguous", "transposed", "strided", "row_padded", "offset", "expanded"]
)
def test_inputs_are_made_again_exactly(size: int, layout: str, tmp_path: Path) -> None:
    case = case_of(
        many,
        tensor(4, size),
        [tensor(2, dtype=torch.int64, low=-9, high=9), tensor(0, 3)],
        tensor(values=[[True, False]]),
        layout=layout,
        grad=True,
        scale=float("inf"),
        sizes=[1, 2],
        mode='a "word"',
    )
    assert_same(case, tmp_path)


def test_making_inputs_again_leaves_the_streams_of_cuda_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds: list[int] = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeds.append)
    source, files = inputs_source(case_of(many, tensor(100), []))
    assert "make_tensor" in source
    assert (files, seeds) == ({}, [])


def test_real_tensors_that_share_memory_share_it_again(tmp_path: Path) -> None:
    base = torch.arange(12.0)
    case = case_of(many, base[2:6], [base[4:8], torch.tensor(float("nan"))])
    assert_same(case, tmp_path)
    args, _ = remade(case, tmp_path)
    args[0].zero_()
    assert args[1][0].tolist() == [0.0, 0.0, 6.0, 7.0]


@pytest.mark.parametrize(
    "values",
    [
        torch.randn(200),
        torch.randn(3).to(torch.float8_e4m3fn),
        torch.randn(2, dtype=torch.complex64).conj(),
        pytest.param(torch.eye(3).to_sparse(), marks=SPARSE),
    ],
    ids=["large", "fp8", "conj", "sparse"],
)
def test_what_cannot_be_written_out_is_saved(values: Tensor, tmp_path: Path) -> None:
    case = case_of(many, values, [])
    _, files = inputs_source(case)
    assert list(files) == [".inputs.pt"]
    (again, _), _ = remade(case, tmp_path)
    assert again.dtype == values.dtype
    assert again.layout == values.layout
    plain = [item.to_dense() for item in (again, values)]
    assert torch.equal(*(item.to(torch.complex64) for item in plain))


def test_described_tensors_are_drawn_again_and_not_saved() -> None:
    source, files = inputs_source(case_of(many, tensor(300, 300, low=0, high=1), [tensor(2)]))
    assert not files
    assert "torch.manual_seed(11)" in source
    assert "make_tensor((300, 300), dtype=torch.float32" in source


def run(path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(path)], cwd="/", capture_output=True, text=True, timeout=300
    )


def failed(samples: list[Any]) -> CheckResult:
    (result,) = check_op(wrong, samples, checks="fake.forward", requires_grad=False, variants=False)
    assert result.finding == "fake-stride-mismatch"
    return result


@pytest.mark.parametrize("size", [3, 500], ids=["written out", "drawn"])
def test_a_script_fails_by_itself_until_the_op_is_corrected(size: int, tmp_path: Path) -> None:
    script = failed([(tensor(3, size),)]).script()
    assert script is not None
    assert script.text.startswith('"""fake-stride-mismatch: ')
    path = script.write(tmp_path / "scripts" / "script.py")
    done = run(path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "AssertionError: t_repro.wrong.default: the fake kernel promises" in done.stderr
    corrected = script.text.replace(
        "\nop = ",
        "\nsys.modules['test_repro'].wrong.register_fake(lambda x: x.t().contiguous().t())\nop = ",
    )
    path.write_text(corrected, encoding="utf-8")
    done = run(path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "The defect no longer reproduces."


def test_a_script_needs_neither_pytest_nor_this_package_where_the_op_needs_neither() -> None:
    script = failed([(tensor(3, 4),)]).script()
    assert script is not None
    assert "pytest" not in script.text.replace("pytest_customop/", "")


SOURCE = """
@torch.library.custom_op("NS::turned", mutates_args=())
def turned(x: torch.Tensor) -> torch.Tensor:
    return x.t().contiguous().t()

turned.register_fake(lambda x: torch.empty_like(x))

@customop_cases(turned, [(tensor(3, 4),)], requires_grad=False)
def test_turned(): ...

def test_by_hand(customop_check):
    customop_check(turned, torch.ones(3, 4))
"""


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_scripts_are_written_and_fail(suite: Suite, workers: tuple[str, ...]) -> None:
    suite.test(SOURCE)
    result = suite.run_apart(*workers, "--customop-repro-dir=scripts/here", checks="fake.forward")
    result.assert_outcomes(failed=2)
    folder = suite.path / "scripts" / "here"
    written = sorted(path.name for path in folder.iterdir())
    assert written == [
        "repro-test_it-test_by_hand.py",
        "repro-test_it-test_turned-cpu-float32-nograd-0-fake.forward.py",
    ]
    assert f"repro  scripts/here/{written[1]}" in result.outlines
    for name in written:
        done = run(folder / name)
        assert done.returncode == 1
        assert "AssertionError: " in done.stderr


def test_a_file_in_place_of_the_folder_is_one_error(suite: Suite) -> None:
    suite.test(SOURCE)
    result = suite.run("--customop-repro-dir=test_it.py", checks="fake.forward")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "--customop-repro-dir=test_it.py: this is a file" in result.stderr.str()


def test_without_a_folder_the_option_that_writes_scripts_is_named(suite: Suite) -> None:
    suite.test(SOURCE)
    result = suite.run("-k", "turned", checks="opcheck.test_faketensor")
    line = "repro  --customop-repro-dir=DIR writes a script without pytest"
    assert result.outlines.count(line) == 1
