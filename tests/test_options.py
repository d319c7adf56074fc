"""The options, their ini twins, and what the plugin says about itself."""

import json
from typing import Any

import pytest
import torch
from kit import ABSENT, HEAD, Suite

from pytest_customop import check_op, tensor
from pytest_customop.declare.samples import MarkError
from pytest_customop.declare.variant import KINDS
from pytest_customop.plugin.options import ALL_OPTIONS, BY_DEFAULT, OPTIONS, any_given
from pytest_customop.plugin.read_options import header, read_settings
from pytest_customop.settings import Settings, Shard, Variants, values
from pytest_customop.settings.values import read_variants

TEST = "@customop_cases(scale, [(tensor(3), 2)], requires_grad=False)\ndef test_scale(): ...\n"
TWO_TESTS = TEST + "@customop_cases(plain, [(tensor(3),), (tensor(4),)])\ndef test_plain(): ...\n"

WRONG = {
    "--customop-devices=cpu,cuad": "unknown device 'cuad'; did you mean 'cuda'? (known: cpu, cuda",
    "--customop-dtypes=flaot32": "unknown dtype 'flaot32'; did you mean 'float32'? (known: ",
    "--customop-backend=inductr": "unknown backend 'inductr'; did you mean 'inductor'? (known: ",
    "--customop-checks=fake.forwrad": "unknown check 'fake.forwrad'; did you mean 'fake.forward'?",
    "--customop-checks=-opchek": "unknown check 'opchek'; did you mean 'opcheck'?",
    "--customop-devices=gpu": "unknown device 'gpu'; did you mean 'cuda'?",
    "--customop-devices=meta": "device 'meta' holds no values",
    "--customop-dtypes=fp32": "unknown dtype 'fp32'; did you mean 'float32'?",
    "--customop-seed=many": "give an integer",
    "--customop-variants=shap": "unknown amount or kind of variants 'shap'; did you mean 'shape'? "
    "(amounts: off, quick, full, or a number per sample; kinds: layout, shape, large, long, dtype, ",
    "--customop-variants=quick,full": "quick and full are 2 amounts: give one",
    "--customop-variants=off,strict": "'off' leaves out every kind of variants: give it alone",
    "--customop-variants=strikt": "unknown amount or kind of variants 'strikt'; did you mean 'strict'?",
    "--customop-variants=off,shape": "'off' leaves out every kind of variants: give it alone",
    "--customop-timeout=soon": "give a number of seconds",
    "--customop-memory=-1": "give a number of gigabytes",
    "--customop-max-samples=0": "give an integer of 1 or more",
    "--customop-max-samples=some": "give an integer of 1 or more",
    "--customop-compile-cells=some": "give all or pairwise",
    "--customop-shard=3/2": "give i/n with 1 <= i <= n, as 2/5",
    "--customop-durations=nosuch.json": "cannot be read: No such file or directory",
    "--customop-report=report.txt": "the ending says the format; known: .json",
    "--customop-report=nosuch/report.json": "there is no folder",
    "--customop-report=": "the ending says the format",
}


def assert_usage_error(result: pytest.RunResult, reported: str) -> None:
    """Exit 4, and one line that says what is wrong."""
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    lines = [line for line in (*result.errlines, *result.outlines) if "ERROR" in line]
    assert len(lines) == 1, lines
    assert reported in lines[0]
    assert "Traceback" not in result.stdout.str() + result.stderr.str()
    assert "INTERNALERROR" not in result.stdout.str() + result.stderr.str()


@pytest.mark.parametrize("option", WRONG)
def test_a_wrong_value_is_a_usage_error_that_names_the_option(suite: Suite, option: str) -> None:
    suite.test(TEST)
    assert_usage_error(suite.run(option, checks=None), f"ERROR: {option}: {WRONG[option]}")


@pytest.mark.parametrize("option", list(WRONG)[:4])
def test_it_is_one_under_xdist_too(suite: Suite, option: str) -> None:
    suite.test(TEST)
    assert_usage_error(suite.run("-n", "2", option, checks=None), f"{option}: {WRONG[option]}")


