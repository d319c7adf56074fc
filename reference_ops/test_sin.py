"""The conformance of the operators around ``numpy.sin``."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses import FakeTensorMode

from pytest_customop import Sample, customop_cases, tensor
from reference_ops.sin import (
    _numpy_sin_through_host,
    numpy_sin,
    numpy_sin_cpu,
    numpy_sin_functional,
    numpy_sin_inplace,
    numpy_sin_scaled,
)

BOTH = [torch.float32, torch.float64]
ALL = [torch.float16, torch.float32, torch.float64, torch.complex64, torch.complex128]

# --------------------------------------------------------------------------------- the marked tests
#
# Compiling takes a second a case and depends on shapes and strides, not on values. One case an op is
# enough: test_all_five_compile.


@customop_cases(
    numpy_sin,
    samples=[
        Sample((tensor(0, 3), tensor(0, 3)), id="empty"),
        Sample((tensor(4, 2, 3), tensor(4, 2, 3)), id="block"),
    ],
    dtypes=BOTH,
    checks="-compile",
    layouts=("contiguous", "strided", "transposed"),
)
def test_numpy_sin(customop_case: Any) -> None:
    """The output becomes the sine of the input, and nothing is returned."""
    input, output = customop_case.args
    assert numpy_sin(input, output) is None
    torch.testing.assert_close(output, input.sin())


@customop_cases(
    numpy_sin_functional,
    samples=[
        Sample((tensor(),), id="scalar"),
        Sample((tensor(4, 5),), id="matrix"),
    ],
    dtypes=BOTH,
    checks="-compile",
    layouts=("contiguous", "expanded", "transposed"),
)
def test_numpy_sin_functional(customop_case: Any) -> None:
    """The sine, contiguous whatever the input's strides."""
    (input,) = customop_case.args
    result = customop_case()
    torch.testing.assert_close(result, input.sin(), check_stride=False)
    assert result.is_contiguous()


@customop_cases(
    numpy_sin_cpu,
    samples=[(tensor(2, 3),)],
    dtypes=BOTH,
    checks="-compile",
    skip_if=lambda cell: None if cell.device == "cpu" else "registered for CPU tensors only",
)
def test_numpy_sin_cpu(customop_case: Any) -> None:
    """The sine of a CPU tensor."""
    torch.testing.assert_close(customop_case(), customop_case.args[0].sin())


@customop_cases(
    numpy_sin_inplace,
    samples=[(tensor(2, 3),)],
    dtypes=BOTH,
    checks="-compile",
    layouts=("contiguous", "transposed"),
)
def test_numpy_sin_inplace(customop_case: Any) -> None:
    """The input becomes its sine, and nothing is returned."""
    (input,) = customop_case.args
    expected = input.sin()
    assert numpy_sin_inplace(input) is None
    torch.testing.assert_close(input, expected)


def expected_scaled(input: Tensor, scale: float = 1.0, *, frequency: float = 1.0) -> Tensor:
    return scale * (frequency * input).sin()


@customop_cases(
    numpy_sin_scaled,
    samples=[
        Sample((tensor(4, 5),), id="defaults"),
        Sample((tensor(7), 2.5), {"frequency": 0.5}, id="both"),
    ],
    dtypes=BOTH,
    checks="-compile",
    reference=expected_scaled,
)
def test_numpy_sin_scaled() -> None:
    """A sine of any height and frequency, values and gradients."""


@customop_cases(numpy_sin, samples=[(tensor(4, 5), tensor(4, 5))], checks="compile")
@customop_cases(numpy_sin_functional, samples=[(tensor(4, 5),)], checks="compile")
@customop_cases(numpy_sin_cpu, samples=[(tensor(4, 5),)], checks="compile", devices="cpu")
@customop_cases(numpy_sin_inplace, samples=[(tensor(4, 5),)], checks="compile")
@customop_cases(
    numpy_sin_scaled,
    samples=[Sample((tensor(4, 5), 2.5), {"frequency": 0.5})],
    checks="compile",
)
def test_all_five_compile() -> None:
    """Each op under torch.compile, in static and dynamic shapes."""


# ------------------------------------------------------------------------------------------- values


@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("shape", [(), (5,), (0, 3), (2, 3, 4)], ids=str)
def test_all_five_agree_with_torch(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    input = torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(0))
    output, inplace = torch.empty_like(input), input.clone()
    numpy_sin(input, output)
    numpy_sin_inplace(inplace)
    for result in (output, inplace, numpy_sin_functional(input), numpy_sin_cpu(input)):
        torch.testing.assert_close(result, input.sin())
    torch.testing.assert_close(
        numpy_sin_scaled(input, 2.0, frequency=0.5), 2.0 * (0.5 * input).sin()
    )


def test_output_may_overlap_the_input_but_not_itself() -> None:
    line = torch.linspace(0, 3, 8)
    expected = line[:-1].sin()
    numpy_sin(line[:-1], line[1:])
    torch.testing.assert_close(line[1:], expected)


def test_a_lazily_conjugated_or_negated_input_is_resolved() -> None:
    z = torch.randn(6, dtype=torch.complex64, generator=torch.Generator().manual_seed(0))
    output = torch.empty(6, dtype=torch.complex64)
    numpy_sin(z.conj(), output)
    torch.testing.assert_close(output, z.conj().sin())
    torch.testing.assert_close(numpy_sin_functional(z.conj().imag), (-z.imag).sin())


