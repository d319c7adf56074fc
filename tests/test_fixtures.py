"""The fixtures: a case handed to the test's body, checks by hand, devices and dtypes."""

from __future__ import annotations

import pytest
from kit import ABSENT, Suite, assert_no_plugin_frames


def test_a_case_says_what_it_is(suite: Suite) -> None:
    suite.test(
        """
@customop_cases(
    scale, [Sample((tensor(3, 4),), {"n": 2}, id="wide")], dtypes=torch.float64,
    layouts="transposed", requires_grad=True,
)
def test_scale(customop_case):
    assert customop_case.op is torch.ops.NS.scale.default
    assert customop_case.device == "cpu"
    assert customop_case.dtype == torch.float64
    assert customop_case.requires_grad is True
    assert customop_case.layout == "transposed"
    assert customop_case.sample_id == "wide"
    (x,) = customop_case.args
    assert x.stride() == (1, 3)
    assert x.requires_grad
    assert customop_case.kwargs == {"n": 2}
    assert "NS::scale cpu-float64-withgrad-transposed-wide" in repr(customop_case)
""".replace("torch.ops.NS", "getattr(torch.ops, 'NS::'.strip(':'))")
    )
    suite.run(checks="body").assert_outcomes(passed=1)


def test_every_call_has_fresh_inputs_and_args_are_those_of_the_last(suite: Suite) -> None:
    suite.test("""
@torch.library.custom_op("NS::add_to", mutates_args={"out"})
def add_to(x: torch.Tensor, out: torch.Tensor) -> None:
    out.add_(x)

@customop_cases(add_to, [(tensor(3), tensor(3))], requires_grad=False)
def test_add_to(customop_case):
    before = [value.clone() for value in customop_case.args]
    assert customop_case() is None
    x, out = customop_case.args
    assert torch.equal(out, before[0] + before[1])
    assert customop_case() is None
    assert customop_case.args[1] is not out
    assert torch.equal(customop_case.args[1], out)

    args, kwargs = customop_case.inputs()
    assert torch.equal(args[1], before[1])
    assert kwargs == {}
    args[1].zero_()
    assert torch.equal(customop_case.inputs()[0][1], before[1])
""")
    suite.run(checks="body").assert_outcomes(passed=1)


def test_gradients_arrive_at_the_last_call_s_arguments(suite: Suite) -> None:
    suite.test("""
@customop_cases(scale, [(tensor(3), 2)], requires_grad=True)
def test_scale(customop_case):
    customop_case().sum().backward()
    assert torch.equal(customop_case.args[0].grad, torch.full((3,), 2.0))
""")
    suite.run(checks="body").assert_outcomes(passed=1)


def test_a_call_raises_what_the_op_raises(suite: Suite) -> None:
    suite.test("""
@torch.library.custom_op("NS::refuses", mutates_args=())
def refuses(x: torch.Tensor) -> torch.Tensor:
    raise IndexError("no such row")

@customop_cases(refuses, [(tensor(3),)], requires_grad=False)
def test_rejects(customop_case):
    with pytest.raises(IndexError, match="no such row"):
        customop_case()
""")
    suite.run(checks="body").assert_outcomes(passed=1)


def test_customop_check_passes(suite: Suite) -> None:
    suite.test("""
def test_by_hand(customop_check):
    assert customop_check(scale, torch.ones(3), 2) is None
    customop_check("NS::scale", torch.ones(3), n=2)
""")
    suite.run(checks="own,opcheck.test_schema").assert_outcomes(passed=1)


def test_customop_check_raises_one_error_that_lists_every_finding(suite: Suite) -> None:
    suite.test("""
def test_by_hand(customop_check):
    customop_check(scale, torch.ones(3), 2)

def test_the_error(customop_check):
    with pytest.raises(AssertionError) as caught:
        customop_check(scale, torch.ones(3), 2)
    assert [one.check for one in caught.value.results] == ["own.breaks", "own.fails"]
""")
    result = suite.run(checks="own.breaks,own.fails,own.passes,own.skips")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "E *ConformanceError: 2 checks failed (own.breaks: error; own.fails: own-finding)",
            "E *error: the check broke: RuntimeError: a broken check",
            "E *own-finding: output is wrong",
            "E *the evidence",
            "E *fix    change it",
        ]
    )


NO_FAKE = """
@torch.library.custom_op("NS::no_fake", mutates_args=())
def no_fake(x: torch.Tensor) -> torch.Tensor:
    return x.clone()

def test_by_hand(customop_check):
    customop_check(no_fake, torch.ones(3))
"""


