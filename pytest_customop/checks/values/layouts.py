"""`values.layouts`: the results do not depend on the memory layout of the arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from ...cases.arguments import Arguments
from ...cases.case import Case
from ...cases.guarded import LAY_OUT
from ...cases.picture import picture_of
from ...cases.tensors import (
    difference,
    is_differentiable,
    is_plain,
    largest_gap,
    largest_magnitude,
    readable,
)
from ...core import rng
from ...core.tracebacks import error_line
from ...findings import CheckFailed, Explanation, doc_links, fail, skip
from ..check import Check
from .memory.calls import (
    CALL,
    Caller,
    Leaves,
    comparable,
    expression,
    first_difference,
    results,
    skip_if_incomparable,
)
from .memory.perturb import ROUNDINGS, changeable, same_strides
from .memory.placement import Rearrangement, bits, contiguous, movable, placements

# The allowed difference as a share of the largest result. Sums in another order differ by rounding;
# elements read from the wrong place differ by far more.
_SHARES = {torch.float16: 0.02, torch.bfloat16: 0.1}
_SHARE, _COARSE = 1e-3, 0.25
# A difference is accepted up to this multiple of the largest one that rounding the inputs causes: for
# floating-point results, and for integer ones.
_JUMPS, _JUMPS_OF_WHOLE = 4, 2


def check_layouts(case: Case) -> None:
    """Compare the results for other memory layouts with those for contiguous memory."""
    calls = Caller(case)
    skip_if_incomparable(case)
    if not any(movable(tensor) for _, tensor in case.inputs().tensors()):
        raise skip("nothing-to-check", "no argument has strides", unjudged=False)
    plain = contiguous(case.inputs())
    base = calls(plain)
    moved = not same_strides(plain, contiguous(case.inputs()))
    if moved or base.error is not None or _is_unsteady(calls, case.inputs(), results(base)):
        reason = (
            "the op is random, changes the strides of an argument, or rejects contiguous memory"
        )
        raise skip("nothing-to-check", reason, unjudged=False)
    for rearrangement in _rearrangements(case):
        _compare(calls, rearrangement, results(base))


def _is_unsteady(calls: Caller, arguments: Arguments, expected: Leaves) -> bool:
    """Whether the op raises, draws random numbers or gives other values at a further call."""
    rng.seed(calls.case.seed)
    before = rng.states()
    again = calls(contiguous(arguments))
    drawn = any(rng.changed(before, rng.states()))
    return (
        drawn or again.error is not None or first_difference(results(again), expected) is not None
    )


def _rearrangements(case: Case) -> Iterator[Rearrangement]:
    drawn = case.inputs()
    unusual = [
        name for name, tensor in drawn.tensors() if is_plain(tensor) and not _is_simple(tensor)
    ]
    if unusual:
        yield Rearrangement(f"{unusual[0]} as the sample has it", drawn, lambda at: "")
    if case.placement.layout == "contiguous":
        yield from placements(case.inputs, alone=True)
    yield from bits(case.inputs)


def _is_simple(tensor: torch.Tensor) -> bool:
    bit = tensor.is_conj() or tensor.is_neg()
    return bool(tensor.is_contiguous() and tensor.storage_offset() == 0 and not bit)


def _compare(calls: Caller, moved: Rearrangement, base: Leaves) -> None:
    same = contiguous(moved.arguments)
    run = calls(moved.arguments)
    plain = calls(same.copy()) if moved.other_values else None
    if plain is not None and plain.error is not None:
        return
    if run.error is not None:
        _fail_if_misread(calls, moved, run.error)
        return
    steady = expected = base if plain is None else results(plain)
    actual = results(run)
    if moved.other_values:  # repeated elements are equal, so their order is not defined
        actual, expected = _without_integers(actual), _without_integers(expected)
    wrong = _wrong(actual, expected, _input_magnitude(same))
    if wrong is None or _is_unsteady(calls, same, steady):
        return
    if _explained_by_roundings(calls, same, actual, expected):
        return
    text = f"it gives other values than with the same values in contiguous memory: {wrong}"
    raise _finding(calls.case, moved, text, _picture(actual, expected, _input_magnitude(same)))


def _finding(
    case: Case, moved: Rearrangement, text: str, picture: Mapping[str, Any] | None = None
) -> CheckFailed:
    return fail(
        "layout-dependent-result",
        f"{case.op.name}: with {moved.description} {text}",
        repro=_script(case, moved),
        shown=f"with {moved.description}",
        picture=picture,
    )


def _fail_if_misread(calls: Caller, moved: Rearrangement, error: BaseException) -> None:
    """Fail if the op raises because it reads from wrong places, not because it rejects the layout.

    Such an op accepts the layout if all memory holds one number, because it reads that number everywhere.
    """
    for number in (0, 1):
        filled = _filled(moved.arguments, number)
        if all(calls(arguments).error is None for arguments in (contiguous(filled), filled)):
            text = (
                f"it raises {error_line(error)}. It does not raise with the same values in contiguous "
                f"memory, nor in this layout if every value is {number}"
            )
            raise _finding(calls.case, moved, text)


def _filled(arguments: Arguments, number: int) -> Arguments:
    """A copy in which one number fills all memory of each tensor in another layout."""

    def fill(name: str, tensor: torch.Tensor) -> torch.Tensor:
        if not is_plain(tensor) or _is_simple(tensor) or tensor.is_conj() or tensor.is_neg():
            return tensor
        size = tensor.untyped_storage().nbytes() // tensor.itemsize
        memory = torch.full((size,), number, dtype=tensor.dtype, device=tensor.device)
        placed = memory.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())
        return placed.requires_grad_(tensor.requires_grad)

    return arguments.copy().map_distinct(fill)


def _explained_by_roundings(
    calls: Caller, same: Arguments, actual: Leaves, expected: Leaves
) -> bool:
    """Whether changing the inputs by some roundings changes the results as much.

    It does if an op divides by almost nothing, such as the deviation of equal numbers.
    """
    with torch.no_grad():
        moved = [calls(change.apply(same)) for change in ROUNDINGS]
    moved_results = [dict(results(run)) for run in moved if run.error is None]
    magnitude = _input_magnitude(same)
    for (name, left), (_, right) in zip(actual, expected, strict=True):
        if not _beyond_rounding(_as_tensor(left), _as_tensor(right), magnitude):
            continue
        jumps = [_largest_gap(values.get(name), right) for values in moved_results]
        gap = _largest_gap(left, right)
        times = (
            _JUMPS if is_differentiable(getattr(right, "dtype", torch.float32)) else _JUMPS_OF_WHOLE
        )
        if gap is None or gap > times * max((jump or 0.0 for jump in jumps), default=0.0):
            return False
    return bool(moved_results)


def _largest_gap(actual: Any, expected: Any) -> float | None:
    """The largest difference of two results; None if they cannot be compared.

    It is infinite if an element is infinite, or NaN in only one of them. For integers, which may be the
    bytes of other numbers, it is the number of elements that differ.
    """
    left, right = _as_tensor(actual), _as_tensor(expected)
    if not (isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor)):
        return None
    same_form = left.shape == right.shape and left.dtype == right.dtype
    if not (same_form and comparable(left) and comparable(right)):
        return None
    return largest_gap(left, right)


def _picture(actual: Leaves, expected: Leaves, magnitude: float) -> Mapping[str, Any] | None:
    """The picture of the first result that differs."""
    for (name, left), (_, right) in zip(actual, expected, strict=False):
        if _beyond_rounding(_as_tensor(left), _as_tensor(right), magnitude):
            return picture_of(name, left, right)
    return None


def _wrong(actual: Leaves, expected: Leaves, magnitude: float) -> str | None:
    """The first difference that rounding does not explain; None without one.

    Args:
        actual, expected: the results for the other layout and for contiguous memory.
        magnitude: the largest magnitude of the inputs.
    """
    if [name for name, _ in actual] != [name for name, _ in expected]:
        return f"{len(actual)} results instead of {len(expected)}"
    for (name, left), (_, right) in zip(actual, expected, strict=True):
        wrong = _beyond_rounding(_as_tensor(left), _as_tensor(right), magnitude)
        if wrong:
            return f"{name}: {wrong}"
    return None


def _as_tensor(leaf: Any) -> Any:
    """A plain float as a float32 tensor: the op may have rounded it."""
    return torch.tensor(leaf, dtype=torch.float32) if isinstance(leaf, float) else leaf


def _beyond_rounding(actual: Any, expected: Any, magnitude: float) -> str | None:
    if not (isinstance(actual, torch.Tensor) and isinstance(expected, torch.Tensor)):
        return first_difference([("", actual)], [("", expected)])
    if not (comparable(actual) and comparable(expected)):
        return None
    exact = difference(actual, expected, 0.0, 0.0)
    if exact is None or actual.shape != expected.shape or actual.dtype != expected.dtype:
        return exact
    left, right = readable(actual), readable(expected)
    if not is_differentiable(right.dtype):
        # A few may differ: numbers rounded to the next integer, indices of equal numbers.
        return exact if float((left != right).double().mean()) > 0.1 else None
    coarse = actual.dtype.itemsize == 1 or actual.is_quantized
    share = _SHARES.get(actual.dtype, _COARSE if coarse else _SHARE)
    rounding = 32 * torch.finfo(left.dtype).eps * magnitude  # for sums that cancel to almost 0
    return difference(actual, expected, 0.0, max(share * largest_magnitude(right), rounding, 1e-30))


def _without_integers(leaves: Leaves) -> Leaves:
    return [
        (name, leaf)
        for name, leaf in leaves
        if not isinstance(leaf, torch.Tensor)
        or leaf.is_floating_point()
        or leaf.is_complex()
        or leaf.dtype == torch.bool
    ]


def _input_magnitude(arguments: Arguments) -> float:
    return max(
        (largest_magnitude(readable(tensor)) for _, tensor in changeable(arguments)), default=0.0
    )


def _script(case: Case, moved: Rearrangement) -> str:
    lines = moved.script(lambda path: expression(case, path))
    lay_out = LAY_OUT if "lay_out" in lines else ""
    return CALL + lay_out + _LAYOUT.format(lines=lines)


_LAYOUT = """

