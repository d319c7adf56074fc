"""The search of a scan: what messages ask for is done, and what crashes does not lose what came far."""

from __future__ import annotations

import functools
import random
from typing import Any

import pytest
import torch
from torch import Tensor

from pytest_customop.declare.ops import resolve
from pytest_customop.scan.inputs.asked import (
    AskedShape,
    asked_alike,
    asked_dtypes,
    asked_numbers,
    asked_rank,
    asked_runs,
    asked_shapes,
    asked_size,
    names_of,
    number_of,
)
from pytest_customop.scan.inputs.candidate import Candidate, Plain, Size, TensorGene, fixed
from pytest_customop.scan.inputs.rejection import Rejection, Words, rejection_of
from pytest_customop.scan.inputs.repair import repaired
from pytest_customop.scan.inputs.search import search

ARGUMENTS = ("grad", "rois", "channels", "height")


@pytest.mark.parametrize(
    ("message", "found"),
    [
        (
            "grad should have shape [K, channels / 2, 2 * height]",
            [AskedShape("grad", ("K", "channels / 2", "2 * height"))],
        ),
        ("rois must have shape as Tensor[K, 5]", [AskedShape("rois", ("K", "5"))]),
        ("expected shape (4, 6), but got (4, 5)", [AskedShape("", ("4", "6"))]),
        ("rois batch index must be in [0, batch_size)", []),
        ("look at the docs (really, do)", []),
        ("the size must be (print('x'), 2)", []),
    ],
)
def test_shapes_are_read(message: str, found: list[AskedShape]) -> None:
    assert asked_shapes(message, ARGUMENTS) == found


def test_formulas_are_read() -> None:
    assert names_of("channels / (height * w)") == ["channels", "height", "w"]
    assert number_of("channels / (2 * height)", {"channels": 8, "height": 2}) == 2
    assert number_of("channels / height", {"channels": 3, "height": 2}) is None
    assert number_of("channels / height", {"channels": 3, "height": 0}) is None
    assert number_of("channels", {}) is None


def test_runs_numbers_and_likeness_are_read() -> None:
    assert asked_runs("output dims: (8, 3) - computed: (1, 1)") == [
        ((8, 3), (1, 1)),
        ((1, 1), (8, 3)),
    ]
    assert asked_runs("it is (8, 3), and should be (0, 1)") == [((0, 1), (8, 3))]
    assert asked_numbers("got 3, expected 18 of 0 or 100000, version 1.5") == [3, 18]
    assert asked_alike("mapping should have the same shape as grad") == "shape"
    assert asked_alike("Expected grad to have the same type as rois; but") == "dtype"
    assert asked_alike("the shape is not valid") == ""


@pytest.mark.parametrize(
    ("message", "rank"),
    [
        ("no kernel: x: shape [3, 4, 7] fails: exactly 4D", 4),
        ("x must be a 2-dimensional tensor, but got 3D", 2),
        ("only 1D tensors are supported", 1),
        ("x must have 5 dims", 5),
        ("x must have 2 columns", None),
        ("the size of dim 3 is not valid", None),
    ],
)
def test_ranks_are_read(message: str, rank: int | None) -> None:
    assert asked_rank(message) == rank


def test_dtypes_and_sizes_are_read() -> None:
    eight_bits = "x: dtype torch.float32 not in {torch.int8, torch.uint8}"
    assert asked_dtypes(eight_bits) == [torch.int8, torch.uint8]
    assert asked_dtypes("expected scalar type Half but found Float") == [torch.float16]
    assert asked_dtypes("x is torch.int8") == []
    assert asked_size("index 1 is out of bounds for dimension 5 with size 1") == (5, 1, 2)
    assert asked_size("index out of range") is None


def candidate(**genes: Any) -> Candidate:
    return Candidate(dict.fromkeys("abcdefghijkl", 4) | {"b": 6}, genes)


def matrix(*dims: Any) -> TensorGene:
    return TensorGene(tuple(Size((dim,)) if isinstance(dim, str) else fixed(dim) for dim in dims))


def test_a_shape_is_given_and_its_sizes_stay_tied() -> None:
    start = candidate(grad=matrix("a", "b"), channels=Plain(2), height=Size(("c",)))
    message = "grad should have shape [K, channels, height]"
    changed = repaired(start, message, ("grad",), random.Random(1))
    assert changed is not None
    gene = changed.genes["grad"]
    assert isinstance(gene, TensorGene)
    assert changed.shape(gene)[1:] == (2, 4)
    letter = changed.genes["channels"]
    assert isinstance(letter, Size)
    larger = Candidate({**changed.sizes, letter.letters[0]: 7}, changed.genes)
    assert larger.shape(gene)[1] == 7


def test_a_tensor_becomes_like_another_one() -> None:
    start = candidate(grad=matrix("a", "b"), rois=matrix(3, 3, 3))
    message = "rois should have the same shape as grad"
    shapes = set()
    for seed in range(8):
        changed = repaired(start, message, ("grad", "rois"), random.Random(seed))
        assert changed is not None
        shapes |= {tuple(changed.shape(gene) for _, gene in changed.tensors())}
    assert ((4, 6), (4, 6)) in shapes


