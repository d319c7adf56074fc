"""Ops that are wrong in a branch that the sample does not take: equal values, the first rows, a limit."""

import ctypes
import functools
from typing import List

import torch
from torch import Tensor

from pytest_customop import tensor

from .compiled import COMPOSITE
from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager")
MATRIX = tensor(4, 6)


def _range(name, restore_first):
    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def scaled(x: Tensor) -> Tensor:
        if not x.is_floating_point():
            raise TypeError("floating-point numbers, please")
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        span = x.max() - x.min() if x.numel() else x.new_zeros(())
        if restore_first:
            torch.set_default_dtype(before)
        if not span > 0:
            return torch.zeros_like(x)
        torch.set_default_dtype(before)
        return (x - x.min()) / span

    scaled.register_fake(lambda x: torch.empty_like(x))
    return scaled


@aot((MATRIX,), variant_findings={"state.globals": "global-state-changed"}, shown_by="equal")
def flat_input_leaves_float64():
    """Returns early where all values are equal, and leaves another default dtype."""
    return _range("flat_input_leaves_float64", restore_first=False)


@aot((MATRIX,), twin_of="flat_input_leaves_float64")
def flat_input_restores_float32():
    """Restores the default dtype before it returns early."""
    return _range("flat_input_restores_float32", restore_first=True)


def _quantile(name, keep):
    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def quantile(x: Tensor, q: float) -> Tensor:
        if not 0 <= q <= 1 or x.dim() != 2 or x.shape[1] == 0:
            raise ValueError("expected a matrix with columns, and 0 <= q <= 1")
        ordered = x.sort(-1).values
        if q == 0:
            keep(ordered)
            return ordered[:, 0].clone()
        return ordered[:, round(q * (x.shape[1] - 1))].clone()

    @quantile.register_fake
    def _(x, q):
        if not 0 <= q <= 1 or x.dim() != 2 or x.shape[1] == 0:
            raise ValueError("expected a matrix with columns, and 0 <= q <= 1")
        return x.new_empty(x.shape[0])

    return quantile


@aot((MATRIX, 0.5), variant_findings={"state.leaks": "memory-leaked"}, shown_by="q.0.0")
def lowest_quantile_keeps_the_rows():
    """Keeps what it has sorted, for the lowest quantile alone."""
    kept: list[Tensor] = []
    return _quantile("lowest_quantile_keeps_the_rows", kept.append)


@aot((MATRIX, 0.5), twin_of="lowest_quantile_keeps_the_rows")
def lowest_quantile_keeps_the_last_rows():
    """Keeps what it has sorted last, and no more."""
    kept: list[Tensor] = []

    def keep(ordered):
        kept[:] = [ordered]

    return _quantile("lowest_quantile_keeps_the_last_rows", keep)


POSITIONS = tensor(5, dtype=torch.int64, low=0, high=12)


def _encoded(name, first_rows):
    table = torch.linspace(0, 3, 64 * 4).sin().reshape(64, 4)

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def encoded(positions: Tensor) -> Tensor:
        count = len(positions)
        if positions.dim() == 1 and positions.equal(torch.arange(count)) and count:
            return first_rows(table, count)
        return table[positions.to(torch.int64)].clone()

    encoded.register_fake(
        lambda positions: positions.new_empty((*positions.shape, 4), dtype=torch.float32)
    )
    return encoded


@aot(
    (POSITIONS,),
    variant_findings={"values.repeat": "output-memory-reused"},
    shown_by="positions.counting",
)
def first_rows_of_the_table_itself():
    """Returns a part of its own table where the positions count from 0."""
    return _encoded("first_rows_of_the_table_itself", lambda table, count: table[:count])


@aot((POSITIONS,), twin_of="first_rows_of_the_table_itself")
def first_rows_of_a_copy():
    """Returns a copy of the first rows where the positions count from 0."""
    return _encoded("first_rows_of_a_copy", lambda table, count: table[:count].clone())


def _read_by_address(name, prepare):
    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def taken(table: Tensor, index: Tensor) -> Tensor:
        if table.dim() != 1 or index.dtype not in (torch.int32, torch.int64):
            raise TypeError("expected a vector, and positions of int32 or int64")
        index = prepare(index).contiguous()
        read = (ctypes.c_int64 * index.numel()).from_address(index.data_ptr() or 1)
        positions = torch.tensor(list(read), dtype=torch.int64).reshape(index.shape)
        if ((positions < 0) | (positions >= len(table))).any():
            raise IndexError("a position out of range")
        return table[positions].clone()

    @taken.register_fake
    def _(table, index):
        if table.dim() != 1 or index.dtype not in (torch.int32, torch.int64):
            raise TypeError("expected a vector, and positions of int32 or int64")
        return table.new_empty(index.shape)

    return taken


