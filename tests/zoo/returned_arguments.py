"""Ops that return the argument they write to, and do not say which kind of op they are."""

import torch

from pytest_customop import Sample

from .tricky_kinds import MATRIX, defined, specimen

UNTAGGED = dict.fromkeys(
    ("compile.dynamic", "compile.static", "opcheck.test_aot_dispatch_dynamic"),
    "untagged-returned-argument",
)


def add_one(name, tags=()):
    return defined(
        name, "(Tensor(a!) x) -> Tensor(a!)", lambda x: x.add_(1), lambda x: x, tags=tags
    )


def write_double(name, tags=()):
    return defined(
        name,
        "(Tensor x, *, Tensor(a!) out) -> Tensor(a!)",
        lambda x, *, out: out.copy_(x * 2),
        lambda x, *, out: out,
        tags=tags,
    )


@specimen((MATRIX,), expected=UNTAGGED)
def returns_its_argument_untagged():
    """Changes its argument and returns it, without the tag that torch.compile asks for."""
    return add_one("returns_its_argument_untagged")


@specimen(Sample((MATRIX,), {"out": MATRIX}), expected=UNTAGGED)
def returns_its_out_argument_untagged():
    """Writes into `out` and returns it, without the tag that torch.compile asks for."""
    return write_double("returns_its_out_argument_untagged")


if hasattr(torch.Tag, "inplace"):

    @specimen((MATRIX,), twin_of="returns_its_argument_untagged")
    def returns_its_argument_in_place():
        """Changes its argument, returns it, and is tagged as an in-place op."""
        return add_one("returns_its_argument_in_place", (torch.Tag.inplace,))

    @specimen(Sample((MATRIX,), {"out": MATRIX}), twin_of="returns_its_out_argument_untagged")
    def returns_its_out_argument():
        """Writes into `out`, returns it, and is tagged as an out variant."""
        return write_double("returns_its_out_argument", (torch.Tag.out,))


@specimen(
    (MATRIX,),
    twin_of=("returns_its_argument_untagged", "returns_its_out_argument_untagged"),
)
def changes_its_argument_and_returns_nothing():
    """Changes its argument and returns nothing, for which no tag is needed."""

    @torch.library.custom_op("zoo::changes_its_argument_and_returns_nothing", mutates_args={"x"})
    def change(x: torch.Tensor) -> None:
        x.add_(1)

    change.register_fake(lambda x: None)
    return change
