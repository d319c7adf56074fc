"""What a plain example hides and its variants show is reported; no correct op is, on any variant.

Here run the checks that the quick set of variants has; for the twins in the full set, all that
compile nothing. `test_zoo.py` runs every check on the samples; `python -m tests.zoo.plain` runs every
check on one plain example of each specimen, with variants off, quick and full.
"""

from pathlib import Path

import pytest
from verdicts import assert_scripts_fail, codes

from pytest_customop import CheckResult, check_op
from pytest_customop.checks import builtin_checks
from pytest_customop.declare.variant import KINDS, SEPARATOR, Variant
from tests.zoo import Specimen, specimens

ZOO = specimens()
NEAR = {name: one for name, one in ZOO.items() if one.near}
TWINS = {name: one for name, one in ZOO.items() if NEAR.keys() & one.twin_of}
CORRECT = {name: one for name, one in ZOO.items() if not one.broken}
CHECKS = [one for one in builtin_checks() if one.default and one.variants]
QUICK = [one.name for one in CHECKS if one.cheap]
SLOW = ("compile", "export", "gradcheck.double")
FULL = [one.name for one in CHECKS if not one.name.startswith(SLOW)]


def _beside(results: list[CheckResult]) -> list[CheckResult]:
    """The results of the variants; none of the samples' own is a failure."""
    own = [one for one in results if SEPARATOR not in one.place["sample"]]
    assert codes(own, ("failed", "error")) == set()
    return [one for one in results if SEPARATOR in one.place["sample"]]


def _told(results: list[CheckResult]) -> str:
    return "\n\n".join(str(one) for one in results if one.outcome in ("failed", "error"))


@pytest.mark.parametrize("specimen", NEAR.values(), ids=list(NEAR))
def test_only_a_variant_shows_what_is_wrong(specimen: Specimen, tmp_path: Path) -> None:
    checks = FULL if specimen.amount == "full" else QUICK
    beside = _beside(specimen.beside(specimen.amount, checks))
    expected = {(check, code) for check, code in specimen.variants_show() if check in checks}
    assert codes(beside, ("failed", "error")) == expected, _told(beside)
    failed = [one for one in beside if one.outcome == "failed"]
    steps = {one.place["sample"].partition(SEPARATOR)[2] for one in failed}
    assert steps >= set(specimen.steps)
    assert_scripts_fail(beside, tmp_path / "script.py")


@pytest.mark.parametrize("specimen", TWINS.values(), ids=list(TWINS))
def test_its_twin_is_left_alone_in_the_full_set(specimen: Specimen) -> None:
    beside = _beside(specimen.beside("full", FULL))
    assert codes(beside, ("failed", "error")) == set(), _told(beside)
    assert codes(beside, ("passed",))


@pytest.mark.parametrize("specimen", CORRECT.values(), ids=list(CORRECT))
def test_no_correct_op_is_reported(specimen: Specimen) -> None:
    beside = _beside(specimen.beside("quick", QUICK))
    assert codes(beside, ("failed", "error")) == set(), _told(beside)


def test_every_kind_of_variants_shows_something() -> None:
    kinds = set()
    for specimen in NEAR.values():
        found: list[Variant] = []
        check_op(
            specimen.op(),
            specimen.samples,
            checks="fake",
            variants=lambda one, found=found: found.append(one),  # returns None: run it
            amount=specimen.amount,
            **specimen.options,
        )
        shown = {one.kind for one in found if one.step in specimen.steps}
        assert shown, f"{specimen.name} has no variant {specimen.steps}"
        kinds |= shown
    assert kinds == set(KINDS)
