"""A device that an op leaves unusable: the op fails, and the others are judged all the same."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from kit import HEAD
from test_own_device import EXAMPLE, built, run

from pytest_customop.core import lost_device, rng

__all__ = ["built"]  # a fixture

ACCESS = "CUDA error: an illegal memory access was encountered"


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], list[str]]:
    """Makes `torch.t_lost`, whose `synchronize` is a function; returns what listeners hear."""
    monkeypatch.setattr(lost_device, "_errors", {})
    monkeypatch.setattr(lost_device, "_listeners", [])

    def make(synchronize: Callable[[], None]) -> list[str]:
        monkeypatch.setattr(
            torch, "t_lost", SimpleNamespace(synchronize=synchronize), raising=False
        )
        heard: list[str] = []
        lost_device.when_lost(lambda *loss: heard.extend(loss))
        return heard

    return make


def test_an_error_that_stays(device: Any) -> None:
    def synchronize() -> None:
        raise RuntimeError(f"{ACCESS}\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1")

    heard = device(synchronize)
    assert lost_device.error_of("t_lost") is None
    assert lost_device.wait_for("t_lost") == ACCESS
    assert lost_device.wait_for("t_lost") == lost_device.error_of("t_lost") == ACCESS
    assert heard == ["t_lost", ACCESS]


def test_an_error_of_one_call(device: Any) -> None:
    errors = [RuntimeError("CUDA error: invalid configuration argument")]

    def synchronize() -> None:
        if errors:
            raise errors.pop()

    heard = device(synchronize)
    assert lost_device.wait_for("t_lost") is None
    assert (errors, heard) == ([], [])


def test_a_device_that_is_not_in_use_is_not_waited_for(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    device(lambda: pytest.fail("it was"))
    monkeypatch.setattr(torch.t_lost, "is_initialized", lambda: False, raising=False)
    assert lost_device.wait_for("t_lost") is None
    assert lost_device.wait_for("cpu") is None


def test_random_streams_of_a_lost_device_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise RuntimeError(ACCESS)

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_rng_state_all", lambda: [torch.zeros(1)])
    monkeypatch.setattr(torch.cuda, "set_rng_state_all", refuse)
    monkeypatch.setattr(torch.cuda, "manual_seed_all", refuse)
    monkeypatch.setattr(lost_device, "_errors", {})
    with rng.preserved():
        lost_device._errors["cuda"] = ACCESS
        rng.seed(1)
        assert "torch's on cuda:0" not in rng.states()


SOURCE = (
    HEAD
    + """
import mydevice

LIBRARY = torch.library.Library("NS", "DEF")
LOST = []

def synchronize():
    if LOST:
        raise RuntimeError(LOST[0])

torch.mydevice.synchronize = synchronize

def op(name, most, error="CUDA error: an illegal memory access was encountered"):
    def there(x):
        synchronize()
        if x.numel() > most:
            LOST.append(error)
        return (x.cpu() + 1).to(x.device)

    LIBRARY.define(f"{name}(Tensor x) -> Tensor")
    LIBRARY.impl(name, lambda x: x + 1, "CPU")
    LIBRARY.impl(name, there, "PrivateUse1")
    torch.library.register_fake(f"NS::{name}", torch.empty_like, lib=LIBRARY)

op("wild", 12)
op("asserts", 12, "CUDA error: device-side assert triggered")
op("dies", 1)
op("fine", 2**40)
MARK = dict(samples=[(tensor(3, 4),)], requires_grad=False, checks=["fake.forward", "values.repeat"])

@customop_cases("NS::wild", **MARK)
def test_1_wild(): ...

@customop_cases("NS::asserts", **MARK)
def test_2_asserts(): ...

@customop_cases("NS::fine", **MARK)
def test_3_fine(): ...

@customop_cases("NS::dies", **MARK)
def test_4_dies(): ...

@customop_cases("NS::fine", **MARK)
def test_5_fine(): ...

@customop_cases("NS::dies", samples=[(tensor(3, 4),)], requires_grad=False, checks="body")
def test_6_body(customop_case):
    customop_case()
"""
)


def results_of(folder: Path, built: Path, *options: str) -> list[dict[str, Any]]:
    shutil.copytree(EXAMPLE, folder, ignore=lambda *_: ["test_negate.py", "__pycache__"])
    (folder / "test_lost.py").write_text(SOURCE.replace("NS", "lost"))
    report = folder / "report.json"
    ran = run(
        folder, "--customop-devices=mydevice", f"--customop-report={report}", *options, built=built
    )
    assert ran.returncode == 1, ran.stdout + ran.stderr
    results: list[dict[str, Any]] = json.loads(report.read_text())["results"]
    assert all("test_lost.py" in record["nodeid"] for record in results)
    return results


def of(results: list[dict[str, Any]], test: str) -> list[tuple[Any, ...]]:
    """The (outcome, code, whether of a variant) of a test's results, each once."""
    found = [
        (record["outcome"], record["finding"] or record["reason"], record["variant"] is not None)
        for record in results
        if test in record["nodeid"]
    ]
    return [*dict.fromkeys(found)]


@pytest.mark.slow
def test_a_lost_device_is_the_finding_of_one_op_and_others_go_on(
    built: Path, tmp_path: Path
) -> None:
    results = results_of(tmp_path / "suite", built)
    crash = ("failed", "crash", True)
    assert of(results, "test_1_wild")[0] == ("passed", None, False)
    assert crash in of(results, "test_1_wild")
    # Each loss takes a new process, so the fourth variant and those after it do not run.
    assert ("skipped", "device-lost", True) in of(results, "test_1_wild")
    assert sum(r["finding"] == "crash" for r in results if "test_1_wild" in r["nodeid"]) == 3
    # An assertion in a kernel is how a kernel on a GPU rejects what it does not support.
    assert {outcome for outcome, *_ in of(results, "test_2_asserts")} == {"passed", "skipped"}
    assert ("skipped", "rejected", True) in of(results, "test_2_asserts")
    assert {outcome for outcome, *_ in of(results, "test_3_fine")} == {"passed"}
    # The session itself loses the device; what follows runs in a child.
    assert ("failed", "crash", False) in of(results, "test_4_dies")
    assert ("skipped", "as-sample", True) in of(results, "test_4_dies")
    assert of(results, "test_5_fine") == of(results, "test_3_fine")
    assert of(results, "test_6_body") == [("failed", "crash", False)]
    (message,) = {
        r["message"] for r in results if "test_4_dies" in r["nodeid"] and r["finding"] == "crash"
    }
    assert message == f"lost::dies leaves mydevice unusable ({ACCESS}) in a plain call"


@pytest.mark.slow
def test_without_a_child_what_follows_is_skipped(built: Path, tmp_path: Path) -> None:
    results = results_of(tmp_path / "suite", built, "--customop-isolate=off")
    crashes = [record for record in results if record["finding"] == "crash"]
    assert [record["variant"] for record in crashes] == ["odd"]  # of the first op, in the session
    after = results[results.index(crashes[0]) + 1 :]
    assert {record["outcome"] for record in after} == {"skipped", "failed"}
    assert of(after, "test_5_fine")[0] == ("skipped", "device-lost", False)
    # The body of a test calls the op itself, and nothing keeps it from that.
    assert {r["check"] for r in after if r["outcome"] == "failed"} <= {"body"}
