"""--customop-max-samples: fewer samples, the same ones everywhere, and word of those left out."""

import shlex

import pytest
import torch
from kit import Suite, summary_of

from pytest_customop import ErrorSample, check_op, tensor
from pytest_customop.declare.mistakes import MarkError

LIST = """
SAMPLES = [Sample((tensor(size), 2), id=f"n{size}") for size in range(1, 11)]

@customop_cases(scale, SAMPLES, dtypes=[torch.float32, torch.float64])
def test_scale(customop_case):
    assert customop_case() is not None
"""
FUNCTION = """
def made(device, dtype, requires_grad):
    for size in range(1, 11):
        yield (tensor(size, dtype=dtype), 2)

@customop_cases(scale, made, dtypes=[torch.float32, torch.float64])
def test_scale(customop_case):
    assert customop_case() is not None
"""


def samples_of(ids: list[str]) -> list[str]:
    """The samples in ids like `test_scale[cpu-float32-nograd-n4-own.passes]`, in order."""
    return list(dict.fromkeys(item_id.rpartition("-")[0].rpartition("-")[2] for item_id in ids))


@pytest.mark.parametrize("source", [LIST, FUNCTION], ids=["list", "function"])
def test_the_same_samples_in_every_cell_and_for_the_body(suite: Suite, source: str) -> None:
    suite.test(source)
    item_ids = suite.ids(checks="own,body")
    some = suite.ids("--customop-max-samples=3", checks="own,body")
    assert len(samples_of(item_ids)) == 10
    assert len(samples_of(some)) == 3
    assert some == [item_id for item_id in item_ids if samples_of([item_id])[0] in samples_of(some)]
    assert len(some) == len(item_ids) * 3 // 10


def test_another_seed_chooses_others_and_a_higher_cap_keeps_what_a_lower_one_kept(
    suite: Suite,
) -> None:
    suite.test(LIST)

    def chosen(most: int, seed: int) -> set[str]:
        return set(
            samples_of(suite.ids(f"--customop-max-samples={most}", f"--customop-seed={seed}"))
        )

    assert len({frozenset(chosen(3, seed)) for seed in range(4)}) > 1
    assert chosen(2, 5) < chosen(3, 5) < chosen(9, 5)
    assert len(chosen(10, 5)) == len(chosen(99, 5)) == 10


def test_every_mark_is_capped_on_its_own_and_error_samples_are_not(suite: Suite) -> None:
    suite.test("""
from pytest_customop import ErrorSample

@torch.library.custom_op("NS::picky", mutates_args=())
def picky(x: torch.Tensor) -> torch.Tensor:
    if x.numel() > 9:
        raise ValueError("too large")
    return x.clone()

@customop_cases(scale, [(tensor(3), 2), (tensor(4), 2), (tensor(5), 2)], requires_grad=False)
@customop_cases(picky, [(tensor(3),), (tensor(4),)], requires_grad=False,
                errors=[ErrorSample((tensor(n),), raises=ValueError) for n in (10, 11, 12)])
def test_both(): ...
""")
    ids = suite.ids("--customop-max-samples=1", checks="own.passes,errors.real")
    assert len([item_id for item_id in ids if ".scale-" in item_id]) == 1
    assert (
        len([item_id for item_id in ids if ".picky-" in item_id and "own.passes" in item_id]) == 1
    )
    assert len([item_id for item_id in ids if "errors.real" in item_id]) == 3


def test_a_sample_without_a_cell_is_not_chosen(suite: Suite) -> None:
    """Only one of these looks different when it is transposed: that one it is, whatever the seed."""
    suite.test("""
@customop_cases(plain, [(tensor(n),) for n in range(2, 9)] + [(tensor(3, 4),)],
                layouts=["transposed"], requires_grad=False)
def test_plain(): ...
""")
    for seed in range(3):
        ids = suite.ids("--customop-max-samples=1", f"--customop-seed={seed}")
        assert ids == ["test_plain[cpu-float32-nograd-transposed-7-own.passes]"]


