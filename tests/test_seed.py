"""`relations.seed` on ops with an optional seed."""

import pytest

from tests.zoo import specimens


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("noise_that_takes_zero_for_no_seed", "failed"),
        ("noise_of_any_seed", "passed"),
        ("noise_that_rejects_zero", "passed"),
        ("noise_that_needs_a_seed", "passed"),
        ("noise_without_a_seed_at_zero", "passed"),
    ],
)
def test_what_an_op_does_with_a_seed_of_zero(name: str, outcome: str) -> None:
    """A seed that the op rejects takes nothing away from the other comparisons, which have passed."""
    results = specimens()[name].check(["relations.seed"])
    assert {result.outcome for result in results} == {outcome}
