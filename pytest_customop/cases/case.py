"""The case that a check gets: fresh inputs for every use, and one eager result that all checks share."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from ..compat.nodes import rejects_backward
from ..core import rng
from ..core.tracebacks import ends_test, is_own_bug
from ..core.watchdog import ended_if_waiting
from ..declare.inputs import ErrorSample, GradOptions, Sample, TensorSpec
from ..declare.mistakes import MarkError
from ..declare.ops import Op
from .arguments import Arguments, Placement, draw, dtype_of
from .describe import describe, summary
from .run import Run, gradients, random_like
from .template import described, redrawn, sizes_besides
from .tensors import (
    DEFAULT_TOLERANCES,
    base_name,
    is_differentiable,
    leaves,
)

Tolerances = Mapping[torch.dtype, tuple[float, float]]
_KEPT_BYTES = 2**18  # the most bytes of inputs and outputs that a variant keeps between checks


@dataclass(frozen=True, eq=False)
class Case:
    """A sample on one device, in one dtype, with or without gradients, in one memory layout.

    Args:
        op: the op.
        sample: the described arguments.
        placement: device, dtype, requires_grad and layout.
        id: the case's part of the test id, without the check: `cpu-float32-withgrad-wide`.
        seed: the seed of everything random in the case.
        tolerances: by dtype, from the mark; dtypes that are missing take torch's own.
        gradcheck: how gradients are compared, or why they are not.
        backend: the `torch.compile` backend.
        sample_id, axes: as in the id.
        reference: a function with the op's arguments that gives the right results; None without one.
        reference_device: the device whose results the case is compared with; None on that device itself,
            and where the mark runs on one device only.
        base_case: the case of the sample that this case is a variant of; None for a sample's own case.
        variant: the step from `base_case` to this one, as in the id; None for a sample's own case.
        variant_description: what was changed in `base_case`; empty for a sample's own case.
        kind, aspect: what differs from `base_case` (see `Variant`); empty for a sample's own case.
        beyond: why a variant leaves what its sample shows; None if it stays within.
        strict: whether a note counts as a failure.
    """

    op: Op
    sample: Sample
    placement: Placement
    id: str = "0"
    seed: int = 0
    tolerances: Tolerances | None = None
    gradcheck: GradOptions | str = GradOptions()  # noqa: RUF009 -- frozen
    backend: str = "inductor"
    sample_id: str = "0"
    axes: Mapping[str, Any] | None = None
    reference: Callable[..., Any] | None = None
    reference_device: str | None = None
    base_case: Case | None = None
    variant: str | None = None
    variant_description: str = ""
    kind: str = ""
    aspect: str = ""
    beyond: str | None = None
    strict: bool = False

    @property
    def requires_grad(self) -> bool:
        """Whether this is a case with gradients."""
        return self.placement.requires_grad

    @property
    def may_take_other_branches(self) -> bool:
        """Whether a check that calls the op in several ways makes all of its calls on this case.

        It does so on samples, and on variants with other arguments, which may run other code. The other
        variants only call the sample's code in one more way.
        """
        return self.base_case is None or self.kind == "arguments"

    @property
    def asks_gradients(self) -> bool:
        """Whether this is a case with gradients because the mark gives `requires_grad`."""
        return self.requires_grad and self.placement.gradients_asked

    @property
    def error_sample(self) -> ErrorSample | None:
        """The sample, if it is one that the op must reject; else None."""
        return self.sample if isinstance(self.sample, ErrorSample) else None

    @functools.cached_property
    def _drawn(self) -> Arguments:
        return draw(self.op, self.sample, self.placement, self.seed)

    def draw(self) -> None:
        """Draw the inputs now instead of at their first use.

        Raises:
            MarkError: if torch cannot make one of the tensors.
        """
        self._drawn  # noqa: B018 -- computed once

    def release(self) -> None:
        """Free all kept tensors. They are computed again when they are used."""
        for kept in ("_drawn", "eager", "eager_gradients"):
            self.__dict__.pop(kept, None)

    def release_if_large(self) -> None:
        """Free the kept tensors if keeping them costs more memory than the saved time is worth."""
        eager = vars(self).get("eager")
        kept = [tensor for _, tensor in eager.outputs] if eager is not None else []
        if "_drawn" in vars(self):
            kept += [tensor for _, tensor in self._drawn.tensors()]
        if sum(tensor.numel() * tensor.itemsize for tensor in kept) > _KEPT_BYTES:
            self.release()

    def inputs(self) -> Arguments:
        """Fresh arguments: the same values each time, in their own storage."""
        return self._drawn.copy()

    def run(self, arguments: Arguments) -> Run:
        """Call the op in the current grad mode, with the random streams seeded by the case's seed.

        An exception of the op is returned in `Run.error`, not raised.

        Raises:
            LimitExceeded: if the op waits for a long time and computes nothing.
        """
        rng.seed(self.seed)
        try:
            with ended_if_waiting():
                return Run(arguments, arguments.call())
        except BaseException as error:  # whatever an op raises is a result here
            if ends_test(error) or is_own_bug(error):
                raise
            return Run(arguments, error=error)

    @functools.cached_property
    def eager(self) -> Run:
        """The call in eager mode, made once and shared by all checks. Do not write to its tensors."""
        return self.run(self.inputs())

    @property
    def has_run(self) -> bool:
        """Whether the result of `eager` is kept."""
        return "eager" in vars(self)

    @property
    def rejects_backward(self) -> bool:
        """Whether the op is registered as one without a formula, so that its backward raises.

        In C++ the kernel `torch::autograd::autogradNotImplementedFallback()` does that.
        """
        outputs = self.eager.differentiable_outputs
        return bool(outputs) and all(rejects_backward(output) for _, output in outputs)

    def grad_outputs(self, outputs: list[tuple[str, torch.Tensor]]) -> list[torch.Tensor]:
        """A normally distributed grad_output for each output, with the output's strides."""
        return [
            random_like(tensor, self.seed + 1 + index) for index, (_, tensor) in enumerate(outputs)
        ]

    @functools.cached_property
    def eager_gradients(self) -> dict[str, torch.Tensor | None]:
        """The gradient of each differentiable argument for `grad_outputs`, by argument name."""
        return self.gradients_of(self.run(self.inputs()))

    def gradients_of(self, run: Run) -> dict[str, torch.Tensor | None]:
        """The gradient of each differentiable argument of a call; empty if no gradient can be taken."""
        outputs = run.differentiable_outputs
        if run.error is not None or not outputs:
            return {}
        return gradients(run.arguments, outputs, self.grad_outputs(outputs))

    def tolerance(self, dtype: torch.dtype) -> tuple[float, float]:
        """(rtol, atol) for values of this dtype."""
        default = DEFAULT_TOLERANCES.get(dtype, (0.0, 0.0))
        return (self.tolerances or {}).get(dtype, default)

    def as_beyond(self, reason: str) -> Case:
        """The same case as one beyond its sample, where a finding is a note; it may be one already."""
        return replace(self, beyond=self.beyond or reason)

    def widened(self) -> Case:
        """The same case in float64 or complex128: every floating-point input cast up.

        The values are drawn in the case's own dtype and then cast, so they are the same numbers.
        Drawing them raises a RuntimeError where the device has no such dtype.
        """
        return _WideCase(**{name: getattr(self, name) for name in self.__dataclass_fields__})

    def on_device(self, device: str) -> Case:
        """The same case on another device: equal values, in tensors of that device."""
        return replace(
            self, placement=replace(self.placement, device=device), reference_device=None
        )

    def _named_sample(self) -> list[tuple[str, Any]]:
        """(name, value) of each argument that the sample gives."""
        positional = self.op.positional_names
        return [*zip(positional, self.sample.args, strict=False), *self.sample.kwargs.items()]

    def sample_tensors(self) -> list[tuple[str, TensorSpec | torch.Tensor]]:
        """(path, description or tensor) of each tensor that the sample gives."""
        return [
            (path, leaf)
            for name, value in self._named_sample()
            for path, leaf in leaves(value, name)
            if isinstance(leaf, (TensorSpec, torch.Tensor))
        ]

    @functools.cached_property
    def has_integer_tensors(self) -> bool:
        """Whether the sample gives an integer tensor; boolean ones do not count."""
        tensors = [tensor for _, tensor in self.sample_tensors()]
        dtypes = [
            dtype_of(tensor, self.placement.dtype)
            if isinstance(tensor, TensorSpec)
            else tensor.dtype
            for tensor in tensors
        ]
        return any(not is_differentiable(dtype) and dtype != torch.bool for dtype in dtypes)

    def resized(self, change: Callable[[str, int, int], int]) -> Case | None:
        """The same case with other sizes; None if its inputs cannot be drawn at another size.

        Args:
            change: (argument path, dim, size) -> the new size.
        """
        shapes = {path: tuple(leaf.shape) for path, leaf in self.sample_tensors()}
        values = [
            _resize(value, name, change, self.placement, shapes)
            for name, value in self._named_sample()
        ]
        if any(value is _CANNOT for value in values):
            return None
        count = len(self.sample.args)
        kwargs = dict(zip(self.sample.kwargs, values[count:], strict=True))
        return replace(self, sample=Sample(tuple(values[:count]), kwargs, self.sample.id))

    def describe(self) -> list[str]:
        """One line per argument: its name, its description, and the tensors that were drawn.

        The tensors are missing if the inputs cannot be drawn.
        """
        drawn: dict[str, list[str]] = {}
        try:
            for name, tensor in self._drawn.tensors():
                drawn.setdefault(base_name(name), []).append(summary(tensor))
        except MarkError:  # the inputs cannot be drawn; the result reports it
            drawn.clear()
        return [
            f"{name} = {describe(value)}"
            + (f": {', '.join(drawn[name])}" if _is_described(value) and name in drawn else "")
            for name, value in self._named_sample()
        ]


