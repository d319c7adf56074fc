"""What a plain example hides and its variants show is reported; no correct op is, on any variant.

The quick set of variants runs the checks that it has in a session; the full set runs all that compile
nothing. By default, of the correct ops those run that are twins of an op which only its variants show.
`test_zoo.py` runs the samples; `python -m tests.zoo.plain` runs every check on one plain example of
each specimen, with variants off, quick and full.
"""

from pathlib import Path

import pytest
from verdicts import assert_scripts_fail, codes

from pytest_customop import CheckResult, check_op
from pytest_customop.checks import builtin_checks
from pytest_customop.declare.variant import KINDS, Variant
from tests.zoo import Specimen, specimens

ZOO = specimens()
SHOWN = {name: specimen for name, specimen in ZOO.items() if specimen.shown_by_variants}
TWINS = {name: specimen for name, specimen in ZOO.items() if SHOWN.keys() & specimen.twin_of}
# The full set, on which twins run, has every variant and every check of the quick one.
OTHERS = {
    name: specimen for name, specimen in ZOO.items() if not specimen.broken and name not in TWINS
}
CHECKS = [check for check in builtin_checks() if check.default and check.variants]
QUICK = [check.name for check in CHECKS if check.cheap or check.cheap_variants]
BAD = ("failed", "error", "noted")
SLOW = ("compile", "export", "gradcheck.double")
UNINITIALIZED = ("values.uninitialized", "uninitialized-output")
FULL = [check.name for check in CHECKS if not check.name.startswith(SLOW)]
assert set(QUICK) <= set(FULL)


def _of_variants(specimen: Specimen, results: list[CheckResult]) -> list[CheckResult]:
    """The results of the variants; no result of a sample itself is a failure."""
    sample_results = [result for result in results if result.place.variant is None]
    assert codes(sample_results, ("failed", "error")) == set()
    assert codes(sample_results, ("noted",)) <= specimen.noted()
    return [result for result in results if result.place.variant is not None]


def _failures(results: list[CheckResult]) -> str:
    return "\n\n".join(str(result) for result in results if result.outcome in BAD)


@pytest.mark.parametrize("specimen", SHOWN.values(), ids=list(SHOWN))
def test_only_a_variant_shows_what_is_wrong(specimen: Specimen, tmp_path: Path) -> None:
    checks = FULL if specimen.variant_set == "full" else QUICK
    results = _of_variants(specimen, specimen.check_with_variants(specimen.variant_set, checks))
    expected = {(check, code) for check, code in specimen.variants_show() if check in checks}
    if UNINITIALIZED in expected:  # what is in such memory may differ from call to call
        results = [result for result in results if result.finding != "outputs-not-repeatable"]
    assert codes(results, ("failed", "error")) == expected, _failures(results)
    noted = {(check, code) for check, code in specimen.variants_note() if check in checks}
    # What is a failure on one variant may be a note on another.
    assert codes(results, ("noted",)) - expected == noted, _failures(results)
    steps = {result.place.variant for result in results if result.outcome in ("failed", "noted")}
    assert steps >= set(specimen.shown_by)
    assert_scripts_fail(results, tmp_path / "script.py")


@pytest.mark.parametrize("specimen", TWINS.values(), ids=list(TWINS))
def test_its_twin_is_left_alone_in_the_full_set(specimen: Specimen) -> None:
    results = _of_variants(specimen, specimen.check_with_variants("full", FULL))
    assert codes(results, BAD) == set(), _failures(results)
    assert codes(results, ("passed",))


@pytest.mark.slow
@pytest.mark.parametrize("specimen", OTHERS.values(), ids=list(OTHERS))
def test_no_other_correct_op_is_reported(specimen: Specimen) -> None:
    results = _of_variants(specimen, specimen.check_with_variants("quick", QUICK))
    assert codes(results, BAD) == set(), _failures(results)


def test_every_kind_of_variants_shows_something() -> None:
    kinds = set()
    for specimen in SHOWN.values():
        variants: list[Variant] = []
        check_op(
            specimen.op(),
            specimen.samples,
            checks="fake.forward",
            # The function returns a reason to leave the variant out: none runs.
            variants=(
                specimen.variant_set,
                lambda variant, variants=variants: variants.append(variant) or "listed",
            ),
            **specimen.options,
        )
        shown = {variant.kind for variant in variants if variant.step in specimen.shown_by}
        assert shown, f"{specimen.name} has no variant {specimen.shown_by}"
        kinds |= shown
    assert kinds == set(KINDS)
