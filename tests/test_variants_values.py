"""The variants of large sizes, of values of several magnitudes, and what is too costly to try."""

import math
import re
import resource
import time
from pathlib import Path
from typing import Any, List

import pytest
import torch

from pytest_customop import Sample, check_op, tensor
from pytest_customop.cases.arguments import Placement, draw
from pytest_customop.core import watchdog
from pytest_customop.declare.ops import resolve
from pytest_customop.declare.variant import Variant
from pytest_customop.plan.variants.ranking import ranked_variants
from pytest_customop.run import growth, variant_validity

FLOAT = Placement("cpu", torch.float32, True, "contiguous")


@torch.library.custom_op("t_values::both", mutates_args=())
def both(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x + y


@torch.library.custom_op("t_values::offsets", mutates_args=())
def offsets(x: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    return x.clone()


def near(op: Any, *args: Any, kinds: Any = ("large", "magnitudes", "values")) -> dict[str, Variant]:
    """The variants of a sample by the names of their steps."""
    variants = ranked_variants(
        resolve(op),
        Sample(args, id="a"),
        FLOAT,
        kinds=kinds,
        declared_dtypes=False,
        seed=0,
        seen=set(),
    )
    return {variant.step: variant for variant in variants}


def drawn(op: Any, variant: Variant) -> list[torch.Tensor]:
    return [tensor.detach() for _, tensor in draw(resolve(op), variant.sample, FLOAT, 0).tensors()]


def documented(name: str, doc: str) -> Any:
    """An op of one tensor with a docstring."""

    def kernel(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    kernel.__doc__ = doc
    return torch.library.custom_op(f"t_values::{name}", kernel, mutates_args=())


def test_documented_numbers_that_are_not_finite() -> None:
    series = documented("series", "x: NaN where nothing was measured, -inf where it is impossible.")
    variants = near(series, tensor(3, 5, low=1, high=2))
    (missing,) = drawn(series, variants["x.has.nan"])
    assert missing.isnan().any(0).tolist() == [False, True, True, True, True]
    (impossible,) = drawn(series, variants["x.has.-inf"])
    assert impossible.isneginf().all(0).tolist() == [False] * 4 + [True]
    assert bool(((impossible[:, :4] >= 1) & (impossible[:, :4] < 2)).all())
    assert not {"x.has.nan", "x.has.-inf"} & near(both, tensor(3, 5), tensor(3, 5)).keys()


def test_listed_numbers_that_only_have_to_be_positive_become_large() -> None:
    listed = torch.linspace(1, 2, 12).flip(0).reshape(3, 4)[:, [1, 0, 3, 2]]
    (large,) = drawn(rate := documented("rate", "x: positive"), near(rate, listed)["wide"])
    assert float(large.min()) >= 1
    assert float(large.max()) > 100
    assert "wide" not in near(documented("bounded", "x: positive, at most 2"), listed)


def test_many_rows_then_many_columns() -> None:
    variants = near(both, tensor(4, 6), tensor(6))
    rows, row = drawn(both, variants["large0"])
    assert (rows.shape[1], row.shape[0]) == (6, 6)
    assert 2**16 < rows.numel() < 2**17
    assert rows.shape[0] % 2 == 1
    columns, column = drawn(both, variants["large1"])
    assert columns.shape == (4, column.shape[0])
    assert 2**16 < columns.numel() < 2**17
    assert variants["large0"].likely
    assert not variants["large1"].likely


def test_equal_sizes_grow_together() -> None:
    x, y = drawn(both, near(both, tensor(4, 4), tensor(4, 4))["large0"])
    assert x.shape == y.shape == (x.shape[0], x.shape[0])
    assert 2**16 < x.numel() < 2**17


def test_a_last_dim_that_is_long() -> None:
    variant = near(both, tensor(4, 6), tensor(6), kinds=["long"])["long"]
    assert [tuple(tensor.shape) for tensor in drawn(both, variant)] == [(4, 4409), (4409,)]
    assert variant.likely
    steps = near(both, tensor(4, 5000), tensor(5000), kinds=["long"])
    assert "long" not in steps  # it is
    steps = near(both, tensor(400, 6), tensor(6), kinds=["long"])
    assert "long" not in steps  # too many elements


def test_the_dim_before_the_last_that_is_long() -> None:
    variant = near(both, tensor(4, 6), tensor(6), kinds=["long"])["long_before"]
    assert [tuple(tensor.shape) for tensor in drawn(both, variant)] == [(4409, 6), (6,)]
    assert not near(both, tensor(4), tensor(6), kinds=["long"]).get("long_before")


@pytest.mark.parametrize(
    ("counts", "last"),
    [
        ([0, 3, 3, 8], [8, 11, 11, 16]),  # offsets
        ([3, 3, 8], [8, 11, 11, 16]),  # ends
        ([3, 0, 5], [5, 3, 0, 5]),  # lengths
    ],
)
def test_offsets_and_lengths_repeat_with_what_they_count(
    counts: list[int], last: list[int]
) -> None:
    steps = near(both, tensor(8, 3), torch.tensor(counts), kinds=["large"])
    rows, repeated = drawn(both, steps["y.many_parts"])
    times = rows.shape[0] // 8
    assert rows.shape == (8 * times, 3)
    assert len(repeated) - len(counts) == 3 * (times - 1)
    assert 1000 < len(repeated) < 1200
    assert (repeated[-4:] - 8 * (times - 2) * (last[0] == 8)).tolist() == last


def test_rows_of_integers_that_cannot_become_longer_do_not_repeat() -> None:
    tokens = torch.tensor([[2, 0, 1, 2], [0, 1, 0, 2]])
    steps = near(both, tokens, torch.tensor([0, 4]), kinds=["large"])
    assert not [step for step in steps if step.endswith("many_parts")]


def test_a_size_that_only_other_tensors_have_becomes_large() -> None:
    variants = near(both, tensor(4, 6), tensor(values=[3, 0, 1, 3, 2]))
    x, index = drawn(both, variants["y.large0"])
    assert x.shape == (4, 6)
    assert index.shape[0] > 2**16
    assert set(index.tolist()) == {3, 0, 1, 2}
    assert variants["y.large0"].likely


def test_sizes_that_positions_count_do_not_grow() -> None:
    variants = near(offsets, tensor(6, 9), tensor(values=[0, 2, 6]))
    assert {step for step in variants if step.startswith("large")} == {"large1"}


def test_a_size_that_a_number_repeats_grows_beyond_the_sample() -> None:
    @torch.library.custom_op("t_values::split", mutates_args=())
    def split(x: torch.Tensor, rows: int) -> torch.Tensor:
        return x.clone()

    variants = near(split, tensor(4, 6), 4)
    assert variants["large0"].beyond
    assert variants["large1"].beyond is None


def test_magnitudes_are_spread_within_the_range() -> None:
    variants = near(both, tensor(16, 8), tensor(16, 8, low=0.5, high=200))
    x, y = drawn(both, variants["magnitudes"])
    assert float(x.abs().min()) == pytest.approx(1e-3, rel=0.01)
    assert float(x.abs().max()) == pytest.approx(999, rel=0.01)
    assert 0.2 < float((x < 0).float().mean()) < 0.8
    assert float(y.min()) == pytest.approx(0.5, rel=0.01)
    assert 100 < float(y.max()) < 200
    moderate = drawn(both, variants["spread"])[0]
    assert float(moderate.abs().max()) < 30


def test_a_narrow_range_has_no_magnitudes() -> None:
    variants = near(both, tensor(8, low=1, high=2), tensor(8, low=-3, high=-2))
    assert not {"magnitudes", "spread"} & {*variants}
    assert "equal" in variants


def test_values_that_the_author_listed_stay() -> None:
    variants = near(both, tensor(values=[1.0, 2.0, 3.0]), tensor(3))
    assert not {"magnitudes", "spread", "equal", "equal_rows"} & {*variants}


def test_values_that_are_all_equal_stay_and_others_vary() -> None:
    variants = near(both, torch.randn(4, 3), torch.ones(3))
    assert {"magnitudes", "shifted", "equal_rows"} <= {*variants}
    for step in ("magnitudes", "equal"):
        assert torch.equal(drawn(both, variants[step])[1], torch.ones(3))


def test_equal_elements_and_equal_rows_lie_in_the_range() -> None:
    variants = near(both, tensor(4, 6, low=1, high=2), tensor(4, 6, low=-5))
    for step in ("equal", "equal_rows"):
        x, y = drawn(both, variants[step])
        assert bool((x == x[:1]).all())
        assert 1 <= float(x.min()) <= float(x.max()) < 2
        assert float(y.min()) >= -5
    assert len(drawn(both, variants["equal"])[0].unique()) == 1
    assert len(drawn(both, variants["equal_rows"])[0].unique()) == 6


def test_no_dims_where_all_tensors_have_one_shape() -> None:
    variants = near(both, tensor(4, 6), tensor(4, 6), kinds=["shape"])
    assert [tuple(tensor.shape) for tensor in drawn(both, variants["no_dims"])] == [(), ()]
    assert variants["no_dims"].beyond == "fewer dims"
    assert "no_dims" not in near(both, tensor(4, 6), tensor(6), kinds=["shape"])


# What is too costly


@torch.library.custom_op("t_values::slow", mutates_args=())
def slow(x: torch.Tensor) -> torch.Tensor:
    total = 0.0
    for at in range(x.numel()):  # some microseconds an element
        total += math.sin(math.cos(at) + math.sin(at)) + sum(range(2000))
    return x + total * 0


@torch.library.custom_op("t_values::pairs", mutates_args=())
def pairs(x: torch.Tensor) -> torch.Tensor:
    count = x.numel()
    if count > 2**14:
        raise AssertionError("it is never called with so many")
    return x.new_zeros(count, count)


slow.register_fake(torch.empty_like)
pairs.register_fake(lambda x: x.new_empty(x.numel(), x.numel()))


# On a busy machine, calls on parts of the second one's input may already take too long.
@pytest.mark.parametrize(("op", "reason"), [(slow, r"\d s\b"), (pairs, r"elements|\d s\b")])
def test_a_large_variant_that_takes_too_much_is_skipped(op: Any, reason: str) -> None:
    results = check_op(op, [(tensor(8),)], checks="fake.forward", variants="quick,large")
    large = [result for result in results if result.place.variant == "large0"]
    assert [(result.outcome, result.skip_code) for result in large] == [("skipped", "costly")], (
        large
    )
    assert re.search(reason, large[0].message)


@torch.library.custom_op("t_values::table", mutates_args=())
def table(x: torch.Tensor, size: int) -> torch.Tensor:
    return x + torch.empty(2**27 if size > 3 else 1).numel() * 0


table.register_fake(lambda x, size: torch.empty_like(x))


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="limits memory on Linux")
def test_a_number_that_takes_too_much_memory_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = resource.getrlimit(resource.RLIMIT_AS)
    monkeypatch.setattr(variant_validity, "_half_of_memory", lambda: 2**28)
    results = check_op(table, [(tensor(8), 3)], checks="fake.forward", variants="arguments")
    by_step = {result.place.variant: (result.outcome, result.skip_code) for result in results}
    assert by_step["size.more"] == ("skipped", "costly")
    assert by_step["size.less"] == ("passed", None)
    assert resource.getrlimit(resource.RLIMIT_AS) == limits


@torch.library.custom_op("t_values::rounds", mutates_args=())
def rounds(x: torch.Tensor, count: int) -> torch.Tensor:
    for _ in range(count * 10):  # the same work for each of them
        sum(range(2000))
    return x * count


rounds.register_fake(lambda x, count: torch.empty_like(x))


def test_a_number_that_makes_calls_many_times_slower_is_not_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(growth, "_SLOW", 1e-9)
    monkeypatch.setattr(growth, "_TIMES_SAMPLE", 1.5)

    def outcome(step: str) -> tuple[str, str | None]:
        results = check_op(
            rounds, [(tensor(8), 8)], checks="fake.forward", variants="full,arguments"
        )
        (result,) = [result for result in results if result.place.variant == step]
        return result.outcome, result.skip_code

    assert outcome("count.half") == ("passed", None)
    monkeypatch.setattr(growth, "_TIMES_SAMPLE", 0.01)
    assert outcome("count.half") == ("skipped", "costly")


def test_the_backward_of_such_a_number_is_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growth, "_SLOW", 1e-9)
    monkeypatch.setattr(growth, "_TIMES_SAMPLE", 0.01)
    counts = set()

    @torch.library.custom_op("t_values::rounds_with_backward", mutates_args=())
    def op(x: torch.Tensor, count: int) -> torch.Tensor:
        return x * count

    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        counts.add(ctx.count)
        return grad * ctx.count, None

    op.register_fake(lambda x, count: torch.empty_like(x))
    op.register_autograd(
        backward, setup_context=lambda ctx, inputs, output: setattr(ctx, "count", inputs[1])
    )
    results = check_op(
        op, [(tensor(8), 8)], checks="fake.forward", variants="full,arguments", requires_grad=[True]
    )
    assert {result.skip_code for result in results if result.place.variant} == {"costly"}
    assert counts <= {8}


@pytest.mark.parametrize(
    ("rest", "outcome", "code"),
    [(time.process_time, "skipped", "costly"), (time.sleep, "failed", "hang")],
)
def test_a_number_with_which_an_op_computes_for_long_is_costly(
    rest: Any, outcome: str, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    @torch.library.custom_op(f"t_values::patient_{outcome}", mutates_args=())
    def patient(x: torch.Tensor, count: int) -> torch.Tensor:
        while count == 9:
            rest(*[0.01] * (rest is time.sleep))
        return x * count

    patient.register_fake(lambda x, count: torch.empty_like(x))
    monkeypatch.setattr(watchdog, "SECONDS", 1.0)
    monkeypatch.setattr(variant_validity, "_LONGEST", 0.3)
    results = check_op(patient, [(tensor(4), 8)], checks="fake.forward", variants="full")
    (result,) = [result for result in results if result.place.variant == "count.more"]
    assert (result.outcome, result.finding or result.skip_code) == (outcome, code)


def test_a_large_variant_whose_backward_raises_is_not_called_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def gradient(grad: torch.Tensor, flag: bool) -> torch.Tensor:
        return grad * 2 if grad.numel() < 100 else grad.new_ones(5)

    monkeypatch.setattr(growth, "_AFFORDABLE", 1e-9)
    monkeypatch.setattr(growth, "_HOPELESS", 1e12)
    results = check_op(
        _scaled("short", gradient),
        [(tensor(8),)],
        checks="gradcheck.backward",
        variants="quick,large",
    )
    large = [result for result in results if result.place.variant == "large0"]
    assert [result.finding for result in large] == ["backward-raises"]


def test_an_op_that_compares_all_pairs_is_not_called_on_many_rows() -> None:
    sizes = set()

    @torch.library.custom_op("t_values::pairs", mutates_args=())
    def pairs(x: torch.Tensor) -> torch.Tensor:
        sizes.add(x.numel())
        sum(range(x.numel() ** 2 // 40))  # enough on a fast machine too
        return x * 2

    pairs.register_fake(torch.empty_like)
    results = check_op(pairs, [(tensor(8),)], checks="fake.forward", variants="quick,large")
    outcomes = {result.place.variant: result.outcome for result in results}
    assert outcomes == {None: "passed", "large0": "skipped", "hundreds0": "passed"}
    assert max(sizes) < 10_000


def test_a_large_variant_whose_outputs_would_take_long_to_compare_is_skipped() -> None:
    @torch.library.custom_op("t_values::near", mutates_args=())
    def near(x: torch.Tensor) -> torch.Tensor:
        return x.new_zeros(len(x), len(x))

    near.register_fake(lambda x: x.new_empty(x.shape[0], x.shape[0]))
    results = check_op(near, [(tensor(4, 6),)], checks="fake.forward", variants="quick")
    of = {result.place.variant: result for result in results}
    assert (of["long_before"].outcome, of["long_before"].skip_code) == ("skipped", "costly")
    assert "the outputs have 19439281 elements" in of["long_before"].message
    assert of["hundreds0"].outcome == "passed"


def test_a_large_variant_that_returns_thousands_of_tensors_is_skipped() -> None:
    @torch.library.custom_op("t_values::columns", mutates_args=())
    def columns(x: torch.Tensor) -> List[torch.Tensor]:
        return [column.clone() for column in x.unbind(-1)]

    columns.register_fake(lambda x: [torch.empty_like(column) for column in x.unbind(-1)])
    results = check_op(columns, [(tensor(4, 6),)], checks="fake.forward", variants="quick,long")
    (long,) = [result for result in results if result.place.variant == "long"]
    assert (long.outcome, long.skip_code) == ("skipped", "costly")
    assert "tensors" in long.message


def test_a_large_variant_that_always_returns_many_tensors_is_tried() -> None:
    @torch.library.custom_op("t_values::twenty", mutates_args=())
    def twenty(x: torch.Tensor) -> List[torch.Tensor]:
        return [x * n for n in range(20)]

    twenty.register_fake(lambda x: [torch.empty_like(x) for _ in range(20)])
    results = check_op(twenty, [(tensor(4, 6),)], checks="fake.forward", variants="quick,long")
    (long,) = [result for result in results if result.place.variant == "long"]
    assert long.outcome == "passed"


# What autograd rejects


def _scaled(name: str, gradient: Any) -> Any:
    @torch.library.custom_op(f"t_values::{name}", mutates_args=())
    def scaled(x: torch.Tensor, flag: bool = False) -> torch.Tensor:
        return x * 2

    scaled.register_fake(lambda x, flag=False: torch.empty_like(x))

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.flag = inputs[1]

    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return gradient(grad, ctx.flag), None

    scaled.register_autograd(backward, setup_context=setup)
    return scaled


def _refused(grad: torch.Tensor, flag: bool) -> torch.Tensor:
    if flag:
        raise NotImplementedError("no gradient with the flag")
    return grad * 2


@pytest.mark.parametrize(
    ("name", "gradient", "outcome"),
    [
        (
            "wrong_size",
            lambda grad, flag: grad.new_ones(3) if flag else grad * 2,
            "backward-raises",
        ),
        ("wrong_type", lambda grad, flag: 2.0 if flag else grad * 2, "backward-raises"),
        (
            "wrong_device",
            lambda grad, flag: grad.to("meta") if flag else grad * 2,
            "backward-raises",
        ),
        ("on_purpose", _refused, "rejected"),
        ("always", lambda grad, flag: grad.new_ones(3), "as-sample"),
    ],
)
def test_what_autograd_rejects_is_a_finding(name: str, gradient: Any, outcome: str) -> None:
    checks = "gradcheck.backward"
    results = check_op(
        _scaled(name, gradient), [(tensor(4, 6),)], checks=checks, variants="quick,arguments"
    )
    (result,) = [result for result in results if result.place.variant == "flag.true"]
    assert (result.finding or result.skip_code) == outcome


def test_a_variant_that_the_reference_does_not_take_is_skipped() -> None:
    def reference(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if x.shape[0] != 4:
            raise ValueError("four rows, please")
        return x + y

    samples = [(tensor(4, 6), tensor(4, 6))]
    results = check_op(
        both, samples, checks="reference.values", variants="quick,shape", reference=reference
    )
    (odd,) = [result for result in results if result.place.variant == "odd"]
    assert (odd.outcome, odd.skip_code) == ("skipped", "unfit-variant")
    assert "four rows, please" in odd.message


@pytest.mark.parametrize("counts", ["offsets", "lengths"])
def test_parts_of_a_large_variant_have_the_rows_that_they_count(counts: str) -> None:
    beyond: list[tuple[int, int]] = []

    @torch.library.custom_op(f"t_values::parts_{counts}", mutates_args=())
    def parts(rows: torch.Tensor, counting: torch.Tensor) -> torch.Tensor:
        """The rows of the parts; counting: their offsets or lengths, int64."""
        last = int(counting[-1] if counts == "offsets" else counting.sum())
        if last > rows.shape[0]:
            beyond.append((last, rows.shape[0]))
        return rows.clone()

    parts.register_fake(lambda rows, counting: torch.empty_like(rows))
    given = torch.tensor([0, 1, 4, 6] if counts == "offsets" else [1, 3, 2])
    results = check_op(parts, [(tensor(6), given)], checks="fake.forward", variants="large")
    assert any((result.place.variant or "").endswith("many_parts") for result in results)
    assert not beyond


def test_a_count_without_dims_has_no_parts() -> None:
    @torch.library.custom_op("t_values::running_mean", mutates_args=("mean", "count"))
    def running_mean(mean: torch.Tensor, count: torch.Tensor, rows: torch.Tensor) -> None:
        count.add_(rows.shape[0])
        mean.add_((rows.mean(0) - mean) * rows.shape[0] / count)

    sample = (torch.zeros(4), torch.tensor(6), torch.randn(3, 4))
    results = check_op(running_mean, [sample], checks="fake.forward", variants="quick")
    assert any(result.place.variant for result in results)
    assert not [result for result in results if result.outcome in ("failed", "error")]


@torch.library.custom_op("t_values::solve", mutates_args=())
def solve(x: torch.Tensor, rtol: float = 0.2, total: float = 0.2) -> torch.Tensor:
    return x.clone()


def test_a_tolerance_gets_no_larger() -> None:
    variants = near(solve, tensor(3), 0.2, 0.2, kinds=("arguments",)).values()
    numbers = {
        name: {v.sample.args[at] for v in variants} for at, name in ((1, "rtol"), (2, "total"))
    }
    assert min(numbers["rtol"]) < 0.2 == max(numbers["rtol"])
    assert max(numbers["total"]) > 0.2
