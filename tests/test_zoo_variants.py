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
SHOWN = {name: one for name, one in ZOO.items() if one.shown_by_variants}
TWINS = {name: one for name, one in ZOO.items() if SHOWN.keys() & one.twin_of}
CORRECT = {name: one for name, one in ZOO.items() if not one.broken}
CHECKS = [one for one in builtin_checks() if one.default and one.variants]
QUICK = [one.name for one in CHECKS if one.cheap or one.cheap_variants]
BAD = ("failed", "error", "noted")
SLOW = ("compile", "export", "gradcheck.double")
UNINITIALIZED = ("values.uninitialized", "uninitialized-output")
FULL = [one.name for one in CHECKS if not one.name.startswith(SLOW)]


def _of_variants(specimen: Specimen, results: list[CheckResult]) -> list[CheckResult]:
    """The results of the variants; no result of a sample itself is a failure."""
    own = [one for one in results if one.place.variant is None]
    assert codes(own, ("failed", "error")) == set()
    assert codes(own, ("noted",)) <= specimen.noted()
    return [one for one in results if one.place.variant is not None]


def _failures(results: list[CheckResult]) -> str:
    return "\n\n".join(str(one) for one in results if one.outcome in BAD)


@pytest.mark.parametrize("specimen", SHOWN.values(), ids=list(SHOWN))
def test_only_a_variant_shows_what_is_wrong(specimen: Specimen, tmp_path: Path) -> None:
    checks = FULL if specimen.variant_set == "full" else QUICK
    found = _of_variants(specimen, specimen.check_with_variants(specimen.variant_set, checks))
    expected = {(check, code) for check, code in specimen.variants_show() if check in checks}
    if UNINITIALIZED in expected:  # what is in such memory may differ from call to call
        found = [one for one in found if one.finding != "outputs-not-repeatable"]
    assert codes(found, ("failed", "error")) == expected, _failures(found)
    noted = {(check, code) for check, code in specimen.variants_note() if check in checks}
    # What is a failure on one variant may be a note on another.
    assert codes(found, ("noted",)) - expected == noted, _failures(found)
    steps = {one.place.variant for one in found if one.outcome in ("failed", "noted")}
    assert steps >= set(specimen.shown_by)
    assert_scripts_fail(found, tmp_path / "script.py")


@pytest.mark.parametrize("specimen", TWINS.values(), ids=list(TWINS))
def test_its_twin_is_left_alone_in_the_full_set(specimen: Specimen) -> None:
    found = _of_variants(specimen, specimen.check_with_variants("full", FULL))
    assert codes(found, BAD) == set(), _failures(found)
    assert codes(found, ("passed",))


@pytest.mark.slow
@pytest.mark.parametrize("specimen", CORRECT.values(), ids=list(CORRECT))
def test_no_correct_op_is_reported(specimen: Specimen) -> None:
    found = _of_variants(specimen, specimen.check_with_variants("quick", QUICK))
    assert codes(found, BAD) == set(), _failures(found)


def test_every_kind_of_variants_shows_something() -> None:
    kinds = set()
    for specimen in SHOWN.values():
        found: list[Variant] = []
        check_op(
            specimen.op(),
            specimen.samples,
            checks="fake",
            # The function returns None: run it.
            variants=(specimen.variant_set, lambda one, found=found: found.append(one)),
            **specimen.options,
        )
        shown = {one.kind for one in found if one.step in specimen.shown_by}
        assert shown, f"{specimen.name} has no variant {specimen.shown_by}"
        kinds |= shown
    assert kinds == set(KINDS)
