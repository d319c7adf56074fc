"""`compile.side_effects`: compilers keep the calls of an op that returns nothing."""

from __future__ import annotations

from ...cases.case import Case
from ...compat.ops import has_side_effect
from ...declare.ops import Op
from ...findings import CheckFailed, Explanation, doc_links, fail
from ..check import Check


def check_side_effects(case: Case) -> None:
    """Look for a declared mutation or side effect."""
    failure = removal_failure(case.op)
    if failure is not None:
        raise failure


def removal_failure(op: Op) -> CheckFailed | None:
    """The finding on an op that returns nothing and declares no side effect; None for others."""
    if op.schema.returns or has_side_effect(op.overload) or op.is_composite:
        return None
    return fail(
        "call-removed",
        f"{op.name} returns nothing, and neither its schema nor a registration says that it has a "
        "side effect: compilers remove the call",
        f"the schema: {op.schema}",
    )


def _returns_nothing(op: Op) -> bool:
    return not op.schema.returns


_SCRIPT = """
from torch.fx.experimental.proxy_tensor import make_fx

args, kwargs = inputs()
graph = make_fx(lambda: (op(*args, **kwargs), torch.zeros(1))[1])().graph
graph.eliminate_dead_code()
assert op in [node.target for node in graph.nodes], "the call is removed from the graph"
"""

FINDINGS = {
    "call-removed": Explanation(
        meaning=(
            "The op returns nothing and declares no mutation, so by its schema a call does nothing."
        ),
        why=(
            "torch.compile and torch.export remove calls whose results are not used. What the op "
            "does in eager mode (a message, a file, a counter) does not happen in compiled code."
        ),
        fix=(
            "Declare the argument that the op writes to (mutates_args, or Tensor(a!) in the schema). "
            "If it writes to none, declare the side effect: "
            "torch.fx.node.has_side_effect(torch.ops.mylib.log.default). Or return a tensor "
            "that the caller uses."
        ),
        before="""
@torch.library.custom_op("mylib::count", mutates_args=())
def count(x: Tensor, counter: Tensor) -> None:
    counter.add_(x.numel())
""",
        after="""
@torch.library.custom_op("mylib::count", mutates_args={"counter"})
def count(x: Tensor, counter: Tensor) -> None:
    counter.add_(x.numel())
""",
        docs=(doc_links.CUSTOM_OP, doc_links.COMPILE),
        follows=("undeclared-mutation",),
    ),
}

CHECK = Check(
    name="compile.side_effects",
    summary="calls of an op that returns nothing are not removed: it declares a mutation or side effect",
    run=check_side_effects,
    needs=_returns_nothing,
    variants=(),
    repro=_SCRIPT,
    findings=FINDINGS,
    catches=(
        "An op that returns nothing and declares no mutation. The check runs for ops that return "
        "nothing, and reads the schema. An op passes if it is registered as having a side effect, by "
        "`torch.fx.node.has_side_effect` or in torch's own list."
    ),
    cannot_see="Side effects of ops that return something: a call is removed if its result is not used.",
    cost="nothing",
)
