"""--customop-shard: the parts of several jobs are disjoint, and together they are everything."""

from __future__ import annotations

import itertools
import json
import random

import pytest
from kit import ABSENT, Suite, summary_of

from pytest_customop.plan.shards import parts, split
from pytest_customop.settings import Shard

SUITE = f"""
SAMPLES = [Sample((tensor(size), 2), id=f"n{{size}}") for size in range(1, 8)]

@customop_cases(scale, SAMPLES)
def test_scale(customop_case):
    assert customop_case() is not None

@pytest.mark.parametrize("word", ["one", "two"])
@customop_cases(plain, [(tensor(3),), (tensor(4),)], requires_grad=False)
def test_plain(customop_case, word):
    assert customop_case() is not None

@customop_cases(plain, [(tensor(3),), (tensor(4),)], requires_grad=False)
class TestClass:
    def test_one(self, customop_case):
        assert customop_case() is not None

    def test_two(self, customop_case):
        assert customop_case() is not None

@customop_cases(scale, [(tensor(3), 2)], devices=["{ABSENT}"])
def test_elsewhere(): ...

def test_other(): ...

def test_by_hand(customop_check):
    customop_check(plain, torch.ones(3))
"""
UNMARKED = {"test_other", "test_by_hand"}


def case_in(nodeid: str) -> tuple[str, ...]:
    """The case of an id of SUITE: the test or class, and the words that are not its items'."""
    test, _, inside = nodeid.rstrip("]").partition("[")
    items = {"one", "two", "body", "own.passes"}
    return (test.partition("::")[0], *(word for word in inside.split("-") if word not in items))


@pytest.mark.parametrize("extra", [(), ("--customop-max-samples=2",)], ids=["all", "capped"])
def test_the_shards_are_disjoint_and_together_everything(
    suite: Suite, extra: tuple[str, ...]
) -> None:
    suite.test(SUITE)
    ids = suite.ids(*extra, checks="own,body")
    assert {nodeid for nodeid in ids if "[" not in nodeid} == UNMARKED
    for count in range(1, 6):
        shards = [
            suite.ids(f"--customop-shard={index}/{count}", *extra, checks="own,body")
            for index in range(1, count + 1)
        ]
        assert sorted(itertools.chain(*shards)) == sorted(ids)
        assert {*shards[0]} >= UNMARKED
        homes = [{case_in(nodeid) for nodeid in part if nodeid not in UNMARKED} for part in shards]
        assert sum(map(len, homes)) == len(set().union(*homes))  # no case is in two
        for part in shards:
            assert part == [nodeid for nodeid in ids if nodeid in part]  # in order


def test_the_shards_have_about_as_many_items(suite: Suite) -> None:
    suite.test(SUITE)
    for count in (2, 3, 4):
        shards = [
            suite.ids(f"--customop-shard={index}/{count}", checks="own,body")
            for index in range(1, count + 1)
        ]
        sizes = [len({*part} - UNMARKED) for part in shards]
        assert max(sizes) - min(sizes) <= 2, sizes  # a case has two to four


def test_they_do_not_depend_on_the_order(suite: Suite) -> None:
    pytest.importorskip("pytest_randomly")
    suite.test(SUITE)
    plain = suite.ids("--customop-shard=2/3", checks="own,body")
    for seed in (1, 2):
        shuffled = ("-p", "randomly", f"--randomly-seed={seed}", "--customop-shard=2/3")
        ids = suite.ids(*shuffled, checks="own,body")
        assert sorted(ids) == sorted(plain)
        assert ids != plain


def test_what_is_selected_is_shared_out(suite: Suite) -> None:
    suite.test(SUITE)
    ids = suite.ids("-k", "test_scale and withgrad")
    shards = [suite.ids("-k", "test_scale and withgrad", f"--customop-shard={i}/2") for i in (1, 2)]
    assert sorted(itertools.chain(*shards)) == sorted(ids)
    assert sorted(map(len, shards)) == [3, 4]


