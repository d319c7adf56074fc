"""Run torch operators a second time on numbers that do not overflow: shadow values.

A tensor of few bits whose numbers have wrapped, or become infinite, has a shadow: the numbers that it would
hold in a wider dtype. So has a tensor of float32, or of half precision, that comes from integers and cannot
hold their sum. Operators that read the tensor also run on the shadow, so results that differ only because
of an overflow have one too. The method is that of shadow execution in sanitizers and floating-point
debuggers: A. Sanchez-Stern et al., "Finding Root Causes of Floating Point Error", PLDI 2018.

Private names, seen in torch 2.4 to 2.15:

- `torch._ops.OpOverload._schema`: the arguments of an operator, and which it writes to. Public: none.
- `torch.utils._pytree.tree_leaves`, `tree_map`: reach the tensors in lists too. Public: none.
- `UntypedStorage._cdata`: identifies a storage.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_leaves, tree_map

from .kernel_mode import KernelMode
from .operator_kinds import (
    ARITHMETIC,
    BITS,
    CONVERSIONS,
    KEEPS,
    POSITIONS,
    RING,
    STORES,
    XOR,
    base_name,
    has_hash_factor,
)
from .tensors import storage_id

WIDER = {
    torch.uint8: torch.int64,
    torch.int8: torch.int64,
    torch.int16: torch.int64,
    torch.int32: torch.int64,
    torch.float16: torch.float32,
}
# Of these, whole numbers that come from integers are followed.
_COUNTS = (torch.float32, torch.bfloat16, torch.float16)
_FAR = 1e-3  # relative; less may be rounding


class Overflow(NamedTuple):
    """Where a number of few bits first overflowed.

    Args:
        operator: the operator of torch or numpy, such as `mul`.
        dtype: of its result.
        exact, actual: the first number that does not fit, and what it became.
        file, line: of the author's code; empty and 0 where a compiled kernel called the operator.
    """

    operator: str
    dtype: torch.dtype
    exact: float
    actual: float
    file: str
    line: int


def running_at(is_of_author: Callable[[str], bool]) -> tuple[str, int]:
    """File and line of the author's code that is running; empty and 0 if none is."""
    frame = inspect.currentframe()
    while frame is not None and not is_of_author(frame.f_code.co_filename):
        frame = frame.f_back
    return ("", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)


class _Shadow(NamedTuple):
    """What a storage would hold without overflow.

    Args:
        memory: one number for each element of the storage; None if the tensor would have other sizes.
        sizes: those that it would have.
        dtype: of the tensors on this storage.
        cause: the overflow.
        owner: a tensor on the storage, which keeps its address from being used again.
    """

    memory: torch.Tensor | None
    sizes: torch.Size
    dtype: torch.dtype
    cause: Overflow
    owner: torch.Tensor


class Followed(NamedTuple):
    """An overflow that changed a tensor.

    Args:
        cause: the overflow.
        exact: what the tensor would hold without it; None if it would have other sizes.
        sizes: those that it would have.
    """

    cause: Overflow
    exact: torch.Tensor | None
    sizes: torch.Size


class _Unknown(Exception):
    """There is no telling what a tensor would hold."""


