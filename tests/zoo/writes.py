"""Writes that the schema does not declare, that go too far, or that do not happen."""

import functools
from typing import List, Optional, Sequence

import torch
from torch import Tensor

from pytest_customop import tensor

from .memory import library_op
from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager")
MATRIX = tensor(4, 3)
SMALL = tensor(4, 3, low=-1, high=1)
MUTATION = {"values.mutation": "undeclared-mutation"}


def op(name, kernel):
    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def operator(x: Tensor) -> Tensor:
        return kernel(x)

    operator.register_fake(lambda x: torch.empty_like(x))
    return operator


@aot((MATRIX,), expected=MUTATION)
def writes_a_tiny_change():
    """Multiplies its input by a little more than one on the way."""
    return op("writes_a_tiny_change", lambda x: x.mul_(1 + 2e-7) * 2)


@aot((MATRIX,), expected=MUTATION)
def writes_and_restores():
    """Negates its input, and negates it back."""

    def kernel(x):
        out = x.neg_() * -2
        x.neg_()
        return out

    return op("writes_and_restores", kernel)


@aot((MATRIX,), expected=MUTATION)
def writes_zeros_without_a_sign():
    """Adds zero to its input through numpy: -0.0 becomes 0.0, which is equal."""

    def kernel(x):
        x.numpy()[...] += 0.0
        return x * 2

    return op("writes_zeros_without_a_sign", kernel)


@aot((MATRIX,), expected=MUTATION)
def writes_other_nans():
    """Puts a NaN in the place of every NaN: of other bits, and equal to torch's eyes."""

    def kernel(x):
        values = x.numpy()
        values[values != values] = float("nan")
        return x * 2

    return op("writes_other_nans", kernel)


@aot((SMALL,), expected=MUTATION)
def writes_where_huge():
    """Clamps its input in place if an element is huge, which no sample is."""

    def kernel(x):
        if x.isfinite().all() and x.abs().max() > 1000:
            x.clamp_(-1000, 1000)
        return x * 2

    return op("writes_where_huge", kernel)


def _flagged(name, kernel):
    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def operator(x: Tensor, reuse: bool = False) -> Tensor:
        return kernel(x, reuse)

    operator.register_fake(lambda x, reuse=False: torch.empty_like(x))
    return operator


@aot((MATRIX, False), expected=MUTATION)
def writes_if_told():
    """Works in place if a flag says so."""
    return _flagged("writes_if_told", lambda x, reuse: (x.mul_(2) if reuse else x * 2).clone())


@aot((MATRIX, False), twin_of="writes_if_told")
def writes_nothing_if_told():
    """Takes the same flag, and works in place on a copy."""
    return _flagged(
        "writes_nothing_if_told", lambda x, reuse: x.clone().mul_(2) if reuse else x * 2
    )


def _in_a_list(name, prepare):
    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def total(xs: Sequence[Tensor], bias: Optional[Tensor] = None) -> List[Tensor]:
        return [prepare(x) * 2 for x in ([*xs] if bias is None else [*xs, bias])]

    @total.register_fake
    def _(xs, bias=None):
        return [torch.empty_like(x) for x in ([*xs] if bias is None else [*xs, bias])]

    return total


def _without_nan(x):
    if x.dim() == 1:
        x.numpy()[x.isnan().numpy()] = 0.0
    return x


@aot(([MATRIX, tensor(3)],), expected=MUTATION)
def writes_to_a_list_element():
    """Puts zeros for NaN into the second tensor of a list."""
    return _in_a_list("writes_to_a_list_element", _without_nan)


@aot(([MATRIX], tensor(3)), expected=MUTATION)
def writes_to_an_optional():
    """Puts zeros for NaN into an optional tensor."""
    return _in_a_list("writes_to_an_optional", _without_nan)


@aot(
    ([MATRIX, tensor(3)],),
    ([MATRIX], tensor(3)),
    twin_of=("writes_to_a_list_element", "writes_to_an_optional"),
)
def writes_to_copies_in_a_list():
    """Puts zeros for NaN into copies."""
    return _in_a_list("writes_to_copies_in_a_list", lambda x: _without_nan(x.clone()))