def test_the_summary_says_which_shard_it_was(suite: Suite) -> None:
    suite.test(SUITE)
    first = suite.run("--customop-shard=1/2", checks="own,body")
    first.stdout.fnmatch_lines(["customop: *seed=0 shard=1/2"])
    second = suite.run("--customop-shard=2/2", checks="own,body")
    first_line, second_line = (
        next(line for line in summary_of(result) if line.startswith("shard"))
        for result in (first, second)
    )
    assert first_line == (
        "shard 1 of 2: 10 of 19 cases, 21 of 41 items; 2 tests without the mark run here"
    )
    assert second_line == (
        "shard 2 of 2: 9 of 19 cases, 20 of 41 items; 2 tests without the mark run in shard 1"
    )
    assert first.parseoutcomes()["deselected"] >= 20


def test_workers_have_the_shard_of_their_controller(suite: Suite) -> None:
    suite.test(SUITE)
    options = ("--customop-shard=2/3", "--customop-max-samples=3")
    ids = suite.ids(*options, checks="own,body")
    alone = suite.run(*options, checks="own,body")
    result = suite.run_apart(
        "-n", "2", *options, "--customop-report=report.json", checks="own,body"
    )
    assert sorted(record["nodeid"].partition("::")[2] for record in suite.results()) == sorted(ids)
    reported = [
        [line for line in summary_of(session) if line.startswith(("shard", "Left", "  "))]
        for session in (alone, result)
    ]
    assert reported[0] == reported[1]
    assert len(reported[0]) == 3


def test_an_empty_shard_is_no_failure(suite: Suite) -> None:
    suite.test("@customop_cases(plain, [(tensor(3),)], requires_grad=False)\ndef test(): ...\n")
    result = suite.run("--customop-shard=3/3")
    assert result.ret == pytest.ExitCode.OK
    assert summary_of(result) == ["shard 3 of 3: 0 of 1 cases, 0 of 1 items"]
    apart = suite.run_apart("-n", "1", "--customop-shard=2/3", "--customop-report=report.json")
    assert apart.ret == pytest.ExitCode.OK
    assert suite.results() == []
    # Where nothing is collected at all, pytest's own status stands.
    assert suite.run("-k", "nosuch", "--customop-shard=3/3").ret == (
        pytest.ExitCode.NO_TESTS_COLLECTED
    )


WRONG = ("0/3", "4/3", "1/0", "a/b", "3", "1/2/3", "-1/3", "1.5/3", "1/")


@pytest.mark.parametrize("text", WRONG)
def test_what_is_no_shard_is_a_usage_error(suite: Suite, text: str) -> None:
    suite.test(SUITE)
    result = suite.run(f"--customop-shard={text}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert [line for line in result.errlines if line] == [
        f"ERROR: --customop-shard={text}: give i/n with 1 <= i <= n, as 2/5"
    ]


# Durations


def write_report(suite: Suite, seconds: dict[str, float], name: str = "earlier.json") -> None:
    """A report in which these items took these times."""
    results = [{"nodeid": nodeid, "duration": time} for nodeid, time in seconds.items()]
    suite.write(name, json.dumps({"schema": 1, "environment": {}, "results": results}))


SLOW = """
@customop_cases(scale, [Sample((tensor(n), 2), id=f"n{n}") for n in range(1, 9)],
                requires_grad=False)
def test_scale(): ...
"""


def slow(number: int) -> str:
    return f"test_it.py::test_scale[cpu-float32-nograd-n{number}-own.passes]"


def samples(ids: list[str]) -> set[int]:
    return {int(nodeid.partition("-n")[2].partition("-")[2][1]) for nodeid in ids if "-n" in nodeid}


def test_durations_of_an_earlier_report_balance_the_shards(suite: Suite) -> None:
    suite.test(SLOW)
    write_report(suite, {slow(1): 7.0, **{slow(n): 1.0 for n in range(2, 9)}})
    options = ("--customop-durations=earlier.json",)
    assert suite.ids("--customop-shard=1/2", *options) == [slow(1).partition("::")[2]]
    assert len(suite.ids("--customop-shard=2/2", *options)) == 7


def test_what_is_not_known_weighs_the_mean(suite: Suite) -> None:
    """8 of 10 seconds are known of two items; the six others are taken to be 4 seconds each."""
    suite.test(SLOW)
    write_report(suite, {slow(1): 7.0, slow(2): 1.0})
    shards = [
        suite.ids(f"--customop-shard={i}/2", "--customop-durations=earlier.json") for i in (1, 2)
    ]
    assert sorted(map(len, shards)) == [4, 4]
    together = next(part for part in shards if slow(1).partition("::")[2] in part)
    assert slow(2).partition("::")[2] in together


