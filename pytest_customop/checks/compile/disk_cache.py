"""The additional key for torch's disk cache of compiled graphs, which speeds up later sessions.

torch's own keys contain the graph around an op, but not what the op's fake kernel and backward do while
it is compiled. With these keys alone, a changed op would get the old result. So a digest is added to the
key. It covers every op call that the function around the op makes on fake tensors, in the backward too,
with its constants and with the metadata, memory and order of its tensors.
"""

from __future__ import annotations

import ctypes
import hashlib
import weakref
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch

from ...cases.case import Case
from ...cases.fake_run import fake_arguments, shapes_of
from ...compat.fakes import enter_fake_mode, fake_mode, is_fake
from ...compat.graph_caches import (
    GRAPHS_ARE_STORED,
    compiling_flag_set,
    has_custom_lowering,
    op_fingerprint,
)
from ...compat.ops import OpOverload
from ...compat.stored_functions import compiler_fingerprint, functions_are_stored
from ...compat.symbols import guards
from ...compat.tensors import observe_calls, storage_id
from ...core.tracebacks import reraise_bug
from ...declare.ops import is_authors
from .codegen import HELPERS, SourceBuilder
from .harness import OP_ONLY, OpHarness

_PLAIN = (
    *(bool, int, float, complex, str, type(None)),
    *(torch.dtype, torch.device, torch.layout, torch.memory_format),
)
_CONSTANT = 1 << 16  # bytes: the largest constant tensor of a backward that is read


class _NoKey(Exception):
    """A value that may influence compilation cannot be put into the key."""


class Trace(NamedTuple):
    """The behavior of a function around an op on fake tensors.

    Args:
        digest: of all op calls that it makes, in the backward too.
        ops: the called ops that are an author's, not torch's.
    """

    digest: str
    ops: frozenset[OpOverload]


def tag_of(harness: OpHarness, case: Case, *, symbolic: bool = False) -> str | None:
    """The addition to torch's keys for a function around an op; None if no key is safe.

    Args:
        harness: the function.
        case: the case for whose tensors it is compiled.
        symbolic: whether sizes may vary. The digest then holds every relation between sizes that the op
            checks.
    """
    trace = trace_of(harness, case, symbolic=symbolic)
    return None if trace is None else trace.digest


def trace_of(
    harness: OpHarness, case: Case, *, symbolic: bool = False, compiling: bool = True
) -> Trace | None:
    """Run a function around an op on fake tensors; None if a value there cannot be put into a key.

    Args:
        harness, case, symbolic: as for `tag_of`.
        compiling: whether torch's compiling flag is set, as it is under torch.compile.
    """
    if not GRAPHS_ARE_STORED or case.backend != "inductor":
        return None
    function = harness.function  # built before fake mode: its lines depend on real tensors
    calls = _Calls()
    mode = fake_mode(scalar_outputs=False, symbolic=symbolic)
    try:
        arguments = fake_arguments(mode, shapes_of(case), symbolic=symbolic)
        with (
            enter_fake_mode(mode),
            compiling_flag_set() if compiling else nullcontext(),
            observe_calls(calls.made),
        ):
            record = harness.run(function, arguments)
            outputs = record.differentiable if case.op.has_autograd else {}
            if outputs:
                calls.read(list(outputs.values()))
                grads = {name: output.detach() for name, output in outputs.items()}
                calls.read(list(record.backward(grads).values()))
    except Exception as error:  # of any kind: the function is then compiled without a key
        reraise_bug(error)
        return None
    if symbolic:
        calls.read([str(guard) for guard, _ in guards(mode)])
    return Trace(calls.digest(), frozenset(calls.ops))


_symbolic: weakref.WeakKeyDictionary[Case, Trace | None] = weakref.WeakKeyDictionary()


