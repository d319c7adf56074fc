"""Ops from pictures of 8 bits to pictures of 8 bits."""

import functools

import numpy
import torch
from torch import Tensor

from pytest_customop import tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager")
WRAPS = {"relations.pixel_wrap": "pixels-wrap"}
IMAGE = (tensor(4, 6, dtype=torch.uint8, low=60, high=120), 30)


def _pixels(name, said, kernel):
    """An op of uint8; `kernel(x, by)` computes in float32."""

    def pixels(image: Tensor, by: int) -> Tensor:
        if image.dtype != torch.uint8 or not 0 <= by <= 255:
            raise ValueError("uint8, please, and a number from 0 to 255")
        brightness = image.contiguous().numpy().astype(numpy.float32)
        return torch.from_numpy(kernel(brightness, by).astype(numpy.uint8))

    pixels.__doc__ = said
    op = torch.library.custom_op(f"zoo::{name}", pixels, mutates_args=())
    op.register_fake(lambda image, by: image.new_empty(image.shape))
    return op


SAID = "An image with each pixel brighter by `by`."


@aot(IMAGE, expected=WRAPS)
def bright_pixels_become_dark():
    """255 + 30 is 29 in eight bits."""
    return _pixels("bright_pixels_become_dark", SAID, lambda image, by: (image + by) % 256)


@aot(IMAGE, twin_of="bright_pixels_become_dark")
def bright_pixels_stay_bright():
    """Ends at 255."""
    return _pixels("bright_pixels_stay_bright", SAID, lambda image, by: (image + by).clip(0, 255))


@aot(IMAGE)
def hues_turned_round():
    """Correct: hues are a circle."""
    said = "An image of hues, each turned by `by`."
    return _pixels("hues_turned_round", said, lambda image, by: (image + by) % 256)


@aot(IMAGE)
def pixels_above_a_threshold():
    """Correct: a threshold jumps from 0 to 255."""
    said = "255 for each pixel of an image above `by`, and 0 for the others."
    return _pixels("pixels_above_a_threshold", said, lambda image, by: 255 * (image > by))


@aot(IMAGE)
def scrambled_pixels():
    """Correct: neighbouring numbers are far apart."""
    said = "An image with pixels scrambled by `by`, for later frames."
    return _pixels("scrambled_pixels", said, lambda image, by: (image * 77 + by) % 256)
