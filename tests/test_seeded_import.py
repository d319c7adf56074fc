"""Real tensors that a file draws while it is imported are the same in every process."""

import pytest

DRAWN = """
import os

import torch
from pytest_customop import customop_cases

BEFORE = {before}


@torch.library.custom_op("t_seeded::op", mutates_args=())
def op(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    print("drawn", x[0].item(), index.tolist(), file=open(os.environ["DRAWN"], "a"))
    return x[index]


op.register_fake(lambda x, index: x.new_empty(index.shape))


@customop_cases(
    op,
    samples=[(torch.randn(9), torch.randint(0, 9, (3,)))],
    checks=["values.aliasing"],
    variants=False,
)
def test_op(): ...


def test_own():
    print("afterwards", torch.initial_seed())
"""


@pytest.fixture
def drawn(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    """Run the file in a process of its own; returns what the op was called with."""
    path = pytester.path / "drawn.txt"
    monkeypatch.setenv("DRAWN", str(path))

    def run(*options: str, before: str = "None") -> set[str]:
        path.unlink(missing_ok=True)
        pytester.makepyfile(test_drawn=DRAWN.replace("{before}", before))
        result = pytester.runpytest_subprocess("-s", "-p", "no:randomly", *options)
        assert result.ret == 0
        run.output = result.stdout.str()  # type: ignore[attr-defined]
        return set(path.read_text().splitlines())

    return run


def test_each_process_draws_the_same(drawn) -> None:
    first = drawn()
    assert drawn() == first
    assert drawn("-n", "2") == first
    assert drawn("--customop-isolate") == first


def test_another_seed_draws_other_values(drawn) -> None:
    assert drawn() != drawn("--customop-seed=1")


def test_a_file_that_seeds_torch_keeps_its_stream(drawn) -> None:
    first = drawn(before="torch.manual_seed(12345)")
    assert "afterwards 12345" in drawn.output
    assert drawn("--customop-seed=1", before="torch.manual_seed(12345)") == first


def test_the_stream_goes_on_as_before(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("import torch\n\ntorch.manual_seed(54321)\n")
    pytester.makepyfile(
        """
        import torch

        torch.randn(3)  # and customop_cases


        def test_stream():
            expected = torch.Generator().manual_seed(54321)
            assert torch.randn(3).equal(torch.randn(3, generator=expected))
        """
    )
    pytester.runpytest_subprocess("-p", "no:randomly").assert_outcomes(passed=1)


def test_a_file_may_skip_itself_without_torch(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("import sys\n\nsys.modules['torch'] = None\n")
    pytester.makepyfile(
        """
        import pytest

        torch = pytest.importorskip("torch")
        from pytest_customop import customop_cases
        """
    )
    pytester.runpytest_subprocess("-p", "no:randomly").assert_outcomes(skipped=1)
