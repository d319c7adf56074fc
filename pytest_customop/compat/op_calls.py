"""Observe the calls of some ops that Python code makes: in every thread, and from compiled code.

`torch.ops.ns.name(...)`, `torch.ops.ns.name.overload(...)`, the object of `torch.library.custom_op`, the
graphs that compilers run, and backward formulas all call one of two methods. Both are replaced on their
class: instances may be made at any time, and TorchScript must read the same from an instance as before. A
mode of torch would be visible to the code under test, because compilers look for modes.

Private names, seen in torch 2.4 to 2.15 unless said otherwise:

- `torch._ops.OpOverload.__call__` and `torch._ops.OpOverloadPacket.__call__`; `_schema` and
  `_qualified_op_name` give the namespace. Public: none.
- `torch._C._dynamo.eval_frame.set_eval_frame` and `skip_code`: keep dynamo from compiling this module's
  code where the frame that calls an op is not compiled itself. Instead of `skip_code`, 2.15 has
  `set_code_exec_strategy`, `_FrameExecStrategy` and `_FrameAction`. `torch.compiler.disable` would import
  dynamo.
- `torch._C._len_torch_function_stack` and `DisableTorchFunction`: whether a mode of the tests would see
  that a tensor is read, and the block in which it does not.
- `torch.utils._python_dispatch._disable_current_modes`: disables the other modes in a block. Public: none.
- `torch._C._functorch.is_functorch_wrapped_tensor`, `torch._is_functional_tensor`: tensors that stand for
  others, and have no values. Public: none.
- `torch._C._get_dispatch_mode`, `_TorchDispatchModeKey`: whether calls compute nothing although the tensors
  are not of a fake type. Public: none.
- `torch._C._autograd._profiler_enabled`: whether a profiler would list a read. Public: none.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._ops import OpOverload, OpOverloadPacket

# (op, args, kwargs) -> what is called when the op has returned, or None
Before = Callable[[Any, tuple[Any, ...], dict[str, Any]], "Callable[[], None] | None"]

_paused = 0  # blocks that are open


@contextlib.contextmanager
def unobserved() -> Iterator[None]:
    """Observe no call inside, in any thread: for the calls that the checks make."""
    global _paused
    _paused += 1
    try:
        yield
    finally:
        _paused -= 1


def observe(is_observed: Callable[[str], bool], before: Before) -> Callable[[], None]:
    """Call `before` ahead of each call of some ops.

    Args:
        is_observed: (namespace) -> whether its ops are observed.
        before: gets the op, an overload or a packet of them, and the arguments. It must not raise. No mode
            and no compiler sees what it does.

    Returns:
        A function that ends the observation.
    """
    undo = [
        _replace(OpOverload, lambda op: op._schema.name, is_observed, before),
        _replace(OpOverloadPacket, lambda op: op._qualified_op_name, is_observed, before),
    ]

    def end() -> None:
        for restore in undo:
            restore()

    return end


def _replace(
    owner: Any, name_of: Callable[[Any], str], is_observed: Callable[[str], bool], before: Before
) -> Callable[[], None]:
    original = owner.__call__
    set_eval_frame = torch._C._dynamo.eval_frame.set_eval_frame
    function_modes = torch._C._len_torch_function_stack
    # The ops are kept alive: otherwise another op could get the same id later.
    known: dict[int, tuple[Any, bool]] = {}

    def __call__(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        entry = known.get(id(self))
        if entry is None:
            entry = known[id(self)] = (self, is_observed(name_of(self).partition("::")[0]))
        if not entry[1] or _paused:
            return original(self, *args, **kwargs)
        callback = set_eval_frame(None)
        try:
            if function_modes():
                with torch._C.DisableTorchFunction():
                    after = before(self, args, kwargs)
            else:
                after = before(self, args, kwargs)
        finally:
            set_eval_frame(callback)
        result = original(self, *args, **kwargs)
        if after is not None:
            after()
        return result

    _keep_from_dynamo(__call__)
    owner.__call__ = __call__

    def undo() -> None:
        if owner.__call__ is __call__:
            owner.__call__ = original
        known.clear()

    return undo


def _keep_from_dynamo(function: Any) -> None:
    """Never compile the frames of a function; those that it calls may be compiled."""
    frames: Any = torch._C._dynamo.eval_frame
    if hasattr(frames, "skip_code"):
        frames.skip_code(function.__code__)
        return
    actions = frames._FrameAction
    strategy = frames._FrameExecStrategy(actions.SKIP, actions.DEFAULT)
    frames.set_code_exec_strategy(function.__code__, strategy)


@contextlib.contextmanager
def reading() -> Iterator[None]:
    """Read tensors inside, unseen by modes, autograd and inference mode."""
    from torch.utils._python_dispatch import _disable_current_modes

    with _disable_current_modes(), torch.inference_mode(False), torch.no_grad():
        yield


def is_stand_in(tensor: torch.Tensor) -> bool:
    """Whether a plain tensor stands for others, as under `torch.vmap` and in functionalization."""
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor(tensor)
    return bool(wrapped or torch._is_functional_tensor(tensor))


def is_faking() -> bool:
    """Whether calls compute nothing at the moment: a FakeTensorMode is active."""
    return torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE) is not None


def may_read(tensor: torch.Tensor) -> bool:
    """Whether values can be read without a profiler listing it, or breaking the capture of a CUDA graph."""
    if torch._C._autograd._profiler_enabled():
        return False
    return not (tensor.is_cuda and torch.cuda.is_current_stream_capturing())
