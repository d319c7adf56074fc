"""`relations.broadcast`: an argument that all entries share gives the same as when repeated for each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from ...cases.case import Case
from ...cases.documented import may_be_shared
from ...cases.resize import UNTIED
from ...cases.run import Run
from ...cases.tensors import is_plain
from ...core.tracebacks import raised_on_purpose
from ...declare.ops import Op
from ...findings import Explanation, doc_links, fail, skip
from ..check import Check
from ..values.memory.calls import (
    Caller,
    Leaves,
    copied_results,
    expression,
    skip_if_incomparable,
    with_argument,
)
from ..values.memory.limited_copy import answer_safely
from .compare import Disagreement, disagreement, is_so_in_double, is_unsteady, shapes
from .scripts import call_lines, compare_lines

_ENTRIES = 3  # with fewer, one entry less would be one for all


@dataclass(frozen=True)
class _Shared:
    """A tensor for all entries of a batch, in place of one argument.

    Args:
        name: of the argument.
        code: makes the tensor from the argument `x` of the sample.
        batch: the number of entries.
        shape: of the tensor.
        has_batch_dim: whether it has a dim of size 1 for the entries, or none.
    """

    name: str
    code: str
    batch: int
    shape: tuple[int, ...]
    has_batch_dim: bool

    def value(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor."""
        found: torch.Tensor = eval(self.code, {"x": tensor})
        return found.clone(memory_format=torch.contiguous_format)

    def repeated(self, tensor: torch.Tensor, batch: int) -> torch.Tensor:
        """The tensor repeated for so many entries, in memory of its own."""
        value = self.value(tensor)
        row = value[0] if self.has_batch_dim else value
        return row.expand(batch, *row.shape).clone(memory_format=torch.contiguous_format)


@dataclass(frozen=True)
class _Answer:
    """How the calls with a shared and with a repeated argument differ; no `wrong` if they do not.

    Args:
        tried: whether the op takes a shared argument at all.
        checks_sizes: whether it rejects one entry more on purpose.
    """

    tried: bool
    shared: _Shared | None = None
    wrong: Disagreement | None = None
    checks_sizes: bool = False


def check_broadcast(case: Case) -> None:
    """Call the op with arguments that all entries of a batch share, and with the same ones repeated."""
    skip_if_incomparable(case)
    if not any(_ways(case)):
        reason = "no two tensor arguments have a dim of entries in common"
        raise skip("nothing-to-check", reason, unjudged=False)
    answer = answer_safely(case, _answer)
    if not answer.tried:
        reason = "the op takes no argument that all entries share"
        raise skip("nothing-to-check", reason, unjudged=False)
    if answer.shared is not None and answer.wrong is not None:
        shared, wrong = answer.shared, answer.wrong
        given = list(shared.shape)
        # Otherwise torch may broadcast what the op does not expect to be shared.
        is_meant = answer.checks_sizes or may_be_shared(case.op, shared.name)
        shown_on = None if is_meant else case.as_beyond(UNTIED)
        raise fail(
            "broadcast-mismatch",
            f"{case.op.name}: with {shared.name} of shape {given}, which all {shared.batch} entries share, "
            f"it gives other values than with the same numbers repeated for each of them "
            f"({[shared.batch, *shared.shape[shared.has_batch_dim :]]}): {wrong}",
            repro=_script(case, shared, wrong.name),
            picture=wrong.picture,
            case=shown_on,
        )


def _may_share(op: Op) -> bool:
    """Whether an op has several tensors, one of which it does not write to."""
    tensors = [argument.name for argument in op.arguments if "Tensor" in str(argument.type)]
    return len(tensors) > 1 and not set(tensors) <= set(op.mutated)


def _ways(case: Case) -> Iterator[_Shared]:
    """The arguments that entries may share.

    The number of entries is three or more. It is the first size of the argument and of another one, or of
    another one alone. No other dim of the argument has this size, because it might be taken for the batch.
    A list of numbers is not cut to one: torch might broadcast it where the op counts its numbers.
    """
    tensors = dict(case.inputs().tensors())
    plain = {name: tensor for name, tensor in tensors.items() if is_plain(tensor)}
    for name, tensor in plain.items():
        if "[" in name or name in case.op.mutated or tensor.numel() == 0:
            continue
        batches = {other.shape[0] for key, other in plain.items() if key != name and other.dim()}
        shape = tuple(tensor.shape)
        has_rows = len(shape) > 1 and shape[0] in batches
        if has_rows and shape[0] >= _ENTRIES and shape[0] not in shape[1:]:
            yield _Shared(name, "x[:1]", shape[0], (1, *shape[1:]), True)
            yield _Shared(name, "x[0]", shape[0], shape[1:], False)
        for batch in sorted(batches - {*range(_ENTRIES), *shape}):
            yield _Shared(name, "x", batch, shape, False)


