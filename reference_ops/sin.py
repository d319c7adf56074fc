"""``numpy.sin`` as an operator, once for each way to register one.

=========================== ================================================= ======== ============
operator                    shows                                             trains   devices
=========================== ================================================= ======== ============
``numpy_sin``               an argument it writes to; a kernel a device type  no       CPU and CUDA
``numpy_sin_functional``    a result, and an autograd formula                 yes      all
``numpy_sin_cpu``           ``device_types="cpu"``                            no       CPU
``numpy_sin_inplace``       an operator that writes to its only argument      no       all
``numpy_sin_scaled``        an explicit ``schema=`` with defaults             yes      all
=========================== ================================================= ======== ============

All take float16, float32, float64, complex64 and complex128, which numpy has too; it has no
bfloat16.  Inputs may have any strides, and results that are returned are contiguous.

torch accepts no autograd formula for an operator that writes to its arguments. It still runs such an
operator on tensors that require gradients, and the backward ignores the write. Use ``numpy_sin`` and
``numpy_sin_inplace`` only on tensors without gradients.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

_DTYPES = (torch.float16, torch.float32, torch.float64, torch.complex64, torch.complex128)


# ---------------------------------------------------------------------------------------- numpy_sin


@torch.library.custom_op("refops::numpy_sin", mutates_args={"output"}, device_types="cpu")
def numpy_sin(input: Tensor, output: Tensor) -> None:
    """Write the sine of ``input`` into ``output``.

    Args:
        input: a tensor of any shape and strides.
        output: a tensor of the shape, dtype and device of ``input``; any strides with which no two
            of its elements share memory.

    Raises:
        ValueError: the shapes or the devices differ, or elements of ``output`` share memory.
        TypeError: the dtypes differ, or numpy does not have them.
    """
    _check_pair(input, output)
    np.sin(input.detach().numpy(), out=output.detach().numpy())


@numpy_sin.register_kernel("cuda")
def _numpy_sin_through_host(input: Tensor, output: Tensor) -> None:
    _check_pair(input, output)
    output.copy_(_host_sin(input))


@numpy_sin.register_fake
def _(input: Tensor, output: Tensor) -> None:
    # There is nothing to return; without this, though, compiling would accept wrong arguments.
    _check_pair(input, output)


def _check_pair(input: Tensor, output: Tensor) -> None:
    _check_dtype("numpy_sin", "input", input)
    if input.dtype != output.dtype:
        raise TypeError(
            f"numpy_sin: input and output must have one dtype, got {input.dtype} and {output.dtype}"
        )
    if input.device != output.device:
        raise ValueError(
            f"numpy_sin: input and output must be on one device, "
            f"got {input.device} and {output.device}"
        )

    def shapes() -> str:
        return (
            f"numpy_sin: input and output must have one shape, "
            f"got {list(input.shape)} and {list(output.shape)}"
        )

    torch._check_value(input.dim() == output.dim(), shapes)
    for size, expected in zip(output.shape, input.shape, strict=True):
        torch._check_value(size == expected, shapes)
    _check_writable("numpy_sin", "output", output)


# ----------------------------------------------------------------------------- numpy_sin_functional


@torch.library.custom_op("refops::numpy_sin_functional", mutates_args=())
def numpy_sin_functional(input: Tensor) -> Tensor:
    """The sine of ``input`` as a new contiguous tensor.  Gradients flow to ``input``, to any order.

    Raises:
        TypeError: numpy does not have the dtype of ``input``.
    """
    return _new_result("numpy_sin_functional", input).copy_(_host_sin(input))


@numpy_sin_functional.register_fake
def _(input: Tensor) -> Tensor:
    return _new_result("numpy_sin_functional", input)


def _functional_setup(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
    ctx.save_for_backward(inputs[0])


def _functional_backward(ctx: Any, grad: Tensor) -> Tensor | None:
    if not ctx.needs_input_grad[0]:
        return None
    input: Tensor = ctx.saved_tensors[0]
    return grad * input.cos().conj()


numpy_sin_functional.register_autograd(_functional_backward, setup_context=_functional_setup)


# ------------------------------------------------------------------------------------ numpy_sin_cpu


@torch.library.custom_op("refops::numpy_sin_cpu", mutates_args=(), device_types="cpu")
def numpy_sin_cpu(input: Tensor) -> Tensor:
    """The sine of a CPU tensor as a new contiguous tensor.

    Raises:
        TypeError: numpy does not have the dtype of ``input``.
        NotImplementedError: ``input`` is on another device; torch raises it.
    """
    result = _new_result("numpy_sin_cpu", input)
    np.sin(input.detach().numpy(), out=result.numpy())
    return result


@numpy_sin_cpu.register_fake
def _(input: Tensor) -> Tensor:
    return _new_result("numpy_sin_cpu", input)


# -------------------------------------------------------------------------------- numpy_sin_inplace


@torch.library.custom_op("refops::numpy_sin_inplace", mutates_args={"input"})
def numpy_sin_inplace(input: Tensor) -> None:
    """Replace every element of ``input`` by its sine.

    ``input`` may have any strides with which no two of its elements share memory.

    Raises:
        ValueError: elements of ``input`` share memory.
        TypeError: numpy does not have the dtype of ``input``.
    """
    _check_inplace(input)
    input.copy_(_host_sin(input))


@numpy_sin_inplace.register_fake
def _(input: Tensor) -> None:
    _check_inplace(input)


def _check_inplace(input: Tensor) -> None:
    _check_dtype("numpy_sin_inplace", "input", input)
    _check_writable("numpy_sin_inplace", "input", input)


# --------------------------------------------------------------------------------- numpy_sin_scaled


# An explicit schema gives names and defaults as a caller in C++ sees them.  The defaults of the
# Python functions repeat the schema's: torch drops an argument that equals the schema's default, so
# another default in Python would silently win.
@torch.library.custom_op(
    "refops::numpy_sin_scaled",
    mutates_args=(),
    schema="(Tensor input, float scale=1.0, *, float frequency=1.0) -> Tensor",
)
def numpy_sin_scaled(input: Tensor, scale: float = 1.0, *, frequency: float = 1.0) -> Tensor:
    """``scale * sin(frequency * input)`` as a new contiguous tensor.

    Gradients flow to ``input``, to any order.

    Raises:
        TypeError: numpy does not have the dtype of ``input``.
    """
    result = _new_result("numpy_sin_scaled", input)
    return result.copy_(_host_sin(input * frequency)).mul_(scale)


@numpy_sin_scaled.register_fake
def _(input: Tensor, scale: float = 1.0, *, frequency: float = 1.0) -> Tensor:
    return _new_result("numpy_sin_scaled", input)


def _scaled_setup(
    ctx: Any,
    inputs: tuple[Tensor, float],
    keyword_only_inputs: dict[str, float],
    output: Tensor,
) -> None:
    input, ctx.scale = inputs
    ctx.frequency = keyword_only_inputs["frequency"]
    ctx.save_for_backward(input)


def _scaled_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, None]:
    if not ctx.needs_input_grad[0]:
        return None, None
    input: Tensor = ctx.saved_tensors[0]
    slope = (input * ctx.frequency).cos() * (ctx.scale * ctx.frequency)
    return grad * slope.conj(), None


numpy_sin_scaled.register_autograd(_scaled_backward, setup_context=_scaled_setup)


# ------------------------------------------------------------------------------------ used by all


def _host_sin(input: Tensor) -> Tensor:
    """The sine of a tensor of any device, by numpy, on the CPU."""
    host = input.detach().cpu()
    result = torch.empty_like(host)
    np.sin(host.numpy(), out=result.numpy())
    return result


def _new_result(op: str, input: Tensor) -> Tensor:
    """Check the input of an op and allocate its result."""
    _check_dtype(op, "input", input)
    return input.new_empty(input.shape)


def _check_dtype(op: str, name: str, tensor: Tensor) -> None:
    if tensor.layout != torch.strided:
        raise TypeError(f"{op}: {name} must be a dense tensor, got layout {tensor.layout}")
    if tensor.dtype not in _DTYPES:
        raise TypeError(
            f"{op}: {name} must be float16, float32, float64, complex64 or complex128, "
            f"got {tensor.dtype}"
        )


def _check_writable(op: str, name: str, tensor: Tensor) -> None:
    """No dimension may repeat its elements, as those of an expanded tensor do."""

    def shared() -> str:
        return (
            f"{op}: {name} is written to, and its elements must not share memory, "
            f"got strides {list(tensor.stride())} for shape {list(tensor.shape)}"
        )

    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        # A stride of 0 is never a symbol: only sizes and strides from 2 on become symbols.
        if isinstance(stride, int) and stride == 0:
            torch._check_value(size <= 1 or tensor.numel() == 0, shared)
