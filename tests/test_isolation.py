"""Changes of global state by a check are undone; other tests do not notice that checks ran."""

from __future__ import annotations

import contextvars
import gc
import logging
import random
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from kit import HEAD, Suite

from pytest_customop.global_state.preserve import preserved_state
from pytest_customop.global_state.shared_context import MOST_ADDED, in_shared_context


def set_determinism() -> None:
    torch.use_deterministic_algorithms(True, warn_only=True)


CHANGES: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    # what is changed: (how it is changed, how it is read)
    "torch's random stream": (lambda: torch.rand(3), lambda: torch.get_rng_state().tolist()),
    "torch's seed": (lambda: torch.manual_seed(5), lambda: torch.get_rng_state().tolist()),
    "python's random stream": (random.random, random.getstate),
    "the default dtype": (
        lambda: torch.set_default_dtype(torch.float16),
        torch.get_default_dtype,
    ),
    "gradients": (lambda: torch.set_grad_enabled(False), torch.is_grad_enabled),
    "deterministic algorithms": (
        set_determinism,
        lambda: (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
        ),
    ),
    "cudnn": (
        lambda: setattr(torch.backends.cudnn, "benchmark", True),
        lambda: torch.backends.cudnn.benchmark,
    ),
    "threads": (lambda: torch.set_num_threads(1), torch.get_num_threads),
    "warnings filters": (
        lambda: warnings.simplefilter("ignore"),
        lambda: list(warnings.filters),
    ),
    "levels of torch's loggers": (
        lambda: logging.getLogger("torch._dynamo").setLevel(logging.ERROR),
        lambda: logging.getLogger("torch._dynamo").level,
    ),
}


@pytest.fixture
def _several_threads() -> Any:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("_several_threads")
@pytest.mark.parametrize("what", CHANGES)
def test_a_change_is_undone(what: str) -> None:
    change, read = CHANGES[what]
    before = read()
    with preserved_state():
        change()
        assert read() != before
    assert read() == before


@pytest.mark.usefixtures("_several_threads")
def test_it_is_undone_after_an_exception_too() -> None:
    before = torch.get_default_dtype()

    def change_and_raise() -> None:
        with preserved_state():
            torch.set_default_dtype(torch.float64)
            raise KeyError

    with pytest.raises(KeyError):
        change_and_raise()
    assert torch.get_default_dtype() == before


def test_numpy_s_random_stream() -> None:
    numpy = pytest.importorskip("numpy")
    before = numpy.random.get_state()[1].tolist()
    with preserved_state():
        numpy.random.rand(700)
        assert numpy.random.get_state()[1].tolist() != before
    assert numpy.random.get_state()[1].tolist() == before


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch's own settings
def test_a_context_does_not_grow_with_patches() -> None:
    import torch._dynamo.config as config

    def patch() -> int:
        with config.patch(cache_size_limit=3):
            return len(contextvars.copy_context())

    before = len(contextvars.copy_context())
    inside = [in_shared_context(patch) for _ in range(_MANY)]
    assert len(contextvars.copy_context()) == before
    assert max(inside) <= before + MOST_ADDED + 50


_MANY = 2 * MOST_ADDED
number: contextvars.ContextVar[int] = contextvars.ContextVar("number", default=0)


@pytest.fixture
def _nothing_collected() -> Iterator[None]:
    """What older tests left, such as a suspended generator, may set variables when it is collected."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_nothing_collected")
def test_a_context_begins_as_the_caller_s_and_what_is_set_in_it_stays_there() -> None:
    def add() -> int:
        value = number.get()
        number.set(value + 10)
        return value

    def called() -> list[int]:
        values = [in_shared_context(add) for _ in range(2)]
        number.set(1)  # a change of the caller's begins a new copy
        return [*values, in_shared_context(add), number.get()]

    def called_among_many() -> list[int]:
        kept = [contextvars.ContextVar(f"other{index}") for index in range(_MANY)]
        for variable in kept:
            variable.set(0)
        return called()

    for call in (called, called_among_many):
        assert contextvars.copy_context().run(call) == [0, 10, 1, 1]


def test_a_context_may_be_entered_from_within_and_by_several_threads() -> None:
    assert in_shared_context(in_shared_context, number.get) == 0
    values: list[int] = []

    def outer() -> None:
        thread = threading.Thread(target=lambda: values.append(in_shared_context(number.get)))
        thread.start()
        thread.join()

    in_shared_context(outer)
    assert values == [0]
    with pytest.raises(KeyError):
        in_shared_context({}.__getitem__, "missing")
    assert in_shared_context(number.get) == 0


def test_gradients_are_on_inside_whatever_they_are_outside() -> None:
    with torch.inference_mode():
        with preserved_state():
            assert torch.is_grad_enabled()
            assert not torch.is_inference_mode_enabled()
        assert torch.is_inference_mode_enabled()


MARKED = """
@customop_cases(scale, [(tensor(3), 2), (tensor(50, 50), 3)])
def test_1_scale(customop_case):
    customop_case()

"""
UNMARKED = """
import pathlib, random
import torch

def test_2_unmarked():
    drawn = [torch.rand(4).tolist(), random.random(), random.getrandbits(40)]
    drawn.append(torch.normal(0.0, 1.0, (3,)).tolist())
    pathlib.Path("drawn.txt").write_text(repr(drawn))
"""
SEEDED = (
    HEAD
    + """
import random

@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart():
    torch.manual_seed(11)
    random.seed(11)

def draw(case):
    torch.rand(5), random.random(), torch.manual_seed(3)
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)

def pytest_customop_register_checks():
    return [Check("own.draw", "disturbs what it can", draw)]
"""
)


def test_an_unmarked_test_draws_the_same_numbers_with_and_without_checks_before_it(
    suite: Suite,
) -> None:
    suite.write("conftest.py", SEEDED)
    suite.write("test_it.py", UNMARKED)
    suite.run().assert_outcomes(passed=1)
    without = (suite.path / "drawn.txt").read_text()
    suite.test(MARKED + UNMARKED)
    suite.run(checks="own,body,fake.forward,opcheck.test_schema").assert_outcomes(passed=17)
    assert (suite.path / "drawn.txt").read_text() == without


def test_drawing_a_case_leaves_the_random_stream_alone(suite: Suite) -> None:
    suite.test("""
@customop_cases(scale, [(tensor(3), 2)], requires_grad=False)
def test_scale(customop_case):
    before = torch.get_rng_state()
    customop_case.inputs()
    customop_case()
    assert torch.equal(torch.get_rng_state(), before)
""")
    suite.run(checks="body").assert_outcomes(passed=1)
