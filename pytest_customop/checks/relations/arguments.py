"""`relations.arguments`: a dim counted from the other end, and 2.0 in place of 2, give the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...cases.argument_names import names_dims
from ...cases.arguments import Arguments
from ...cases.case import Case
from ...cases.crash_risk import may_crash
from ...cases.run import Run
from ...cases.tensors import is_differentiable
from ...declare.ops import Op
from ...findings import Explanation, doc_links, fail, skip
from ..check import Check
from ..values.memory.calls import (
    Caller,
    Leaves,
    expression,
    skip_if_incomparable,
    with_argument,
)
from .compare import Disagreement, disagreement, everything, is_unsteady
from .scripts import call_lines, compare_lines

_INTEGRAL = ("int", "SymInt", "List[int]", "List[SymInt]")
_SCALAR = ("number", "Scalar")


@dataclass(frozen=True)
class _Wording:
    """Other values for an argument that mean the same.

    Args:
        name: of the argument.
        code: of the finding if none of the values gives the same.
        values: that may mean the same; one that does is enough.
    """

    name: str
    code: str
    values: Sequence[Any]


def check_arguments(case: Case) -> None:
    """Call the op with arguments that are written differently."""
    skip_if_incomparable(case)
    calls = Caller(case)
    wordings = list(_wordings(case))
    if not wordings:
        reason = "no argument that is given can be written differently"
        raise skip("nothing-to-check", reason, unjudged=False)
    expected = everything(case, calls(case.inputs()))
    judged = False
    for wording in wordings:
        judged |= _compare(calls, wording, expected)
    if not judged:
        reason = "the op rejects the arguments written differently"
        raise skip("nothing-to-check", reason, unjudged=False)


def _may_be_said_differently(op: Op) -> bool:
    types = {argument.name: _type_of(argument) for argument in op.arguments}
    return any(
        kind in _SCALAR or (kind in _INTEGRAL and names_dims(name)) for name, kind in types.items()
    )


def _type_of(argument: Any) -> str:
    """The type in the schema, without `Optional`."""
    written = str(getattr(argument, "real_type", argument.type))
    if written.startswith("Optional["):
        return written.removeprefix("Optional[").removesuffix("]")
    return written


def _wordings(case: Case) -> Iterator[_Wording]:
    """Arguments of the call that can be written differently."""
    arguments = {argument.name: (argument, value) for argument, value in case.op.bind(case.sample)}
    tensors = [tensor for _, tensor in case.inputs().tensors()]
    floating = tensors and all(is_differentiable(tensor.dtype) for tensor in tensors)
    for name, (argument, value) in arguments.items():
        kind = _type_of(argument)
        if kind in _SCALAR and floating and type(value) in (int, float):
            converted = float(value) if isinstance(value, int) else _whole(value)
            if converted is not None and converted == value:
                yield _Wording(name, "number-type-changes-result", [converted])
        if kind in _INTEGRAL and names_dims(name):
            values = _counted_otherwise(case, value)
            if values:
                yield _Wording(name, "dim-from-the-end-differs", values)


def _whole(value: float) -> int | None:
    return int(value) if value.is_integer() else None


def _counted_otherwise(case: Case, value: Any) -> list[Any]:
    """A dim, or a list of dims, counted from the other end, for each number of dims that it may mean.

    These are the numbers of dims of the arguments and of the outputs: the dim of `stack` and of
    `unsqueeze` is one of the output.
    """
    listed = isinstance(value, (list, tuple))
    dims = list(value) if listed else [value]
    if not dims or any(type(dim) is not int for dim in dims):
        return []
    if any(dim >= 0 for dim in dims) and may_crash(case):
        return []  # compiled code may read out of bounds for a negative dim
    tensors = [*case.inputs().tensors(), *case.eager.outputs]
    counts = sorted({tensor.dim() for _, tensor in tensors} - {0})
    fitting = [count for count in counts if all(-count <= dim < count for dim in dims)]
    others = [[dim - count if dim >= 0 else dim + count for dim in dims] for count in fitting]
    return others if listed else [dim for (dim,) in others]


def _compare(calls: Caller, wording: _Wording, expected: Leaves) -> bool:
    """Whether the op takes the argument written differently.

    Raises:
        CheckFailed: if it gives other results for each value that it takes.
    """
    case = calls.case
    wrong: tuple[Any, Leaves, Disagreement] | None = None
    for value in wording.values:
        run = calls(_with(case, wording.name, value))
        if run.error is not None:
            continue
        actual = _everything(case, run, expected)
        difference = disagreement(case, actual, expected)
        if difference is None:
            return True
        wrong = wrong or (value, actual, difference)
    if wrong is None:
        return False
    value, actual, difference = wrong
    again = lambda: everything(case, calls(case.inputs()))  # noqa: E731
    if is_unsteady(again, expected, actual, difference.name):
        return False
    original = dict(case.inputs().named()).get(wording.name, _value_of(case, wording.name))
    raise fail(
        wording.code,
        f"{case.op.name}: with {wording.name}={value!r} it gives other values than with "
        f"{wording.name}={original!r}, which is the same: {difference}",
        repro=_script(case, wording.name, value, difference.name),
        picture=difference.picture,
    )


def _everything(case: Case, run: Run, expected: Leaves) -> Leaves:
    """Results and gradients; the gradients only if the outputs have the shapes of those expected."""
    shapes = {name: value.shape for name, value in expected if isinstance(value, torch.Tensor)}
    if any(tensor.shape != shapes.get(name) for name, tensor in run.outputs):
        return [(name, tensor) for name, tensor in run.outputs]
    return everything(case, run)


def _with(case: Case, name: str, value: Any) -> Arguments:
    return with_argument(case.inputs(), name, value)


def _value_of(case: Case, name: str) -> Any:
    return next(value for argument, value in case.op.bind(case.sample) if argument.name == name)


def _script(case: Case, name: str, value: Any, result: str) -> str:
    return (
        call_lines(result)
        + "\nexpected = call(*inputs())\nargs, kwargs = inputs()\nargs = list(args)\n"
        + f"{expression(case, name)} = {value!r}\ngot = call(args, kwargs)\n"
        + compare_lines(case, result)
    )


FINDINGS = {
    "dim-from-the-end-differs": Explanation(
        meaning=(
            "The op takes a dim counted from the other end (-1 for the last one), but gives other values "
            "for it, though it is the same dim."
        ),
        why=(
            "-1 is how most code names the last dim. Where the op neither rejects it nor understands it, "
            "the result is wrong without an error."
        ),
        fix=(
            "Start with `dim = dim % x.dim()`, or raise for a negative dim. If a negative number has "
            'another meaning, write checks=["-relations.arguments"].'
        ),
        before="""
