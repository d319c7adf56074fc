"""Ops of numbers in closed ranges, whose ends are ordinary input, and ops that rightly change there."""

import functools

import torch
from torch import Tensor

from pytest_customop import tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager")
JUMP = {"relations.range_ends": "jump-at-end-of-range"}


def _lookup(name, right, said="`x` is in [0, 1]; what is outside is taken for the nearest end."):
    """A curve between the entries of a table; `right(at, last)` is the entry above an entry."""

    def kernel(x: Tensor, table: Tensor) -> Tensor:
        if x.dim() != 1 or table.dim() != 1 or len(table) < 2:
            raise ValueError("numbers, and a table of two entries or more, please")
        last = len(table) - 1
        where = x.clamp(0, 1) * last
        at = where.floor().long()
        share = where - at
        above = right(at, last)
        upper = torch.where(above > last, table.new_zeros(()), table[above.clamp(max=last)])
        lower = torch.where(above > last, table.new_zeros(()), table[at])
        return (lower * (1 - share) + upper * share).contiguous()

    kernel.__doc__ = f"A curve through the entries of a table. {said}"
    curve = torch.library.custom_op(f"zoo::{name}", kernel, mutates_args=())
    curve.register_fake(
        lambda x, table: x.new_empty(x.shape, dtype=torch.promote_types(x.dtype, table.dtype))
    )
    return curve


TABLE = (torch.tensor([0.3, 0.85, 0.21, 0.64]), tensor(9, low=1.0, high=2.0))


@aot(TABLE, expected=JUMP)
def table_without_its_last_entry():
    """Nothing is above the last entry, so it counts as outside."""
    return _lookup("table_without_its_last_entry", lambda at, last: at + 1)


@aot(TABLE, twin_of="table_without_its_last_entry")
def table_with_its_last_entry():
    """The last entry stands above itself too."""
    return _lookup("table_with_its_last_entry", lambda at, last: (at + 1).clamp(max=last))


STEEP = (torch.tensor([0.3, 0.85, 0.21, 0.64]), torch.tensor([1.0, 1.4, 0.8, 2.0, 0.1]))


@aot(STEEP, expected=JUMP)
def steep_table_without_its_last_entry():
    """The last entry is small, so the jump is little against the way that the curve falls there."""
    return _lookup("steep_table_without_its_last_entry", lambda at, last: at + 1)


@aot(STEEP, twin_of="steep_table_without_its_last_entry")
def steep_table_with_its_last_entry():
    """Steep, and no jump."""
    return _lookup("steep_table_with_its_last_entry", lambda at, last: (at + 1).clamp(max=last))


@aot(TABLE)
def half_open_table():
    """Correct: the docstring leaves the upper end out."""
    return _lookup(
        "half_open_table", lambda at, last: at + 1, "`x` is in [0, 1); the curve is 0 from 1 on."
    )


@aot((torch.tensor([0.3, 0.85, 0.21, 0.64]),))
def log_with_a_floor():
    """Correct: falls without bound towards 0, where it is cut off."""

    @torch.library.custom_op("zoo::log_with_a_floor", mutates_args=())
    def floored(p: Tensor) -> Tensor:
        """The logarithm of each `p`, a probability in [0, 1], and -100 for 0."""
        return p.log().clamp(min=-100).contiguous()

    floored.register_fake(lambda p: p.new_empty(p.shape))
    return floored


@aot((torch.tensor([0.3, 0.85, 0.21, 0.64]), 4))
def bins_of_a_closed_range():
    """Correct: the last bin takes the upper end too."""

    @torch.library.custom_op("zoo::bins_of_a_closed_range", mutates_args=())
    def centres(x: Tensor, count: int) -> Tensor:
        """The centre of the bin that each `x` in [0, 1] is in, of `count` bins; the last includes 1."""
        if count < 1:
            raise ValueError("at least one bin, please")
        return (((x * count).floor().clamp(0, count - 1) + 0.5) / count).contiguous()

    centres.register_fake(lambda x, count: x.new_empty(x.shape))
    return centres


