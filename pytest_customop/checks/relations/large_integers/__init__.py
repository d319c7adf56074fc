"""`relations.large_integers`: int64 numbers keep all digits where float64 and int32 do not."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from ....cases.argument_names import names_large_numbers, names_positions, names_seed
from ....cases.case import Case
from ....cases.crash_risk import may_crash
from ....cases.documented_integers import integer_range
from ....cases.documented_numbers import are_boundaries, may_be_large
from ....cases.dtype_code import dtype_code
from ....cases.tensors import base_name, is_plain
from ....core.wording import listed_briefly
from ....declare.inputs import TensorSpec
from ....declare.ops import Op
from ....findings import Explanation, doc_links, fail, skip
from ...check import Check
from ...values.memory.calls import expression, skip_if_incomparable
from ...values.memory.limited_copy import answer_of_copy
from ..scripts import call_lines, position
from .shifts import Shifts, Verdict, numbers

_LARGE = 2**24  # a sample with such a number shows large ones
_HIGHEST = 2**62


def check_large_integers(case: Case) -> None:
    """Add small numbers to the int64 arguments, and then large ones.

    If results stay the same for small ones, or change by multiples of them, they must do so for large ones.
    """
    skip_if_incomparable(case)
    arguments = _arguments(case)
    if not arguments:
        reason = "no argument has int64 numbers other than positions"
        raise skip("nothing-to-check", reason, unjudged=False)
    code = dtype_code(case.op)
    if code.wraps:
        reason = f"{code.wraps} says that integers may wrap on purpose"
        raise skip("nothing-to-check", reason, unjudged=False)
    lowest, highest = _limits(case, arguments)
    if highest < _LARGE:
        reason = "the sample or a docstring says that the integers are small"
        raise skip("nothing-to-check", reason, unjudged=False)
    fractions = all(names_large_numbers(base_name(name)) for name in arguments)
    verdict = answer_of_copy(
        case, lambda plain: Shifts(plain, lowest, highest, fractions=fractions).verdict()
    )
    if verdict.reason:
        raise skip("nothing-to-check", verdict.reason, unjudged=False)
    if verdict.wrong:
        shown_on = None
        shown = all(_shows_large(name, arguments[name]) for name in verdict.names)
        if not (shown or any(_may_be_large(case.op, name) for name in verdict.names)):
            shown_on = case.as_beyond("integers larger than the sample's")
        raise fail(
            "large-integers-differ",
            f"{case.op.name}: with {verdict.added} added to {listed_briefly(list(verdict.names))} it "
            f"breaks the rule that it follows for small numbers: {verdict.wrong}",
            f"With {verdict.kind.control} added it follows the rule. The numbers seem to pass through "
            f"{verdict.kind.dtype}.",
            repro=_script(case, lowest, verdict),
            case=shown_on,
        )


def _arguments(case: Case) -> dict[str, TensorSpec | torch.Tensor]:
    """The sample's int64 tensors that stand for numbers, by path.

    Ids may be positions too. A kernel in Python then raises, or its results change with each id. A native
    one may leave its memory, but only that of a copy of this process.
    """
    is_native = may_crash(case)
    specs = dict(case.sample_tensors())
    arguments: dict[str, TensorSpec | torch.Tensor] = {}
    for name, tensor in case.inputs().tensors():
        base = base_name(name)
        unfit = names_positions(base) or names_seed(base)
        unfit = unfit and not are_boundaries(case.op, base)
        if (unfit and not names_large_numbers(base)) or name not in specs:
            continue
        if tensor.dtype != torch.int64 or not is_plain(tensor) or not tensor.numel():
            continue
        if not is_native or _shows_large(name, specs[name]) or _may_be_large(case.op, name):
            arguments[name] = specs[name]
    return arguments


def _may_be_large(op: Op, name: str) -> bool:
    """Whether a docstring allows large numbers."""
    documented = integer_range(op, base_name(name))
    is_large = documented is not None and documented.high >= _LARGE
    return is_large or may_be_large(op, base_name(name))


def _shows_large(name: str, spec: TensorSpec | torch.Tensor) -> bool:
    """Whether the sample has or may have large numbers, or the name stands for such."""
    if names_large_numbers(base_name(name)):
        return True
    values = spec.values if isinstance(spec, TensorSpec) else spec
    if values is not None:
        return bool((torch.as_tensor(values).abs() >= _LARGE).any())
    return isinstance(spec, TensorSpec) and spec.fill is None


def _limits(
    case: Case, arguments: Mapping[str, TensorSpec | torch.Tensor]
) -> tuple[dict[str, int], int]:
    """The smallest number of each argument, at least 0, and the largest that all of them may have."""
    lowest, highest = {}, _HIGHEST
    for name, spec in arguments.items():
        described = isinstance(spec, TensorSpec) and spec.values is None
        low = spec.low if isinstance(spec, TensorSpec) and described else None
        high = spec.high if isinstance(spec, TensorSpec) and described else None
        documented = integer_range(case.op, base_name(name))
        if documented is not None:
            low = documented.low if low is None else low
            high = documented.high + 1 if high is None else high
        lowest[name] = max(0, int(low)) if low is not None else 0
        highest = min(highest, int(high) - 1) if high is not None else highest
    return lowest, highest


def _script(case: Case, lowest: Mapping[str, int], verdict: Verdict) -> str:
    tensors = dict(case.inputs().tensors())
    lines = []
    for seed, (name, start) in enumerate(lowest.items()):
        place = expression(case, name)
        values = numbers(tensors[name], seed, verdict.ordered).add_(start).flatten().tolist()
        more = " + added" if name in verdict.names else ""
        lines.append(
            f"    values = torch.tensor({values}).reshape({place}.shape){more}\n"
            f"    {place} = torch.empty_like({place}).copy_(values)\n"
        )
    at = position(case, verdict.result)
    return (
        call_lines(verdict.result)
        + "\ndef result(added):\n    args, kwargs = inputs()\n    args = list(args)\n"
        + "".join(lines)
        + f"    return call(args, kwargs)[{at}]\n\n\n"
        + f"added = {verdict.added}\nfirst = result(0)\n"
        + "# what one more changes, if anything\n"
        + "step = result(1) - first if first.dtype == torch.int64 else torch.zeros(())\n"
        + "expected = first + step * added if step.any() else first\n"
        + "rtol = 1e-4 if first.is_floating_point() else 0.0\n"
        + "torch.testing.assert_close(result(added), expected, rtol=rtol, atol=0.0)\n"
    )


FINDINGS = {
    "large-integers-differ": Explanation(
        meaning=(
            "With a small number added to int64 numbers, results stay the same, or change by a multiple of "
            "it. With a large one they do not, as if the numbers passed through float32, float64 or int32 "
            "on the way."
        ),
        why=(
            "float64 holds integers up to 2**53, float32 up to 2**24, int32 up to 2**31. Ids, hashes and "
            "times in nanoseconds are larger: different ones become equal, or negative."
        ),
        fix=(
            "Keep integers in int64: compare, subtract and sort them before a cast; give buffers "
            "dtype=torch.int64 (numpy makes float64); in C++ use int64_t, not int or double. If the op is "
            "made for small numbers, declare that with tensor(high=) in the sample, or write "
            'checks=["-relations.large_integers"].'
        ),
        before="""
