"""Calls of the mark's reference, and how far the op's results are from its."""

from __future__ import annotations

from typing import Any

import torch

from ...cases.arguments import Arguments
from ...cases.case import Case
from ...cases.rounding import within_rounding
from ...cases.tensors import difference, output_leaves
from ...core import rng
from ...core.tracebacks import error_line, raised_at
from ...core.wording import counted
from ...declare.mistakes import MarkError
from ...findings import skip

Named = dict[str, Any]


def detached(arguments: Arguments) -> Arguments:
    return arguments.map(lambda tensor: tensor.detach())


def call_reference(case: Case, arguments: Arguments) -> tuple[Arguments, Any]:
    """Call the reference; what it raises is a mistake of the mark."""
    assert case.reference is not None  # the checks of this family run on no other case
    rng.seed(case.seed)
    try:
        return arguments, case.reference(*arguments.args, **arguments.kwargs)
    except Exception as error:  # whatever the author's function raises, which may be written in C
        what = f"{error_line(error)} ({raised_at(error)})"
        raise MarkError(f"the reference of the mark raised {what}") from error


def reference_outputs(case: Case, arguments: Arguments, result: Any) -> Named:
    """The leaves of the reference's result, under the names that the op's outputs have."""
    count = len(case.op.schema.returns)
    if count == 0:
        _refuse_unwritten(case, arguments, result)
        return {"output": None}
    if count > 1:
        if not isinstance(result, (list, tuple)) or len(result) != count:
            found = len(result) if isinstance(result, (list, tuple)) else 1
            raise MarkError(
                f"the reference of the mark returned {counted(found, 'output')}, and "
                f"{case.op.name} returns {count}: return a tuple of {count}"
            )
        return dict(output_leaves(tuple(result)))
    if isinstance(result, tuple):
        result = list(result)
        if len(result) == 1 and not isinstance(case.eager.result, (list, tuple)):
            result = result[0]
    return dict(output_leaves(result))


def _refuse_unwritten(case: Case, arguments: Arguments, result: Any) -> None:
    """A reference that returns what the op writes is a mistake of the mark."""
    before = dict(case.inputs().tensors())
    written = any(
        difference(tensor, before[name].detach(), 0.0, 0.0) for name, tensor in arguments.mutated()
    )
    given = {id(tensor) for _, tensor in arguments.tensors()}
    fresh = isinstance(result, torch.Tensor) and id(result) not in given
    if fresh and case.op.mutated and not written:
        names = ", ".join(sorted(case.op.mutated))
        raise MarkError(
            f"the reference of the mark returned a tensor and wrote to nothing; {case.op.name} "
            f"writes to {names} and returns nothing: write to {names} in the reference too"
        )


def written(arguments: Arguments) -> Named:
    return {f"argument {name} after the call": tensor for name, tensor in arguments.mutated()}


def difference_from(case: Case, own: torch.Tensor, wanted: torch.Tensor, wide: Any) -> str | None:
    tolerance = case.tolerance(own.dtype)
    wrong = difference(own, wanted, *tolerance)
    if wrong is None or own.shape != wanted.shape or own.dtype != wanted.dtype:
        return wrong
    if own.dtype not in (case.tolerances or {}):  # an author's tolerance is meant as it stands
        exact = wide()
        if isinstance(exact, torch.Tensor) and within_rounding(
            own, wanted, exact.to(own.device), tolerance
        ):
            return None
    _refuse_unrepeatable(case)
    return wrong


def _refuse_unrepeatable(case: Case) -> None:
    again = case.run(case.inputs())
    for (_, one), (_, other) in zip(again.outputs, case.eager.outputs, strict=False):
        if difference(one, other, *case.tolerance(other.dtype)) is not None:
            raise skip(
                "nondeterministic",
                "the op gives other values each time it runs: there is nothing to compare",
            )
