"""`relations.one_sign`: numbers of one sign are quantized as exactly as those of both signs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import torch

from ...cases.case import Case
from ...cases.documented import sentences
from ...cases.tensors import base_name, is_plain
from ...declare.ops import Op
from ...findings import Explanation, doc_links, fail, skip
from ..check import Check
from ..values.memory.calls import (
    Caller,
    Leaves,
    expression,
    skip_if_incomparable,
)
from ..values.memory.limited_copy import answer_if_taken
from .other_numbers import results_with

_QUANTIZES = re.compile(r"quanti[sz]", re.I)
# Numbers far from the others are cut off on purpose.
_CUTS = re.compile(
    r"\b(saturat\w*|clip\w*|clamp\w*|outliers?|std|sigmas?|deviations?|percentiles?|quantiles?)\b",
    re.I,
)
_EXACT = 0.25  # the largest error for the sample, as a part of its largest number
_WRONG = 0.3  # an error that is no rounding, if it is also this many times that for the sample:
_TIMES = 4.0
_SHIFT = 5.0  # added, times the largest number: then all have one sign


class _Back(NamedTuple):
    """How the quantized numbers are found in the results.

    Args:
        code: the same as an expression, for a script.
        numbers: gets the first result, and as many scales and offsets as it takes.
        used: how many results it uses.
    """

    code: str
    numbers: Callable[..., torch.Tensor]
    used: int


class _Broken(NamedTuple):
    """Numbers of one sign that do not come back.

    Args:
        path: of the quantized tensor.
        code: how its numbers are found in the results.
        shift: that was added to it.
        error, of_sample: the largest errors, as parts of the largest numbers.
    """

    path: str
    code: str
    shift: float
    error: float
    of_sample: float


_BACKS = (
    _Back("results[0]", lambda numbers: numbers, 1),
    _Back("results[0] * scale(1)", lambda codes, scale: codes * scale, 2),
    _Back(
        "(results[0] - scale(2)) * scale(1)", lambda codes, scale, zero: (codes - zero) * scale, 3
    ),
    _Back("results[0] * scale(1) + scale(2)", lambda codes, scale, low: codes * scale + low, 3),
)


def check_one_sign(case: Case) -> None:
    """Add a number that makes all numbers positive, and one that makes them negative."""
    skip_if_incomparable(case)
    path = _quantized(case)
    if path is None:
        reason = "the op has no single tensor to quantize, with numbers of both signs"
        raise skip("nothing-to-check", reason, unjudged=False)
    reason = "the op's results do not give its numbers back"
    broken = answer_if_taken(case, lambda plain: _answer(plain, path), reason)
    if broken is not None:
        raise fail(
            "one-sign-not-reproduced",
            f"{case.op.name}: with {broken.shift:.4g} added to {path}, so that all numbers have one sign, "
            f"the error is {broken.error:.0%} of the largest number; without, it is {broken.of_sample:.1%}",
            "For larger numbers of both signs the error is no larger, so the op has no fixed range.",
            repro=_script(case, broken),
        )


def _quantized(case: Case) -> str | None:
    """The only floating-point tensor, if it has numbers of both signs and the op does not write to it."""
    found = [
        (path, tensor.detach())
        for path, tensor in case.inputs().tensors()
        if tensor.is_floating_point() and is_plain(tensor)
    ]
    if len(found) != 1 or base_name(found[0][0]) in case.op.mutated:
        return None
    path, tensor = found[0]
    usable = tensor.dim() and tensor.numel() and bool(tensor.isfinite().all())
    return path if usable and bool((tensor < 0).any() and (tensor > 0).any()) else None


def _answer(case: Case, path: str) -> tuple[bool, _Broken | None]:
    """Whether the results give the numbers back, and the shift for which they do not."""
    calls = Caller(case)
    given = dict(case.inputs().tensors())[path].detach()
    size = float(given.abs().max())
    results = results_with(calls, path, given)
    for back in _BACKS:
        of_sample = _error(results, back, given)
        if of_sample is None or not 0 < of_sample <= _EXACT:
            continue
        allowed = max(_WRONG, _TIMES * of_sample)
        large = given * (1 + _SHIFT)
        of_large = _error(results_with(calls, path, large), back, large)
        if of_large is None or of_large > allowed:
            continue  # numbers of this size are out of its range
        for shift in (_SHIFT * size, -_SHIFT * size):
            shifted = given + shift
            error = _error(results_with(calls, path, shifted), back, shifted)
            if error is not None and error > allowed:
                return True, _Broken(path, back.code, shift, error, of_sample)
        return True, None
    return False, None


def _error(results: Leaves | None, back: _Back, given: torch.Tensor) -> float | None:
    """The largest error as a part of the largest number; None if the results do not fit."""
    tensors = [leaf for _, leaf in results or () if isinstance(leaf, torch.Tensor)]
    if len(tensors) < back.used or tensors[0].shape != given.shape:
        return None
    first, *others = (tensor.to(torch.float64) for tensor in tensors[: back.used])
    scales = [  # a row has one scale, or a tensor
        scale.unsqueeze(-1) if scale.shape == given.shape[:-1] else scale for scale in others
    ]
    try:
        error = (back.numbers(first, *scales) - given).abs().max() / given.abs().max()
    except RuntimeError:  # sizes do not fit
        return None
    return float(error) if bool(error.isfinite()) else None


def _script(case: Case, broken: _Broken) -> str:
    place = expression(case, broken.path)
    return (
        "from torch.utils._pytree import tree_leaves\n\n\ndef error(shift):\n"
        "    args, kwargs = inputs()\n    args = list(args)\n"
        f"    {place} = given = {place}.detach() + shift\n"
        "    results = [each.double() for each in tree_leaves(op(*args, **kwargs))]\n\n"
        "    def scale(number):\n        factor = results[number]\n"
        "        return factor.unsqueeze(-1) if factor.shape == given.shape[:-1] else factor\n\n"
        f"    return float(({broken.code} - given).abs().max() / given.abs().max())\n\n\n"
        f"print('both signs:', error(0.0))\nfound = error({broken.shift!r})\n"
        f"assert found < {_WRONG}, found\n"
    )


def _quantizes(op: Op) -> bool:
    """Whether an op says that it quantizes, and not that it cuts numbers off."""
    texts = [op.name, *sentences(op, of_op=True)]
    return any(map(_QUANTIZES.search, texts)) and not any(map(_CUTS.search, texts))


FINDINGS = {
    "one-sign-not-reproduced": Explanation(
        meaning=(
            "The op quantizes numbers of both signs with a small error. With all of them above 0, or all "
            "below, and no larger in size, the error is as large as the numbers."
        ),
        why=(
            "Outputs of a ReLU, temperatures, pixels have one sign. If the range does not include 0, the "
            "zero point is cut off at an end of its integers, and all numbers saturate."
        ),
        fix=(
            "Let the range include 0 before the scale is computed, or keep the smallest number in floating "
            'point in place of a zero point. If that is meant, write checks=["-relations.one_sign"].'
        ),
        before="""
low, high = x.amin(-1), x.amax(-1)
""",
        after="""
low, high = x.amin(-1).clamp(max=0), x.amax(-1).clamp(min=0)
""",
        docs=(doc_links.CUSTOM_OP,),
        follows=("stale-result", "uninitialized-output", "outputs-not-repeatable"),
    ),
}

CHECK = Check(
    name="relations.one_sign",
    summary="numbers of one sign are quantized as exactly as those of both signs",
    run=check_one_sign,
    gradients=False,
    needs=_quantizes,
    variants=(),
    findings=FINDINGS,
    catches=(
        "A zero point that does not fit in its integers where the numbers of a row or tensor have one "
        "sign. An op that says that it quantizes, and gives its numbers back with a small error, also as "
        "codes with a scale and a zero point or offset, must do so for numbers of one sign. Larger numbers "
        "of both signs show that the op does not have a fixed range."
    ),
    cannot_see=(
        "Ops with several floating-point tensors, codes that are packed or grouped, and ops that speak of "
        "saturation or outliers."
    ),
    cost="calls",
)