def test_the_summary_says_what_was_left_out(suite: Suite) -> None:
    suite.test(
        LIST
        + """
@customop_cases(plain, [(tensor(n),) for n in range(2, 40)], requires_grad=False)
def test_plain(): ...

@customop_cases(plain, [(tensor(2),)], id="few", requires_grad=False)
def test_few(): ...
"""
    )
    result = suite.run("--customop-max-samples=2")
    result.stdout.fnmatch_lines(["customop: *seed=0 max-samples=2"])
    lines = summary_of(result)
    start = lines.index("Left out by --customop-max-samples=2:")
    plain, scale = lines[start + 1 : start + 3]
    assert plain.startswith(f"  {suite.ns}::plain (test_plain): 2 of 38 samples kept, not ")
    assert plain.endswith(" and 24 more")
    assert scale.startswith(f"  {suite.ns}::scale (test_scale): 2 of 10 samples kept, not ")
    ids = suite.ids("--customop-max-samples=2")
    kept = samples_of([item_id for item_id in ids if item_id.startswith("test_scale")])
    assert scale.partition("not ")[2].split(", ") == [
        name for name in (f"n{size}" for size in range(1, 11)) if name not in kept
    ]
    assert "test_few" not in "".join(lines)


def test_without_the_option_or_with_a_high_one_nothing_is_said(suite: Suite) -> None:
    suite.test(LIST)
    assert "Left out" not in "".join(summary_of(suite.run()))
    assert "Left out" not in "".join(summary_of(suite.run("--customop-max-samples=10")))


def test_workers_choose_the_same_and_the_controller_says_it_once(suite: Suite) -> None:
    suite.test(LIST)
    options = ("--customop-max-samples=2", "--customop-seed=4")
    alone = suite.run(*options, "--customop-report=alone.json")
    apart = suite.run_apart("-n", "2", *options, "--customop-report=apart.json")
    assert apart.parseoutcomes()["passed"] == alone.parseoutcomes()["passed"] == 8
    reported = [[line for line in summary_of(result) if line][:-1] for result in (alone, apart)]
    assert reported[0] == reported[1]
    assert sum("samples kept" in line for line in reported[0]) == 1
    nodeids = [
        [record["nodeid"] for record in suite.results(f"{name}.json")]
        for name in ("alone", "apart")
    ]
    assert nodeids[0] == nodeids[1]


def test_a_finding_under_a_cap_is_rerun_without_it(suite: Suite) -> None:
    """The id and the values of a case that stays are those that it has without a cap."""
    suite.test(LIST.replace("dtypes=", "requires_grad=False, dtypes="))
    options = ("--customop-max-samples=1", "--customop-report=report.json")
    result = suite.run(*options, checks="own.fails")
    result.assert_outcomes(failed=2)
    commands = [record["repro"] for record in suite.results()]
    assert not any("max-samples" in command for command in commands)
    again = suite.run(shlex.split(commands[0])[1], checks="own.fails")
    again.assert_outcomes(failed=1)


@torch.library.custom_op("max_samples::op", mutates_args=())
def op(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def test_check_op_takes_it_too() -> None:
    errors = [ErrorSample((tensor(n),), raises=ValueError) for n in (1, 2)]
    arguments = ([(tensor(3),), (tensor(4),), (tensor(5),)],)
    some = check_op(
        op,
        *arguments,
        max_samples=2,
        checks=["values.repeat", "errors.real"],
        errors=errors,
        variants="off",
    )
    assert len({result.case for result in some if result.check == "values.repeat"}) == 2
    assert len([result for result in some if result.check == "errors.real"]) == 2
    with pytest.raises(MarkError, match="max_samples is 0: give an integer of 1 or more"):
        check_op(op, *arguments, max_samples=0)
