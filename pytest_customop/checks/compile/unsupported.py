"""Skips for calls that the compiler supports for no op."""

from __future__ import annotations

import re
from typing import Any

import torch

from ...cases.case import Case
from ...cases.tensors import is_plain, kind_of
from ...compat.compiler import compile_whole, counting_backend
from ...core.tracebacks import chain, error_line, reraise_bug, root_cause
from ...core.wording import listed_briefly
from ...findings import CheckSkipped, skip

# The devices that torch's own compiler generates code for.
_COMPILED = ("cpu", "cuda", "xpu", "mps")


def kinds_of(error: BaseException) -> set[str]:
    """The names of the types of an exception and of its causes, with their bases."""
    return {kind.__name__ for cause in chain(error) for kind in type(cause).__mro__}


def skip_without_compiler(error: Exception, device: str = "cpu") -> None:
    """Skip if no C++ compiler works, if it fails on generated code, or if the backend lacks the device.

    Args:
        device: the device of the case.
    """
    kinds = kinds_of(error)
    kind = torch.device(device).type
    if kind not in _COMPILED and _lacks_backend(error, kinds, kind):
        raise skip(
            "checker-limit",
            f"the torch.compile backend generates no code for {kind} ({error_line(root_cause(error))}); "
            "--customop-backend=aot_eager needs none",
        )
    if "CppCompileError" in kinds:
        last = str(root_cause(error)).strip().partition("\n")[0]
        reason = f"the C++ compiler fails on the code that the backend generated: {last}"
        raise skip("checker-limit", reason)
    if "InvalidCxxCompiler" in kinds:
        raise skip(
            "no-cxx-compiler",
            "the backend generates C++ for this device and finds no C++ compiler that works: "
            "install one (g++), or name it in the environment variable CXX",
        )


def _lacks_backend(error: Exception, kinds: set[str], device_type: str) -> bool:
    """Whether a compiler raised because it does not know a device type."""
    if kinds.isdisjoint(("InductorError", "BackendCompilerFailed")):
        return False
    root = root_cause(error)
    if isinstance(root, KeyError):
        return root.args == (device_type,)
    return (
        device_type in str(root)
        and re.search("[Uu]nsupported|not supported", str(root)) is not None
    )


def unsupported_call(error: Exception, case: Case) -> CheckSkipped | None:
    """The skip for a call that torch.compile supports for no op; None for others.

    Args:
        error: what compiling it raised.
    """
    return triton_on_cpu(error, case) or _unsupported_tensor(case) or _nothing_to_write(error, case)


# What torch and Triton say of a Triton kernel that gets tensors on the CPU.
_TRITON_ON_CPU = re.compile(
    r"triton not built with the 'cpu' backend|compatible backends for target \(cpu\)"
    r"|^0 active drivers|cannot be accessed from Triton \(cpu tensor"
)


def triton_on_cpu(error: BaseException, case: Case) -> CheckSkipped | None:
    """The skip for a `triton_op` with a kernel for the CPU, which runs in eager mode; None for others.

    To trace it, torch runs the function with the Triton kernels, whatever the device (seen in torch 2.11
    to 2.14).
    """
    root = root_cause(error)
    if case.placement.device != "cpu" or not _TRITON_ON_CPU.search(str(root)):
        return None
    reason = (
        "torch traces the Triton kernels of a triton_op on the CPU too, instead of its kernel for the CPU: "
        f"it cannot be compiled there ({error_line(root)})"
    )
    return skip("checker-limit", reason)


def _unsupported_tensor(case: Case) -> CheckSkipped | None:
    """The skip for arguments and outputs that torch.compile supports for no op."""
    for name, value in case.inputs().named():
        if isinstance(value, torch.Generator):
            reason = f"torch.compile accepts no torch.Generator, and argument {name} is one"
            return skip("checker-limit", reason)
    run = case.eager
    for name, tensor in (*run.arguments.tensors(), *run.outputs):
        if not is_plain(tensor) and not compiles(_detached, [tensor], case):
            return skip(
                "checker-limit", f"torch.compile accepts no tensor like {name}: {kind_of(tensor)}"
            )
    return None


def _nothing_to_write(error: Exception, case: Case) -> CheckSkipped | None:
    """The skip for a call that leaves out every argument that the op may write to.

    Inductor lowers such a call for no op (seen in torch 2.13 to 2.15).
    """
    if not case.op.mutated or case.eager.arguments.mutated():
        return None
    if not str(root_cause(error)).startswith("<built-in function getitem> is not an OpOverload"):
        return None
    names = listed_briefly(case.op.mutated)
    reason = (
        f"Inductor compiles no call in which all arguments that the op writes to ({names}) are None"
    )
    return skip("checker-limit", reason)


def _detached(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    return [tensor.detach() for tensor in tensors]


def compiles(function: Any, tensors: list[torch.Tensor], case: Case) -> bool:
    """Whether a function of tensors, without the op in it, compiles on the backend of the case."""
    try:
        compile_whole(function, counting_backend(case.backend))(tensors)
    except Exception as error:  # compilers raise many types
        reraise_bug(error)
        return False
    return True
