"""The strategies of `pytest_customop.strategies`."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from hypothesis import reject
from hypothesis import strategies as st

from ..cases.arguments import Placement, dense_values
from ..cases.case import Case
from ..core.seeds import seed_of
from ..core.suggest import unknown
from ..declare.inputs import TensorSpec, tensor
from ..declare.layouts import LAYOUTS, Layout, lay_out, layout_named
from ..declare.ops import resolve
from ..declare.samples import read_samples
from ..declare.variant import KINDS
from ..global_state.preserve import preserved_state
from ..plan.variants.sample_view import SampleView, TensorArgument
from .elements import Draw, with_elements
from .inputs import SALTS, Generated, Rules, inputs
from .paste import as_sample

_USUAL = ("layout", "shape", "values", "magnitudes", "positions", "arguments", "alias")


class Call:
    """One drawn argument list of an op; call it to run the op on fresh tensors.

    It prints as the `Sample(...)` to paste into a mark.

    Attributes:
        args: the positional arguments.
        kwargs: the keyword arguments.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __init__(self, case: Case) -> None:
        self._case = case
        self.args, self.kwargs = self.inputs()

    def inputs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Fresh positional and keyword arguments: equal values, in memory of their own."""
        with preserved_state():
            arguments = self._case.inputs()
        return arguments.args, dict(arguments.kwargs)

    def __call__(self) -> Any:
        """Run the op on fresh inputs and return its result."""
        args, kwargs = self.inputs()
        return self._case.op(*args, **kwargs)

    def __repr__(self) -> str:
        return as_sample(self._case, listed=True)


def samples(
    op: Any,
    like: Sequence[Any],
    *,
    dtype: torch.dtype | None = None,
    requires_grad: bool = False,
    kinds: Sequence[str] = _USUAL,
    within: bool = True,
    accepted: bool = True,
) -> st.SearchStrategy[Call]:
    """A strategy for argument lists of an op that are similar to some samples.

    Sizes that are equal in a sample stay equal, values stay in its range, and other arguments change as
    in the variants of a sample.

    Args:
        op: as in `customop_cases`.
        like: samples of the op, as in `customop_cases`.
        dtype: the dtype of tensors that are described without one; None: torch's default dtype.
        requires_grad: whether the tensors that can require gradients do.
        kinds: the kinds of variants that may be applied, by name.
        within: whether arguments beyond what the samples show are left out.
        accepted: whether arguments that the op rejects are left out. To find out, the op is called once.

    Raises:
        MarkError: for invalid samples.
        OpError: if `op` is not an op, or if arguments do not fit its schema.
        ValueError: for an unknown kind.
    """
    for kind in kinds:
        if kind not in KINDS:
            raise ValueError(unknown("kind of variants", kind, KINDS))
    resolved = resolve(op)
    parsed = read_samples(like, resolved, "like")
    rules = Rules(frozenset(kinds), within=within)
    where = Placement(
        device="cpu",
        dtype=dtype or torch.get_default_dtype(),
        requires_grad=requires_grad,
        layout="contiguous",
        cast_real=dtype,
        switch_real=requires_grad,
    )
    templates = [SampleView(resolved, sample, where) for sample in parsed]

    def as_call(generated: Generated) -> Call:
        case = Case(
            op=resolved,
            sample=generated.variant.sample,
            placement=where,
            seed=seed_of(generated.salt),
        )
        if accepted:
            with preserved_state():
                error = case.run(case.inputs()).error
            if error is not None:
                reject()
        return Call(case)

    return inputs(templates, rules).map(as_call)


def tensors(
    *shape: int | st.SearchStrategy[int],
    dtype: torch.dtype = torch.float32,
    low: float | None = None,
    high: float | None = None,
    layouts: Sequence[Layout] = ("contiguous",),
    requires_grad: bool = False,
) -> st.SearchStrategy[torch.Tensor]:
    """A strategy for tensors.

    Args:
        shape: the sizes: integers, or strategies for integers. Sizes of several tensors stay equal if they
            are one `hypothesis.strategies.shared(...)`.
        dtype: the dtype of the tensors.
        low, high: the half-open range of the values, as of `pytest_customop.tensor`.
        layouts: the memory layouts to draw from.
        requires_grad: whether they require gradients.

    Raises:
        TypeError: for an invalid size or dtype.
        ValueError: for an empty range, and for an unknown layout.
    """
    tensor(dtype=dtype, low=low, high=high)  # raises for a wrong range
    for layout in layouts:
        if layout not in LAYOUTS:
            raise ValueError(unknown("layout", str(layout), LAYOUTS))
    for size in shape:
        if not isinstance(size, st.SearchStrategy):
            tensor(size)

    @st.composite
    def drawn(draw: Draw) -> torch.Tensor:
        sizes = [draw(size) if isinstance(size, st.SearchStrategy) else size for size in shape]
        spec: TensorSpec = tensor(sizes, dtype=dtype, low=low, high=high)
        argument = TensorArgument("x", spec, dtype, frozenset(), mutated=False, wants_grad=False)
        kind = "values" if argument.floating else "positions"
        if draw(st.booleans()):
            spec = with_elements(draw, argument, kind) or spec
        fitting = [layout for layout in layouts if _fits(layout, spec)]
        layout = draw(st.sampled_from(fitting)) if fitting else "contiguous"
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(draw(st.integers(0, SALTS)))
            dense = dense_values(spec, dtype)
        return lay_out(dense, layout).requires_grad_(requires_grad)

    return drawn()


def _fits(layout: str, spec: TensorSpec) -> bool:
    return layout == "contiguous" or (
        prod(spec.shape) > 0 and layout_named(layout).changes(spec.shape)
    )
