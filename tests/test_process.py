"""What ops and compilers change in the process is restored after every check."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch._dynamo.config
import torch._functorch.config
import torch._inductor.config

from pytest_customop.compat import configuration
from pytest_customop.compat.configuration import compiler_configuration
from pytest_customop.global_state import float32_precision, process, settings


def own_handler(number: int, frame: Any) -> None: ...


def own_hook(*args: Any) -> None: ...


CHANGES: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    # what is changed: (how it is changed, how it is read)
    "dynamo's configuration": (
        lambda: setattr(torch._dynamo.config, "suppress_errors", True),
        lambda: torch._dynamo.config.suppress_errors,
    ),
    "one that dynamo leaves out of its hash": (
        lambda: setattr(torch._dynamo.config, "cache_size_limit", 77),
        lambda: torch._dynamo.config.cache_size_limit,
    ),
    "inductor's, below a name": (
        lambda: setattr(torch._inductor.config.triton, "cudagraphs", True),
        lambda: torch._inductor.config.triton.cudagraphs,
    ),
    "functorch's": (
        lambda: setattr(torch._functorch.config, "debug_partitioner", True),
        lambda: torch._functorch.config.debug_partitioner,
    ),
    "a signal's handler": (
        lambda: signal.signal(signal.SIGUSR2, own_handler),
        lambda: signal.getsignal(signal.SIGUSR2),
    ),
    "sys.path": (lambda: sys.path.insert(0, "/nowhere"), lambda: [*sys.path]),
    "sys.excepthook": (lambda: setattr(sys, "excepthook", own_hook), lambda: sys.excepthook),
    "the recursion limit": (
        lambda: sys.setrecursionlimit(sys.getrecursionlimit() + 7),
        sys.getrecursionlimit,
    ),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_is_undone(what: str) -> None:
    change, read = CHANGES[what]
    before = read()
    with process.preserved():
        change()
        assert read() != before
    assert read() == before


def test_what_was_set_before_stays_set() -> None:
    with torch._dynamo.config.patch(cache_size_limit=5, verbose=True):
        with process.preserved():
            torch._dynamo.config.cache_size_limit = 6
        assert torch._dynamo.config.cache_size_limit == 5
        assert torch._dynamo.config.verbose


def test_a_thread_may_run_a_check_and_leaves_signals_alone() -> None:
    raised: list[BaseException] = []

    def run() -> None:
        try:
            with process.preserved():
                sys.path.insert(0, "/nowhere")
        except BaseException as error:
            raised.append(error)

    before = [*sys.path]
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert raised == []
    assert sys.path == before


def test_what_setuptools_adds_for_its_own_modules_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    with process.preserved():
        sys.path.append("/somewhere/setuptools/_vendor")
        sys.path.append("/nowhere")
    assert sys.path[-1] == "/somewhere/setuptools/_vendor"


@pytest.mark.parametrize("entries", [False, True], ids=["values", "entries"])
def test_configurations_of_older_torch(monkeypatch: pytest.MonkeyPatch, entries: bool) -> None:
    """Plain values, as in torch 2.4; or entries with a plain attribute, as later."""

    def entry(value: Any) -> Any:
        return SimpleNamespace(user_override=value) if entries else value

    class Config:
        _config = {"a.b": entry(1), "c": entry("x"), "d": entry([3])}  # noqa: RUF012
        _is_dirty = False

        def __setattr__(self, name: str, value: Any) -> None:
            if name == "_is_dirty":
                object.__setattr__(self, name, value)
            else:
                self._config[name] = value

    config = Config()
    monkeypatch.setattr(configuration, "_CONFIGURATIONS", ("customop_config",))
    monkeypatch.setitem(sys.modules, "customop_config", config)  # type: ignore[arg-type]

    def value(name: str) -> Any:
        return config._config[name].user_override if entries else config._config[name]

    restore = compiler_configuration()
    if entries:
        config._config["a.b"].user_override = 2
    else:
        config._config["a.b"] = 2
    restore()
    assert [value(name) for name in ("a.b", "c", "d")] == [1, "x", [3]]
    assert config._is_dirty == entries


# The precision of products, which torch 2.9 and later keep in several places

NEW = pytest.mark.skipif(
    not hasattr(torch.backends.cuda.matmul, "fp32_precision"), reason="came with torch 2.9"
)


def precisions() -> list[str]:
    return [torch.get_float32_matmul_precision(), *float32_precision.read_by_backend()]


def test_the_precision_of_products_is_restored_in_every_place() -> None:
    before = precisions()
    with settings.preserved():
        torch.set_float32_matmul_precision("medium")
    assert precisions() == before
    with settings.preserved():
        settings.perturb()
    assert precisions() == before


@NEW
def test_a_session_that_sets_precisions_by_backend_can_be_checked() -> None:
    """torch then raises where the shared precision is read."""
    with settings.preserved():
        torch.backends.cuda.matmul.fp32_precision = "tf32"
        with pytest.raises(RuntimeError, match="mix of the legacy and new APIs"):
            torch.get_float32_matmul_precision()
        with settings.preserved():
            settings.perturb()
            torch.backends.cuda.matmul.fp32_precision = "ieee"
        assert torch.backends.cuda.matmul.fp32_precision == "tf32"
