"""Outputs that share memory with arguments or with each other."""

import functools

import torch
from torch import Tensor

from pytest_customop import tensor

from .registry import library, since, specimen

aot = functools.partial(specimen, backend="aot_eager")
MATRIX = tensor(4, 3)
ALIAS = {"values.aliasing": "undeclared-alias"}


def library_op(name, schema, kernel, fake):
    lib = library()
    lib.define(f"{name}{schema}")
    lib.impl(name, torch.no_grad()(kernel), "CPU")
    torch.library.register_fake(f"zoo::{name}", fake, lib=lib)
    return getattr(torch.ops.zoo, name).default


def _to_double(x):
    return x.new_empty(x.shape, dtype=torch.float64)


@aot((MATRIX,), expected=ALIAS)
def to_double_may_return_itself():
    """Converts to float64, which for float64 returns the input itself."""
    schema = "(Tensor x) -> Tensor"
    kernel = lambda x: x.contiguous().to(torch.float64)  # noqa: E731
    return library_op("to_double_may_return_itself", schema, kernel, _to_double)


@aot((MATRIX,), expected=ALIAS)
def to_double_may_be_refused():
    """The same by custom_op: torch refuses to return the input itself, and the op raises."""

    @torch.library.custom_op("zoo::to_double_may_be_refused", mutates_args=())
    def convert(x: Tensor) -> Tensor:
        return x.contiguous().to(torch.float64)

    convert.register_fake(_to_double)
    return convert


@aot((tensor(4, 3, layout="transposed"),), expected=ALIAS)
def contiguous_may_return_itself():
    """Makes contiguous, which for contiguous memory returns the input itself."""
    return library_op(
        "contiguous_may_return_itself",
        "(Tensor x) -> Tensor",
        lambda x: x.contiguous(),
        lambda x: x.new_empty(x.shape),
    )


@aot(
    (MATRIX,),
    twin_of=(
        "to_double_may_return_itself",
        "to_double_may_be_refused",
        "contiguous_may_return_itself",
    ),
)
def to_double_copies():
    """Converts to float64, and copies where there is nothing to convert."""
    kernel = lambda x: x.contiguous().to(torch.float64, copy=True)  # noqa: E731
    return library_op("to_double_copies", "(Tensor x) -> Tensor", kernel, _to_double)


def _twice(name, second):
    def kernel(x):
        first = x * 2
        return [first, second(first)]

    return library_op(name, "(Tensor x) -> Tensor[]", kernel, kernel)


@aot((MATRIX,), expected={"values.aliasing": "outputs-share-memory"})
def list_of_one_tensor_twice():
    """Both kernels return one tensor twice, in a list."""
    return _twice("list_of_one_tensor_twice", lambda first: first)


@aot((MATRIX,), twin_of="list_of_one_tensor_twice")
def list_of_two_tensors():
    """Both kernels return a tensor and its copy, in a list."""
    return _twice("list_of_two_tensors", torch.clone)


def _halves(name, finish, schema="(Tensor x) -> Tensor[]", outputs=list):
    """Two outputs that are computed side by side in one buffer; `finish` makes an output of its half."""

    def halves(x):
        place = x.new_empty(2 * x.numel())
        torch.cat([x.flatten(), x.flatten() * 2], out=place)
        return outputs(finish(part.view(x.shape)) for part in place.chunk(2))

    def fake(x):
        parts = x.new_empty(2 * x.numel()).chunk(2)
        return outputs(finish(part.view(x.shape)) for part in parts)

    return library_op(name, schema, halves, fake)


SIDE_BY_SIDE = {"values.aliasing": since("2.13", "outputs-share-storage")}


@aot((MATRIX,), expected=SIDE_BY_SIDE)
def list_of_halves_of_a_buffer():
    """Both kernels return tensors that lie side by side in one buffer, and share no element."""
    return _halves("list_of_halves_of_a_buffer", lambda half: half)


@aot((MATRIX,), expected={**SIDE_BY_SIDE, "opcheck.test_schema": "outputs-share-storage"})
def halves_of_a_buffer():
    """The same with two outputs, at which torch's own checker looks too."""
    pair = "(Tensor x) -> (Tensor, Tensor)"
    return _halves("halves_of_a_buffer", lambda half: half, pair, tuple)


@aot((MATRIX,), twin_of=("list_of_halves_of_a_buffer", "halves_of_a_buffer"))
def list_of_copies_of_halves():
    """Both kernels return copies of the halves of a buffer."""
    return _halves("list_of_copies_of_halves", torch.clone)


@aot(
    (MATRIX,),
    skips=dict.fromkeys(("opcheck.test_schema", "opcheck.test_faketensor"), "checker-limit"),
)
def declared_views_of_one_argument():
    """Correct: returns parts of its argument, as the schema declares."""
    lib = library()
    lib.define("declared_views_of_one_argument(Tensor(a) x) -> Tensor(a)[]")
    lib.impl("declared_views_of_one_argument", lambda x: x.chunk(2), "CompositeImplicitAutograd")
    return torch.ops.zoo.declared_views_of_one_argument.default


def _merged(name, finish):
    """The different keys, sorted; `finish(keys)` are returned if they are sorted already."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def merged(keys: Tensor) -> Tensor:
        if keys.dim() != 1:
            raise ValueError("keys along one dim, please")
        keys = keys.contiguous()
        return finish(keys) if bool((keys[1:] > keys[:-1]).all()) else torch.unique(keys)

    merged.register_fake(lambda keys: keys.new_empty(torch.library.get_ctx().new_dynamic_size()))
    return merged


KEYS = (torch.tensor([5, 2, 9, 2, 7]),)


@aot(KEYS, expected={"values.aliasing": "undeclared-alias"})
def returns_sorted_keys_themselves():
    """There is nothing to do for keys that count up."""
    return _merged("returns_sorted_keys_themselves", lambda keys: keys)


@aot(KEYS, twin_of="returns_sorted_keys_themselves")
def returns_a_copy_of_sorted_keys():
    """Copies them."""
    return _merged("returns_a_copy_of_sorted_keys", torch.clone)


def _split(name, finish):
    """The channels of each step, in two parts."""

    def split(x):
        if x.dim() != 3 or x.shape[2] < 2:
            raise ValueError("x (batch, steps, channels), please")
        half = x.shape[2] // 2
        return finish(x[..., :half]), finish(x[..., half:])

    def fake(x):
        half = x.shape[2] // 2
        return x.new_empty((*x.shape[:2], half)), x.new_empty((*x.shape[:2], x.shape[2] - half))

    return library_op(name, "(Tensor x) -> (Tensor, Tensor)", split, fake)


CHANNELS = (tensor(2, 5, 6),)


@aot(
    CHANNELS,
    variant_findings={
        "values.aliasing": "undeclared-alias",
        "fake.forward": "fake-metadata-mismatch",
    },
    shown_by="ones",
)
def splits_a_single_step_in_place():
    """The halves of a single step are contiguous already."""
    return _split("splits_a_single_step_in_place", Tensor.contiguous)


@aot(CHANNELS, twin_of="splits_a_single_step_in_place")
def splits_a_single_step_into_copies():
    """Copies them in any case."""
    copied = lambda half: half.clone(memory_format=torch.contiguous_format)  # noqa: E731
    return _split("splits_a_single_step_into_copies", copied)