rest = [size for at, size in enumerate(x.shape) if at != dim]
""",
        after="""
dim = dim % x.dim()
rest = [size for at, size in enumerate(x.shape) if at != dim]
""",
        docs=(doc_links.CUSTOM_OP,),
        follows=("stale-result", "uninitialized-output", "outputs-not-repeatable"),
    ),
    "number-type-changes-result": Explanation(
        meaning=(
            "For an argument of the type Scalar, the op gives other values for 2.0 than for 2, though all "
            "tensors are floating-point."
        ),
        why="Callers write both, and mean the same: torch's own ops give the same.",
        fix=(
            "Convert the number first: float(alpha) in Python, alpha.toDouble() in C++. Or declare the "
            "argument as float, and torch converts it. If the type has a meaning, write "
            'checks=["-relations.arguments"].'
        ),
        before="""
lib.define("decay(Tensor x, Scalar rate) -> Tensor")
lib.impl("decay", lambda x, rate: x * (1 // rate), "CPU")   # 0 for rate=2, 0.0 for 2.0, 2.0 for 0.5
""",
        after="""
lib.define("decay(Tensor x, float rate) -> Tensor")
lib.impl("decay", lambda x, rate: x * (1 / rate), "CPU")
""",
        docs=(doc_links.LIBRARY,),
        follows=("stale-result", "uninitialized-output", "outputs-not-repeatable"),
    ),
}

CHECK = Check(
    name="relations.arguments",
    summary="a dim counted from the other end, and 2.0 in place of 2, give the same",
    run=check_arguments,
    needs=_may_be_said_differently,
    variants=("arguments",),
    cheap_variants=("arguments",),
    findings=FINDINGS,
    catches=(
        "Other values or gradients for a dim, or a list of dims, counted from the other end, or for a "
        "number of the type Scalar as int and as float, where all tensors are floating-point. An op that "
        "rejects one of the two is left alone."
    ),
    cannot_see=(
        "Arguments by position or by keyword, defaults given or left out, tuples or lists, 2 or 2.0 where "
        "the schema says float: torch passes on the same for both. `values.defaults` checks what the "
        "kernels make of defaults. Compiled code gets no dim that becomes negative."
    ),
    cost="calls",
)
