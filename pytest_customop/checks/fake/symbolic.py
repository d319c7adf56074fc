"""`fake.symbolic`: the fake kernel at symbolic sizes, compared with the real op at other sizes.

A size that became a constant proves nothing by itself: a correct "needs 3 channels" and a wrong
`int(x.shape[0])` leave the same guard, and a hard-coded size leaves none. So the check changes sizes
and runs the real op, whose result shows what is right there.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch

from ...cases.case import Case
from ...cases.deliberate import note_if_deliberate
from ...cases.fake_run import skip_if_unfakeable
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
from ...cases.run import Run
from ...cases.tensors import output_leaves
from ...cases.unrolled import loops_over_sizes
from ...compat.fakes import is_data_dependent
from ...core.tracebacks import error_line, traceback_text
from ...findings import NOT_ASKED, CheckFailed, CheckSkipped, Explanation, doc_links, fail, skip
from ..check import Check
from . import scripts
from .metadata import SizeReader, compare_outputs
from .real_and_fake import RAISES, SHAPE, Disagreement, RealAndFake, mismatches, worst_new
from .size_groups import dims_of_squares, groups_of_pin
from .specialization import Pin, Traced, fake_gradients, only_next_to_one, trace

_HARDCODED = "fake-size-hardcoded"
_BACKWARD_FIX = (
    "Write the backward with ops, and arithmetic on sizes, that torch can trace at symbolic sizes; "
    "the last lines of the traceback show what it cannot."
)


def check_symbolic(case: Case) -> None:
    """Run the fake kernel on symbolic sizes; test each constant, and compare at other sizes."""
    if not places(case):
        raise skip(
            "nothing-to-check", "every size is 0 or 1, and these are constants", unjudged=False
        )
    skip_if_unfakeable(case.eager)
    pair = _first_pair(case)
    known = frozenset(disagreement.key for disagreement in pair.disagreements())
    traced = trace(case, backward=pair.backward)
    _raise_trace_errors(case, traced)
    _compare_traced(traced, case, known, "fake-not-symbolic")
    undecided = [pin for pin in traced.pins if not _is_decided(pair, traced, pin, known)]
    note = ""
    if undecided:
        note = f"; {undecided[0]} became a constant, and whether it must is not known"
    if output_leaves(case.eager.result) != [("output", None)]:
        _compare_second(pair, traced, known, note)
        _compare_untied(pair, known)
    if undecided:
        raise skip("no-second-size", fixed_inputs(case) + note)


def _first_pair(case: Case) -> RealAndFake:
    """The case at its own sizes, with its backward if that works on fake tensors.

    Raises:
        CheckSkipped: if the fake kernel raises.
    """
    pair = RealAndFake(case, backward=False)
    plain = pair.fake
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
        pair.backward = fake_gradients(plain) is None
    return pair


def _raise_trace_errors(case: Case, traced: Traced) -> None:
    """Report a fake kernel or a backward that raises at symbolic sizes only."""
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
            all_dims = (
                (at, dim) for at, tensor in enumerate(tensors) for dim in range(tensor.dim())
            )
            lines = scripts.trace_script(all_dims, insist=False)
            note = note_if_deliberate(case.op.name, error)
            raise fail(
                "fake-not-symbolic", text, traceback_text(error), fix, repro=lines, note=note
            )


def _compare_traced(
    traced: Traced, case: Case, known: Collection[tuple[str, str]], code: str | None = None
) -> None:
    """Compare the symbolic results, evaluated at a case's sizes, with the real ones.

    Args:
        traced: the call on symbolic sizes.
        case: whose sizes and real results are taken.
        known: the keys of disagreements that were there at plain sizes.
        code: of the finding; None: by the disagreement.
    """
    bindings = traced.bindings(case)
    if bindings is None:
        return
    reader = SizeReader(traced.fake.mode, bindings)
    outputs = compare_outputs(traced.fake.run, case.eager, reader)
    for disagreement in mismatches(case.op.name, outputs):
        if disagreement.key not in known:
            where = f"run on symbolic sizes and read at {_sizes(case)}"
            finding_code = code or _code(disagreement)
            text, shown = f"{disagreement.text}, {where}", f"with {_sizes(case)}"
            raise fail(finding_code, text, disagreement.evidence, case=case, shown=shown)


def _is_decided(
    pair: RealAndFake, traced: Traced, pin: Pin, known: Collection[tuple[str, str]]
) -> bool:
    """Run the real op at other sizes, to see whether a constant must be one.

    Returns:
        False if no other size could be tried.

    Raises:
        CheckFailed: if the constant is wrong.
    """
    case = pair.case
    if not set(pin.places) & set(changeable(case)):
        return False

    def needs_new_trace(changed: Case) -> bool:
        return pin.relation is None or traced.bindings(changed) is None

    for group, changed in other_sizes(case, groups_of_pin(case, pin), needs_new_trace):
        changed_pair = RealAndFake(changed, pair.backward)
        if not changed_pair.works or not (changed_pins := set(group) & set(pin.places)):
            continue
        if not _same_structure(case.eager, changed.eager):
            return True  # a number of outputs, or of dims, cannot be symbolic
        disagreement = worst_new(changed_pair.disagreements(), known)
        if disagreement is None and {place.size for place in pin.places} <= whole_numbers(case):
            return True  # sizes compared with arguments, which both kernels may have to decide
        if disagreement is None and loops_over_sizes(case, changed):
            return True
        pinned = [(place.argument, place.dim) for place in pin.places]
        if disagreement is None and only_next_to_one(case, changed, pinned):
            return True
        if disagreement is None:
            raise _specialized(case, pin, changed)
        if not _explained_by_integers(pair, changed_pair, known):
            raise _disagreement(case, changed, sorted(changed_pins, key=str)[0], disagreement)
        return True
    return True


def _same_structure(first: Run, second: Run) -> bool:
    """Whether two results differ only in what can be symbolic: sizes and whole numbers."""
    return _structure(first) == _structure(second)


def _structure(run: Run) -> list[tuple[str, Any]]:
    return [(name, _kind(leaf)) for name, leaf in output_leaves(run.result)]


def _kind(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        return leaf.dim(), leaf.dtype, leaf.layout
    return int if type(leaf) is int else repr(leaf)


def _explained_by_integers(
    pair: RealAndFake, changed_pair: RealAndFake, known: Collection[tuple[str, str]]
) -> bool:
    """Whether fake and real agree once the int arguments that equal the sizes change with them."""
    tied = tied_integers(pair.case, changed_pair.case)
    if tied is None:
        return False
    tied_pair = RealAndFake(tied, pair.backward)
    return tied_pair.works and worst_new(tied_pair.disagreements(), known) is None


def _specialized(case: Case, pin: Pin, changed: Case) -> CheckFailed:
    at = f" at {pin.line}" if pin.line else ""
    what = f" ({pin.relation} is assumed)" if pin.relation else ""
    lines = [f"line: {pin.line}"] if pin.line else []
    positions = _positions(case, pin)
    if pin.relation:
        script = scripts.retrace_script(positions)
    else:
        script = scripts.trace_script(positions, insist=True)
    return fail(
        "fake-size-specialized",
        f"{case.op.name}: {pin.culprit} turns {pin} into a constant{at}{what}; the op also works "
        f"with {_sizes(changed)}",
        "\n".join([*lines, f"constant: {pin}{what}", f"works too: {_sizes(changed)}"]),
        repro=script,
        case=changed if pin.relation else None,
        note=NOT_ASKED if pin.is_of_backward else None,
    )


def _positions(case: Case, pin: Pin) -> list[tuple[int, int]]:
    names = [name for name, _ in case.eager.arguments.tensors()]
    return [(names.index(place.argument), place.dim) for place in pin.places]


def _disagreement(
    case: Case, changed: Case, place: Place, disagreement: Disagreement
) -> CheckFailed:
    if disagreement.code != RAISES:
        shown = f"with {_sizes(changed)}"
        text = f"{disagreement.text}, {shown}"
        return fail(_code(disagreement), text, disagreement.evidence, case=changed, shown=shown)
    return fail(
        _HARDCODED,
        f"{case.op.name}: the fake kernel insists on {place}; the real one also works with "
        f"{_sizes(changed)}, where the fake one raises {disagreement.text}",
        disagreement.evidence,
        "Let the fake kernel take every size that the real kernel takes, or let the real kernel "
        "reject the same sizes with the same error.",
        case=changed,
        note=disagreement.note,
        shown=f"with {_sizes(changed)}",
    )


def _compare_second(
    pair: RealAndFake, traced: Traced, known: Collection[tuple[str, str]], note: str
) -> None:
    """Compare fake and real at other sizes, where a hard-coded size is wrong."""
    try:
        changed_pair = RealAndFake(second_case(pair.case), pair.backward)
    except CheckSkipped as skipped:
        raise skip(skipped.code, skipped.reason + note, unjudged=skipped.unjudged) from None
    if not changed_pair.works:
        changed_pair = RealAndFake(changed_pair.case, False)
    disagreement = worst_new(changed_pair.disagreements(), known)
    if disagreement is not None and not _explained_by_integers(pair, changed_pair, known):
        text = f"with {_sizes(changed_pair.case)}"
        if disagreement.code == RAISES:
            text = f"the fake kernel raises {text}, where the real one works: {disagreement.text}"
            name = pair.case.op.name
            raise fail(
                RAISES,
                f"{name}: {text}",
                disagreement.evidence,
                case=changed_pair.case,
                note=disagreement.note,
                shown=f"with {_sizes(changed_pair.case)}",
            )
        raise fail(
            _code(disagreement),
            f"{disagreement.text}, {text}",
            disagreement.evidence,
            case=changed_pair.case,
            shown=text,
        )
    if disagreement is None and _same_numbers(pair.case, changed_pair.case):
        _compare_traced(traced, changed_pair.case, known)


def _compare_untied(pair: RealAndFake, known: Collection[tuple[str, str]]) -> None:
    """Compare fake and real after equal sizes became different, if the real op works there.

    A fake kernel that swaps height and width is right on every square image.
    """
    for _, changed in other_sizes(pair.case, dims_of_squares(pair.case)):
        disagreement = worst_new(RealAndFake(changed, False).disagreements(), known)
        if disagreement is not None and disagreement.code != RAISES:
            shown = f"with {_sizes(changed)}"
            text = f"{disagreement.text}, {shown}"
            raise fail(disagreement.code, text, disagreement.evidence, case=changed, shown=shown)


def _code(disagreement: Disagreement) -> str:
    return _HARDCODED if disagreement.code == SHAPE else disagreement.code


def _same_numbers(left: Case, right: Case) -> bool:
    """Whether the int arguments, which stay plain numbers, are the same."""
    first, second = (
        [value for _, value in case.eager.arguments.named() if isinstance(value, int)]
        for case in (left, right)
    )
    return first == second


def _sizes(case: Case) -> str:
    """The shapes of the case's tensors: `pic (3, 64, 64), mask (64, 64)`."""
    return ", ".join(
        f"{name} {tuple(tensor.shape)}" for name, tensor in case.eager.arguments.tensors()
    )


