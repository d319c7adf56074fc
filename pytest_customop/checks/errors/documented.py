"""`errors.documented`: arguments that must raise according to a docstring do raise."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch

from ...cases.case import Case
from ...cases.documented_errors import may_equal_size, rejected_dtypes, rejected_positions
from ...cases.documented_integers import integer_range
from ...cases.tensors import is_plain
from ...core.wording import dtype_name, listed
from ...declare.ops import Op
from ...findings import Explanation, doc_links, fail, skip
from ..check import Check
from ..values.memory.calls import Caller, copied_results, expression, first_difference, results
from ..values.memory.limited_copy import answer_safely

_PLACES = 4  # elements of a tensor that are tried
_LARGE = 2**30  # larger than any size that a sample's positions refer to


# (path, tensor) -> the tensor to pass.
_Change = Callable[[str, torch.Tensor], torch.Tensor]


class _Bad(NamedTuple):
    """Arguments that the op must reject.

    Args:
        text: what is wrong with them, for a message.
        said: the sentence of the docstring.
        change: makes them from those of the case.
        code: lines of a script that change `args` and `kwargs`.
        used: a valid change, which must show in the results: only then does the op read that place. None
            if that does not matter.
        rejected: another change, which the op must reject for a finding; None without one.
    """

    text: str
    said: str
    change: _Change
    code: str
    used: _Change | None = None
    rejected: _Change | None = None


class _Answer(NamedTuple):
    """How many were tried, and the number of the first that the op accepts; None: it rejects all."""

    tried: int
    taken: int | None = None


def check_documented(case: Case) -> None:
    """Call the op with arguments that must raise according to a docstring."""
    every = [*_bad_dtypes(case), *_bad_positions(case)]
    if not every:
        reason = "no docstring says plainly that a dtype, or a position out of range, raises"
        raise skip("nothing-to-check", reason, unjudged=False)

    def ask(plain: Case) -> _Answer:
        return _answer(plain, every)

    answer = answer_safely(case, ask)
    if answer.taken is not None:
        bad = every[answer.taken]
        raise fail(
            "documented-error-missing",
            f"{case.op.name} accepts {bad.text}, but its docstring says that this raises",
            f"The docstring says: {bad.said}",
            repro=_SCRIPT.format(change=bad.code),
        )
    if not answer.tried:
        reason = "the op does not read the positions that could be wrong"
        raise skip("nothing-to-check", reason, unjudged=False)


def _answer(case: Case, every: list[_Bad]) -> _Answer:
    calls = Caller(case)
    expected = copied_results(calls(case.inputs()))
    if expected is None:
        return _Answer(0)

    @functools.cache
    def is_used(change: _Change) -> bool:
        """Whether the op accepts a change, and the results show it."""
        run = calls(case.inputs().map_distinct(change))
        return run.error is None and first_difference(results(run), expected) is not None

    tried = 0
    for number, bad in enumerate(every):
        if bad.used is not None and not is_used(bad.used):
            continue
        tried += 1
        if _takes(calls, bad.change) and not (bad.rejected and _takes(calls, bad.rejected)):
            return _Answer(tried, number)
    return _Answer(tried)


def _takes(calls: Caller, change: _Change) -> bool:
    return calls(calls.case.inputs().map_distinct(change)).error is None


def _bad_dtypes(case: Case) -> Iterator[_Bad]:
    """The floating-point tensors, cast to dtypes of a category that the docstring does not name."""
    rejected = rejected_dtypes(case.op)
    floats = [
        (path, tensor)
        for path, tensor in case.inputs().tensors()
        if is_plain(tensor) and tensor.is_floating_point() and not tensor.requires_grad
    ]
    if rejected is None or not floats:
        return
    said, dtypes = rejected
    names = listed([path for path, _ in floats])
    for dtype in dtypes:

        def change(path: str, tensor: torch.Tensor, dtype: torch.dtype = dtype) -> torch.Tensor:
            return tensor.to(dtype) if tensor.is_floating_point() else tensor

        lines = "".join(
            f"{expression(case, path)} = {expression(case, path)}.to({dtype})\n"
            for path, _ in floats
        )
        yield _Bad(f"{names} of {dtype_name(dtype)}", said, change, lines)


def _bad_positions(case: Case) -> Iterator[_Bad]:
    """Tensors of positions, with one position out of range."""
    for path, tensor in case.inputs().tensors():
        rejected = (
            rejected_positions(case.op, path) if _may_be_positions(case, path, tensor) else None
        )
        if rejected is None:
            continue
        said, also_large = rejected
        sizes = [] if may_equal_size(case.op, path) else _sizes_above(case, path, tensor)
        documented = integer_range(case.op, path)
        bad = [
            value
            for value in (-1, *([_LARGE, *sizes] if also_large else []))
            if documented is None or not documented.low <= value <= documented.high
        ]
        numbers = tensor.flatten().tolist()
        for place in _places(len(numbers)):
            usual = next(number for number in numbers if number != numbers[place])
            used = _changed(path, place, usual)
            for value in bad:
                # A size may belong to something else. It is the bound of the positions if the op rejects
                # the next number.
                is_size = 0 <= value < _LARGE
                yield _Bad(
                    f"{path} with {value} at element {place}",
                    said,
                    _changed(path, place, value),
                    f"{expression(case, path)}.view(-1)[{place}] = {value}\n",
                    used,
                    _changed(path, place, value + 1) if is_size else None,
                )


def _sizes_above(case: Case, path: str, tensor: torch.Tensor) -> list[int]:
    """The sizes of other tensors that are above all positions, and that no valid position seems to equal.

    Left out is a size that equals an integer argument, or is one less than an integer argument or another
    size. Positions may equal such a size: the end of the last part, or a number for what is left out.
    """
    others = [other for name, other in case.inputs().tensors() if name != path]
    sizes = {size for other in others for size in other.shape}
    numbers = {value for _, value in case.inputs().named() if type(value) is int}
    highest = int(tensor.max())
    return sorted(
        size
        for size in sizes
        if size > highest and not {size, size + 1} & numbers and size + 1 not in sizes
    )


def _may_be_positions(case: Case, path: str, tensor: torch.Tensor) -> bool:
    return (
        path not in case.op.mutated
        and "[" not in path
        and is_plain(tensor)
        and tensor.is_contiguous()
        and tensor.dtype in (torch.int32, torch.int64)
        and tensor.numel() > 1
        and int(tensor.min()) >= 0
        and int(tensor.max()) > int(tensor.min())
    )


def _places(count: int) -> list[int]:
    """The last element, which is in no other's range, the first, and some between."""
    between = range(1, count - 1, max(1, count // _PLACES))
    return list(dict.fromkeys([count - 1, 0, *between]))[:_PLACES]


def _changed(at: str, place: int, value: int) -> _Change:
    """Sets one element of the tensor at a path."""

    def change(path: str, tensor: torch.Tensor) -> torch.Tensor:
        if path == at:
            tensor = tensor.clone()
            tensor.view(-1)[place] = value
        return tensor

    return change


def _has_docstring(op: Op) -> bool:
    """Whether a docstring says that some arguments raise."""
    if rejected_dtypes(op) is not None:
        return True
    return any(rejected_positions(op, argument.name) for argument in op.arguments)


_SCRIPT = """
args, kwargs = inputs()
args = list(args)
{change}
try:
    result = op(*args, **kwargs)
except Exception as error:
    print(f"as documented: {{error!r}}")
else:
    raise AssertionError(f"nothing was raised, and the result is {{result}}")
"""

FINDINGS = {
    "documented-error-missing": Explanation(
        meaning="The docstring of the op says that such arguments raise, but the op accepts them.",
        why=(
            "The caller relies on the error, and gets meaningless numbers instead: memory read as another "
            "dtype, the entry of another row, the last entry instead of none."
        ),
        fix=(
            "Validate the arguments in the kernel, dtypes in the fake kernel too, and raise. If the op "
            "supports them by now, correct the docstring."
        ),
        before="""
def lookup(table, ids):
    \"\"\"... An id outside of [0, len(table)) raises IndexError.\"\"\"
    return table[ids]          # -1 is the last row
""",
        after="""
def lookup(table, ids):
    if ids.numel() and not 0 <= ids.min() <= ids.max() < len(table):
        raise IndexError("an id is outside of the table")
    return table[ids]
""",
        docs=(doc_links.LIBRARY,),
        follows=("eager-raises",),
    ),
}

CHECK = Check(
    name="errors.documented",
    summary="dtypes and positions that must raise according to a docstring do raise",
    run=check_documented,
    gradients=False,
    needs=_has_docstring,
    variants=(),
    findings=FINDINGS,
    catches=(
        "An op that accepts arguments although a docstring says that they raise, in sentences such as "
        "`Other dtypes raise TypeError` and `An index outside of [0, N) raises IndexError`. Two kinds are "
        "tried: integer and complex tensors instead of floating-point ones, unless the docstring names "
        "them; and a position of -1, or one that is too large, where the results depend on the position."
    ),
    cannot_see=(
        "Errors that a docstring does not describe in such words, errors for shapes, and which error is "
        "raised. Positions of ops that give a negative one a meaning. Only the docstrings of the op's "
        "Python functions and of their module are read."
    ),
    cost="many calls",
)
