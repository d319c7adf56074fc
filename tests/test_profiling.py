"""A profiler that runs beside the checks keeps running."""

import cProfile
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

from pytest_customop import Sample, check_op, tensor
from pytest_customop.core.profiling import restore_profile


def _later() -> None:
    """Called after a profile function was restored."""


def _knows(profile: cProfile.Profile, function: Callable[[], None]) -> bool:
    profile.create_stats()
    return any(name == function.__name__ for _, _, name in vars(profile)["stats"])


def test_a_profiler_goes_on_after_a_check_with_a_profile_function() -> None:
    with torch.library._scoped_library("t_profiling", "DEF") as lib:
        lib.define("double(Tensor x) -> Tensor")
        lib.impl("double", lambda x: 2 * x.detach(), "CPU")
        lib.impl("double", lambda x: 2 * x.detach(), "AutogradCPU")
        profile = cProfile.Profile()
        with profile:
            results = check_op(
                torch.ops.t_profiling.double.default,
                [Sample((tensor(3),))],
                checks="backward.connected",
                variants=False,
            )
            _later()
        assert "error" not in {result.outcome for result in results}
        assert _knows(profile, _later)


@pytest.mark.parametrize("before", [None, lambda *event: None])
def test_a_function_is_restored(before: Any) -> None:
    kept = sys.getprofile()
    try:
        restore_profile(before)
        assert sys.getprofile() is before
    finally:
        restore_profile(kept)
