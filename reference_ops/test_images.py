"""The conformance of ``crop`` and ``paste``; their pixels and gradients arrive unchanged."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from pytest_customop import ErrorSample, Sample, customop_cases, tensor

pytest.importorskip(
    "torchvision",
    reason="crop and paste need torchvision: pip install 'pytest-customop[reference]'",
)
from reference_ops.images import crop, paste

# One rectangle for every picture: cases that differ only in sizes share a graph in compile.dynamic.
BOX = [3, 4, 32, 45]
PATCH = (tensor(3, 41, 29), [3, 4])


def expected_crop(pic: Tensor, box: Sequence[int]) -> Tensor:
    x0, y0, x1, y1 = box
    return pic[:, y0:y1, x0:x1]


def expected_paste(im1: Tensor, im2: Tensor, coord: Sequence[int]) -> Tensor:
    x, y = coord
    result = im1.clone()
    result[:, y : y + im2.shape[1], x : x + im2.shape[2]] = im2
    return result


# --------------------------------------------------------------------------------- the marked tests
#
# Three marks an op, because a second size does not need every dtype again, nor a layout every check:
# "matrix" runs all checks on a small picture, in both dtypes, with gradients and without; "sizes" runs
# them on larger ones in one cell; "layouts" runs those that depend on strides. The sizes are those of
# PyTorch's tutorial on custom operators.


@customop_cases(
    crop,
    id="matrix",
    samples=[Sample((tensor(3, 64, 64), BOX), id="64")],
    dtypes=[torch.float32, torch.float64],
    reference=expected_crop,
    errors=[
        ErrorSample((tensor(3, 9, 8), [4, 0, 3, 2]), raises=ValueError, match="x0 <= x1"),
        ErrorSample((tensor(3, 9, 8), [0, 0, 9, 9]), raises=ValueError, match="inside pic"),
        ErrorSample((tensor(9, 8), [0, 0, 1, 1]), raises=ValueError, match="must be .channels"),
    ],
)
@customop_cases(
    crop,
    id="sizes",
    samples=[
        Sample((tensor(3, 91, 91), BOX), id="91"),
        Sample((tensor(3, 512, 512), BOX), id="512"),
    ],
    dtypes=torch.float64,
    requires_grad=True,
    reference=expected_crop,
    variants=False,  # those of the small picture show the same
)
@customop_cases(
    crop,
    id="layouts",
    samples=[(tensor(3, 12, 14), [4, 2, 13, 12])],
    dtypes=torch.float64,
    requires_grad=True,
    layouts=("expanded", "offset", "strided", "transposed"),
    checks=["fake", "compile.static", "values"],
    variants=False,
)
def test_crop(customop_case: Any) -> None:
    """Cropping is slicing."""
    assert torch.equal(customop_case(), expected_crop(*customop_case.args))


@customop_cases(
    paste,
    id="matrix",
    samples=[Sample((tensor(3, 64, 64), *PATCH), id="64")],
    dtypes=[torch.float32, torch.float64],
    reference=expected_paste,
    errors=[
        ErrorSample(
            (tensor(3, 6, 7), tensor(3, 2, 2), [6, 0]), raises=ValueError, match="inside im1"
        ),
        ErrorSample(
            (tensor(3, 6, 7), tensor(1, 2, 2), [0, 0]), raises=ValueError, match="same number"
        ),
    ],
)
@customop_cases(
    paste,
    id="sizes",
    samples=[
        Sample((tensor(3, 91, 91), *PATCH), id="91"),
        Sample((tensor(3, 512, 512), *PATCH), id="512"),
    ],
    dtypes=torch.float64,
    requires_grad=True,
    reference=expected_paste,
    variants=False,
)
@customop_cases(
    paste,
    id="layouts",
    samples=[(tensor(3, 12, 14), tensor(3, 5, 6), [2, 4])],
    dtypes=torch.float64,
    requires_grad=True,
    layouts=("expanded", "transposed"),
    checks=["fake", "compile.static", "values"],
    variants=False,
)
def test_paste(customop_case: Any) -> None:
    """Pasting is assigning to a slice of a copy."""
    assert torch.equal(customop_case(), expected_paste(*customop_case.args))


# ---------------------------------------------------------------------------------- nothing is lost


def random_bits(dtype: torch.dtype, *shape: int) -> Tensor:
    """Any number there is, NaNs with payloads, infinities and denormals included."""
    generator = torch.Generator().manual_seed(0)
    raw = torch.randint(0, 256, (*shape, dtype.itemsize), generator=generator, dtype=torch.uint8)
    numbers = raw.view(dtype).squeeze(-1)
    tiny = torch.finfo(dtype).smallest_normal
    special = [float("nan"), float("inf"), -float("inf"), -0.0, tiny / 2, -tiny / 8]
    numbers[:, 1, 1 : 1 + len(special)] = torch.tensor(special, dtype=dtype)
    return numbers


def bits(picture: Tensor) -> Tensor:
    return picture.contiguous().view(torch.uint8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def test_every_bit_survives(dtype: torch.dtype) -> None:
    pic, patch = random_bits(dtype, 3, 40, 50), random_bits(dtype, 3, 6, 8)
    box = [1, 1, 48, 39]
    assert torch.equal(bits(crop(pic, box)), bits(expected_crop(pic, box)))
    assert torch.equal(bits(paste(pic, patch, [42, 3])), bits(expected_paste(pic, patch, [42, 3])))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"])
def test_every_half_precision_number_survives(dtype: torch.dtype) -> None:
    patterns = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16)
    pic = patterns.view(dtype).reshape(1, 256, 256)
    whole = [0, 0, 256, 256]
    for result in (crop(pic, whole), paste(torch.zeros_like(pic), pic, [0, 0])):
        torch.testing.assert_close(result, pic, rtol=0, atol=0, equal_nan=True)
        numbers = ~pic.isnan()
        assert torch.equal(result[numbers].signbit(), pic[numbers].signbit())


def crop_through_8_bits(pic: Tensor, box: Sequence[int]) -> Tensor:
    """Crop a picture of 8-bit pixels, as PIL's ordinary modes hold it."""
    return expected_crop((pic * 255).to(torch.uint8), box).to(pic.dtype) / 255


