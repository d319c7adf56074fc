"""A function around the op, with producers before it and consumers after it, as in a model.

It runs in eager mode and compiled. Producers and consumers are ops of this package (`opaque`), for which
the backend generates no code: compiling a C++ kernel in every graph would take most of the time. Arithmetic
reads only outputs whose size depends on data, and the arguments and outputs of an op that returns an
argument, because generated code may write to memory that no one reads afterwards.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ...cases.arguments import Arguments
from ...cases.case import Case
from ...cases.fake_contract import sized_by_data
from ...cases.tensors import base_name, is_plain, output_leaves, same_bits
from ...compat.compiler import compile_whole
from ...core import rng
from .codegen import HELPERS, SourceBuilder, consumer, returned_tensors
from .handed_on import hands_on_arguments
from .opaque import opaque_ops

Function = Callable[[list[torch.Tensor]], Any]

# Dtypes for which every backend that generates code supports arithmetic.
_FLOATING = frozenset((torch.float16, torch.bfloat16, torch.float32, torch.float64))
_INTEGRAL = frozenset((torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64))


@dataclass(frozen=True)
class HarnessConfig:
    """What surrounds the op.

    Args:
        producers: whether tensor arguments come out of another op.
        consumers: whether other ops read its outputs, and the arguments that it writes to.
        arithmetic: whether arithmetic reads the outputs and arguments of an op that returns an argument
            without declaring it. Its generated code may then write to memory that is still in use.
    """

    producers: bool = True
    consumers: bool = True
    arithmetic: bool = False


OP_ONLY = HarnessConfig(producers=False, consumers=False)


@dataclass(frozen=True, eq=False)
class CallRecord:
    """The results of one call of the function.

    Args:
        arguments: its arguments, as they are after the call.
        outputs: (name, value) of the op's outputs, tensors and plain values.
        consumed: (name of the output, what its consumer returned).
        read: (`x before the op`, what the reader of that argument returned).
    """

    arguments: Arguments
    outputs: list[tuple[str, Any]]
    consumed: list[tuple[str, torch.Tensor]]
    read: list[tuple[str, torch.Tensor]]

    @property
    def differentiable(self) -> dict[str, torch.Tensor]:
        """The outputs that require gradients."""
        return {
            name: leaf
            for name, leaf in self.outputs
            if isinstance(leaf, torch.Tensor) and leaf.requires_grad
        }

    def backward(self, grad_outputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor | None]:
        """The gradient of each differentiable argument by name, None where none arrives."""
        outputs, inputs = self.differentiable, self.arguments.differentiable()
        gradients = torch.autograd.grad(
            [outputs[name] for name in grad_outputs],
            [tensor for _, tensor in inputs],
            list(grad_outputs.values()),
            allow_unused=True,
        )
        return {name: gradient for (name, _), gradient in zip(inputs, gradients, strict=True)}


@dataclass(frozen=True)
class _Plan:
    """(position, kind) of each consumer of an output, and of each reader of an argument."""

    outputs: tuple[tuple[int, str], ...]
    before: tuple[tuple[int, str], ...]
    after: tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class Call:
    """The source of one call, and what surrounds it.

    Args:
        given: (variable, expression) of each tensor argument.
        produced: the positions of the tensor arguments that a producer returns.
        before: (variable, kind of consumer, expression) of the arguments that are read before the call.
        lines: of the call.
        result: the variable of what it returns.
        consumed: (kind of consumer, expression) of its tensors.
        after: (kind of consumer, expression) of the arguments that are read after the call.
    """

    given: list[tuple[str, str]]
    produced: frozenset[int]
    before: list[tuple[str, str, str]]
    lines: list[str]
    result: str
    consumed: list[tuple[str, str]]
    after: list[tuple[str, str]]

    def returned(self, consumed: Sequence[str], after: Sequence[str]) -> str:
        """The expression that `OpHarness.record` reads, given the expressions of the consumers' results."""
        read = [*(name for name, _, _ in self.before), *after]
        return f"({self.result}, [{', '.join(consumed)}], [{', '.join(read)}])"


