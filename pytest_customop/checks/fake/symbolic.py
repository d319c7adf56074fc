"""`fake.symbolic`: the fake kernel at symbolic sizes, compared with the real op at other sizes."""

from __future__ import annotations

from collections.abc import Collection

from ...cases.case import Case
from ...cases.deliberate import note_if_deliberate
from ...cases.fake_run import skip_if_unfakeable
from ...cases.resize import (
    fixed_inputs,
    other_sizes,
    places,
    second_case,
)
from ...cases.tensors import output_leaves
from ...compat.fakes import is_data_dependent
from ...core.tracebacks import error_line, traceback_text
from ...findings import CheckSkipped, Explanation, doc_links, fail, skip
from ..check import Check
from . import scripts
from .constants import is_decided
from .metadata import SizeReader, compare_outputs
from .real_and_fake import (
    RAISES,
    RealAndFake,
    explained_by_integers,
    mismatches,
    sizes_of,
    worst_new,
)
from .size_groups import dims_of_squares
from .specialization import Traced, fake_gradients, trace

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
    undecided = [pin for pin in traced.pins if not is_decided(pair, traced, pin, known)]
    note = ""
    if undecided:
        note = f"; {undecided[0]} became a constant, and it is not known whether it must be one"
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
        case: gives the sizes and the real results.
        known: the keys of disagreements that exist at plain sizes.
        code: the finding's code; None: the disagreement's own.
    """
    bindings = traced.bindings(case)
    if bindings is None:
        return
    reader = SizeReader(traced.fake.mode, bindings)
    outputs = compare_outputs(traced.fake.run, case.eager, reader)
    for disagreement in mismatches(case.op.name, outputs):
        if disagreement.key not in known:
            where = f"run on symbolic sizes and read at {sizes_of(case)}"
            finding_code = code or disagreement.finding_code
            text, shown = f"{disagreement.text}, {where}", f"with {sizes_of(case)}"
            raise fail(finding_code, text, disagreement.evidence, case=case, shown=shown)


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
    if disagreement is not None and not explained_by_integers(pair, changed_pair, known):
        text = f"with {sizes_of(changed_pair.case)}"
        if disagreement.code == RAISES:
            text = f"the fake kernel raises {text}, where the real one works: {disagreement.text}"
            name = pair.case.op.name
            raise fail(
                RAISES,
                f"{name}: {text}",
                disagreement.evidence,
                case=changed_pair.case,
                note=disagreement.note,
                shown=f"with {sizes_of(changed_pair.case)}",
            )
        raise fail(
            disagreement.finding_code,
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
            shown = f"with {sizes_of(changed)}"
            text = f"{disagreement.text}, {shown}"
            raise fail(disagreement.code, text, disagreement.evidence, case=changed, shown=shown)


def _same_numbers(left: Case, right: Case) -> bool:
    """Whether the int arguments, which stay plain numbers, are the same."""
    first, second = (
        [value for _, value in case.eager.arguments.named() if isinstance(value, int)]
        for case in (left, right)
    )
    return first == second


FINDINGS = {
    "fake-size-hardcoded": Explanation(
        meaning=(
            "The fake kernel returns a size taken from the example instead of computing it "
            "from its inputs."
        ),
        why="It is right at this size and wrong at every other: a batch of another size breaks.",
        fix="Compute the size from the inputs' shapes: x.shape[0], not a literal number.",
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
            "Models whose batch size or sequence length varies compile again and again, until "
            "dynamo's recompile limit is reached and the rest runs uncompiled."
        ),
        fix=(
            "Leave sizes symbolic in the fake kernel: no int(x.shape[i]), no comparison with "
            "the example's size, no conversion of torch.Size to plain numbers; use the SymInt "
            "as it is."
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
            "torch.compile makes a size symbolic as soon as it sees a second value, and "
            "torch.export makes every dynamic dimension symbolic. Both then fail inside the "
            "fake kernel."
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
        "a size into a constant. A constant is a finding only if the real op also works at "
        "another size."
    ),
    cannot_see=(
        "Sizes 0 and 1, which are constants to a compiler, and sizes that a backward loops over. "
        "A tensor of integers that count or order something keeps its size. If no size can change, "
        "the comparison at other sizes is skipped: `no-second-size`."
    ),
    cost="many calls",
)
