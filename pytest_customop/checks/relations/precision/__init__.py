"""`relations.precision`: a dtype gives the same as a wider one, within its own precision."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ....cases.case import Case
from ....cases.documented import gives_variance, promises_digits
from ....cases.run import Run
from ....cases.tensors import is_differentiable
from ....core.tracebacks import error_line
from ....core.wording import dtype_name
from ....declare.inputs import TensorSpec
from ....findings import NOT_ASKED, CheckFailed, fail, skip
from ...check import Check
from ...values.memory.calls import (
    GRADIENT,
    Caller,
    Leaves,
    copied,
    gradients_of,
    results,
    skip_if_incomparable,
)
from ..compare import disagreement
from ..scripts import call_lines, position
from .double import check_double, is_double
from .findings import FINDINGS
from .inputs import Dtypes, Move, Point, dtypes_of, roundings
from .judge import Difference, Judge
from .randomness import may_be_random

_MOVES = 18  # moves meet steps and kinks by chance only
_FEW = 6
_GROSS = 0.1  # of the largest result
_PROMISED = 0.01  # of it, where a docstring promises digits
_LARGE = 300.0  # the square of such a number overflows in float16
_CANCELLING = ("shifted", "burst", "parallel_first", "parallel_last", ".tiny")  # variants
_AWAY = (1, 2)  # seeds of ordinary points


def check_precision(case: Case) -> None:
    """Compare results and gradients with those for the same numbers in a wider dtype.

    They may differ as much as the results change when inputs move by roundings of the narrower dtype. If
    only results in the wider dtype change that much, a difference counts if other points show one too:
    memory that is read as another dtype changes erratically.

    Nothing is wider than float64: there the results must have more digits than float32.
    """
    skip_if_incomparable(case)
    if is_double(case) and case.kind != "long":
        check_double(case)
        return
    comparison = _Comparison(case)
    pair = comparison.at(None)
    if pair is None:
        raise comparison.rejected
    difference = pair.difference()
    if difference is None:
        comparison.raise_if_lost_where_large()
        return
    dtypes = comparison.dtypes
    difference = pair.beyond_moves(dtypes.narrow, _MOVES)
    if difference is None or (_has_other_values(case) and not difference.is_lost):
        comparison.raise_if_cancelled(pair)
        return
    if pair.beyond_moves(dtypes.wide, _MOVES) is None and not comparison.differs_elsewhere():
        return
    if not comparison.is_unsteady(pair, difference):
        raise comparison.failure(difference)


def _has_other_values(case: Case) -> bool:
    """Whether it is a variant in the sample's own dtypes.

    Its values may lie at the edge of what a dtype holds, where ops use the dtype's own eps or largest
    number. There a result counts only if it is lost in the narrower dtype.
    """
    if case.base_case is None or case.kind == "long":
        return False
    dtypes = [
        [tensor.dtype for _, tensor in item.inputs().tensors()] for item in (case, case.base_case)
    ]
    return dtypes[0] == dtypes[1]


@dataclass(frozen=True)
class _Pair:
    """The results of a case at a point, in both dtypes."""

    comparison: _Comparison
    point: Point
    narrow: Leaves
    wide: Leaves

    def difference(self) -> Difference | None:
        """A difference beyond what is always allowed."""
        case, dtypes = self.comparison.case, self.comparison.dtypes
        return Judge(case, dtypes, self.narrow, self.wide, self.wide, []).difference()

    def beyond_moves(
        self, dtype: torch.dtype, count: int, *, floats_only: bool = False
    ) -> Difference | None:
        """A difference that is not explained by inputs moved by roundings in one of the dtypes."""
        comparison = self.comparison
        calls = (
            comparison.call(self.point, dtype, move) for move in roundings(comparison.dtypes, count)
        )
        moved = [leaves for leaves in calls if leaves is not None]
        base = self.narrow if dtype == comparison.dtypes.narrow else self.wide
        narrow = self.narrow
        if floats_only:
            narrow = [
                (name, leaf)
                for name, leaf in narrow
                if isinstance(leaf, torch.Tensor) and is_differentiable(leaf.dtype)
            ]
        judge = Judge(comparison.case, comparison.dtypes, narrow, self.wide, base, moved)
        return judge.difference()


class _Comparison:
    """The calls of an op in the dtype of a case and in a wider one.

    Raises:
        CheckSkipped: if there is no wider dtype.
    """

    def __init__(self, case: Case) -> None:
        self.case = case
        self.dtypes = dtypes_of(case)
        self.rejected = skip("nothing-to-check", "", unjudged=False)
        self._calls = Caller(case)
        self._weights: dict[str, torch.Tensor] = {}

    def at(self, away: int | None, largest: float | None = None) -> _Pair | None:
        """The results at a point, as in `Point`; None where the op rejects it."""
        point = Point(self.case, self.dtypes, away, largest)
        outputs = [self.call(point, dtype) for dtype in self.dtypes]
        narrow, wide = outputs
        return None if narrow is None or wide is None else _Pair(self, point, narrow, wide)

    def raise_if_lost_where_large(self) -> None:
        """Look for float16 results that overflow on the way for larger numbers, though they need not.

        Raises:
            CheckFailed: for a result that is NaN, infinite or 0 in float16 alone.
        """
        if self.dtypes.narrow != torch.float16 or _has_range(self.case):
            return
        pair = self.at(None, _LARGE)
        difference = pair and pair.beyond_moves(self.dtypes.narrow, _FEW)
        if pair and difference and difference.is_lost and not self.is_unsteady(pair, difference):
            raise self.failure(difference, pair.point.factor)

    def raise_if_cancelled(self, pair: _Pair) -> None:
        """Look for float32 results that lose their digits for numbers or rows that are near to each other.

        Raises:
            CheckFailed: for one that moved inputs do not explain in the wider dtype.
        """
        variant = self.case.variant or ""
        if not variant.endswith(_CANCELLING) or self.dtypes.narrow != torch.float32:
            return  # in a narrower dtype, numbers so large are all alike
        promised = promises_digits(self.case.op)
        difference = pair.beyond_moves(self.dtypes.wide, _FEW, floats_only=True)
        if difference is None or difference.name.startswith(GRADIENT):
            return
        if difference.share < (_PROMISED if promised else _GROSS):
            return
        if not self.is_unsteady(pair, difference):
            is_failure = promised or gives_variance(self.case.op)
            note = None if is_failure else NOT_ASKED
            raise self.failure(difference, code="catastrophic-cancellation", note=note)

    def call(self, point: Point, dtype: torch.dtype, move: Move | None = None) -> Leaves | None:
        """Results and gradients in one of the dtypes; None where the op rejects it."""
        run = self._calls(point.arguments(dtype, move))
        if run.error is not None:
            reason = f"in {dtype_name(dtype)} the op raises {error_line(run.error)}"
            self.rejected = skip("nothing-to-check", reason, unjudged=False)
            return None
        return self._found(run)

    def differs_elsewhere(self) -> bool:
        """Whether results differ at other points too, beyond what moved inputs change there."""
        pairs = [self.at(away) for away in _AWAY]
        return all(
            pair is not None
            and pair.difference() is not None
            and pair.beyond_moves(self.dtypes.narrow, _FEW) is not None
            for pair in pairs
        )

    def is_unsteady(self, pair: _Pair, difference: Difference) -> bool:
        """Whether calls in the same dtype differ, or may because the op draws random numbers."""
        for dtype, first in zip(self.dtypes, (pair.narrow, pair.wide), strict=True):
            again = self.call(pair.point, dtype)
            if again is None:
                return True
            compared = [
                [leaf for leaf in leaves if leaf[0] == difference.name] for leaves in (again, first)
            ]
            if disagreement(self.case, *compared):
                return True
        return may_be_random(self.case, lambda: self.call(pair.point, self.dtypes.wide))

    def failure(
        self,
        difference: Difference,
        factor: float = 1.0,
        *,
        code: str | None = None,
        note: str | None = None,
    ) -> CheckFailed:
        """The finding; a note where the mark lists dtypes, and the wider one is not among them.

        A result that is lost in the narrower dtype fails in any case.

        Args:
            difference: the difference.
            factor: what the inputs are multiplied by.
            code: of the finding, if it is another one.
            note: why it is a note.
        """
        case, (narrow, wide) = self.case, self.dtypes
        listed = case.placement.listed_dtypes
        shown_on = None
        if listed is not None and wide not in listed and not difference.is_lost:
            shown_on = case.as_beyond("a dtype that the mark does not list")
        is_gradient = difference.name.startswith(GRADIENT)
        scaled = "" if factor == 1.0 else f", those of the sample times {factor:.4g},"
        return fail(
            code or ("precision-gradient-mismatch" if is_gradient else "precision-mismatch"),
            f"{case.op.name}: {difference.name} in {dtype_name(narrow)} differs from that for the same "
            f"numbers{scaled} in {dtype_name(wide)}: {difference.text}",
            f"Moving the inputs by some roundings of {dtype_name(narrow)} changes this element by less.",
            repro=_script(case, self.dtypes, difference, factor),
            case=shown_on,
            note=note,
        )

    def _found(self, run: Run) -> Leaves:
        """The results of a call, and the gradients for grad_outputs of the narrower dtype."""
        leaves = copied(results(run))
        shapes = {name: tensor.shape for name, tensor in run.differentiable_outputs}
        if self._weights and shapes != {
            name: weight.shape for name, weight in self._weights.items()
        }:
            return leaves  # their size depends on the values
        return [*leaves, *(gradients_of(self.case, run, self._grad_outputs) or ())]

    def _grad_outputs(self, outputs: list[tuple[str, torch.Tensor]]) -> list[torch.Tensor]:
        if not self._weights:
            drawn = self.case.grad_outputs(outputs)
            self._weights = {name: weight for (name, _), weight in zip(outputs, drawn, strict=True)}
        return [self._weights[name].to(tensor.dtype) for name, tensor in outputs]


def _has_range(case: Case) -> bool:
    """Whether the sample declares how large numbers are."""
    described = [spec for _, spec in case.sample_tensors() if isinstance(spec, TensorSpec)]
    return any(spec.low is not None or spec.high is not None for spec in described)


def _script(case: Case, dtypes: Dtypes, difference: Difference, factor: float) -> str:
    narrow, wide = dtypes
    return call_lines(difference.name, narrow) + _SCRIPT.format(
        narrow=narrow,
        factor="" if factor == 1.0 else f" * {factor!r}",
        wide=wide,
        at=position(case, difference.name),
        element=difference.element,
        allowed=difference.allowed,
    )


_SCRIPT = """
def cast(dtype):
    # only numbers that the narrower dtype holds
    def one(each):
        if each.dtype not in ({narrow}, {wide}):
            return each
        return (each.detach(){factor}).to({narrow}).to(dtype).requires_grad_(each.requires_grad)

    return tree_map_only(torch.Tensor, one, inputs())


