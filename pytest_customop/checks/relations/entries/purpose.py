"""Whether an op treats many entries differently from few on purpose.

It may sample from them, take the first or the best ones, or change to an approximation. That cannot be
distinguished from a mistake, unless nothing of the kind explains the finding.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from ....cases.argument_names import names_bits, names_dims
from ....cases.arguments import Arguments
from ....cases.case import Case
from ....cases.code_names import whole_numbers_in_code
from ....cases.crash_risk import may_crash
from ....cases.deliberate import names_limit
from ....cases.dtype_code import dtype_code
from ....cases.tensors import comparable, is_differentiable
from ....core.watchdog import LimitExceeded, within_limits
from ....findings import NOT_ASKED
from ...values.memory.calls import with_argument
from .calls import Along, Rearranged, Wrong
from .confirm import Violation
from .groups import DimGroup, few_entries

_FEW_MORE = 3  # entries; a limit is hardly passed by so few
_BYTE = 2**8
_RESAMPLED = 8
_SECONDS = 2.0  # for calls with a larger number among the arguments


def note_if_on_purpose(
    case: Case, group: DimGroup, violation: Violation, wrong: Wrong, evident: bool
) -> str | None:
    """The note of a finding that may be on purpose; None where nothing explains it but a mistake.

    It is a mistake if integers are wrong by multiples of 256, if a few entries more are enough, or if it
    is evident. The last two may be on purpose if positions come twice among many entries.

    Args:
        case, group: the case, and the dims with many entries.
        violation: looks for the finding again.
        wrong: what was found.
        evident: whether nothing that the op may mean explains it, as where `ignores_entries`.
    """
    if _is_limited(case, group, violation):
        return NOT_ASKED
    if _wraps(wrong):
        return None
    if _repeats_positions(case, group):
        return NOT_ASKED
    few_more = group.size <= group.trusted + _FEW_MORE
    if few_more and group.trusted not in whole_numbers_in_code(case.op):
        return None
    return None if evident else NOT_ASKED


def wraps_on_purpose(case: Case, wrong: Wrong) -> bool:
    """Whether integers are wrong by multiples of 256, and the op may be a checksum or the like."""
    return _wraps(wrong) and dtype_code(case.op).is_modular


def _wraps(wrong: Wrong) -> bool:
    """Whether integers differ by what is lost in 8, 16 or 32 bits."""
    actual, expected = wrong.actual, wrong.expected
    if not (isinstance(actual, torch.Tensor) and isinstance(expected, torch.Tensor)):
        return False
    if actual.shape != expected.shape or {actual.dtype, expected.dtype} & {torch.bool}:
        return False
    if is_differentiable(actual.dtype) or is_differentiable(expected.dtype):
        return False
    return not bool(((actual.long() - expected.long()) % _BYTE).any())


def ignores_entries(
    case: Case, group: DimGroup, name: str, dim: int | None, along: Along | None
) -> bool:
    """Whether some entries of a result depend on no entry of the arguments, where there are many.

    Args:
        case, group: the case, and the dims with many entries.
        name: of the result.
        dim: the dim of the result with an entry for each; None: it is one result of all, and not judged.
        along: as in `Rearranged.taken`.
    """
    if dim is None:
        return False
    entries = few_entries(case, group, torch.arange(group.trusted))
    if not _all_depend(
        Rearranged(entries.case, group, entries.arguments), name, dim, group.trusted, along
    ):
        return False
    return _all_depend(Rearranged(case, group), name, dim, group.size, along) is False


def _all_depend(
    calls: Rearranged, name: str, dim: int, size: int, along: Along | None
) -> bool | None:
    """Whether every entry of a result changes when the entries of the arguments change."""
    whole = calls.whole
    if whole is None or name not in whole or whole[name].shape[dim] != size:
        return None
    changed = torch.zeros(size, dtype=torch.bool)
    generator = torch.Generator().manual_seed(1)
    for _ in range(_RESAMPLED):
        resampled = calls.taken(torch.randint(size, (size,), generator=generator), along)
        if resampled is None or name not in resampled or resampled[name].shape != whole[name].shape:
            return None
        differs = (resampled[name] != whole[name]).movedim(dim, 0).reshape(size, -1).any(1)
        changed |= differs.cpu()
    return bool(changed.all())


def _repeats_positions(case: Case, group: DimGroup) -> bool:
    """Whether integers come twice among many entries, but once among few: the last one may count.

    If all that belongs to such entries is equal, it does not matter which one counts.
    """
    if _all_integers(case, group):
        return False
    for path, tensor in case.inputs().tensors():
        dims = [dim for name, dim in group.dims if name == path]
        if len(dims) != 1 or is_differentiable(tensor.dtype) or tensor.dtype == torch.bool:
            continue
        rows = comparable(tensor.detach()).movedim(dims[0], 0).reshape(group.size, -1)
        entries = [tuple(row) for row in rows.tolist()]
        few = entries[: group.trusted]
        if len({*few}) == len(few) and len({*entries}) < len(entries):
            return True
    return False


def _all_integers(case: Case, group: DimGroup) -> bool:
    """Whether the entries consist of integers alone, each with one dim of the group."""
    in_group = {path for path, _ in group.dims}
    tensors = [tensor for path, tensor in case.inputs().tensors() if path in in_group]
    return len(group.dims) == len(in_group) and not any(t.dtype.is_floating_point for t in tensors)


def _is_limited(case: Case, group: DimGroup, violation: Violation) -> bool:
    """Whether the op may take only so many entries.

    A docstring says so, or an integer argument is smaller than the number of entries, and the relation
    holds once it is as large.
    """
    if names_limit(case.op):
        return True
    limits = [
        name
        for name, value in _whole_numbers(case)
        if 1 < value < group.size and not (names_dims(name) or names_bits(name))
    ]
    if not limits:
        return False
    if may_crash(case):
        return True

    def raised() -> Arguments:
        arguments = case.inputs()
        for name in limits:
            arguments = with_argument(arguments, name, group.size)
        return arguments

    try:
        with within_limits(_SECONDS):
            wrong = violation(Rearranged(case, group, raised))
    except LimitExceeded:  # the number counts steps
        return True
    return wrong is None


def _whole_numbers(case: Case) -> Iterator[tuple[str, int]]:
    """(name, value) of the integer arguments, given or left to their defaults."""
    values = {argument.name: value for argument, value in case.op.bind(case.sample)}
    for argument in case.op.arguments:
        value = values.get(argument.name, argument.default_value)
        if type(value) is int:
            yield argument.name, value
