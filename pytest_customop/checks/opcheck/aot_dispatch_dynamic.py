"""`opcheck.test_aot_dispatch_dynamic`: torch's own utility of that name."""

from __future__ import annotations

from ...cases.case import Case
from ...compat.fakes import symbolic_results_dropped
from ..check import Check
from .utility import run_utility, script


def check_aot_dispatch_dynamic(case: Case) -> None:
    """Run torch's `test_aot_dispatch_dynamic`."""
    with symbolic_results_dropped():
        run_utility(case, "test_aot_dispatch_dynamic")


CHECK = Check(
    name="opcheck.test_aot_dispatch_dynamic",
    summary="torch's own: traced with symbolic sizes, the op gives what it gave",
    run=check_aot_dispatch_dynamic,
    variants=(),
    repro=script("test_aot_dispatch_dynamic"),
    catches=(
        "An op that fails, or gives other outputs or gradients, when AOTAutograd traces it "
        "with dynamic sizes."
    ),
    cannot_see=(
        "What a backend makes of the traced graph: that is for `compile.*`. Outputs with a "
        "NaN, which torch compares as unequal to themselves."
    ),
    cost="trace",
)