def test_a_time_needs_somebody_to_keep_it(suite: Suite) -> None:
    suite.test(TEST)
    reported = (
        "add --customop-isolate=on, which runs the items in a child process; or install "
        "pytest-timeout"
    )
    result = suite.run("-p", "no:timeout", "--customop-timeout=3", checks=None)
    assert_usage_error(result, f"ERROR: --customop-timeout=3: {reported}")
    suite.write("pytest.ini", "[pytest]\ncustomop_timeout = 3\n")
    result = suite.run("-p", "no:timeout", checks=None)
    assert_usage_error(result, f"ERROR: pytest.ini: customop_timeout = 3: {reported}")


def test_an_isolated_session_has_no_debugger(suite: Suite) -> None:
    suite.test(TEST)
    reported = "--pdb needs the process that runs the tests"
    result = suite.run("--customop-isolate", "--pdb", checks=None)
    assert_usage_error(result, f"ERROR: --customop-isolate=on: {reported}")
    suite.write("pytest.ini", "[pytest]\ncustomop_isolate = true\n")
    result = suite.run("--pdb", checks=None)
    assert_usage_error(result, f"ERROR: pytest.ini: customop_isolate = true: {reported}")


def test_a_check_that_no_plugin_brings(suite: Suite) -> None:
    suite.test(TEST)
    assert_usage_error(
        suite.run("--customop-checks=zebra.stripes", checks=None),
        "unknown check 'zebra.stripes' (known: backward, backward.checkpoint, ",
    )


def test_a_check_that_no_plugin_brings_under_xdist(suite: Suite) -> None:
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
    assert [item_id for item_id in ids if "late" in item_id] == [
        "test_scale[cpu-float32-nograd-0-late.look]"
    ]
    assert len(ids) == 3


def test_an_absent_device_is_one_skip_a_test(suite: Suite) -> None:
    suite.test(TWO_TESTS)
    result = suite.run(f"--customop-devices=cpu,{ABSENT}", "-rs", "--customop-report=report.json")
    result.assert_outcomes(passed=3, skipped=2)
    result.stdout.fnmatch_lines([f"*SKIPPED*device {ABSENT} is not available: *here is cpu*"])
    assert result.ret == 0
    skipped = [record for record in suite.results() if record["outcome"] == "skipped"]
    assert [(record["nodeid"], record["device"], record["check"]) for record in skipped] == [
        (f"test_it.py::test_plain[{ABSENT}-absent]", ABSENT, None),
        (f"test_it.py::test_scale[{ABSENT}-absent]", ABSENT, None),
    ]


def test_an_absent_device_can_be_required(suite: Suite) -> None:
    suite.test(TWO_TESTS)
    options = (f"--customop-devices=cpu,{ABSENT}", "--customop-require-devices")
    result = suite.run(*options, "--customop-report=report.json")
    result.assert_outcomes(passed=3, failed=2)
    result.stdout.fnmatch_lines(
        [f"device {ABSENT} is not available: *(--customop-require-devices)"]
    )
    assert [record["outcome"] for record in suite.results()].count("error") == 2


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
        ("-fake,-compile,-gradcheck,-backward,-opcheck,-values,-state,-relations", ["own.passes"]),
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


# Ini files

VALUES = {
    "customop_devices": "cpu",
    "customop_dtypes": "float64,float32",
    "customop_checks": "own,-own.skips",
    "customop_variants": "full,shape",
    "customop_variant": "empty0,transposed",
    "customop_backend": "eager",
    "customop_seed": "3",
    "customop_report": "report.json",
    "customop_require_coverage": "mylib,-mylib::_helper",
    "customop_baseline": "baseline.toml",
    "customop_update_baseline": "true",
    "customop_baseline_strict": "true",
    "customop_repro_dir": "scripts",
    "customop_require_devices": "true",
    "customop_fuzz": "5",
    "customop_max_samples": "1",
    "customop_compile_cells": "pairwise",
    "customop_shard": "1/2",
    "customop_durations": "earlier.json",
    "customop_isolate": "true",
    "customop_timeout": "100",
    "customop_memory": "0",
    "customop_harvest": "mylib,other",
    "customop_harvest_save": "test_new.py",
    "customop_scan": "mylib,other.ops",
    "customop_scan_namespace": "mine,other",
    "customop_scan_seconds": "2",
    "customop_scan_save": "test_scanned.py",
    "customop_scan_examples": "earlier.json",
}
LISTS = (
    "devices",
    "dtypes",
    "checks",
    "variants",
    "variant",
    "report",
    "durations",
    "require_coverage",
    "harvest",
    "scan",
    "scan_namespace",
)
NATIVE = pytest.mark.skipif(
    pytest.version_tuple < (9, 0), reason="native TOML values came with pytest 9"
)


