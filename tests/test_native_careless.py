"""C++ ops with mistakes that only threads, many calls or the end of memory show."""

from pathlib import Path

import pytest
from verdicts import codes

from pytest_customop import check_op, tensor
from tests.native import careless, ops

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def built(worker_folder: Path) -> None:
    """The ops, built once a session; workers of xdist wait for the first to build them."""
    why_not = ops.why_not()
    if why_not:
        pytest.skip(why_not)
    careless.build(worker_folder)


def _findings(name: str, check: str, *shape: int) -> set:
    results = check_op(f"zoo_careless::{name}", [(tensor(*shape),)], checks=check, variants=False)
    assert {one.check for one in results} == {check}
    assert not codes([one for one in results if one.unjudged], ("skipped",))
    return {code for _, code in codes(results, ("failed", "error"))}


def test_a_static_workspace_is_found_by_calls_at_once() -> None:
    assert _findings("static_workspace", "values.threads", 64, 64) == {"thread-unsafe"}


@pytest.mark.parametrize("name", ["thread_workspace", "locked_workspace"])
def test_a_workspace_of_the_thread_or_with_a_lock_is_right(name: str) -> None:
    assert _findings(name, "values.threads", 64, 64) == set()


@pytest.mark.parametrize(
    ("name", "codes"),
    [
        ("reads_past_end", {"out-of-bounds-read"}),
        ("reads_before_start", {"out-of-bounds-read"}),
        ("writes_past_end", {"out-of-bounds-write"}),
        ("reads_to_end", set()),
        ("writes_to_end", set()),
        ("reads_aligned_blocks", set()),
    ],
)
def test_memory_beside_an_argument_is_not_touched(name: str, codes: set[str]) -> None:
    assert _findings(name, "values.bounds", 5, 3) == codes


def test_a_workspace_that_is_never_freed_is_found() -> None:
    assert _findings("leaks_workspace", "state.leaks", 4, 3) == {"memory-leaked"}
    assert _findings("frees_workspace", "state.leaks", 4, 3) == set()
