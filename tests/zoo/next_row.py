"""Ops of pictures in which an element depends on its neighbours."""

import functools

import torch
from torch import Tensor

from pytest_customop import tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager")
NEXT_ROW = {"relations.next_row": "row-reaches-next"}
PICTURE = (tensor(5, 6),)
SAID = "The sum of each pixel of an image `x` of shape (H, W) and its neighbours; 0 outside."


def _stencil(name, said, offsets, kernel):
    """An op that adds up pixels at some offsets (rows, columns); `kernel` moves an image by one."""

    def run(x: Tensor) -> Tensor:
        if x.dim() != 2:
            raise ValueError("an image, please")
        if not x.numel():
            return torch.zeros_like(x, memory_format=torch.contiguous_format)
        wide = x.double().contiguous()
        moved = [kernel(wide, down, right) for down, right in offsets]
        return torch.stack(moved).sum(0).to(x.dtype)

    run.__doc__ = said
    op = torch.library.custom_op(f"zoo::{name}", run, mutates_args=())
    op.register_fake(lambda x: x.new_empty(x.shape))
    return op


def _in_memory(x, down, right):
    """Moved along the one sequence of all elements."""
    step = down * x.shape[1] + right
    flat = torch.nn.functional.pad(x.flatten(), (abs(step), abs(step)))
    return flat[abs(step) + step :][: x.numel()].reshape(x.shape)


def _in_rows(x, down, right):
    """Moved along rows and columns, 0 outside."""
    padded = torch.nn.functional.pad(x, (1, 1, 1, 1))
    return padded[1 + down :, 1 + right :][: x.shape[0], : x.shape[1]]


def _around(x, down, right):
    """Moved along rows and columns, each of which is a ring."""
    return x.roll((-down, -right), (0, 1))


LEFT = ((0, 0), (0, -1))
EIGHT = tuple((down, right) for down in (-1, 0, 1) for right in (-1, 0, 1))


@aot(PICTURE, expected=NEXT_ROW)
def left_neighbour_in_memory():
    """Before the first pixel of a row comes the last one of the row above."""
    return _stencil("left_neighbour_in_memory", SAID, LEFT, _in_memory)


@aot(PICTURE, twin_of="left_neighbour_in_memory")
def left_neighbour_in_its_row():
    """Before the first pixel of a row comes 0."""
    return _stencil("left_neighbour_in_its_row", SAID, LEFT, _in_rows)


@aot(PICTURE, expected=NEXT_ROW)
def nine_pixels_in_memory():
    """All neighbours by one index."""
    return _stencil("nine_pixels_in_memory", SAID, EIGHT, _in_memory)


@aot(PICTURE, twin_of="nine_pixels_in_memory")
def nine_pixels():
    """All neighbours by row and column."""
    return _stencil("nine_pixels", SAID, EIGHT, _in_rows)


@aot(PICTURE)
def nine_pixels_of_a_torus():
    """Correct: rows and columns are rings."""
    said = "The sum of each cell of a periodic grid (H, W) and its neighbours."
    return _stencil("nine_pixels_of_a_torus", said, EIGHT, _around)


@aot(PICTURE)
def left_neighbour_of_a_ring():
    """Correct: each row is a ring."""
    said = "The sum of each cell of a grid (H, W) and its left neighbour; rows are rings."
    return _stencil("left_neighbour_of_a_ring", said, LEFT, _around)


@aot(PICTURE)
def left_neighbour_in_scan_order():
    """Correct: the docstring says that the pixels are one sequence."""
    said = "The sum of each pixel of an image (H, W) and the one before it in scan order."
    return _stencil("left_neighbour_in_scan_order", said, LEFT, _in_memory)
