"""A function around the op, with producers before it and consumers after it, as in a model.

It runs in eager mode and compiled. Opaque producers and consumers are ops of this package, for which
the backend generates no kernel: they cost almost nothing, work in every dtype, and read the memory of
the op's outputs by the strides that its fake kernel returns. Generated consumers are arithmetic, for
which the backend writes code.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.testing import make_tensor

from ...cases.arguments import Arguments
from ...cases.case import Case
from ...cases.fake_contract import data_dependent
from ...cases.tensors import base_name, is_plain, output_leaves, same_bits
from ...compat.compiler import compile_whole
from ...core import rng
from ...declare.ops import Op
from .codegen import HELPERS, SourceBuilder, consumer, returned_tensors

Function = Callable[[list[torch.Tensor]], Any]

# Dtypes whose arithmetic every backend that generates code can generate.
_FLOATING = frozenset((torch.float16, torch.bfloat16, torch.float32, torch.float64))
_INTEGRAL = frozenset((torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64))


@dataclass(frozen=True)
class HarnessConfig:
    """What surrounds the op.

    Args:
        producers: whether tensor arguments come out of another op.
        consumers: `opaque`, `generated` or `none`.
    """

    producers: bool = True
    consumers: str = "opaque"


OP_ONLY = HarnessConfig(producers=False, consumers="none")


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
        found = torch.autograd.grad(
            [outputs[name] for name in grad_outputs],
            [tensor for _, tensor in inputs],
            list(grad_outputs.values()),
            allow_unused=True,
        )
        return {name: gradient for (name, _), gradient in zip(inputs, found, strict=True)}


@dataclass(frozen=True)
class _Plan:
    """(position, kind) of each consumer of an output, and of each reader of an argument."""

    outputs: tuple[tuple[int, str], ...]
    before: tuple[tuple[int, str], ...]
    after: tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class Lines:
    """The source of one call with its producers and consumers.

    Args:
        produce: the lines that name the arguments, or have them produced.
        read: the lines that read arguments before the call.
        call: the lines of the call.
        returned: the expression of what the function returns; it holds the consumers.
    """

    produce: list[str]
    read: list[str]
    call: list[str]
    returned: str


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

        It reads its arguments before and after the op: a compiler reads them only once unless the op
        declares that it writes. Opaque consumers read only the arguments that eager mode writes to.
        """
        code = source_builder(self.case.op)
        lines = self.lines(code)
        for line in (*lines.produce, *lines.read, *lines.call):
            code.line(line)
        code.line(f"return {lines.returned}")
        return code

    def lines(self, code: SourceBuilder, first: int = 0, suffix: str = "") -> Lines:
        """The lines of the function, for a function of several calls.

        Args:
            code: keeps the objects that the lines use.
            first: the position of the first tensor argument in the list.
            suffix: of the names of variables.
        """
        drawn, plan = self.case.inputs(), self.plan
        produced = _producible(drawn) if self.config.producers else frozenset()
        used = [f"used{suffix}_{index}" for index in range(len(drawn.tensors()))]
        produce, reading, call = [], [], []
        for index, name in enumerate(used):
            given = f"tensors[{first + index}]"
            produce.append(
                f"{name} = produce({given})" if index in produced else f"{name} = {given}"
            )
        read = [f"before{suffix}_{place}" for place in range(len(plan.before))]
        for name, (index, kind) in zip(read, plan.before, strict=True):
            reading.append(f"{name} = {consumer(kind, used[index])}")
        result = f"result{suffix}"
        call.append(f"{result} = {code.call(drawn, used)}")
        returned = returned_tensors(self.case.op, self.case.eager.result, result)
        if returned is None:
            call.append(f"returned{suffix} = tensors_of({result})")
            returned = [f"returned{suffix}[{at}]" for at in range(len(self.case.eager.outputs))]
        consumed = ", ".join(consumer(kind, returned[index]) for index, kind in plan.outputs)
        after = [consumer(kind, used[index]) for index, kind in plan.after]
        return Lines(
            produce, reading, call, f"({result}, [{consumed}], [{', '.join([*read, *after])}])"
        )

    @functools.cached_property
    def plan(self) -> _Plan:
        """What is consumed, and how."""
        eager, consumers = self.case.eager, self.config.consumers
        if consumers == "none":
            return _Plan((), (), ())
        sized_by_data = data_dependent(self.case.inputs())
        if any(one.alias_info is not None for one in self.case.op.schema.returns):
            # torch 2.13 and 2.15 generate code that overwrites a returned argument.
            consumers = "opaque"
        outputs = _kinds([tensor for _, tensor in eager.outputs], consumers, sized_by_data)
        declared = _written(eager.arguments)
        after = _kinds([tensor for _, tensor in eager.arguments.tensors()], consumers)
        if consumers == "opaque":
            # Other arguments read the same before and after, and each reader takes 10 ms or more.
            read = {*declared, *_changed(self.case.inputs(), eager.arguments)}
            after = tuple((index, kind) for index, kind in after if index in read)
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
        given = [name for name, _ in arguments.tensors()]
        plan = self.plan
        readers = [f"{given[index]} before the op" for index, _ in plan.before]
        readers += [f"{given[index]} after the op" for index, _ in plan.after]
        return CallRecord(
            arguments,
            outputs,
            list(zip([tensors[index] for index, _ in plan.outputs], consumed, strict=True)),
            list(zip(readers, read, strict=True)),
        )

    def without_op(self) -> tuple[Function, list[torch.Tensor]]:
        """The producers and consumers without the op, as a function, and the tensors for it."""
        eager, plan = self.case.eager, self.plan
        given = [tensor.detach() for _, tensor in eager.arguments.tensors()]
        tensors = given + [tensor.detach() for _, tensor in eager.outputs]
        produced = _producible(eager.arguments) if self.config.producers else frozenset()
        consumed = [(len(given) + index, kind) for index, kind in plan.outputs]
        consumed += [*plan.before, *plan.after]
        code = source_builder()
        handed = ", ".join(f"produce(tensors[{index}])" for index in produced)
        read = ", ".join(consumer(kind, f"tensors[{index}]") for index, kind in consumed)
        code.line(f"return [{handed}], [{read}]")
        return code.function("surroundings"), tensors


