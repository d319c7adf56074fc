"""`opcheck.test_schema`: torch's own utility of that name."""

from __future__ import annotations

from ...cases.case import Case
from ..check import Check
from .utility import run_utility, script


def check_schema(case: Case) -> None:
    """Run torch's `test_schema`."""
    run_utility(case, "test_schema")


CHECK = Check(
    name="opcheck.test_schema",
    summary="torch's own: the op writes to and returns what its schema declares",
    run=check_schema,
    variants=(),
    repro=script("test_schema"),
    catches=(
        "An argument that is written to, or an output that shares memory with an argument, "
        "without a declaration in the schema."
    ),
    cannot_see=(
        "Mutations smaller than the utility's tolerance, elements of a returned list that "
        "share memory, and aliasing in a layout other than the sample's."
    ),
    cost="calls",
)
