"""The options, their ini twins, and what the plugin says about itself."""

from __future__ import annotations

import pytest
from kit import ABSENT, HEAD, Suite

from pytest_customop.plugin.options import BY_DEFAULT
from pytest_customop.settings import Settings

TEST = "@customop_cases(scale, [(tensor(3), 2)], requires_grad=False)\ndef test_scale(): ...\n"
TWO_TESTS = TEST + "@customop_cases(plain, [(tensor(3),), (tensor(4),)])\ndef test_plain(): ...\n"

NEAR_MISSES = {
    "--customop-devices=cpu,cuad": "unknown device 'cuad'; did you mean 'cuda'? (known: cpu, cuda",
    "--customop-dtypes=flaot32": "unknown dtype 'flaot32'; did you mean 'float32'? (known: ",
    "--customop-backend=inductr": "unknown backend 'inductr'; did you mean 'inductor'? (known: ",
    "--customop-checks=fake.forwrad": "unknown check 'fake.forwrad'; did you mean 'fake.forward'?",
    "--customop-checks=-opchek": "unknown check 'opchek'; did you mean 'opcheck'?",
    "--customop-devices=meta": "device 'meta' holds no values",
    "--customop-seed=many": "--customop-seed=many: give a whole number",
    "--customop-timeout=soon": "--customop-timeout=soon: give a number of seconds",
    "--customop-memory=-1": "--customop-memory=-1: give a number of gigabytes",
    "--customop-max-samples=0": "--customop-max-samples=0: give a whole number of 1 or more",
    "--customop-max-samples=some": "--customop-max-samples=some: give a whole number of 1 or more",
    "--customop-shard=3/2": "--customop-shard=3/2: give i/n with 1 <= i <= n, as 2/5",
    "--customop-durations=nosuch.json": "cannot be read: No such file or directory",
    "--customop-report=report.txt": "the ending says the format; known: .json",
    "--customop-report=nosuch/report.json": "there is no folder",
}


def assert_usage_error(result: pytest.RunResult, told: str) -> None:
    """Exit 4, and one line that says what is wrong."""
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    lines = [line for line in (*result.errlines, *result.outlines) if "ERROR" in line]
    assert len(lines) == 1, lines
    assert told in lines[0]
    assert "Traceback" not in result.stdout.str() + result.stderr.str()
    assert "INTERNALERROR" not in result.stdout.str() + result.stderr.str()


@pytest.mark.parametrize("option", NEAR_MISSES)
def test_a_value_that_cannot_be_is_a_usage_error(suite: Suite, option: str) -> None:
    suite.test(TEST)
    assert_usage_error(suite.run(option, checks=None), NEAR_MISSES[option])


@pytest.mark.parametrize("option", list(NEAR_MISSES)[:4])
def test_it_is_one_under_xdist_too(suite: Suite, option: str) -> None:
    suite.test(TEST)
    assert_usage_error(suite.run("-n", "2", option, checks=None), NEAR_MISSES[option])


def test_a_time_needs_somebody_to_keep_it(suite: Suite) -> None:
    suite.test(TEST)
    given = ("-p", "no:timeout", "--customop-timeout=3")
    told = (
        "--customop-timeout: add --customop-isolate, which runs the items in a child process; or "
    )
    assert_usage_error(suite.run(*given, checks=None), told + "install pytest-timeout")


def test_a_check_that_nobody_brings(suite: Suite) -> None:
    suite.test(TEST)
    assert_usage_error(
        suite.run("--customop-checks=zebra.stripes", checks=None),
        "unknown check 'zebra.stripes' (known: backward, backward.checkpoint, ",
    )


def test_a_check_that_nobody_brings_under_xdist(suite: Suite) -> None:
    suite.test(TEST)
    assert_usage_error(
        suite.run_apart("-n", "2", "--customop-checks=zebra.stripes", checks=None),
        "unknown check 'zebra.stripes'",
    )


def write_late_check(suite: Suite) -> None:
    """A check whose conftest is below the root, so that only collecting its folder brings it."""
    suite.write(
        "below/conftest.py",
        """
def look(case):
    assert case.eager.error is None

def pytest_customop_register_checks():
    return [Check("late.look", "looks", look)]
""",
        head=HEAD,
    )
    suite.test(TEST, name="below/test_below.py")


def test_a_check_of_a_late_conftest_can_be_selected(suite: Suite) -> None:
    write_late_check(suite)
    suite.write("test_above.py", "def test_above(): ...\n")
    result = suite.run("-v", "--customop-checks=late", checks=None)
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*test_scale[[]cpu-float32-nograd-0-late.look] PASSED*"])


