"""Images as matrices."""

import torch
from torch import Tensor


@torch.library.custom_op("oplib::pack_columns", mutates_args=())
def pack_columns(weight: Tensor) -> Tensor:
    """A copy of a matrix in which columns are contiguous, as BLAS likes them."""
    torch._check(weight.dim() == 2, lambda: "weight must be a matrix")
    return weight.t().contiguous().t().clone()


@pack_columns.register_fake
def _(weight):
    torch._check(weight.dim() == 2, lambda: "weight must be a matrix")
    return weight.new_empty(weight.shape)


@torch.library.custom_op("oplib::patchify", mutates_args=())
def patchify(image: Tensor, size: int) -> Tensor:
    """Square patches of an image (h, w), a row each: (h / size * w / size, size * size)."""
    torch._check(image.dim() == 2, lambda: "image must be (h, w)")
    torch._check(size > 0, lambda: "size must be positive")
    height, width = image.shape
    torch._check(height % size == 0 and width % size == 0, lambda: "size must divide h and w")
    rows, columns = height // size, width // size
    patches = image.as_strided((rows, columns, size, size), (width * size, size, width, 1))
    return patches.reshape(rows * columns, size * size).clone()


@patchify.register_fake
def _(image, size):
    torch._check(image.dim() == 2, lambda: "image must be (h, w)")
    torch._check(size > 0, lambda: "size must be positive")
    height, width = image.shape
    return image.new_empty(height // size * (width // size), size * size)