def test_equals_the_8_bit_round_trip_where_that_is_exact() -> None:
    pic = torch.arange(3 * 16 * 16).reshape(3, 16, 16).remainder(256) / 255
    for box in ([0, 0, 16, 16], [3, 5, 9, 14]):
        assert torch.equal(crop(pic, box), crop_through_8_bits(pic, box))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def test_is_near_the_8_bit_round_trip_elsewhere(dtype: torch.dtype) -> None:
    pic = torch.rand(3, 30, 30, dtype=dtype, generator=torch.Generator().manual_seed(0))
    box = [2, 3, 28, 21]
    rounded = crop_through_8_bits(pic, box)
    torch.testing.assert_close(crop(pic, box), rounded, rtol=0, atol=1 / 255 + 1e-6)
    assert not torch.equal(crop(pic, box), rounded)


# -------------------------------------------------------------------------------------- empty boxes


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # opcheck reads it of its own copies
@pytest.mark.parametrize("box", [[3, 2, 3, 6], [1, 2, 5, 2], [8, 9, 8, 9], [0, 0, 0, 0]])
def test_an_empty_box_is_a_box(box: list[int]) -> None:
    pic = torch.ones(3, 9, 8, dtype=torch.float64, requires_grad=True)
    nothing = crop(pic, box)
    assert nothing.shape == expected_crop(pic, box).shape
    assert torch.equal(paste(pic, nothing, box[:2]), pic)
    (grad,) = torch.autograd.grad(nothing.sum(), pic)
    assert torch.equal(grad, torch.zeros_like(pic))
    torch.library.opcheck(crop, (pic, box))
    torch.library.opcheck(paste, (pic, nothing.detach().requires_grad_(), box[:2]))