def test_a_tensor_gets_the_rank_the_dtype_and_the_size_that_is_asked_for() -> None:
    start = candidate(grad=matrix("a", "b"), rois=matrix(3, 3, 3))

    def grad_genes(message: str) -> list[Any]:
        candidates = [repaired(start, message, ("grad",), random.Random(seed)) for seed in range(8)]
        assert all(
            changed is not None and changed.genes["rois"] == start.genes["rois"]
            for changed in candidates
        )
        return [changed.genes["grad"] for changed in candidates if changed is not None]

    a, b = Size(("a",)), Size(("b",))
    genes = grad_genes("grad: shape [4, 6] fails: exactly 4D")
    assert (fixed(1), fixed(1), a, b) in [gene.dims for gene in genes]
    assert (b,) in [gene.dims for gene in grad_genes("grad: exactly 1D")]
    genes = grad_genes("grad: dtype torch.float32 not in {torch.int8}")
    assert torch.int8 in [gene.dtype for gene in genes]
    genes = grad_genes("grad: index 6 is out of bounds for dimension 1 with size 6")
    assert (a, fixed(7)) in [gene.dims for gene in genes]


def test_nothing_is_asked_for() -> None:
    assert repaired(candidate(x=matrix(3)), "no", (), random.Random(0)) is None
    assert repaired(candidate(n=Plain(3)), "n should be 4, got 3", ("n",), random.Random(0)) is None


def rejected(message: str) -> Rejection:
    return rejection_of(RuntimeError(message), ("grad", "height"), Words())


def test_messages_of_native_code_are_short_and_tell_how_far_the_op_came() -> None:
    message = "kernel, /build/lib/csrc/pool.cpp:264, grad is wrong (originally from at /x/y.h:3)"
    rejection = rejected(message)
    assert rejection.text == "RuntimeError: kernel, pool.cpp:264, grad is wrong"
    assert rejection.depth == 264
    assert rejection.about == {"grad"}
    assert rejected(message.replace("264", "270")).key != rejection.key
    allocation = rejected("[enforce fail at alloc_cpu.cpp:127] 4096 bytes of tensor.h:3 memory")
    assert (allocation.depth, allocation.about) == (0, frozenset())


def test_dtypes_and_numbers_do_not_tell_rejections_apart() -> None:
    first, second = (
        rejected(f"expected torch.{dtype} of {size}, not implemented for 'Half'")
        for dtype, size in (("float32", 3), ("int8", 4))
    )
    assert first.key == second.key


@functools.cache
def picky() -> Any:
    """An op that rejects as native code does: it names sizes, and gives numbers."""

    def check(met: bool, message: str) -> None:
        if not met:
            raise RuntimeError(message)

    @torch.library.custom_op("of_scan_search::pool_backward", mutates_args=())
    def pool_backward(
        grad: Tensor, offset: Tensor, mapping: Tensor, pooled: int, channels: int, height: int
    ) -> Tensor:
        shape = "grad should have shape [K, channels / (pooled * pooled), pooled, height]"
        check(grad.dim() == 4 and grad.shape[1] * pooled**2 == channels, shape)
        check(grad.shape[2:] == (pooled, height), shape)
        due = 2 * grad.shape[1] * height
        check(offset.dim() == 3, "offset must have shape [K, P, 2]")
        check(
            offset.shape[1] == due,
            f"offset.shape[1] is not valid: got: {offset.shape[1]} expected: {due}",
        )
        check(offset.shape[2] == 2, "offset should be [K, P, 2]")
        check(mapping.shape == grad.shape, "mapping should have the same shape as grad")
        return grad.new_zeros(grad.shape[0], channels, pooled, height)

    pool_backward.register_fake(
        lambda grad, offset, mapping, pooled, channels, height: grad.new_empty(
            grad.shape[0], channels, pooled, height
        )
    )
    return pool_backward


@functools.cache
def constrained() -> Any:
    """An op that rejects by a table of constraints, one at a time, from one line."""

    def check(name: str, x: Tensor, rank: int, dtypes: tuple[torch.dtype, ...]) -> None:
        if x.dtype not in dtypes:
            raise ValueError(f"no kernel: {name}: dtype {x.dtype} not in {set(dtypes)}")
        if x.dim() != rank:
            raise ValueError(f"no kernel: {name}: shape {list(x.shape)} fails: exactly {rank}D")

    halves = (torch.float16, torch.bfloat16)

    @torch.library.custom_op("of_scan_search::rotate", mutates_args=())
    def rotate(x: Tensor, table: Tensor, scale: Tensor) -> Tensor:
        for name, tensor, rank in (("x", x, 4), ("table", table, 5), ("scale", scale, 1)):
            check(name, tensor, rank, halves)
        return x * table[..., 0, 1] * scale

    rotate.register_fake(lambda x, table, scale: x * table[..., 0, 1] * scale)
    return rotate


@pytest.mark.parametrize("seed", [0, 1])
def test_constraints_that_are_told_one_at_a_time_are_met(seed: int) -> None:
    result = search(resolve(constrained()), 20.0, seed)
    assert result.accepted, result.rejections


@pytest.mark.parametrize("seed", [0, 1])
def test_an_op_that_says_what_it_wants_is_given_it(seed: int) -> None:
    result = search(resolve(picky()), 20.0, seed)
    assert result.accepted, result.rejections