@dataclass(eq=False)
class OpHarness:
    """The op of a case inside a function of one list of tensors.

    Arguments that are not tensors are constants in the function.
    """

    case: Case
    config: HarnessConfig = field(default_factory=HarnessConfig)

    @functools.cached_property
    def function(self) -> Function:
        """The function, with a code object of its own, by which compilers key their caches."""
        return self.code.function("surrounded")

    @functools.cached_property
    def code(self) -> SourceBuilder:
        """The source of the function.

        Arguments that the op writes to in eager mode are read both before and after it. A compiler reads
        them only once unless the op declares the write.
        """
        code = source_builder()
        call = self.call(code)
        for index, (name, expression) in enumerate(call.given):
            produced = index in call.produced
            code.line(f"{name} = produce({expression})" if produced else f"{name} = {expression}")
        for name, kind, expression in call.before:
            code.line(f"{name} = {consumer(kind, expression)}")
        for line in call.lines:
            code.line(line)
        consumed, after = (
            [consumer(*pair) for pair in pairs] for pairs in (call.consumed, call.after)
        )
        code.line(f"return {call.returned(consumed, after)}")
        return code

    def call(self, code: SourceBuilder, first: int = 0, suffix: str = "") -> Call:
        """The call as source, for a function of one or several.

        Args:
            code: keeps the objects that the lines use.
            first: the position of the first tensor argument in the list.
            suffix: the ending of the variables' names.
        """
        drawn, plan = self.case.inputs(), self.plan
        used = [f"used{suffix}_{index}" for index in range(len(drawn.tensors()))]
        result = f"result{suffix}"
        lines = [f"{result} = {code.call(drawn, used)}"]
        returned = returned_tensors(self.case.op, self.case.eager.result, result)
        if returned is None:
            lines.append(f"returned{suffix} = tensors_of({result})")
            returned = [f"returned{suffix}[{at}]" for at in range(len(self.case.eager.outputs))]
        return Call(
            given=[(name, f"tensors[{first + index}]") for index, name in enumerate(used)],
            produced=_producible(drawn) if self.config.producers else frozenset(),
            before=[
                (f"before{suffix}_{place}", kind, used[index])
                for place, (index, kind) in enumerate(plan.before)
            ],
            lines=lines,
            result=result,
            consumed=[(kind, returned[index]) for index, kind in plan.outputs],
            after=[(kind, used[index]) for index, kind in plan.after],
        )

    @functools.cached_property
    def plan(self) -> _Plan:
        """The consumed outputs and arguments, with the kind of consumer."""
        eager = self.case.eager
        if not self.config.consumers:
            return _Plan((), (), ())
        # If the op raises on fake tensors, the compiler reports it.
        sizes = sized_by_data(self.case) or frozenset()
        returned = [tensor for _, tensor in eager.outputs]
        tensors = [tensor for _, tensor in eager.arguments.tensors()]
        declared = _written(eager.arguments)
        if self.config.arithmetic and hands_on_arguments(self.case):
            outputs = _kinds(returned, frozenset(range(len(returned))))
            after = _kinds(tensors, frozenset(range(len(tensors))))
        else:
            outputs = _kinds(returned, sizes)
            # The call leaves other arguments unchanged, and each reader takes 10 ms or more.
            read = {*declared, *_changed(self.case.inputs(), eager.arguments)}
            after = tuple((index, kind) for index, kind in _kinds(tensors) if index in read)
        before = tuple((index, kind) for index, kind in after if index not in declared)
        return _Plan(outputs, before, after)

    def compiled(self, backend: Any, *, dynamic: bool) -> Function:
        """The compiled function; with `dynamic`, sizes that are marked as dynamic may vary."""
        options: dict[str, Any] = {} if dynamic else {"dynamic": False}
        return compile_whole(self.function, backend, **options)  # type: ignore[no-any-return]

    def run(self, function: Function, arguments: Arguments) -> CallRecord:
        """Call the function, eager or compiled."""
        rng.seed(self.case.seed)
        return self.record(arguments, function([tensor for _, tensor in arguments.tensors()]))

    def record(self, arguments: Arguments, returned: tuple[Any, Any, Any]) -> CallRecord:
        """What the function returned, with names."""
        result, consumed, read = returned
        outputs = output_leaves(result)
        tensors = [name for name, leaf in outputs if isinstance(leaf, torch.Tensor)]
        names = [name for name, _ in arguments.tensors()]
        plan = self.plan
        readers = [f"{names[index]} before the op" for index, _ in plan.before]
        readers += [f"{names[index]} after the op" for index, _ in plan.after]
        consumers = [tensors[index] for index, _ in plan.outputs]
        return CallRecord(
            arguments,
            outputs,
            [*zip(consumers, consumed, strict=True)],
            [*zip(readers, read, strict=True)],
        )

    def without_op(self) -> tuple[Function, list[torch.Tensor]]:
        """The producers and consumers without the op, as a function, and the tensors for it."""
        eager, plan = self.case.eager, self.plan
        inputs = [tensor.detach() for _, tensor in eager.arguments.tensors()]
        tensors = inputs + [tensor.detach() for _, tensor in eager.outputs]
        produced = _producible(eager.arguments) if self.config.producers else frozenset()
        consumed = [(len(inputs) + index, kind) for index, kind in plan.outputs]
        consumed += [*plan.before, *plan.after]
        code = source_builder()
        handed = ", ".join(f"produce(tensors[{index}])" for index in produced)
        read = ", ".join(consumer(kind, f"tensors[{index}]") for index, kind in consumed)
        code.line(f"return [{handed}], [{read}]")
        return code.function("surroundings"), tensors


