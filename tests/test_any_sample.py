"""The variants of any sample whatever can be derived and drawn: what cannot become one is left out."""

import itertools
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_customop.cases.arguments import Placement
from pytest_customop.cases.case import Case
from pytest_customop.declare.ops import resolve
from pytest_customop.declare.samples import read_samples
from pytest_customop.declare.variant import KINDS
from pytest_customop.plan.variants.ranking import ranked_variants

TENSORS = (
    *("x", "index", "lengths", "offsets", "mask", "labels", "weight", "keys", "scores", "boxes"),
    *("bins", "starts", "codes", "ptr", "edges"),
)
NUMBERS = (
    *("k", "dim", "padding_idx", "ignore_index", "eos_id", "num_classes", "threshold", "seed"),
    *("stride", "width", "eps", "alpha", "missing_code", "max_len"),
)
DTYPES = (
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.bool),
    *(torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
)
INTEGERS = st.sampled_from(
    (0, 1, -1, 2, 3, 5, 17, 255, 256, 1000, -100, 2**31, -(2**31), 2**40, 2**63 - 1, -(2**63))
)
FLOATS = st.sampled_from((0.0, 1.0, -1.0, 0.5, 1e-12, 1e30, float("inf"), float("nan"), 255.0))
SHAPES = st.lists(st.sampled_from((0, 1, 1, 2, 3, 5, 17)), max_size=3)
_numbers = itertools.count()


@st.composite
def tensors(draw: Any) -> torch.Tensor:
    """A tensor of any dtype, of few elements; integers may be sorted, and as large as the dtype permits."""
    dtype, shape = draw(st.sampled_from(DTYPES)), draw(SHAPES)
    generator = torch.Generator().manual_seed(draw(st.integers(0, 999)))
    if dtype == torch.bool:
        return torch.rand(shape, generator=generator) < 0.5
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(shape, generator=generator).to(dtype)
    limits = torch.iinfo(dtype)
    low = draw(st.sampled_from((0, -1, limits.min)))
    high = draw(st.sampled_from((2, 5, 100, limits.max)))
    found = torch.randint(max(low, limits.min), high, shape, generator=generator, dtype=dtype)
    return found.flatten().sort().values.reshape(shape) if draw(st.booleans()) else found


@st.composite
def arguments(draw: Any) -> tuple[list[str], list[Any]]:
    """The arguments of a schema, and values for them."""
    kinds: dict[str, st.SearchStrategy[Any]] = {
        "int": INTEGERS,
        "float": FLOATS,
        "int?": INTEGERS | st.none(),
        "float?": FLOATS | st.none(),
        "Scalar": INTEGERS | FLOATS,
    }
    schema, values = [], []
    for name in draw(st.lists(st.sampled_from(TENSORS), min_size=1, max_size=3, unique=True)):
        schema.append(f"Tensor {name}")
        values.append(draw(tensors()))
    for name in draw(st.lists(st.sampled_from(NUMBERS), max_size=3, unique=True)):
        kind = draw(st.sampled_from(sorted(kinds)))
        schema.append(f"{kind} {name}")
        values.append(draw(kinds[kind]))
    if draw(st.booleans()):
        schema.append("int[] sizes")
        values.append(draw(st.lists(INTEGERS, max_size=3)))
    return schema, values


@pytest.fixture(scope="module")
def library() -> Any:
    """The library of the ops."""
    with torch.library._scoped_library("any_sample", "DEF") as lib:
        yield lib


@settings(
    max_examples=400,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(given=arguments(), dtype=st.sampled_from((torch.float32, torch.float16)))
def test_every_sample_has_variants_that_can_be_drawn(
    library: torch.library.Library, given: tuple[list[str], list[Any]], dtype: torch.dtype
) -> None:
    schema, values = given
    name = f"op{next(_numbers)}"
    library.define(f"{name}({', '.join(schema)}) -> Tensor")
    library.impl(name, lambda *args: args[0].clone(), "CompositeExplicitAutograd")
    op = resolve(getattr(torch.ops.any_sample, name).default)
    (sample,) = read_samples([tuple(values)], op)
    placement = Placement("cpu", dtype, False, "contiguous")
    for variant in ranked_variants(
        op, sample, placement, kinds=KINDS, declared_dtypes=False, seed=0, seen=set()
    ):
        Case(op, variant.sample, placement, seed=1).inputs()
