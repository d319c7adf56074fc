"""The family `state`: streams and settings that a call leaves otherwise than it found them."""

import gc
import itertools
import logging
import os
import random
import warnings
from typing import Any, Callable, Optional

import pytest
import torch
import verdicts

from pytest_customop.cases.arguments import Placement
from pytest_customop.cases.case import Case
from pytest_customop.core import rng
from pytest_customop.declare import ops
from pytest_customop.declare.inputs import Sample, tensor
from pytest_customop.findings import CheckFailed
from pytest_customop.global_state import settings

CHECKS = verdicts.family("state")
SETTINGS = {setting.name: setting for setting in settings.SETTINGS}
_numbers = itertools.count()


@pytest.fixture(autouse=True)
def settings_put_back() -> Any:
    with settings.preserved():
        yield


def case_of(
    first: Callable[[], Any],
    *,
    fake_first: Callable[[], Any] = lambda: None,
    backward_first: Optional[Callable[[], Any]] = None,
    tags: tuple = (),
) -> Case:
    name = f"op_{next(_numbers)}"
    library = torch.library.Library("t_state", "FRAGMENT")
    library.define(f"{name}(Tensor x) -> Tensor", tags=tags)
    _libraries.append(library)

    @torch.no_grad()
    def kernel(x):
        first()
        return x * 2

    def fake(x):
        fake_first()
        return torch.empty_like(x)

    def backward(ctx, grad):
        backward_first()
        return grad * 2

    library.impl(name, kernel, "CompositeExplicitAutograd")
    torch.library.register_fake(f"t_state::{name}", fake, lib=library)
    if backward_first is not None:
        torch.library.register_autograd(f"t_state::{name}", backward, lib=library)
    placement = Placement("cpu", torch.float32, backward_first is not None, "contiguous")
    return Case(ops.resolve(f"t_state::{name}"), Sample((tensor(3),)), placement)


_libraries: list = []


def message(check: str, case: Case) -> str:
    with pytest.raises(CheckFailed) as caught:
        CHECKS[check](case)
    return caught.value.finding.message.partition(": ")[2]


CHANGES = {
    "the default dtype": lambda: torch.set_default_dtype(torch.float64),
    "autocast on cpu": lambda: torch.set_autocast_enabled("cpu", True),
    "autocast on cuda": lambda: torch.set_autocast_dtype("cuda", torch.bfloat16),
    "the cache of autocast": lambda: torch.set_autocast_cache_enabled(False),
    "the number of threads": lambda: torch.set_num_threads(3),
    "deterministic algorithms (on, warn only)": lambda: torch.use_deterministic_algorithms(True),
    "torch.backends.cudnn.benchmark": lambda: setattr(torch.backends.cudnn, "benchmark", True),
    "torch.backends.cudnn.deterministic": (
        lambda: setattr(torch.backends.cudnn, "deterministic", True)
    ),
    "the precision of float32 products": lambda: torch.set_float32_matmul_precision("medium"),
    "flushing of denormal numbers": lambda: torch.set_flush_denormal(True),
    "anomaly detection": lambda: torch.autograd.set_detect_anomaly(True, check_nan=False),
    "torch.set_warn_always": lambda: torch.set_warn_always(True),
    "the filters of warnings": lambda: warnings.simplefilter("ignore", ImportWarning),
    "the environment's variables": lambda: os.environ.update(T_STATE="1"),
    "the working directory": lambda: os.chdir(os.path.dirname(os.getcwd())),
    "the levels of loggers": lambda: logging.getLogger("torch").setLevel(logging.ERROR),
    "garbage collection": gc.disable,
}


@pytest.mark.parametrize("again", [False, True], ids=["first time", "set before"])
@pytest.mark.parametrize(("name", "change"), CHANGES.items(), ids=[*CHANGES])
def test_a_setting_is_found_changed(name: str, change: Callable[[], Any], again: bool) -> None:
    if again:
        change()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        text = message("globals", case_of(change))
    assert text.startswith(f"the forward changes {name}")


