"""Each layout holds the same values in other memory."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

from pytest_customop.cases.guarded import LAY_OUT, guarded, guarded_place
from pytest_customop.checks.backward.layouts import EXPANDED_ALL
from pytest_customop.checks.values.memory import placement
from pytest_customop.declare.layouts import (
    LAYOUTS,
    MemoryLayout,
    fitted_strides,
    lay_out,
    layout_named,
    strided,
)

DENSE = torch.arange(120.0).reshape(2, 3, 4, 5)
STRIDES = {
    "contiguous": (60, 20, 5, 1),
    "transposed": (60, 20, 1, 4),
    "strided": (120, 40, 10, 2),
    "row_padded": (96, 32, 8, 1),
    "offset": (60, 20, 5, 1),
    "expanded": (0, 20, 5, 1),
    "channels_last": (60, 1, 15, 3),
}


def test_every_layout_is_tested_here() -> None:
    assert set(STRIDES) == set(LAYOUTS)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_strides_offset_and_values(layout: str) -> None:
    laid_out = lay_out(DENSE.clone(), layout)
    assert laid_out.stride() == STRIDES[layout]
    assert laid_out.storage_offset() == (1 if layout == "offset" else 0)
    expected = DENSE[:1].expand(2, 3, 4, 5) if layout == "expanded" else DENSE
    assert torch.equal(laid_out, expected)


@pytest.mark.parametrize(
    ("shape", "strides", "fitted"),
    [
        ((6, 7, 5), (7, 1, 42), [7, 1, 42]),
        ((6, 7, 0), (7, 1, 42), [7, 1, 42]),
        ((3, 9), (0, 0), [0, 0]),
        ((4, 3), (5, 1), [5, 1]),
        ((4, 9), (5, 1), [9, 1]),  # 9 elements in rows 5 apart
        ((8, 7, 5), (7, 1, 42), [7, 1, 56]),
        ((3, 9), (0, 1), [0, 1]),
        ((3, 9, 2), (0, 1, 5), [0, 1, 9]),
        ((3,), (5, 1), [1]),
        ((1, 1), (5, 1), [5, 1]),
    ],
)
def test_strides_that_do_not_fit_become_dense(
    shape: tuple[int, ...], strides: tuple[int, ...], fitted: list[int]
) -> None:
    assert fitted_strides(shape, strides) == fitted
    dense = torch.arange(float(torch.Size(shape).numel())).reshape(shape)
    laid_out = strided(dense.clone(), strides)
    assert laid_out.shape == dense.shape
    if 0 not in strides:
        assert torch.equal(laid_out, dense)


@pytest.mark.parametrize("layout", sorted(set(LAYOUTS) - {"contiguous"}))
def test_what_is_said_to_change_changes_and_nothing_else(layout: str) -> None:
    shapes = [(), (1,), (5,), (1, 1), (1, 4), (4, 1), (3, 4), (0, 3), (2, 1, 4, 5), (2, 3, 4, 5)]
    for shape in (*shapes, (1, 1, 1, 1), (2, 3, 4, 5, 6)):
        dense = torch.arange(float(torch.Size(shape).numel())).reshape(shape)
        laid_out = lay_out(dense.clone(), layout)
        places = (laid_out.stride(), laid_out.storage_offset())
        differs = places != (dense.stride(), dense.storage_offset())
        assert differs == layout_named(layout).changes(shape), shape
        assert laid_out.shape == dense.shape


@pytest.mark.parametrize("layout", sorted(set(LAYOUTS) - {"expanded"}))
def test_memory_is_its_own_and_can_be_written(layout: str) -> None:
    source = DENSE.clone()
    laid_out = lay_out(source.clone(), layout)
    laid_out.fill_(1.0)
    assert bool((laid_out == 1.0).all())
    assert torch.equal(source, DENSE)


def test_checks_have_layouts_of_their_own_under_names_of_their_own() -> None:
    shared = [layout_named(name) for name in LAYOUTS]
    layouts = {id(layout): layout for layout in (*shared, *placement.LAYOUTS, *placement.REPEATING)}
    layouts[id(EXPANDED_ALL)] = EXPANDED_ALL
    names = [layout.name for layout in layouts.values()]
    assert len({*names}) == len({layout.description for layout in layouts.values()}) == len(names)
    assert {*names} - {*LAYOUTS} == {"reversed", "expanded_last", "expanded_all"}


@pytest.mark.parametrize("layout", [*placement.LAYOUTS, *placement.REPEATING, EXPANDED_ALL])
def test_memory_around_the_elements_is_nan(layout: MemoryLayout) -> None:
    dense = torch.arange(120.0).reshape(2, 3, 4, 5)
    place = guarded_place(dense, layout)
    laid_out = guarded(dense, place)
    assert (laid_out.stride(), laid_out.storage_offset()) == (tuple(place.strides), place.offset)
    assert laid_out.untyped_storage().nbytes() == 4 * place.size >= 4 * 120
    if not layout.repeats(dense.shape):
        assert torch.equal(laid_out, dense)
    home = torch.empty(0).set_(laid_out.untyped_storage())
    assert int(home.isnan().sum()) == place.size - laid_out.unique().numel()
    script: dict[str, Any] = {"torch": torch}
    exec(LAY_OUT, script)
    again = script["lay_out"](dense, place.strides, place.offset, place.size)
    assert torch.equal(again, laid_out)


def test_quantized_tensors_are_transposed_too() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch deprecates quantized tensors
        quantized = torch.quantize_per_tensor(DENSE[0, 0], 0.1, 0, torch.quint8)
        laid_out = lay_out(quantized, "transposed")
        assert laid_out.stride() == (1, 4)
        assert torch.equal(laid_out.dequantize(), quantized.dequantize())
