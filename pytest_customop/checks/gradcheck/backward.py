"""`gradcheck.backward`: the gradients equal finite differences."""

from __future__ import annotations

import torch

from ...cases.case import Case
from ...cases.deliberate import backward_raises
from ...cases.tensors import is_finite, is_plain
from ...core.tracebacks import error_line, reraise_bug
from ...declare.inputs import GradOptions
from ...declare.variant import KINDS
from ...findings import CheckFailed, CheckSkipped, Explanation, doc_links, fail, skip
from ..check import Check
from .conditioning import is_ill_conditioned
from .finite_differences.finding import FindingCodes
from .finite_differences.projection import is_cheap, is_small
from .finite_differences.ties import AT_TIES
from .finite_differences.vectors import BackwardError
from .finite_differences.verdict import verify_gradients
from .float64 import Float64Op, no_float64, options_of, with_script

# Variants of these kinds run only if they are small (layout) or have up to some thousand elements (the
# rest). If one stays undecided, it does not count as unjudged.
_CHEAP_KINDS = ("layout", "values", "gradients", "alias")
_OTHER_VALUES = ("magnitudes", "values")  # kinds that can make an op ill-conditioned
_FIRST = FindingCodes(
    mismatch="gradient-mismatch",
    missing="gradient-missing",
    step="gradient-of-a-step-function",
    derivative="the gradient for `{input}`",
    ties=True,
)


def check_backward(case: Case) -> None:
    """Compare the first-order gradients with finite differences of the outputs."""
    options = options_of(case)
    _fail_if_nan(case)
    try:
        op = Float64Op(case)
        constants = op.constants()
        if constants and len(constants) < len(op.inputs):
            # A gradient that is missing, perhaps on purpose, must not hide that another one is wrong.
            others = Float64Op(case)
            others.hold(constants)
            _verify(case, others, options)
        _verify(case, op, options)
    except CheckSkipped as skipped:
        if case.aspect not in _CHEAP_KINDS:
            raise
        raise skip(skipped.code, skipped.reason, unjudged=False) from None
    except BackwardError as error:
        raise with_script(_backward_raises(case, error.error), case, "gradcheck") from error
    except CheckFailed as failure:
        if case.aspect in _OTHER_VALUES and is_ill_conditioned(case):
            reason = (
                "roundings of the inputs change the gradients here: no digits are left to compare"
            )
            raise skip("ill-conditioned", reason, unjudged=False) from None
        raise with_script(failure, case, "gradcheck") from None


def _verify(case: Case, op: Float64Op, options: GradOptions) -> None:
    function = op.function()
    is_affordable = is_small if case.aspect == "layout" else is_cheap
    if case.aspect in _CHEAP_KINDS and not is_affordable(function):
        raise skip("costly", "this variant runs on small tensors only", unjudged=False)
    verify_gradients(
        function,
        options,
        case.seed,
        _FIRST,
        brief=case.base_case is not None,
        lenient=_codes_at_a_limit(case),
    )


def _codes_at_a_limit(case: Case) -> tuple[str, ...]:
    """The codes that are no finding, because a variant may put elements exactly at a limit.

    The limit may be another argument that the variant changes. In `zeros` it may be a 0 of the sample:
    elements at a limit get no gradient.
    """
    if case.variant is not None and case.aspect not in (*KINDS, "dims"):
        return _FIRST.mismatch, _FIRST.missing
    return (_FIRST.missing,) if case.variant == "zeros" else ()


def _fail_if_nan(case: Case) -> None:
    """Fail if a gradient is NaN where inputs and outputs are finite."""
    try:
        gradients = case.eager_gradients
    except Exception as error:  # reported where the backward is called in float64
        reraise_bug(error)
        return
    for name, gradient in gradients.items():
        if gradient is None or not is_plain(gradient) or not bool(gradient.isnan().any()):
            continue
        if not all(
            is_finite(tensor) for _, tensor in (*case.inputs().tensors(), *case.eager.outputs)
        ):
            return
        count, total = int(gradient.isnan().sum()), gradient.numel()
        raise fail(
            "gradient-not-finite",
            f"the gradient for `{name}` is NaN in {count} of {total} elements, where all inputs and "
            "outputs are finite",
            repro=_NAN,
        )