def in_toml(lists: bool, native: bool) -> list[str]:
    """`VALUES` in TOML.

    Args:
        lists: whether lists of names are TOML lists; else strings.
        native: whether numbers and booleans are those of TOML; else strings.
    """
    lines = []
    for key, text in VALUES.items():
        value: object = text
        if lists and key.removeprefix("customop_") in LISTS:
            value = text.split(",")
        elif native and (text == "true" or text.isdecimal()):
            value = json.loads(text)
        lines.append(f"{key} = {json.dumps(value)}")
    return lines


FILES = [
    pytest.param("pytest.ini", "[pytest]", [f"{k} = {v}" for k, v in VALUES.items()], id="ini"),
    pytest.param("pyproject.toml", "[tool.pytest.ini_options]", in_toml(False, False), id="toml"),
    pytest.param("pyproject.toml", "[tool.pytest.ini_options]", in_toml(True, True), id="lists"),
    pytest.param(
        "pyproject.toml", "[tool.pytest]", in_toml(True, True), id="native-lists", marks=NATIVE
    ),
    pytest.param(
        "pyproject.toml", "[tool.pytest]", in_toml(False, False), id="native", marks=NATIVE
    ),
]


@pytest.mark.parametrize(("name", "section", "lines"), FILES)
def test_every_option_has_an_ini_twin(
    suite: Suite, name: str, section: str, lines: list[str]
) -> None:
    assert {option.key for option in OPTIONS} == VALUES.keys()
    suite.write(name, "\n".join([section, *lines]))
    suite.write("earlier.json", '{"results": [{"nodeid": "test_it.py::test", "duration": 2}]}')
    config = suite.pytester.parseconfig("-W", "error")
    assert any_given(config)
    assert read_settings(config) == Settings(
        devices=("cpu",),
        dtypes=("float64", "float32"),
        checks=("own", "-own.skips"),
        variants=Variants("full", ("shape",)),
        variant_steps=("empty0", "transposed"),
        backend="eager",
        seed=3,
        reports=(suite.path / "report.json",),
        require_coverage=("mylib", "-mylib::_helper"),
        baseline=suite.path / "baseline.toml",
        update_baseline=True,
        baseline_strict=True,
        repro_dir=suite.path / "scripts",
        require_devices=True,
        fuzz=5,
        max_samples=1,
        compile_cells="pairwise",
        shard=Shard(1, 2),
        durations=({"test_it.py::test": 2.0},),
        isolate="on",
        without_child=None,
        timeout=100.0,
        memory=0.0,
        harvest=("mylib", "other"),
        harvest_save=suite.path / "test_new.py",
        scan=("mylib", "other.ops"),
        scan_namespaces=("mine", "other"),
        scan_seconds=2.0,
        scan_save=suite.path / "test_scanned.py",
        scan_examples=suite.path / "earlier.json",
    )


def test_a_session_with_an_ini_file(suite: Suite) -> None:
    suite.write(
        "pyproject.toml",
        "[tool.pytest.ini_options]\n"
        "customop_checks = ['own', '-own.skips']\n"
        "customop_dtypes = ['float64', 'float32']\n"
        "customop_shard = '1/1'\n"
        "customop_report = 'report.json'\n",
    )
    suite.test(TEST)
    result = suite.run(checks=None)
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        [
            "customop: devices=cpu dtypes=float64,float32 checks=own,-own.skips variants=off"
            " backend=inductor seed=0 shard=1/1"
        ]
    )
    assert [record["dtype"] for record in suite.results()] == ["float32", "float64"]


def test_the_command_line_wins_over_the_ini_file(suite: Suite) -> None:
    suite.write("pytest.ini", "[pytest]\ncustomop_checks = fake\ncustomop_dtypes = float64\n")
    suite.test(TEST)
    ids = suite.ids("--customop-dtypes=float16", checks="own")
    assert ids == ["test_scale[cpu-float16-nograd-0-own.passes]"]
    ids = suite.ids("-o", "customop_dtypes=float16", checks="own")
    assert ids == ["test_scale[cpu-float16-nograd-0-own.passes]"]
    # An empty value is that of a session without the option.
    assert suite.ids("--customop-dtypes=", checks="own") == [
        "test_scale[cpu-float32-nograd-0-own.passes]"
    ]


