"""Ops that are right for the example, and wrong beside it with another flag, dim, dtype or option."""

import functools
from typing import List, Optional

import numpy as np
import torch
from torch import Tensor

from pytest_customop import Sample, tensor

from .memory import library_op
from .variants import DTYPE, MATRIX, RAISES, SHAPE, VECTOR, specimen

ALIAS = {"values.aliasing": "undeclared-alias", "fake.forward": "fake-alias-mismatch"}


def _sums(name, fake):
    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def sums(x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
        return x.sum(dim, keepdim=keepdim).contiguous()

    sums.register_fake(fake)
    return sums


def _summed(x, dim, keepdim=False):
    """What the fake kernel should say; `dim` counted from the front."""
    return x.new_empty(x.shape[:dim] + (1,) * keepdim + x.shape[dim + 1 :])


@specimen((MATRIX, 1, False), variant_findings=SHAPE, shown_by="keepdim.true")
def fake_ignores_a_flag():
    """The fake kernel drops the dim, also where a flag says that it is kept."""
    return _sums("fake_ignores_a_flag", lambda x, dim, keepdim=False: _summed(x, dim % x.dim()))


@specimen((MATRIX, 1, False), variant_findings=SHAPE, shown_by="dim.negated")
def fake_takes_no_negative_dim():
    """The fake kernel takes every dim as counted from the front."""
    return _sums("fake_takes_no_negative_dim", _summed)


@specimen((MATRIX, 1, False), variant_findings=SHAPE, shown_by="dim.0")
def fake_drops_the_last_dim():
    """The fake kernel drops the last dim, whichever is summed."""
    return _sums(
        "fake_drops_the_last_dim",
        lambda x, dim, keepdim=False: _summed(x, x.dim() - 1, keepdim),
    )


@specimen(
    (MATRIX, 1, False),
    twin_of=("fake_ignores_a_flag", "fake_takes_no_negative_dim", "fake_drops_the_last_dim"),
)
def fake_drops_any_dim():
    """Both kernels take any dim, counted from either end, and the flag."""
    return _sums(
        "fake_drops_any_dim", lambda x, dim, keepdim=False: _summed(x, dim % x.dim(), keepdim)
    )


def _converted(name, dtype_of):
    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def converted(x: Tensor, dtype: torch.dtype) -> Tensor:
        return x.to(dtype, copy=True)

    converted.register_fake(lambda x, dtype: torch.empty_like(x, dtype=dtype_of(x, dtype)))
    return converted


@specimen((MATRIX, torch.bfloat16), variant_findings=DTYPE, shown_by="dtype.float64")
def fake_converts_to_half():
    """The fake kernel says bfloat16, whichever dtype is asked for."""
    return _converted("fake_converts_to_half", lambda x, dtype: torch.bfloat16)


@specimen((MATRIX, torch.bfloat16), twin_of="fake_converts_to_half")
def fake_converts_as_asked():
    """Both kernels convert to the dtype that is asked for."""
    return _converted("fake_converts_as_asked", lambda x, dtype: dtype)


def _rows(name, count):
    """The rows that are asked for, or all."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def rows(x: Tensor, index: Optional[Tensor] = None) -> Tensor:
        if x.dim() != 2 or (index is not None and index.dim() != 1):
            raise ValueError("a matrix and a list of rows, please")
        kept = x if index is None else x.index_select(0, index)
        return kept.clone(memory_format=torch.contiguous_format)

    rows.register_fake(lambda x, index=None: x.new_empty(count(x, index), x.shape[1]))
    return rows


SOME = (MATRIX, tensor(values=[2, 0, 1]))


@specimen(SOME, variant_findings=RAISES, shown_by="index.absent")
def fake_needs_an_option():
    """The fake kernel asks an optional tensor for its size, and None has none."""
    return _rows("fake_needs_an_option", lambda x, index: index.shape[0])


@specimen(SOME, twin_of="fake_needs_an_option")
def fake_needs_no_option():
    """Both kernels do without the optional tensor."""
    count = lambda x, index: x.shape[0] if index is None else index.shape[0]  # noqa: E731
    return _rows("fake_needs_no_option", count)


def _clipped(name, kernel):
    """A clamp that also says, in a tensor that may be given, what it clamped."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def clipped(x: Tensor, bound: Optional[Tensor] = None) -> Tensor:
        if bound is not None and (bound.shape, bound.dtype) != (x.shape, x.dtype):
            raise ValueError("a bound for each element, please")
        return x.clamp(-1, 1) if bound is None else x.clamp(max=kernel(bound)).clone()

    clipped.register_fake(lambda x, bound=None: torch.empty_like(x))
    return clipped


@specimen(
    (MATRIX,), variant_findings={"values.mutation": "undeclared-mutation"}, shown_by="bound.given"
)
def writes_to_an_option():
    """Takes the magnitudes of an optional tensor in place."""
    return _clipped("writes_to_an_option", lambda bound: bound.abs_().add_(0.5))


@specimen((MATRIX,), twin_of="writes_to_an_option")
def leaves_an_option_alone():
    """Takes the magnitudes of an optional tensor in memory of its own."""
    return _clipped("leaves_an_option_alone", lambda bound: bound.abs().add_(0.5))


def _following(name, advanced):
    """The number behind a chosen column; `advanced(columns, count)` moves the columns on."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def following(x: Tensor, columns: Optional[Tensor] = None) -> Tensor:
        """The number of each row behind a chosen one, or the first.

        Args:
            x: (B, V).
            columns: (B,) int64, the chosen column of each row; None: the first number is taken.
        """
        if x.dim() != 2 or not x.shape[1]:
            raise ValueError("rows of numbers, please")
        if columns is None:
            return x[:, 0].clone()
        if columns.dtype != torch.int64 or columns.shape != x.shape[:1]:
            raise ValueError("an int64 column for each row, please")
        return x.gather(1, advanced(columns, x.shape[1]).unsqueeze(1)).squeeze(1)

    following.register_fake(lambda x, columns=None: x.new_empty(x.shape[0]))
    return following


@specimen(
    (MATRIX,), variant_findings={"values.mutation": "undeclared-mutation"}, shown_by="columns.given"
)
def moves_optional_columns():
    """Moves optional columns on in place."""
    return _following("moves_optional_columns", lambda columns, n: columns.add_(1).remainder_(n))


@specimen((MATRIX,), twin_of="moves_optional_columns")
def leaves_optional_columns():
    """Moves optional columns on in memory of its own."""
    return _following("leaves_optional_columns", lambda columns, n: (columns + 1) % n)


LISTED = {"fake.symbolic": "no-second-size"}
PARTS = (torch.tensor([0, 2, 2, 5]),)


def _part_lengths(name, added):
    """The lengths of parts; `added(seen, lengths)` adds them to counters that may be given."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def part_lengths(offsets: Tensor, seen: Optional[Tensor] = None) -> Tensor:
        """The length of each part; offsets: (N + 1,) int64, which do not decrease.

        With counters `seen` (N,) int64 from earlier calls, the sums of both.
        """
        if offsets.dim() != 1 or not offsets.numel() or offsets.dtype != torch.int64:
            raise ValueError("int64 offsets, please")
        lengths = offsets.diff()
        if bool((lengths < 0).any()):
            raise ValueError("offsets that do not decrease, please")
        if seen is None:
            return lengths
        if seen.dtype != torch.int64 or seen.shape != lengths.shape:
            raise ValueError("an int64 counter for each part, please")
        return added(seen, lengths)

    part_lengths.register_fake(lambda offsets, seen=None: offsets.new_empty(offsets.shape[0] - 1))
    return part_lengths


@specimen(
    PARTS,
    variant_findings={"values.mutation": "undeclared-mutation"},
    shown_by="seen.given",
    skips=LISTED,
)
def counts_in_an_option():
    """Adds to optional counters in place, where no argument is a floating-point tensor."""
    return _part_lengths("counts_in_an_option", lambda seen, more: seen.add_(more).clone())


@specimen(PARTS, twin_of="counts_in_an_option", skips=LISTED)
def counts_beside_an_option():
    """Adds to optional counters in memory of its own."""
    return _part_lengths("counts_beside_an_option", lambda seen, more: seen + more)


def _negated_part(name, unchanged):
    """The first part of the columns negated; `unchanged(x)` where it has none."""

    def kernel(x, parts):
        if x.dim() != 2 or x.shape[1] < 2 or parts < 1:
            raise ValueError("rows of several columns, please, and at least one part")
        count = x.shape[1] // parts
        if not count:
            return unchanged(x)
        return torch.cat((-x[:, :count], x[:, count:]), 1)

    def fake(x, parts):
        """x (N, C) with the first ``C // parts`` columns negated.

        Rows with fewer columns than `parts` stay as they are.
        """
        return x.new_empty(x.shape)

    return library_op(name, "(Tensor x, int parts) -> Tensor", kernel, fake)


@specimen((tensor(5, 4), 2), variant_findings=ALIAS, shown_by="parts.above")
def returns_narrow_rows():
    """Returns the very tensor where a part has no column."""
    return _negated_part("returns_narrow_rows", lambda x: x.contiguous())


@specimen((tensor(5, 4), 2), twin_of="returns_narrow_rows")
def copies_narrow_rows():
    """Returns a copy where a part has no column."""
    copy = lambda x: x.clone(memory_format=torch.contiguous_format)  # noqa: E731
    return _negated_part("copies_narrow_rows", copy)


def _joined(name, shortcut):
    """One tensor after the other; `shortcut(x)` where there is one only."""

    def kernel(xs):
        return shortcut(xs[0]) if len(xs) == 1 else torch.cat(xs)

    return library_op(name, "(Tensor[] xs) -> Tensor", kernel, torch.cat)


@specimen(([VECTOR, VECTOR],), variant_findings=ALIAS, shown_by="xs.single")
def joins_one_to_itself():
    """Returns the very tensor where a list has one element."""
    return _joined("joins_one_to_itself", lambda x: x)


@specimen(([VECTOR, VECTOR],), twin_of="joins_one_to_itself")
def joins_one_to_a_copy():
    """Returns a copy where a list has one element."""
    copy = lambda x: x.clone(memory_format=torch.contiguous_format)  # noqa: E731
    return _joined("joins_one_to_a_copy", copy)


def _power(name, first):
    """A whole power by multiplication; `first(x)` is the first power."""

    def kernel(x, *, exponent=1):
        y = first(x)
        for _ in range(exponent - 1):
            y = y * x
        return y

    schema = "(Tensor x, *, int exponent=1) -> Tensor"
    return library_op(name, schema, kernel, lambda x, *, exponent=1: torch.empty_like(x))


@specimen(Sample((MATRIX,), {"exponent": 3}), variant_findings=ALIAS, shown_by="exponent.default")
def first_power_is_the_input():
    """Returns the input for an exponent of one, which is the default."""
    return _power("first_power_is_the_input", lambda x: x)


@specimen(Sample((MATRIX,), {"exponent": 3}), twin_of="first_power_is_the_input")
def first_power_is_a_copy():
    """Starts from a copy."""
    return _power("first_power_is_a_copy", torch.clone)


def _signed(name, factor):
    """A sine, or its negative; `factor(negate)` is what its backward multiplies by."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def signed(x: Tensor, negate: bool) -> Tensor:
        return -x.sin() if negate else x.sin()

    signed.register_fake(lambda x, negate: torch.empty_like(x))

    def setup(ctx, inputs, output):
        x, ctx.negate = inputs
        ctx.save_for_backward(x)

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.cos() * factor(ctx.negate), None

    signed.register_autograd(backward, setup_context=setup)
    return signed


@specimen(
    (MATRIX, False),
    variant_findings={"gradcheck.backward": "gradient-mismatch"},
    shown_by="negate.true",
)
def backward_ignores_a_flag():
    """The backward is that of the flag's one value."""
    return _signed("backward_ignores_a_flag", lambda negate: 1)


@specimen((MATRIX, False), twin_of="backward_ignores_a_flag")
def backward_minds_a_flag():
    """The backward looks at the flag."""
    return _signed("backward_minds_a_flag", lambda negate: -1 if negate else 1)


def _running_mean(name, written):
    """Moves a mean towards that of a batch; without a momentum it counts the batches."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=written)
    def move(mean: Tensor, count: Tensor, x: Tensor, momentum: Optional[float] = 0.1) -> None:
        if x.dim() != 2 or mean.shape != x.shape[1:] or count.dim():
            raise ValueError("a mean for each column, and one count, please")
        if momentum is None:
            count += 1
            momentum = 1 / max(float(count), 1.0)
        mean.lerp_(x.mean(0), momentum)

    return move


AVERAGED = (tensor(4), tensor(fill=3.0), tensor(6, 4))


@specimen(
    AVERAGED,
    variant_findings={"values.mutation": "undeclared-mutation"},
    shown_by="momentum.absent",
)
def counts_without_a_momentum():
    """Writes to the count where a number that has a default is None."""
    return _running_mean("counts_without_a_momentum", ("mean",))


@specimen(AVERAGED, twin_of="counts_without_a_momentum")
def says_that_it_counts():
    """Declares that."""
    return _running_mean("says_that_it_counts", ("mean", "count"))


def _flattened(name, dtype_of):
    """All elements of some tensors in one; `dtype_of(xs)` is what the fake kernel gives."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def flattened(xs: List[Tensor]) -> Tensor:
        return torch.cat([x.flatten() for x in xs])

    flattened.register_fake(
        lambda xs: xs[0].new_empty(sum(x.numel() for x in xs), dtype=dtype_of(xs))
    )
    return flattened


NARROWER = ([tensor(4, 3, dtype=torch.float64), tensor(5, dtype=torch.float32)],)


@specimen(
    NARROWER,
    variant_findings={"fake.forward": "fake-dtype-mismatch"},
    shown_by="xs.reversed",
)
def fake_has_the_dtype_of_the_first():
    """The fake kernel has the dtype of the first tensor, which is the wider one in the example."""
    return _flattened("fake_has_the_dtype_of_the_first", lambda xs: xs[0].dtype)


@specimen(NARROWER, twin_of="fake_has_the_dtype_of_the_first")
def fake_has_the_widest_dtype():
    """The fake kernel promotes the dtypes of all."""
    return _flattened(
        "fake_has_the_widest_dtype",
        lambda xs: functools.reduce(torch.promote_types, (x.dtype for x in xs)),
    )


def _averaged(name, mutated):
    """Running means of lists of tensors and, where a flag asks for them, their running maxima."""

    def check(means, xs, maxima, decay, track):
        lists = [means, xs, *([maxima] if track else [])]
        if len({*map(len, lists)}) > 1 or (maxima and not track):
            raise ValueError("lists of one length, please; maxima only where they are asked for")
        if any(
            tensor.shape != x.shape for group in lists for tensor, x in zip(group, xs, strict=True)
        ):
            raise ValueError("tensors of one shape, please")

    def averaged(
        means: List[Tensor],
        xs: List[Tensor],
        maxima: List[Tensor],
        decay: float = 0.9,
        track: bool = False,
    ) -> None:
        check(means, xs, maxima, decay, track)
        for at, (mean, x) in enumerate(zip(means, xs, strict=True)):
            mean.mul_(decay).add_(x, alpha=1 - decay)
            if track:
                maxima[at].copy_(torch.maximum(maxima[at], mean))

    operator = torch.library.custom_op(f"zoo::{name}", averaged, mutates_args=mutated)
    operator.register_fake(
        lambda means, xs, maxima, decay=0.9, track=False: check(means, xs, maxima, decay, track)
    )
    return operator


MEANS = ([tensor(3, 2), tensor(4)], [tensor(3, 2), tensor(4)], [])


@specimen(
    MEANS,
    requires_grad=[False],
    variant_findings={"values.mutation": "undeclared-mutation"},
    shown_by="maxima.as_xs_with_track",
)
def maxima_written_behind_a_flag():
    """Writes to a list that the schema does not declare, which is empty where its flag is off."""
    return _averaged("maxima_written_behind_a_flag", {"means"})


@specimen(MEANS, requires_grad=[False], twin_of="maxima_written_behind_a_flag")
def maxima_declared():
    """Declares both."""
    return _averaged("maxima_declared", {"means", "maxima"})


def _rescaled(name, copied):
    """A grid at other spacings, each new number the one before it."""

    def sizes(x, old, new):
        if x.dim() != len(old) or len(old) != len(new) or min(*old, *new) <= 0:
            raise ValueError("a spacing for each dim, please")
        return [torch.sym_int(n * (a / b)) for n, a, b in zip(x.shape, old, new, strict=True)]

    def rescaled(x, old, new):
        found = x.contiguous()
        if list(old) == list(new):
            return copied(found, x)
        for dim, size in enumerate(sizes(x, old, new)):
            at = (torch.arange(size) * (new[dim] / old[dim])).long().clamp(max=x.shape[dim] - 1)
            found = found.index_select(dim, at)
        return found

    schema = "(Tensor x, float[] old, float[] new) -> Tensor"
    return library_op(name, schema, rescaled, lambda x, old, new: x.new_empty(sizes(x, old, new)))


SPACINGS = (tensor(4, 6), [2.0, 3.0], [1.0, 1.5])


@specimen(SPACINGS, requires_grad=[False], variant_findings=ALIAS, shown_by="new.is.old")
def returns_its_input_at_the_old_spacing():
    """Returns its input where the spacings are equal, if it is contiguous."""
    return _rescaled("returns_its_input_at_the_old_spacing", lambda found, x: found)


@specimen(SPACINGS, requires_grad=[False], twin_of="returns_its_input_at_the_old_spacing")
def copies_at_the_old_spacing():
    """Copies there."""
    return _rescaled(
        "copies_at_the_old_spacing", lambda found, x: found.clone() if found is x else found
    )


def _gaps(name, array):
    """The distances of neighbours in a matrix; `array(spacing)` is what they are multiplied with."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def gaps(x: Tensor, spacing: Optional[List[float]] = None) -> Tensor:
        if x.dim() != 2 or (spacing is not None and len(spacing) != 2):
            raise ValueError("a matrix, and two spacings, please")
        down, across = (
            np.gradient(x.numpy()) if 1 not in x.shape and x.numel() else (x.numpy(),) * 2
        )
        if spacing is not None:
            down, across = np.stack([down, across]) / array(spacing, x)[:, None, None]
        return torch.from_numpy(np.ascontiguousarray(np.hypot(down, across)))

    gaps.register_fake(lambda x, spacing=None: x.new_empty(x.shape))
    return gaps


@specimen(
    (tensor(4, 3, dtype=torch.float32),),
    requires_grad=[False],
    variant_findings=DTYPE,
    shown_by="spacing.0.5_1.5",
)
def spacing_in_double_precision():
    """numpy makes float64 of a list of numbers, and of the result; the fake kernel says float32."""
    return _gaps("spacing_in_double_precision", lambda spacing, x: np.asarray(spacing))


@specimen(
    (tensor(4, 3, dtype=torch.float32),),
    requires_grad=[False],
    twin_of="spacing_in_double_precision",
)
def spacing_in_the_dtype_of_x():
    """The numbers of the list get the dtype of the matrix."""
    return _gaps(
        "spacing_in_the_dtype_of_x", lambda spacing, x: np.asarray(spacing, dtype=x.numpy().dtype)
    )


def _blended(name, copied):
    """An image with half of another one; `copied(image)` is what is computed on."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def blended(image: Tensor, other: Tensor) -> Tensor:
        """Half of each image.

        image: uint8 or floating point
        other: the same size and dtype
        """
        if image.shape != other.shape or image.dtype != other.dtype:
            raise ValueError("two images of one size and dtype, please")
        out = copied(image).mul_(0.5).add_(other, alpha=0.5)
        if not image.is_floating_point():
            out = out.round().clamp(0, 255)
        return out.to(image.dtype).clone(memory_format=torch.contiguous_format)

    blended.register_fake(lambda image, other: image.new_empty(image.shape))
    return blended


PIXELS = tensor(4, 6, dtype=torch.uint8, low=0, high=256)


@specimen(
    (PIXELS, PIXELS),
    variant_findings={"values.mutation": "undeclared-mutation"},
    shown_by="uint8_as_float32",
)
def blends_into_a_float_image():
    """`to(float32)` copies bytes, and not the floats that the docstring allows."""
    return _blended("blends_into_a_float_image", lambda image: image.to(torch.float32))


@specimen((PIXELS, PIXELS), twin_of="blends_into_a_float_image")
def blends_into_a_copy():
    """A copy in either case."""
    return _blended("blends_into_a_copy", lambda image: image.to(torch.float32, copy=True))


def _decoded(name, dtype):
    """The running sum of each row; `dtype(x)` is what numpy adds up in."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def decoded(x: Tensor) -> Tensor:
        """The running sum of rows of any integer dtype, in that dtype."""
        if x.dim() != 2 or x.is_floating_point() or x.dtype == torch.bool:
            raise TypeError("rows of whole numbers, please")
        sums = np.cumsum(x.numpy(), axis=1, dtype=dtype(x.numpy()))
        return torch.from_numpy(np.ascontiguousarray(sums))

    decoded.register_fake(lambda x: x.new_empty(x.shape))
    return decoded


DELTAS = tensor(3, 5, dtype=torch.int64, low=-3, high=4)


@specimen((DELTAS,), variant_findings=DTYPE, shown_by="int32")
def sums_in_int64():
    """numpy adds up in int64; the docstring and the fake kernel say the dtype of the rows."""
    return _decoded("sums_in_int64", lambda x: None)


@specimen((DELTAS,), twin_of="sums_in_int64")
def sums_in_the_dtype_of_the_rows():
    """In the dtype of the rows."""
    return _decoded("sums_in_the_dtype_of_the_rows", lambda x: x.dtype)


BAGS = (tensor(6, 3), torch.tensor([0, 2, 5, 1, 3]), torch.tensor([0, 2, 2]))


def _bags(name, fake):
    """Sums of the rows of bags, without the check whether all rows are in one."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def bags(
        table: Tensor, rows: Tensor, offsets: Tensor, include_last_offset: bool = False
    ) -> Tensor:
        if table.dim() != 2 or rows.dim() != 1 or offsets.dim() != 1:
            raise ValueError("a table and lists of rows and offsets, please")
        ends = [*offsets.tolist(), *([] if include_last_offset else [len(rows)])]
        if ends[0] != 0 or ends != sorted(ends) or ends[-1] != len(rows):
            raise ValueError("offsets from 0 that never fall, up to the number of rows, please")
        totals = table.new_zeros(len(ends) - 1, table.shape[1])
        sizes = torch.tensor(ends).diff()
        return totals.index_add(0, torch.arange(len(sizes)).repeat_interleave(sizes), table[rows])

    bags.register_fake(fake)
    return bags


@specimen(
    BAGS,
    variant_findings={
        **dict.fromkeys(SHAPE, "fake-shape-mismatch"),
        "compile.dynamic": "compile-output-mismatch",
    },
    shown_by="include_last_offset.true_with_end",
)
def fake_bags_without_the_last_offset():
    """The fake kernel takes each offset for the begin of a bag, also where the last one is an end."""
    return _bags(
        "fake_bags_without_the_last_offset",
        lambda table, rows, offsets, include_last_offset=False: table.new_empty(
            offsets.shape[0], table.shape[1]
        ),
    )


@specimen(BAGS, twin_of="fake_bags_without_the_last_offset")
def fake_bags_with_the_last_offset():
    """Both kernels know the flag. Without offsets the kernel refuses the rows that are in no bag."""
    return _bags(
        "fake_bags_with_the_last_offset",
        lambda table, rows, offsets, include_last_offset=False: table.new_empty(
            offsets.shape[0] - int(include_last_offset), table.shape[1]
        ),
    )