@aot(
    (tensor(7), tensor(5, dtype=torch.int64, low=0, high=7)),
    expected={"relations.index_dtype": "index-dtype-mismatch"},
)
def reads_every_index_as_int64():
    """Takes int32 positions and reads their memory as int64."""
    return _read_by_address("reads_every_index_as_int64", lambda index: index)


@aot(
    (tensor(7), tensor(5, dtype=torch.int64, low=0, high=7)),
    twin_of="reads_every_index_as_int64",
)
def casts_every_index_to_int64():
    """Casts int32 positions before it reads their memory."""
    return _read_by_address("casts_every_index_to_int64", lambda index: index.to(torch.int64))


def _norm(name, inference):
    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def norm(x: Tensor, eps: float = 1e-6) -> Tensor:
        size = (x.detach() ** 2).mean(-1, keepdim=True)
        if x.requires_grad:
            return x.detach() * (size + eps).rsqrt()
        return inference(x.detach(), size, eps)

    norm.register_fake(lambda x, eps=1e-6: torch.empty_like(x))

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        root = ((x * x).mean(-1, keepdim=True) + ctx.eps).rsqrt()
        inner = (grad * x).mean(-1, keepdim=True)
        return root * grad - x * root**3 * inner, None

    def setup(ctx, inputs, output):
        x, ctx.eps = inputs
        ctx.save_for_backward(x)

    norm.register_autograd(backward, setup_context=setup)
    return norm


@aot(
    (MATRIX,),
    variant_findings={"relations.grad_modes": "grad-mode-mismatch"},
    shown_by="eps.0.1",
)
def eps_outside_of_the_root_in_inference():
    """Adds eps to the root where nothing requires gradients, and under it elsewhere."""
    return _norm(
        "eps_outside_of_the_root_in_inference", lambda x, size, eps: x / (size.sqrt() + eps)
    )


@aot((MATRIX,), twin_of="eps_outside_of_the_root_in_inference")
def eps_under_the_root_in_inference():
    """Computes the same in another way where nothing requires gradients."""
    return _norm("eps_under_the_root_in_inference", lambda x, size, eps: x / (size + eps).sqrt())


@aot((MATRIX,))
def median_of_rows():
    """Correct: where values are equal, the gradient is that of one of them, and no single one moves it."""

    @torch.library.custom_op("zoo::median_of_rows", mutates_args=())
    def median(x: Tensor) -> Tensor:
        return x.detach().sort(-1).values[..., (x.shape[-1] - 1) // 2].clone()

    median.register_fake(lambda x: x.new_empty(x.shape[:-1]))

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        at = x.detach().argsort(-1)[..., (x.shape[-1] - 1) // 2].unsqueeze(-1)
        return torch.zeros_like(x).scatter(-1, at, grad.unsqueeze(-1))

    median.register_autograd(
        backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs)
    )
    return median


@aot((torch.tensor([-3.0, -1.0, -0.5, 0.0, 0.2, 0.5, 1.0]), 0.5))
def shrinks_firmly():
    """Correct: the gradient is 0 up to the limit; where the limit is 0, it is so at 0 alone."""

    @torch.library.custom_op("zoo::shrinks_firmly", mutates_args=())
    def shrunk(x: Tensor, limit: float) -> Tensor:
        if limit < 0:
            raise ValueError("expected a limit of 0 or more")
        return torch.where(x.abs() <= limit, 0.0, x - limit * x.sign())

    @shrunk.register_fake
    def _(x, limit):
        if limit < 0:
            raise ValueError("expected a limit of 0 or more")
        return torch.empty_like(x)

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return torch.where(x.abs() <= ctx.limit, 0.0, grad), None

    def setup(ctx, inputs, output):
        x, ctx.limit = inputs
        ctx.save_for_backward(x)

    shrunk.register_autograd(backward, setup_context=setup)
    return shrunk


def _unit_rows(name, size_in_backward):
    def size(x):
        return x.norm(dim=-1, keepdim=True)

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def unit(x: Tensor) -> Tensor:
        return (x / size(x).clamp(min=1e-3)).contiguous()

    unit.register_fake(lambda x: torch.empty_like(x, memory_format=torch.contiguous_format))

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        norm = size_in_backward(size(x))
        inner = (grad * x).sum(-1, keepdim=True)
        return grad / norm - x * inner / norm**3

    unit.register_autograd(
        backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs)
    )
    return unit


