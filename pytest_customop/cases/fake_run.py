"""Call an op on fake tensors with plain or symbolic sizes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ..compat.fakes import enter_fake_mode, fake_cause, fake_mode, missing_fake_kernel, to_fake
from ..compat.symbols import expression, substitute
from ..core.tracebacks import error_line, message_line, reraise_bug, traceback_text
from ..findings import CheckFailed, fail, skip
from .arguments import Arguments
from .case import Case
from .deliberate import note_if_deliberate
from .run import Run


@dataclass(frozen=True, eq=False)
class FakeRun:
    """One call of an op on fake tensors.

    Args:
        mode: the fake mode of the call.
        run: the arguments and the result or the exception.
        origins: the sizes, strides and offsets of the arguments before the call, as expressions, or as
            numbers where they are not symbolic; by argument, `size`, `stride` or `offset`, and dim.
    """

    mode: Any
    run: Run
    origins: Mapping[tuple[str, str, int], Any]

    @property
    def error(self) -> Exception | None:
        """The exception of the call, or None."""
        error = self.run.error
        assert error is None or isinstance(error, Exception)  # `fake_run` keeps nothing else
        return error

    def bindings(self, real: Arguments) -> dict[Any, int] | None:
        """The numbers, by symbol, with which the symbolic arguments become these real ones.

        None if there are none, because a stride of the real arguments does not fit its expression.
        """
        numbers = dict(_numbers(real))
        symbols = [
            (origin, numbers[key])
            for key, origin in self.origins.items()
            if getattr(origin, "is_Symbol", False)
        ]
        values = dict(symbols)
        for key, origin in self.origins.items():
            if substitute(origin, values) != numbers[key]:
                return None
        return values


def fake_run(
    arguments: Arguments, *, symbolic: bool = False, scalar_outputs: bool = True
) -> FakeRun:
    """Call the op on fake tensors like the arguments, in the current grad mode.

    Args:
        arguments: real ones, not views in autograd's sense.
        symbolic: whether every size above 1 becomes a symbol.
        scalar_outputs: whether `.item()` gives a symbol, or raises.

    Raises:
        CheckSkipped: if torch cannot make a fake tensor of an argument.
    """
    mode = fake_mode(scalar_outputs=scalar_outputs, symbolic=symbolic)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, while it makes fake tensors
        fakes = fake_arguments(mode, arguments, symbolic=symbolic)
    origins = {key: expression(number) for key, number in _numbers(fakes)}
    try:
        with enter_fake_mode(mode):
            run = Run(fakes, fakes.call())
    except Exception as error:  # whatever a fake kernel raises is a result here
        reraise_bug(error)
        run = Run(fakes, error=error)
    return FakeRun(mode, run, origins)


def shapes_of(case: Case) -> Arguments:
    """Arguments to make fake tensors from: those of the eager call, unless the op writes to them."""
    return case.inputs() if case.op.mutated else case.eager.arguments


def fake_arguments(mode: Any, arguments: Arguments, *, symbolic: bool = False) -> Arguments:
    """Fake tensors like the arguments.

    Raises:
        CheckSkipped: if torch cannot make a fake tensor of an argument.
    """

    def twin(name: str, tensor: torch.Tensor) -> torch.Tensor:
        try:
            return to_fake(mode, tensor, name if symbolic else None)
        except Exception as error:  # torch raises many types for tensors that have no fake
            reraise_bug(error)
            reason = f"torch cannot make a fake tensor of argument {name}: {message_line(error)}"
            raise skip("checker-limit", reason) from error

    return arguments.map_distinct(twin)


def skip_if_unfakeable(run: Run) -> None:
    """Skip if the real op returned a tensor of a kind that torch cannot fake."""
    for name, tensor in run.outputs:
        kind = _unfakeable(tensor)
        if kind:
            raise skip("checker-limit", f"{name} is {kind}: torch has no fake tensors of that kind")


def _unfakeable(tensor: torch.Tensor) -> str | None:
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        return f"a {type(tensor).__name__}"
    if tensor.is_nested:
        return "a nested tensor"
    if tensor.is_quantized:
        return "a quantised tensor"
    return "an MKLDNN tensor" if tensor.is_mkldnn else None


def kernel_failure(op: str, error: Exception, caller: str | None = None) -> CheckFailed:
    """The finding for an exception in a call on fake tensors.

    Args:
        op: the name of the op that was called.
        caller: the part of another op that called it, if any: `the backward of ns::crop`.
    """
    missing = missing_fake_kernel(error)
    if missing and missing != op:
        op, caller = missing, op
    by = f", called by {caller}" if caller else ""
    if missing:
        return fail("fake-missing", f"{op}{by}{',' * bool(by)} has no fake kernel")
    note = note_if_deliberate(op, error)
    error = fake_cause(error)
    text = f"{op}{by}: on fake tensors it raises {error_line(error)}"
    return fail("fake-raises", text, traceback_text(error), note=note)


def _numbers(arguments: Arguments) -> Iterator[tuple[tuple[str, str, int], Any]]:
    """Every size, stride and offset of the dense arguments, each with its key."""
    for name, tensor in arguments.tensors():
        if tensor.layout != torch.strided:
            continue
        for dim, size in enumerate(tensor.shape):
            yield (name, "size", dim), size
            yield (name, "stride", dim), tensor.stride(dim)
        yield (name, "offset", 0), tensor.storage_offset()
