"""`backward.layouts`: grad_outputs as autograd really hands them over, which is seldom contiguous."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ...cases.case import Case
from ...cases.tensors import is_plain
from ...core.tracebacks import error_line, traceback_text
from ...declare.layouts import changes, lay_out
from ...findings import CheckSkipped, fail
from ..check import Check
from . import scripts
from .vjp import Gradients, Graph, Reference, Row, table


@dataclass(frozen=True)
class _Layout:
    """One layout of a grad_output.

    Args:
        name: an adjective.
        source: what comes after the op where autograd makes such a grad_output, `y` being the output.
        place: the layout of a dense tensor; None where it would make no difference. Memory that is
            not the tensor's is NaN, and there is enough of it for a kernel that takes the tensor for
            a contiguous one.
        lines: of a script, which define `lay_out(each)`.
        repeats: whether the layout makes values equal that were not.
    """

    name: str
    source: str
    place: Callable[[Tensor], Tensor | None]
    lines: str
    repeats: bool = False


def _poison(tensor: Tensor, *shape: int) -> Tensor:
    """NaN in this shape; zeros for a dtype that cannot be filled."""
    try:
        return tensor.new_full(shape, torch.nan)
    except (RuntimeError, NotImplementedError):
        return tensor.new_zeros(shape)


def _transposed(dense: Tensor) -> Tensor | None:
    return lay_out(dense, "transposed") if changes("transposed", tuple(dense.shape)) else None


def _channels_last(dense: Tensor) -> Tensor | None:
    return lay_out(dense, "channels_last") if changes("channels_last", tuple(dense.shape)) else None


def _strided(dense: Tensor) -> Tensor | None:
    if not changes("strided", tuple(dense.shape)):
        return None
    return _poison(dense, *dense.shape[:-1], 2 * dense.shape[-1])[..., ::2].copy_(dense)


def _row_padded(dense: Tensor) -> Tensor | None:
    if not changes("row_padded", tuple(dense.shape)):
        return None
    last = dense.shape[-1]
    return _poison(dense, *dense.shape[:-1], last + 3)[..., :last].copy_(dense)


def _offset(dense: Tensor) -> Tensor | None:
    return _poison(dense, dense.numel() + 1)[1:].view(dense.shape).copy_(dense)


def _expanded(dense: Tensor) -> Tensor | None:
    if dense.numel() < 2:
        return None
    home = _poison(dense, dense.numel())
    home[:1] = dense.reshape(-1)[:1]
    return home.as_strided(dense.shape, [0] * dense.dim())


def _expanded_rows(dense: Tensor) -> Tensor | None:
    if dense.dim() < 2 or dense.shape[0] < 2 or dense[0].numel() < 2:
        return None
    home = _poison(dense, *dense.shape)
    home[0] = dense[0]
    return home.as_strided(dense.shape, [0, *home.stride()[1:]])


def _conjugated(dense: Tensor) -> Tensor | None:
    return dense.conj().resolve_conj().conj() if dense.is_complex() else None


_POISON = "torch.full({}, torch.nan, dtype=each.dtype, device=each.device)"
_PADDED = _POISON.format("(*each.shape[:-1], each.shape[-1] + 3)")
_GAPS = _POISON.format("(*each.shape[:-1], 2 * each.shape[-1])")
_LAYOUTS = (
    _Layout(
        "expanded",
        "y.sum()",
        _expanded,
        f"""def lay_out(each):
    home = {_POISON.format("(each.numel(),)")}
    home[:1] = each.reshape(-1)[:1]
    return home.as_strided(each.shape, [0] * each.dim())
""",
        repeats=True,
    ),
    _Layout(
        "expanded",
        "y.sum(0)",
        _expanded_rows,
        f"""def lay_out(each):
    home = {_POISON.format("each.shape")}
    home[0] = each[0]
    return home.as_strided(each.shape, [0, *home.stride()[1:]])
""",
        repeats=True,
    ),
    _Layout(
        "transposed",
        "y.mT",
        _transposed,
        """def lay_out(each):
    return each.mT.contiguous().mT
""",
    ),
    _Layout(
        "row-padded",
        "torch.cat((y, ...), -1)",
        _row_padded,
        f"""def lay_out(each):
    return {_PADDED}[..., : each.shape[-1]].copy_(each)
""",
    ),
    _Layout(
        "strided",
        "torch.stack((y, ...), -1)",
        _strided,
        f"""def lay_out(each):
    return {_GAPS}[..., ::2].copy_(each)
