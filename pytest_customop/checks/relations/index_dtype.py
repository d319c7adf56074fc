"""`relations.index_dtype`: positions as int32 and as int64 give the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch

from ...cases.argument_names import names_coordinates, names_edge_ends, names_positions
from ...cases.arguments import Arguments
from ...cases.calls_in_copy import run_calls_in_copy
from ...cases.case import Case
from ...cases.crash_risk import crash_risk, may_crash
from ...cases.documented import hashes_bytes
from ...cases.documented_dtypes import dtypes_of, is_same_in_integer_dtypes
from ...cases.documented_integers import integer_range
from ...cases.tensors import base_name, is_plain
from ...core.forked import Send
from ...core.tracebacks import error_line
from ...core.wording import dtype_name, listed_briefly
from ...declare.ops import Op
from ...findings import NOT_ASKED, CheckFailed, Explanation, doc_links, fail, skip
from ..check import Check
from ..values.memory.calls import (
    GRADIENT,
    Caller,
    expression,
    skip_if_incomparable,
)
from .compare import disagreement, everything, is_unsteady
from .index_bounds import SMALL, disagreement_with, documented_numbers, larger_bounds
from .scripts import call_lines, compare_lines

_OTHER = {torch.int32: torch.int64, torch.int64: torch.int32}
_HIGHEST = torch.iinfo(torch.int32).max
_SPARE = 1024  # positions may exceed the number of elements by this: vocabulary, ignored label


class _Verdict(NamedTuple):
    """The outcome of calls with positions of both dtypes.

    Args:
        rejected: the error with which the op rejects the other dtype; empty if it takes it.
        wrong: how the results differ; empty if they agree.
        result: the name of the result that differs; empty where a call raises.
    """

    rejected: str = ""
    wrong: str = ""
    result: str = ""


def check_index_dtype(case: Case) -> None:
    """Call the op with its positions in the other of the two dtypes."""
    skip_if_incomparable(case)
    positions = _positions(case.inputs())
    if not positions:
        reason = "no argument is named like positions and looks like them"
        raise skip("nothing-to-check", reason, unjudged=False)
    if hashes_bytes(case.op) and not is_same_in_integer_dtypes(case.op):
        reason = "a docstring says that the bytes of numbers are hashed, which differ from dtype to dtype"
        raise skip("nothing-to-check", reason, unjudged=False)
    named = _named(case, positions)
    risk = _risk(case, positions)
    verdict = _verdict_of_fork(case, positions) if risk else _verdict(case, positions)
    if verdict is None:
        raise skip("nothing-to-check", f"{named} is not tried: {risk}", unjudged=False)
    if verdict.rejected:
        reason = f"with {named} the op raises {verdict.rejected}"
        raise skip("nothing-to-check", reason, unjudged=False)
    if verdict.wrong:
        raise _failure(case, positions, verdict)
    for bounds in (*larger_bounds(case, positions), *documented_numbers(case, positions)):
        wrong = disagreement_with(case, bounds, lambda given: _cast(given, positions))
        if wrong is not None:
            raise _failure(case, positions, _Verdict(wrong=str(wrong), result=wrong.name), bounds)


def _failure(
    case: Case, positions: list[str], verdict: _Verdict, changed: Mapping[str, int] | None = None
) -> CheckFailed:
    """The finding.

    Args:
        positions: the arguments in question.
        verdict: what is wrong.
        changed: other values of arguments, with which it is wrong.
    """
    changed = changed or {}
    grid = {base_name(name): value for name, value in changed.items()}
    others = "".join(
        f", {name}={value}"
        if name in {*changed} - {*positions}
        else f", every number of {name} {value},"
        for name, value in grid.items()
    )
    is_gradient = verdict.result.startswith(GRADIENT)
    return fail(
        "gradient-depends-on-index-dtype" if is_gradient else "index-dtype-mismatch",
        f"{case.op.name}: with {_named(case, positions)}{others} it does not give the same as with the "
        f"same numbers as {_dtypes(case, positions)}: {verdict.wrong}",
        repro=_script(case, positions, verdict.result, changed),
        note=NOT_ASKED if _is_documented_dtype(case, positions) else None,
    )


def _is_documented_dtype(case: Case, positions: list[str]) -> bool:
    """Whether docstrings name only the dtype that the positions have, and no memory is read as another."""
    if may_crash(case):
        return False
    dtypes = {path: tensor.dtype for path, tensor in case.inputs().tensors()}
    return all(dtypes_of(case.op, base_name(path)) == [dtypes[path]] for path in positions)


def _verdict(case: Case, positions: list[str]) -> _Verdict:
    calls = Caller(case)
    base = calls(case.inputs())
    if base.error is not None:
        return _Verdict(rejected=f"{error_line(base.error)} at a further call")
    cast_run = calls(_cast(case.inputs(), positions))
    if cast_run.error is not None:
        text = error_line(cast_run.error)
        if _takes_dtype(calls, positions):
            return _Verdict(wrong=f"it raises {text}, but not where all of them are 0")
        return _Verdict(rejected=text)
    expected, actual = everything(case, base), everything(case, cast_run)
    wrong = disagreement(case, actual, expected, same_dtypes=False)
    if wrong is None or is_unsteady(
        lambda: everything(case, calls(case.inputs())), expected, actual, wrong.name
    ):
        return _Verdict()
    return _Verdict(wrong=str(wrong), result=wrong.name)


def _takes_dtype(calls: Caller, positions: list[str]) -> bool:
    """Whether the op takes the other dtype where all positions are 0, and so does not reject it."""
    zeros = _cast(calls.case.inputs(), positions)
    small = True
    for name, tensor in zeros.tensors():
        if name in positions:
            small = small and bool((tensor.abs() < SMALL).all())
            tensor.zero_()
    return small and calls(zeros).error is None


def _risk(case: Case, positions: list[str]) -> str | None:
    """Why a kernel that reads 8 bytes for each position could read outside a tensor with 4 bytes each."""
    tensors = dict(case.inputs().tensors())
    if all(tensors[name].dtype == torch.int32 for name in positions):
        return None
    return crash_risk(case.op, case.placement.device)


def _verdict_of_fork(case: Case, positions: list[str]) -> _Verdict | None:
    """The verdict of a copy of this process, in which a crash ends the copy alone; None without one."""

    def work(send: Send) -> None:
        Caller(case)(case.inputs())
        send(None)  # the op works in a copy
        send(_verdict(case, positions))

    forked = run_calls_in_copy(case, work)
    if forked is None:
        return None
    if len(forked.messages) > 1:
        verdict: _Verdict = forked.messages[1]
        return verdict
    if forked.died:
        return _Verdict(wrong=f"it ends the process by signal {forked.signal}")
    return None


def _takes_positions(op: Op) -> bool:
    """Whether a tensor of the schema is named like positions, or integers of any dtype give the same."""
    return is_same_in_integer_dtypes(op) or any(
        "Tensor" in str(argument.type) and _names_places(argument.name) for argument in op.arguments
    )


def _names_places(name: str) -> bool:
    return names_positions(name) or names_coordinates(name) or names_edge_ends(name)


def _positions(arguments: Arguments) -> list[str]:
    """The paths of the arguments that hold positions, by their names and their values.

    If a docstring says that integers of any dtype give the same, all that int32 holds. So do those named
    like positions for which it allows both dtypes and gives a range of numbers.
    """
    op = arguments.op
    said = is_same_in_integer_dtypes(op)
    sizes = [tensor.numel() for _, tensor in arguments.tensors()]
    limit = max(sizes, default=0) + _SPARE
    return [
        name
        for name, tensor in arguments.tensors()
        if (said or _names_places(base_name(name)))
        and tensor.dtype in _OTHER
        and is_plain(tensor)
        and base_name(name) not in op.mutated
        and bool((tensor.abs() <= (_HIGHEST if said or _has_range(op, name) else limit)).all())
    ]


def _has_range(op: Op, name: str) -> bool:
    base = base_name(name)
    return {*_OTHER} <= {*dtypes_of(op, base)} and integer_range(op, base) is not None


def _cast(arguments: Arguments, names: list[str]) -> Arguments:
    """The arguments with some in the other dtype."""

    def cast(name: str, tensor: torch.Tensor) -> torch.Tensor:
        return _with_zeros_behind(tensor.to(_OTHER[tensor.dtype])) if name in names else tensor

    return arguments.map_distinct(cast)


def _with_zeros_behind(tensor: torch.Tensor) -> torch.Tensor:
    """The same elements, contiguous, before as many zeros, so that each call reads the same behind them."""
    memory = tensor.new_zeros(2 * tensor.numel())
    return memory[: tensor.numel()].view(tensor.shape).copy_(tensor)


def _named(case: Case, names: list[str]) -> str:
    tensors = dict(case.inputs().tensors())
    dtypes = {dtype_name(_OTHER[tensors[name].dtype]) for name in names}
    return f"{listed_briefly(names)} as {' and '.join(sorted(dtypes))}"


def _dtypes(case: Case, names: list[str]) -> str:
    tensors = dict(case.inputs().tensors())
    return " and ".join(sorted({dtype_name(tensors[name].dtype) for name in names}))


def _script(case: Case, names: list[str], result: str, changed: Mapping[str, int]) -> str:
    tensors = dict(case.inputs().tensors())
    others = [
        f"{place} = {f'torch.full_like({place}, {value})' if name in tensors else value}"
        for name, value in changed.items()
        for place in [expression(case, name)]
    ]
    lines = [
        f"flat = {place}.to({_OTHER[tensors[name].dtype]}).flatten()\n"
        f"behind = torch.cat([flat, torch.zeros_like(flat)])\n"
        f"{place} = behind[: len(flat)].view({place}.shape)"
        for name in names
        for place in [expression(case, name)]
    ]
    compared = compare_lines(case, result, same_dtype=False) if result else ""
    return (
        call_lines(result)
        + "\n".join(["\nargs, kwargs = inputs()", "args = list(args)", *others])
        + "\nexpected = call(args, kwargs)\n"
        + "\n".join(["args, kwargs = inputs()", "args = list(args)", *others, *lines])
        + "\ngot = call(args, kwargs)\n"
        + compared
    )


_BEFORE = """
positions = numpy.frombuffer(bytes_of(index), dtype=numpy.int64)
"""
_AFTER = """
positions = index.to(torch.int64).numpy()   # or: raise TypeError for any other dtype
"""
_FIX = (
    "Cast the tensor to the dtype that the kernel reads, or raise for other dtypes "
    "(TORCH_CHECK, data_ptr<int64_t>). Cast before products that may exceed 32 bits. If the dtype has a "
    "meaning, as for a hash that wraps in 32 bits, write "
    'checks=["-relations.index_dtype"].'
)
FINDINGS = {
    "index-dtype-mismatch": Explanation(
        meaning=(
            "The op takes positions as int32 and as int64, but gives different values for the same numbers."
        ),
        why=(
            "Both dtypes are in use: torch makes int64, other libraries int32. A kernel that reads "
            "the memory of one as the other takes wrong elements, or reads out of bounds, without an "
            "error."
        ),
        fix=_FIX,
        before=_BEFORE,
        after=_AFTER,
        docs=(doc_links.CUSTOM_OP, doc_links.TENSOR_ATTRIBUTES),
        follows=("stale-result", "uninitialized-output", "outputs-not-repeatable"),
    ),
    "gradient-depends-on-index-dtype": Explanation(
        meaning=(
            "The op takes positions as int32 and as int64, with equal results, but its backward gives "
            "different gradients for the same numbers."
        ),
        why="With positions of the other dtype, training takes another course without an error.",
        fix=_FIX,
        before=_BEFORE,
        after=_AFTER,
        docs=(doc_links.REGISTER_AUTOGRAD, doc_links.TENSOR_ATTRIBUTES),
        follows=("index-dtype-mismatch", "gradient-mismatch", "uninitialized-gradient"),
    ),
}

CHECK = Check(
    name="relations.index_dtype",
    summary="positions as int32 and as int64 give the same values and gradients",
    run=check_index_dtype,
    needs=_takes_positions,
    variants=("arguments",),
    cheap_variants=("arguments",),
    in_copies=may_crash,
    findings=FINDINGS,
    catches=(
        "Other values or gradients for positions (indices, offsets, lengths, labels) as int32 than as "
        "int64. Also an op that raises for positions of the other dtype, but not where all of them are 0. "
        "Results may have the dtype of the positions, and the smallest and the largest number of a dtype "
        "may stand for missing values. If a docstring says that the results are the same in whichever "
        "integer dtype, all integers are tried so. A native kernel is called in a copy of the process. An "
        "integer argument that positions stay below, such as the number of nodes, is made so large that "
        "its products with them need more than 32 bits. Where a docstring allows both dtypes and gives a "
        "range of numbers, also its largest."
    ),
    cannot_see=(
        "Arguments that are not named like positions, or hold numbers far above all sizes: seeds, packed "
        "weights, hashes. An op that rejects one of the dtypes is left alone."
    ),
    cost="calls",
)