def _answer(case: Case) -> _Answer:
    """The first argument that gives something else when it is repeated."""
    calls = Caller(case)
    tried = False
    for shared in _ways(case):
        wrong = _wrong(calls, shared)
        tried |= wrong is not None
        if isinstance(wrong, Disagreement) and _is_wrong_in_double(case, shared):
            return _Answer(True, shared, wrong, _checks_sizes(calls, shared))
    return _Answer(tried)


def _wrong(calls: Caller, shared: _Shared) -> Disagreement | bool | None:
    """How the results differ; True if they do not, None if the op does not take such an argument."""
    case = calls.case
    expected = _results(calls, shared, shared.batch)
    actual = _results(calls, shared, None) if expected is not None else None
    if expected is None or actual is None or shapes(actual) != shapes(expected):
        return None
    wrong = disagreement(case, actual, expected)
    if wrong is None:
        return True
    # An independent dim takes other sizes too: points, steps. A batch dim has the batch's size, or 1.
    batch = shared.batch
    if any(_results(calls, shared, other) for other in (batch + 1, 2 * batch, batch - 1)):
        return None
    again = lambda: _results(calls, shared, shared.batch) or []  # noqa: E731
    return None if is_unsteady(again, expected, actual, wrong.name) else wrong


def _results(calls: Caller, shared: _Shared, batch: int | None) -> Leaves | None:
    """The results with an argument repeated for so many entries, or shared; None if the op raises."""
    return copied_results(_run(calls, shared, batch))


def _run(calls: Caller, shared: _Shared, batch: int | None) -> Run:
    arguments = calls.case.inputs()
    tensor = dict(arguments.tensors())[shared.name]
    value = shared.value(tensor) if batch is None else shared.repeated(tensor, batch)
    return calls(with_argument(arguments, shared.name, value.detach()))


def _checks_sizes(calls: Caller, shared: _Shared) -> bool:
    """Whether the op rejects one entry more on purpose, and so expects what it accepts."""
    error = _run(calls, shared, shared.batch + 1).error
    return error is not None and raised_on_purpose(error)


def _is_wrong_in_double(case: Case, shared: _Shared) -> bool:
    """Whether results differ in double precision too; True if the op does not support it.

    Repeated values may be computed in another order, and rounding may be large.
    """

    def ask(wide: Case) -> bool:
        wrong = _wrong(Caller(wide), shared)
        return wrong is None or isinstance(wrong, Disagreement)

    return is_so_in_double(case, ask)


def _script(case: Case, shared: _Shared, result: str) -> str:
    place = expression(case, shared.name)
    row = "x[0]" if shared.has_batch_dim else "x"
    return (
        call_lines(result)
        + f"\nargs, kwargs = inputs()\nargs = list(args)\nx = {place}\n"
        + f"{place} = x = {shared.code}.detach().clone()\ngot = call(args, kwargs)\n"
        + "args, kwargs = inputs()\nargs = list(args)\n"
        + f"{place} = {row}.expand({shared.batch}, *{row}.shape).contiguous()\n"
        + "expected = call(args, kwargs)\n"
        + compare_lines(case, result)
    )


FINDINGS = {
    "broadcast-mismatch": Explanation(
        meaning=(
            "The op takes an argument once for all entries of a batch, without a dim for them or with one "
            "of size 1. But it gives other values than with the same numbers repeated for each entry."
        ),
        why=(
            "torch broadcasts a shared argument, and callers expect it. The number of its dims must not "
            "decide how other arguments are used, or what a sum is divided by."
        ),
        fix=(
            "Expand every argument to the shape of the batch first (`weight.expand(batch, n)` takes no "
            "memory), or index each by its own sizes. If a shared argument means something else, document "
            'it, and write checks=["-relations.broadcast"]; if it is not supported, raise.'
        ),
        before="""
if entry == 0 or diag.dim() > 1:   # lower and upper may still differ
    factors = factorise(lower[entry], diag, upper[entry])
""",
        after="""
lower, diag, upper = (band.expand(batch, n) for band in (lower, diag, upper))
...
factors = factorise(lower[entry], diag[entry], upper[entry])
""",
        docs=(doc_links.BROADCASTING,),
        follows=(
            "stale-result",
            "uninitialized-output",
            "outputs-not-repeatable",
            "fake-shape-mismatch",
        ),
    ),
}

CHECK = Check(
    name="relations.broadcast",
    summary="an argument that all entries share gives the same as when it is repeated for each",
    run=check_broadcast,
    gradients=False,
    needs=_may_share,
    variants=(),
    findings=FINDINGS,
    catches=(
        "An argument that all entries of a batch share, without a dim for them or with one of size 1, and "
        "that gives other values than the same numbers repeated for each entry: a weight of shape [n] in "
        "place of [batch, n]. An op that rejects one of the two is left alone. It is a note unless the op "
        "rejects other sizes on purpose, or a docstring says that the argument is shared."
    ),
    cannot_see=(
        "Arguments whose first size is also that of another dim, lists of tensors, batch dims other than "
        "the first, and dims for which the op takes any number of entries: there one entry need not mean "
        "the same as several equal ones. Gradients: `gradcheck.backward` checks those of a shared argument."
    ),
    cost="calls",
)
