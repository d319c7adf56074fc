"""Call an op and its backward on fake tensors on a device that this machine does not have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from ..compat.fake_devices import default_device_in_backward, fake_like, fake_mode_with_default
from ..compat.fakes import enter_fake_mode
from ..core.tracebacks import reraise_bug
from .arguments import Arguments
from .run import Run, gradients
from .tensors import is_plain

# A backward can run on this device without an accelerator: autograd needs no support for it.
META = "meta"


def can_move(arguments: Arguments) -> bool:
    """Whether all tensor arguments can become fake tensors on another device."""
    return all(is_plain(tensor) for _, tensor in arguments.tensors())


def run_elsewhere(
    arguments: Arguments,
    device: str,
    *,
    default: str | None = None,
    keep: Callable[[torch.Tensor], bool] | None = None,
) -> Run:
    """Call the op on fake tensors on another device, without gradients.

    Args:
        arguments: real ones, for which `can_move` is true. Nothing is written to them.
        device: a device type, which this machine need not have.
        default: the device of tensors that the fake kernel creates without `device=`; None: the CPU.
        keep: which tensors stay on their own device; None: all are moved.
    """
    mode = fake_mode_with_default(default)
    fakes = _moved(mode, arguments, device, keep)
    try:
        with torch.no_grad(), enter_fake_mode(mode):
            return Run(fakes, fakes.call())
    except Exception as error:  # whatever a fake kernel raises is a result here
        reraise_bug(error)
        return Run(fakes, error=error)


@dataclass(frozen=True)
class BackwardElsewhere:
    """A forward and a backward on fake tensors on another device.

    Args:
        misplaced: by argument, the device type of each gradient that is not on its argument's device.
        error: the exception of the forward or the backward; None without one.
        calls: the ops that the backward called, as OpOverloads.
    """

    misplaced: Mapping[str, str] = field(default_factory=dict)
    error: Exception | None = None
    calls: tuple[Any, ...] = ()

    @property
    def works(self) -> bool:
        """Whether nothing raised, and every gradient is on its argument's device."""
        return self.error is None and not self.misplaced


def backward_elsewhere(
    arguments: Arguments,
    *,
    default: str | None = None,
    keep: Callable[[torch.Tensor], bool] | None = None,
) -> BackwardElsewhere:
    """Call the op and its backward on fake tensors on the device `meta`.

    Args:
        arguments, default, keep: as for `run_elsewhere`; `default` applies to the backward and to fake
            kernels.
    """
    mode = fake_mode_with_default(default)
    fakes = _moved(mode, arguments, META, keep, gradients=True)
    before = 0
    try:
        with enter_fake_mode(mode):
            run = Run(fakes, fakes.call())
            outputs = run.differentiable_outputs
            grad_outputs = [torch.empty_like(tensor) for _, tensor in outputs]
            if default is not None:
                default_device_in_backward([tensor for _, tensor in outputs], default)
            before = len(mode.calls)
            grads = gradients(fakes, outputs, grad_outputs)
    except Exception as error:  # whatever the author's code raises is a result here
        reraise_bug(error)
        return BackwardElsewhere(error=error, calls=tuple(mode.calls[before:]) if before else ())
    inputs = dict(fakes.tensors())
    misplaced = {
        name: gradient.device.type
        for name, gradient in grads.items()
        if gradient is not None
        and gradient.device.type != inputs[name].device.type
        and gradient.dim()
    }
    return BackwardElsewhere(misplaced, calls=tuple(mode.calls[before:]))


def _moved(
    mode: Any,
    arguments: Arguments,
    device: str,
    keep: Callable[[torch.Tensor], bool] | None,
    *,
    gradients: bool = False,
) -> Arguments:
    """Fake tensors like the arguments, on another device; a tensor that is two arguments stays one."""
    homes = {tensor.device for _, tensor in arguments.tensors()}

    def moved(name: str, tensor: torch.Tensor) -> torch.Tensor:
        where = tensor.device.type if keep is not None and keep(tensor) else device
        return fake_like(mode, tensor, where).requires_grad_(gradients and tensor.requires_grad)

    fakes = arguments.map_distinct(moved)

    def elsewhere(value: Any) -> Any:
        return torch.device(device) if isinstance(value, torch.device) and value in homes else value

    args = tuple(elsewhere(value) for value in fakes.args)
    return Arguments(
        fakes.op, args, {name: elsewhere(value) for name, value in fakes.kwargs.items()}
    )
