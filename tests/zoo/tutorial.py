"""The mistakes of the well-known crop, paste and numpy_sin, in ops of our own, and their correct twins."""

from typing import Sequence

import torch
from torch import Tensor

from pytest_customop import tensor

from .registry import since, specimen

SMALL, LARGE = tensor(3, 4, 5, low=0, high=1), tensor(3, 8, 9, low=0, high=1)


def _stamp(image: Tensor, patch: Tensor, at: Sequence[int]) -> Tensor:
    """The image with the patch put at (top, left), in HWC memory seen as CHW."""
    rows = image.permute(1, 2, 0).contiguous()
    if rows.data_ptr() == image.data_ptr():
        rows = rows.clone()
    top, left = at
    rows[top : top + patch.shape[1], left : left + patch.shape[2]] = patch.permute(1, 2, 0)
    return rows.permute(2, 0, 1)


def _eight_bits(x: Tensor) -> Tensor:
    return (x.clamp(0, 1) * 255).round() / 255


@specimen(
    (LARGE, SMALL, [2, 1]),
    expected={
        "fake.forward": "fake-stride-mismatch",
        "compile.static": since("2.13", "compile-stride-assert", "compile-output-mismatch"),
        "compile.dynamic": since("2.13", "compile-stride-assert", "compile-output-mismatch"),
        "opcheck.test_faketensor": since("2.13", "fake-stride-mismatch"),
    },
)
def stamp_fake_strides():
    """The fake kernel says CHW memory, the real one returns HWC memory seen as CHW."""

    @torch.library.custom_op("zoo::stamp_fake_strides", mutates_args=())
    def stamp(image: Tensor, patch: Tensor, at: Sequence[int]) -> Tensor:
        return _stamp(image, patch, at)

    @stamp.register_fake
    def _(image, patch, at):
        return torch.empty_like(image)

    return stamp


@specimen((LARGE, SMALL, [2, 1]), twin_of="stamp_fake_strides")
def stamp():
    """HWC memory seen as CHW, and the fake kernel says so."""

    @torch.library.custom_op("zoo::stamp", mutates_args=())
    def stamp(image: Tensor, patch: Tensor, at: Sequence[int]) -> Tensor:
        return _stamp(image, patch, at)

    @stamp.register_fake
    def _(image, patch, at):
        channels, height, width = image.shape
        return image.new_empty(height, width, channels).permute(2, 0, 1)

    return stamp


def _cutout(name, backward_op):
    """A crop of rows top..bottom and columns left..right, whose backward puts the gradient back."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def cutout(image: Tensor, box: Sequence[int]) -> Tensor:
        top, left, bottom, right = box
        if image.dim() != 3 or bottom > image.shape[1] or right > image.shape[2]:
            raise ValueError("the box must lie inside of one image")
        return image[:, top:bottom, left:right].clone(memory_format=torch.contiguous_format)

    @cutout.register_fake
    def _(image, box):
        top, left, bottom, right = box
        return image.new_empty(image.shape[0], bottom - top, right - left)

    def setup(ctx, inputs, output):
        image, box = inputs
        ctx.shape, ctx.at = image.shape, box[:2]

    def backward(ctx, grad):
        return backward_op(grad.new_zeros(ctx.shape), grad, ctx.at), None

    cutout.register_autograd(backward, setup_context=setup)
    return cutout


@specimen(
    (LARGE, [1, 2, 5, 6]),
    expected={
        "fake.backward": "fake-stride-mismatch",
        "compile.static": since("2.13", "compile-stride-assert", "compile-gradient-mismatch"),
        "compile.dynamic": since("2.13", "compile-stride-assert", "compile-gradient-mismatch"),
        "backward.linear": "backward-not-linear",
    },
    skips={"gradcheck.double": "no-second-order"},
)
def cutout_through_eight_bits():
    """The backward goes through an op with wrong fake strides, and through eight bits.

    Ones and zeros are exact in eight bits: gradcheck, which sends nothing else, passes.
    """

    @torch.library.custom_op("zoo::stamp_eight_bits", mutates_args=())
    def stamp(image: Tensor, patch: Tensor, at: Sequence[int]) -> Tensor:
        return _stamp(_eight_bits(image), _eight_bits(patch), at)

    @stamp.register_fake
    def _(image, patch, at):
        return torch.empty_like(image)

    return _cutout("cutout_through_eight_bits", stamp)


@specimen((LARGE, [1, 2, 5, 6]), twin_of="cutout_through_eight_bits")
def cutout():
    """The backward goes through an op with true fake strides and a formula of its own."""

    @torch.library.custom_op("zoo::stamp_for_cutout", mutates_args=())
    def stamp(image: Tensor, patch: Tensor, at: Sequence[int]) -> Tensor:
        return _stamp(image, patch, at)

    @stamp.register_fake
    def _(image, patch, at):
        channels, height, width = image.shape
        return image.new_empty(height, width, channels).permute(2, 0, 1)

    def setup(ctx, inputs, output):
        ctx.at, ctx.size = inputs[2], inputs[1].shape[1:]

    def backward(ctx, grad):
        (top, left), (height, width) = ctx.at, ctx.size
        inside = grad[:, top : top + height, left : left + width].clone()
        outside = grad.clone()
        outside[:, top : top + height, left : left + width] = 0
        return outside, inside, None

    stamp.register_autograd(backward, setup_context=setup)
    return _cutout("cutout", stamp)


@specimen(
    (tensor(4, 3), tensor(4, 3)),
    expected={
        "opcheck.test_schema": "undeclared-mutation",
        "values.mutation": "undeclared-mutation",
        "compile.static": "compile-mutation-mismatch",
        "compile.dynamic": "compile-mutation-mismatch",
        "compile.side_effects": "call-removed",
    },
)
def sine_forgets_mutates_args():
    """Writes its result into `out`, which mutates_args does not name."""

    @torch.library.custom_op("zoo::sine_forgets_mutates_args", mutates_args=())
    def sine(x: Tensor, out: Tensor) -> None:
        out.copy_(x.sin())

    sine.register_fake(lambda x, out: None)
    return sine


@specimen((tensor(4, 3), tensor(4, 3)), twin_of="sine_forgets_mutates_args")
def sine():
    """Writes its result into `out`, and says so."""

    @torch.library.custom_op("zoo::sine", mutates_args={"out"})
    def sine(x: Tensor, out: Tensor) -> None:
        out.copy_(x.sin())

    sine.register_fake(lambda x, out: None)
    return sine
