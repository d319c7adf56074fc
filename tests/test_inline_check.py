"""The fixture `customop_check` with options: checks, variants, tolerances, a reference, known failures."""

from __future__ import annotations

import pytest
from kit import Suite

# An op whose fake kernel is wrong for matrices alone, and one with arguments named as the options are.
MORE = """
from pytest_customop import ConformanceError, Known

@torch.library.custom_op("NS::wrong", mutates_args=())
def wrong(x: torch.Tensor, n: int) -> torch.Tensor:
    return (x * n).mT.contiguous().mT if x.dim() == 2 else x * n

@wrong.register_fake
def _(x, n):
    return torch.empty_like(x)

@torch.library.custom_op("NS::blend", mutates_args=())
def blend(x: torch.Tensor, *, reference: float, checks: int = 3) -> torch.Tensor:
    return x * reference

@blend.register_fake
def _(x, *, reference, checks=3):
    return torch.empty_like(x)

VECTOR, MATRIX = torch.ones(3), torch.ones(3, 4)
"""


def run(suite: Suite, body: str, *args: str, checks: str | None = None) -> pytest.RunResult:
    """Run a test with this body, which requests `customop_check`."""
    lines = "\n    ".join(body.strip().splitlines())
    suite.test(f"{MORE}\ndef test_it(customop_check):\n    {lines}\n")
    return suite.run(*args, checks=checks)


def known(body: str) -> str:
    """A call that fails `fake.forward` with `fake-stride-mismatch`, with this known failure."""
    return f"customop_check(wrong, MATRIX, 2, checks='fake.forward', known=[Known({body})])"


def test_checks_of_one_code_are_listed_together_and_causes_come_first(suite: Suite) -> None:
    result = run(
        suite, "customop_check(wrong, MATRIX, 2, checks=['fake.forward', 'compile', 'opcheck'])"
    )
    result.assert_outcomes(failed=1)
    text = result.stdout.str()
    assert (
        "pytest_customop.ConformanceError: 4 checks failed (fake.forward, opcheck.test_faketensor: "
        "fake-stride-mismatch; compile.dynamic, compile.static: compile-stride-assert)" in text
    )
    assert text.count("fake strides (4, 1), real (1, 3)") == 1
    assert "customop_check = <customop_check>" in text


def test_one_error_of_several_checks_is_shown_once(suite: Suite) -> None:
    suite.write(
        "conftest.py",
        "from pytest_customop import Check\n\ndef breaks(case):\n    raise RuntimeError('broken')\n\n"
        "def pytest_customop_register_checks():\n"
        "    return [Check(f'own.{name}', 'breaks', breaks) for name in 'ab']\n",
    )
    result = run(suite, "customop_check(plain, VECTOR)", checks="own")
    text = result.stdout.str()
    assert "2 checks failed (own.a, own.b: error)" in text
    assert text.count("raise RuntimeError('broken')") == 1
    assert "error: the check broke: RuntimeError: broken (as above) [own.b]" in text


def test_checks_and_tolerances_and_a_reference(suite: Suite) -> None:
    result = run(
        suite,
        """
near = lambda x, n: x * n * 1.01
customop_check(scale, VECTOR, 2, reference=near, tolerances=(0.1, 0.1), checks="reference")
customop_check(scale, VECTOR, n=2, checks=["own.passes"])
with pytest.raises(ConformanceError, match="reference.values: reference-mismatch") as caught:
    customop_check(scale, VECTOR, 2, reference=near, checks=["reference"])
assert [one.check for one in caught.value.results] == ["reference.values"]
""",
    )
    result.assert_outcomes(passed=1)


def test_variants_only_where_they_are_asked_for(suite: Suite) -> None:
    body = """
customop_check(shrink, torch.ones(5, 4), 2, checks="fake.forward")
with pytest.raises(ConformanceError, match="1 check failed .fake.forward: ") as caught:
    customop_check(shrink, torch.ones(5, 4), 2, checks="fake.forward", variants=GIVEN)
assert {one.place.aspect for one in caught.value.results} == {ASPECT}
"""
    shrink = """
@torch.library.custom_op("NS::shrink", mutates_args=())
def shrink(x: torch.Tensor, keep: int) -> torch.Tensor:
    return x[:, :keep].clone()

@shrink.register_fake
def _(x, keep):
    return x.new_empty(x.shape[0], keep)
"""
    indented = "".join(f"    {line}\n" for line in body.strip().splitlines())
    for variants, aspect in (("'layout'", "'layout'"), ("('full', 'shape')", "'shape'")):
        source = indented.replace("GIVEN", variants).replace("ASPECT", aspect)
        suite.test(f"{MORE}{shrink}\ndef test_it(customop_check):\n{source}")
        suite.run("--customop-variants=quick", checks=None).assert_outcomes(passed=1)
    result = suite.run("--customop-variants=off", checks=None)
    result.stdout.fnmatch_lines(["*DID NOT RAISE*"])