@aot(
    (MATRIX,),
    twin_of=(
        "writes_a_tiny_change",
        "writes_and_restores",
        "writes_zeros_without_a_sign",
        "writes_other_nans",
        "writes_where_huge",
    ),
)
def writes_to_a_copy():
    """Works in place on a copy of its input."""
    return op("writes_to_a_copy", lambda x: x.clone().nan_to_num_().mul_(2))


# ---------------------------------------------------------------------------- declared writes


def _in_place(name, kernel):
    @torch.library.custom_op(f"zoo::{name}", mutates_args={"x"})
    def operator(x: Tensor) -> None:
        kernel(x)

    operator.register_fake(lambda x: None)
    return operator


@aot((MATRIX,), expected={"values.mutation": "mutation-missing"})
def scales_a_copy():
    """Declares that it scales its argument, and scales a copy."""
    return _in_place("scales_a_copy", lambda x: x * 2)


@aot((MATRIX,), expected={"values.mutation": "write-outside-elements"})
def clears_the_whole_storage():
    """Clears the storage of its argument before it writes the elements."""

    def kernel(x):
        values = x * 2
        size = x.untyped_storage().nbytes() // x.element_size()
        x.as_strided((size,), (1,), 0).zero_()
        x.copy_(values)

    return _in_place("clears_the_whole_storage", kernel)


@aot((MATRIX,), twin_of=("scales_a_copy", "clears_the_whole_storage"))
def scales_in_place():
    """Declares that it scales its argument, and does."""
    return _in_place("scales_in_place", lambda x: x.mul_(2))


@aot((MATRIX, MATRIX, torch.ones(1)), twin_of="scales_a_copy")
def skips_where_a_tensor_says_so():
    """Correct: nothing is written where a tensor of one element is not 0, as in the sample.

    With equal numbers in all tensors, the mean stays what it is.
    """

    @torch.library.custom_op("zoo::skips_where_a_tensor_says_so", mutates_args={"mean"})
    def averaged(x: Tensor, mean: Tensor, found_inf: Tensor) -> None:
        if not found_inf.item():
            mean.mul_(0.5).add_(x, alpha=0.5)

    averaged.register_fake(lambda x, mean, found_inf: None)
    return averaged


def _by_numpy(name, after, argument="x", said=None):
    def kernel(x):
        x.numpy()[...] *= 2
        after(x)

    fake = lambda x: None  # noqa: E731
    fake.__doc__ = said
    return library_op(name, f"(Tensor(a!) {argument}) -> ()", kernel, fake)


@aot((MATRIX,), expected={"values.mutation": "version-not-bumped"})
def scales_by_numpy():
    """Declares that it scales its argument, and does so behind autograd's back."""
    return _by_numpy("scales_by_numpy", lambda x: None)


@aot((MATRIX,), twin_of="scales_by_numpy")
def scales_by_numpy_and_says_so():
    """The same, and counts the write."""
    return _by_numpy("scales_by_numpy_and_says_so", torch.autograd.graph.increment_version)


@aot((MATRIX,), notes={"values.mutation": "version-not-bumped"})
def scales_a_buffer_by_numpy():
    """Correct, and noted: scales a buffer, which no formula saves, behind autograd's back."""
    return _by_numpy("scales_a_buffer_by_numpy", lambda x: None, argument="state")


@aot((torch.arange(6),), notes={"values.mutation": "version-not-bumped"})
def scales_whole_numbers_by_numpy():
    """Correct, and noted: scales whole numbers, which have no gradient, behind autograd's back."""
    return _by_numpy("scales_whole_numbers_by_numpy", lambda x: None)


@aot((MATRIX,), notes={"values.mutation": "version-not-bumped"})
def scales_by_numpy_without_gradients():
    """Correct, and noted: a docstring says that nothing has gradients."""
    said = "Doubles numbers in place. Not differentiable."
    return _by_numpy("scales_by_numpy_without_gradients", lambda x: None, said=said)


