"""Write one function that calls ops for several cases, each between its producers and consumers."""

from __future__ import annotations

from collections.abc import Sequence

from .codegen import SourceBuilder, consumer
from .harness import Call, OpHarness, source_builder
from .opaque import opaque_list_ops


def code_of(harnesses: Sequence[OpHarness]) -> SourceBuilder:
    """The source of the function: first all producers, then all calls, finally all consumers.

    Adjacent generated code becomes one kernel. All opaque producers are one call, and so are all opaque
    consumers, because each op call takes time to trace and to compile. Nothing is read before a call.
    """
    produce, consume = opaque_list_ops()
    code = source_builder(produce_all=produce, consume_all=consume)
    calls, first = [], 0
    for number, harness in enumerate(harnesses):
        calls.append(harness.call(code, first, f"_{number}"))
        first += len(harness.case.inputs().tensors())
    _produce(code, harnesses, calls)
    for call in calls:
        for line in call.lines:
            code.line(line)
    consumed = iter(_consumed(code, "consumed", [pair for call in calls for pair in call.consumed]))
    after = iter(_consumed(code, "after", [pair for call in calls for pair in call.after]))
    returned = [
        call.returned([next(consumed) for _ in call.consumed], [next(after) for _ in call.after])
        for call in calls
    ]
    code.line(f"return [{', '.join(returned)}]")
    return code


def _produce(code: SourceBuilder, harnesses: Sequence[OpHarness], calls: Sequence[Call]) -> None:
    """Name the arguments. A separate producer keeps those without gradients from requiring them."""
    together: dict[bool, list[tuple[str, str]]] = {True: [], False: []}
    for harness, call in zip(harnesses, calls, strict=True):
        for index, (_, tensor) in enumerate(harness.case.inputs().tensors()):
            name, expression = call.given[index]
            if index in call.produced:
                together[tensor.requires_grad].append(call.given[index])
            else:
                code.line(f"{name} = {expression}")
    for arguments in together.values():
        if arguments:
            names, expressions = zip(*arguments, strict=True)
            code.line(f"[{', '.join(names)}] = produce_all([{', '.join(expressions)}])")


def _consumed(code: SourceBuilder, name: str, consumers: Sequence[tuple[str, str]]) -> list[str]:
    """The expressions of the consumers' results; lines of code are added for opaque consumers."""
    opaque = [expression for kind, expression in consumers if kind == "opaque"]
    if opaque:
        views = ", ".join(f"{expression}.detach().unsqueeze(0)" for expression in opaque)
        code.line(f"{name} = consume_all([{views}])")
    places = iter(range(len(opaque)))
    return [
        f"{name}[{next(places)}]" if kind == "opaque" else consumer(kind, expression)
        for kind, expression in consumers
    ]
