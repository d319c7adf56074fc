"""Compile one function that calls the op for each of several cases, and compare each with eager mode."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from ...cases.arguments import Arguments
from ...cases.case import Case
from ...compat.compiler import compile_whole, counting_backend, many_calls, recompiles_raise
from ...compat.fakes import symbolic_results_dropped
from ...compat.graph_caches import graphs_on_disk
from ...compat.stored_functions import compile_and_store, discard_function, load_function
from ...core import rng
from ...core.gc_pause import gc_paused
from ...core.tracebacks import reraise_bug
from .codegen import SourceBuilder
from .compare import Comparison
from .compilation import mark_dynamic
from .disk_cache import function_key, symbolic_trace, tag_of
from .eager import EagerRecord
from .graph_cache import Key, key_of
from .group_function import code_of
from .group_members import Member, OtherSizes, members_of
from .harness import OP_ONLY, Function, HarnessConfig, OpHarness


@dataclass(frozen=True, eq=False)
class _Slot:
    """One call of the op in the function, shared by members that differ only in sizes and values."""

    members: list[Member]

    @property
    def harness(self) -> OpHarness:
        """The function around the op of every member: their source is the same."""
        return self.members[0].harness

    @property
    def calls(self) -> list[EagerRecord]:
        """The eager calls to compare with, in order."""
        return [call for member in self.members for call in member.calls]


def agreeing_static(cases: Sequence[Case], config: HarnessConfig) -> list[Case]:
    """The cases that agree with eager mode in a function compiled for their sizes.

    These are all cases that can be in a group, or none.

    Args:
        cases: of one mark.
        config: what surrounds each call.
    """
    members = members_of(cases, config, None)
    slots = [_Slot([member]) for member in members]
    return _agreeing(slots, dynamic=False) if len(slots) > 1 else []


def agreeing_dynamic(
    cases: Sequence[Case], config: HarnessConfig, other_sizes: OtherSizes
) -> list[Case]:
    """The cases that agree with eager mode in a function compiled for dynamic sizes.

    These are all cases that can be in a group, or none. Cases that differ only in sizes and values share
    one call in the function. It runs once for each of them and again at other sizes, without recompilation.

    Args:
        cases: of one mark.
        config: what surrounds each call.
        other_sizes: a case at other sizes that the graph has to hold for too; None if there is none.
    """
    members = members_of(cases, config, other_sizes)
    alike: dict[Key, list[Member]] = {}
    for member in members:
        key = key_of(member.harness, member.case)
        if key is not None:
            alike.setdefault(key, []).append(member)
    slots = [_Slot(slot_members) for slot_members in alike.values()]
    return _agreeing(slots, dynamic=True) if sum(map(len, alike.values())) > 1 else []


def _agreeing(slots: Sequence[_Slot], *, dynamic: bool) -> list[Case]:
    """The cases of all slots if all of them agree with eager mode, else none."""
    code = code_of([slot.harness for slot in slots])
    tag = _tag([slot.members[0] for slot in slots], dynamic=dynamic)
    key = None if tag is None else function_key(code, tag, symbolic=dynamic)
    with many_calls(), symbolic_results_dropped() if dynamic else nullcontext():
        agree = key is not None and _agree_stored(slots, code, key)
        if not agree:
            compiled = None if key is None else _stored_now(slots, code, key, dynamic=dynamic)
            try:
                if compiled is not None:
                    _compare_all(slots, compiled)
                else:
                    with nullcontext() if tag is None else graphs_on_disk(tag):
                        _compile_and_compare(slots, code, dynamic=dynamic)
            except Exception as error:  # of any kind: each case is then judged alone
                reraise_bug(error)
                if key is not None:
                    discard_function(key)
                return []
    return [member.case for slot in slots for member in slot.members]


def _agree_stored(slots: Sequence[_Slot], code: SourceBuilder, key: str) -> bool:
    """Whether a function is stored on disk, and all calls agree in it."""
    compiled = load_function(key, code.function("surrounded"))
    if compiled is None:
        return False
    try:
        _compare_all(slots, compiled)
    except Exception as error:  # of any kind: a newly compiled function decides
        reraise_bug(error)
        return False
    return True


def _stored_now(
    slots: Sequence[_Slot], code: SourceBuilder, key: str, *, dynamic: bool
) -> Function | None:
    """The function, compiled and stored; None if it cannot be compiled in a form to store."""
    arguments = [slot.calls[0].case.inputs() for slot in slots]
    if dynamic:
        for call_arguments in arguments:
            mark_dynamic(call_arguments)
    function, options = code.function("surrounded"), _options(dynamic=dynamic)
    try:
        with gc_paused():
            return compile_and_store(key, function, _tensors(arguments), **options)  # type: ignore[no-any-return]
    except Exception as error:  # of any kind: it is then compiled as usual
        reraise_bug(error)
        return None


def _compare_all(slots: Sequence[_Slot], function: Function) -> None:
    """Compare every call in a function that is never compiled again.

    Its guards allow sizes to vary, but do not cover marks, so no size is marked as dynamic.
    """
    for turn in range(_turns(slots)):
        _compare(slots, function, turn, dynamic=False)


def _compile_and_compare(slots: Sequence[_Slot], code: SourceBuilder, *, dynamic: bool) -> None:
    """Compile a function, and compare every call in it.

    Raises:
        Exception: for a difference, or if the function cannot be compiled, or compiles more than once.
    """
    backend = counting_backend(slots[0].members[0].case.backend)
    function = compile_whole(code.function("surrounded"), backend, **_options(dynamic=dynamic))
    _compare(slots, function, 0, dynamic=dynamic)
    with recompiles_raise():
        for turn in range(1, _turns(slots)):
            _compare(slots, function, turn, dynamic=dynamic)
    if backend.graphs != 1:
        raise RuntimeError(f"{backend.graphs} graphs")


def _options(*, dynamic: bool) -> dict[str, Any]:
    return {} if dynamic else {"dynamic": False}


def _turns(slots: Sequence[_Slot]) -> int:
    return max(len(slot.calls) for slot in slots)


def _tag(members: Sequence[Member], *, dynamic: bool) -> str | None:
    """The key of a group's function for torch's disk cache, made of its members' keys.

    The code around the calls belongs to this package, and is in torch's own key.
    """
    tags = []
    for member in members:
        tag = _tag_of_op(member.case, dynamic=dynamic)
        if tag is None:
            return None
        tags.append(tag)
    return hashlib.sha256("\n".join(tags).encode()).hexdigest()


def _tag_of_op(case: Case, *, dynamic: bool) -> str | None:
    if not dynamic:
        return tag_of(OpHarness(case, OP_ONLY), case)
    trace = symbolic_trace(case)
    return None if trace is None else trace.digest


def _tensors(arguments: Sequence[Arguments]) -> list[torch.Tensor]:
    return [tensor for call_arguments in arguments for _, tensor in call_arguments.tensors()]


def _compare(slots: Sequence[_Slot], function: Function, turn: int, *, dynamic: bool) -> None:
    """Call the function for one turn of all slots, and compare each call with eager mode.

    A slot with no call left repeats its first one.

    Raises:
        Exception: if the function raises, or a call differs.
    """
    expected = [slot.calls[turn if turn < len(slot.calls) else 0] for slot in slots]
    arguments = [call.case.inputs() for call in expected]
    if dynamic:
        for call_arguments in arguments:
            mark_dynamic(call_arguments)
    rng.seed(expected[0].case.seed)
    returned: Any = function(_tensors(arguments))
    records = [
        slot.harness.record(*pair) for slot, *pair in zip(slots, arguments, returned, strict=True)
    ]
    comparisons = [Comparison(call) for call in expected]
    for comparison, record in zip(comparisons, records, strict=True):
        comparison.call(record)
    outputs, inputs, grads = [], [], []
    for call, record in zip(expected, records, strict=True):
        for name, grad in call.grad_outputs.items():
            outputs.append(record.differentiable[name])
            grads.append(grad)
        if call.grad_outputs:
            inputs += record.arguments.differentiable()
    if not outputs:
        return
    gradients = iter(
        torch.autograd.grad(outputs, [tensor for _, tensor in inputs], grads, allow_unused=True)
    )
    for comparison, record in zip(comparisons, records, strict=True):
        if comparison.expected.grad_outputs:
            names = [name for name, _ in record.arguments.differentiable()]
            comparison.gradients({name: next(gradients) for name in names})
