"""`backward.narrow`: a rough finite-difference check for ops that cannot compute in float64."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ...cases.case import Case
from ...cases.tensors import Copier, in_double, is_plain, largest_magnitude
from ...core.tracebacks import reraise_bug
from ...findings import CheckFailed, CheckSkipped, fail, skip
from ..check import Check
from .scripts import GRAPH, filled
from .vjp import Graph, Reference, call

_MOST = 6  # arguments
_DRAWS, _FEW, _LARGE = 8, 3, 4096  # directions; fewer above _LARGE elements, which average out
_STEPS = (2.0**-4, 2.0**-6, 2.0**-8, 2.0**-2)  # in units of the size of the argument
_WRONG = 0.3  # a relative error above this is a finding
_TINY = float(torch.finfo(torch.float32).tiny)  # below it, numbers lose digits or become 0
_SLIGHTLY = 2.0**-10
_KINK = 0.5  # of the error: how much the one-sided differences may differ
_ROUGH = 0.1  # the allowed relative difference between two steps


def check_narrow(case: Case) -> None:
    """Compare gradients with finite differences in the op's own dtype, where float64 does not work.

    Only an error above 30% is a finding, and only if three steps agree on it.
    """
    if isinstance(case.gradcheck, str):
        raise skip("left-out", case.gradcheck, unjudged=False)
    reference = Reference.of(case)
    if _judged_in_float64(case):
        raise skip("nothing-to-check", "gradcheck.backward judges this case", unjudged=False)
    probe = _Probe(reference)
    names = [name for name, tensor in probe.graph.inputs if _movable(tensor)]
    if not names:
        raise skip("nothing-to-check", "no argument can be moved", unjudged=False)
    verdicts = [probe.verdict(name) for name in names[:_MOST]]
    if not any(verdicts):
        raise skip("not-smooth", "finite differences are too rough in this dtype", unjudged=False)


def _movable(tensor: Tensor) -> bool:
    return is_plain(tensor) and tensor.numel() > 0 and 0 not in tensor.stride()


def _judged_in_float64(case: Case) -> bool:
    """Whether forward and backward work in float64, and outputs have more precision than float32."""
    wide = case.widened()
    try:
        arguments = wide.inputs().map(_moved_slightly)
        graph = Graph(wide, arguments)
        graph.vjp(graph.given(graph.random(0)))
    except Exception as error:  # whatever the op raises for float64
        reraise_bug(error)
        return False
    return not all(_holds_float32(output) for _, output in graph.outputs)


def _moved_slightly(tensor: Tensor) -> Tensor:
    """A copy; if it requires gradients, with unequal values that float32 cannot represent."""
    copy = Copier()(tensor)
    if tensor.requires_grad and _movable(tensor):
        steps = torch.arange(tensor.numel(), dtype=torch.float64, device=tensor.device)
        copy.mul_((1 + _SLIGHTLY * (1 + steps.sin())).reshape(tensor.shape))
    return copy.requires_grad_(tensor.requires_grad)


def _holds_float32(tensor: Tensor) -> bool:
    value = tensor.detach()
    if value.dtype not in (torch.float64, torch.complex128):
        return True
    narrow = torch.complex64 if value.is_complex() else torch.float32
    return torch.equal(value.to(narrow).to(value.dtype).nan_to_num(), value.nan_to_num())


@dataclass(frozen=True)
class _Measured:
    """Differences along random directions, and what the gradients predict for them.

    Args:
        differences: the changes of the weighted outputs, one for each direction.
        predicted: the changes that the gradients predict.
        size: the larger root mean square of the two.
        rounding: the rounding error of the differences.
    """

    differences: Tensor
    predicted: Tensor
    size: float
    rounding: float

    @property
    def error(self) -> float:
        """The relative difference between the two."""
        largest = max(_rms(self.differences), _rms(self.predicted), 1e-300)
        return _rms(self.differences - self.predicted) / largest


class _Probe:
    """Calls the op of a case at points near its arguments."""

    def __init__(self, reference: Reference) -> None:
        self.reference = reference
        self.case = reference.case
        self.graph = Graph(self.case)
        self._outputs = [name for name, _ in self.graph.outputs]
        self._eps = max(torch.finfo(dtype).eps for dtype in self.graph.dtypes)

    def verdict(self, name: str) -> bool:
        """Whether the gradient of an argument is right. False means undecided.

        Raises:
            CheckFailed: if it is wrong.
        """
        tensor = dict(self.graph.inputs)[name]
        scale = largest_magnitude(in_double(tensor)) or 1.0
        for share in _STEPS:
            step = share * scale
            try:
                far, near = self._measure(name, step), self._measure(name, step / 2)
            except CheckSkipped:
                continue
            if far is None or near is None or not _agree(far, near):
                continue
            if far.error < _WRONG and near.error < _WRONG:
                return True
            if far.error > _WRONG and near.error > _WRONG and self._confirmed(name, near, step / 4):
                if self._is_kink(name, near, step / 2):
                    return False
                raise self._finding(name, near, step / 2)
        return False

    def _confirmed(self, name: str, near: _Measured, step: float) -> bool:
        """Whether half the step shows the same error. At the jumps of a step function it does not."""
        nearer = self._measure(name, step)
        return nearer is not None and _agree(near, nearer) and nearer.error > _WRONG

    def _is_kink(self, name: str, near: _Measured, step: float) -> bool:
        """Whether the one-sided differences differ about as much as the error.

        At a kink, such as the maximum of two equal elements, the gradient belongs to one side.
        """
        wrong = _rms(near.differences - near.predicted)
        _, here = self._at(name, torch.zeros((), dtype=torch.float64))
        bends = []
        for draw in range(len(near.differences)):
            signs = self._signs(name, draw)
            (_, above), (_, below) = (self._at(name, sign * step * signs) for sign in (1.0, -1.0))
            if here is None or above is None or below is None:
                return True
            terms = zip(self.reference.weights, above, here, below, strict=True)
            bends.append(
                sum(
                    float((weight.conj() * (high - 2 * middle + low)).real.sum())
                    for weight, high, middle, low in terms
                )
            )
        return _rms(torch.tensor(bends, dtype=torch.float64)) > _KINK * wrong

    def _measure(self, name: str, step: float) -> _Measured | None:
        gradient = self.reference.gradients.get(name)
        differences, predicted, rounding = [], [], 0.0
        elements = dict(self.graph.inputs)[name].numel()
        for draw in range(_FEW if elements > _LARGE else _DRAWS):
            signs = self._signs(name, draw)
            (up, above), (down, below) = (
                self._at(name, sign * step * signs) for sign in (1.0, -1.0)
            )
            if above is None or below is None:
                return None
            weights = self.reference.weights
            terms = [
                (weight.conj() * (high - low)).real
                for weight, high, low in zip(weights, above, below, strict=True)
            ]
            differences.append(sum(float(term.sum()) for term in terms))
            moved = up - down
            predicted.append(
                0.0 if gradient is None else float((gradient.conj() * moved).real.sum())
            )
            noise = sum(
                float((weight.abs() * value.abs()).square().sum())
                for weight, value in zip(weights, above, strict=True)
            )
            rounding = max(rounding, 2 * self._eps * noise**0.5, _TINY)
        slopes = torch.tensor([differences, predicted], dtype=torch.float64)
        if not slopes.isfinite().all():
            return None
        return _Measured(slopes[0], slopes[1], max(_rms(slopes[0]), _rms(slopes[1])), rounding)

    def _signs(self, name: str, draw: int) -> Tensor:
        tensor = dict(self.graph.inputs)[name]
        generator = torch.Generator().manual_seed((self.case.seed + draw) % 2**63)
        wide = torch.complex128 if tensor.is_complex() else torch.float64
        drawn = torch.randn(tensor.shape, generator=generator, dtype=wide)
        return (drawn / drawn.abs()).to(tensor.device)

    def _at(self, name: str, shift: Tensor) -> tuple[Tensor, list[Tensor] | None]:
        """The changed argument, and the outputs there; None if their number or shapes differ."""
        template = self.graph.arguments
        arguments = template.copy()
        moved = dict(arguments.tensors())[name]
        with torch.no_grad():
            moved.copy_(in_double(moved) + shift)
        point = in_double(moved)
        run = call(self.case, arguments)
        outputs_by_name = dict(run.outputs)
        outputs = [outputs_by_name.get(output_name) for output_name in self._outputs]
        values = [in_double(output) for output in outputs if output is not None]
        shapes = [output.shape for _, output in self.graph.outputs]
        return point, values if [value.shape for value in values] == shapes else None

    def _finding(self, name: str, seen: _Measured, step: float) -> CheckFailed:
        position = [input_name for input_name, _ in self.graph.inputs].index(name)
        missing = not bool(seen.predicted.any())
        drawn = ", ".join(f"{change:.3g}" for change in seen.differences[:4])
        due = ", ".join(f"{change:.3g}" for change in seen.predicted[:4])
        what = (
            "is missing: the formula gives none, or zeros, but the outputs depend on the argument"
            if missing
            else f"is off by {seen.error:.0%}"
        )
        return fail(
            "gradient-missing" if missing else "gradient-mismatch",
            f"the gradient for `{name}` {what}: along random directions the weighted outputs change "
            f"by {drawn}, but the gradient predicts {due}",
            repro=_script(position, step),
        )


def _agree(far: _Measured, near: _Measured) -> bool:
    """Whether two steps give the same derivative, and it is above rounding."""
    size = max(_rms(far.differences), _rms(2 * near.differences))
    if size == 0.0:
        return _rms(near.predicted) == 0.0
    if near.size < 10 * near.rounding:
        return False
    return _rms(far.differences - 2 * near.differences) < _ROUGH * size


def _rms(values: Tensor) -> float:
    return float(values.square().mean().sqrt())


_SCRIPT = (
    GRAPH
    + """