@pytest.mark.parametrize(
    ("line", "reported"),
    [
        ("customop_seed = 'many'", "customop_seed = many: give an integer"),
        ("customop_seed = ['1', '2']", "customop_seed = 1, 2: give one value, not a list"),
        ("customop_isolate = 'maybe'", "customop_isolate = maybe: give auto, on or off"),
        ("customop_max_samples = -1", "customop_max_samples = -1: give an integer of 1 or"),
        (
            "customop_report = ['report.json', 'report.txt']",
            "customop_report = report.txt: the ending says the format; known: .json",
        ),
        ("customop_repro_dir = 'test_it.py'", "customop_repro_dir = test_it.py: this is a file"),
        (
            "customop_checks = ['own', 'fake.forwrad']",
            "customop_checks = own, fake.forwrad: unknown check 'fake.forwrad'; did you mean "
            "'fake.forward'?",
        ),
    ],
)
def test_a_wrong_ini_value_is_a_usage_error_that_names_file_and_key(
    suite: Suite, line: str, reported: str
) -> None:
    suite.write("pyproject.toml", f"[tool.pytest.ini_options]\n{line}\n")
    suite.test(TEST)
    assert_usage_error(suite.run(checks=None), f"ERROR: pyproject.toml: {reported}")


def test_a_wrong_override_of_the_ini_file_is_reported_as_that(suite: Suite) -> None:
    suite.test(TEST)
    result = suite.run("-o", "customop_seed=many", checks=None)
    assert_usage_error(result, "ERROR: -o customop_seed=many: give an integer")


@pytest.mark.parametrize(
    ("line", "reported"),
    [
        ("customop_devices = cuad", "unknown device 'cuad'; did you mean 'cuda'?"),
        ("customop_dtypes = flaot32", "unknown dtype 'flaot32'; did you mean 'float32'?"),
        ("customop_backend = inductr", "unknown backend 'inductr'; did you mean 'inductor'?"),
    ],
)
def test_an_ini_value_that_torch_does_not_know_fails_the_marked_tests_and_no_others(
    suite: Suite, line: str, reported: str
) -> None:
    """Other sessions do not import torch to find it out."""
    suite.write("pytest.ini", f"[pytest]\n{line}\n")
    suite.test(TEST)
    suite.write("test_other.py", "def test_other(): ...\n")
    result = suite.run("--continue-on-collection-errors")
    result.assert_outcomes(passed=1, errors=1)
    assert f"\npytest.ini: {line}: {reported}" in result.stdout.str()


def test_a_wrong_check_in_the_ini_file_is_a_usage_error(suite: Suite) -> None:
    suite.write("pytest.ini", "[pytest]\ncustomop_checks = fake.forwrad\n")
    suite.test(TEST)
    assert_usage_error(
        suite.run(checks=None),
        "ERROR: pytest.ini: customop_checks = fake.forwrad: unknown check 'fake.forwrad'; did you "
        "mean 'fake.forward'?",
    )


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


def test_the_header_of_a_session_without_options_says_the_same() -> None:
    assert header(Settings()) == BY_DEFAULT


# The table


def test_every_option_is_a_setting_and_every_setting_an_option() -> None:
    derived = {"without_child"}  # from several options and the system
    assert sorted(option.setting for option in OPTIONS) == sorted({*Settings._fields} - derived)


def test_every_function_of_the_table_is_there() -> None:
    functions = [
        callback for option in OPTIONS for callback in (option.parse, option.validate) if callback
    ]
    assert len(functions) > 10
    for function in functions:
        assert callable(getattr(values, function.__name__))


def test_help_and_pages_say_what_an_option_is_for() -> None:
    for option in ALL_OPTIONS:
        assert option.help[0].islower(), option.name
        assert not option.help.endswith("."), option.name
        assert not option.more or option.more.endswith("."), option.name
        assert (option.kind == "flag") == (not option.metavar) == (not option.example), option.name


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
    for option in ALL_OPTIONS:
        assert f"  {option.flag}" in options
        assert option.prints == (f"  {option.key} (" not in options)
    assert "`" not in options.partition("conformance of PyTorch")[2].partition("\n\n")[0]


