"""`backward.layouts`: the gradients do not depend on the memory layout of grad_output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ...cases.case import Case
from ...cases.guarded import LAY_OUT, guarded, guarded_place
from ...cases.tensors import is_plain
from ...core.tracebacks import error_line, reraise_bug, traceback_text
from ...declare.layouts import (
    CHANNELS_LAST,
    CONJUGATED,
    EXPANDED,
    OFFSET,
    ROW_PADDED,
    STRIDED,
    TRANSPOSED,
    MemoryLayout,
)
from ...findings import CheckSkipped, Explanation, doc_links, fail
from ..check import Check
from .scripts import GRAPH, filled
from .vjp import Gradients, Graph, Reference, Row, table

EXPANDED_ALL = MemoryLayout(
    "expanded_all",
    "expanded over all its dims",
    lambda shape, padding: [0] * len(shape),
)


@dataclass(frozen=True)
class _Layout:
    """One layout of a grad_output.

    Args:
        name, description: as in `MemoryLayout`.
        source: code that uses the op's output `y` and makes autograd send such a grad_output.
        lay_out: gives the layout to a dense tensor; None if that would change nothing.
        expression: gives the same as source text, from the tensor and its name in a script.
        repeats: whether different elements become equal.
    """

    name: str
    description: str
    source: str
    lay_out: Callable[[Tensor], Tensor | None]
    expression: Callable[[Tensor, str], str]
    repeats: bool = False


def _in_memory(layout: MemoryLayout, source: str, *, least_dims: int = 0) -> _Layout:
    """A layout with NaN between the elements, for tensors of at least `least_dims` dims."""

    def lay_out(dense: Tensor) -> Tensor | None:
        if dense.dim() < least_dims or not layout.changes(dense.shape):
            return None
        return guarded(dense, guarded_place(dense, layout))

    def expression(dense: Tensor, name: str) -> str:
        place = guarded_place(dense, layout)
        return f"lay_out({name}, {place.strides}, {place.offset}, {place.size})"

    repeats = layout in (EXPANDED, EXPANDED_ALL)
    return _Layout(layout.name, layout.description, source, lay_out, expression, repeats)


_LAYOUTS = (
    _in_memory(EXPANDED_ALL, "y.sum()"),
    _in_memory(EXPANDED, "y.sum(0)", least_dims=2),  # with one dim it equals EXPANDED_ALL
    _in_memory(TRANSPOSED, "y.mT"),
    _in_memory(ROW_PADDED, "torch.cat((y, ...), -1)"),
    _in_memory(STRIDED, "torch.stack((y, ...), -1)"),
    _in_memory(CHANNELS_LAST, "a channels_last convolution"),
    _in_memory(OFFSET, "torch.cat((..., y))"),
    _Layout(
        "conjugated",
        CONJUGATED,
        "y.conj()",
        lambda dense: dense.conj().resolve_conj().conj() if dense.is_complex() else None,
        lambda dense, name: f"{name}.conj().resolve_conj().conj()",
    ),
)


def check_layouts(case: Case) -> None:
    """Compare the gradients for grad_outputs in other layouts with those for contiguous copies."""
    reference = Reference.of(case)
    comparison = _LayoutComparison(reference)
    rows: list[Row] = []
    for layout in _LAYOUTS:
        positions = comparison.positions(layout)
        if not positions:
            continue
        layout_rows = comparison.rows(layout, positions)
        rows += layout_rows
        if any(row.wrong for row in layout_rows):
            raise comparison.mismatch(layout, positions, rows)


class _LayoutComparison:
    """The backward of a case with grad_outputs in one layout at a time."""

    def __init__(self, reference: Reference) -> None:
        self.reference = reference
        self.graph = Graph(reference.case)
        self.dense = [
            torch.empty(output.shape, dtype=output.dtype, device=output.device).copy_(weight)
            for (_, output), weight in zip(self.graph.outputs, reference.weights, strict=True)
        ]
        self._plain = [is_plain(output) for _, output in self.graph.outputs]

    def positions(self, layout: _Layout) -> list[int]:
        """The positions of the outputs that the layout changes."""
        return [
            at
            for at, dense in enumerate(self.dense)
            if self._plain[at] and layout.lay_out(dense) is not None
        ]

    def rows(self, layout: _Layout, chosen: list[int]) -> list[Row]:
        """Compare the gradients for grad_outputs in a layout with those for contiguous copies.

        Args:
            layout: the layout.
            chosen: the positions of the grad_outputs that get it.

        Raises:
            CheckFailed: if the backward raises for them.
        """
        laid_out = [grad.clone() for grad in self.dense]
        for at in chosen:
            placed = layout.lay_out(laid_out[at])
            assert placed is not None
            laid_out[at] = placed
        expected = self.reference.gradients
        if layout.repeats:
            dense = [grad.clone(memory_format=torch.contiguous_format) for grad in laid_out]
            try:
                expected = self._gradients(dense)
            except Exception as error:  # whatever a backward raises for these values
                reraise_bug(error)
                return []
        try:
            actual = self._gradients(laid_out)
        except CheckSkipped:
            raise
        except Exception as error:  # whatever a backward raises
            reraise_bug(error)
            raise self._rejection(layout, chosen, error) from error
        return self.reference.rows(f"{layout.name} ({layout.source})", actual, expected)

    def _gradients(self, weights: list[Tensor]) -> Gradients:
        """The gradients on a new graph; `backward.intact` covers a second backward over one graph."""
        return Graph(self.reference.case).vjp(weights)

    def _rejection(self, layout: _Layout, chosen: list[int], error: Exception) -> Exception:
        return fail(
            "grad-output-layout-refused",
            f"for {self._description(layout, chosen)} the backward raises {error_line(error)}",
            traceback_text(error),
            repro=self._script(layout, chosen),
            shown=f"with {self._description(layout, chosen)}",
        )

    def mismatch(self, layout: _Layout, all_positions: list[int], rows: list[Row]) -> Exception:
        """The finding, reduced to one output if one is enough."""
        positions = all_positions
        for at in all_positions if len(all_positions) > 1 else []:
            if any(row.wrong for row in self.rows(layout, [at])):
                positions = [at]
                break
        wrong = next(row for row in rows if row.wrong)
        return fail(
            "grad-output-layout-ignored",
            f"for {self._description(layout, positions)} the gradient for `{wrong.input}` is "
            f"{wrong.actual}, and {wrong.expected} for the same grad_output in contiguous memory",
            table(rows),
            repro=self._script(layout, positions),
            shown=f"with {self._description(layout, positions)}",
        )

    def _script(self, layout: _Layout, chosen: list[int]) -> str:
        named = {at: f"grads[{at}]" for at in chosen}
        return _script(
            {name: layout.expression(self.dense[at], name) for at, name in named.items()}
        )

    def _description(self, layout: _Layout, chosen: list[int]) -> str:
        outputs = self.graph.outputs
        of = f" of {outputs[chosen[0]][0]}" if len(chosen) == 1 and len(outputs) > 1 else ""
        return f"a grad_output{of} {layout.description} (as from {layout.source})"


_SCRIPT = (
    GRAPH
    + """
