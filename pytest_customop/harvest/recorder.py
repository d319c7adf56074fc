"""Record each distinct call of the ops of some namespaces, while a suite runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch

from ..compat.op_calls import is_faking, is_stand_in, observe
from ..compat.ops import OpOverload, overload_name, packet_name
from .calls import MOST_BYTES_OF_SESSION, SeenCall, seen_value

_TENSORS = frozenset((torch.Tensor, torch.nn.Parameter))
_PLAIN = (bool, int, float, complex, str, type(None))
_PLAIN_TYPES = frozenset(_PLAIN)
_CONSTANTS = (torch.dtype, torch.device, torch.layout, torch.memory_format)


class NotKept(Exception):
    """A call that cannot be made again; the message says why. It is empty if the call computed nothing."""


class Recorder:
    """Records calls from `start` to `stop`.

    Attributes:
        current: the node id of the test that runs; empty outside of a test.
        calls: the distinct calls, by signature.
        missed: how many calls could not be kept, by op and reason.
        attempts, kept: by op, how many calls had a new signature, and how many of these returned.
    """

    def __init__(self, namespaces: Iterable[str]) -> None:
        self.namespaces = frozenset(namespaces)
        self.current = ""
        self.calls: dict[Any, SeenCall] = {}
        self.missed: Counter[tuple[str, str]] = Counter()
        self.attempts: Counter[str] = Counter()
        self.kept: Counter[str] = Counter()
        self._left = MOST_BYTES_OF_SESSION
        self._end: Callable[[], None] | None = None

    def start(self) -> None:
        """Record from now on."""
        if self._end is None:
            self._end = observe(self.namespaces.__contains__, self._before)

    def stop(self) -> None:
        """Stop recording."""
        if self._end is not None:
            self._end()
            self._end = None

    @property
    def raised(self) -> Counter[str]:
        """How many calls of an op were not kept because they raised."""
        return self.attempts - self.kept

    def _before(
        self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Callable[[], None] | None:
        """Count a call with a known signature without other work, or read a new one. Most are known."""
        try:
            key = _key(op, args, kwargs)
            known = self.calls.get(key)
            if known is not None:
                known.calls += 1
                if known.was_complete:
                    return None
            return self._new(op, args, kwargs, key)
        except NotKept as reason:
            if str(reason):
                self.missed[_name(op), str(reason)] += 1
        except Exception as error:  # the suite must not see it
            self.missed[_name(op), f"could not be read: {type(error).__name__}: {error}"] += 1
        return None

    def _new(
        self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], key: Any
    ) -> Callable[[], None] | None:
        """Read the arguments of a new signature, before the op does."""
        if is_faking():
            return None
        values = (*args, *kwargs.values())
        _validate_tensors(values)
        grad_enabled = torch.is_grad_enabled()
        name = _name(op)
        self.attempts[name] += 1
        seen = [seen_value(value, grad_enabled, self._left) for value in values]
        named = dict(zip(kwargs, seen[len(args) :], strict=True))
        call = SeenCall(name, tuple(seen[: len(args)]), named, self.current)
        return partial(self._keep, key, call)

    def _keep(self, key: Any, call: SeenCall) -> None:
        """Keep a call that has returned. If its values could not be read, a later call replaces it."""
        self.kept[call.op] += 1
        known = self.calls.get(key)
        if known is not None:
            call.seen_in, call.calls = known.seen_in, known.calls
        call.was_complete = all(tensor.was_read for tensor in call.tensors)
        self.calls[key] = call
        self._left -= sum(tensor.bytes_kept for tensor in call.tensors)


def _name(op: Any) -> str:
    return overload_name(op) if isinstance(op, OpOverload) else packet_name(op)


def _key(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """A key that is equal for calls of one signature.

    Raises:
        NotKept: for an argument that no sample can have.
    """
    key: list[Any] = [id(op)]
    grad_enabled = torch.is_grad_enabled()
    _add_parts(key, args, grad_enabled)
    if kwargs:
        key += (len(args), *kwargs)
        _add_parts(key, kwargs.values(), grad_enabled)
    return tuple(key)


def _add_parts(key: list[Any], values: Iterable[Any], grad_enabled: bool) -> None:
    """Add the parts of the key for these arguments. Tensors of other types are not read.

    Each attribute is read once, and the most common types come first: each call of the suite pays for this.
    """
    for value in values:
        kind = type(value)
        if kind in _TENSORS:
            try:
                strides = value.stride()
            except RuntimeError:
                raise NotKept("it has a tensor that is not dense") from None
            key += (
                value.shape,
                strides,
                value.dtype,
                value.is_cpu or value.device,
                grad_enabled and value.requires_grad,
                value.storage_offset() > 0,
            )
        elif kind in _PLAIN_TYPES:
            key += (kind, value if value == value else "nan")
        elif kind is list or kind is tuple:
            inner: list[Any] = []
            _add_parts(inner, value, grad_enabled)
            key.append(tuple(inner))
        else:
            _validate_type(kind)
            key += (kind, value)


def _validate_type(kind: type) -> None:
    """Raise `NotKept` for the type of an argument that no sample can have."""
    if issubclass(kind, torch.Tensor):
        if kind.__module__.partition(".")[0] == "torch":
            raise NotKept  # a fake or functional tensor of a compiler
        raise NotKept(f"it has a tensor of the type {kind.__qualname__}")
    if issubclass(kind, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        raise NotKept
    if not issubclass(kind, (*_PLAIN, *_CONSTANTS)):
        raise NotKept(f"it has an argument of the type {kind.__qualname__}")


def _validate_tensors(values: Iterable[Any]) -> None:
    """Raise `NotKept` for tensors whose values no description can give."""
    for value in values:
        if isinstance(value, (list, tuple)):
            _validate_tensors(value)
        elif isinstance(value, torch.Tensor):
            if is_stand_in(value):
                raise NotKept(
                    "it was made inside torch.vmap or another function transform of torch"
                )
            if value.layout != torch.strided or value.is_quantized:
                raise NotKept("it has a tensor that is not dense")
            if value.device.type == "meta":
                raise NotKept("its tensors are on the device 'meta', which holds no values")