def test_customop_check_reports_one_defect_once(suite: Suite) -> None:
    suite.test(NO_FAKE)
    result = suite.run(checks="fake,opcheck,compile.static")
    result.assert_outcomes(failed=1)
    text = result.stdout.str()
    checks = "compile.static, opcheck.test_aot_dispatch_dynamic"
    assert text.count("has no fake kernel") == 1
    assert f"also   {checks}, opcheck.test_faketensor" in text
    assert "ConformanceError: 4 checks failed (fake.forward, compile.static, opcheck." in text


def test_customop_check_shows_the_test_and_not_the_plugin(suite: Suite) -> None:
    suite.test(
        "def test_fails(customop_check):\n    customop_check(scale, torch.ones(3), 2)\n\n"
        "def test_wrong(customop_check):\n    customop_check(scale, torch.ones(3), 'two')\n"
    )
    result = suite.run(checks="own.fails")
    result.assert_outcomes(failed=2)
    assert_no_plugin_frames(result)
    for name, error in (("test_fails", "ConformanceError"), ("test_wrong", "MarkError")):
        line = suite.line_of(f"def {name}") + 1
        assert f"test_it.py:{line}: {error}" in result.outlines


def test_one_check_by_hand_is_summed_up_by_its_error(
    suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "1")  # the summary's lines are not cut
    suite.test("def test_by_hand(customop_check):\n    customop_check(scale, torch.ones(3), 2)\n")
    result = suite.run(checks="own.fails")
    lines = [line for line in result.outlines if line.startswith("FAILED test_it.py::test_by_hand")]
    assert len(lines) == 1
    assert "ConformanceError: 1 check failed (own.fails: own-finding)" in lines[0]


def test_an_op_that_raises_fails_every_check_by_hand_and_is_shown_once(suite: Suite) -> None:
    suite.test("""
@torch.library.custom_op("NS::raises", mutates_args=())
def raises(x: torch.Tensor) -> torch.Tensor:
    raise IndexError("no such row")

def test_by_hand(customop_check):
    customop_check(raises, torch.ones(3))
""")
    result = suite.run(checks="own.passes,own.skips")
    text = result.stdout.str()
    assert "2 checks failed (own.passes, own.skips: eager-raises)" in text
    assert text.count("eager-raises: ") == 1
    assert "also   own.skips" in text


def test_customop_check_is_counted_in_the_summary(suite: Suite) -> None:
    suite.test("def test_by_hand(customop_check):\n    customop_check(scale, torch.ones(3), 2)\n")
    result = suite.run(checks="own.fails,own.passes")
    result.stdout.fnmatch_lines([f"{suite.ns}::scale *1 failed, 1 ok", "  own-finding *1 case *"])


@pytest.mark.parametrize(
    ("call", "reported"),
    [
        ('customop_check("NS::scal", torch.ones(3), 2)', "did you mean 'NS::scale'?"),
        ('customop_check(scale, torch.ones(3), "2")', "argument 'n' is an int, not '2' (str)"),
    ],
)
def test_customop_check_used_wrongly(suite: Suite, call: str, reported: str) -> None:
    suite.test(f"def test_by_hand(customop_check):\n    {call}\n")
    result = suite.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"E *customop_check: *{reported.replace('NS', suite.ns)}*"])


def test_customop_check_in_a_parametrized_test_of_a_class(suite: Suite) -> None:
    suite.test("""
class TestByHand:
    @pytest.mark.parametrize("n", [1, 2])
    def test_it(self, customop_check, n, customop_device):
        customop_check(scale, torch.ones(3, device=customop_device), n)
""")
    suite.run().assert_outcomes(passed=2)


def test_devices_and_dtypes_for_tests_of_any_kind(suite: Suite) -> None:
    suite.test("""
def test_both(customop_device, customop_dtype):
    assert torch.ones(1, device=customop_device, dtype=customop_dtype).dtype == customop_dtype
""")
    assert suite.ids() == ["test_both[cpu-float32]"]
    options = (f"--customop-devices=cpu,{ABSENT}", "--customop-dtypes=float64,half")
    result = suite.run("-rs", "-v", *options)
    result.assert_outcomes(passed=2, skipped=2)
    result.stdout.fnmatch_lines_random(
        [
            "*test_both[[]cpu-float64] PASSED*",
            "*test_both[[]cpu-float16] PASSED*",
            f"*test_both[[]{ABSENT}-float64] SKIPPED*",
            f"SKIPPED*device {ABSENT} is not available: *",
        ]
    )


def test_a_device_that_is_required_and_absent(suite: Suite) -> None:
    suite.test("def test_device(customop_device): ...\n")
    result = suite.run(f"--customop-devices=cpu,{ABSENT}", "--customop-require-devices")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(
        [f"device {ABSENT} is not available: *(--customop-require-devices)"]
    )
