"""Make fake tensors, run ops on them, and read the errors of fake kernels.

Private names, seen in torch 2.4 to 2.15:

- `torch._subclasses.fake_tensor.FakeTensorMode`, `FakeTensor` and `UnsupportedOperatorException`. Public:
  `torch.compiler` and `torch.export` use them internally; `torch.library.opcheck` compares some metadata.
- `torch.fx.experimental.symbolic_shapes.ShapeEnv`, `DimDynamic`, `StatelessSymbolicContext` and
  `GuardOnDataDependentSymNode`, `torch._dynamo.source.ConstantSource`: symbolic sizes. Public:
  `torch.export.Dim`, for whole programs only.
- `torch._dynamo.config.fake_tensor_cache_enabled`: whether new modes keep results. Public: an environment
  variable that is read once.
- `torch._dispatch.python.enable_python_dispatcher`: dispatches as torch.compile does while it traces.
- `torch._refs`: imported for the decompositions that it registers.
- `torch._ops.OpOverload`: the type of `torch.ops.ns.name.default`. Public only as `torch.ops`' values.
- The loggers in `enter_fake_mode`. Nothing public names them.
"""

from __future__ import annotations

import logging
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch._ops import OpOverload

from .ops import has_kernel, overload_name


def fake_mode(*, scalar_outputs: bool = True, symbolic: bool = False) -> Any:
    """A FakeTensorMode that allows data-dependent sizes.

    Args:
        scalar_outputs: whether `.item()` gives a symbol; False: it raises, as under torch.compile.
        symbolic: whether it is for symbolic sizes. Results for these are not kept.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    with symbolic_results_dropped() if symbolic else nullcontext(), _no_stack():
        return FakeTensorMode(shape_env=ShapeEnv(allow_scalar_outputs=scalar_outputs))


@contextmanager
def _no_stack() -> Iterator[None]:
    """Keep a mode from recording where it is made: under pytest that takes most of its time."""
    before = getattr(sys, "tracebacklimit", None)
    sys.tracebacklimit = 0
    try:
        yield
    finally:
        if before is None:
            del sys.tracebacklimit
        else:
            sys.tracebacklimit = before


def symbolic_results_dropped() -> AbstractContextManager[None]:
    """A context in which new fake modes do not keep the results of ops.

    With symbolic sizes a result holds for one trace, and is seldom needed again: keeping it takes longer
    than computing it. With plain sizes all modes of the process share what is kept.
    """
    import torch._dynamo.config as dynamo

    return dynamo.patch(fake_tensor_cache_enabled=False)  # type: ignore[no-any-return]


@contextmanager
def enter_fake_mode(mode: Any) -> Iterator[None]:
    """Run ops on fake tensors, dispatched as torch.compile does while it traces.

    torch neither logs nor warns inside: where warnings are errors, a warning of torch would look like a
    failure of the fake kernel.
    """
    import torch._refs  # noqa: F401 -- registers decompositions that do not make sizes constant
    from torch._dispatch.python import enable_python_dispatcher

    experimental = ("fx.experimental.recording", "fx.experimental.symbolic_shapes")
    names = (*experimental, "_subclasses.fake_tensor")
    loggers = [logging.getLogger(f"torch.{name}") for name in names]
    disabled = [logger.disabled for logger in loggers]
    try:
        for logger in loggers:
            logger.disabled = True  # a change of its level would cost 0.2 ms
        with warnings.catch_warnings(), mode, enable_python_dispatcher():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, before in zip(loggers, disabled, strict=True):
            logger.disabled = before


def to_fake(mode: Any, tensor: torch.Tensor, name: str | None = None) -> torch.Tensor:
    """The fake tensor of a real one. Tensors that share a storage have fakes that share one too.

    Args:
        mode: from `fake_mode`.
        tensor: a real one. For symbolic sizes it must not be a view in autograd's sense.
        name: of the argument; each of its sizes becomes a symbol of its own. Strides and offset become
            expressions of these, or symbols of their own. None: all are plain numbers.

    Raises:
        Exception: of many types, for tensors that cannot have a fake.
    """
    from torch._dynamo.source import ConstantSource
    from torch.fx.experimental.symbolic_shapes import DimDynamic, StatelessSymbolicContext

    if name is None or tensor.layout != torch.strided:
        return mode.from_tensor(tensor, static_shapes=True)  # type: ignore[no-any-return]
    sizes = [DimDynamic.DYNAMIC] * tensor.dim()
    context: Any = StatelessSymbolicContext(dynamic_sizes=sizes)
    return mode.from_tensor(  # type: ignore[no-any-return]
        tensor, source=ConstantSource(name), symbolic_context=context
    )


def is_fake(tensor: torch.Tensor) -> bool:
    """Whether the tensor is a fake one."""
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(tensor, FakeTensor)


def missing_fake_kernel(error: BaseException) -> str | None:
    """The `ns::name` of the custom op without a fake kernel, if the error reports one."""
    from torch._subclasses.fake_tensor import UnsupportedOperatorException

    if isinstance(error, UnsupportedOperatorException):
        func = error.func
        is_custom = isinstance(func, OpOverload) and func.namespace not in ("aten", "prims", "prim")
        return overload_name(func) if is_custom and not has_kernel(func, "Meta") else None
    match = re.search(r"no fake impl registered for <CustomOpDef\(([\w:.]+)\)>", str(error))
    return match.group(1) if match else None


def fake_cause(error: Exception) -> Exception:
    """What a kernel for meta tensors raised, where torch reports only that the op is unsupported."""
    from torch._subclasses.fake_tensor import UnsupportedOperatorException

    cause = error.__context__
    hidden = isinstance(error, UnsupportedOperatorException) and isinstance(cause, Exception)
    return cause if hidden and isinstance(cause, Exception) else error


def is_data_dependent(error: BaseException) -> bool:
    """Whether torch raised because it cannot compare a size that depends on data."""
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    return isinstance(error, GuardOnDataDependentSymNode)