def dense(each):
    return torch.clone(each.detach(), memory_format=torch.contiguous_format).resolve_conj().resolve_neg()


torch.set_grad_enabled(False)
args, kwargs = inputs()
args = list(args)
{lines}
same = torch.utils._pytree.tree_map_only(torch.Tensor, dense, (args, kwargs))
expected, got = call(*same), call(args, kwargs)
for one, other in zip(got, expected):
    torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5, equal_nan=True)
"""

FINDINGS = {
    "layout-dependent-result": Explanation(
        meaning=(
            "With the same values in another memory layout (other strides, an offset, "
            "padding, stride 0, a conjugate bit) the op gives other results, or writes them "
            "elsewhere."
        ),
        why=(
            "Slices, transposes and channels_last reach the op from ordinary code, and "
            "torch.compile chooses layouts by itself: the op then computes on the wrong "
            "elements."
        ),
        fix=(
            "Start the kernel with x = x.contiguous() (and copy_ back what is written), "
            "address elements by strides and storage_offset(), or raise for layouts that it "
            "does not support."
        ),
        before="""
flat = torch.frombuffer(memory_of(x), dtype=x.dtype)  # assumes contiguous
""",
        after="""
x = x.contiguous()
flat = torch.frombuffer(memory_of(x), dtype=x.dtype)
""",
        docs=(
            doc_links.TENSOR_VIEWS,
            doc_links.TENSOR_ATTRIBUTES,
        ),
        follows=(
            "stale-result",
            "uninitialized-output",
            "write-outside-elements",
        ),
    ),
}

CHECK = Check(
    name="values.layouts",
    summary="the results do not depend on strides, offsets, padding, conjugate or negative bits",
    run=check_layouts,
    findings=FINDINGS,
    catches=(
        "Other results for arguments that are transposed, strided, row-padded (the padding "
        "holds NaN), at a storage offset, expanded with stride 0, channels_last, or that "
        "carry a conjugate or negative bit: all arguments together and each alone. Also an error "
        "in such a layout that goes away if all memory holds one number: the op then reads from "
        "wrong places. Arguments that are written to must receive the same values in every "
        "layout. In a case with a layout other than contiguous, only that layout and the bits are "
        "compared with contiguous memory."
    ),
    cannot_see=(
        "Native kernels get only offsets and rows that are multiples of 64 bytes, because a "
        "misaligned access can end the process. Ops whose outputs depend on strides by "
        "definition (`as_strided`) fail: leave the check out with "
        '`checks=["-values.layouts"]`.'
    ),
    cost="many calls",
)