_NAN = """
args, kwargs = inputs()
leaves = torch.utils._pytree.tree_leaves
found = [leaf for leaf in leaves(op(*args, **kwargs)) if isinstance(leaf, torch.Tensor)]
outputs = [leaf for leaf in found if leaf.requires_grad]
given = [
    leaf for leaf in leaves((args, kwargs)) if isinstance(leaf, torch.Tensor) and leaf.requires_grad
]
torch.manual_seed(seed)
grads = [torch.randn_like(output) for output in outputs]
for grad in torch.autograd.grad(outputs, given, grads, allow_unused=True):
    assert grad is None or not grad.isnan().any(), f"a gradient has NaN: {grad}"
"""


def _backward_raises(case: Case, error: BaseException) -> CheckFailed | CheckSkipped:
    """The finding for a backward that raises; a skip if it raises in float64 only."""
    dtypes = {tensor.dtype for _, tensor in case.inputs().differentiable()}
    if dtypes - {torch.float64, torch.complex128}:
        try:
            case.eager_gradients  # noqa: B018 -- whether it raises is the question
        except Exception as raised:  # whatever a backward raises
            reraise_bug(raised)
        else:
            return no_float64(f"the backward raises {error_line(error)}")
    return backward_raises(f"the backward raises {error_line(error)}", error)


