"""`fake.symbolic`: the fake kernel at symbolic sizes, judged by asking the real op.

A size that became a constant is a suspicion, no verdict: a correct "needs 3 channels" and a wrong
`int(x.shape[0])` leave the same guard, and a hard-coded size leaves none. So sizes are changed, and
the real op says what is right there.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...cases.case import Case, Run
from ...cases.fake_run import FakeRun, fake_run, shapes_of, skip_if_unfakeable
from ...cases.resize import (
    Place,
    changeable,
    fixed_inputs,
    other_sizes,
    places,
    second_case,
    tied_integers,
    whole_numbers,
)
from ...cases.tensors import output_leaves
from ...compat import is_data_dependent
from ...core.tracebacks import error_line, traceback_text
from ...findings import CheckFailed, CheckSkipped, fail, skip
from . import scripts
from .backward_calls import Call, backward_calls
from .metadata import Compared, Reading, compare, table, worst
from .specialization import Pin, Traced, fake_gradients, trace

_SHAPE, _RAISES = "fake-shape-mismatch", "fake-raises"
_HARDCODED = "fake-size-hardcoded"
_BACKWARD_FIX = (
    "Write the backward with ops, and arithmetic on sizes, that torch can trace at symbolic sizes; "
    "the last lines of the traceback show what it cannot."
)


def symbolic(case: Case) -> None:
    """Run the fake kernel on symbolic sizes; judge each constant, and the results at other sizes."""
    if not places(case):
        raise skip(
            "nothing-to-check", "every size is 0 or 1, and these are constants", unjudged=False
        )
    skip_if_unfakeable(case.eager)
    trial = _first_trial(case)
    known = frozenset(trouble.key for trouble in trial.troubles())
    traced = trace(case, backward=trial.backward)
    _refuse_errors(case, traced)
    _compare_traced(traced, case, known, "fake-not-symbolic")
    unsure = [pin for pin in traced.pins if not _judge(trial, pin, known)]
    note = f"; {unsure[0]} became a constant, and whether it must is not known" if unsure else ""
    if output_leaves(case.eager.result) != [("output", None)]:
        _compare_second(trial, traced, known, note)
        _compare_untied(trial, known)
    if unsure:
        raise skip("no-second-size", fixed_inputs(case) + note)


@dataclass(frozen=True)
class _Trouble:
    """Something that fake and real disagree on.

    Args:
        key: what it is about, whatever the sizes.
        code, text, evidence: for the finding.
    """

    key: tuple[str, str]
    code: str
    text: str
    evidence: str


class _Trial:
    """A case run for real and on fake tensors of plain sizes.

    Args:
        backward: whether its backward is part of that.
    """

    def __init__(self, case: Case, backward: bool) -> None:
        self.case, self.backward = case, backward

    @functools.cached_property
    def fake(self) -> FakeRun:
        """The call on fake tensors."""
        return fake_run(shapes_of(self.case))

    @functools.cached_property
    def _calls(self) -> list[Call] | None:
        try:
            return backward_calls(self.case) if self.backward else []
        except Exception:  # the backward's own: it does not work at these sizes
            return None

    @property
    def works(self) -> bool:
        """Whether the real op works, and its backward."""
        return self.case.eager.error is None and self._calls is not None

    def troubles(self) -> list[_Trouble]:
        """Where fake and real disagree, in the op and in the ops that its backward calls."""
        name = self.case.op.name
        if self.fake.error is not None:
            return [_raised(name, self.fake.error)]
        outputs = compare(self.fake.run, self.case.eager, Reading(self.fake.mode))
        found = list(_mismatches(name, outputs))
        for call in self._calls or ():
            who = f"{call.op}, called by the backward of {name}:"
            try:
                found += _mismatches(who, call.compared(f"the backward of {name}"))
            except CheckFailed as failure:
                text = failure.finding.message
                found.append(_Trouble((who, ""), _RAISES, text, failure.finding.evidence))
            except CheckSkipped:
                continue
        return found


def _first_trial(case: Case) -> _Trial:
    """The case as it is, with its backward if that works on fake tensors; skips if nothing does."""
    trial = _Trial(case, backward=False)
    plain = trial.fake
    if plain.error is not None:
        raise skip(
            "nothing-to-check",
            f"the fake kernel raises at plain sizes already ({error_line(plain.error)}): "
            "see fake.forward",
            unjudged=False,
        )
    outputs = plain.run.differentiable_outputs
    known = all(isinstance(size, int) for _, tensor in outputs for size in tensor.shape)
    if case.requires_grad and case.op.has_autograd and outputs and known:
        trial.backward = fake_gradients(plain) is None
    return trial


def _raised(who: str, error: Exception) -> _Trouble:
    return _Trouble((who, ""), _RAISES, error_line(error), traceback_text(error))


def _mismatches(who: str, outputs: Sequence[Compared]) -> Iterator[_Trouble]:
    for output in outputs:
        for row in output.wrong:
            code, text = worst([Compared(output.name, [row])]) or ("", "")
            yield _Trouble(
                (f"{who} {output.name}", row.field), code, f"{who} {text}", table(outputs)
            )


def _refuse_errors(case: Case, traced: Traced) -> None:
    for who, error, fix in (
        (f"the fake kernel of {case.op.name}", traced.fake.error, None),
        (f"the backward of {case.op.name}", traced.backward_error, _BACKWARD_FIX),
    ):
        if error is not None and is_data_dependent(error):
            reason = f"torch cannot compare sizes that depend on data: {error_line(error)}"
            raise skip("checker-limit", f"{who} at symbolic sizes: {reason}")
        if error is not None:
            text = f"{who} works at plain sizes and raises at symbolic ones: {error_line(error)}"
            tensors = [tensor for _, tensor in case.eager.arguments.tensors()]
            every = ((at, dim) for at, tensor in enumerate(tensors) for dim in range(tensor.dim()))
            lines = scripts.traced(every, insist=False)
            raise fail("fake-not-symbolic", text, traceback_text(error), fix, repro=lines)


def _compare_traced(
    traced: Traced, case: Case, known: Collection[tuple[str, str]], code: str | None = None
) -> None:
    """Compare the results on symbolic sizes, at a case's sizes, with the real ones."""
    bindings = traced.bindings(case)
    if bindings is None:
        return
    reading = Reading(traced.fake.mode, bindings)
    outputs = compare(traced.fake.run, case.eager, reading)
    for trouble in _mismatches(case.op.name, outputs):
        if trouble.key not in known:
            where = f"run on symbolic sizes and read at {_sizes(case)}"
            found = code or _code(trouble)
            raise fail(found, f"{trouble.text}, {where}", trouble.evidence, case=case)


