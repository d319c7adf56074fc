"""`values.finite`: results have no NaN where no input has one."""

from __future__ import annotations

import re

import torch

from ...cases.case import Case
from ...cases.deliberate import speaks_of_nan
from ...cases.documented import (
    gives_zero_for_nothing,
    gives_zero_for_zeros,
    is_softmax,
    sentences,
)
from ...cases.tensors import is_differentiable, is_finite, is_plain, readable
from ...declare.ops import Op
from ...declare.variant import MINUS_INFINITY
from ...findings import NOT_ASKED, Explanation, doc_links, fail, skip
from ..check import Check
from .memory.calls import results, skip_if_no_results

_QUANTIZES = re.compile(r"quanti[sz]|quant(_|$)")
_GUARD = re.compile(r"(^|_)eps$")
# These variants change values, which of them count, or plain arguments such as `mode`.
_KINDS = ("values", "magnitudes", "positions", "arguments")
_OF_A_SOFTMAX = re.compile(r"\bany finite\b|\bsums? to (one|1)\b", re.I)


def check_finite(case: Case) -> None:
    """Look for NaN in the results of a call whose inputs are finite."""
    skip_if_no_results(case)
    tensors = [tensor for _, tensor in case.inputs().tensors()]
    if not (_has_documented_infinity(case) or all(map(is_finite, tensors))):
        raise skip(
            "nothing-to-check", "an input has no values, or is NaN or infinite", unjudged=False
        )
    if case.kind == "magnitudes" and not is_softmax(case.op):
        reason = "numbers of such magnitudes may have no finite result"
        raise skip("nothing-to-check", reason, unjudged=False)
    if speaks_of_nan(case.op) and not _takes_any_numbers(case.op):
        raise skip("nothing-to-check", "the op's author mentions NaN", unjudged=False)
    for name, result in results(case.eager):
        count = _count_of_nan(result)
        if count and not _may_be_storage(case, result):
            reason = _reason_against_nan(case, result)
            raise fail(
                "result-is-nan",
                f"{case.op.name}: {name} is NaN in {count} of {result.numel()} elements, although "
                f"{_inputs(case)}{', and ' if reason else ''}{reason}",
                note=None if reason else NOT_ASKED,
            )


def _takes_any_numbers(op: Op) -> bool:
    """Whether a softmax is said to take any finite numbers, or to sum to one, and so never gives NaN."""
    return is_softmax(op) and any(map(_OF_A_SOFTMAX.search, sentences(op, of_op=True)))


def _inputs(case: Case) -> str:
    return "no input is NaN" if _has_documented_infinity(case) else "all inputs are finite"


def _has_documented_infinity(case: Case) -> bool:
    """Whether the case has -inf where a docstring gives that a meaning."""
    return (case.variant or "").endswith(MINUS_INFINITY)


def _reason_against_nan(case: Case, result: torch.Tensor) -> str:
    """Why NaN cannot be intended; empty if it may be."""
    if _has_documented_infinity(case):
        argument = (case.variant or "").removesuffix(f".{MINUS_INFINITY}")
        return f"a docstring gives -inf a meaning in {argument}"
    if _is_said_to_be_zero(case):
        return "a docstring says that such inputs give 0"
    if case.kind in ("", "values", "magnitudes") and is_softmax(case.op):
        return "the softmax of finite numbers is finite"
    if case.kind not in ("", "values"):
        return ""
    if result.itemsize == 1 or _quantizes(case):
        return "a quantized result has a value for every finite input"
    guard = _guard(case)
    if guard and case.variant == "zeros":
        return f"{guard} keeps it from dividing by 0"
    return ""


def _quantizes(case: Case) -> bool:
    """Whether the op computes the scales of what it quantizes: it gets no other floating-point tensor."""
    floating = [tensor for _, tensor in case.inputs().tensors() if tensor.is_floating_point()]
    return _QUANTIZES.search(case.op.own_name) is not None and len(floating) == 1


def _may_be_storage(case: Case, result: torch.Tensor) -> bool:
    """Whether a result may hold packed codes, in a dtype that an argument gives."""
    given = [value for _, value in case.op.bind(case.sample) if isinstance(value, torch.dtype)]
    return result.dtype in given and _QUANTIZES.search(case.op.own_name) is not None


def _guard(case: Case) -> str:
    """The argument that the op adds to a divisor, as `eps=1e-05`; empty if there is none above 0."""
    given = {argument.name: value for argument, value in case.op.bind(case.sample)}
    for argument in case.op.arguments:
        value = given.get(argument.name, argument.default_value)
        if _GUARD.search(argument.name) and isinstance(value, float) and value > 0:
            return f"{argument.name}={value}"
    return ""


def _is_said_to_be_zero(case: Case) -> bool:
    """Whether a docstring says that such inputs give 0. Changed plain arguments are not covered."""
    is_sample = case.base_case is None
    return ((is_sample or case.kind == "positions") and gives_zero_for_nothing(case.op)) or (
        (is_sample or case.kind == "values") and gives_zero_for_zeros(case.op)
    )


def _count_of_nan(result: object) -> int:
    if not isinstance(result, torch.Tensor) or not is_plain(result):
        return 0
    return int(readable(result).isnan().sum()) if is_differentiable(result.dtype) else 0


_SCRIPT = """
args, kwargs = inputs()
found = torch.utils._pytree.tree_leaves((op(*args, **kwargs), args))
for each in found:
    assert not isinstance(each, torch.Tensor) or not each.isnan().any(), f"NaN in {each}"
"""

FINDINGS = {
    "result-is-nan": Explanation(
        meaning="A result has NaN, and every input is finite.",
        why=(
            "The mean of nothing, the softmax of a fully masked row, a vector of zeros divided by its "
            "length: one such row makes the loss NaN, and the next optimizer step makes every weight NaN."
        ),
        fix=(
            "Divide by max(count, 1), or by a length or scale of at least some eps, or write 0 where "
            "nothing is left. In a softmax, subtract the largest number of each row first. If NaN is "
            "intended, mention it in the docstring: the check is then silent."
        ),
        before="""
out = sums / counts[:, None]              # 0 / 0 for an empty bag
""",
        after="""
out = sums / counts.clamp(min=1)[:, None]
""",
        docs=(doc_links.CUSTOM_OP,),
        follows=("uninitialized-output", "undeclared-mutation", "precision-mismatch"),
    ),
}

CHECK = Check(
    name="values.finite",
    summary="results have no NaN where no input has one",
    run=check_finite,
    gradients=False,
    variants=_KINDS,
    cheap=True,
    repro=_SCRIPT,
    findings=FINDINGS,
    catches=(
        "Results that are NaN although all inputs are finite: an empty bag, a fully masked row, a vector "
        "of zeros, equal numbers without a variance. It is a failure if a docstring says that empty, "
        "masked or zero inputs give 0, in a result of eight bits or of an op whose name says that it "
        "quantizes or computes a softmax, and for zeros where an argument `eps` keeps a divisor from 0. "
        "So it is where a docstring gives -inf a meaning in an argument, whose last column is then -inf. "
        "Otherwise it is a note, because torch itself gives NaN for the mean of nothing. It is also a note "
        "on a variant that changes a plain argument."
    ),
    cannot_see=(
        "Infinite results, which may be right for a logarithm or a quotient. Ops whose docstring or Python "
        "code mentions NaN, except a softmax that takes any finite numbers or whose results sum to one."
    ),
    cost="nothing",
)
