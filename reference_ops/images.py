"""``refops::crop`` and ``refops::paste``: PIL's crop and paste as ops that compile and train.

Pictures are tensors of shape (channels, height, width) in float16, bfloat16, float32 or float64,
with any number of channels and any strides.  Only PIL moves the pixels, and it moves them
unchanged: a channel travels as images of one channel and 32 bits a pixel, never of 8 bits.

Each operator has one function that checks its arguments and allocates its result.  The real kernel
and the fake kernel both call it, so they cannot disagree on an error, a size, a stride or a dtype.
"""

from collections.abc import Callable
from typing import Any, Sequence

import torch
from torch import Tensor
from torchvision.transforms.functional import pil_to_tensor, to_pil_image

_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


# --------------------------------------------------------------------------------------------- crop


@torch.library.custom_op("refops::crop", mutates_args=())
def crop(pic: Tensor, box: Sequence[int]) -> Tensor:
    """Cut the rectangle ``box`` out of ``pic``.

    Args:
        pic: a picture, (channels, height, width).
        box: four integers (x0, y0, x1, y1); columns x0 to x1 - 1 and rows y0 to y1 - 1 are kept.
            The box lies inside the picture, and may be empty.

    Returns:
        A new contiguous tensor (channels, y1 - y0, x1 - x0) of the dtype and device of ``pic``.

    Raises:
        ValueError: ``pic`` is not of rank 3, or ``box`` has not four integers, is inverted or
            reaches outside the picture.
        TypeError: ``pic`` is not a dense tensor of one of the four dtypes.

    Gradients flow to ``pic``, to any order.
    """
    result = _new_crop(pic, box)
    if result.numel() > 0:
        images, mode = _to_images(pic)
        result.copy_(_from_images([image.crop(tuple(box)) for image in images], mode))
    return result


@crop.register_fake
def _(pic: Tensor, box: Sequence[int]) -> Tensor:
    return _new_crop(pic, box)


def _new_crop(pic: Tensor, box: Sequence[int]) -> Tensor:
    """Check the arguments of ``crop`` and allocate its result."""
    _check_picture("crop", "pic", pic)
    if len(box) != 4:
        raise ValueError(f"crop: box must be 4 integers (x0, y0, x1, y1), got {list(box)}")
    x0, y0, x1, y1 = box
    channels, height, width = pic.shape

    def inverted() -> str:
        return f"crop: box must have x0 <= x1 and y0 <= y1, got {list(box)} (x0, y0, x1, y1)"

    def outside() -> str:
        return (
            f"crop: box must lie inside pic, got box {list(box)} (x0, y0, x1, y1) "
            f"and a pic {width} wide and {height} high"
        )

    for start, stop in ((x0, x1), (y0, y1)):
        _require(start <= stop, inverted)
    for start, stop, size in ((x0, x1, width), (y0, y1, height)):
        _require(start >= 0, outside)
        _require(stop <= size, outside)
    return pic.new_empty((channels, y1 - y0, x1 - x0))


def _crop_setup(ctx: Any, inputs: tuple[Tensor, Sequence[int]], output: Tensor) -> None:
    pic, box = inputs
    ctx.shape = pic.shape
    ctx.coord = box[:2]


def _crop_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, None]:
    if not ctx.needs_input_grad[0]:
        return None, None
    return paste(grad.new_zeros(ctx.shape), grad, ctx.coord), None


crop.register_autograd(_crop_backward, setup_context=_crop_setup)


# -------------------------------------------------------------------------------------------- paste


@torch.library.custom_op("refops::paste", mutates_args=())
def paste(im1: Tensor, im2: Tensor, coord: Sequence[int]) -> Tensor:
    """A copy of ``im1`` with ``im2`` laid over it.

    Args:
        im1: the picture below, (channels, height, width).
        im2: the picture on top, with the channels, dtype and device of ``im1``; may be empty.
        coord: two integers (x, y), the column and row of ``im1`` where the top left corner of
            ``im2`` comes to lie.  All of ``im2`` lies inside ``im1``.

    Returns:
        A new contiguous tensor of the shape, dtype and device of ``im1``.

    Raises:
        ValueError: a picture is not of rank 3, ``coord`` has not two integers, the devices or the
            numbers of channels differ, or ``im2`` reaches outside ``im1``.
        TypeError: a picture is not a dense tensor of one of the four dtypes, or the dtypes differ.

    Gradients flow to ``im1`` and to ``im2``, to any order.
    """
    result = _new_paste(im1, im2, coord)
    if im2.numel() == 0:
        return result.copy_(im1)
    below, mode = _to_images(im1)
    above, _ = _to_images(im2)
    for image1, image2 in zip(below, above, strict=True):
        image1.paste(image2, tuple(coord))
    return result.copy_(_from_images(below, mode))


