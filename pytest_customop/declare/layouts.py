"""Memory layouts: the same values, laid out differently. Imports torch only when one is applied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    import torch

Layout = Literal[
    "contiguous", "transposed", "strided", "row_padded", "offset", "expanded", "channels_last"
]
LAYOUTS: tuple[str, ...] = get_args(Layout)


def changes(layout: str, shape: tuple[int, ...]) -> bool:
    """Whether a dense tensor of this shape looks any different in this layout."""
    dims = len(shape)
    if layout == "contiguous" or 0 in shape:
        return False
    if layout == "transposed":
        return dims >= 2 and shape[-1] > 1 and shape[-2] > 1
    if layout == "strided":
        return dims >= 1 and shape[-1] > 1
    if layout == "row_padded":
        return dims >= 2 and shape[-2] > 1
    if layout == "expanded":
        return dims >= 1 and shape[0] > 1
    if layout == "channels_last":
        return dims in (4, 5) and shape[1] > 1
    return True  # offset


def lay_out(dense: torch.Tensor, layout: str) -> torch.Tensor:
    """The values of `dense` in memory of the given layout, in storage of their own.

    `transposed` has the last two dims swapped in memory, `strided` uses every second element of the
    last dim, `row_padded` has a gap after each row, `offset` starts inside its storage, `expanded`
    repeats the first slice of dim 0 with stride 0 (so its values change), `channels_last` is
    torch's memory format. Where the layout makes no difference the tensor comes back as it is.
    """
    import torch

    shape = tuple(dense.shape)
    if not changes(layout, shape):
        return dense
    if layout == "transposed":
        return dense.transpose(-1, -2).contiguous().transpose(-1, -2)
    if layout == "channels_last":
        last = torch.channels_last if dense.dim() == 4 else torch.channels_last_3d
        return dense.contiguous(memory_format=last)
    if layout == "expanded":
        return dense[:1].clone().expand(shape)
    if layout == "strided":
        place = dense.new_zeros((*shape[:-1], 2 * shape[-1]))[..., ::2]
    elif layout == "row_padded":
        place = dense.new_zeros((*shape[:-1], shape[-1] + 3))[..., : shape[-1]]
    else:
        place = dense.new_zeros(dense.numel() + 1)[1:].view(shape)
    return place.copy_(dense)