def source_builder(**objects: Any) -> SourceBuilder:
    """An empty function that can use producers and consumers, and these objects."""
    produce, consume = opaque_ops()
    return SourceBuilder(produce=produce, consume=consume, **objects, **HELPERS)


def _written(arguments: Arguments) -> list[int]:
    """The positions of the tensor arguments that the schema declares as written to."""
    mutated = arguments.op.mutated
    return [
        index for index, (name, _) in enumerate(arguments.tensors()) if base_name(name) in mutated
    ]


def _changed(before: Arguments, after: Arguments) -> list[int]:
    """The positions of the tensor arguments that a call has changed."""
    pairs = zip(before.tensors(), after.tensors(), strict=True)
    return [
        index for index, ((_, left), (_, right)) in enumerate(pairs) if not same_bits(left, right)
    ]


def _producible(arguments: Arguments) -> frozenset[int]:
    """The positions of the tensors that another op can return with the same strides."""
    tensors = [tensor for _, tensor in arguments.tensors()]
    homes = [tensor.untyped_storage().data_ptr() for tensor in tensors if is_plain(tensor)]
    written = _written(arguments)
    return frozenset(
        index
        for index, tensor in enumerate(tensors)
        if index not in written and is_dense(tensor) and _count(homes, tensor) == 1
    )


def _count(homes: list[int], tensor: torch.Tensor) -> int:
    home = tensor.untyped_storage().data_ptr()
    return homes.count(home) if home else 1  # tensors without elements have no storage to share


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether the tensor fills its storage from the start, without gaps or overlaps."""
    if not is_plain(tensor) or tensor.storage_offset() or tensor.is_conj() or tensor.is_neg():
        return False
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1:
            if stride != expected:
                return False
            expected *= size
    return True


def _kinds(
    tensors: Sequence[torch.Tensor], by_arithmetic: frozenset[int] = frozenset()
) -> tuple[tuple[int, str], ...]:
    kinds = [_kind(tensor, index in by_arithmetic) for index, tensor in enumerate(tensors)]
    return tuple((index, kind) for index, kind in enumerate(kinds) if kind)


def _kind(tensor: torch.Tensor, by_arithmetic: bool) -> str:
    """The kind of a tensor's consumer; empty if the compiler could fail on a correct op.

    Opaque consumers read a view. torch 2.4 cannot make one of a tensor whose size depends on data.
    """
    if not is_plain(tensor):
        return ""
    if not by_arithmetic:
        return "opaque"
    if tensor.dtype in _FLOATING:
        return "double"
    return "invert" if tensor.dtype in _INTEGRAL else ""