FINDINGS = {
    "fake-size-hardcoded": Explanation(
        meaning=(
            "The fake kernel returns a size taken from the example instead of computing it "
            "from its inputs."
        ),
        why="It is right at this size and wrong at every other: a batch of another size breaks.",
        fix="Compute the size from the inputs' shapes: x.shape[0], not the number it has today.",
        before="""
@embed.register_fake
def _(x, table):
    return table.new_empty(32, 64)
""",
        after="""
@embed.register_fake
def _(x, table):
    return table.new_empty(x.shape[0], table.shape[1])
""",
        docs=(doc_links.REGISTER_FAKE, doc_links.DYNAMIC_SHAPES),
        follows=("fake-shape-mismatch",),
    ),
    "fake-size-specialized": Explanation(
        meaning=(
            "The fake kernel turns a symbolic size into a constant although the op works at "
            "other sizes: torch.compile then recompiles for each size, and torch.export "
            "rejects a dynamic dimension."
        ),
        why=(
            "Models whose batch or sequence length varies compile again and again, until "
            "dynamo's recompile limit is reached and the rest runs uncompiled."
        ),
        fix=(
            "Leave sizes symbolic in the fake kernel: no int(x.shape[i]), no comparison with "
            "the example's size, no torch.Size -> list of numbers; use the SymInt as it is."
        ),
        before="""
@pad.register_fake
def _(x, by):
    return x.new_empty(int(x.shape[0]) + by)
""",
        after="""
@pad.register_fake
def _(x, by):
    return x.new_empty(x.shape[0] + by)
""",
        docs=(doc_links.DYNAMIC_SHAPES, doc_links.EXPORT),
    ),
    "fake-not-symbolic": Explanation(
        meaning="The fake kernel works on plain sizes and raises on symbolic ones.",
        why=(
            "torch.compile makes sizes symbolic as soon as it sees a second one, and "
            "torch.export for every dynamic dimension: both then fail inside the fake "
            "kernel."
        ),
        fix=(
            "Write the fake kernel with operations that SymInt has: arithmetic, comparison, "
            "torch.sym_max, new_empty; not int(), range(), math.* or numpy on sizes."
        ),
        before="""
@halve.register_fake
def _(x):
    return x.new_empty(math.ceil(x.shape[0] / 2))
""",
        after="""
@halve.register_fake
def _(x):
    return x.new_empty((x.shape[0] + 1) // 2)
""",
        docs=(doc_links.DYNAMIC_SHAPES, doc_links.REGISTER_FAKE),
        follows=("fake-raises", "fake-missing"),
    ),
}

CHECK = Check(
    name="fake.symbolic",
    summary="the fake kernel works at symbolic sizes, and turns none of them into a constant",
    run=check_symbolic,
    variants=("layout", "dtype", "arguments"),
    cheap_variants=("arguments",),
    repro=scripts.FORWARD,
    findings=FINDINGS,
    catches=(
        "With symbolic sizes: a fake kernel that raises, returns a hard-coded size, or turns "
        "a size into a constant. A constant is a suspicion; it is a finding only if the real "
        "op works at another size."
    ),
    cannot_see=(
        "Sizes 0 and 1, which are constants to a compiler, and those that a backward loops over. "
        "Whole numbers that count or order something keep their size. If no size is left that can "
        "change, the second half is not judged: a skip, `no-second-size`."
    ),
    cost="many calls",
)
