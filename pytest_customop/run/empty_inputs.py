"""Tell why an op should accept tensors without elements."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..cases.argument_names import names_lengths, names_offsets
from ..cases.case import Case
from ..cases.documented_empties import allows_empty, needs_entries
from ..cases.documented_shapes import with_another_size
from ..cases.run import Run
from ..cases.tensors import base_name, is_differentiable
from ..core.wording import listed


def why_empty_is_valid(case: Case, promised: Run) -> str | None:
    """Why the op should accept the tensors that a variant has made empty; None if nothing says so.

    Args:
        promised: the result of the fake kernel.
    """
    assert case.base_case is not None
    before = dict(case.base_case.inputs().tensors())
    fewer = [
        (base_name(name), tensor)
        for name, tensor in case.inputs().tensors()
        if name in before and tensor.numel() < before[name].numel()
    ]
    emptied = [(name, tensor) for name, tensor in fewer if not tensor.numel()]
    shapes = {name: tuple(tensor.shape) for name, tensor in emptied}
    if not emptied or with_another_size(case.op, shapes):
        return None
    if any(needs_entries(case.op, name) for name, _ in fewer):
        return None
    names = listed([name for name, _ in emptied])
    if all(allows_empty(case.op, name) for name, _ in emptied):
        return f"the docstring of {case.op.name} allows an empty {names}"
    # Without positions there are no entries, and the other tensors' rows are none. Without offsets or
    # lengths, the entries that are there belong to no part, which an op may refuse.
    without_entries = any(
        not is_differentiable(tensor.dtype) and not (names_offsets(name) or names_lengths(name))
        for name, tensor in fewer
    )
    if without_entries and all(_has_no_rows(tensor) for _, tensor in emptied):
        sizes = [tuple(output.shape) for _, output in promised.outputs]
        all_empty = all(not tensor.numel() for _, tensor in case.inputs().tensors())
        if sizes and all(_has_no_elements(size, may_depend=all_empty) for size in sizes):
            given = listed([str(size) for size in sizes])
            return f"with no elements in {names} the result has none: the fake kernel gives {given}"
    return None


def _has_no_rows(tensor: torch.Tensor) -> bool:
    """Whether only the dim that counts rows is 0: the first, or the second of pairs of shape (2, E)."""
    first, *others = tensor.shape
    return 0 not in others or (first == 2 and len(others) == 1)


def _has_no_elements(sizes: Sequence[object], *, may_depend: bool) -> bool:
    """Whether a size of a fake result is 0.

    Args:
        may_depend: whether one that depends on data, a symbol, counts as 0.
    """
    return any(may_depend if type(size) is not int else size == 0 for size in sizes)
