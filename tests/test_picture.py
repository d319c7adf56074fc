"""Pictures of values that differ: what they show, and that they are small."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from typing import Any

import pytest
import torch

from pytest_customop import check_op, tensor
from pytest_customop.cases.picture import picture_of
from pytest_customop.core.png import png, ramp


def decoded(text: str) -> torch.Tensor:
    """The pixels of a PNG file: uint8[rows, columns, 3]."""
    data = base64.b64decode(text)
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    at, parts = 8, {}
    while at < len(data):
        (size,) = struct.unpack(">I", data[at : at + 4])
        name, content = data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        (checksum,) = struct.unpack(">I", data[at + 8 + size : at + 12 + size])
        assert checksum == zlib.crc32(name + content)
        parts[name] = content
        at += 12 + size
    columns, rows, depth, kind = struct.unpack(">2I2B", parts[b"IHDR"][:10])
    assert depth == 8
    lines = torch.tensor(list(zlib.decompress(parts[b"IDAT"])), dtype=torch.uint8).reshape(rows, -1)
    assert not lines[:, 0].any()  # no filter
    if kind == 2:
        return lines[:, 1:].reshape(rows, columns, 3)
    palette = torch.tensor(list(parts[b"PLTE"]), dtype=torch.uint8).reshape(-1, 3)
    return palette[lines[:, 1:].long()]


def picture(actual: torch.Tensor, expected: torch.Tensor) -> dict[str, Any]:
    image = picture_of("output", actual, expected)
    assert image is not None
    assert json.loads(json.dumps(image, allow_nan=False)) == image
    return image


def test_a_png_has_its_pixels() -> None:
    colours = ramp([(0, 0, 0), (200, 100, 50)], 3)
    assert colours == [(0, 0, 0), (100, 50, 25), (200, 100, 50)]
    pixels = decoded(base64.b64encode(png(bytes([0, 1, 2, 2, 1, 0]), 3, colours)).decode())
    assert pixels[1].tolist() == [[200, 100, 50], [100, 50, 25], [0, 0, 0]]


def test_a_wrong_element_is_where_it_is() -> None:
    expected = torch.zeros(8, 12)
    actual = expected.clone()
    actual[5, 7] = 2.0
    image = picture(actual, expected)
    assert (image["rows"], image["columns"], image["worst"]) == (8, 12, [5, 7])
    assert (image["at"], image["largest"], image["low"], image["high"]) == ([5, 7], 2.0, 0.0, 2.0)
    same = decoded(image["expected"]) == decoded(image["actual"])
    assert (~same.all(-1)).nonzero().tolist() == [[5, 7]]
    brightest = decoded(image["difference"]).sum(-1).flatten().argmax()
    assert brightest == 5 * 12 + 7


def test_of_many_rows_the_worst_stays() -> None:
    expected = torch.rand(2, 700, 300)
    actual = expected.clone()
    actual[1, 333, 222] += 5
    image = picture(actual, expected)
    assert image["of"] == "output[1, :, :]"
    assert image["at"] == [1, 333, 222]
    assert (image["rows"], image["columns"]) == (64, 60)
    assert image["worst"] == [333 // 11, 222 // 5]
    same = (decoded(image["expected"]) == decoded(image["actual"])).all(-1)
    row, column = image["worst"]
    assert not same[row, column]
    assert len(json.dumps(image)) < 20_000


@pytest.mark.parametrize("last", [False, True])
def test_three_channels_are_colours(last: bool) -> None:
    expected = torch.zeros(3, 20, 30)
    expected[0] = 1.0
    actual = expected.clone()
    actual[2, 4, 6] = 1.0
    if last:
        actual, expected = actual.movedim(0, -1), expected.movedim(0, -1)
    image = picture(actual, expected)
    assert (image["rows"], image["columns"], image["worst"]) == (20, 30, [4, 6])
    assert decoded(image["expected"])[4, 6].tolist() == [255, 0, 0]
    assert decoded(image["actual"])[4, 6].tolist() == [255, 0, 255]


def test_one_dim_is_one_row() -> None:
    image = picture(torch.arange(40), torch.arange(40) % 39)
    assert (image["of"], image["rows"], image["columns"]) == ("output", 1, 40)
    assert image["worst"] == [0, 39]


def test_what_is_not_a_number_has_a_colour_of_its_own() -> None:
    expected = torch.linspace(0, 1, 20)
    actual = expected.clone()
    actual[3] = float("nan")
    actual[4] = float("inf")
    image = picture(actual, expected)
    assert image["largest"] is None
    assert (image["low"], image["high"], image["at"]) == (0.0, 1.0, [3])
    assert decoded(image["actual"])[0, 3].tolist() == [255, 0, 200]


@pytest.mark.parametrize(
    "dtype", [torch.complex64, torch.bool, torch.uint8, torch.bfloat16, torch.float8_e4m3fn]
)
def test_dtypes(dtype: torch.dtype) -> None:
    expected = torch.zeros(4, 5).to(dtype)
    actual = expected.clone()
    actual.view(torch.uint8 if dtype.itemsize == 1 else dtype)[2, 3] = 1
    assert picture(actual, expected)["at"] == [2, 3]


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        (torch.zeros(3), torch.ones(3)),
        (torch.zeros(20), torch.zeros(20)),
        (torch.zeros(20), torch.zeros(21)),
        (torch.zeros(0, 20), torch.zeros(0, 20)),
        (None, torch.zeros(20)),
        (torch.zeros(20).to_sparse(), torch.zeros(20)),
    ],
)
def test_where_there_is_nothing_to_see_there_is_no_picture(actual: Any, expected: Any) -> None:
    assert picture_of("output", actual, expected) is None


def test_a_mismatch_carries_its_picture() -> None:
    def transposed(x: torch.Tensor) -> torch.Tensor:
        return x.sin().T.contiguous().reshape(x.shape)

    result, *_ = check_op(
        "aten::sin",
        [(tensor(6, 9),)],
        checks="reference.values",
        reference=transposed,
        requires_grad=False,
    )
    assert result.finding == "reference-mismatch"
    shown = result.record().picture
    assert shown is not None
    assert (shown["of"], shown["rows"], shown["columns"]) == ("output", 6, 9)
