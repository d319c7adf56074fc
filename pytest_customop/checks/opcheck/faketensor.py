"""`opcheck.test_faketensor`: torch's own utility of that name."""

from __future__ import annotations

from ...cases.case import Case
from ..check import Check
from .utility import run_utility, script


def check_faketensor(case: Case) -> None:
    """Run torch's `test_faketensor`."""
    run_utility(case, "test_faketensor")


CHECK = Check(
    name="opcheck.test_faketensor",
    summary="torch's own: the fake kernel returns the metadata of the real one",
    run=check_faketensor,
    variants=(),
    repro=script("test_faketensor"),
    catches="An op that does not run on fake tensors, or whose fake outputs have other metadata.",
    cannot_see=(
        "Ops with a tag for which torch compares nothing (`dynamic_output_shape`, "
        "`data_dependent_output`, `inplace_view`); `fake.forward` does."
    ),
    cost="calls",
)
