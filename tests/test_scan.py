"""`--customop-scan`: ops of a package without a test are audited, and checked on inputs found for them."""

import pytest
from kit import Suite

from pytest_customop.compat.version import TORCH

if TORCH < (2, 5):
    pytest.skip(
        "torch 2.4 does not infer the schemas of the package's ops", allow_module_level=True
    )
from tests.scan_package import PLANTED

PACKAGE = "tests.scan_package"
AUDITED = ("--customop-scan-seconds=0", "--customop-report=report.json", "-v")

FAILED = {
    ("scanned::without_fake", "fake-missing"),
    ("scanned::log_scale", "call-removed"),
    ("scanned::other_default", "default-differs"),
    ("scanned::lost_argument", "signature-differs"),
}
NOTED = {
    ("scanned::halve_", "inplace-undeclared"),
    ("scanned::count", "formula-unused"),
    ("scanned::shifted", "fake-unused"),
    ("scanned::doubled", "overloads-differ"),
}


def findings(suite: Suite, outcome: str) -> set[tuple[str, str]]:
    return {
        (record["op"], record["finding"])
        for record in suite.results()
        if record["outcome"] == outcome
    }


def test_the_audit_finds_what_schemas_and_registrations_show(suite: Suite) -> None:
    result = suite.run_apart(f"--customop-scan={PACKAGE}", *AUDITED, checks=None)
    assert findings(suite, "failed") == FAILED
    assert findings(suite, "noted") == NOTED
    records = suite.results()
    assert {record["nodeid"] for record in records} >= {
        "scan::scanned::attend[audit]",
        "scan::scanned::doubled.out[audit]",
    }
    assert {record["check"] for record in records} == {"scan.audit"}
    result.stdout.fnmatch_lines(
        [
            "scan: 43 ops of scanned",
            "  op * kernels * autograd * fake * vmap * tags * registered by * findings",
            "  scanned::lowered * composite * composite * composite * Library * -",
            "  scanned::total * any * python * python * custom_op * -",
            "scan: 43 ops of scanned audited",
        ]
    )


def test_the_audit_is_the_same_in_workers(suite: Suite) -> None:
    options = (f"--customop-scan={PACKAGE}", *AUDITED, "-n", "2")
    result = suite.run_apart(*options, checks=None)
    assert findings(suite, "failed") == FAILED
    result.stdout.fnmatch_lines(["scan: 43 ops of scanned audited"])


def test_recorded_findings_are_expected_ones(suite: Suite) -> None:
    options = (f"--customop-scan={PACKAGE}", *AUDITED, "--customop-baseline=known.toml")
    suite.run_apart(*options, "--customop-update-baseline", checks=None)
    result = suite.run_apart(*options, checks=None)
    result.assert_outcomes(passed=35, skipped=4, xfailed=4)


@pytest.mark.parametrize(
    ("package", "message"),
    [
        ("tests.scan_packages", "there is no package 'tests.scan_packages' here"),
        (
            "reference_opps",
            "there is no package 'reference_opps' here; did you mean 'reference_ops'?",
        ),
        ("json", "importing json registers no op with tensors"),
        ("dies", "importing dies ended the process by signal 11"),
        ("raises", "importing raises raises ZeroDivisionError"),
    ],
)
def test_wrong_use_is_one_error(suite: Suite, package: str, message: str) -> None:
    suite.write("dies.py", "import ctypes\nctypes.string_at(0)\n")
    suite.write("raises.py", "1 / 0\n")
    result = suite.run_apart(f"--customop-scan={package}", checks=None)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: --customop-scan: {message}*"])


def inputs_found(result: pytest.RunResult) -> str:
    return next(line.strip() for line in result.outlines if "inputs found for" in line)


def test_inputs_are_found_and_the_planted_defects_with_them(suite: Suite) -> None:
    result = suite.run_apart(
        f"--customop-scan={PACKAGE}",
        "--customop-report=report.json",
        "--customop-scan-seconds=20",
        checks="fake.forward,values.mutation,values.aliasing",
    )
    assert inputs_found(result).startswith("inputs found for 42 of 42 ops")
    failed = {
        (record["op"], record["check"], record["finding"])
        for record in suite.results()
        if record["outcome"] == "failed"
    }
    assert failed >= PLANTED
    # The others are what the audit reports too.
    assert {op for op, _, _ in failed} == {op for op, *_ in [*PLANTED, *FAILED]}


OPS = """
import os, signal, time
import torch
from torch import Tensor

@torch.library.custom_op("NS::scale", mutates_args=())
def scale(x: Tensor, n: int) -> Tensor:
    return x * n

scale.register_fake(lambda x, n: torch.empty_like(x))

@torch.library.custom_op("NS::careless", mutates_args=())
def careless(x: Tensor) -> Tensor:
    if x.dim() == 2:
        os.kill(os.getpid(), signal.SIGSEGV)
    if x.dim() == 3:
        time.sleep(1000)
    return x + 1

careless.register_fake(lambda x: torch.empty_like(x))

@torch.library.custom_op("NS::picky", mutates_args=())
def picky(x: Tensor, secret: int) -> Tensor:
    if (secret * 7919) % 1000003 != 4242:
        raise ValueError("this is not the secret")
    return x + 1

picky.register_fake(lambda x, secret: torch.empty_like(x))
"""


@pytest.fixture
def package(suite: Suite) -> Suite:
    suite.write("mylib.py", OPS.replace("NS", suite.ns))
    return suite