def symbolic_trace(case: Case) -> Trace | None:
    """The trace of a case's op alone, on tensors whose sizes may vary; made once per case."""
    if case not in _symbolic:
        _symbolic[case] = trace_of(OpHarness(case, OP_ONLY), case, symbolic=True)
    return _symbolic[case]


def function_key(code: SourceBuilder, tag: str, *, symbolic: bool) -> str | None:
    """The name under which a compiled function is stored whole; None if it cannot be.

    dynamo does not run when the function is loaded. So the name covers all that dynamo reads: the source,
    the objects in it, and the settings of the compiler.

    Args:
        code: the function's source.
        tag: the digest of what its ops do while they are traced.
        symbolic: whether sizes may vary.
    """
    if not functions_are_stored():
        return None
    parts = [compiler_fingerprint(), tag, str(symbolic), code.text]
    for name, value in code.objects.items():
        text = _object(value)
        if text is None:
            return None
        parts.append(f"{name} {text}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _object(value: Any) -> str | None:
    """A text that identifies an object in a source completely; None if there is none."""
    if isinstance(value, OpOverload):
        return f"{value} {op_fingerprint(value)}"
    if type(value) in _PLAIN:
        return repr(value)
    known = any(value is helper for helper in HELPERS.values())
    return str(value.__name__) if known else None


class _Calls:
    """Records calls of ops, in order, as text for a digest."""

    def __init__(self) -> None:
        self.ops: set[OpOverload] = set()
        self._parts: list[str] = []
        self._known: dict[int, int] = {}
        self._kept: list[Any] = []  # so that no address is reused

    def digest(self) -> str:
        """A digest of the calls."""
        return hashlib.sha256("\n".join(self._parts).encode()).hexdigest()

    def made(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make a call and record it."""
        self._parts.append(self._op(func))
        self.read((args, sorted(kwargs.items())))
        result = func(*args, **kwargs)
        self.read(result)
        return result

    def read(self, value: Any) -> None:
        """Record an argument or a result of a call."""
        if isinstance(value, torch.Tensor):
            self._parts.append(self._tensor(value))
        elif isinstance(value, (list, tuple)):
            self._parts.append(f"{type(value).__name__} of {len(value)}")
            for item in value:
                self.read(item)
        elif type(value) in _PLAIN:
            self._parts.append(repr(value))
        else:
            text = _symbol(value)
            if text is None:
                raise _NoKey
            self._parts.append(text)

    def _op(self, func: Any) -> str:
        if not isinstance(func, OpOverload):
            raise _NoKey
        if not is_authors(func):
            return str(func)
        if has_custom_lowering(func):
            raise _NoKey
        self.ops.add(func)
        return op_fingerprint(func)

    def _tensor(self, tensor: torch.Tensor) -> str:
        if tensor.layout != torch.strided:
            raise _NoKey
        home = storage_id(tensor)
        known = (
            *(self._number(id(tensor)), None if home is None else self._number(home)),
            *(tensor.dtype, tensor.device, tuple(tensor.shape), tensor.stride()),
            *(tensor.storage_offset(), tensor.requires_grad, tensor.is_conj(), tensor.is_neg()),
        )
        self._kept.append((tensor, None if home is None else tensor.untyped_storage()))
        return f"{known}" if is_fake(tensor) else f"{known} {_bytes(tensor)}"

    def _number(self, address: int) -> int:
        return self._known.setdefault(address, len(self._known))


def _symbol(value: Any) -> str | None:
    """The expression of a symbolic number; None for anything else."""
    symbolic = isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))
    return f"symbol {value}" if symbolic else None


def _bytes(tensor: torch.Tensor) -> str:
    """The memory of a constant, read without calling an op, which would run on fake tensors."""
    storage = tensor.untyped_storage()
    if type(tensor) is not torch.Tensor or not tensor.is_cpu or storage.nbytes() > _CONSTANT:
        raise _NoKey
    return ctypes.string_at(storage.data_ptr(), storage.nbytes()).hex()
