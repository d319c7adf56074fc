"""Ops that keep something from one call to the next."""

import ctypes
import functools
import math
import threading
from typing import Optional

import torch
from torch import Tensor

from pytest_customop import tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager")
ROWS = (tensor(3, 4), 10.0)
ORDER = {"relations.call_order": "result-depends-on-earlier-calls"}


def _scaled(name, table):
    """Each column times a number of a table; `table(x, base)` gives it."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def scaled(x: Tensor, base: float) -> Tensor:
        if x.dim() < 1 or not x.is_floating_point():
            raise ValueError("floating-point numbers with a last dim, please")
        return x * table(x, base)

    scaled.register_fake(lambda x, base: torch.empty_like(x))
    scaled.register_autograd(
        lambda ctx, grad: (grad * _table(grad, ctx.base), None),
        setup_context=lambda ctx, inputs, output: setattr(ctx, "base", inputs[1]),
    )
    return scaled


def _table(x, base):
    return 1 / (1 + abs(base)) ** torch.arange(x.shape[-1], dtype=x.dtype, device=x.device)


def _remembered(key):
    kept = {}

    def table(x, base):
        kept_key = key(x, base)
        if kept_key not in kept:
            kept[kept_key] = _table(x, base)
        return kept[kept_key]

    return table


@aot(ROWS, expected=ORDER)
def table_kept_for_its_size():
    """The table of the first base is used for every other base."""
    key = lambda x, base: (x.shape[-1], x.dtype)  # noqa: E731
    return _scaled("table_kept_for_its_size", _remembered(key))


@aot(ROWS, expected=ORDER)
def table_kept_for_a_rounded_base():
    """The table of one base is used for every base that is rounded up to the same number."""
    key = lambda x, base: (x.shape[-1], x.dtype, math.ceil(base))  # noqa: E731
    return _scaled("table_kept_for_a_rounded_base", _remembered(key))


@aot(ROWS, expected=ORDER)
def table_kept_for_a_whole_base():
    """The table of one base is used for every base with the same whole part."""
    key = lambda x, base: (x.shape[-1], x.dtype, int(base))  # noqa: E731
    return _scaled("table_kept_for_a_whole_base", _remembered(key))


@aot(
    ROWS,
    twin_of=(
        "table_kept_for_its_size",
        "table_kept_for_a_rounded_base",
        "table_kept_for_a_whole_base",
    ),
)
def table_kept_for_all_that_it_depends_on():
    """The key has the size, the dtype and the base."""
    key = lambda x, base: (x.shape[-1], x.dtype, base)  # noqa: E731
    return _scaled("table_kept_for_all_that_it_depends_on", _remembered(key))


@aot(ROWS, twin_of="table_kept_for_its_size")
def last_table_kept():
    """Only the table of the last call is kept, and made anew when anything differs."""
    kept = {}

    def table(x, base):
        key = (x.shape[-1], x.dtype, base)
        if key not in kept:
            kept.clear()
            kept[key] = _table(x, base)
        return kept[key]

    return _scaled("last_table_kept", table)


def _running(name, start):
    """The sum of the rows, added up in a buffer of the module; `start(buffer, width)` prepares it."""
    buffer = torch.zeros(64, dtype=torch.float64)
    lock = threading.Lock()

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def running(x: Tensor) -> Tensor:
        if x.dim() != 2 or not 0 < x.shape[1] <= 32:
            raise ValueError("a matrix of 1 to 32 columns, please")
        width = x.shape[1]
        with lock:
            start(buffer, width)
            buffer[:width] = x.sum(0)
            ends = (
                buffer[: 2 * (width // 2 + 1)].reshape(-1, 2).sum(1)
            )  # an odd width needs one more
        return ends.to(x.dtype)

    running.register_fake(lambda x: x.new_empty(x.shape[1] // 2 + 1))
    return running


@aot((tensor(3, 5),), expected=ORDER)
def buffer_with_the_tail_of_a_wider_call():
    """Behind the last column stands what a wider call has left there."""
    return _running("buffer_with_the_tail_of_a_wider_call", lambda buffer, width: None)


@aot((tensor(3, 5),), twin_of="buffer_with_the_tail_of_a_wider_call")
def buffer_cleared_before_each_call():
    """The buffer is cleared first."""
    return _running(
        "buffer_cleared_before_each_call", lambda buffer, width: buffer[: width + 2].zero_()
    )


def _gamma(name, fill):
    """Whole numbers of a byte to a power, by a table in memory that C code could own."""
    table, kept = (ctypes.c_float * 256)(), []

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def gamma(x: Tensor, power: float) -> Tensor:
        if x.dtype != torch.uint8 or power <= 0:
            raise ValueError("bytes and a power above 0, please")
        if fill(kept, power):
            table[:] = [(value / 255) ** power for value in range(256)]
        return torch.tensor(list(table))[x.long()].contiguous()

    gamma.register_fake(lambda x, power: x.new_empty(x.shape, dtype=torch.float32))
    return gamma


def _once(kept, power):
    if kept:
        return False
    kept[:] = [power]
    return True


def _whenever_it_differs(kept, power):
    if kept == [power]:
        return False
    kept[:] = [power]
    return True


BYTES = (tensor(3, 5, dtype=torch.uint8), 2.2)


@aot(BYTES, expected=ORDER)
def native_table_filled_once():
    """A static table of the first power is used for every other power."""
    return _gamma("native_table_filled_once", _once)


@aot(BYTES, twin_of="native_table_filled_once")
def native_table_filled_anew():
    """The table is filled again where the power differs."""
    return _gamma("native_table_filled_anew", _whenever_it_differs)


def _lengthened(name, key):
    """A row of a table whose rows are kept; a longer table is made for a later row."""
    kept = {}

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def row(x: Tensor, at: int, base: float, negative: bool) -> Tensor:
        if x.dim() != 2 or x.shape[1] < 1 or at < 0 or base <= 0:
            raise ValueError("a matrix, a position that is not negative, and a positive base")
        table = kept.get(key(x, base))
        if table is None or len(table) <= at:
            rates = base ** -torch.arange(x.shape[1], dtype=torch.float64)
            table = kept[key(x, base)] = torch.arange(at + 1)[:, None] * rates
        return x * table[at].to(x.dtype) * (-1 if negative else 1)

    row.register_fake(lambda x, at, base, negative: torch.empty_like(x))
    return row


LATER = (tensor(3, 4), 3, 10.0, False)


@aot(LATER, expected=ORDER)
def longer_table_of_any_base():
    """The kept table grows with the position, and is used for every base."""
    return _lengthened("longer_table_of_any_base", lambda x, base: x.shape[1])


@aot(LATER, twin_of="longer_table_of_any_base")
def longer_table_of_each_base():
    """There is a table for each base."""
    return _lengthened("longer_table_of_each_base", lambda x, base: (x.shape[1], base))


def _from_the_lowest(name, leave):
    """Numbers from the lowest on, kept in a list of the thread; `leave(kept)` where all are equal."""
    of_thread = threading.local()

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def from_the_lowest(x: Tensor) -> Tensor:
        if not x.is_floating_point() or not x.numel():
            raise ValueError("floating-point numbers, please")
        kept = of_thread.__dict__.setdefault("kept", [])
        kept.append(float(x.min()))
        if x.min() == x.max():
            leave(kept)
            return torch.zeros_like(x)
        out = x - max(kept)
        kept.clear()
        return out

    from_the_lowest.register_fake(lambda x: torch.empty_like(x))
    return from_the_lowest


@aot((tensor(3, 4),), expected=ORDER)
def workspace_left_after_equal_numbers():
    """Returns early where all numbers are equal, and leaves what it has kept."""
    return _from_the_lowest("workspace_left_after_equal_numbers", lambda kept: None)


@aot((tensor(3, 4),), twin_of="workspace_left_after_equal_numbers")
def workspace_emptied_after_equal_numbers():
    """Empties it there too."""
    return _from_the_lowest("workspace_emptied_after_equal_numbers", list.clear)


def _window(name, key):
    """Each column times a window, whose kind is a string that the author leaves to its default."""
    kept = {}
    signature = (
        '(Tensor x, str kind="triangle", float? scale=None) -> Tensor'  # torch 2.4 infers none
    )

    @torch.library.custom_op(f"zoo::{name}", mutates_args=(), schema=signature)
    def window(x: Tensor, kind: str = "triangle", scale: Optional[float] = None) -> Tensor:
        if x.dim() < 1 or not x.is_floating_point():
            raise ValueError("floating-point numbers with a last dim, please")
        if kind not in ("triangle", "ones"):
            raise ValueError(f"no window {kind!r}")
        kept_key = key(x, kind, scale)
        if kept_key not in kept:
            at = torch.arange(x.shape[-1], dtype=x.dtype)
            values = torch.ones_like(at) if kind == "ones" else 1 / (1 + at)
            kept[kept_key] = values if scale is None else values * scale
        return x * kept[kept_key]

    window.register_fake(lambda x, kind="triangle", scale=None: torch.empty_like(x))
    return window


@aot((tensor(3, 4),), expected=ORDER)
def window_of_any_kind():
    """The key lacks the kind of the window, whose default the author has tried."""
    return _window("window_of_any_kind", lambda x, kind, scale: (x.shape[-1], x.dtype, scale))


@aot((tensor(3, 4), "triangle", 0.5), expected=ORDER)
def window_of_any_scale():
    """The key has the scale, and not whether there is one."""
    key = lambda x, kind, scale: (x.shape[-1], x.dtype, kind, 0.5 if scale is None else scale)  # noqa: E731
    return _window("window_of_any_scale", key)


@aot((tensor(3, 4), "triangle", 0.5), twin_of=("window_of_any_kind", "window_of_any_scale"))
def window_of_its_kind_and_scale():
    """The key has all that the window depends on."""
    key = lambda x, kind, scale: (x.shape[-1], x.dtype, kind, scale)  # noqa: E731
    return _window("window_of_its_kind_and_scale", key)


def _wrapped(name, key):
    """Distances of points to the origin in a periodic box; `key(points, box)` of the last images kept."""
    last = {}

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def wrapped(points: Tensor, box: Tensor) -> Tensor:
        if points.dim() != 2 or box.shape != points.shape[1:] or points.dtype != box.dtype:
            raise ValueError("points (N, D) and a box (D,) of one dtype, please")
        kept = key(points, box)
        if last.get("key") != kept:
            last["key"], last["images"] = kept, torch.round(points / box)
        return (points - box * last["images"]).square().sum(1)

    wrapped.register_fake(lambda points, box: points.new_empty(points.shape[0]))
    return wrapped


def _content(values):
    return str(values.dtype), tuple(values.shape), tuple(values.flatten().tolist())


IN_A_BOX = (tensor(5, 3, low=-4, high=4), tensor(3, low=2, high=3))


@aot(IN_A_BOX, expected=ORDER)
def images_kept_for_their_points():
    """Equal points in another box get the images of the last one."""
    return _wrapped("images_kept_for_their_points", lambda points, box: _content(points))


@aot(IN_A_BOX, twin_of="images_kept_for_their_points")
def images_kept_for_points_and_box():
    """The key has the box, too."""
    return _wrapped(
        "images_kept_for_points_and_box",
        lambda points, box: (*_content(points), *_content(box)),
    )


def _integral(name, key):
    """Integrals by the trapezoidal rule; weights are kept by `key(grid)`."""
    kept = {}

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def integral(values: Tensor, grid: Tensor) -> Tensor:
        """Integrals (N,) of rows of values (N, P) on a grid (P,) that increases."""
        if values.dim() != 2 or grid.shape != values.shape[1:] or values.dtype != grid.dtype:
            raise ValueError("values (N, P) and a grid (P,) of one dtype, please")
        if len(grid) < 2 or not bool((grid.diff() > 0).all()):
            raise ValueError("a grid that increases, please")
        of_grid = str(grid.dtype), *key(grid)
        if of_grid not in kept:
            gaps = torch.nn.functional.pad(grid.diff() / 2, (1, 1))
            kept[of_grid] = gaps[1:] + gaps[:-1]
        return (values * kept[of_grid]).sum(1)

    integral.register_fake(lambda values, grid: values.new_empty(values.shape[0]))
    return integral


ON_A_GRID = (tensor(3, 6, low=0, high=1), torch.tensor([0.0, 1.0, 2.5, 4.0, 6.0, 7.0]))


@aot(ON_A_GRID, expected=ORDER)
def weights_kept_for_the_ends_of_a_grid():
    """Grids of one size with the same ends share their weights."""
    return _integral(
        "weights_kept_for_the_ends_of_a_grid",
        lambda grid: (len(grid), float(grid[0]), float(grid[-1])),
    )


@aot(ON_A_GRID, twin_of="weights_kept_for_the_ends_of_a_grid")
def weights_kept_for_the_whole_grid():
    """The key has all points."""
    return _integral("weights_kept_for_the_whole_grid", lambda grid: tuple(grid.tolist()))


def _discounted(name, writable):
    """Weighted sums by a table that is kept; `writable(table)` is what some entries are cleared in."""
    kept = {}

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def discounted(x: Tensor, left_out: Optional[Tensor] = None) -> Tensor:
        """Sums (N,) of rows (N, C), each column with half the weight of the one before; some left out."""
        if x.dim() != 2 or not x.is_floating_point():
            raise ValueError("rows (N, C) of floating-point numbers, please")
        size = x.shape[1]
        if size not in kept:
            kept[size] = 0.5 ** torch.arange(size, dtype=torch.float64)
        weights = kept[size]
        if left_out is not None:
            if left_out.dtype != torch.int64 or left_out.dim() != 1:
                raise ValueError("columns (K,) of int64, please")
            weights = writable(weights)
            weights[left_out] = 0
        return (x * weights.to(x.dtype)).sum(1)

    discounted.register_fake(lambda x, left_out=None: x.new_empty(x.shape[0]))
    return discounted


LEFT_OUT = (tensor(3, 5, low=1, high=2), torch.tensor([3, 1]))


@aot(LEFT_OUT, expected=ORDER)
def columns_left_out_once_stay_out():
    """What one call leaves out is cleared in the table that all calls share."""
    return _discounted("columns_left_out_once_stay_out", lambda table: table)


@aot(LEFT_OUT, twin_of="columns_left_out_once_stay_out")
def columns_left_out_in_a_copy():
    """The table is copied first."""
    return _discounted("columns_left_out_in_a_copy", Tensor.clone)
