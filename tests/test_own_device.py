"""The example of a device that is not in torch: it goes through the matrix under its own name."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest
import torch
from kit import HEAD, Suite

from pytest_customop.core import rng
from tests.native.ops import why_not

EXAMPLE = Path(__file__).parents[1] / "examples" / "own_device"

WRONG = (
    HEAD
    + """
import mydevice

LIBRARY = torch.library.Library("NS", "DEF")
SEEN = {}

def op(name, there):
    LIBRARY.define(f"{name}(Tensor x) -> Tensor")
    LIBRARY.impl(name, lambda x: x + 1, "CPU")
    LIBRARY.impl(name, there, "PrivateUse1")
    torch.library.register_fake(f"NS::{name}", torch.empty_like, lib=LIBRARY)

def draws(x):
    torch.rand(3, generator=mydevice.GENERATOR)
    return (x.cpu() + 1).to(x.device)

op("wrong", lambda x: (x.cpu() + 2).to(x.device))
op("draws", draws)

@customop_cases("NS::wrong", [(tensor(3),)], checks=["devices", "body"], requires_grad=False)
def test_wrong(customop_case):
    drawn = SEEN.setdefault("values", customop_case.args[0].cpu())
    assert torch.equal(customop_case.args[0].cpu(), drawn)

@customop_cases("NS::draws", [(tensor(3),)], checks=["state.rng"], requires_grad=False)
def test_draws(): ...
"""
)


def run(folder: Path, *arguments: str, built: Path) -> subprocess.CompletedProcess[str]:
    """pytest in a process of its own, with the backend built in another folder."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:randomly"]
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    return subprocess.run(
        [*command, *arguments],
        cwd=folder,
        env={**env, "TORCH_EXTENSIONS_DIR": str(built)},
        capture_output=True,
        text=True,
        timeout=600,
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the backend is built."""
    reason = why_not()
    if reason:
        pytest.skip(reason)
    return tmp_path_factory.mktemp("built")


@pytest.mark.slow
def test_the_example_passes_every_check(built: Path) -> None:
    options = ("--customop-devices=cpu,mydevice", "--customop-backend=aot_eager")
    ran = run(EXAMPLE, *options, "-v", built=built)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    for line in (
        "test_negate[mydevice-float32-withgrad-0-gradcheck.backward] PASSED",
        "test_negate[mydevice-float32-nograd-0-compile.static] PASSED",
        "test_negate[mydevice-float32-nograd-0-values.layouts] PASSED",
        "test_negate[mydevice-float32-withgrad-0-devices.agree] PASSED",
        "test_on_every_device[mydevice] PASSED",
    ):
        assert line in ran.stdout


@pytest.mark.slow
def test_the_default_backend_generates_no_code_for_it(built: Path) -> None:
    ran = run(EXAMPLE, "--customop-devices=mydevice", "--customop-checks=compile", built=built)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "generates no code for mydevice" in ran.stdout
    assert (
        "there is no autocast on mydevice"
        in run(
            EXAMPLE, "--customop-devices=mydevice", "--customop-checks=compile", "-rs", built=built
        ).stdout
    )


BY_HAND = (
    HEAD
    + """
LIBRARY = torch.library.Library("NS", "DEF")
LIBRARY.define("skip_first(Tensor x, Tensor count) -> Tensor")

def there(x, count):
    assert x.device.type == "mydevice" and count.device.type == "cpu"
    return x[int(count):].clone()

LIBRARY.impl("skip_first", lambda x, count: x[int(count):].clone(), "CPU")
LIBRARY.impl("skip_first", there, "PrivateUse1")

def test_by_hand(customop_check, customop_device):
    x = torch.ones(3, device=customop_device)
    customop_check("NS::skip_first", x, torch.tensor(1), checks=["values.repeat", "values.mutation"])
"""
)


@pytest.mark.slow
def test_a_call_by_hand_is_checked_where_its_tensors_are(built: Path, tmp_path: Path) -> None:
    folder = tmp_path / "suite"
    shutil.copytree(EXAMPLE, folder, ignore=lambda *_: ["test_negate.py", "__pycache__"])
    (folder / "test_by_hand.py").write_text(BY_HAND.replace("NS", "own_device_by_hand"))
    report = folder / "report.json"
    ran = run(folder, "--customop-devices=mydevice", f"--customop-report={report}", built=built)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    results = json.loads(report.read_text())["results"]
    assert {(record["device"], record["outcome"]) for record in results} == {("mydevice", "passed")}


@pytest.mark.slow
def test_seeds_state_and_messages_carry_its_name(built: Path, tmp_path: Path) -> None:
    folder = tmp_path / "suite"
    shutil.copytree(EXAMPLE, folder, ignore=lambda *_: ["test_negate.py", "__pycache__"])
    (folder / "test_wrong.py").write_text(WRONG.replace("NS", "own_device_wrong"))
    ran = run(folder, "--customop-devices=cpu,mydevice", "-n2", built=built)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "test_wrong[mydevice-float32-nograd-0-devices.agree]" in ran.stdout
    assert "float32[3] on mydevice:0" in ran.stdout
    assert "torch's on mydevice:0" in ran.stdout
    assert "--customop-devices=cpu,mydevice" in ran.stdout
    assert "2 failed" in ran.stdout  # the body finds the same values on both devices


def test_it_is_built_only_where_it_is_asked_for(tmp_path: Path) -> None:
    ran = run(EXAMPLE, "--collect-only", "-q", "--customop-checks=fake", built=tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "test_negate[cpu-float32-nograd-0-fake.forward]" in ran.stdout
    assert "mydevice" not in ran.stdout
    assert list(tmp_path.iterdir()) == []


# Devices that torch knows, and that are not here


@pytest.mark.parametrize(
    ("device", "reason"),
    [
        ("mps", "torch.mps.is_available() is False"),
        ("xpu", "torch.xpu.is_available() is False"),
        ("npu", "knows it once torch_npu is imported"),
        ("npu:1", "knows it once torch_npu is imported"),
        ("hpu", "has no torch.hpu"),
    ],
)
def test_a_device_that_is_not_here_is_one_skip(suite: Suite, device: str, reason: str) -> None:
    suite.test("""
@customop_cases(scale, [(tensor(3), 2)], requires_grad=False)
def test_scale(): ...

def test_other(customop_device): ...

def test_by_hand(customop_check):
    customop_check(scale, torch.ones(3), 2)
""")
    result = suite.run(f"--customop-devices={device}", "-rs")
    result.assert_outcomes(passed=1, skipped=2)
    assert f"device {device} is not available: " in result.stdout.str()
    assert reason in result.stdout.str()
    result = suite.run(f"--customop-devices={device}", "--customop-require-devices")
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_a_device_that_nobody_knows_has_to_be_registered(suite: Suite) -> None:
    suite.test("def test_other(customop_device): ...\n")
    result = suite.run("--customop-devices=mydevice")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "one of your own has to be registered first (docs/hooks.md)" in result.stderr.str()


# The random streams of another accelerator


def test_the_streams_of_another_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator()
    module = types.SimpleNamespace(
        is_initialized=lambda: True,
        device_count=lambda: 1,
        manual_seed_all=generator.manual_seed,
        get_rng_state=lambda device: generator.get_state(),
        set_rng_state=lambda state, device: generator.set_state(state),
    )
    monkeypatch.setattr(rng, "_other_accelerator", lambda: ("npu", module))
    before = rng.states()
    with rng.preserved():
        torch.rand(1, generator=generator)
        assert list(rng.changed(before, rng.states())) == ["torch's on npu:0"]
    assert list(rng.changed(before, rng.states())) == []
    with rng.preserved():
        rng.seed(3)
        assert generator.initial_seed() == 3
