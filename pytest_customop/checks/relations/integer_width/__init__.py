"""`relations.integer_width`: integers of few bits give the same as in a wider dtype."""

from __future__ import annotations

from collections.abc import Sequence

from ....cases.case import Case
from ....cases.dtype_code import DtypeCode, dtype_code
from ....core.wording import dtype_name, listed_briefly
from ....findings import CheckFailed, Explanation, doc_links, fail, skip
from ...check import Check
from ...values.memory.calls import expression, skip_if_incomparable
from ...values.memory.limited_copy import answer_of_copy
from ..scripts import call_lines, position
from .arguments import Argument, narrow_arguments
from .comparison import Comparison, Verdict
from .fills import filled
from .growth import Wrapped, wrapped_result


def check_integer_width(case: Case) -> None:
    """Call the op with small numbers and with those near the ends, in their own dtype and in a wider one.

    If both agree for some, they must agree for all whose result fits its dtype.
    """
    skip_if_incomparable(case)
    arguments = narrow_arguments(case)
    if not arguments:
        reason = "no argument has integers of less than 64 bits other than positions"
        raise skip("nothing-to-check", reason, unjudged=False)
    code = dtype_code(case.op)
    if code.wraps:
        reason = f"{code.wraps} says that integers may wrap on purpose"
        raise skip("nothing-to-check", reason, unjudged=False)
    verdict, wrapped = answer_of_copy(case, lambda plain: _verdicts(plain, arguments, code))
    if wrapped is not None:
        raise _wraps(case, arguments, wrapped)
    if verdict.reason:
        raise skip("nothing-to-check", verdict.reason, unjudged=False)
    if verdict.fill is not None:
        names = listed_briefly([argument.name for argument in arguments])
        narrow = " and ".join(sorted({dtype_name(argument.dtype) for argument in arguments}))
        shown_on = None
        if verdict.beyond:
            shown_on = case.as_beyond("integers larger than the sample's")
        raise fail(
            "integer-overflow",
            f"{case.op.name}: with {names} as {narrow} it does not give the same as with the same "
            f"numbers as {dtype_name(verdict.wide)}: {verdict.wrong}",
            f"The numbers are {verdict.fill.name}; with others both agree.\n"
            f"{_described(arguments, verdict)}",
            repro=_script(case, arguments, verdict),
            case=shown_on,
        )


def _verdicts(
    case: Case, arguments: Sequence[Argument], code: DtypeCode
) -> tuple[Verdict, Wrapped | None]:
    verdict = Comparison(case, arguments, code).verdict()
    wrapped = wrapped_result(case, arguments) if verdict.fill is None else None
    return verdict, wrapped


def _wraps(case: Case, arguments: Sequence[Argument], wrapped: Wrapped) -> CheckFailed:
    """The finding for a result that differs from what small numbers predict."""
    names = listed_briefly([argument.name for argument in arguments])
    shown_on = None
    if wrapped.beyond:
        shown_on = case.as_beyond("integers larger than the sample's")
    at = position(case, wrapped.result)
    lines = "".join(
        f"    values = torch.where(torch.arange({place}.numel()) % {wrapped.every} == 0, factor, 0)\n"
        f"    {place} = torch.empty_like({place}).copy_(values.reshape({place}.shape))\n"
        for place in (expression(case, argument.name) for argument in arguments)
    )
    return fail(
        "integer-overflow",
        f"{case.op.name}: with {names} of 0 and {wrapped.factor} the result is not what those with "
        f"0 to 4 in place of {wrapped.factor} predict, as if a sum wraps in {wrapped.bits} bits: "
        f"{wrapped.wrong}",
        "For 0 to 4 the result is a polynomial of the number, and this difference is a multiple of "
        f"2**{wrapped.bits}, or of what one product adds to the result.",
        repro=call_lines(wrapped.result)
        + "\ndef result(factor):\n    args, kwargs = inputs()\n    args = list(args)\n"
        + lines
        + f"    return call(args, kwargs)[{at}].double()\n\n\n"
        + f"factor = {wrapped.factor}\n"
        + "bend = (result(2) - 2 * result(1) + result(0)) / 2\n"
        + "slope = result(1) - result(0) - bend\n"
        + "predicted = result(0) + factor * slope + factor**2 * bend\n"
        + "torch.testing.assert_close(result(factor), predicted, rtol=1e-3, atol=0.0)\n",
        case=shown_on,
    )


