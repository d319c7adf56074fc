"""Judge on which device a fake kernel puts its outputs, for inputs on a device that may be absent.

An output that is created without `device=` is on the CPU, wherever the inputs are. It moves with the
default device, which an output on the CPU on purpose does not. It is a finding only if the real kernel
surely puts the output on the device of its inputs.

An op without a kernel for another type of device is run on `meta` tensors, by its fake kernel.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from ...cases.arguments import Arguments
from ...cases.fake_elsewhere import META, can_move, run_elsewhere
from ...cases.fake_run import fake_run
from ...cases.run import Run
from ...cases.tensors import is_differentiable
from ...compat.fake_devices import can_be_faked
from ...compat.fakes import fake_cause, missing_fake_kernel
from ...compat.ops import has_kernel_elsewhere, kernel_function
from ...core.tables import aligned
from ...core.tracebacks import error_line, raised_by_author, traceback_text
from ...findings import CheckFailed, CheckSkipped, fail, skip
from .kernel_devices import KernelDevices, watch_kernel

CODE = "fake-device-ignored"
# The device types that are tried, in this order, until the fake kernel runs on one of them.
_DEVICES = ("cuda", "xpu", "mps")


@dataclass(frozen=True, eq=False)
class JudgedCall:
    """A call of an op whose fake kernel is judged.

    Args:
        title: names the op in a message.
        shapes: arguments like those of the call; nothing is written to them.
        fresh: gives copies of the arguments of the call.
        real: the call itself.
        home: the device type on which it ran.
        script: the lines of a script, given the device and the positions of the wrong outputs.
    """

    title: str
    shapes: Arguments
    fresh: Callable[[], Arguments]
    real: Run
    home: str
    script: Callable[[str, Sequence[int]], str]

    def failure(self) -> CheckFailed | None:
        """The finding about the fake kernel; None if every output is where it must be.

        Raises:
            CheckSkipped: if the fake kernel runs on no other device, or if it creates an output without
                `device=` that the real kernel may put anywhere.
        """
        if not self.shapes.tensors():
            raise skip("nothing-to-check", "no argument is a tensor", unjudged=False)
        if not can_move(self.shapes):
            reason = "an argument cannot be created on another device"
            raise skip("nothing-to-check", reason, unjudged=False)
        errors: list[Exception] = []
        for device in _DEVICES if self.has_kernel_elsewhere else (META,):
            if device == self.home or not can_be_faked(device):
                continue
            run = run_elsewhere(self.shapes, device)
            if run.error is None:
                return self._failure_of_outputs(run, device)
            again = run_elsewhere(self.shapes, device, default=device)
            assert isinstance(run.error, Exception)
            if again.error is None:
                return self._failure_of_error(run.error, device)
            errors.append(run.error)
        if not errors:
            reason = "this torch creates no fake tensors of another device"
            raise skip("nothing-to-check", reason, unjudged=False)
        raise self._cannot_run(errors[0])

    @functools.cached_property
    def has_kernel_elsewhere(self) -> bool:
        """Whether the op has a kernel for another device type, or one for all."""
        return has_kernel_elsewhere(self.real.arguments.op.overload, self.home)

    def is_sure_of_error(self, works: Callable[[Callable[[torch.Tensor], bool]], bool]) -> bool:
        """Whether an error that is raised when all arguments are moved is a defect.

        Some arguments, such as sizes, may belong on the CPU. A Python kernel shows whether they do. With
        other kernels, it is no defect if everything works while all integer arguments stay.

        Args:
            works: (which tensors stay) -> whether it works.
        """
        if self._watched is not None:
            return self._watched.portable or len(self.shapes.tensors()) == 1
        integers = [
            tensor for _, tensor in self.shapes.tensors() if not is_differentiable(tensor.dtype)
        ]
        return not (integers and works(lambda tensor: not is_differentiable(tensor.dtype)))

    @functools.cached_property
    def _watched(self) -> KernelDevices | None:
        """How the kernel treats devices; None if it is not in Python, or cannot run alone."""
        kernel = kernel_function(self.real.arguments.op.overload, self.home)
        return watch_kernel(kernel, self.fresh()) if kernel is not None else None

    def _failure_of_outputs(self, run: Run, device: str) -> CheckFailed | None:
        reals = dict(self.real.outputs)
        names = [
            name
            for name, fake in run.outputs
            if name in reals and fake.device.type != _expected(reals[name], self.home, device)
        ]
        if not names:
            return None
        again = dict(run_elsewhere(self.shapes, device, default=device).outputs)
        names = [name for name in names if name in again and again[name].device.type == device]
        if not names:
            return None  # on another device on purpose
        wrong = self._surely_wrong(names)
        if not wrong:
            reason = f"the real kernel may put {names[0]} on a device other than that of its inputs"
            raise skip("nothing-to-check", reason, unjudged=False)
        fakes = dict(run.outputs)
        all_names = list(fakes)
        return fail(
            CODE,
            f"{self.title} {wrong[0]}: for inputs on {device} the fake kernel returns it on "
            f"{fakes[wrong[0]].device}: it is created without device=",
            _table(run, again, self.real, wrong, device),
            repro=self.script(device, [all_names.index(name) for name in wrong]),
        )

    def _surely_wrong(self, names: Sequence[str]) -> list[str]:
        """The outputs among these that the real kernel surely puts on the device of its inputs."""
        watched = self._watched
        if watched is not None and watched.portable and self.has_kernel_elsewhere:
            return [name for name in names if name in watched.following]
        if watched is not None and not watched.portable and len(self.shapes.tensors()) > 1:
            return []  # some of the arguments belong on the CPU
        reals = dict(self.real.outputs)
        return [name for name in names if self._is_data(reals[name])]

    def _is_data(self, output: torch.Tensor) -> bool:
        """Whether an output's dtype suggests data computed from the inputs, and not a seed or a size."""
        floating = [is_differentiable(tensor.dtype) for _, tensor in self.shapes.tensors()]
        if is_differentiable(output.dtype):
            return output.dim() > 0 and any(floating)
        same = any(tensor.dtype == output.dtype for _, tensor in self.shapes.tensors())
        return output.dim() > 0 and same and not any(floating)

    def _failure_of_error(self, error: Exception, device: str) -> CheckFailed:
        if not self.is_sure_of_error(
            lambda keep: run_elsewhere(self.shapes, device, keep=keep).error is None
        ):
            reason = "some arguments of the fake kernel may belong on the CPU"
            raise skip("nothing-to-check", reason, unjudged=False)
        return fail(
            CODE,
            f"{self.title}: for inputs on {device} the fake kernel raises {error_line(error)}: it "
            "creates a tensor without device=",
            traceback_text(error),
            repro=self.script(device, []),
        )

    def _cannot_run(self, error: Exception) -> CheckSkipped:
        if missing_fake_kernel(error) or fake_run(self.shapes).error is not None:
            reason = "the fake kernel is missing or raises: see fake.forward"
            return skip("nothing-to-check", reason, unjudged=False)
        error = fake_cause(error)
        if raised_by_author(error):
            reason = f"the fake kernel rejects inputs of other devices ({error_line(error)})"
            return skip("nothing-to-check", reason, unjudged=False)
        reason = f"the fake kernel does not run for inputs of other devices: {error_line(error)}"
        return skip("checker-limit", reason)


def _expected(real: torch.Tensor, home: str, device: str) -> str:
    """The device type of a fake output, if all inputs are moved from `home` to `device`."""
    return device if real.device.type == home else real.device.type


def _table(
    run: Run, again: dict[str, torch.Tensor], real: Run, wrong: Sequence[str], device: str
) -> str:
    """The devices of all outputs; the wrong ones are marked with `>`."""
    columns = (dict(run.outputs), again, dict(real.outputs))
    heading = ("", f"fake, for inputs on {device}", f"with default device {device}", "real, here")
    rows = [
        (
            f"{'>' if name in wrong else ' '} {name}",
            *(str(column[name].device) for column in columns),
        )
        for name, _ in run.outputs
        if all(name in column for column in columns)
    ]
    return "\n".join(aligned([heading, *rows]))