class _WideCase(Case):
    """A case whose floating-point inputs are cast to float64 or complex128."""

    @functools.cached_property
    def _drawn(self) -> Arguments:
        drawn = draw(self.op, self.sample, self.placement, self.seed)
        return drawn.map(_widen)


def _widen(tensor: torch.Tensor) -> torch.Tensor:
    if not is_differentiable(tensor.dtype):
        return tensor
    wide = torch.complex128 if tensor.dtype.is_complex else torch.float64
    if tensor.dtype == wide:
        return tensor
    try:
        value = tensor.detach().to(wide)
    except TypeError as error:  # MPS tensors have no float64
        raise NotImplementedError(str(error)) from error
    return value.requires_grad_(tensor.requires_grad)


def _is_described(value: Any) -> bool:
    listed = value if isinstance(value, (list, tuple)) else [value]
    return any(isinstance(element, TensorSpec) for element in listed)


_CANNOT = object()


def _resize(
    value: Any,
    name: str,
    change: Callable[[str, int, int], int],
    placement: Placement,
    shapes: Mapping[str, tuple[int, ...]],
) -> Any:
    if isinstance(value, (TensorSpec, torch.Tensor)):
        shape = tuple(change(name, dim, size) for dim, size in enumerate(value.shape))
        if shape == tuple(value.shape):
            return value
        spec = value if isinstance(value, TensorSpec) else described(value, placement)
        if spec is None:
            return _CANNOT
        new_spec = redrawn(
            spec, dtype_of(spec, placement.dtype), shape, sizes_besides(name, shapes)
        )
        return _CANNOT if new_spec is None else new_spec
    if isinstance(value, (list, tuple)):
        resized = [
            _resize(element, f"{name}[{index}]", change, placement, shapes)
            for index, element in enumerate(value)
        ]
        return _CANNOT if any(element is _CANNOT for element in resized) else type(value)(resized)
    return value
