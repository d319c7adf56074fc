"""Tensors that are created on the CPU wherever the inputs are, and those that belong there."""

from typing import List, Optional, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor

from pytest_customop import tensor

from .registry import library, specimen

MATRIX = tensor(4, 3)
FOUND = {"fake.device": "fake-device-ignored"}


def _numpy_sin(name, fake):
    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def numpy_sin(x: Tensor) -> Tensor:
        return torch.from_numpy(np.sin(x.cpu().numpy())).to(x.device)

    numpy_sin.register_fake(fake)
    return numpy_sin


@specimen((MATRIX,), expected=FOUND)
def fake_on_the_default_device():
    """The fake kernel does not say on which device its output is."""
    return _numpy_sin("fake_on_the_default_device", lambda x: torch.empty(x.shape, dtype=x.dtype))


@specimen((MATRIX,), expected=FOUND)
def fake_mixes_devices():
    """The fake kernel adds a tensor on the CPU to one of the inputs, which raises on a GPU."""
    return _numpy_sin("fake_mixes_devices", lambda x: x + torch.zeros(x.shape, dtype=x.dtype))


@specimen((MATRIX,), twin_of=("fake_on_the_default_device", "fake_mixes_devices"))
def fake_on_the_device_of_the_input():
    """The fake kernel names the device of the input."""
    return _numpy_sin(
        "fake_on_the_device_of_the_input",
        lambda x: torch.empty_like(x, device=x.device),
    )


def _largest(name, fake):
    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def largest(x: Tensor) -> Tensor:
        if x.dim() != 2:
            raise ValueError("a matrix, please")
        if x.numel() == 0:
            return x.new_zeros(x.shape[1])
        return x.amax(0)

    largest.register_fake(fake)
    return largest


@specimen((MATRIX,), variant_findings=FOUND, shown_by="empty0")
def fake_on_the_default_device_where_empty():
    """The fake kernel does not say on which device its output is where there are no rows."""

    def fake(x):
        if x.shape[0] == 0:
            return torch.zeros(x.shape[1], dtype=x.dtype)
        return x.new_empty(x.shape[1])

    return _largest("fake_on_the_default_device_where_empty", fake)


@specimen((MATRIX,), twin_of="fake_on_the_default_device_where_empty")
def fake_on_the_device_of_the_input_where_empty():
    """The output is on the device of the input, also where there are no rows."""
    return _largest(
        "fake_on_the_device_of_the_input_where_empty", lambda x: x.new_empty(x.shape[1])
    )


def _moments(name, fake):
    """Two outputs; a library op, whose kernel cannot be watched."""
    lib = library()
    lib.define(f"{name}(Tensor x) -> (Tensor, Tensor)")
    lib.impl(name, torch.no_grad()(lambda x: (x.mean(0), x.var(0))), "CompositeExplicitAutograd")
    torch.library.register_fake(f"zoo::{name}", fake, lib=lib)
    return getattr(torch.ops.zoo, name).default


@specimen((MATRIX,), expected=FOUND)
def second_fake_output_on_the_default_device():
    """The fake kernel puts the first output on the device of the input, and not the second."""
    return _moments(
        "second_fake_output_on_the_default_device",
        lambda x: (x.new_empty(x.shape[1]), torch.empty(x.shape[1], dtype=x.dtype)),
    )


@specimen((MATRIX,), twin_of="second_fake_output_on_the_default_device")
def both_fake_outputs_on_the_device_of_the_input():
    """Both outputs are on the device of the input."""
    return _moments(
        "both_fake_outputs_on_the_device_of_the_input",
        lambda x: (x.new_empty(x.shape[1:]), torch.empty_like(x.new_empty(x.shape[1:]))),
    )


def _offsets(name, fake):
    """Integers made of integers, by a kernel for the CPU alone."""
    lib = library()
    lib.define(f"{name}(Tensor lengths) -> Tensor")
    lib.impl(
        name,
        lambda lengths: torch.cat([torch.zeros(1, dtype=lengths.dtype), lengths.cumsum(0)]),
        "CPU",
    )
    torch.library.register_fake(f"zoo::{name}", fake, lib=lib)
    return getattr(torch.ops.zoo, name).default


LENGTHS = tensor(4, dtype=torch.int64, low=1, high=4)


@specimen((LENGTHS,), expected=FOUND)
def fake_of_a_cpu_kernel_on_the_default_device():
    """The kernel is for the CPU alone; for meta tensors, the fake kernel returns one on the CPU."""
    return _offsets(
        "fake_of_a_cpu_kernel_on_the_default_device",
        lambda lengths: torch.empty(lengths.shape[0] + 1, dtype=lengths.dtype),
    )


