import numpy as np
import oplib
import pytest
import torch


@pytest.fixture
def image():
    return torch.arange(48.0).reshape(6, 8)


@pytest.mark.parametrize("size", [1, 2])
def test_patchify(image, size):
    expected = image.numpy().reshape(6 // size, size, 8 // size, size).transpose(0, 2, 1, 3)
    out = oplib.patchify(image, size)
    np.testing.assert_array_equal(out.numpy(), expected.reshape(-1, size * size))


def test_patchify_refuses(image):
    with pytest.raises(RuntimeError, match="divide"):
        oplib.patchify(image, 4)


def test_pack_columns(image):
    out = oplib.pack_columns(image)
    np.testing.assert_array_equal(out.numpy(), image.numpy())
    assert out.numpy().flags.f_contiguous