FINDINGS = {
    "gradient-mismatch": Explanation(
        meaning="The autograd formula gives other gradients than finite differences.",
        why="Training follows a wrong direction, without an error.",
        fix=(
            "Derive the formula again for the input named; check that gradients are returned "
            "in the order of the arguments, and that complex gradients are conjugated as "
            "torch expects."
        ),
        before="""
def backward(ctx, grad):
    (z,) = ctx.saved_tensors
    return grad * 2 * z
""",
        after="""
def backward(ctx, grad):
    (z,) = ctx.saved_tensors
    return grad * 2 * z.conj()
""",
        docs=(doc_links.GRADCHECK, doc_links.GRADCHECK_NOTES, doc_links.AUTOGRAD_NOTES),
        follows=("undeclared-mutation", "backward-not-linear", "uninitialized-gradient"),
    ),
    AT_TIES: Explanation(
        meaning=(
            "Where elements of an input are equal, the gradient is not valid: it does not give the op's "
            "slope even along a direction that keeps them equal, where every valid choice does."
        ),
        why=(
            "Equal numbers are frequent in half precision, after a relu, and in padding. If each of n "
            "equal maxima gets the whole gradient, the sum is n times too large."
        ),
        fix=(
            "Give the gradient to one of the equal elements, by the index that the forward found, or "
            "divide it among them. If all get it on purpose, write a comment in the backward: every "
            "maximum gets the gradient."
        ),
        before="""
def backward(ctx, grad):
    x, peak = ctx.saved_tensors
    return torch.where(x == peak, grad, 0)
""",
        after="""
def backward(ctx, grad):
    x, peak = ctx.saved_tensors
    hit = x == peak
    return torch.where(hit, grad / hit.sum(-1, keepdim=True), 0)
""",
        docs=(doc_links.AUTOGRAD_NOTES, doc_links.GRADCHECK_NOTES),
        follows=("gradient-mismatch", "backward-not-linear", "undeclared-mutation"),
    ),
    "gradient-not-finite": Explanation(
        meaning="A gradient is NaN where all inputs and all outputs are finite.",
        why=(
            "One such element makes every weight NaN at the next step of the optimizer, and the training "
            "run is lost. Zeros, equal values or a row of padding can cause it."
        ),
        fix=(
            "Look for 0 / 0, inf - inf and 0 * inf in the backward: divide by what the forward divides by "
            "(with its eps or clamp), and write torch.where(ok, x, 1) before a division, not only after it."
        ),
        before="""
def backward(ctx, grad):
    (x,) = ctx.saved_tensors
    norm = x.norm(dim=-1, keepdim=True)
    return grad / norm - x * (grad * x).sum(-1, keepdim=True) / norm**3
""",
        after="""
def backward(ctx, grad):
    (x,) = ctx.saved_tensors
    norm = x.norm(dim=-1, keepdim=True).clamp(min=1e-6)  # as in the forward
    return grad / norm - x * (grad * x).sum(-1, keepdim=True) / norm**3
""",
        docs=(doc_links.GRADCHECK, doc_links.AUTOGRAD_NOTES),
        follows=("undeclared-mutation", "uninitialized-output", "uninitialized-gradient"),
    ),
    "gradient-missing": Explanation(
        meaning="The backward returns None, or zeros, for an input that the output depends on.",
        why=(
            "That input never learns: autograd treats None as a gradient of zero, without an error."
        ),
        fix=(
            "Return the gradient of that input from the backward; None is for inputs that "
            "need no gradient. Describe such an input with tensor(..., "
            "requires_grad=False)."
        ),
        before="""
def backward(ctx, grad):
    x, w = ctx.saved_tensors
    return grad * w, None
""",
        after="""
def backward(ctx, grad):
    x, w = ctx.saved_tensors
    return grad * w, grad * x
""",
        docs=(doc_links.REGISTER_AUTOGRAD, doc_links.GRADCHECK),
    ),
    "gradient-of-a-step-function": Explanation(
        meaning=(
            "Finite differences are zero but the formula's gradient is not: at this step "
            "size the op is constant, like an op that rounds to a grid. Or its outputs jump, and the "
            "formula gives their slope over many jumps, for instance if the grid depends on the input."
        ),
        why=(
            "Either the gradient is an estimate on purpose (straight-through), or the op "
            "loses the precision that its gradient claims. Only its author knows."
        ),
        fix=(
            "If the op rounds (8-bit images, quantization), compare on its grid: "
            "gradcheck=GradOptions(eps=<a multiple of the step>) with inputs on the grid, or "
            "give a reason to leave it out. If an output is not meant to be differentiable, "
            "call ctx.mark_non_differentiable(output). If the op should not round, compute "
            "in floating point."
        ),
        before="""
@customop_cases("mylib::quantise", samples=[(tensor(3, 64),)])
def test_quantise(): ...
""",
        after="""
@customop_cases("mylib::quantise", samples=[(tensor(3, 64),)], gradcheck="straight-through")
def test_quantise(): ...
""",
        docs=(doc_links.GRADCHECK, doc_links.GRADCHECK_NOTES),
    ),
}

CHECK = Check(
    name="gradcheck.backward",
    summary="gradients equal finite differences in float64, at any size (torch.autograd.gradcheck)",
    run=check_backward,
    gradients=True,
    needs_autograd=True,
    widest_dtype=True,
    variants=(
        "shape",
        "large",
        "complex",
        "magnitudes",
        "positions",
        "arguments",
        "pairs",
        *_CHEAP_KINDS,
    ),
    cheap=True,
    findings=FINDINGS,
    catches=(
        "Gradients that differ from finite differences. Large inputs are compared along "
        "random directions, so that a 3x512x512 image takes seconds. Inputs of a narrower "
        "dtype are cast to float64."
    ),
    cannot_see=(
        "A small error in one element of many, if the input is large. Variants of layouts run on "
        "small tensors only; variants of values, gradients and one tensor passed twice run on up to "
        "some thousand elements. Skips: an op that rejects float64 (`no-float64`), an op that "
        "computes in float32 inside (`float32-internal`), a kink (`not-smooth`), and variants whose "
        "gradients change with roundings of the inputs (`ill-conditioned`)."
    ),
    cost="many calls",
)