def source_builder(op: Op | None = None) -> SourceBuilder:
    """An empty function that can use the op, producers and consumers."""
    produce, consume = opaque_ops()
    called = {} if op is None else {"op": op.overload}
    return SourceBuilder(**called, produce=produce, consume=consume, **HELPERS)


def _written(arguments: Arguments) -> list[int]:
    """The positions of the tensor arguments that the schema declares as written to."""
    mutated = arguments.op.mutated
    return [
        index for index, (name, _) in enumerate(arguments.tensors()) if base_name(name) in mutated
    ]


def _changed(before: Arguments, after: Arguments) -> list[int]:
    """The positions of the tensor arguments that a call has changed."""
    pairs = zip(before.tensors(), after.tensors(), strict=True)
    return [index for index, ((_, one), (_, two)) in enumerate(pairs) if not same_bits(one, two)]


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
    own = tensor.untyped_storage().data_ptr()
    return homes.count(own) if own else 1  # tensors without elements have no storage to share


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
    tensors: Sequence[torch.Tensor], consumers: str, sized_by_data: frozenset[int] = frozenset()
) -> tuple[tuple[int, str], ...]:
    kinds = [
        _kind(tensor, consumers, index in sized_by_data) for index, tensor in enumerate(tensors)
    ]
    return tuple((index, kind) for index, kind in enumerate(kinds) if kind)


def _kind(tensor: torch.Tensor, consumers: str, sized_by_data: bool) -> str:
    """The kind of a tensor's consumer; empty where the compiler could fail on a correct op."""
    if not is_plain(tensor):
        return ""
    if consumers == "generated" or sized_by_data:  # views of such sizes are beyond torch 2.4
        if tensor.dtype in _FLOATING:
            return "double"
        if tensor.dtype in _INTEGRAL:
            return "invert"
    return "" if sized_by_data else "opaque"


@functools.cache
def opaque_ops() -> tuple[Any, Any]:
    """Two ops that copy: one keeps the strides of a dense tensor, the other returns a contiguous one."""
    ops = torch.ops.pytest_customop
    signature = "(Tensor x) -> Tensor"

    @torch.library.custom_op("pytest_customop::produce", mutates_args=(), schema=signature)
    def produce(x: torch.Tensor) -> torch.Tensor:
        return _empty_twin(x).copy_(x)

    produce.register_fake(_empty_twin)

    def keep_none(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.set_materialize_grads(False)

    def read(ctx: Any, grad: torch.Tensor | None) -> torch.Tensor | None:
        # Like a consumer, it reads by the strides that fake kernels return.
        return None if grad is None else ops.consume(grad.unsqueeze(0)).squeeze(0)

    produce.register_autograd(read, setup_context=keep_none)

    # It has no gradients, so it needs none of custom_op's layers, which cost time in each trace.
    torch.library.define("pytest_customop::consume", signature)
    torch.library.impl("pytest_customop::consume", "default", _contiguous_copy)
    torch.library.register_fake("pytest_customop::consume", lambda x: x.new_empty(x.shape))
    return ops.produce.default, ops.consume.default


def call_an_op() -> None:
    """Call an op of this package and its backward once: torch imports most of itself at its first call."""
    produce, _ = opaque_ops()
    x = make_tensor(2, dtype=torch.float32, device="cpu", requires_grad=True)
    produce(x).sum().backward()


def _contiguous_copy(x: torch.Tensor) -> torch.Tensor:
    return x.clone(memory_format=torch.contiguous_format)


def _empty_twin(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(x.size(), x.stride(), dtype=x.dtype, device=x.device)