class ShadowValues(KernelMode):  # type: ignore[no-untyped-call]
    """A block in which overflows in torch operators are followed to the results.

    Args:
        is_of_author: (file name) -> whether the file holds the code to point at.

    Attributes:
        watched: the number of operators that had numbers of few bits to compute with.
        first: the first overflow of all; None without one. Results of a branch that it decided, as by
            `if x > y`, are not followed.
    """

    def __init__(self, is_of_author: Callable[[str], bool]) -> None:
        super().__init__()
        self._is_of_author = is_of_author
        self._shadows: dict[int | None, _Shadow] = {}
        # By storage: tensors whose numbers may wrap on purpose.
        self._modular: dict[int | None, torch.Tensor] = {}
        # By storage: floating-point tensors that come from integers.
        self._whole: dict[int | None, torch.Tensor] = {}
        self.watched = 0
        self.first: Overflow | None = None

    def overflow_in(self, tensor: torch.Tensor) -> Followed | None:
        """The overflow that changed a tensor; None without one."""
        shadow = self._shadow_of(tensor)
        if shadow is None:
            return None
        exact = None if shadow.memory is None else _viewed(shadow.memory, tensor)
        return Followed(shadow.cause, exact, shadow.sizes if exact is None else exact.shape)

    def call_operator(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call a torch operator, and record how an overflow changes its results."""
        leaves = tree_leaves((args, kwargs))
        given = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        name = base_name(func)
        cause = next((s.cause for s in map(self._shadow_of, given) if s is not None), None)
        if self._is_modular(name, args, given, cause):
            return self._modular_result(func(*args, **kwargs))
        is_whole = self._stays_whole(name, given, leaves)
        has_few_bits = any(tensor.dtype in WIDER for tensor in given)
        may_overflow = (name in ARITHMETIC and has_few_bits) or (name in RING and is_whole)
        self.watched += may_overflow
        if cause is None and not may_overflow:
            result = func(*args, **kwargs)
            self._note_whole(func, result, is_whole)
            return result
        written = _written(func, args, kwargs)
        # Before the operator writes to anything.
        exact = self._exact_result(func, name, args, kwargs)
        result = func(*args, **kwargs)
        self._note_whole(func, result, is_whole)
        results = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        expected = [leaf for leaf in tree_leaves(exact) if isinstance(leaf, torch.Tensor)]
        known = exact is not None and len(results) == len(expected)
        read = {storage_id(tensor) for tensor in given}
        for at, tensor in enumerate(results):
            is_written = any(tensor is other for other in written)
            if storage_id(tensor) in read and not is_written:
                continue  # a view: it has the shadow of its memory
            self._record(tensor, expected[at] if known else None, name, cause)
        for tensor in written:
            if not any(tensor is other for other in results):
                self._forget(tensor)  # it is not known what was written
        return result

    def _exact_result(
        self, func: Any, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        """The result of an operator on numbers that do not overflow; None if it cannot be had.

        What the operator writes to is a copy.
        """
        if torch.Tag.nondeterministic_seeded in func.tags:
            return None
        is_conversion = name in CONVERSIONS
        target = args[0].dtype if name in STORES else None

        def exact(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                wide = self._exact(value)
                if target is not None and value.dtype != target and target in WIDER:
                    return wide.to(target).to(WIDER[target])  # stored in few bits on purpose
                return wide
            if isinstance(value, torch.dtype) and not is_conversion:
                return WIDER.get(value, value)
            return value

        def exact_unless_position(argument: Any, value: Any) -> Any:
            if argument.name in POSITIONS:
                return tree_map(self._exact_if_shadowed, value)
            return tree_map(exact, value)

        arguments = {argument.name: argument for argument in func._schema.arguments}
        try:
            result = func(
                *(
                    exact_unless_position(argument, value)
                    for argument, value in zip(arguments.values(), args, strict=False)
                ),
                **{
                    key: exact_unless_position(arguments[key], value)
                    for key, value in kwargs.items()
                },
            )
        except (_Unknown, RuntimeError, IndexError, ValueError, TypeError, NotImplementedError):
            return None
        return result.to(WIDER.get(result.dtype, result.dtype)) if is_conversion else result

    def _exact_if_shadowed(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor) and self._shadow_of(value) is not None:
            return self._exact(value)
        return value

    def _exact(self, tensor: torch.Tensor) -> torch.Tensor:
        """A copy of what a tensor would hold, in the wider dtype."""
        shadow = self._shadow_of(tensor)
        if shadow is not None:
            if shadow.memory is None:
                raise _Unknown
            return _viewed(shadow.memory, tensor).clone()
        wide = torch.float64 if self._is_whole(tensor) else WIDER.get(tensor.dtype)
        return tensor.clone() if wide is None else tensor.to(wide)

    def _record(
        self, tensor: torch.Tensor, exact: torch.Tensor | None, name: str, cause: Overflow | None
    ) -> None:
        """Give a result a shadow if it differs from the exact one."""
        if exact is None or tensor.layout != torch.strided:
            self._forget(tensor)
            return
        if exact.shape != tensor.shape:
            if cause is not None:
                self._set(tensor, None, exact.shape, cause)
            return
        wrong = tensor != exact if self._is_whole(tensor) else _differs(tensor, exact)
        if not bool(wrong.any()):
            self._clear(tensor)
            return
        if tensor.dtype in (torch.float16, torch.bfloat16):
            exact = torch.where(wrong, exact.float(), tensor.float())  # rounding does not count
        cause = cause or self._overflow(tensor, exact, wrong, name)
        self.first = self.first or cause
        shadow = self._shadow_of(tensor)
        memory = shadow.memory if shadow is not None else None
        if memory is None:
            memory = _all_of_storage(tensor).to(exact.dtype, copy=True)
        _viewed(memory, tensor).copy_(exact)
        self._set(tensor, memory, tensor.shape, cause)

    def _is_modular(
        self, name: str, args: Sequence[Any], given: Sequence[torch.Tensor], cause: Overflow | None
    ) -> bool:
        """Whether a result may be a number that wraps on purpose, as those of hashes do."""
        if self._modular and any(storage_id(tensor) in self._modular for tensor in given):
            return True
        if name in BITS and any(map(_is_integer, given)):
            return cause is not None or name in XOR
        return has_hash_factor(name, args)

    def _modular_result(self, result: Any) -> Any:
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self._forget(leaf)
                self._modular[storage_id(leaf)] = leaf
        return result

    def _stays_whole(self, name: str, given: Sequence[torch.Tensor], leaves: Sequence[Any]) -> bool:
        """Whether a floating-point result of an operator holds whole numbers that come from integers."""
        if name in CONVERSIONS:
            return len(given) > 0 and (_is_integer(given[0]) or self._is_whole(given[0]))
        if name not in RING and name not in KEEPS:
            return False
        if any(isinstance(leaf, float) and not leaf.is_integer() for leaf in leaves):
            return False
        floats = [tensor for tensor in given if not _is_integer(tensor)]
        return bool(floats) and all(map(self._is_whole, floats))

    def _is_whole(self, tensor: torch.Tensor) -> bool:
        return bool(self._whole) and storage_id(tensor) in self._whole

    def _note_whole(self, func: Any, result: Any, is_whole: bool) -> None:
        if not (is_whole or (self._whole and func._schema.is_mutable)):
            return
        for leaf in tree_leaves(result):
            if not isinstance(leaf, torch.Tensor) or leaf.dtype not in _COUNTS:
                continue
            if is_whole:
                self._whole[storage_id(leaf)] = leaf
            else:
                self._whole.pop(storage_id(leaf), None)

    def _overflow(
        self, tensor: torch.Tensor, exact: torch.Tensor, wrong: torch.Tensor, name: str
    ) -> Overflow:
        return Overflow(
            name,
            tensor.dtype,
            exact[wrong].flatten()[0].item(),
            tensor[wrong].flatten()[0].item(),
            *running_at(self._is_of_author),
        )

    def _shadow_of(self, tensor: torch.Tensor) -> _Shadow | None:
        """The shadow of a tensor's memory; none where the tensor reads this memory as another dtype."""
        shadow = self._shadows.get(storage_id(tensor)) if self._shadows else None
        return shadow if shadow is not None and shadow.dtype == tensor.dtype else None

    def _set(
        self,
        tensor: torch.Tensor,
        memory: torch.Tensor | None,
        sizes: torch.Size,
        cause: Overflow,
    ) -> None:
        self._shadows[storage_id(tensor)] = _Shadow(memory, sizes, tensor.dtype, cause, tensor)

    def _forget(self, tensor: torch.Tensor) -> None:
        self._shadows.pop(storage_id(tensor), None)

    def _clear(self, tensor: torch.Tensor) -> None:
        """Note that the elements of a tensor are right; others on its storage keep their shadow."""
        shadow = self._shadow_of(tensor)
        if shadow is not None and shadow.memory is not None:
            _viewed(shadow.memory, tensor).copy_(tensor)


def _is_integer(tensor: torch.Tensor) -> bool:
    return not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool)


def _written(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
    """The tensors that an operator writes to."""
    written: list[torch.Tensor] = []
    for at, argument in enumerate(func._schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        value = args[at] if at < len(args) else kwargs.get(argument.name)
        written += [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]
    return written


def _differs(actual: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    """Which elements differ by more than rounding."""
    if actual.dtype == torch.float16:
        return exact.isfinite() & ~actual.isfinite()
    if actual.dtype.is_floating_point or actual.dtype.is_complex:
        both_nan = actual.isnan() & exact.isnan()
        near = (actual - exact).abs() <= _FAR * exact.abs()
        return ~(near | both_nan | (actual == exact))
    return actual != exact


def _all_of_storage(tensor: torch.Tensor) -> torch.Tensor:
    """Every element of a tensor's storage, in one dim."""
    count = tensor.untyped_storage().nbytes() // tensor.itemsize
    return torch.as_strided(tensor.detach(), (count,), (1,), 0)


def _viewed(memory: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """The part of a shadow's memory that belongs to a tensor."""
    return memory.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())