drawn, expected = [], []
args, kwargs = inputs()
found = gradients(outputs, leaves, grads)
for trial in range(8):
    torch.manual_seed(trial)
    steps = [torch.randn_like(each).sgn() * STEP * (at == WHICH) for at, each in enumerate(leaves)]
    moved = []
    for sign in (1, -1):
        original, rest = inputs, iter(steps)
        inputs = lambda: torch.utils._pytree.tree_map_only(
            torch.Tensor,
            lambda each: (each.detach() + sign * next(rest)).requires_grad_()
            if each.requires_grad else each,
            original(),
        )
        moved.append(call())
        inputs = original
    (_, up, above), (_, down, below) = moved
    drawn.append(sum(
        (each.conj() * (one - two)).real.sum().item() for each, one, two in zip(grads, above, below)
    ))
    expected.append(sum(
        (each.conj() * (one - two)).real.sum().item() for each, one, two in zip(found, up, down)
    ))
drawn, expected = torch.tensor([drawn, expected])
error = (drawn - expected).norm() / torch.maximum(drawn.norm(), expected.norm())
assert error < 0.3, f"finite differences and gradients differ by {error:.0%}"
"""
)


def _script(which: int, step: float) -> str:
    """Lines that compare with differences along random directions in one argument."""
    return filled(_SCRIPT, WHICH=which, STEP=repr(step))


CHECK = Check(
    name="backward.narrow",
    summary="gradients roughly equal finite differences, for ops that reject or round float64",
    run=check_narrow,
    variants=("shape", "large", "arguments"),
    gradients=True,
    needs_autograd=True,
    catches=(
        "A missing gradient, a wrong sign or a factor of two in ops that reject float64 or "
        "round it: gradients are compared roughly with finite differences in the op's own "
        "dtype."
    ),
    cannot_see=(
        "An error below 30%. If two steps disagree (a kink, a grid), the check does not judge."
    ),
    cost="many calls",
)