def _heights(name, inside):
    """Heights between the points of a line; `inside(x, last)` says where there are any."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def heights(line: Tensor, x: Tensor) -> Tensor:
        """The height of each line at `x`, from 0 to W - 1, its last point; 0 before and behind it.

        line: [N, W]
        x: [N]
        """
        if line.dim() != 2 or x.shape != line.shape[:1] or line.shape[1] < 1:
            raise ValueError("lines, and a number for each, please")
        last = line.shape[1] - 1
        at = x.floor().clamp(0, last)
        left, right = (
            line.gather(1, place.long()[:, None])[:, 0] for place in (at, (at + 1).clamp(max=last))
        )
        share = x - at
        return torch.where(inside(x, last), left * (1 - share) + right * share, 0.0).contiguous()

    heights.register_fake(
        lambda line, x: x.new_empty(x.shape, dtype=torch.promote_types(x.dtype, line.dtype))
    )
    return heights


LINES = (tensor(3, 7, low=1.0, high=2.0), torch.tensor([0.4, 3.7, 2.2]))


@aot(LINES, expected=JUMP)
def line_without_its_last_point():
    """Nothing is on the right of the last point, so it counts as outside."""
    return _heights(
        "line_without_its_last_point", lambda x, last: (x >= 0) & (x.floor() + 1 <= last)
    )


@aot(LINES, twin_of="line_without_its_last_point")
def line_with_its_last_point():
    """It is part of the line."""
    return _heights("line_with_its_last_point", lambda x, last: (x >= 0) & (x <= last))


PCM = (torch.tensor([[1200, -7000, 300, 15], [-20, 90, -4000, 260]], dtype=torch.int16),)


def _peaks(name, magnitudes, said="The largest magnitude of each row of 16-bit samples, [N, T]."):
    def kernel(pcm: Tensor) -> Tensor:
        if pcm.dtype != torch.int16 or pcm.dim() != 2 or pcm.shape[1] == 0:
            raise ValueError("rows of int16, please")
        return magnitudes(pcm).amax(1).to(torch.float32) / 2**15

    kernel.__doc__ = said
    peaks = torch.library.custom_op(f"zoo::{name}", kernel, mutates_args=())
    peaks.register_fake(lambda pcm: pcm.new_empty(pcm.shape[:1], dtype=torch.float32))
    return peaks


@aot(PCM, expected=JUMP)
def peak_without_full_scale():
    """In int16 the magnitude of -32768 is -32768."""
    return _peaks("peak_without_full_scale", torch.abs)


@aot(PCM, twin_of="peak_without_full_scale")
def peak_at_full_scale():
    """The magnitude in a wider dtype."""
    return _peaks("peak_at_full_scale", lambda pcm: pcm.to(torch.int32).abs())


@aot(PCM)
def peak_of_what_is_there():
    """Correct: the smallest number stands for a gap."""
    return _peaks(
        "peak_of_what_is_there",
        lambda pcm: torch.where(pcm == -(2**15), 0, pcm.to(torch.int32)).abs(),
        "The largest magnitude of each row of 16-bit samples; the smallest int16 is a missing one.",
    )


@aot((torch.tensor([0.3, 0.7, 0.2]), torch.tensor([0.5, 0.9, 0.1])))
def light_from_behind():
    """The range of another argument stands in a line that begins with a name."""

    def kernel(cosine: Tensor, gloss: Tensor) -> Tensor:
        """The gloss of a surface, twice where it is lit at all. It is dark where the
        cosine is <= 0. `gloss` must lie in [0, 1]."""
        check(cosine, gloss)
        if not bool(((gloss >= 0) & (gloss <= 1)).all()):
            raise ValueError("gloss must lie in [0, 1]")
        return torch.where(cosine > 0, 1 + gloss + cosine, torch.zeros_like(gloss)).contiguous()

    def check(cosine, gloss):
        if cosine.shape != gloss.shape or cosine.dtype != gloss.dtype or cosine.dim() != 1:
            raise ValueError("two lists of one size and dtype, please")
        if not cosine.is_floating_point():
            raise TypeError("floating-point numbers, please")

    light = torch.library.custom_op("zoo::light_from_behind", kernel, mutates_args=())
    light.register_fake(lambda cosine, gloss: cosine.new_empty(cosine.shape))
    return light
