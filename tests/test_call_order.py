"""`relations.call_order` in sessions of its own, and the processes that it needs."""

import os

import pytest
from kit import Suite

from pytest_customop.core import fresh_process
from pytest_customop.core.forked import ForkedError, ForkFailed

OPS = """
import torch
from pytest_customop import customop_cases, tensor

def scaled(name, key):
    kept = {}

    @torch.library.custom_op(f"NS::{name}", mutates_args=())
    def op(x: torch.Tensor, base: float) -> torch.Tensor:
        found = key(x, base)
        if found not in kept:
            kept[found] = base ** -torch.arange(x.shape[-1])
        return x * kept[found].to(x.dtype)

    op.register_fake(lambda x, base: torch.empty_like(x))
    return op

by_size = scaled("by_size", lambda x, base: x.shape[-1])
by_all = scaled("by_all", lambda x, base: (x.shape[-1], base))
SAMPLES = [(tensor(3, 4), 10.0), (torch.ones(2, 5), 5.0)]

@customop_cases(by_size, samples=SAMPLES, variants=False)
def test_by_size(): ...

@customop_cases(by_all, samples=SAMPLES, variants=False)
def test_by_all(): ...
"""


@pytest.mark.parametrize("options", [(), ("-n", "2"), ("--customop-isolate",)])
def test_a_cache_without_an_argument_in_its_key_is_found(
    suite: Suite, options: tuple[str, ...]
) -> None:
    suite.test(OPS)
    result = suite.run(*options, checks="relations.call_order")
    result.assert_outcomes(failed=2, passed=2)
    assert "after a call with base=20.0, a call with the arguments of the sample" in str(
        result.stdout
    )


def test_no_process_is_made_where_no_item_needs_one(suite: Suite) -> None:
    suite.test(
        OPS
        + "from pytest_customop.core import fresh_process\n\n"
        + "def test_none():\n    assert fresh_process.current() is None\n"
    )
    suite.run(checks="fake.forward").assert_outcomes(passed=5)


@pytest.fixture
def process():
    fresh_process.start()
    yield fresh_process.current()
    fresh_process.stop()


def test_what_a_function_changes_stays_in_its_process(
    process: fresh_process.FreshProcess,
) -> None:
    first, second = (process.run(os.getpid).messages[0] for _ in range(2))
    assert len({first, second, os.getpid()}) == 3


def test_what_a_function_raises_is_raised_here(process: fresh_process.FreshProcess) -> None:
    with pytest.raises(ForkedError, match="FileNotFoundError"):
        process.run(os.stat, "/no/such/file")


def test_a_function_that_dies_leaves_the_process(process: fresh_process.FreshProcess) -> None:
    assert process.run(os.abort).died
    assert process.run(os.getpid).messages


def test_a_copy_that_has_ended_is_not_used() -> None:
    fresh_process.start()
    copy = fresh_process.current()
    assert copy is not None
    fresh_process.stop()
    assert fresh_process.current() is None
    with pytest.raises(ForkFailed, match="ended"):
        copy.run(os.getpid)


SLOW = """
import torch
from pytest_customop import customop_cases

KEPT = [1]  # what an op could change is why it is called at all

@torch.library.custom_op("NS::repeated", mutates_args=())
def repeated(x: torch.Tensor, count: int) -> torch.Tensor:
    return x * count * KEPT[0]

@repeated.register_fake
def _(x, count):
    return torch.empty_like(x)

def setup(ctx, inputs, output):
    ctx.count = inputs[1]

def backward(ctx, grad):
    while ctx.count not in (3, 6):
        pass
    return grad * ctx.count, None

repeated.register_autograd(backward, setup_context=setup)

@customop_cases(repeated, samples=[(torch.ones(3), 3)], requires_grad=[True], variants=False)
def test_repeated(): ...
"""


def test_a_backward_that_computes_for_long_is_left_out(suite: Suite) -> None:
    suite.write("test_it.py", SLOW)
    suite.run_apart("--customop-checks=relations.call_order").assert_outcomes(passed=1)
