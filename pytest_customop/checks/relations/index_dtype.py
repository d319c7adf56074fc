"""`relations.index_dtype`: positions as int32 and as int64 give the same."""

from __future__ import annotations

import torch

from ...cases.argument_names import names_positions
from ...cases.arguments import Arguments
from ...cases.case import Case
from ...cases.crash_risk import crash_risk
from ...cases.tensors import base_name, is_plain
from ...core.tracebacks import error_line
from ...core.wording import dtype_name, listed_briefly
from ...declare.ops import Op
from ...findings import Explanation, doc_links, fail, skip
from ..check import Check
from ..values.memory.calls import Caller, expression, skip_if_no_results, skip_if_random
from .compare import disagreement, everything, is_unsteady
from .scripts import call_lines, compare_lines

_OTHER = {torch.int32: torch.int64, torch.int64: torch.int32}
_SPARE = 1024  # what positions may lie above the number of elements: a vocabulary, an ignored label


def check_index_dtype(case: Case) -> None:
    """Call the op with its positions in the other of the two dtypes."""
    skip_if_no_results(case)
    skip_if_random(case)
    positions = _positions(case.inputs())
    if not positions:
        reason = "no argument is called and looks like positions"
        raise skip("nothing-to-check", reason, unjudged=False)
    _skip_if_unsafe(case, positions)
    calls = Caller(case)
    base = calls(case.inputs())
    other = calls(_cast(case.inputs(), positions))
    if other.error is not None or base.error is not None:
        raise skip(
            "nothing-to-check",
            f"with {_named(case, positions)} the op raises "
            f"{error_line(other.error or base.error or RuntimeError())}",
            unjudged=False,
        )
    expected, actual = everything(case, base), everything(case, other)
    wrong = disagreement(case, actual, expected, same_dtypes=False)
    if wrong is None or is_unsteady(
        lambda: everything(case, calls(case.inputs())), expected, actual, wrong.name
    ):
        return
    raise fail(
        "gradient-depends-on-index-dtype" if wrong.is_gradient else "index-dtype-mismatch",
        f"{case.op.name}: with {_named(case, positions)} it gives other values than with the same "
        f"numbers as {_dtypes(case, positions)}: {wrong}",
        repro=_script(case, positions, wrong.name),
    )


def _skip_if_unsafe(case: Case, positions: list[str]) -> None:
    """Skip where a kernel that reads 8 bytes a position would read out of the memory of 4 bytes each."""
    tensors = dict(case.inputs().tensors())
    if all(tensors[name].dtype == torch.int32 for name in positions):
        return
    risk = crash_risk(case.op, case.placement.device)
    if risk:
        raise skip("nothing-to-check", f"int32 positions are not tried: {risk}", unjudged=False)


def _takes_positions(op: Op) -> bool:
    """Whether a tensor of the schema is called like positions."""
    return any("Tensor" in str(one.type) and names_positions(one.name) for one in op.arguments)


def _positions(arguments: Arguments) -> list[str]:
    """The paths of the arguments that hold positions, by their names and their values."""
    sizes = [tensor.numel() for _, tensor in arguments.tensors()]
    most = max(sizes, default=0) + _SPARE
    return [
        name
        for name, tensor in arguments.tensors()
        if names_positions(base_name(name))
        and tensor.dtype in _OTHER
        and is_plain(tensor)
        and base_name(name) not in arguments.op.mutated
        and bool((tensor.abs() <= most).all())
    ]


def _cast(arguments: Arguments, names: list[str]) -> Arguments:
    """The arguments with some in the other dtype; a tensor that is given twice stays one."""
    made: dict[int, torch.Tensor] = {}
    order = iter([name for name, _ in arguments.tensors()])

    def cast(tensor: torch.Tensor) -> torch.Tensor:
        if next(order) not in names:
            return tensor
        return made.setdefault(id(tensor), tensor.to(_OTHER[tensor.dtype]))

    return arguments.map(cast)


def _named(case: Case, names: list[str]) -> str:
    tensors = dict(case.inputs().tensors())
    dtypes = {dtype_name(_OTHER[tensors[name].dtype]) for name in names}
    return f"{listed_briefly(names)} as {' and '.join(sorted(dtypes))}"


def _dtypes(case: Case, names: list[str]) -> str:
    tensors = dict(case.inputs().tensors())
    return " and ".join(sorted({dtype_name(tensors[name].dtype) for name in names}))


def _script(case: Case, names: list[str], result: str) -> str:
    tensors = dict(case.inputs().tensors())
    lines = [
        f"{place} = {place}.to({_OTHER[tensors[name].dtype]})"
        for name in names
        for place in [expression(case, name)]
    ]
    return (
        call_lines(result)
        + "\nexpected = call(*inputs())\nargs, kwargs = inputs()\nargs = list(args)\n"
        + "\n".join(lines)
        + "\ngot = call(args, kwargs)\n"
        + compare_lines(case, result, same_dtype=False)
    )


_BEFORE = """
positions = numpy.frombuffer(bytes_of(index), dtype=numpy.int64)
"""
_AFTER = """
positions = index.to(torch.int64).numpy()   # or: raise TypeError for any other dtype
"""
_FIX = (
    "Cast the tensor to the dtype that the kernel reads, or raise for other dtypes "
    "(TORCH_CHECK, data_ptr<int64_t>). If the dtype has a meaning, as wrapping in 32 bits has for "
    'a hash, write checks=["-relations.index_dtype"].'
)
FINDINGS = {
    "index-dtype-mismatch": Explanation(
        meaning=(
            "The op takes positions as int32 and as int64, and gives other values for the same numbers."
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
            "The op takes positions as int32 and as int64, with equal results, and its backward gives "
            "other gradients for the same numbers."
        ),
        why="Training goes another way with positions of the other dtype, without an error.",
        fix=_FIX,
        before=_BEFORE,
        after=_AFTER,
        docs=(doc_links.REGISTER_AUTOGRAD, doc_links.TENSOR_ATTRIBUTES),
        follows=("index-dtype-mismatch", "gradient-mismatch"),
    ),
}

CHECK = Check(
    name="relations.index_dtype",
    summary="positions as int32 and as int64 give the same values and gradients",
    run=check_index_dtype,
    needs=_takes_positions,
    variants=("arguments",),
    findings=FINDINGS,
    catches=(
        "Other values or gradients for positions (indices, offsets, lengths, labels) as int32 than as "
        "int64. Results may have the dtype of the positions, and the smallest and the largest number "
        "of a dtype may stand for what is missing."
    ),
    cannot_see=(
        "Arguments that are not called like positions, or hold numbers far above all sizes: seeds, "
        "packed weights, hashes. An op that rejects one of the dtypes is left alone."
    ),
    cost="calls",
)