# Variants: amounts and kinds, by one rule


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["quick"], Variants("quick")),
        (["full", "shape"], Variants("full", ("shape",))),
        (["shape", "layout"], Variants("quick", ("layout", "shape"))),
        (["3", "alias"], Variants(3, ("alias",))),
        ([3], Variants(3)),
        (["0"], Variants("off")),
        ([*KINDS], Variants("quick")),
        (["quick", "quick"], Variants("quick")),
    ],
)
def test_words_for_variants_are_amounts_or_kinds(
    words: list[str | int], expected: Variants
) -> None:
    assert read_variants(words) == expected
    if expected.amount != "off":
        assert read_variants(str(expected).split(",")) == expected


def kinds_of(suite: Suite, *args: str) -> set[str]:
    """The kinds of the variants that run, as far as these steps show them."""
    known = {"transposed": "layout", "empty0": "shape", "bfloat16": "dtype"}
    suite.run("--customop-report=report.json", *args, checks="fake.forward")
    steps = {record["variant"] for record in suite.results()}
    return {kind for step, kind in known.items() if step in steps}


def test_the_session_narrows_the_kinds(suite: Suite) -> None:
    suite.test(TEST.replace("tensor(3)", "tensor(3, 4)"))
    assert kinds_of(suite, "--customop-variants=quick") == {"layout", "shape", "dtype"}
    assert kinds_of(suite, "--customop-variants=shape") == {"shape"}
    assert kinds_of(suite, "--customop-variants=full, layout,dtype") == {"layout", "dtype"}
    assert kinds_of(suite, "--customop-variants=off") == set()


def test_the_mark_and_the_session_narrow_the_kinds_together(suite: Suite) -> None:
    more = 'variants=["layout", "shape"], requires_grad'
    suite.test(TEST.replace("tensor(3)", "tensor(3, 4)").replace("requires_grad", more))
    assert kinds_of(suite, "--customop-variants=full") == {"layout", "shape"}
    assert kinds_of(suite, "--customop-variants=full,dtype,shape") == {"shape"}


# check_op takes what the options take


@torch.library.custom_op("options::op", mutates_args=())
def op(x: torch.Tensor) -> torch.Tensor:
    return x + 1


@op.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


@pytest.mark.parametrize(
    ("given", "reported"),
    [
        ({"backend": "inducto"}, "unknown backend 'inducto'; did you mean 'inductor'? (known: "),
        ({"backend": print}, "backend is <built-in function print>: give the name of"),
        ({"seed": "3"}, "seed is '3': give an integer"),
        ({"seed": True}, "seed is True: give an integer"),
        ({"max_samples": 0}, "max_samples is 0: give an integer of 1 or more"),
        ({"variants": "ful"}, "variants: unknown amount or kind of variants 'ful'; did you mean"),
        ({"variants": -1}, "variants: unknown amount or kind of variants -1 (amounts: off, "),
        ({"variants": ("quick", "full")}, "variants: quick and full are 2 amounts: give one"),
        ({"variants": ()}, "variants is (): give amounts and kinds"),
        ({"devices": "gpu"}, "unknown device 'gpu'; did you mean 'cuda'?"),
    ],
)
def test_a_wrong_value_of_check_op_is_one_error(given: dict[str, Any], reported: str) -> None:
    with pytest.raises(MarkError) as caught:
        check_op(op, [(tensor(3),)], checks="compile.static", **given)
    message = str(caught.value)
    assert message.startswith("check_op: ") or message.endswith(" [check_op]")
    assert reported in message


def cases(variants: Any) -> set[str]:
    """The cases of `op` that run, with the variants that an argument of `check_op` asks for."""
    results = check_op(op, [(tensor(3, 4),)], checks="fake.forward", variants=variants)
    return {result.case for result in results if result.outcome == "passed"}


def test_variants_of_check_op_are_read_as_the_option_is() -> None:
    assert len(cases(False)) == 1
    assert cases(False) == cases("off")
    assert cases(False) < cases("quick, shape") == cases(("shape",)) < cases("quick")
    assert cases("quick") == cases(None) == cases(True)
    assert len(cases(1)) == 2


def test_a_function_among_the_words_leaves_variants_out() -> None:
    seen: list[Any] = []  # `append` returns None: the op supports the variant
    assert cases(("full", "shape", seen.append)) == cases(("full", "shape"))
    assert {variant.kind for variant in seen} == {"shape"}
    assert cases(lambda variant: "not supported") == cases("off")