gaps = torch.diff(stamps.double())
""",
        after="""
gaps = torch.diff(stamps).double()
""",
        docs=(doc_links.CUSTOM_OP, doc_links.TENSOR_ATTRIBUTES),
        follows=(
            *("reference-mismatch", "stale-result", "uninitialized-output"),
            *("outputs-not-repeatable", "undeclared-mutation"),
        ),
    ),
}

CHECK = Check(
    name="relations.large_integers",
    summary="int64 numbers keep all digits, also those that float64 and int32 lose",
    run=check_large_integers,
    integer_tensors=True,
    variants=("arguments",),
    cheap_variants=("arguments",),
    in_copies=lambda case: bool(_arguments(case)),
    findings=FINDINGS,
    catches=(
        "Numbers of int64 that pass through float32, float64 or int32: ranks, orders, differences, and "
        "comparisons of ids, hashes and times. If a result stays the same with 1, 2 and 5 added to all "
        "numbers, or changes by a multiple of what is added, it must do so near 2**24, 2**31 and 2**53 "
        "too. Numbers that the narrower dtype still holds are tried first, so that the op's own limits are "
        "not reported. Numbers stay in the range of tensor(low=, high=). If listed numbers are small and "
        "the name does not stand for ids, times or hashes, a finding is a note, and a native kernel is not "
        "tried."
    ),
    cannot_see=(
        "Results that change in other ways when a number is added: products, lookups, hashes. "
        "Floating-point results, unless the arguments are named like ids, times or hashes. Positions, and "
        "whatever `relations.integer_width` leaves out because of names and operators."
    ),
    cost="many calls",
)