@pytest.mark.parametrize("shape", [(0, 9, 8), (3, 0, 8), (3, 9, 0)])
def test_an_empty_picture_is_a_picture(shape: tuple[int, int, int]) -> None:
    pic = torch.ones(shape)
    whole = crop(pic, [0, 0, shape[2], shape[1]])
    assert whole.shape == shape
    assert whole.stride() == torch.empty(shape).stride()
    assert paste(pic, pic, [0, 0]).shape == shape


# ---------------------------------------------------------------------------------------- gradients


class PixelOps(TorchDispatchMode):
    """Notes which of the two operators run."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "refops":
            self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("wants1", "wants2", "ran"),
    [
        (True, False, ["paste.default"]),
        (False, True, ["crop.default"]),
        (True, True, ["crop.default", "paste.default"]),
    ],
)
def test_paste_computes_only_the_gradients_that_are_wanted(
    wants1: bool, wants2: bool, ran: list[str]
) -> None:
    im1 = torch.ones(2, 5, 6, requires_grad=wants1)
    im2 = torch.ones(2, 3, 2, requires_grad=wants2)
    result = paste(im1, im2, [1, 1])
    with PixelOps() as seen:
        result.sum().backward()
    assert sorted(seen.names) == ran
    assert (im1.grad is not None, im2.grad is not None) == (wants1, wants2)


def test_gradients_of_any_size_and_sign_arrive_as_they_are() -> None:
    pic = torch.zeros(1, 1, 6, requires_grad=True)
    grad = torch.tensor([[[-1.0, 2.0, 1e-3, 1e30, 1e-30, float("inf")]]])
    crop(pic, [0, 0, 6, 1]).backward(grad)
    assert pic.grad is not None
    assert torch.equal(pic.grad, grad)


def test_second_order() -> None:
    pic = torch.rand(2, 5, 6, dtype=torch.float64, requires_grad=True)
    patch = torch.rand(2, 3, 2, dtype=torch.float64, requires_grad=True)

    def cubes(pic: Tensor, patch: Tensor) -> Tensor:
        return crop(paste(pic, patch, [1, 1]) ** 3, [1, 0, 4, 4])

    assert torch.autograd.gradcheck(cubes, (pic, patch))
    assert torch.autograd.gradgradcheck(cubes, (pic, patch))


def test_a_small_model_trains_through_both() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        mix = torch.nn.Conv2d(2, 2, kernel_size=1)
        target = torch.randn(2, 8, 9)
    below = torch.zeros(2, 8, 9, requires_grad=True)
    above = torch.zeros(2, 3, 4, requires_grad=True)
    optimizer = torch.optim.Adam([below, above, *mix.parameters()], lr=0.05)

    def loss() -> Tensor:
        model = crop(mix(paste(below, above, [2, 3])), [1, 2, 7, 8])
        return (model - expected_crop(target, [1, 2, 7, 8])).square().sum()

    before = loss().item()
    for _ in range(300):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
    assert loss().item() < 1e-3 * before
    # Pixels that do not reach the loss have learnt nothing.
    assert torch.equal(below[:, 3:6, 2:6], torch.zeros(2, 3, 4))
    assert torch.equal(below[:, :2], torch.zeros(2, 2, 9))


def test_a_box_that_comes_out_of_the_data_compiles() -> None:
    def corner(pic: Tensor, mask: Tensor) -> Tensor:
        size = mask.sum().item()
        return crop(pic, [0, 0, size, size]) * 2

    pic = torch.rand(3, 9, 9)
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        compiled = torch.compile(corner, fullgraph=True, backend="aot_eager")
        for size in (4, 7):
            mask = torch.arange(9) < size
            assert torch.equal(compiled(pic, mask), corner(pic, mask))
