"""What `--customop-harvest` costs a suite while it runs, and how the number of calls counts at its end.

    python benchmarks/harvest.py [runs]

The suite has 200 tests of 10 calls, 20 signatures in all; each test draws its inputs and compares results,
as tests do. First the loop of its tests with and without the option, after the imports that torch makes at
its first call: what recording costs. Then the whole session, checks included, against one that makes each
of the 20 calls once. Then, in this process, what its tests do, by turns with and without recording, and
one known call alone.

    python benchmarks/harvest.py 0

measures in this process only.
"""

from __future__ import annotations

import statistics
import sys
import time
import timeit
from collections.abc import Callable
from pathlib import Path

from paired import TIMED, Took, by_turns, environment, folder, phase, told, whole

OPS = """
import pytest
import torch

@torch.library.custom_op("harvesting::scale", mutates_args=())
def scale(x: torch.Tensor, n: float) -> torch.Tensor:
    return x * n

scale.register_fake(lambda x, n: torch.empty_like(x))

def keep(ctx, inputs, output):
    ctx.n = inputs[1]

scale.register_autograd(lambda ctx, grad: (grad * ctx.n, None), setup_context=keep)
scale(torch.ones(1, requires_grad=True), 1.0).sum().backward()
"""
SUITE = """
@pytest.mark.parametrize("number", range({tests}))
def test(number):
    x = torch.randn(8 + number % 20, 16)
    for _ in range({calls}):
        torch.testing.assert_close(torch.ops.harvesting.scale(x, 2.0), x + x)
"""
RUN = ("-m", "pytest", "-qs", "-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:timeout")
HARVEST = ("--customop-harvest=harvesting", "--customop-variants=off")
CHEAP = ("--customop-checks=fake.forward",)  # on both sides: its validation imports the checks
CHECKS = (*HARVEST, "--customop-checks=fake,opcheck,values.repeat")


def main(runs: int = 15) -> None:
    """Measure by turns and print."""
    if runs:
        sessions(runs)
    bodies()
    one_call()


def sessions(runs: int) -> None:
    """Print what recording costs the loop of the tests, and what the checks of the calls take."""
    with folder() as name:
        many, few = Path(name, "many"), Path(name, "few")
        for path, tests, calls in ((many, 200, 10), (few, 20, 1)):
            path.mkdir()
            (path / "test_it.py").write_text(OPS + SUITE.format(tests=tests, calls=calls))
        env = environment(Path(name))
        whole([*RUN, *CHECKS], many, env)  # byte code, and what the checks compile
        whole([*RUN, *CHECKS], few, env)
        (many / "conftest.py").write_text(TIMED.format(hook="pytest_runtestloop"))

        def loop(*options: str) -> Took:
            return phase([*RUN, *options], many, env)

        pairs = by_turns(runs, lambda: loop(*HARVEST, *CHEAP), lambda: loop(*CHEAP))
        told("recording", pairs[0], "without", pairs[1])
        (many / "conftest.py").unlink()
        pairs = by_turns(
            max(1, runs // 5),
            lambda: whole([*RUN, *CHECKS], many, env),
            lambda: whole([*RUN, *CHECKS], few, env),
        )
        told("2,000 calls", pairs[0], "20 calls", pairs[1])


def bodies(turns: int = 300) -> None:
    """Print the CPU time of 20 tests, recorded and not: medians, and the median ratio of neighbours."""
    import torch

    from pytest_customop.harvest.recorder import Recorder

    exec(OPS, {"__name__": "ops"})
    recorder = Recorder(["harvesting"])

    def run() -> None:
        for number in range(20):
            x = torch.randn(8 + number % 20, 16)
            for _ in range(10):
                torch.testing.assert_close(torch.ops.harvesting.scale(x, 2.0), x + x)

    def tests() -> float:
        run()  # Python adapts anew to the methods that were replaced or put back: once in a session
        start = time.process_time()
        run()
        return time.process_time() - start

    def recorded() -> float:
        recorder.start()
        try:
            return tests()
        finally:
            recorder.stop()

    tests(), recorded()
    pairs = [
        (recorded(), tests()) if turn % 2 else (tests(), recorded())[::-1] for turn in range(turns)
    ]
    recorded_ms, plain_ms = (statistics.median(side) * 1e3 for side in zip(*pairs, strict=True))
    ratio = statistics.median(first / second for first, second in pairs)
    print(
        f"20 tests of 10 calls: {plain_ms:.2f} ms, recorded {recorded_ms:.2f} ms, ratio {ratio:.3f}"
    )


def one_call(calls: int = 20_000) -> None:
    """Print what a call takes, of an op that does next to nothing: not recorded, and recorded."""
    import torch

    from pytest_customop.harvest.recorder import Recorder

    exec(OPS, {"__name__": "ops"})
    op, x = torch.ops.harvesting.scale, torch.ones(4)
    alias = torch.ops.aten.alias
    recorder = Recorder(["harvesting"])

    def fastest(call: Callable[[], object]) -> float:
        return min(timeit.repeat(call, number=calls, repeat=5)) / calls * 1e6

    ways = {"of the namespace": lambda: op(x, 2.0), "of another": lambda: alias(x)}
    for label, call in ways.items():
        without = fastest(call)
        recorder.start()
        recorded = fastest(call)
        recorder.stop()
        print(f"a call {label}: {without:.2f} us, recorded {recorded:.2f} us")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