def test_the_session_says_which_variants_true_means(suite: Suite) -> None:
    body = "customop_check(scale, VECTOR, 2, variants=True)"
    result = run(suite, body, "--customop-variants=1", checks="fake.forward")
    result.stdout.fnmatch_lines(["Variants of the samples:", f"  {suite.ns}::scale: 1 tried*"])


def test_a_known_failure_raises_nothing_and_is_listed(suite: Suite) -> None:
    body = known("check='fake', finding='fake-stride-mismatch', reason='#12'")
    result = run(suite, body, "--customop-report=report.json")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["Known failures:", "  fake-stride-mismatch * 1 case  #12"])
    (record,) = suite.results()
    assert (record["outcome"], record["known"]) == ("xfailed", "#12")


def test_another_finding_than_the_known_one_raises(suite: Suite) -> None:
    result = run(suite, known("finding='fake-shape-mismatch', reason='#12'"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *known  another finding is known here: fake-shape-mismatch"])


@pytest.mark.parametrize("variant", ["", ", variant='*'"])
def test_a_known_failure_that_passes_raises(suite: Suite, variant: str) -> None:
    body = f"""customop_check(
    scale, VECTOR, 2, checks="fake.forward", variants="shape", known=[Known(reason="#12"{variant})]
)"""
    args = ("--customop-variants=quick",)
    result = run(suite, body, *args)
    result.assert_outcomes(failed=1)
    text = result.stdout.str()
    assert "1 check failed (fake.forward: known-failure-passes)" in text
    assert (
        f"delete Known({variant.strip(', ')}{', ' * bool(variant)}reason='#12') from known=" in text
    )
    result = run(suite, body.replace("#12", '#12", strict=False, finding="own-finding'), *args)
    result.assert_outcomes(passed=1)


def test_a_known_failure_that_never_runs(suite: Suite) -> None:
    body = """
def hangs(x, n):
    raise SystemExit("it ran")

customop_check(
    scale, VECTOR, 2, reference=hangs, checks=["reference", "own.passes"],
    known=[Known(check="reference", run=False, reason="#12")],
)"""
    result = run(suite, body)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["Known failures:", "  not run * 1 case  #12"])


def test_an_op_with_keywords_named_as_the_options(suite: Suite) -> None:
    result = run(
        suite,
        """
customop_check.with_options(checks="own.passes")(blend, VECTOR, reference=2.0, checks=4)
customop_check.with_options()(blend, VECTOR, reference=2.0)
customop_check(blend, VECTOR, reference=2.0)
""",
        checks="own",
    )
    result.assert_outcomes(failed=1)
    text = (
        f"'reference' is an argument of {suite.ns}::blend and an option of customop_check: write "
    )
    assert f"{text}customop_check.with_options(...)(op, ...)" in result.stdout.str()


@pytest.mark.parametrize(
    ("keyword", "message"),
    [
        ("checks='fake.forwrd'", "unknown check 'fake.forwrd'; did you mean 'fake.forward'?"),
        (
            "checks='fake.forward, gradcheck'",
            "unknown check 'fake.forward, gradcheck'; did you mean the list ['fake.forward', 'gradcheck']?",
        ),
        (
            "variants='ful'",
            "variants: unknown amount or kind of variants 'ful'; did you mean 'full'?",
        ),
        ("variant='full'", "unknown option 'variant'; did you mean 'variants'?"),
        ("tolerances=3", "tolerances is 3: give (rtol, atol)"),
        ("reference=lambda x: x", "reference does not take the arguments of samples[0]: "),
        ("known=[Known(reason='')]", "known[0] has the reason '': say why"),
        ("known=[Known(reason='a', sample=4)]", "known[0] matches no case: unknown sample '4'"),
    ],
)
def test_a_wrong_option(suite: Suite, keyword: str, message: str) -> None:
    result = run(suite, f"customop_check(scale, VECTOR, 2, {keyword})")
    result.assert_outcomes(failed=1)
    assert f"MarkError: customop_check: {message}" in result.stdout.str()


def test_the_documented_switch_from_opcheck(suite: Suite) -> None:
    suite.test("""
@pytest.fixture
def opcheck(customop_check):
    return lambda op, args, kwargs=None, **_: customop_check(op, *args, **(kwargs or {}))

def test_old(opcheck):
    opcheck(scale, (torch.ones(3), 2))
    opcheck("NS::scale", (torch.ones(3),), {"n": 2}, test_utils="test_schema")
""")
    suite.run().assert_outcomes(passed=1)
