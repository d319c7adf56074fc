"""Call the mark's reference, and compare tensors of the op with those of the reference."""

from __future__ import annotations

from typing import Any

import torch

from ...cases.arguments import Arguments
from ...cases.case import Case
from ...cases.rounding import calls_differ_as_much, within_rounding
from ...cases.tensors import difference, output_leaves
from ...core import rng
from ...core.tracebacks import error_line, raised_at
from ...core.wording import counted
from ...declare.mistakes import MarkError
from ...findings import skip

Named = dict[str, Any]


def detached(arguments: Arguments) -> Arguments:
    """The arguments with all tensors detached."""
    return arguments.map(lambda tensor: tensor.detach())


def call_reference(case: Case, arguments: Arguments) -> tuple[Arguments, Any]:
    """Call the reference; returns the arguments, which it may have written to, and its result.

    Raises:
        MarkError: if the reference raises.
    """
    assert case.reference is not None  # the checks of this family run on no other case
    rng.seed(case.seed)
    try:
        return arguments, case.reference(*arguments.args, **arguments.kwargs)
    except Exception as error:  # whatever the author's function raises, which may be written in C
        text = f"{error_line(error)} ({raised_at(error)})"
        raise MarkError(f"the reference of the mark raised {text}") from error


def reference_outputs(case: Case, arguments: Arguments, result: Any) -> Named:
    """The leaves of the reference's result, by the names of the op's outputs.

    Raises:
        MarkError: if their number differs from the op's.
    """
    count = len(case.op.schema.returns)
    if count == 0:
        _validate_writes(case, arguments, result)
        return {"output": None}
    if count > 1:
        if not isinstance(result, (list, tuple)) or len(result) != count:
            returned = len(result) if isinstance(result, (list, tuple)) else 1
            raise MarkError(
                f"the reference of the mark returned {counted(returned, 'output')}, and "
                f"{case.op.name} returns {count}: return a tuple of {count}"
            )
        return dict(output_leaves(tuple(result)))
    if isinstance(result, tuple):
        result = list(result)
        if len(result) == 1 and not isinstance(case.eager.result, (list, tuple)):
            result = result[0]
    return dict(output_leaves(result))


def _validate_writes(case: Case, arguments: Arguments, result: Any) -> None:
    """Raise `MarkError` for a reference that returns a tensor where the op writes to an argument."""
    before = dict(case.inputs().tensors())
    written = any(
        difference(tensor, before[name].detach(), 0.0, 0.0) for name, tensor in arguments.mutated()
    )
    ids = {id(tensor) for _, tensor in arguments.tensors()}
    fresh = isinstance(result, torch.Tensor) and id(result) not in ids
    if fresh and case.op.mutated and not written:
        names = ", ".join(sorted(case.op.mutated))
        raise MarkError(
            f"the reference of the mark returned a tensor and wrote to nothing; {case.op.name} "
            f"writes to {names} and returns nothing: write to {names} in the reference too"
        )


def written(arguments: Arguments) -> Named:
    """The arguments that the op may write to, by a name for messages."""
    return {f"argument {name} after the call": tensor for name, tensor in arguments.mutated()}


def difference_from(
    case: Case, actual: torch.Tensor, expected: torch.Tensor, wide: Any
) -> str | None:
    """How a tensor differs from the reference's beyond rounding, as text; None if it does not.

    Args:
        case: the case, with its tolerances.
        actual, expected: the tensors of the op and of the reference.
        wide: returns the reference's tensor in double precision, or None.

    Raises:
        CheckSkipped: if the op does not repeat its own values.
    """
    tolerance = case.tolerance(actual.dtype)
    wrong = difference(actual, expected, *tolerance)
    if wrong is None or actual.shape != expected.shape or actual.dtype != expected.dtype:
        return wrong
    if actual.dtype not in (case.tolerances or {}):  # the mark's own tolerances apply as given
        exact = wide()
        if isinstance(exact, torch.Tensor) and within_rounding(
            actual, expected, exact.to(actual.device), tolerance
        ):
            return None
    _skip_if_nondeterministic(case, actual, expected)
    return wrong


def _skip_if_nondeterministic(case: Case, actual: torch.Tensor, expected: torch.Tensor) -> None:
    """Skip where the op differs from call to call as much as it does from the reference."""

    def repeated() -> list[tuple[torch.Tensor, torch.Tensor]]:
        again = case.run(case.inputs())
        pairs = zip(again.outputs, case.eager.outputs, strict=False)
        return [(left, right) for (_, left), (_, right) in pairs]

    def differs(left: torch.Tensor, right: torch.Tensor) -> bool:
        return difference(left, right, *case.tolerance(right.dtype)) is not None

    if not calls_differ_as_much(repeated, differs, actual, expected):
        return
    raise skip(
        "nondeterministic",
        "the op gives other values each time it runs: there is nothing to compare",
    )