def test_grad_mode_is_found_changed() -> None:
    def turn_off() -> None:
        torch.set_grad_enabled(False)

    case = case_of(lambda: None)
    library = _libraries[-1]
    library.define("without(Tensor x) -> Tensor")
    library.impl("without", lambda x: [x * 2, turn_off()][0], "CompositeExplicitAutograd")
    case = Case(ops.resolve("t_state::without"), case.sample, case.placement)
    with torch.enable_grad():
        assert message("globals", case) == "the forward changes grad mode from True to False"


def test_numpy_settings_and_streams() -> None:
    numpy = pytest.importorskip("numpy")
    case = case_of(lambda: numpy.seterr(all="ignore"))
    assert message("globals", case).startswith("the forward changes numpy's error handling")
    text = message("rng", case_of(numpy.random.rand))
    assert text.startswith("the forward draws numbers from numpy's random stream")


@pytest.mark.parametrize("part", ["the fake kernel", "the backward"])
def test_every_part_is_looked_at(part: str) -> None:
    def change() -> None:
        torch.set_default_dtype(torch.float64)

    fake = {"fake_first": change} if part == "the fake kernel" else {}
    back = {"backward_first": change if part == "the backward" else lambda: None}
    case = case_of(lambda: None, **fake, **back)
    expected = f"{part} changes the default dtype from torch.float32 to torch.float64"
    assert message("globals", case) == expected


def test_what_is_put_back_is_no_finding() -> None:
    def forth_and_back() -> None:
        with settings.preserved():
            settings.perturb()

    case = case_of(forth_and_back, fake_first=forth_and_back, backward_first=forth_and_back)
    CHECKS["globals"](case)
    CHECKS["rng"](case)


def test_an_op_that_rejects_other_settings_is_no_finding() -> None:
    def refuse() -> None:
        if torch.get_default_dtype() != torch.float32 or not gc.isenabled():
            raise RuntimeError("as it was, please")

    CHECKS["globals"](case_of(refuse))


def test_the_check_puts_everything_back() -> None:
    before = [setting.read() for setting in settings.SETTINGS]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for change in CHANGES.values():
            message("globals", case_of(change))
    assert [setting.read() for setting in settings.SETTINGS] == before


def test_nearly_every_setting_has_another_value() -> None:
    """A setting that perturb() leaves alone would be seen changed only once."""
    before = {name: setting.read() for name, setting in SETTINGS.items()}
    settings.perturb()
    same = {name for name, setting in SETTINGS.items() if setting.read() == before[name]}
    unturned = {"inference mode", "the default device", "the filling of fresh memory"}
    assert same <= {*unturned, "the environment's variables"}


@pytest.mark.parametrize(
    ("draw", "whose"),
    [(lambda: torch.rand(1), "torch's"), (random.random, "Python's")],
    ids=["torch", "python"],
)
def test_streams(draw: Callable[[], Any], whose: str) -> None:
    assert message("rng", case_of(draw)) == (
        f"the forward draws numbers from {whose} random stream, and the op is not tagged "
        "torch.Tag.nondeterministic_seeded"
    )
    CHECKS["rng"](case_of(draw, tags=(torch.Tag.nondeterministic_seeded,)))


def test_a_fake_kernel_does_not_draw() -> None:
    assert message("rng", case_of(lambda: None, fake_first=random.random)) == (
        "the fake kernel draws numbers from Python's random stream, and a fake kernel computes no "
        "values"
    )


def test_a_backward_may_draw_and_not_seed() -> None:
    CHECKS["rng"](case_of(lambda: None, backward_first=random.random))
    case = case_of(lambda: None, backward_first=lambda: torch.manual_seed(1))
    text = message("rng", case)
    assert text == "the backward sets torch's random stream to a fixed state"


def test_seeding_is_found_where_drawing_is_declared() -> None:
    tags = (torch.Tag.nondeterministic_seeded,)
    text = message("rng", case_of(lambda: random.seed(4), tags=tags))
    assert text == "the forward sets Python's random stream to a fixed state"


def test_streams_start_from_a_number() -> None:
    rng.seed(3)
    first, drawn = rng.states(), torch.rand(2)
    assert [*rng.changed(first, rng.states())] == ["torch's"]
    rng.seed(3)
    assert not [*rng.changed(first, rng.states())]
    assert torch.equal(torch.rand(2), drawn)
    torch.manual_seed(3)
    assert torch.equal(torch.rand(2), drawn)
