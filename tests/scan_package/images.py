"""Ops in the style of libraries for images."""

import torch
from torch import Tensor


@torch.library.custom_op("scanned::crop", mutates_args=())
def crop(image: Tensor, top: int, left: int, height: int, width: int) -> Tensor:
    if image.dim() < 2:
        raise ValueError("an image has at least 2 dimensions")
    if min(top, left) < 0 or min(height, width) < 1:
        raise ValueError("the box is empty")
    if top + height > image.shape[-2] or left + width > image.shape[-1]:
        raise ValueError("the box leaves the image")
    return image[..., top : top + height, left : left + width].clone()


@crop.register_fake
def _(image, top, left, height, width):
    box = image[..., top : top + height, left : left + width]
    return torch.empty_like(box)


@torch.library.custom_op("scanned::box_areas", mutates_args=())
def box_areas(boxes: Tensor) -> Tensor:
    if boxes.dim() != 2 or boxes.shape[1] != 4:
        raise ValueError(f"boxes should have shape [N, 4], got {list(boxes.shape)}")
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


@box_areas.register_fake
def _(boxes):
    return boxes.new_empty(boxes.shape[0])


@torch.library.custom_op("scanned::to_gray", mutates_args=())
def to_gray(image: Tensor) -> Tensor:
    if image.dim() != 4 or image.shape[1] != 3:
        raise ValueError("expected an NCHW image with 3 channels")
    weights = torch.tensor([0.299, 0.587, 0.114], dtype=image.dtype).view(1, 3, 1, 1)
    return (image * weights).sum(1, keepdim=True)


@to_gray.register_fake
def _(image):
    return image.new_empty(image.shape[0], 1, *image.shape[2:])


@torch.library.custom_op("scanned::resize_nearest", mutates_args=())
def resize_nearest(image: Tensor, size: list[int], mode: str = "nearest") -> Tensor:
    if len(size) != 2:
        raise ValueError("size has two elements: height and width")
    if mode not in {"nearest", "nearest-exact"}:
        raise ValueError(f"mode {mode!r} is not supported")
    if image.dim() != 4 or min(size) < 1:
        raise ValueError("expected a 4D image, and positive sizes")
    return torch.nn.functional.interpolate(image, size, mode=mode)


@resize_nearest.register_fake
def _(image, size, mode="nearest"):
    return image.new_empty(*image.shape[:2], *size)