def test_a_check_of_a_late_conftest_is_for_the_tests_below_it(suite: Suite) -> None:
    write_late_check(suite)
    suite.test(TEST.replace("scale", "plain").replace("(tensor(3), 2)", "(tensor(3),)"))
    (suite.path / "test_it.py").write_text(
        (suite.path / "test_it.py").read_text().replace(f"{suite.ns}::", f"{suite.ns}_above::")
    )
    ids = suite.ids(checks="late,own")
    assert [one for one in ids if "late" in one] == ["test_scale[cpu-float32-nograd-0-late.look]"]
    assert len(ids) == 3


def test_an_absent_device_is_one_skip_a_test(suite: Suite) -> None:
    suite.test(TWO_TESTS)
    result = suite.run(f"--customop-devices=cpu,{ABSENT}", "-rs", "--customop-report=report.json")
    result.assert_outcomes(passed=3, skipped=2)
    result.stdout.fnmatch_lines([f"*SKIPPED*device {ABSENT} is not available: *here is cpu*"])
    assert result.ret == 0
    skipped = [one for one in suite.results() if one["outcome"] == "skipped"]
    assert [(one["nodeid"], one["device"], one["check"]) for one in skipped] == [
        (f"test_it.py::test_plain[{ABSENT}-absent]", ABSENT, None),
        (f"test_it.py::test_scale[{ABSENT}-absent]", ABSENT, None),
    ]


def test_an_absent_device_can_be_required(suite: Suite) -> None:
    suite.test(TWO_TESTS)
    given = (f"--customop-devices=cpu,{ABSENT}", "--customop-require-devices")
    result = suite.run(*given, "--customop-report=report.json")
    result.assert_outcomes(passed=3, failed=2)
    result.stdout.fnmatch_lines(
        [f"device {ABSENT} is not available: *(--customop-require-devices)"]
    )
    assert [one["outcome"] for one in suite.results()].count("error") == 2


def test_a_plugin_answers_for_its_device(suite: Suite) -> None:
    suite.write(
        "conftest.py",
        (suite.path / "conftest.py").read_text()
        + """
def pytest_customop_device_available(device):
    return {"mps": "the window is closed", "maia": False}.get(device)
""",
    )
    suite.test(TEST)
    result = suite.run("--customop-devices=mps,maia,cpu", "-rs")
    result.assert_outcomes(passed=1, skipped=2)
    result.stdout.fnmatch_lines_random(
        [
            "*device mps is not available: the window is closed",
            "*device maia is not available: a plugin says so",
        ]
    )


def test_devices_and_dtypes_of_the_session(suite: Suite) -> None:
    suite.test(TEST)
    assert suite.ids("--customop-dtypes=float64,torch.float16,half", "--customop-devices=cpu") == [
        "test_scale[cpu-float16-nograd-0-own.passes]",
        "test_scale[cpu-float64-nograd-0-own.passes]",
    ]


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        ("own", ["own.passes"]),
        ("own.passes,own.skips", ["own.passes", "own.skips"]),
        ("own.skips", ["own.skips"]),
        ("fake.forward,own,-own.passes", ["fake.forward"]),
        ("-fake,-compile,-gradcheck,-backward,-opcheck,-values,-state", ["own.passes"]),
    ],
)
def test_checks_of_the_session(suite: Suite, selection: str, expected: list[str]) -> None:
    suite.test(TEST)
    ids = [f"test_scale[cpu-float32-nograd-0-{check}]" for check in expected]
    assert suite.ids(checks=selection) == ids


def test_the_mark_narrows_the_checks_of_the_session(suite: Suite) -> None:
    suite.test(TEST.replace("requires_grad", "checks=['own', 'fake'], requires_grad"))
    assert suite.ids(checks="own,compile") == ["test_scale[cpu-float32-nograd-0-own.passes]"]


def test_a_mark_without_any_check_of_the_session_is_one_skip(suite: Suite) -> None:
    suite.test(TEST.replace("requires_grad", "checks=['fake'], requires_grad"))
    result = suite.run("-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*no check of this selection applies to this op*"])


def test_the_body_can_be_left_out_or_run_alone(suite: Suite) -> None:
    suite.test(TEST.replace("test_scale()", "test_scale(customop_case)").replace("...", "assert 1"))
    body = "test_scale[cpu-float32-nograd-0-body]"
    assert body in suite.ids(checks=None)
    assert body not in suite.ids(checks="-body")
    assert suite.ids(checks="body") == [body]