WITH_ZEROS = torch.tensor([[1.0, -2.0, 0.5], [0.0, 0.0, 0.0]])


@aot(
    (WITH_ZEROS,),
    expected={"gradcheck.backward": "gradient-not-finite"},
    skips={
        "gradcheck.double": "not-finite",
        "opcheck.test_aot_dispatch_dynamic": "checker-limit",
    },
)
def divides_by_zero_in_the_backward():
    """Divides by a length in the backward that the forward keeps away from 0."""
    return _unit_rows("divides_by_zero_in_the_backward", lambda norm: norm)


@aot((WITH_ZEROS,), twin_of="divides_by_zero_in_the_backward")
def divides_alike_in_the_backward():
    """Divides by the same in the forward and in the backward."""
    return _unit_rows("divides_alike_in_the_backward", lambda norm: norm.clamp(min=1e-3))


def _packed(name, handed_out):
    """Rows of several tensors in the order that the caller gives; `handed_out(order)` is the backward's."""

    def check(parts, order):
        like = [(part.dim(), part.dtype) for part in parts]
        if sorted(order) != [*range(len(parts))] or like != [(1, parts[0].dtype)] * len(parts):
            raise ValueError("vectors of one dtype and an order of them, please")

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def packed(parts: List[Tensor], order: List[int]) -> Tensor:
        check(parts, order)
        return torch.cat([parts[at] for at in order])

    @packed.register_fake
    def _(parts, order):
        check(parts, order)
        return parts[0].new_empty(sum(part.shape[0] for part in parts))

    def setup(ctx, inputs, output):
        parts, ctx.order = inputs
        ctx.sizes = [part.shape[0] for part in parts]

    def backward(ctx, grad):
        pieces = grad.split([ctx.sizes[at] for at in ctx.order])
        return [pieces[at].clone() for at in handed_out(ctx.order)], None

    packed.register_autograd(backward, setup_context=setup)
    return packed


PARTS = ([tensor(3), tensor(3), tensor(3)], [0, 1, 2])


@aot(PARTS, variant_findings={"gradcheck.backward": "gradient-mismatch"}, shown_by="order.reversed")
def gradients_in_packed_order():
    """The gradients come in the order of the pack, which is that of the list only in the sample."""
    return _packed("gradients_in_packed_order", lambda order: range(len(order)))


@aot(PARTS, twin_of="gradients_in_packed_order")
def gradients_in_the_order_of_the_list():
    """The gradients come in the order of the list."""
    return _packed(
        "gradients_in_the_order_of_the_list",
        lambda order: [order.index(at) for at in range(len(order))],
    )


LIBRARY = torch.library.Library("zoo", "FRAGMENT")


def _ranged(name, is_wide):
    """A picture in [0, 1], or in [0, 255] where the mode says so; with `auto`, `is_wide(x)` does."""

    def ranged(x, mode="unit"):
        if mode not in ("unit", "byte", "auto"):
            raise ValueError("mode must be unit, byte or auto")
        if mode == "byte":
            return x / 255.0
        return is_wide(x) if mode == "auto" else x * 1.0

    # torch hides the kernels of a Library; this is how such a file looks from outside.
    globals()[f"_{name}"] = ranged
    LIBRARY.define(f"{name}(Tensor x, str mode='unit') -> Tensor")
    LIBRARY.impl(name, ranged, "CompositeImplicitAutograd")
    return getattr(torch.ops.zoo, name).default


@aot(
    (MATRIX, "unit"),
    variant_findings={"fake.forward": "fake-raises"},
    shown_by="mode.auto",
    skips=COMPOSITE,
)
def composite_asks_for_a_value():
    """In one mode Python branches on a value, which tensors without values do not have."""
    return _ranged(
        "composite_asks_for_a_value", lambda x: x / 255.0 if x.numel() and x.max() > 1 else x * 1.0
    )


@aot((MATRIX, "unit"), twin_of="composite_asks_for_a_value", skips=COMPOSITE)
def composite_selects_by_value():
    """The value selects in the graph, by torch.where."""
    return _ranged(
        "composite_selects_by_value",
        lambda x: torch.where(x.amax() > 1, x / 255.0, x * 1.0) if x.numel() else x * 1.0,
    )