@specimen((LENGTHS,), twin_of="fake_of_a_cpu_kernel_on_the_default_device")
def fake_of_a_cpu_kernel_on_the_device_of_the_input():
    """The kernel is for the CPU alone; the fake one follows the device of its input all the same."""
    return _offsets(
        "fake_of_a_cpu_kernel_on_the_device_of_the_input",
        lambda lengths: lengths.new_empty(lengths.shape[0] + 1),
    )


def _halves(name, fake):
    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def halves(xs: Sequence[Tensor]) -> List[Tensor]:
        return [x[: x.shape[0] // 2].clone() for x in xs]

    halves.register_fake(fake)
    return halves


@specimen(([MATRIX, MATRIX],), expected=FOUND)
def fake_list_on_the_default_device():
    """None of the tensors in the fake list says on which device it is."""
    return _halves(
        "fake_list_on_the_default_device",
        lambda xs: [torch.empty(x.shape[0] // 2, *x.shape[1:], dtype=x.dtype) for x in xs],
    )


@specimen(([MATRIX, MATRIX],), twin_of="fake_list_on_the_default_device")
def fake_list_of_slices():
    """The tensors in the fake list are made of the inputs."""
    return _halves("fake_list_of_slices", lambda xs: [x[: x.shape[0] // 2].clone() for x in xs])


def _scale(name, backward):
    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def scale(x: Tensor, weight: Tensor) -> Tensor:
        if (x.shape[1:], x.dtype) != (weight.shape, weight.dtype):
            raise ValueError("a weight of x's dtype for each column, please")
        return x * weight

    scale.register_fake(lambda x, weight: torch.empty_like(x))
    scale.register_autograd(
        backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs)
    )
    return scale


WEIGHTED = (MATRIX, tensor(3))


@specimen(WEIGHTED, expected=FOUND)
def gradient_on_the_default_device():
    """The backward adds up a gradient in a tensor that is on the CPU."""

    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        total = torch.zeros(weight.shape, dtype=weight.dtype)
        total.copy_((grad * x).sum(0))
        return grad * weight, total

    return _scale("gradient_on_the_default_device", backward)


@specimen(WEIGHTED, expected=FOUND)
def backward_mixes_devices():
    """The backward multiplies by ones that are on the CPU."""

    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad * weight, torch.ones(x.shape[0], dtype=x.dtype) @ (grad * x)

    return _scale("backward_mixes_devices", backward)


@specimen(WEIGHTED, twin_of=("gradient_on_the_default_device", "backward_mixes_devices"))
def gradients_on_the_device_of_the_inputs():
    """The backward creates its tensors on the device of the saved ones."""

    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        total = torch.zeros_like(weight)
        total += torch.ones(x.shape[0], dtype=x.dtype, device=x.device) @ (grad * x)
        return grad * weight, total

    return _scale("gradients_on_the_device_of_the_inputs", backward)


NO_SECOND_ORDER = {"gradcheck.double": "no-second-order"}


def _with_op_in_backward(name, fake):
    @torch.library.custom_op(f"zoo::{name}_backward", mutates_args=())
    def backward(grad: Tensor, x: Tensor) -> Tensor:
        return grad * x.cos()

    backward.register_fake(fake)

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def forward(x: Tensor) -> Tensor:
        return x.sin()

    forward.register_fake(lambda x: torch.empty_like(x))
    forward.register_autograd(
        lambda ctx, grad: backward(grad, *ctx.saved_tensors),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    return forward


@specimen((MATRIX,), expected=FOUND, skips=NO_SECOND_ORDER)
def op_in_backward_on_the_default_device():
    """The fake kernel of the op that the backward calls does not say on which device its output is."""
    return _with_op_in_backward(
        "op_in_backward_on_the_default_device", lambda grad, x: torch.empty(x.shape, dtype=x.dtype)
    )


@specimen((MATRIX,), skips=NO_SECOND_ORDER, twin_of="op_in_backward_on_the_default_device")
def op_in_backward_on_the_device_of_the_input():
    """The fake kernel of the op that the backward calls follows the device of its input."""
    return _with_op_in_backward(
        "op_in_backward_on_the_device_of_the_input", lambda grad, x: torch.empty_like(x)
    )


class _Cubed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, name):
        ctx.save_for_backward(x)
        ctx.name = name
        with torch._C._AutoDispatchBelowAutograd():
            return getattr(torch.ops.zoo, name)(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        where = None if ctx.name == "factor_on_the_default_device" else x.device
        factor = torch.full((x.shape[-1],), 3.0, dtype=x.dtype, device=where)
        return grad * factor * x * x, None


def _cubed(name):
    """An autograd kernel of its own, with a torch.autograd.Function."""
    lib = library()
    lib.define(f"{name}(Tensor x) -> Tensor")
    lib.impl(name, lambda x: x**3, "CompositeExplicitAutograd")
    lib.impl(name, lambda x: _Cubed.apply(x, name), "Autograd")
    torch.library.register_fake(f"zoo::{name}", lambda x: torch.empty_like(x), lib=lib)
    return getattr(torch.ops.zoo, name).default


@specimen((MATRIX,), expected=FOUND)
def factor_on_the_default_device():
    """The backward of a torch.autograd.Function creates a factor on the CPU."""
    return _cubed("factor_on_the_default_device")


@specimen((MATRIX,), twin_of="factor_on_the_default_device")
def factor_on_the_device_of_the_input():
    """The backward of a torch.autograd.Function creates a factor on the device of the input."""
    return _cubed("factor_on_the_device_of_the_input")


@specimen((MATRIX,))
def result_on_the_cpu_on_purpose():
    """One output is on the CPU for inputs on any device, and the fake kernel says so."""

    @torch.library.custom_op("zoo::result_on_the_cpu_on_purpose", mutates_args=())
    def with_sizes(x: Tensor) -> Tuple[Tensor, Tensor]:
        return x.clone(), x.sum(-1).contiguous().cpu()

    with_sizes.register_fake(
        lambda x: (torch.empty_like(x), torch.empty(x.shape[:-1], dtype=x.dtype, device="cpu"))
    )
    return with_sizes


@specimen((MATRIX,))
def result_on_the_cpu_without_a_word():
    """The output is on the CPU for inputs on any device, in both kernels, and none of them says so."""

    @torch.library.custom_op("zoo::result_on_the_cpu_without_a_word", mutates_args=())
    def to_host(x: Tensor) -> Tensor:
        return torch.from_numpy(np.exp(np.ascontiguousarray(x.cpu().numpy())))

    to_host.register_fake(lambda x: torch.empty(x.shape, dtype=x.dtype))
    return to_host


@specimen((MATRIX,))
def seed_on_the_cpu():
    """A kernel that cannot be watched also returns a seed, which may always be on the CPU."""
    lib = library()
    lib.define("seed_on_the_cpu(Tensor x) -> (Tensor, Tensor)")
    lib.impl(
        "seed_on_the_cpu",
        torch.no_grad()(lambda x: (x.clone(), torch.tensor([1, 2]))),
        "CompositeExplicitAutograd",
    )
    torch.library.register_fake(
        "zoo::seed_on_the_cpu",
        lambda x: (torch.empty_like(x), torch.empty(2, dtype=torch.int64)),
        lib=lib,
    )
    return torch.ops.zoo.seed_on_the_cpu.default


@specimen((tensor(1, dtype=torch.int64, low=1, high=4),))
def frames_of_a_file():
    """The device of the output has nothing to do with that of the input, which stands for a file."""
    lib = library()
    lib.define("frames_of_a_file(Tensor file) -> Tensor")
    lib.impl("frames_of_a_file", lambda file: torch.ones(3), "CPU")
    torch.library.register_fake("zoo::frames_of_a_file", lambda file: torch.empty(3), lib=lib)
    return torch.ops.zoo.frames_of_a_file.default


@specimen((MATRIX, LENGTHS))
def lengths_on_the_cpu():
    """The lengths are always on the CPU; the fake kernel adds to them what it creates there."""

    @torch.library.custom_op("zoo::lengths_on_the_cpu", mutates_args=())
    def starts(x: Tensor, lengths: Tensor) -> Tuple[Tensor, Tensor]:
        starts = torch.from_numpy(np.cumsum(lengths.numpy())) + torch.arange(len(lengths))
        return x.clone(), starts

    starts.register_fake(lambda x, n: (torch.empty_like(x), n + torch.arange(n.shape[0])))
    return starts


@specimen((MATRIX, torch.device("cpu")), (MATRIX,))
def device_as_an_argument():
    """The output is on the device that is an argument, or on that of the input."""

    @torch.library.custom_op("zoo::device_as_an_argument", mutates_args=())
    def ones(x: Tensor, device: Optional[torch.device] = None) -> Tensor:
        return torch.ones(x.shape, dtype=x.dtype, device=device or x.device)

    ones.register_fake(
        lambda x, device=None: torch.empty(x.shape, dtype=x.dtype, device=device or x.device)
    )
    return ones


@specimen((MATRIX,))
def fake_asks_for_the_gpu():
    """The fake kernel asks for the properties of the GPU, which no machine without one knows."""

    def fake(x):
        if x.is_cuda:
            torch.cuda.get_device_properties(x.device)
        return torch.empty_like(x)

    return _numpy_sin("fake_asks_for_the_gpu", fake)


@specimen((MATRIX,))
def fake_rejects_other_devices():
    """Both kernels are for the CPU alone, and the fake one says so."""

    def fake(x):
        torch._check(x.device.type == "cpu", lambda: "on the CPU, please")
        return torch.empty_like(x, device="cpu")

    return _numpy_sin("fake_rejects_other_devices", fake)
