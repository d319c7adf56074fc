"""`relations.running_sums`: numbers far away at the start of a sequence leave later results as they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from ...cases.case import Case
from ...cases.documented import promises_digits
from ...cases.documented_numbers import limits_argument
from ...cases.documented_ranges import closed_ranges
from ...cases.tensors import base_name
from ...findings import Explanation, doc_links, fail, skip
from ..check import Check
from ..values.memory.calls import Caller, Leaves, copied_results, expression, skip_if_incomparable
from ..values.memory.limited_copy import answer_if_taken
from .compare import in_double_if_taken
from .other_numbers import replaceable, results_with
from .scripts import call_lines, position

_TENSORS = 2
_LEAST = 4  # entries of a sequence
# How far the first entry is from the mean, in ranges of the numbers. Near ones show what depends on it.
_NEAR = (10.0, 1.0, -1.0, -10.0)
# There squares still have their digits in float32. What changes at one of them has an entry near it again,
# as in a periodic box.
_BETWEEN = (37.3, -47.1, 61.9, -71.7, 83.6, 97.8)
# Beyond them squares lose all digits of the dtype, and sums do not.
_FAR = {torch.float32: 1e4, torch.float64: 1e8}
_AGAIN = (1.001, 1.003)  # times as far
# Shares of the largest result: what counts as unchanged, and as lost.
_SAME, _LOST = 1e-3, 0.05
_ERRATIC = 0.2  # rounding errors at places that are nearly the same differ by this share of them


class _Broken(NamedTuple):
    """A result that loses its digits although it does not depend on the first entry.

    Args:
        path: of the tensor.
        dim: of the entries.
        far: how far the first one is from the mean, in ranges.
        number: the first entry.
        dtype: of the tensor.
        result: the name of the result.
        place: of the element that is farthest off.
        before, after: its values.
    """

    path: str
    dim: int
    far: float
    number: float
    dtype: torch.dtype
    result: str
    place: tuple[int, ...]
    before: float
    after: float


def check_running_sums(case: Case) -> None:
    """Move the first entry of a sequence far away; what does not depend on it must keep its digits."""
    skip_if_incomparable(case)
    if not any(_sequences(case)):
        reason = "no argument is a sequence of floating-point numbers without a documented range"
        raise skip("nothing-to-check", reason, unjudged=False)
    reason = "every result depends on the first entry of each sequence, or none does"
    broken = answer_if_taken(case, _answer, reason)
    if broken is None:
        return
    shown_on = None
    if broken.dtype == torch.float64 and not promises_digits(case.op):
        shown_on = case.as_beyond("numbers of very different magnitudes in float64")
    raise fail(
        "earlier-numbers-cost-digits",
        f"{case.op.name}: with {broken.number:.4g} in place of the first entry of {broken.path} along dim "
        f"{broken.dim}, {broken.result} is {broken.after:.6g} at {list(broken.place)} instead of "
        f"{broken.before:.6g}, which does not depend on that entry",
        repro=_script(case, broken),
        case=shown_on,
    )


def _sequences(case: Case) -> Iterator[tuple[str, Tensor, int]]:
    """(path, tensor, dim) of the sequences: the last dim, and the first."""
    usable = [
        (path, tensor)
        for path, tensor in replaceable(case)
        if tensor.dtype in _FAR and not closed_ranges(case.op, base_name(path))
        if not limits_argument(case.op, base_name(path))
    ]
    for path, tensor in usable[:_TENSORS]:
        for dim in dict.fromkeys((tensor.dim() - 1, 0)) if tensor.dim() else ():
            if tensor.shape[dim] >= _LEAST and bool(tensor.min() < tensor.max()):
                yield path, tensor, dim


def _answer(case: Case) -> tuple[bool, _Broken | None]:
    """Whether some result depends on a first entry and others do not, and the first that loses digits."""
    judged = False
    wide = in_double_if_taken(case)
    for each in (case,) if wide is case else (case, wide):
        calls = Caller(each)
        before = _floats(copied_results(calls(each.inputs())))
        for path, tensor, dim in _sequences(each):
            kept = _kept(calls, path, tensor, dim, before)
            if kept:
                judged = True
                broken = _lost(calls, path, tensor, dim, before, kept)
                if broken is not None:
                    return True, broken
    return judged, None


def _kept(
    calls: Caller, path: str, tensor: Tensor, dim: int, before: dict[str, Tensor]
) -> dict[str, Tensor]:
    """Where each result stays the same for several first entries; without those that always or never do."""
    kept = {name: torch.ones_like(value, dtype=torch.bool) for name, value in before.items()}
    for near in _NEAR:
        after = _floats(results_with(calls, path, _moved(tensor, dim, near)))
        kept = {
            name: same & ((after[name] - before[name]).abs() <= _SAME * _scale(before[name]))
            for name, same in kept.items()
            if name in after and after[name].shape == same.shape
        }
        if not any(bool(same.any()) for same in kept.values()):
            return {}
    kept = {name: same for name, same in kept.items() if bool(same.any() & ~same.all())}
    return {} if kept and _comes_back(calls, path, tensor, dim, before, kept) else kept


def _comes_back(
    calls: Caller,
    path: str,
    tensor: Tensor,
    dim: int,
    before: dict[str, Tensor],
    kept: dict[str, Tensor],
) -> bool:
    """Whether a result that stays the same for first entries nearby changes for one farther away."""
    for distance in _BETWEEN:
        after = _floats(results_with(calls, path, _moved(tensor, dim, distance)))
        for name, same in kept.items():
            if name not in after or after[name].shape != same.shape:
                return True
            change = (after[name] - before[name]).abs()[same]
            if bool((change > _LOST * _scale(before[name])).any()):
                return True
    return False


def _lost(
    calls: Caller,
    path: str,
    tensor: Tensor,
    dim: int,
    before: dict[str, Tensor],
    kept: dict[str, Tensor],
) -> _Broken | None:
    """The first result with errors that are large and erratic; those of another cause are neither."""
    far, spread = _FAR[tensor.dtype], float(tensor.max() - tensor.min())
    errors: dict[str, list[Tensor]] = {name: [] for name in kept}
    for times in (1.0, *_AGAIN):
        after = _floats(results_with(calls, path, _moved(tensor, dim, far * times)))
        for name, same in kept.items():
            if name not in after or after[name].shape != same.shape:
                return None
            errors[name].append(torch.where(same, after[name] - before[name], 0.0))
    for name, (error, *others) in errors.items():
        least = _SAME * min(spread, spread**2)  # rounding of what is 0, such as a variance
        large = error.abs() > max(_LOST * _scale(before[name]), least)  # not where it is NaN
        apart = torch.stack([(other - error).abs() for other in others]).amax(0)
        if bool((large & (apart > _ERRATIC * error.abs())).any()):
            place = tuple(
                int(at) for at in torch.unravel_index((error.abs() * large).argmax(), error.shape)
            )
            value = float(before[name][place])
            number = float(_moved(tensor, dim, far).select(dim, 0).flatten()[0])
            return _Broken(
                path,
                dim,
                far,
                number,
                tensor.dtype,
                name,
                place,
                value,
                value + float(error[place]),
            )
    return None


def _floats(leaves: Leaves | None) -> dict[str, Tensor]:
    """The finite floating-point results that have several elements, in float64."""
    return {
        name: value.double()
        for name, value in leaves or ()
        if isinstance(value, Tensor) and value.is_floating_point() and value.numel() > 1
        if value.itemsize > 1 and bool(value.isfinite().all())
    }


def _scale(result: Tensor) -> float:
    return float(result.abs().max())


def _moved(tensor: Tensor, dim: int, distance: float) -> Tensor:
    """A copy whose first entry is this many ranges above the mean."""
    moved = tensor.clone()
    moved.select(dim, 0).fill_(float(tensor.mean() + distance * (tensor.max() - tensor.min())))
    return moved


def _script(case: Case, broken: _Broken) -> str:
    place, at = expression(case, broken.path), position(case, broken.result)
    return (
        call_lines(broken.result)
        + "\n\ndef result(distance):\n    args, kwargs = inputs()\n    args = list(args)\n"
        + _WIDE.format(dtype=broken.dtype)
        + f"    x = {place} = {place}.detach().clone()\n"
        + f"    x.select({broken.dim}, 0).fill_(float(x.mean() + distance * (x.max() - x.min())))\n"
        + f"    return call(args, kwargs)[{at}][{broken.place}]\n\n\n"
        + f"near, far = result({_NEAR[0]}), result({broken.far})\n"
        + "torch.testing.assert_close(far, near, rtol=0.01, atol=1e-6)\n"
    )


_WIDE = """\
    floats = lambda x: x.to({dtype}) if x.dtype in (torch.float32, torch.float64) else x
    args, kwargs = tree_map_only(torch.Tensor, floats, (args, kwargs))