@paste.register_fake
def _(im1: Tensor, im2: Tensor, coord: Sequence[int]) -> Tensor:
    return _new_paste(im1, im2, coord)


def _new_paste(im1: Tensor, im2: Tensor, coord: Sequence[int]) -> Tensor:
    """Check the arguments of ``paste`` and allocate its result."""
    _check_picture("paste", "im1", im1)
    _check_picture("paste", "im2", im2)
    if im1.dtype != im2.dtype:
        raise TypeError(f"paste: im1 and im2 must have one dtype, got {im1.dtype} and {im2.dtype}")
    if im1.device != im2.device:
        raise ValueError(
            f"paste: im1 and im2 must be on one device, got {im1.device} and {im2.device}"
        )
    if len(coord) != 2:
        raise ValueError(f"paste: coord must be 2 integers (x, y), got {list(coord)}")
    x, y = coord
    channels1, height1, width1 = im1.shape
    channels2, height2, width2 = im2.shape

    def channels() -> str:
        return (
            f"paste: im1 and im2 must have the same number of channels, "
            f"got {channels1} and {channels2}"
        )

    def outside() -> str:
        return (
            f"paste: im2 must lie inside im1, got an im2 {width2} wide and {height2} high "
            f"at coord {list(coord)} (x, y) and an im1 {width1} wide and {height1} high"
        )

    _require(channels1 == channels2, channels)
    for start, part, size in ((x, width2, width1), (y, height2, height1)):
        _require(start >= 0, outside)
        _require(start + part <= size, outside)
    return im1.new_empty(im1.shape)


def _paste_setup(ctx: Any, inputs: tuple[Tensor, Tensor, Sequence[int]], output: Tensor) -> None:
    _, im2, coord = inputs
    ctx.shape = im2.shape
    ctx.coord = coord


def _paste_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
    grad1 = grad2 = None
    if ctx.needs_input_grad[0]:
        grad1 = paste(grad, grad.new_zeros(ctx.shape), ctx.coord)
    if ctx.needs_input_grad[1]:
        x, y = ctx.coord
        _, height, width = ctx.shape
        grad2 = crop(grad, [x, y, x + width, y + height])
    return grad1, grad2, None


paste.register_autograd(_paste_backward, setup_context=_paste_setup)


# ----------------------------------------------------------------------------------- used by both


def _require(condition: bool | torch.SymBool, message: Callable[[], str]) -> None:
    """Raise a ValueError unless the condition holds.

    Under ``torch.compile`` a size is a symbol and the condition becomes a guard, or a check at run
    time where the size comes out of the data; an ``if`` could not do the latter.
    """
    torch._check_value(condition, message)


def _check_picture(op: str, name: str, picture: Tensor) -> None:
    if picture.layout != torch.strided:
        raise TypeError(f"{op}: {name} must be a dense tensor, got layout {picture.layout}")
    if picture.dtype not in _DTYPES:
        raise TypeError(
            f"{op}: {name} must be float16, bfloat16, float32 or float64, got {picture.dtype}"
        )
    if picture.dim() != 3:
        raise ValueError(
            f"{op}: {name} must be (channels, height, width), got shape {list(picture.shape)}"
        )


def _to_images(picture: Tensor) -> tuple[list[Any], str]:
    """One-channel PIL images that hold the picture without loss, and their mode.

    Mode "F" holds float32 and, widened, both half precisions.  PIL has no mode for float64: each
    channel travels as two images of mode "I", the low and the high halves of its pixels' bits.
    """
    host = picture.detach().cpu()
    if picture.dtype != torch.float64:
        return [to_pil_image(plane, mode="F") for plane in host.to(torch.float32)], "F"
    # A clone has stride 1 in its last dimension, as view(dtype) demands; contiguous() may not.
    bits = host.clone(memory_format=torch.contiguous_format).view(torch.int32)
    halves = bits.reshape(*host.shape, 2).movedim(-1, 1).flatten(0, 1)
    return [to_pil_image(plane, mode="I") for plane in halves], "I"


def _from_images(images: list[Any], mode: str) -> Tensor:
    """The float32 or float64 picture that the images hold, on the CPU."""
    planes: Tensor = torch.cat([pil_to_tensor(image) for image in images])
    if mode == "F":
        return planes
    halves = planes.reshape(-1, 2, *planes.shape[1:]).movedim(1, -1).contiguous()
    return halves.view(torch.float64).squeeze(-1)