@pytest.mark.parametrize(
    "configuration",
    ["[pytest]\n", "[tool.pytest.ini_options]\n"],
)
def test_every_option_has_an_ini_twin(suite: Suite, configuration: str) -> None:
    toml = configuration.startswith("[tool")
    values = {
        "customop_devices": "cpu",
        "customop_dtypes": "float64",
        "customop_checks": "own",
        "customop_backend": "eager",
        "customop_seed": "3",
        "customop_report": "report.json",
        "customop_require_devices": "true",
        "customop_max_samples": "1",
        "customop_shard": "1/1",
        "customop_durations": "earlier.json",
        "customop_isolate": "true",
        "customop_timeout": "100",
        "customop_memory": "0",
    }
    lines = [f'{key} = "{value}"' if toml else f"{key} = {value}" for key, value in values.items()]
    suite.write("pyproject.toml" if toml else "pytest.ini", configuration + "\n".join(lines))
    suite.write("earlier.json", '{"results": []}')
    suite.test(TEST.replace("2)]", "2), (tensor(4), 2)]"))
    result = suite.run(checks=None)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "customop: devices=cpu dtypes=float64 checks=own variants=off backend=eager seed=3"
            " max-samples=1 shard=1/1"
        ]
    )
    assert [one["dtype"] for one in suite.results()] == ["float64"]


def test_the_command_line_wins_over_the_ini_file(suite: Suite) -> None:
    suite.write("pytest.ini", "[pytest]\ncustomop_checks = fake\ncustomop_dtypes = float64\n")
    suite.test(TEST)
    assert suite.ids("--customop-dtypes=float16", checks="own") == [
        "test_scale[cpu-float16-nograd-0-own.passes]"
    ]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("customop_devices = cuad", "customop: unknown device 'cuad'; did you mean 'cuda'?"),
        ("customop_dtypes = flaot32", "customop: unknown dtype 'flaot32'; did you mean 'float32'?"),
        ("customop_backend = inductr", "customop: unknown backend 'inductr'"),
    ],
)
def test_a_wrong_ini_value_fails_the_marked_tests_and_no_others(
    suite: Suite, line: str, told: str
) -> None:
    suite.write("pytest.ini", f"[pytest]\n{line}\n")
    suite.test(TEST)
    suite.write("test_other.py", "def test_other(): ...\n")
    result = suite.run("--continue-on-collection-errors")
    result.assert_outcomes(passed=1, errors=1)
    assert told in result.stdout.str()


def test_a_wrong_check_in_the_ini_file_is_a_usage_error(suite: Suite) -> None:
    suite.write("pytest.ini", "[pytest]\ncustomop_checks = fake.forwrad\n")
    suite.test(TEST)
    assert_usage_error(suite.run(checks=None), "did you mean 'fake.forward'?")


def test_the_checks_are_listed_with_one_line_each(suite: Suite) -> None:
    result = suite.run("--customop-list-checks", checks=None)
    assert result.ret == 0
    lines = [line for line in result.outlines if line.strip()]
    names = [line.split()[0] for line in lines]
    assert names == sorted(names)
    assert {"fake.forward", "opcheck.test_schema", "compile.dynamic", "own.passes"} <= set(names)
    assert all(len(line.split(maxsplit=1)) == 2 for line in lines)
    result.stdout.fnmatch_lines(["own.fails * a check that fails (opt-in)"])


def test_the_header_says_what_will_run(suite: Suite) -> None:
    suite.write("test_other.py", "def test_other(): ...\n")
    result = suite.run("--customop-seed=4", checks=None)
    result.stdout.fnmatch_lines(
        ["customop: devices=cpu dtypes=default checks=all variants=off backend=inductor seed=4"]
    )


def test_the_header_of_a_session_that_was_asked_for_nothing_says_the_same() -> None:
    assert Settings().header() == BY_DEFAULT


def test_the_marker_the_fixtures_and_the_options_are_documented(suite: Suite) -> None:
    suite.write("test_other.py", "def test_other(): ...\n")
    marker = suite.run("--markers", checks=None).stdout.str()
    assert "@pytest.mark.customop_cases(op, samples, *, devices=None" in marker
    fixtures = suite.run("--fixtures", checks=None).stdout.str()
    for name in ("customop_case", "customop_check", "customop_device", "customop_dtype"):
        assert f"\n{name} -- " in fixtures
        documentation = fixtures.partition(f"\n{name} -- ")[2].splitlines()[1]
        assert documentation.startswith("    ")
        assert "no docstring" not in documentation
    options = suite.run("--help", checks=None).stdout.str()
    for name in ("devices", "dtypes", "checks", "backend", "seed", "report", "require-devices"):
        assert f"--customop-{name}" in options
        assert f"customop_{name.replace('-', '_')}" in options
