"""`compile.dynamic`: the op compiled for sizes that may vary, and called at two of them."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import torch

from ...cases.case import Case
from ...cases.fake_run import fake_run, shapes_of
from ...cases.resize import second_case, whole_numbers
from ...cases.unrolled import loops_over_sizes
from ...compat.compiler import recompiles_raise
from ...findings import NOT_ASKED, CheckFailed, CheckSkipped, Explanation, doc_links, fail, skip
from ..check import Check
from ..fake.scripts import trace_script
from ..fake.specialization import only_next_to_one, trace
from .compare import CompiledRaises
from .compilation import Compilation, skip_if_meta
from .errors import compiler_session, pinned_size
from .graph_cache import Graph, find, holds, keep, key_of
from .group_run import agreeing_dynamic
from .groups import Groups
from .harness import HarnessConfig
from .scripts import DYNAMIC, TWO_SIZES

_CONFIG = HarnessConfig(arithmetic=True)
_GROUPS = Groups()


def check_dynamic(case: Case) -> None:
    """Compile the op for dynamic sizes, and compare with eager mode at two sizes."""
    sizes = [size for _, tensor in case.inputs().tensors() for size in tensor.shape]
    if all(size < 2 for size in sizes):
        reason = "no tensor argument has a size of at least 2; 0 and 1 are constants to a compiler"
        raise skip("nothing-to-check", reason, unjudged=False)
    skip_if_meta(case)
    if _GROUPS.agreed(case):
        return  # nothing is left to compile
    with compiler_session():
        if agrees_in_group(case):
            return
        compilation = Compilation(case, _CONFIG, dynamic=True)
        key = key_of(compilation.harness, case)
        if _agrees_on_shared(compilation, find(key)):
            return
        compilation.compile()
        compilation.run_at(case)
        _at_second_size(compilation)
        if compilation.backend.graphs == 1:
            graph = Graph(compilation.harness.function, compilation.function, compilation.backend)
            keep(key, graph)


def is_grouped(case: Case) -> bool:
    """Whether the check is going to run on this case in a function shared with other cases."""
    return _GROUPS.has(case)


def agrees_in_group(case: Case) -> bool:
    """Whether the case agrees with eager mode in a function that it shares. False means undecided.

    Call it in a `compiler_session`.
    """
    return _GROUPS.agrees(case, lambda cases: agreeing_dynamic(cases, _CONFIG, _second))


# The number of the graph in a guard's message, which depends on what was compiled before.
_NUMBER = re.compile(r"- \d+/\d+: ")


def _agrees_on_shared(compilation: Compilation, graph: Graph | None) -> bool:
    """Whether the graph of another case agrees with eager mode at both sizes of this case."""
    if graph is None:
        return False
    compilation.backend, compilation.function = graph.backend, graph.function

    def compare() -> None:
        compilation.compare(compilation.expected)
        second = _second(compilation.case)
        expected = None if second is None else compilation.expected_at(second)
        if expected is not None:
            compilation.compare(expected)

    return holds(graph, compare)


def _at_second_size(compilation: Compilation) -> None:
    """Compare at a second size, if there is one."""
    second = _second(compilation.case)
    if second is None:
        return
    try:
        _compare_second(compilation, second)
    except CheckFailed as failure:
        finding = failure.finding
        if finding.repro is not None:
            raise
        raise CheckFailed(replace(finding, repro=TWO_SIZES, case=second)) from failure.__cause__


def _second(case: Case) -> Case | None:
    """The case at other sizes; None if no other sizes can use the same graph."""
    try:
        second = second_case(case)
    except CheckSkipped:
        return None
    # A call with other constants needs another graph.
    return second if _constants(second) == _constants(case) else None


def _compare_second(compilation: Compilation, second: Case) -> None:
    case = compilation.case
    where = f"at the second size ({_shapes(second)}): "
    try:
        with recompiles_raise():
            compilation.run_at(second, where)
    except CompiledRaises as raised:
        _fail_if_size_pinned(raised.error, case, second, where)
        compilation.run_at(second, where)


def _fail_if_size_pinned(error: Exception, case: Case, second: Case, where: str) -> None:
    """Fail if a recompilation was needed because a size had become a constant."""
    pinned = pinned_size(str(error), case.inputs().tensors(), second.inputs().tensors())
    if pinned is None:
        return  # relations between sizes, sizes 0 and 1, strides: not the op's decision
    name, dim, size = pinned
    if size in whole_numbers(case):
        return  # the op may compare the size with that argument
    if fake_run(shapes_of(second)).error is not None:
        return  # the fake kernel insists on the size
    if loops_over_sizes(case, second) or only_next_to_one(case, second, [(name, dim)]):
        return
    raise fail(
        "compile-recompiles",
        f"{where}compiled again, because size {size} at dim {dim} of {name} was made a constant; "
        f"{case.op.name} itself works at the other size",
        _NUMBER.sub("- ", str(error).strip()),
        repro=trace_script([(_index(case, name), dim)], insist=True),
        shown=where.removesuffix(": "),
        note=NOT_ASKED if _is_of_backward(case, name, dim) else None,
    )


def _is_of_backward(case: Case, argument: str, dim: int) -> bool:
    """Whether the fake kernel leaves a size symbolic, so that the backward made it a constant."""
    if not case.requires_grad:
        return False
    pins = trace(case, backward=False).pins
    return (argument, dim) not in {
        (place.argument, place.dim)
        for pin in pins
        if not pin.is_of_backward
        for place in pin.places
    }


def _index(case: Case, argument: str) -> int:
    return [name for name, _ in case.inputs().tensors()].index(argument)


def _constants(case: Case) -> list[tuple[str, Any]]:
    named = case.inputs().named()
    return [(name, value) for name, value in named if not isinstance(value, torch.Tensor)]


def _shapes(case: Case) -> str:
    return ", ".join(f"{name} {list(tensor.shape)}" for name, tensor in case.inputs().tensors())


FINDINGS = {
    "compile-recompiles": Explanation(
        meaning=(
            "A size was made a constant although it need not be one, so another size causes a "
            "recompilation."
        ),
        why=(
            "Every new batch size costs a compilation, until dynamo's recompile limit is "
            "reached and the rest runs uncompiled."
        ),
        fix="Leave sizes symbolic in the fake kernel and in the backward: no int(x.shape[i]).",
        before="""
def _setup(ctx, inputs, output):
    ctx.rows = int(inputs[0].shape[0])
""",
        after="""
def _setup(ctx, inputs, output):
    ctx.rows = inputs[0].shape[0]
""",
        docs=(doc_links.DYNAMIC_SHAPES,),
        follows=("opcheck.*", "values.*", "state.*", "fake.*"),
    ),
}

CHECK = Check(
    name="compile.dynamic",
    summary="compiled with dynamic sizes, the op agrees with eager mode, also at a second size",
    run=check_dynamic,
    variants=("layout", "dtype", "arguments"),
    prepare=_GROUPS.prepare,
    repro=DYNAMIC,
    findings=FINDINGS,
    catches=(
        "The findings of `compile.static`, with tensor dims marked dynamic, and then at a "
        "second size if there is one. A recompilation is a finding if a guard pinned a size "
        "that the op does not need pinned."
    ),
    cannot_see=(
        "Sizes 0 and 1, which are constants to a compiler. Plain `int` arguments stay "
        "constants too."
    ),
    cost="compile",
)
