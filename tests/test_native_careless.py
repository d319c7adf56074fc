"""C++ ops with mistakes that only threads, many calls, the end of memory or large strides show."""

from pathlib import Path

import pytest
from verdicts import codes

from pytest_customop import check_op, tensor
from tests.native import careless, ops

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def built(worker_folder: Path) -> None:
    """The ops, built once per session; workers of xdist wait for the first to build them."""
    why_not = ops.why_not()
    if why_not:
        pytest.skip(why_not)
    careless.build(worker_folder)


def _findings(name: str, check: str, *shape: int) -> set:
    results = check_op(f"zoo_careless::{name}", [(tensor(*shape),)], checks=check, variants=False)
    assert {result.check for result in results} == {check}
    assert not codes([result for result in results if result.unjudged], ("skipped",))
    return {code for _, code in codes(results, ("failed", "error"))}


def test_a_static_workspace_is_found_by_calls_at_once() -> None:
    assert _findings("static_workspace", "values.threads", 256, 256) == {"thread-unsafe"}


@pytest.mark.parametrize("name", ["thread_workspace", "locked_workspace"])
def test_a_workspace_of_the_thread_or_with_a_lock_is_right(name: str) -> None:
    assert _findings(name, "values.threads", 256, 256) == set()


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


@pytest.mark.parametrize("shape", [(2, 5), (3, 3), (4, 6), (64, 64)])
@pytest.mark.parametrize("name", ["int_offsets", "int_strides", "unsigned_offsets", "accessor_32"])
def test_offsets_and_strides_in_32_bits_are_found(name: str, shape: tuple[int, ...]) -> None:
    assert _findings(name, "values.wide_strides", *shape) == {"offset-overflow"}


@pytest.mark.parametrize("shape", [(2, 5), (4, 6), (64, 64), (300, 2)])
@pytest.mark.parametrize("name", ["wide_offsets", "checked_int_offsets", "dense_int_offsets"])
def test_offsets_in_64_bits_or_of_rows_near_each_other_are_right(
    name: str, shape: tuple[int, ...]
) -> None:
    assert _findings(name, "values.wide_strides", *shape) == set()


@pytest.mark.parametrize(
    ("name", "code"),
    [("copies_storage", "nothing-to-check"), ("aborts_on_large_strides", "checker-limit")],
)
def test_what_does_not_show_an_offset_is_not_judged(name: str, code: str) -> None:
    (result,) = check_op(
        f"zoo_careless::{name}", [(tensor(4, 6),)], checks="values.wide_strides", variants=False
    )
    assert (result.outcome, result.skip_code) == ("skipped", code)