def _described(arguments: Sequence[Argument], verdict: Verdict) -> str:
    assert verdict.fill is not None
    parts = []
    for argument, numbers in zip(arguments, verdict.fill.numbers, strict=True):
        ranges = dict.fromkeys((numbers.first, numbers.second))
        text = " and ".join(f"{limits.low} to {limits.high}" for limits in ranges)
        parts.append(f"{argument.name}: {text}")
    return "; ".join(parts)


def _script(case: Case, arguments: Sequence[Argument], verdict: Verdict) -> str:
    assert verdict.fill is not None
    lines = []
    tensors = dict(case.inputs().tensors())
    for at, (argument, numbers) in enumerate(zip(arguments, verdict.fill.numbers, strict=True)):
        place = expression(case, argument.name)
        values = filled(tensors[argument.name], numbers, at).flatten().tolist()
        lines.append(
            f"    values = torch.tensor({values}).reshape({place}.shape)\n"
            f"    {place} = torch.empty_like({place}).copy_(values).to(wide or {place}.dtype)\n"
        )
    at = position(case, verdict.result)
    return (
        call_lines(verdict.result)
        + "\ndef given(wide):\n    args, kwargs = inputs()\n    args = list(args)\n"
        + "".join(lines)
        + "    return args, kwargs\n\n\n"
        + f"got = call(*given(None))[{at}]\nexpected = call(*given({verdict.wide}))[{at}]\n"
        + "# where the dtype of the result has room for what is expected\n"
        + "dtype = torch.uint8 if got.dtype == torch.bool else got.dtype\n"
        + "known = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)\n"
        + "fits = (expected.double() >= known.min) & (expected.double() <= known.max)\n"
        + "rtol = 0.02 if got.is_floating_point() else 0.0\n"
        + "atol = 2.0 if expected.is_floating_point() and not rtol else 0.0\n"
        + "torch.testing.assert_close(\n"
        + "    got[fits].double(), expected[fits].double(), rtol=rtol, atol=atol\n)\n"
    )


FINDINGS = {
    "integer-overflow": Explanation(
        meaning=(
            "The op gives another result for integers than for the same numbers in a wider dtype, although "
            "they fit the dtype of the argument and the result fits its own. For other numbers both agree."
        ),
        why=(
            "A sum, a difference or a product on the way wraps: 200 + 100 is 44 in uint8. Examples with "
            "small numbers do not show it, and no error is raised."
        ),
        fix=(
            "Cast before the arithmetic: x.to(torch.int32) or wider, accumulate in int64 (in C++: "
            "int64_t), clamp, and cast back last. If the numbers wrap on purpose, or the dtype has a "
            'meaning, write checks=["-relations.integer_width"].'
        ),
        before="""
return (a + b) // 2                      # 200 and 100 in uint8: 22
""",
        after="""
return ((a.to(torch.int32) + b) // 2).to(a.dtype)
""",
        docs=(doc_links.CUSTOM_OP, doc_links.TENSOR_ATTRIBUTES),
        follows=(
            *("reference-mismatch", "stale-result", "uninitialized-output"),
            *("outputs-not-repeatable", "undeclared-mutation"),
        ),
    ),
}

CHECK = Check(
    name="relations.integer_width",
    summary="integers of few bits give the same as in a wider dtype",
    run=check_integer_width,
    integer_tensors=True,
    variants=("arguments", "dtype"),
    cheap_variants=("arguments", "dtype"),
    in_copies=lambda case: bool(narrow_arguments(case)),
    findings=FINDINGS,
    catches=(
        "Arithmetic that wraps in uint8, int8, int16 or int32 before the result is narrowed or widened: "
        "midpoints, distances and squares of pixels, products added up in too few bits, a cast before a "
        "clamp. The op is called in a copy of the process, with small numbers and with numbers near the "
        "ends of their dtype, as they are and in a wider dtype. If both agree for some numbers, they must "
        "agree for all whose result fits its dtype. For an op that takes no other integers, the wider "
        "dtype may be float32: then only small numbers from which the op makes a large one count, and "
        "differences that begin with the first number whose square wraps. The results for 0 to 4 times a "
        "number must also predict those for many times it. Numbers stay in the range of "
        "tensor(low=, high=). Beyond what listed numbers show, a finding is a note, and native kernels are "
        "not tried."
    ),
    cannot_see=(
        "For an op that takes one dtype only, or casts all to the same: everything but sums of numbers and "
        "of products that wrap. The same for an op that also takes float32, if its code has a number like "
        "255. Positions, seeds. An op whose Python code has %, ^, ~, shifts or masks of bits, or names "
        "hashes, checksums or random numbers, which wrap on purpose. Where the code reads the dtype, or is "
        "not known: everything but what plain sums and products that wrap explain."
    ),
    cost="many calls",
)
