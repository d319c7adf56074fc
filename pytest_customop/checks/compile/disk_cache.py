"""Compiled graphs on disk, which make a case quicker in later sessions.

torch's own keys hold the graph around an op, and not what the op's fake kernel and its backward do in it
while it is compiled: with them alone, an op that was mended or broken since would get the old answer. So
the key has a digest of that besides: every call of an op that the function around the op makes on fake
tensors, in the backward too, with its constants, and the metadata, memory and order of its tensors. What
only shows elsewhere, the code of the functions themselves tells as a rule.
"""

from __future__ import annotations

import ctypes
import hashlib
from typing import Any

import torch

from ... import compat
from ...cases.case import Case
from ...cases.fake_run import fake_arguments, shapes_of
from ...core.tracebacks import reraise_bug
from ...declare.ops import is_authors
from .harness import OpHarness

_PLAIN = (
    *(bool, int, float, complex, str, type(None)),
    *(torch.dtype, torch.device, torch.layout, torch.memory_format),
)
_CONSTANT = 1 << 16  # bytes: the largest constant tensor of a backward that is read


class _NoKey(Exception):
    """Something that may decide what is compiled cannot be told from others of its kind."""


def tag_of(surrounded: OpHarness, case: Case) -> str | None:
    """What the keys of the graphs of a function around an op have to hold; None if none will do.

    Args:
        surrounded: the function.
        case: whose tensors it is compiled for, with plain sizes.
    """
    if not compat.GRAPHS_ARE_STORED or case.backend != "inductor":
        return None
    function = surrounded.function  # its lines are made by looking at real tensors
    calls = _Calls()
    mode = compat.fake_mode(scalar_outputs=False)
    try:
        arguments = fake_arguments(mode, shapes_of(case))
        with (
            compat.enter_fake_mode(mode),
            compat.compiling_flag_set(),
            compat.observe_calls(calls.made),
        ):
            seen = surrounded.run(function, arguments)
            outputs = seen.differentiable if case.op.has_autograd else {}
            if outputs:
                calls.read(list(outputs.values()))
                grads = {name: one.detach().clone() for name, one in outputs.items()}
                calls.read(list(seen.backward(grads).values()))
    except Exception as error:  # of every kind: compiling without a key shows what it is worth
        reraise_bug(error)
        return None
    return calls.digest()


class _Calls:
    """The calls of ops, one after the other, as text that is digested."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._known: dict[int, int] = {}
        self._kept: list[Any] = []  # so that no address comes twice

    def digest(self) -> str:
        """Tells these calls from others."""
        return hashlib.sha256("\n".join(self._parts).encode()).hexdigest()

    def made(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make a call, and note it."""
        self._parts.append(self._op(func))
        self.read((args, sorted(kwargs.items())))
        result = func(*args, **kwargs)
        self.read(result)
        return result

    def read(self, value: Any) -> None:
        """Note a value that a call has taken or given."""
        if isinstance(value, torch.Tensor):
            self._parts.append(self._tensor(value))
        elif isinstance(value, (list, tuple)):
            self._parts.append(f"{type(value).__name__} of {len(value)}")
            for one in value:
                self.read(one)
        elif type(value) in _PLAIN:
            self._parts.append(repr(value))
        else:
            raise _NoKey

    def _op(self, func: Any) -> str:
        if not isinstance(func, compat.OpOverload):
            raise _NoKey
        if not is_authors(func):
            return str(func)
        if compat.has_custom_lowering(func):
            raise _NoKey
        return compat.op_fingerprint(func)

    def _tensor(self, tensor: torch.Tensor) -> str:
        if tensor.layout != torch.strided:
            raise _NoKey
        home = compat.storage_id(tensor)
        known = (
            *(self._number(id(tensor)), None if home is None else self._number(home)),
            *(tensor.dtype, tensor.device, tuple(tensor.shape), tensor.stride()),
            *(tensor.storage_offset(), tensor.requires_grad, tensor.is_conj(), tensor.is_neg()),
        )
        self._kept.append((tensor, None if home is None else tensor.untyped_storage()))
        return f"{known}" if compat.is_fake(tensor) else f"{known} {_bytes(tensor)}"

    def _number(self, address: int) -> int:
        return self._known.setdefault(address, len(self._known))


def _bytes(tensor: torch.Tensor) -> str:
    """The memory of a constant, read without an op: fake ones would answer."""
    storage = tensor.untyped_storage()
    if type(tensor) is not torch.Tensor or not tensor.is_cpu or storage.nbytes() > _CONSTANT:
        raise _NoKey
    return ctypes.string_at(storage.data_ptr(), storage.nbytes()).hex()