PLACED
dense = [torch.empty_like(each).copy_(one) for each, one in zip(grads, laid_out)]
assert_same(gradients(outputs, leaves, laid_out), gradients(outputs, leaves, dense))
"""
)


def _script(placed: dict[str, str]) -> str:
    """Lines that give grad_outputs in a layout.

    Args:
        placed: for a grad_output, `grads[0]`, the expression that lays it out.
    """
    lines = [f"{name.replace('grads', 'laid_out')} = {how}" for name, how in placed.items()]
    lay_out = LAY_OUT if "lay_out(" in "".join(placed.values()) else ""
    return lay_out + filled(_SCRIPT, PLACED="\n".join(["laid_out = list(grads)", *lines]))


FINDINGS = {
    "grad-output-layout-refused": Explanation(
        meaning="The backward raises for a grad_output that is not contiguous.",
        why=(
            "The author of the loss does not choose the layout: y.sum() sends an expanded "
            "grad_output, y.mT a transposed one, torch.cat a slice of a larger one. Tests "
            "pass if their consumer happens to send a contiguous one."
        ),
        fix=(
            "Call grad = grad.contiguous() before code that needs it, and reshape() in place "
            "of view()."
        ),
        before="""
def backward(ctx, grad):
    return grad.view(-1)[ctx.places]
""",
        after="""
def backward(ctx, grad):
    return grad.reshape(-1)[ctx.places]
""",
        docs=(doc_links.EXTENDING, doc_links.CONTIGUOUS),
    ),
    "grad-output-layout-ignored": Explanation(
        meaning=(
            "The backward gives other gradients for the same grad_output in another memory "
            "layout: it reads the memory and ignores the strides."
        ),
        why=(
            "The author of the loss does not choose the layout: y.sum() sends an expanded "
            "grad_output, y.mT a transposed one, torch.cat a slice of a larger one. The "
            "gradients then belong to the wrong elements, or come from other memory."
        ),
        fix=(
            "Call grad = grad.contiguous() before code that takes a pointer, or read the "
            "strides and the storage offset there."
        ),
        before="""
def backward(ctx, grad):
    return kernel(grad.data_ptr(), grad.numel())
""",
        after="""
def backward(ctx, grad):
    grad = grad.contiguous()
    return kernel(grad.data_ptr(), grad.numel())
""",
        docs=(doc_links.EXTENDING, doc_links.CONTIGUOUS),
        follows=("uninitialized-gradient",),
    ),
}

CHECK = Check(
    name="backward.layouts",
    summary="gradients are the same for grad_outputs that are expanded, transposed, strided, padded, ...",
    run=check_layouts,
    variants=("shape", "large", "arguments"),
    cheap_variants=("arguments",),
    gradients=True,
    needs_autograd=True,
    findings=FINDINGS,
    catches=(
        "Other gradients, or an error, for a grad_output that is expanded (as `y.sum()` "
        "sends it), transposed, row-padded (`torch.cat`), strided (`torch.stack`), at a "
        "storage offset, channels-last or lazily conjugated. Memory between the elements "
        "holds NaN. An error is a finding too, because the author of the op cannot choose the "
        "layout that autograd sends."
    ),
    cannot_see="Grad_outputs of sparse and quantized outputs.",
    cost="many calls",
)
