"""The findings of `relations.precision`."""

from __future__ import annotations

from dataclasses import replace

from ....findings import Explanation, doc_links

_BEFORE = """
values = numpy.frombuffer(bytes_of(x), dtype=numpy.float32)   # x may be float64
"""
_AFTER = """
torch._check(x.dtype == torch.float32, lambda: f"float32 only, not {x.dtype}")
values = numpy.frombuffer(bytes_of(x), dtype=numpy.float32)
"""
_FIX = (
    "Find out which of the two is wrong. Read memory by the dtype of the tensor (AT_DISPATCH, or a cast), "
    "allocate scratch memory in that dtype, add up in float32 or wider, subtract the largest number "
    "before exp. Raise for a dtype that the kernel is not made for. If the dtype is meant to change the "
    'values, write checks=["-relations.precision"]; if the difference is only rounding, tolerances=.'
)
FINDINGS = {
    "precision-mismatch": Explanation(
        meaning=(
            "The op gives other values for the same numbers in a wider dtype, beyond what rounding the "
            "inputs to the narrower dtype explains."
        ),
        why=(
            "A dtype should only decide how exact a result is. One of the two results is wrong: a kernel "
            "that reads memory as another dtype, a sum that overflows or stands still, a scratch tensor of "
            "a fixed dtype."
        ),
        fix=_FIX,
        before=_BEFORE,
        after=_AFTER,
        docs=(doc_links.CUSTOM_OP, doc_links.TESTING),
        follows=(
            *("reference-mismatch", "stale-result", "uninitialized-output"),
            *("outputs-not-repeatable", "undeclared-mutation"),
        ),
    ),
    "precision-gradient-mismatch": Explanation(
        meaning=(
            "The backward gives other gradients for the same numbers in a wider dtype, beyond what "
            "rounding the inputs to the narrower dtype explains. The results agree."
        ),
        why=(
            "Finite differences need float64, so gradcheck does not cover the dtype used in training. "
            "There, training follows a wrong direction."
        ),
        fix=_FIX,
        before="""
def backward(ctx, grad):
    (x,) = ctx.saved_tensors
    scratch = torch.empty(x.shape, dtype=torch.float32)   # x may be float64
    return run_backward(address_of(grad), address_of(x), address_of(scratch))
""",
        after="""
def backward(ctx, grad):
    (x,) = ctx.saved_tensors
    scratch = torch.empty_like(x)
    return run_backward(address_of(grad), address_of(x), address_of(scratch))
""",
        docs=(doc_links.REGISTER_AUTOGRAD, doc_links.GRADCHECK),
        follows=(
            *("precision-mismatch", "gradient-mismatch", "gradient-missing", "backward-not-linear"),
            "uninitialized-gradient",
            "backward-not-repeatable",
        ),
    ),
}

FINDINGS["catastrophic-cancellation"] = Explanation(
    meaning=(
        "For numbers that are large and near to each other, from 1000 to 1001, or for rows that are nearly "
        "parallel, float32 and float64 results differ by more than a tenth of the largest one. Inputs "
        "moved by roundings change them less."
    ),
    why=(
        "The op subtracts two large numbers with equal leading digits, and only their rounding errors are "
        "left: a variance as the mean of squares less the square of the mean, a distance from a product of "
        "matrices, a difference of long sums. Data with an offset give noise, without an error. It is a "
        "note, because such a formula is right for numbers around 0; but a failure for an op that is said "
        "to give a variance, a standard deviation or a layer norm, which torch computes without this loss, "
        "or whose docstring promises exact results, or numbers in any unit. There a hundredth counts, and "
        "a burst of numbers that are 10,000 times as large as the others is tried too, and so are rows "
        "nearly along an axis, where the arc cosine of a number near 1 has few digits."
    ),
    fix=(
        "Subtract first, then square: the mean in a pass of its own, or Welford's method. For windows, "
        "subtract a number that all of them share before you sum. Or sum in float64. Take an angle from "
        "both sine and cosine (atan2). If no such numbers occur, give the sample a range with "
        "tensor(low=, high=)."
    ),
    before="""
variance = (x * x).mean(-1) - x.mean(-1) ** 2
""",
    after="""
variance = (x - x.mean(-1, keepdim=True)).square().mean(-1)
""",
    docs=(doc_links.TESTING,),
    follows=("precision-mismatch", "reference-mismatch"),
)

_NARROWED = Explanation(
    meaning=(
        "In float64 the op gives float32 numbers: the inputs have more digits, and the results no more "
        "than float32 holds. Or the op computes with a number made in torch's default dtype, so that "
        "results are only as exact as that dtype."
    ),
    why=(
        "Somewhere the numbers pass through float32. Callers who choose float64 get seven digits instead "
        "of sixteen, without a warning, and finite differences of such an op are noise."
    ),
    fix=(
        "Compute in the dtype of the inputs: look for .float(), torch.float32 and numpy.float32, for "
        "torch.arange, torch.linspace, torch.ones and torch.tensor without dtype=, in C++ for float, 1.0f "
        "and sinf. If the op is made for float32 alone, raise for float64. If float32 is exact enough, "
        'write tolerances={torch.float64: (1e-6, 1e-6)}, or checks=["-relations.precision"].'
    ),
    before="""
table = torch.sin(x.float())
return (table * x).to(torch.float32).to(x.dtype)
""",
    after="""
table = torch.sin(x)
return table * x
""",
    docs=(doc_links.CUSTOM_OP, doc_links.TESTING),
    follows=("reference-mismatch", "fake-dtype-mismatch"),
)
FINDINGS |= {
    "result-narrowed": _NARROWED,
    "gradient-narrowed": replace(_NARROWED, follows=("result-narrowed", *_NARROWED.follows)),
}