@aot((MATRIX, tensor(3), False), (MATRIX, tensor(3), True), (MATRIX, None, True))
def updates_in_training():
    """Correct: writes to an optional running mean, in training only."""

    @torch.library.custom_op("zoo::updates_in_training", mutates_args={"mean"})
    def center(x: Tensor, mean: Optional[Tensor], training: bool) -> Tensor:
        if mean is None:
            return x - x.mean(0)
        if training:
            mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
        return x - mean

    @center.register_fake
    def _(x, mean, training):
        return x - (x.mean(0) if mean is None else mean)

    return center


@aot((MATRIX, tensor(8, fill=0, dtype=torch.int32)))
def puts_back_a_lock():
    """Correct: counts in a workspace that it leaves as it found it, all zeros."""

    @torch.library.custom_op("zoo::puts_back_a_lock", mutates_args={"lock"})
    def double(x: Tensor, lock: Tensor) -> Tensor:
        lock.add_(1)
        out = x * 2
        lock.sub_(1)
        return out

    double.register_fake(lambda x, lock: torch.empty_like(x))
    return double


@aot((MATRIX, 1.0), (MATRIX, 2.0))
def scales_by_a_number():
    """Correct: scales its argument in place, which a factor of one leaves as it is."""

    @torch.library.custom_op("zoo::scales_by_a_number", mutates_args={"x"})
    def scale(x: Tensor, factor: float) -> None:
        x.mul_(factor)

    scale.register_fake(lambda x, factor: None)
    return scale


@aot((MATRIX, 3), (MATRIX, 4))
def writes_every_fourth_step():
    """Correct: writes to an argument only at some steps."""

    @torch.library.custom_op("zoo::writes_every_fourth_step", mutates_args={"mean"})
    def step(mean: Tensor, number: int) -> Tensor:
        if number % 4 == 0:
            mean.mul_(0.5)
        return mean + number

    step.register_fake(lambda mean, number: torch.empty_like(mean))
    return step


@aot((tensor(4, 3, low=0, high=1),))
def clamps_in_place():
    """Correct: clamps in place values that need no clamping."""
    return _in_place("clamps_in_place", lambda x: x.clamp_(0, 1))


@aot(([torch.tensor([float("inf"), 1.0]), torch.ones(2)], 2.0))
def clips_by_a_finite_norm():
    """Correct: arguments whose norm is infinite stay as they are, as in the sample."""

    @torch.library.custom_op("zoo::clips_by_a_finite_norm", mutates_args=("xs",))
    def op(xs: List[Tensor], limit: float) -> Tensor:
        norm = torch.stack([x.double().norm() for x in xs]).norm()
        if norm.isfinite() and norm > limit:
            for x in xs:
                x.mul_(limit / float(norm))
        return norm

    op.register_fake(lambda xs, limit: xs[0].new_empty((), dtype=torch.float64))
    return op


LENGTHS = (MATRIX, torch.tensor([3, 1, 2, 2]))
NO_SIZE = {"fake.symbolic": "no-second-size"}  # the lengths refer to the size


def _beside_lengths(name, limited):
    """The sum of the first numbers of each row; `limited(lengths, size)` is how many count."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def sums(x: Tensor, lengths: Tensor) -> Tensor:
        if x.dim() != 2 or lengths.shape != x.shape[:1] or lengths.dtype != torch.int64:
            raise ValueError("rows, and an int64 length for each, please")
        counts = limited(lengths, x.shape[1])
        return (x * (torch.arange(x.shape[1]) < counts[:, None])).sum(1)

    sums.register_fake(lambda x, lengths: x.new_empty(x.shape[0]))
    return sums


@aot(LENGTHS, expected=MUTATION, skips=NO_SIZE)
def limits_lengths_in_place():
    """Lengths beyond the row become its size, in the argument; those of the sample are not."""
    return _beside_lengths(
        "limits_lengths_in_place", lambda lengths, size: lengths.clamp_(max=size)
    )


@aot(LENGTHS, twin_of="limits_lengths_in_place", skips=NO_SIZE)
def limits_lengths_of_a_copy():
    """The same in a copy."""
    return _beside_lengths(
        "limits_lengths_of_a_copy", lambda lengths, size: lengths.clamp(max=size)
    )