def test_the_kernel_for_another_device_gives_the_same() -> None:
    # Registered for CUDA; it goes through the host, and so it runs on tensors of any device.
    input = torch.linspace(-2, 2, 12).reshape(3, 4).t()
    output = torch.zeros(4, 6)[:, ::2]
    _numpy_sin_through_host(input, output)
    torch.testing.assert_close(output, input.sin())


def test_autograd_knows_that_the_output_changed() -> None:
    output = torch.zeros(3)
    product = torch.zeros(3, requires_grad=True) * output
    numpy_sin(torch.ones(3), output)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize("scale", [1.0, -0.5])
@pytest.mark.parametrize("frequency", [1.0, 3.0])
def test_scaled_has_right_gradients_also_at_its_defaults(
    dtype: torch.dtype, scale: float, frequency: float
) -> None:
    input = torch.randn(6, dtype=dtype, generator=torch.Generator().manual_seed(0))
    input.requires_grad_()

    def function(input: Tensor) -> Tensor:
        result: Tensor = numpy_sin_scaled(input, scale, frequency=frequency)
        return result

    assert torch.autograd.gradcheck(function, (input,))
    assert torch.autograd.gradgradcheck(function, (input,))


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
def test_functional_has_right_gradients(dtype: torch.dtype) -> None:
    input = torch.randn(6, dtype=dtype, generator=torch.Generator().manual_seed(0))
    input.requires_grad_()
    assert torch.autograd.gradcheck(numpy_sin_functional, (input,))
    assert torch.autograd.gradgradcheck(numpy_sin_functional, (input,))


def test_without_a_formula_backward_says_so() -> None:
    result = numpy_sin_cpu(torch.ones(3, requires_grad=True))
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        result.sum().backward()


# ------------------------------------------------------------------------------------------- errors


def zeros(*shape: int, dtype: torch.dtype = torch.float32, device: str = "cpu") -> Tensor:
    return torch.zeros(shape, dtype=dtype, device=device)


DTYPES = r"must be float16, float32, float64, complex64 or complex128, got torch\."

ERRORS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "shape": (
        lambda: numpy_sin(zeros(3), zeros(4)),
        ValueError,
        r"input and output must have one shape, got \[3\] and \[4\]",
    ),
    "rank": (
        lambda: numpy_sin(zeros(3), zeros(1, 3)),
        ValueError,
        r"input and output must have one shape, got \[3\] and \[1, 3\]",
    ),
    "dtypes": (
        lambda: numpy_sin(zeros(3), zeros(3, dtype=torch.float64)),
        TypeError,
        r"input and output must have one dtype, got torch\.float32 and torch\.float64",
    ),
    "devices": (
        lambda: numpy_sin(zeros(3), zeros(3, device="meta")),
        ValueError,
        r"input and output must be on one device, got cpu and meta",
    ),
    "numpy_sin": (
        lambda: numpy_sin(zeros(3, dtype=torch.bfloat16), zeros(3, dtype=torch.bfloat16)),
        TypeError,
        f"numpy_sin: input {DTYPES}bfloat16",
    ),
    "functional": (
        lambda: numpy_sin_functional(zeros(3, dtype=torch.bfloat16)),
        TypeError,
        f"numpy_sin_functional: input {DTYPES}bfloat16",
    ),
    "cpu": (
        lambda: numpy_sin_cpu(zeros(3, dtype=torch.int64)),
        TypeError,
        f"numpy_sin_cpu: input {DTYPES}int64",
    ),
    "inplace": (
        lambda: numpy_sin_inplace(zeros(3, dtype=torch.bool)),
        TypeError,
        f"numpy_sin_inplace: input {DTYPES}bool",
    ),
    "scaled": (
        lambda: numpy_sin_scaled(zeros(3, dtype=torch.bfloat16), 2.0),
        TypeError,
        f"numpy_sin_scaled: input {DTYPES}bfloat16",
    ),
    "output-shares-memory": (
        lambda: numpy_sin(zeros(3, 4), zeros(3, 1).expand(3, 4)),
        ValueError,
        r"numpy_sin: output is written to, .* got strides \[1, 0\] for shape \[3, 4\]",
    ),
    "inplace-shares-memory": (
        lambda: numpy_sin_inplace(zeros(1).expand(4)),
        ValueError,
        r"numpy_sin_inplace: input is written to, .* got strides \[0\] for shape \[4\]",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_clear_and_the_fake_kernel_raises_the_same(name: str) -> None:
    call, kind, message = ERRORS[name]
    with pytest.raises(kind, match=message) as real:
        call()
    with FakeTensorMode(), pytest.raises(kind) as fake:
        call()
    assert str(fake.value) == str(real.value)


# ------------------------------------------------------------------------------------------ imports

SCRIPT = """
import sys
import reference_ops
assert "torch" not in sys.modules
assert {"crop", "numpy_sin"} <= set(dir(reference_ops))
sys.modules["torchvision"] = None  # importing it now fails
from reference_ops import numpy_sin, numpy_sin_scaled
try:
    from reference_ops import crop
except ImportError as error:
    assert "torchvision" in str(error), error
else:
    raise AssertionError("crop came without torchvision")
try:
    reference_ops.corp
except AttributeError as error:
    assert "corp" in str(error)
else:
    raise AssertionError("corp exists")
"""


def test_the_sines_need_no_torchvision_and_the_package_no_torch() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
