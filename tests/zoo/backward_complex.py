"""The convention for complex gradients: the conjugate of the derivative."""

import functools

import torch
from torch import Tensor

from pytest_customop import tensor

from . import registry

# These are about formulas: a backend that generates no code tells as much, and sooner.
specimen = functools.partial(registry.specimen, backend="aot_eager")

MATRIX = tensor(4, 3)


def _op(name, kernel, fake, backward):
    """An op of one tensor; `backward(x, grad)` is its formula."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def op(x: Tensor) -> Tensor:
        return kernel(x)

    op.register_fake(fake)
    op.register_autograd(
        lambda ctx, grad: backward(*ctx.saved_tensors, grad),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    return op


def _turn(name, backward):
    """A real angle to a complex number on the unit circle."""
    return _op(
        name,
        lambda x: torch.polar(torch.ones_like(x), x),
        lambda x: torch.empty_like(x, dtype=x.dtype.to_complex()),
        backward,
    )


@specimen((MATRIX,), dtypes=[torch.float64], expected={"gradcheck.backward": "gradient-mismatch"})
def turn_without_conjugation():
    """A real input and a complex output: the gradient of the angle is not conjugated."""

    def backward(x, grad):
        return (grad * 1j * torch.polar(torch.ones_like(x), x)).real

    return _turn("turn_without_conjugation", backward)


@specimen((MATRIX,), dtypes=[torch.float64], twin_of="turn_without_conjugation")
def turn_with_conjugation():
    """A real input and a complex output: the derivative is conjugated, and real in the end."""

    def backward(x, grad):
        return (grad * (1j * torch.polar(torch.ones_like(x), x)).conj()).real

    return _turn("turn_with_conjugation", backward)


def _power(name, backward):
    """The squared magnitude of a complex number."""
    return _op(
        name,
        lambda z: z.real.square() + z.imag.square(),
        lambda z: torch.empty_like(z, dtype=z.dtype.to_real()),
        backward,
    )


@specimen(
    (MATRIX,), dtypes=[torch.complex128], expected={"gradcheck.backward": "gradient-mismatch"}
)
def power_with_the_conjugate():
    """A complex input and a real output: the gradient is conjugated where it should not be."""
    return _power("power_with_the_conjugate", lambda z, grad: 2 * grad * z.conj())


@specimen((MATRIX,), dtypes=[torch.complex128], twin_of="power_with_the_conjugate")
def power():
    """A complex input and a real output: the gradient of the squared magnitude is 2z."""
    return _power("power", lambda z, grad: 2 * grad * z)


def _recurrence(name, conj):
    """A linear recurrence; `conj` is what the backward makes of the saved tensors."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def recurrence(x: Tensor, decay: Tensor) -> Tensor:
        """h[t] = decay * h[t-1] + x[t], for real or complex numbers. x: (T, D), decay: (D,)."""
        if x.dim() != 2 or decay.shape != x.shape[1:] or decay.dtype != x.dtype:
            raise ValueError("x (T, D) and decay (D,) of one dtype, please")
        rows, state = [], torch.zeros_like(decay)
        for row in x:
            state = decay * state + row
            rows.append(state)
        return torch.stack(rows) if rows else x.new_empty(x.shape)

    recurrence.register_fake(lambda x, decay: x.new_empty(x.shape))

    def backward(ctx, grad):
        decay, states = (conj(saved) for saved in ctx.saved_tensors)
        back = recurrence(grad.flip(0), decay).flip(0)
        return back, (back[1:] * states[:-1]).sum(0)

    def setup(ctx, inputs, output):
        ctx.save_for_backward(inputs[1], output)

    recurrence.register_autograd(backward, setup_context=setup)
    return recurrence


@specimen(
    (MATRIX, tensor(3)),
    variant_findings={"gradcheck.backward": "gradient-mismatch"},
    shown_by="complex64",
)
def recurrence_without_conjugation():
    """The docstring allows complex numbers, which no sample has, and the backward takes no conjugate."""
    return _recurrence("recurrence_without_conjugation", lambda saved: saved)


@specimen((MATRIX, tensor(3)), twin_of="recurrence_without_conjugation")
def recurrence_with_conjugation():
    """The saved tensors are conjugated."""
    return _recurrence("recurrence_with_conjugation", lambda saved: saved.conj())


def _masked(name, weight_of):
    """A complex spectrum times a mask; `weight_of(mask)` is what its gradient is multiplied by."""

    def check(spec, mask):
        if spec.dim() != 2 or spec.shape != mask.shape or not spec.is_complex():
            raise ValueError("a complex spectrum (F, T), and a mask of its size, please")
        if mask.dtype not in (spec.dtype, spec.dtype.to_real()):
            raise TypeError("a mask of the precision of the spectrum, please")

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def masked(spec: Tensor, mask: Tensor) -> Tensor:
        """A spectrum times a mask.

        spec: complex64 or complex128 (F, T).
        mask: (F, T), a real mask or a complex one.
        """
        check(spec, mask)
        return (spec * mask).contiguous()

    @masked.register_fake
    def _(spec, mask):
        check(spec, mask)
        return spec.new_empty((spec.shape[0], spec.shape[1]))

    def backward(ctx, grad):
        spec, mask = ctx.saved_tensors
        of_mask = grad * spec.conj()
        return grad * weight_of(mask), of_mask if mask.is_complex() else of_mask.real

    masked.register_autograd(
        backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs)
    )
    return masked


SPECTRUM = (tensor(3, 4, dtype=torch.complex64), tensor(3, 4))


@specimen(
    SPECTRUM,
    variant_findings={"gradcheck.backward": "gradient-mismatch"},
    shown_by="mask.complex64",
)
def gradient_times_the_mask():
    """Right for real masks; the docstring allows complex ones, which are not conjugated."""
    return _masked("gradient_times_the_mask", lambda mask: mask)


@specimen(SPECTRUM, twin_of="gradient_times_the_mask")
def gradient_times_the_conjugate_mask():
    """Masks are conjugated."""
    return _masked("gradient_times_the_conjugate_mask", lambda mask: mask.conj().resolve_conj())