def test_the_reports_of_several_shards_are_taken_together(suite: Suite) -> None:
    suite.test(SLOW)
    write_report(suite, {slow(1): 7.0}, "a.json")
    write_report(suite, {slow(n): 1.0 for n in range(2, 9)}, "b.json")
    options = ("--customop-durations=a.json", "--customop-durations=b.json")
    assert len(suite.ids("--customop-shard=1/2", *options)) == 1


def test_a_report_of_this_plugin_is_one(suite: Suite) -> None:
    suite.test(SUITE)
    suite.run("--customop-report=report.json", checks="own,body")
    ids = suite.ids(checks="own,body")
    shards = [
        suite.ids(f"--customop-shard={i}/3", "--customop-durations=report.json", checks="own,body")
        for i in (1, 2, 3)
    ]
    assert sorted(itertools.chain(*shards)) == sorted(ids)
    homes = [{case_in(nodeid) for nodeid in part if nodeid not in UNMARKED} for part in shards]
    assert sum(map(len, homes)) == len(set().union(*homes))


def test_workers_take_the_durations_of_the_controller(suite: Suite) -> None:
    """A worker elsewhere has the suite alone: not the earlier report, nor the folder of the new one."""
    suite.test(SLOW, name="suite/test_it.py")
    suite.write("suite/conftest.py", (suite.path / "conftest.py").read_text())
    (suite.path / "conftest.py").unlink()
    suite.write("suite/pytest.ini", "[pytest]\n")
    for folder in ("out", "elsewhere"):
        (suite.path / folder).mkdir()
    write_report(suite, {slow(1): 7.0, **{slow(n): 1.0 for n in range(2, 9)}})
    result = suite.run_apart(
        *(
            "--tx",
            "2*popen//chdir=elsewhere",
            "--dist=load",
            "--rsyncdir=suite",
            suite.path / "suite",
        ),
        *("--customop-shard=1/2", "--customop-durations=earlier.json"),
        "--customop-report=out/report.json",
    )
    assert result.ret == pytest.ExitCode.OK
    assert (suite.path / "elsewhere" / "suite" / "test_it.py").exists()
    assert [record["nodeid"] for record in suite.results("out/report.json")] == [slow(1)]


@pytest.mark.parametrize(
    ("content", "reported"),
    [
        (None, "cannot be read: No such file or directory"),
        ("{}", "is not a report of --customop-report"),
        ("[1, 2]", "is not a report of --customop-report"),
        ("not json", "is not a report of --customop-report"),
        ('{"results": [{"nodeid": 3}]}', "is not a report of --customop-report"),
    ],
)
def test_what_is_no_report_is_a_usage_error(
    suite: Suite, content: str | None, reported: str
) -> None:
    suite.test(SLOW)
    if content is not None:
        suite.write("earlier.json", content)
    result = suite.run("--customop-shard=1/2", "--customop-durations=earlier.json")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert [line for line in result.errlines if line] == [
        f"ERROR: --customop-durations=earlier.json: {reported}"
    ]


def test_the_heaviest_cases_come_first() -> None:
    weights = {"a": 5, "b": 4, "c": 3, "d": 3, "e": 3}
    assert parts(weights, 2) == {"a": 1, "b": 2, "c": 2, "d": 1, "e": 2}


def test_cases_that_take_no_time_are_spread_too() -> None:
    assert sorted(parts(dict.fromkeys("abcdef", 0), 3).values()) == [1, 1, 2, 2, 3, 3]


def test_any_order_of_items_gives_the_same_parts() -> None:
    """Sums of durations in another order may differ in the last bit: that must not decide."""
    rng = random.Random(0)
    names = [f"case{n}-{check}" for n in range(20) for check in range(7)]
    durations = {name: rng.choice([0.1, 0.2, 0.3, 1e-9, 1e3]) for name in names}
    kept_sets = set()
    for _ in range(20):
        rng.shuffle(names)
        kept, left_out, note = split(
            names, lambda name: name.partition("-")[0], str, Shard(2, 3), durations
        )
        assert sorted(kept + left_out) == sorted(names)
        assert note.items == len(kept)
        kept_sets.add(frozenset(kept))
    assert len(kept_sets) == 1