def _judge(trial: _Trial, pin: Pin, known: Collection[tuple[str, str]]) -> bool:
    """Ask the real op whether a constant must be one.

    Returns:
        False if that could not be asked.
    """
    case = trial.case
    if not set(pin.places) & set(changeable(case)):
        return False
    for group, changed in other_sizes(case, _groups(case, pin)):
        other = _Trial(changed, trial.backward)
        if not other.works or not (changed_pins := set(group) & set(pin.places)):
            continue
        if not _alike(case.eager, changed.eager):
            return True  # another number of outputs, or of dims, cannot be symbolic
        trouble = _first(other.troubles(), known)
        if trouble is None and {place.size for place in pin.places} <= whole_numbers(case):
            return True  # a comparison of sizes with arguments, which both may have to decide
        if trouble is None:
            raise _specialised(case, pin, changed)
        if not _excused(trial, other, known):
            raise _disagreement(case, changed, sorted(changed_pins, key=str)[0], trouble)
        return True
    return True


def _groups(case: Case, pin: Pin) -> list[tuple[Place, ...]]:
    """What to change together: sizes tied by being equal, the constants alone, each by itself."""
    movable = changeable(case)
    mine = [place for place in movable if place in pin.places]
    groups: list[tuple[Place, ...]] = []
    for size in sorted({place.size for place in mine}):
        groups.append(tuple(place for place in movable if place.size == size))
        groups.append(tuple(place for place in mine if place.size == size))
    groups += [(place,) for place in mine]
    return list(dict.fromkeys(groups))


def _alike(one: Run, other: Run) -> bool:
    """Whether two results differ in sizes and whole numbers only: in what can be symbolic."""
    return _form(one) == _form(other)


def _form(run: Run) -> list[tuple[str, Any]]:
    return [(name, _kind(leaf)) for name, leaf in output_leaves(run.result)]