got = call(*cast({narrow}))[{at}].flatten()[{element}]
expected = call(*cast({wide}))[{at}].flatten()[{element}]
torch.testing.assert_close(got, expected, rtol=0.0, atol={allowed!r}, check_dtype=False)
"""

CHECK = Check(
    name="relations.precision",
    summary="a dtype gives the same as a wider one, within its own precision",
    run=check_precision,
    variants=("dtype", "magnitudes", "values", "long"),
    cheap=True,
    findings=FINDINGS,
    catches=(
        "Different results or gradients for the same numbers in a wider dtype: float32 and float64, half "
        "precision and float32. They may differ by several times what results change when inputs move by "
        "roundings of the narrower dtype, and by what additions in it explain. Integers and booleans count "
        "where moved inputs do not change them. A finding is a note where the mark lists dtypes and the "
        "wider one is not among them. On variants with other values: results that are NaN or infinite in "
        "the narrower dtype alone, such as an exponential that overflows, or a sum of exponentials that "
        "vanishes. Also, as a note, digits that cancel where numbers are large and near to each other. In "
        "float16, also numbers scaled up so that the largest is 300: a square that overflows. Variants "
        "with a long dim are compared in bfloat16 (if the mark lists dtypes, it must list this one): a sum "
        "that is kept in bfloat16 stands still at a few hundred. In float64, which has no wider dtype: "
        "results and gradients that consist of float32 numbers, though the inputs do not. Also those that "
        "stay the same for numbers of an argument that float32 rounds to one, but change for others. Both "
        "are checked where the mark lists float64, the sample's tensors have it, or a docstring names it. "
        "For an op whose Python code makes tensors, also results that change once float64 is torch's "
        "default dtype: a note where none of these names float64."
    ),
    cannot_see=(
        "A mistake that both dtypes share, and differences below 0.2 % of the largest result (2 % in "
        "float16, 10 % in bfloat16). Ops that draw random numbers, or may. Results whose size depends on "
        "the dtype, and results that are no tensors. An op that rejects the wider dtype is left alone. "
        "Sums in bfloat16 by torch's index_add, index_put, scatter_add and the like."
    ),
    cost="calls",
)