def test_a_crash_or_a_hang_ends_a_candidate_alone(package: Suite) -> None:
    result = package.run_apart(
        "--customop-scan=mylib",
        "--customop-scan-seconds=3",
        "-k",
        "careless",
        checks="fake.forward",
    )
    result.stdout.re_match_lines([rf"scan: .* {package.ns}::careless: .*, \d crashed, \d hung"])
    assert "inputs found for 2 of 3 ops" in inputs_found(result)


def test_what_ends_the_process_on_inputs_found_ends_a_child_alone(package: Suite) -> None:
    package.write(
        "fatal.py",
        """
import ctypes
import torch
from torch import Tensor

@torch.library.custom_op("NS_fatal::twice", mutates_args=())
def twice(x: Tensor) -> Tensor:
    if torch.is_grad_enabled() and x.dtype == torch.float64:
        ctypes.string_at(0)
    return x * 2

twice.register_fake(lambda x: torch.empty_like(x))

def backward(ctx, grad):
    ctypes.string_at(0)

twice.register_autograd(backward)
""".replace("NS", package.ns),
    )
    result = package.run_apart(
        "--customop-scan=fatal",
        "--customop-scan-seconds=1",
        "--customop-report=report.json",
        checks="fake.forward,fake.backward",
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    crashes = [record for record in package.results() if record["finding"] == "crash"]
    assert {record["check"] for record in crashes} >= {"fake.backward"}
    assert any(record["outcome"] == "passed" for record in package.results())


def test_what_is_not_found_is_told_with_the_last_rejections(package: Suite) -> None:
    options = ("--customop-scan=mylib", "--customop-scan-seconds=1")
    result = package.run_apart(*options, checks="fake.forward")
    at = next(i for i, line in enumerate(result.outlines) if "::picky: no inputs found (" in line)
    assert result.outlines[at + 1 : at + 3] == [
        "    rejection: ValueError: this is not the secret",
        f'    give an example: EXAMPLES["{package.ns}::picky"] = [(x, secret)]'
        "  # --customop-scan-examples",
    ]


def test_examples_are_taken_in_place_of_a_search(package: Suite) -> None:
    package.write(
        "mine.py",
        "import torch\nfrom pytest_customop import tensor\n"
        f'EXAMPLES = {{"{package.ns}::picky": [(tensor(2), 885885), (torch.ones(3), 885885)]}}\n',
    )
    secret = next(n for n in range(1000003) if n * 7919 % 1000003 == 4242)
    text = (package.path / "mine.py").read_text(encoding="utf-8").replace("885885", str(secret))
    package.write("mine.py", text)
    result = package.run_apart(
        "--customop-scan=mylib",
        "--customop-scan-examples=mine.py",
        "--customop-scan-seconds=1",
        "--customop-report=report.json",
        checks="fake.forward",
    )
    result.stdout.fnmatch_lines([f"scan: * {package.ns}::picky: 2 examples"])
    picky = [record for record in package.results() if "picky" in record["op"] and record["sample"]]
    assert [record["outcome"] for record in picky] == ["passed"] * 2


def test_the_samples_of_marked_tests_are_taken_too(package: Suite) -> None:
    package.write(
        "test_called.py",
        "import torch\nfrom pytest_customop import customop_cases, tensor\nimport mylib\n"
        f'@customop_cases("{package.ns}::scale", samples=[(tensor(2), 2)])\n'
        "def test_scale(): ...\n"
        f'@customop_cases("{package.ns}::scale", samples=[(torch.ones(5), 3)], id="more")\n'
        "def test_more(): ...\n",
    )
    result = package.run_apart(
        "--customop-scan=mylib",
        "--customop-scan-examples=test_called.py",
        "--customop-scan-seconds=0",
        checks="fake.forward",
    )
    result.stdout.fnmatch_lines([f"scan: * {package.ns}::scale: 2 examples"])


def test_wrong_examples_are_one_error(package: Suite) -> None:
    package.write("mine.py", f'EXAMPLES = {{"{package.ns}::scala": []}}\n')
    options = ("--customop-scan=mylib", "--customop-scan-examples=mine.py")
    result = package.run_apart(*options, checks=None)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --customop-scan: mine.py: EXAMPLES*did you mean*scale*"])


def test_the_saved_file_ends_as_the_scan_did(package: Suite) -> None:
    options = (
        "--customop-scan=mylib",
        "--customop-scan-seconds=1",
        "--customop-report=report.json",
    )
    result = package.run_apart(
        *options, "--customop-scan-save=test_mylib.py", checks="fake.forward,values.mutation"
    )
    result.stdout.fnmatch_lines(["scan: wrote 2 marked tests to test_mylib.py"])

    def outcomes() -> dict[str, str]:
        ran = [record for record in package.results() if record["check"] != "scan.audit"]
        return {record["nodeid"]: record["outcome"] for record in ran}

    scanned = outcomes()
    package.run_apart(
        "--customop-report=report.json", "test_mylib.py", checks="fake.forward,values.mutation"
    )
    assert outcomes() == scanned
    assert scanned


def test_workers_check_what_the_controller_has_found(package: Suite) -> None:
    options = (
        "--customop-scan=mylib",
        "--customop-scan-seconds=1",
        "--customop-report=report.json",
    )
    package.run_apart(*options, "-n", "2", checks="fake.forward")
    ran = [record for record in package.results() if record["check"] == "fake.forward"]
    assert {record["op"] for record in ran} == {f"{package.ns}::scale", f"{package.ns}::careless"}
    assert {record["outcome"] for record in ran} == {"passed"}