""",
    ),
    _Layout(
        "channels-last",
        "a channels_last convolution",
        _channels_last,
        """def lay_out(each):
    last = torch.channels_last if each.dim() == 4 else torch.channels_last_3d
    return each.contiguous(memory_format=last)
""",
    ),
    _Layout(
        "displaced",
        "torch.cat((..., y))",
        _offset,
        f"""def lay_out(each):
    return {_POISON.format("(each.numel() + 1,)")}[1:].view(each.shape).copy_(each)
""",
    ),
    _Layout(
        "lazily conjugated",
        "y.conj()",
        _conjugated,
        """def lay_out(each):
    return each.conj().resolve_conj().conj()
""",
    ),
)


def check_layouts(case: Case) -> None:
    """Compare the gradients for grad_outputs laid out differently with those for dense copies."""
    reference = Reference.of(case)
    trial = _Trial(reference)
    rows: list[Row] = []
    for layout in _LAYOUTS:
        every = trial.positions(layout)
        if not every:
            continue
        found = trial.rows(layout, every)
        rows += found
        if any(row.wrong for row in found):
            raise trial.mismatch(layout, every, rows)


CHECK = Check(
    "backward.layouts",
    "gradients are the same for grad_outputs that are expanded, transposed, strided, padded, ...",
    check_layouts,
    gradients=True,
    needs_autograd=True,
)


class _Trial:
    """The backward of a case with grad_outputs in one layout at a time."""

    def __init__(self, reference: Reference) -> None:
        self.reference = reference
        self.graph = Graph(reference.case)
        self.dense = [
            torch.empty(one.shape, dtype=one.dtype, device=one.device).copy_(weight)
            for (_, one), weight in zip(self.graph.outputs, reference.weights, strict=True)
        ]
        self._plain = [is_plain(one) for _, one in self.graph.outputs]

    def positions(self, layout: _Layout) -> list[int]:
        """The outputs for which the layout makes a difference."""
        return [
            at
            for at, dense in enumerate(self.dense)
            if self._plain[at] and layout.place(dense) is not None
        ]

    def rows(self, layout: _Layout, chosen: list[int]) -> list[Row]:
        """The gradients for grad_outputs in the layout at these positions, beside those for copies.

        Raises:
            CheckFailed: the backward raises for them.
        """
        laid_out = [one.clone() for one in self.dense]
        for at in chosen:
            placed = layout.place(laid_out[at])
            assert placed is not None
            laid_out[at] = placed
        expected = self.reference.gradients
        if layout.repeats:
            dense = [one.clone(memory_format=torch.contiguous_format) for one in laid_out]
            try:
                expected = self._gradients(dense)
            except Exception:
                return []  # it is the values that the backward refuses
        try:
            got = self._gradients(laid_out)
        except CheckSkipped:
            raise
        except Exception as error:
            raise self._refused(layout, chosen, error) from error
        return self.reference.rows(f"{layout.name} ({layout.source})", got, expected)

    def _gradients(self, weights: list[Tensor]) -> Gradients:
        """On a graph of its own: a second backward over one is not what is checked here."""
        return Graph(self.reference.case).vjp(weights)

    def _refused(self, layout: _Layout, chosen: list[int], error: Exception) -> Exception:
        return fail(
            "grad-output-layout-refused",
            f"for {self._words(layout, chosen)} the backward raises {error_line(error)}",
            traceback_text(error),
            repro=scripts.layout(layout.lines, chosen),
        )

    def mismatch(self, layout: _Layout, every: list[int], rows: list[Row]) -> Exception:
        """The finding, for the one output that brings it about if there is one."""
        guilty = every
        for at in every if len(every) > 1 else []:
            if any(row.wrong for row in self.rows(layout, [at])):
                guilty = [at]
                break
        wrong = next(row for row in rows if row.wrong)
        return fail(
            "grad-output-layout-ignored",
            f"for {self._words(layout, guilty)} the gradient for `{wrong.input}` is {wrong.got}, and "
            f"{wrong.expected} for the same grad_output in contiguous memory",
            table(rows),
            repro=scripts.layout(layout.lines, guilty),
        )

    def _words(self, layout: _Layout, chosen: list[int]) -> str:
        article = "an" if layout.name[0] in "aeiou" else "a"
        outputs = self.graph.outputs
        of = f" of {outputs[chosen[0]][0]}" if len(chosen) == 1 and len(outputs) > 1 else ""
        return f"{article} {layout.name} grad_output{of} (as from {layout.source})"
