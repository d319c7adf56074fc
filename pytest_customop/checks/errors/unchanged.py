"""`errors.unchanged`: a call that raises has written nothing, if a docstring says so."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from ...cases.arguments import Arguments
from ...cases.case import Case
from ...cases.documented import sentences
from ...cases.tensors import is_plain
from ...core.tracebacks import error_line
from ...core.wording import docstring_says
from ...declare.ops import Op
from ...findings import Explanation, doc_links, fail
from ..check import Check
from ..values.memory.calls import Caller, copied, expression, first_difference
from ..values.memory.limited_copy import answer_if_taken

# In one sentence: that something raises, and that nothing is written then.
_PROMISE = re.compile(
    r"(?=.*\b(rais\w+|errors?|exceptions?|fail(s|ed|ures?)?|reject\w*)\b)"
    r".*(\b(unchanged|untouched|unmodified|left alone)\b"
    r"|\b(left|stays?|remains?) as (it|they) (is|are|was|were)\b"
    r"|\b(not|never|nothing|none)\b[^.;,]{0,30}\b(changed|modified|touched|written|updated)\b"
    r"|\bbefore (anything|any|either|one)\b[^.;]*\b(changed|modified|touched|written|updated)\b)",
    re.I | re.S,
)
_FRACTIONS = (torch.nan, torch.inf, -torch.inf, -1.0)


class _Trial(NamedTuple):
    """The last element of a tensor is another number: what comes before it may be written by then.

    Args:
        path: of the tensor.
        number: in place of its last element.
    """

    path: str
    number: float

    def change(self, path: str, tensor: Tensor) -> Tensor:
        """A tensor of the arguments, changed if it is the one."""
        if path != self.path:
            return tensor
        changed = tensor.detach().clone(memory_format=torch.contiguous_format)
        changed.view(-1)[-1] = self.number
        return changed


class _Broken(NamedTuple):
    """A call that raises and has written something.

    Args:
        error: what it raises.
        difference: what it has written.
    """

    trial: _Trial
    error: str
    difference: str


def check_unchanged(case: Case) -> None:
    """Make the last element of each tensor one that the op may reject; look at what it has written."""
    reason = "the op raises for none of the numbers that are tried"
    broken = answer_if_taken(case, _answer, reason)
    if broken is not None:
        number, path = broken.trial.number, broken.trial.path
        raise fail(
            "written-before-error",
            f"{case.op.name}: with {number:g} as the last element of {path} it raises {broken.error}, but "
            f"{broken.difference}",
            docstring_says(_promise(case.op) or ""),
            repro=_script(case, broken.trial),
        )


def _promise(op: Op) -> str | None:
    """The sentence that says that a call that raises writes nothing; None without one."""
    if not op.mutated:
        return None
    return next(filter(_PROMISE.search, sentences(op, of_op=True)), None)


def _promises(op: Op) -> bool:
    return _promise(op) is not None


def _trials(arguments: Arguments) -> Iterator[_Trial]:
    """Numbers that are not finite or negative, and positions outside; in the last tensor first."""
    tensors = [(path, tensor) for path, tensor in arguments.tensors() if is_plain(tensor)]
    above = 1 + max((tensor.numel() for _, tensor in tensors), default=0)
    for path, tensor in reversed(tensors):
        if not tensor.numel() or tensor.dtype == torch.bool or tensor.is_complex():
            continue
        fractions = tensor.dtype.is_floating_point
        if fractions and tensor.dtype.itemsize == 1:
            continue  # float8 has no infinity
        fits = fractions or above <= torch.iinfo(tensor.dtype).max
        signed = fractions or torch.iinfo(tensor.dtype).min < 0
        for number in _FRACTIONS if fractions else (-1,) * signed + (above,) * fits:
            yield _Trial(path, number)


def _answer(case: Case) -> tuple[bool, _Broken | None]:
    """Whether the op raises for some number, and the first call that raises and has written something."""
    calls = Caller(case)
    raises = False
    for trial in _trials(case.inputs()):
        given = case.inputs().map_distinct(trial.change)
        before = copied(given.mutated())
        run = calls(given)
        if run.error is None:
            continue
        raises = True
        difference = first_difference(copied(run.arguments.mutated()), before)
        if difference is not None:
            return True, _Broken(trial, error_line(run.error), f"argument {difference}")
    return raises, None


def _script(case: Case, trial: _Trial) -> str:
    place = expression(case, trial.path)
    return _SCRIPT.format(place=place, number=f"float('{trial.number}')")


_SCRIPT = """
from torch.utils._pytree import tree_leaves


def tensors():
    return [each.detach().clone() for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]


args, kwargs = inputs()
args = list(args)
changed = {place}.detach().clone(memory_format=torch.contiguous_format)
changed.view(-1)[-1] = {number}
{place} = changed
before = tensors()
try:
    op(*args, **kwargs)
except Exception as error:
    print("It raises", repr(error))
    torch.testing.assert_close(tensors(), before, rtol=0, atol=0, equal_nan=True)
"""

FINDINGS = {
    "written-before-error": Explanation(
        meaning=(
            "A docstring says that a call that raises changes nothing. The op raises, and has written to "
            "an argument by then."
        ),
        why=(
            "The check and the update are in one loop: what comes before the wrong entry is updated. Who "
            "catches the error, and skips a step or tries again, goes on with half of an update."
        ),
        fix=(
            "Check all inputs in a loop of their own, before the first one that writes. Or take the "
            "promise out of the docstring."
        ),
        before="""
for grad in grads:
    if not grad.isfinite().all():
        raise RuntimeError("a gradient is not finite")
    grad.mul_(scale)
""",
        after="""
if not all(grad.isfinite().all() for grad in grads):
    raise RuntimeError("a gradient is not finite")
for grad in grads:
    grad.mul_(scale)
""",
        docs=(doc_links.CUSTOM_OP,),
    ),
}

CHECK = Check(
    name="errors.unchanged",
    summary="a call that raises has written nothing, if a docstring says so",
    run=check_unchanged,
    gradients=False,
    needs=_promises,
    variants=(),
    findings=FINDINGS,
    catches=(
        "Half of an update where a docstring says that an error leaves everything unchanged. The last "
        "element of each tensor becomes NaN, infinite or -1, and of integers -1 or larger than any size. "
        "If the op raises, the arguments that it may write to must be what they were."
    ),
    cannot_see="Errors for anything else, such as other sizes or dtypes.",
    cost="many calls",
)