def _kind(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        return leaf.dim(), leaf.dtype, leaf.layout
    return int if type(leaf) is int else repr(leaf)


def _first(found: Sequence[_Trouble], known: Collection[tuple[str, str]]) -> _Trouble | None:
    """The worst trouble that was not there at the sample's own sizes."""
    new = [trouble for trouble in found if trouble.key not in known]
    order = (_RAISES, _SHAPE)
    new.sort(key=lambda trouble: order.index(trouble.code) if trouble.code in order else len(order))
    return new[0] if new else None


def _excused(trial: _Trial, other: _Trial, known: Collection[tuple[str, str]]) -> bool:
    """Whether the sizes went with an int argument: changed too, fake and real agree."""
    tied = tied_integers(trial.case, other.case)
    if tied is None:
        return False
    both = _Trial(tied, trial.backward)
    return both.works and _first(both.troubles(), known) is None


def _specialised(case: Case, pin: Pin, changed: Case) -> CheckFailed:
    at = f" at {pin.line}" if pin.line else ""
    what = f" ({pin.relation} is assumed)" if pin.relation else ""
    lines = [f"line: {pin.line}"] if pin.line else []
    return fail(
        "fake-size-specialized",
        f"{case.op.name}: {pin.culprit} turns {pin} into a constant{at}{what}; the op also works "
        f"with {_sizes(changed)}",
        "\n".join([*lines, f"constant: {pin}{what}", f"works too: {_sizes(changed)}"]),
        repro=scripts.traced(_positions(case, pin), insist=True),
    )


def _positions(case: Case, pin: Pin) -> list[tuple[int, int]]:
    names = [name for name, _ in case.eager.arguments.tensors()]
    return [(names.index(place.argument), place.dim) for place in pin.places]


def _disagreement(case: Case, changed: Case, place: Place, trouble: _Trouble) -> CheckFailed:
    if trouble.code != _RAISES:
        text = f"{trouble.text}, with {_sizes(changed)}"
        return fail(_code(trouble), text, trouble.evidence, case=changed)
    return fail(
        _HARDCODED,
        f"{case.op.name}: the fake kernel insists on {place}; the real one also works with "
        f"{_sizes(changed)}, where the fake one raises {trouble.text}",
        trouble.evidence,
        "Let the fake kernel take every size that the real kernel takes, or let the real kernel "
        "refuse the same sizes with the same error.",
        case=changed,
    )


def _compare_second(
    trial: _Trial, traced: Traced, known: Collection[tuple[str, str]], note: str
) -> None:
    """Compare fake and real at other sizes: what is hard-coded is wrong there."""
    try:
        other = _Trial(second_case(trial.case), trial.backward)
    except CheckSkipped as skipped:
        raise skip(skipped.code, skipped.reason + note, unjudged=skipped.unjudged) from None
    if not other.works:
        other = _Trial(other.case, False)
    trouble = _first(other.troubles(), known)
    if trouble is not None and not _excused(trial, other, known):
        text = f"with {_sizes(other.case)}"
        if trouble.code == _RAISES:
            text = f"the fake kernel raises {text}, where the real one works: {trouble.text}"
            name = trial.case.op.name
            raise fail(_RAISES, f"{name}: {text}", trouble.evidence, case=other.case)
        raise fail(_code(trouble), f"{trouble.text}, {text}", trouble.evidence, case=other.case)
    if trouble is None and _same_numbers(trial.case, other.case):
        _compare_traced(traced, other.case, known)


def _compare_untied(trial: _Trial, known: Collection[tuple[str, str]]) -> None:
    """Compare fake and real where equal sizes are equal no longer, if the real op takes that.

    A fake kernel that swaps height and width is right on every square picture.
    """
    for _, changed in other_sizes(trial.case, _dims_of_squares(trial.case)):
        trouble = _first(_Trial(changed, False).troubles(), known)
        if trouble is not None and trouble.code != _RAISES:
            text = f"{trouble.text}, with {_sizes(changed)}"
            raise fail(trouble.code, text, trouble.evidence, case=changed)


def _dims_of_squares(case: Case) -> list[tuple[Place, ...]]:
    """Where several dims have one size, the places of each dim, if nothing else could be tied to it.

    That is: every tensor with this size has it at the same dims, and no int argument equals it.
    """
    groups = []
    for size in sorted({place.size for place in changeable(case)} - whole_numbers(case)):
        dims: dict[str, set[int]] = {}
        same = [place for place in places(case) if place.size == size]
        for place in same:
            dims.setdefault(place.argument, set()).add(place.dim)
        found = next(iter(dims.values()))
        if len(found) > 1 and all(found == other for other in dims.values()):
            groups += [tuple(place for place in same if place.dim == dim) for dim in sorted(found)]
    return groups


def _code(trouble: _Trouble) -> str:
    return _HARDCODED if trouble.code == _SHAPE else trouble.code


def _same_numbers(one: Case, other: Case) -> bool:
    """Whether the int arguments, which are no symbols, are the same."""
    mine, theirs = (
        [value for _, value in case.eager.arguments.named() if isinstance(value, int)]
        for case in (one, other)
    )
    return mine == theirs


def _sizes(case: Case) -> str:
    """The shapes of the case's tensors in words: `pic (3, 64, 64), mask (64, 64)`."""
    return ", ".join(
        f"{name} {tuple(tensor.shape)}" for name, tensor in case.eager.arguments.tensors()
    )
