"""Correct ops that are easy to misjudge on inputs that nobody chose."""

import functools

import torch
from torch import Tensor

from pytest_customop import tensor

from . import registry

specimen = functools.partial(registry.specimen, backend="aot_eager")


@specimen((tensor(2, 4),))
def rest_of_row():
    """Correct: after three columns of four one is left, and torch makes a size of 1 a constant."""

    @torch.library.custom_op("zoo::rest_of_row", mutates_args=())
    def rest(x: Tensor) -> Tensor:
        if x.dim() != 2 or x.shape[1] < 3:
            raise ValueError("three columns at least, please")
        return x[:, 3:].clone()

    rest.register_fake(lambda x: x.new_empty(x.shape[0], x.shape[1] - 3))
    return rest


@specimen((tensor(4, 6),))
def large_whole_number():
    """Correct: a whole number above those that float32 holds one by one, rounded as in the dtype of x."""

    @torch.library.custom_op("zoo::large_whole_number", mutates_args=())
    def middle(x: Tensor) -> Tensor:
        return (x.new_full((x.shape[0],), 1 / 3) * 2.0**31).to(torch.int64)

    middle.register_fake(lambda x: x.new_empty(x.shape[0], dtype=torch.int64))
    return middle


@specimen((torch.tensor([3, 250]).to(torch.uint8),), skips={"fake.symbolic": "no-second-size"})
def triples_of_bytes():
    """Correct: two bytes have no triple, and three have one: sizes of 0 and 1, both constants to torch."""

    @torch.library.custom_op("zoo::triples_of_bytes", mutates_args=())
    def triples(text: Tensor) -> Tensor:
        if text.dim() != 1 or text.dtype != torch.uint8:
            raise ValueError("a row of bytes, please")
        if len(text) < 3:
            return text.new_empty(0, dtype=torch.int64)
        parts = text.long().unfold(0, 3, 1)
        return parts @ torch.tensor([65536, 256, 1])

    triples.register_fake(
        lambda text: text.new_empty(torch.sym_max(text.shape[0] - 2, 0), dtype=torch.int64)
    )
    return triples


@specimen((torch.randn(8, 25, generator=torch.Generator().manual_seed(3)),))
def largest_in_order():
    """Correct: the largest one in a hundred by their places, which follow an order of columns by chance."""

    @torch.library.custom_op("zoo::largest_in_order", mutates_args=())
    def largest(x: Tensor) -> Tensor:
        if x.dtype not in (torch.float32, torch.float64):
            raise TypeError("float32 or float64, please")
        flat = x.reshape(-1)
        count = -(-flat.numel() // 100)
        order = torch.argsort(flat.abs(), descending=True, stable=True)
        return flat[order[:count].sort().values]

    largest.register_fake(lambda x: x.new_empty((x.numel() + 99) // 100))
    return largest


def _written(name, repeated):
    """Writes rows to slots, which are all different; `repeated()` is called where some are equal."""

    def check(rows, cache, slots):
        if rows.dim() != 2 or cache.dim() != 2 or slots.shape != rows.shape[:1]:
            raise ValueError("rows, a cache of rows, and a slot for each, please")
        if rows.shape[1] != cache.shape[1] or rows.dtype != cache.dtype:
            raise ValueError("rows like those of the cache, please")

    @torch.library.custom_op(f"zoo::{name}", mutates_args={"cache"})
    def write(rows: Tensor, cache: Tensor, slots: Tensor) -> None:
        """Write rows to slots, which are all different."""
        check(rows, cache, slots)
        if len({*slots.tolist()}) < len(slots):
            repeated()
        for slot, row in zip(slots.tolist(), rows, strict=True):
            if not 0 <= slot < len(cache):
                raise IndexError(f"slot {slot} is not in {len(cache)} slots")
            cache[slot] = row

    write.register_fake(check)
    return write


WRITTEN = (torch.randn(3, 2), torch.zeros(9, 2), torch.tensor([5, 0, 7]))


@specimen(
    WRITTEN,
    variant_notes={"relations.permutation": "result-depends-on-order"},
    shown_by="odd",
)
def writes_to_distinct_slots():
    """Of slots that are equal, which those of the sample are not, the last row stays."""
    return _written("writes_to_distinct_slots", lambda: None)


@specimen(WRITTEN, twin_of="writes_to_distinct_slots")
def rejects_slots_that_are_equal():
    """Raises for them."""

    def repeated():
        raise ValueError("slots that are all different, please")

    return _written("rejects_slots_that_are_equal", repeated)


@specimen((tensor(3, 6),))
def pairs_in_the_backward():
    """Correct: the backward needs memory for each pair, and the forward does not."""

    @torch.library.custom_op("zoo::pairs_in_the_backward", mutates_args=())
    def spread(x: Tensor) -> Tensor:
        if x.dim() != 2 or x.dtype not in (torch.float32, torch.float64):
            raise ValueError("a matrix, please")
        return x.square().sum(1)

    spread.register_fake(lambda x: x.new_empty(x.shape[0]))

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        pairs = x[:, :, None] * torch.eye(x.shape[1], dtype=x.dtype, device=x.device)
        return 2 * grad[:, None] * pairs.sum(2)

    spread.register_autograd(
        backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs)
    )
    return spread
