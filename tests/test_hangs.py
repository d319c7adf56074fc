"""An op that waits for a lock which nobody releases: one finding, and no further call."""

from __future__ import annotations

import shlex
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

from pytest_customop import check_op, tensor
from pytest_customop.core import descendants, watchdog
from pytest_customop.run import hangs


def test_a_lock_that_a_call_kept_when_it_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    lock = threading.Lock()

    @torch.library.custom_op("t_hangs::doubled", mutates_args=(), schema="(Tensor x) -> Tensor")
    def doubled(x: torch.Tensor) -> torch.Tensor:
        lock.acquire()
        if not x.numel():
            raise ValueError("no elements")
        lock.release()
        return x * 2

    doubled.register_fake(torch.empty_like)
    monkeypatch.setattr(watchdog, "_WAITING", 0.5)
    monkeypatch.setattr(watchdog, "SECONDS", 0.5)
    monkeypatch.setattr(hangs, "_waiting", set())
    checks = ["values.repeat", "values.layouts"]
    results = check_op(doubled, [(tensor(4),)], checks=checks, variants="full")
    outcomes = [(result.outcome, result.finding or result.skip_code) for result in results]
    found = outcomes.index(("failed", "hang"))
    assert "lock.acquire()" in results[found].evidence
    assert ("passed", None) in outcomes[:found]
    assert set(outcomes[found + 1 :]) == {("skipped", "hang")}


@pytest.mark.parametrize("is_computing", [True, False])
def test_only_a_block_that_computes_nothing_is_ended(
    is_computing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "_WAITING", 0.2)
    never = threading.Event()

    def wait(seconds: float) -> None:
        end = watchdog.time.process_time() + seconds
        while is_computing and watchdog.time.process_time() < end:
            pass
        never.wait(0 if is_computing else 10 * seconds)

    with watchdog.ended_if_waiting():
        if is_computing:
            wait(0.6)
        else:
            with pytest.raises(watchdog.LimitExceeded, match=r"computed nothing for 0\.2 s"):
                wait(0.6)


def test_a_block_that_waits_for_a_process_that_computes_is_not_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watchdog, "_WAITING", 0.5)
    code = "import time\nwhile time.process_time() < {seconds}: pass\n{then}"
    with watchdog.ended_if_waiting():
        compiler = [sys.executable, "-c", code.format(seconds=1.5, then="")]
        assert subprocess.run(["sh", "-c", shlex.join(compiler)]).returncode == 0
        sleeper = [sys.executable, "-c", code.format(seconds=0, then="time.sleep(30)")]
        with subprocess.Popen(sleeper) as process:
            with pytest.raises(watchdog.LimitExceeded, match="computed nothing"):
                process.wait()
            process.kill()


def test_a_block_that_gets_no_processor_is_not_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "_WAITING", 0.2)
    never = threading.Event()
    waited = iter([7.0, 7.1, 7.2, *[7.3] * 9])  # the first one is since the process began
    monkeypatch.setattr(watchdog, "seconds_in_queue", lambda: next(waited))
    with (
        watchdog.ended_if_waiting(),
        pytest.raises(watchdog.LimitExceeded, match="computed nothing"),
    ):
        never.wait(30)
    assert [*waited] == [7.3] * 7


def test_what_linux_counts_of_the_time_in_the_queue(tmp_path: Path) -> None:
    file = tmp_path / "schedstat"
    assert descendants.seconds_in_queue(file) == 0.0
    file.write_text("251020 1500000000 1\n")
    assert descendants.seconds_in_queue(file) == 1.5