"""

FINDINGS = {
    "earlier-numbers-cost-digits": Explanation(
        meaning=(
            "A result does not depend on the first entry of a sequence, whether that is a little or ten "
            "times the range of the numbers away. With the entry very far away it has few digits left."
        ),
        why=(
            "Windows or groups are differences of one running sum, often of squares. A large number "
            "anywhere before takes the digits of all that follow: a series that starts with 0 and goes on "
            "with time stamps has wrong variances everywhere."
        ),
        fix=(
            "Add up each window or group by itself (`x.unfold(-1, window, 1)`), and take squares after "
            "subtracting its own mean. A running sum that must stay needs a compensated summation."
        ),
        before="""
sums = squares.cumsum(-1)
out = sums[..., window:] - sums[..., :-window]
""",
        after="""
out = x.unfold(-1, window, 1).var(-1)
""",
        docs=(doc_links.CUSTOM_OP,),
        follows=("stale-result", "uninitialized-output", "outputs-not-repeatable"),
    ),
}

CHECK = Check(
    name="relations.running_sums",
    summary="numbers far away at the start of a sequence leave later results as they are",
    run=check_running_sums,
    gradients=False,
    variants=(),
    findings=FINDINGS,
    catches=(
        "Windows or groups that are differences of one running sum, of squares above all. The first entry "
        "along the last dim, and along the first, becomes the mean and 1 or 10 ranges more or less: some "
        "results must stay the same then, and others not, and the same at six distances up to 100 ranges: "
        "in a periodic box the entry comes near others again. With the entry 1e4 ranges away, or 1e8 in "
        "float64, the former must not be off by 5 % of the largest result. The errors must be those of "
        "rounding: other ones if the entry is a thousandth farther away. In float64 it is a note, unless a "
        "docstring promises digits."
    ),
    cannot_see="Arguments with a documented range, and running sums that start in the middle.",
    cost="calls",
)
