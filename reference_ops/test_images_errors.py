"""``crop`` and ``paste`` reject wrong arguments, and their fake kernels do so with the same message."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses import FakeTensorMode

pytest.importorskip(
    "torchvision",
    reason="crop and paste need torchvision: pip install 'pytest-customop[reference]'",
)
from reference_ops.images import crop, paste


def picture(*shape: int, **options: Any) -> Tensor:
    return torch.zeros(shape or (3, 5, 6), **options)


def patch(*shape: int, **options: Any) -> Tensor:
    return torch.zeros(shape or (3, 2, 1), **options)


def both_raise(call: Callable[[], Any], kind: type[Exception], message: str) -> None:
    """The real kernel raises this, and the fake kernel exactly the same."""
    with pytest.raises(kind, match=re.escape(message)) as real:
        call()
    with FakeTensorMode(), pytest.raises(kind) as fake:
        call()
    assert str(fake.value) == str(real.value)


@pytest.mark.parametrize("box", [[4, 0, 3, 2], [0, 2, 3, 1]], ids=["across", "down"])
def test_an_inverted_box_is_rejected(box: list[int]) -> None:
    message = f"crop: box must have x0 <= x1 and y0 <= y1, got {box} (x0, y0, x1, y1)"
    both_raise(lambda: crop(picture(), box), ValueError, message)


@pytest.mark.parametrize(
    "box",
    [[-1, 0, 3, 2], [0, -1, 3, 2], [0, 0, 7, 5], [0, 0, 6, 6], [7, 0, 7, 5]],
    ids=["left", "above", "right", "below", "empty"],
)
def test_a_box_outside_the_picture_is_rejected(box: list[int]) -> None:
    message = (
        f"crop: box must lie inside pic, got box {box} (x0, y0, x1, y1) and a pic 6 wide and 5 high"
    )
    both_raise(lambda: crop(picture(), box), ValueError, message)


@pytest.mark.parametrize(
    "coord", [[-1, 0], [0, -1], [6, 0], [0, 4]], ids=["left", "above", "right", "below"]
)
def test_a_patch_over_the_edge_is_rejected(coord: list[int]) -> None:
    message = (
        f"paste: im2 must lie inside im1, got an im2 1 wide and 2 high at coord {coord} (x, y) "
        "and an im1 6 wide and 5 high"
    )
    both_raise(lambda: paste(picture(), patch(), coord), ValueError, message)


ONE = [0, 0, 1, 1]
RANK = "must be (channels, height, width), got shape"
DTYPE = "must be float16, bfloat16, float32 or float64, got torch."
BOX = "crop: box must be 4 integers (x0, y0, x1, y1), got"
COORD = "paste: coord must be 2 integers (x, y), got"
BOTH = "paste: im1 and im2 must"


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: crop(picture(5, 6), ONE), ValueError, f"crop: pic {RANK} [5, 6]"),
        (lambda: crop(picture(dtype=torch.uint8), ONE), TypeError, f"crop: pic {DTYPE}uint8"),
        (lambda: crop(picture(), [0, 0, 1]), ValueError, f"{BOX} [0, 0, 1]"),
        (lambda: paste(patch(5, 6), patch(), [0, 0]), ValueError, f"paste: im1 {RANK} [5, 6]"),
        (lambda: paste(picture(), patch(2, 1), [0, 0]), ValueError, f"paste: im2 {RANK} [2, 1]"),
        (
            lambda: paste(picture(), patch(dtype=torch.int32), [0, 0]),
            TypeError,
            f"paste: im2 {DTYPE}int32",
        ),
        (
            lambda: paste(picture(), patch(dtype=torch.float64), [0, 0]),
            TypeError,
            f"{BOTH} have one dtype, got torch.float32 and torch.float64",
        ),
        (
            lambda: paste(picture(), patch(device="meta"), [0, 0]),
            ValueError,
            f"{BOTH} be on one device, got cpu and meta",
        ),
        (
            lambda: paste(picture(), patch(1, 2, 1), [0, 0]),
            ValueError,
            f"{BOTH} have the same number of channels, got 3 and 1",
        ),
        (lambda: paste(picture(), patch(), ONE), ValueError, f"{COORD} [0, 0, 1, 1]"),
    ],
    ids=[
        "rank-of-pic",
        "dtype-of-pic",
        "length-of-box",
        "rank-of-im1",
        "rank-of-im2",
        "dtype-of-im2",
        "dtypes",
        "devices",
        "channels",
        "length-of-coord",
    ],
)
def test_other_mistakes_are_rejected(
    call: Callable[[], Any], kind: type[Exception], message: str
) -> None:
    both_raise(call, kind, message)


def test_a_sparse_picture_is_rejected() -> None:
    # torch 2.4 rejects it itself, before any kernel runs.
    message = r"pic must be a dense tensor, got layout torch.sparse_coo|Cannot access storage of"
    with pytest.raises((TypeError, NotImplementedError), match=message):
        crop(torch.zeros(3, 5, 5).to_sparse(), [0, 0, 1, 1])
