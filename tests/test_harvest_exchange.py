"""How the workers of pytest-xdist share out what they have seen."""

import threading
from pathlib import Path

import pytest
import torch

from pytest_customop.harvest.calls import SeenCall, SeenTensor
from pytest_customop.harvest.samples import groups_of
from pytest_customop.plugin.harvest.exchange import FOLDER, Exchange, exchange_of

NS = "test_harvest_exchange"


@torch.library.custom_op(f"{NS}::one", mutates_args=())
def one(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


@torch.library.custom_op(f"{NS}::other", mutates_args=())
def other(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


def call(op: str, size: int) -> SeenCall:
    tensor = SeenTensor((size,), (1,), 0, torch.float32, "cpu", False)
    return SeenCall(f"{NS}::{op}", (tensor,))


def own_samples(exchange: Exchange, calls: list[SeenCall]) -> set[str]:
    merged, is_own = exchange.merged(calls)
    groups, _ = groups_of(merged)
    return {
        f"{group.op.name.removeprefix(f'{NS}::')}[{name}]"
        for group in groups
        for name in group.samples
        if is_own(group, name)
    }


@pytest.fixture
def found(tmp_path: Path) -> dict[str, set[str]]:
    """What each of two workers checks, which have all calls but one in common."""
    workers = {name: Exchange(tmp_path, name) for name in ("gw0", "gw1")}
    calls = {"gw0": [call("one", 9), call("one", 10)], "gw1": [call("one", 10), call("other", 9)]}
    result: dict[str, set[str]] = {}

    def work(name: str) -> None:
        result[name] = own_samples(workers[name], calls[name])

    threads = [threading.Thread(target=work, args=(name,)) for name in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return result


def test_each_call_is_checked_once_where_the_op_was_called(found: dict[str, set[str]]) -> None:
    assert found["gw0"] | found["gw1"] == {"one[9]", "one[10]", "other[9]"}
    assert not found["gw0"] & found["gw1"]
    assert "other[9]" in found["gw1"]


@pytest.mark.usefixtures("found")
def test_a_worker_that_comes_late_checks_what_the_others_have_not_seen(tmp_path: Path) -> None:
    late = Exchange(tmp_path, "gw2")
    assert own_samples(late, [call("one", 10), call("one", 11)]) == {"one[11]"}
    assert own_samples(Exchange(tmp_path, "gw3"), []) == set()


def test_nobody_waits_for_a_worker_that_has_died_or_given_up(tmp_path: Path) -> None:
    (tmp_path / "gw1.alive").write_bytes(b"999999999")
    Exchange(tmp_path, "gw2").leave()
    assert own_samples(Exchange(tmp_path, "gw0"), [call("one", 9)]) == {"one[9]"}


def test_outside_of_a_worker_there_is_none(tmp_path: Path) -> None:
    assert exchange_of({}) is None
    assert exchange_of({FOLDER: str(tmp_path / "elsewhere"), "workerid": "gw0"}) is None
    assert exchange_of({FOLDER: str(tmp_path), "workerid": "gw0"}) is not None
