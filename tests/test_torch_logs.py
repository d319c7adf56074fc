"""torch logs nothing while a check runs, writes no trace for pytest, and logs as before afterwards."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from kit import HEAD, Suite

from pytest_customop.compat.compiler import TRACE_LOGGER
from pytest_customop.global_state.preserve import preserved_state
from pytest_customop.global_state.torch_logging import silenced


class Keeper(logging.Handler):
    """Keeps what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.kept.append(record.getMessage())


@pytest.fixture
def keeper() -> Iterator[Keeper]:
    """A handler of several loggers at once, as pytest's are."""
    handler = Keeper()
    loggers = [logging.getLogger(name) for name in ("torch._dynamo", "torch._inductor", "ops")]
    for logger in loggers:
        logger.addHandler(handler)
    yield handler
    for logger in loggers:
        logger.removeHandler(handler)


def test_torch_is_silenced_and_others_are_not(keeper: Keeper) -> None:
    with silenced():
        logging.getLogger("torch._dynamo").error("torch")
        logging.getLogger("ops").error("an op")
        with silenced():
            pass
        logging.getLogger("torch._inductor").error("torch after an inner block")
    logging.getLogger("torch._dynamo").error("torch again")
    assert keeper.kept == ["an op", "torch again"]


def test_a_trace_that_was_asked_for_goes_on() -> None:
    logger, handler = logging.getLogger(TRACE_LOGGER), Keeper()
    logger.error("at the first record torch's own handler leaves, and the next one misses it")
    logger.addHandler(handler)
    try:
        with preserved_state(), silenced():
            assert handler in logger.handlers
            logger.error("traced")
    finally:
        logger.removeHandler(handler)
    assert handler.kept == ["traced"]


def test_pytest_does_not_make_torch_write_its_trace(suite: Suite) -> None:
    suite.write(
        "test_it.py",
        HEAD
        + """
import logging
trace = logging.getLogger("torch.__trace")
trace.error("at the first record torch's own handler leaves")

class Capturing(logging.Handler):
    def emit(self, record): ...

Capturing.__module__ = "_pytest.logging"

@torch.library.custom_op("logs::looks", mutates_args=())
def looks(x: torch.Tensor) -> torch.Tensor:
    assert not any(type(one).__module__ == "_pytest.logging" for one in trace.handlers)
    return x * 2

@looks.register_fake
def _(x):
    return torch.empty_like(x)

@pytest.fixture(autouse=True)
def captured():
    trace.addHandler(handler := Capturing())
    before = [*trace.handlers]
    yield
    assert [one for one in before if one in trace.handlers] == before
    trace.removeHandler(handler)

@customop_cases(looks, [(tensor(3),)], checks="compile.static", requires_grad=False)
def test(): ...
""",
    )
    suite.run("--customop-variants=off", checks=None).assert_outcomes(passed=1)
