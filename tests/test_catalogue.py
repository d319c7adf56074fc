"""The catalogue of findings, put together from the families of checks."""

from __future__ import annotations

import pytest

from pytest_customop import checks
from pytest_customop.checks import catalogue, families, report_order
from pytest_customop.findings import Explanation, general, registrations


def test_it_has_the_findings_of_every_family_and_the_general_ones() -> None:
    codes = [code for family in families() for code in family.findings]
    assert sorted(catalogue()) == sorted([*codes, *general.FINDINGS, *registrations.FINDINGS])


def test_a_finding_may_follow_from_a_whole_family() -> None:
    follows = catalogue()["compile-graph-break"].follows
    by_name = {family.name: set(family.findings) for family in families()}
    assert (
        set(follows) == by_name["opcheck"] | by_name["values"] | by_name["state"] | by_name["fake"]
    )
    assert len(follows) == len(set(follows))


def test_a_finding_that_follows_from_an_unknown_one_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    odd = {"odd-finding": Explanation("Odd.", "Make it even.", follows=("fake.*", "evne-finding"))}
    monkeypatch.setattr(general, "FINDINGS", {**general.FINDINGS, **odd})
    with pytest.raises(ValueError, match="'odd-finding' follows from 'evne-finding', which is not"):
        checks.catalogue.__wrapped__()


def test_of_checks_that_report_one_code_the_family_that_explains_it_comes_first() -> None:
    names = ["opcheck.test_schema", "compile.static", "values.mutation"]
    ordered = sorted(names, key=lambda name: report_order(name, "undeclared-mutation"))
    assert ordered[0] == "values.mutation"


def test_of_the_others_cheap_checks_come_first() -> None:
    names = ["compile.static", "fake.forward", "opcheck.test_schema"]
    ordered = sorted(names, key=lambda name: report_order(name, "eager-raises"))
    assert ordered == ["fake.forward", "compile.static", "opcheck.test_schema"]
