"""`opcheck.test_aot_dispatch_dynamic`: torch's own utility of that name."""

from __future__ import annotations

from ...cases.case import Case
from ...compat.fakes import symbolic_results_dropped
from ...core import rng
from ..check import Check
from ..compile.errors import compiler_session
from . import stored_pass
from .utility import run_utility, script, skip_if_nothing_runs

_NAME = "test_aot_dispatch_dynamic"


def check_aot_dispatch_dynamic(case: Case) -> None:
    """Run torch's `test_aot_dispatch_dynamic`, unless it has passed before and nothing has changed."""
    skip_if_nothing_runs(case, _NAME)
    with compiler_session():
        key = stored_pass.key_of(case)
        if key is not None and stored_pass.passes(key, case):
            return
    rng.seed(case.seed)
    with symbolic_results_dropped():
        run_utility(case, _NAME)
    if key is not None:
        stored_pass.store(key)


CHECK = Check(
    name="opcheck.test_aot_dispatch_dynamic",
    summary="torch's own: traced with symbolic sizes, the op gives the same results as in eager mode",
    run=check_aot_dispatch_dynamic,
    variants=(),
    repro=script(_NAME),
    catches=(
        "An op that fails, or gives other outputs or gradients, when AOTAutograd traces it "
        "with dynamic sizes. If `compile.dynamic` runs too, a success stored on disk by an earlier session "
        "counts as long as the op's code, its trace and all settings are unchanged; "
        "`TORCHINDUCTOR_FORCE_DISABLE_CACHES=1` turns that off."
    ),
    cannot_see=(
        "Defects that appear when a backend compiles the traced graph: see `compile.*`. "
        "Outputs with a NaN, which torch compares as unequal to themselves."
    ),
    cost="trace",
)
