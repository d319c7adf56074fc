"""`values.mutation`: the op writes to what its schema declares, and to nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from ...cases.argument_names import names_buffer, names_workspace
from ...cases.arguments import Arguments
from ...cases.case import Case
from ...cases.crash_risk import may_crash
from ...cases.tensors import base_name, is_differentiable
from ...compat.ops import has_kernel_elsewhere
from ...declare.layouts import OFFSET, MemoryLayout
from ...findings import NOT_ASKED, CheckFailed, Explanation, doc_links, fail, skip
from ..check import Check
from .conditional_writes import may_stay_unwritten
from .memory.calls import Caller, expression, plain_arguments, with_argument
from .memory.perturb import EXTREMES, NEGATED, UNCHECKED_INTEGERS, Change, changeable, safe_changes
from .memory.placement import LAYOUTS, rearrange
from .memory.storage import Snapshot, Write
from .memory.trial import Trial, trial_of

_ALONE = 4  # tensors, at most, of which each is negated alone


def check_mutation(case: Case) -> None:
    """Compare every byte of the arguments' storages before and after calls of the op."""
    calls = Caller(case)
    if not case.inputs().tensors():
        raise skip("nothing-to-check", "the op takes no tensors", unjudged=False)
    written: set[str] = set()
    for trial in _trials(case):
        snapshot = Snapshot(trial.arguments)
        if calls(trial.arguments).error is None:
            _fail_if_forbidden(case, trial, snapshot)
            written |= snapshot.mutated()
    unwritten = [name for name, _ in case.inputs().mutated() if name not in written]
    # A variant may be one of the few calls that write nothing.
    if unwritten and case.base_case is None and not may_stay_unwritten(calls, unwritten[0]):
        device = torch.device(case.placement.device).type
        elsewhere = names_workspace(unwritten[0]) and has_kernel_elsewhere(case.op.overload, device)
        raise fail(
            "mutation-missing",
            f"{case.op.name}: the schema says that {unwritten[0]} is written to, but no call "
            "changed it: neither with the sample nor with other values, flags or layouts",
            note=NOT_ASKED if elsewhere else None,  # the kernel for another device may need it
            repro=_MISSING.format(one=expression(case, unwritten[0])),
        )


def _fail_if_forbidden(case: Case, trial: Trial, snapshot: Snapshot) -> None:
    write = snapshot.forbidden()
    if write is not None:
        raise _forbidden(case, trial, write)
    name = snapshot.restored()
    if name is not None:
        raise fail(
            "undeclared-mutation",
            f"{case.op.name}{trial.description}: argument {name}, which the schema does not declare as "
            "written to, was written to and put back (its version counter moved)",
            repro=_script(trial, _VERSION.format(one=expression(case, name), sign="==")),
        )
    name = snapshot.unversioned()
    if name is not None:
        raise fail(
            "version-not-bumped",
            f"{case.op.name}{trial.description}: argument {name} is written to, and its version counter "
            "does not move",
            note=NOT_ASKED if _is_unsaved(case, name) else None,
            repro=_script(trial, _VERSION.format(one=expression(case, name), sign=">")),
        )


def _is_unsaved(case: Case, name: str) -> bool:
    """Whether formulas hardly ever save this argument: a buffer, or integers, such as a counter."""
    dtypes = [tensor.dtype for path, tensor in case.inputs().tensors() if path == name]
    return names_buffer(base_name(name)) or not all(map(is_differentiable, dtypes))


def _forbidden(case: Case, trial: Trial, write: Write) -> CheckFailed:
    place = expression(case, write.argument)
    start = f"{case.op.name}{trial.description}:"
    if write.outside:
        text = f"{start} it writes outside of the elements of {write.argument}: {write.what}"
        return fail(
            "write-outside-elements", text, repro=_script(trial, _OUTSIDE.format(one=place))
        )
    text = (
        f"{start} argument {write.argument}, which the schema does not declare as written to, "
        f"is changed: {write.what}"
    )
    return fail("undeclared-mutation", text, repro=_script(trial, _BYTES.format(one=place)))


def _trials(case: Case) -> Iterator[Trial]:
    """The sample; with guard zones and padding; with other values and orders; with each bool flipped."""
    yield Trial("", case.inputs())
    other_branches = case.may_take_other_branches
    for layout in (OFFSET, *(LAYOUTS[:-1] if other_branches else ())):
        moved = _moved(case, layout)
        if moved:
            yield moved
    if not other_branches:
        return
    drawn = case.inputs()
    if changeable(drawn):
        for change in safe_changes(case, EXTREMES):
            guarded = _moved(case, OFFSET, change.apply(drawn))
            script = _lines(case, change, drawn)
            description = f", with values {change.description}"
            if guarded:
                yield Trial(description, guarded.arguments, f"{script}\n{guarded.script}")
            yield Trial(description, change.apply(drawn), script)
        yield from _negated_alone(case)
    # The op may raise then. If it does not, it may still write only to what its schema declares.
    for change in UNCHECKED_INTEGERS if not may_crash(case) else ():
        if change.targets(drawn):
            description = f", with integers {change.description}"
            yield Trial(description, change.apply(drawn), _lines(case, change, drawn))
    for name, value in plain_arguments(drawn):
        if isinstance(value, bool) and "[" not in name:
            flipped = with_argument(case.inputs(), name, not value)
            script = f"{expression(case, name)} = {not value}"
            yield Trial(f", with {name}={not value}", flipped, script)


def _negated_alone(case: Case) -> Iterator[Trial]:
    """One of several floating-point tensors negated, where the op may reject others below 0."""
    targets = NEGATED.targets(case.inputs())
    names = [
        name for name, tensor in targets if tensor.dtype.itemsize > 1
    ]  # torch negates no float8
    if not 1 < len(names) <= _ALONE or NEGATED not in safe_changes(case, (NEGATED,)):
        return
    for name in names:
        place = expression(case, name)
        changed = case.inputs().map_distinct(
            lambda path, tensor, one=name: -tensor.detach() if path == one else tensor  # type: ignore[misc]
        )
        yield Trial(f", with {name} negated", changed, f"{place} = -{place}.detach()")


def _lines(case: Case, change: Change, drawn: Arguments) -> str:
    """The script lines that give new values to the arguments."""
    return "\n".join(change.line(expression(case, name)) for name, _ in change.targets(drawn))


def _moved(case: Case, layout: MemoryLayout, drawn: Arguments | None = None) -> Trial | None:
    moved = rearrange(case.inputs() if drawn is None else drawn, layout)
    if moved is None:
        return None
    return trial_of(case, moved)


def _script(trial: Trial, lines: str) -> str:
    return _START.format(lay_out=trial.lay_out, lines=trial.script) + lines


_START = """{lay_out}

args, kwargs = inputs()
args = list(args)
{lines}
"""
_RAW = """
def raw(t):
    storage = t.untyped_storage()
    return torch.empty(0, dtype=torch.uint8, device=t.device).set_(
        storage, 0, (storage.nbytes(),), (1,)
    )

"""
_BYTES = (
    _RAW
    + """
def state(t):
    home = raw(t)
    return t.shape, t.stride(), t.storage_offset(), home.data_ptr(), home.tolist()


before = state({one})
op(*args, **kwargs)
assert state({one}) == before, "the argument changed"
"""
)
_OUTSIDE = (
    _RAW
    + """
t = {one}
inside = torch.zeros(t.untyped_storage().nbytes() // t.element_size(), dtype=torch.bool)
inside.as_strided(t.shape, t.stride(), t.storage_offset()).fill_(True)
inside = inside.repeat_interleave(t.element_size()).to(t.device)
before = raw(t)[: len(inside)][~inside].tolist()
op(*args, **kwargs)
assert raw(t)[: len(inside)][~inside].tolist() == before, "bytes outside of the elements changed"
"""
)
_VERSION = """
before = {one}._version
op(*args, **kwargs)
assert {one}._version {sign} before, "version counter"
"""
_MISSING = """
args, kwargs = inputs()
args = list(args)
before = {one}.detach().clone()
op(*args, **kwargs)
assert not torch.equal({one}, before), "nothing was written"
"""

FINDINGS = {
    "undeclared-mutation": Explanation(
        meaning="The op writes to an argument that its schema does not declare as mutated.",
        why=(
            "Autograd and the compiler trust the schema: saved tensors become stale without "
            "an error, and compiled code reorders or drops the write."
        ),
        fix=(
            "Name the argument in mutates_args= (or write Tensor(a!) in the schema), or copy "
            "it before writing."
        ),
        before="""
@torch.library.custom_op("mylib::center", mutates_args=())
def center(x: Tensor, mean: Tensor) -> Tensor:
    mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
    return x - mean
""",
        after="""
@torch.library.custom_op("mylib::center", mutates_args={"mean"})
def center(x: Tensor, mean: Tensor) -> Tensor:
    mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
    return x - mean
""",
        docs=(
            doc_links.CUSTOM_OP,
            doc_links.OPCHECK,
        ),
    ),
    "write-outside-elements": Explanation(
        meaning=(
            "The op writes to memory of an argument's storage outside the argument's "
            "elements: before them, after them, or between its rows."
        ),
        why=(
            "A view's storage belongs to other tensors too: writing past a slice changes the "
            "rest of the batch. On the last tensor of a storage it corrupts the heap."
        ),
        fix=(
            "Address elements by the tensor's strides, or copy to a contiguous tensor, "
            "compute, and copy_ back; stop at numel(), not at the end of the storage."
        ),
        before="""
flat = out.as_strided((out.numel(),), (1,))
flat.copy_(result.flatten())
""",
        after="""
out.copy_(result)
""",
        docs=(doc_links.TENSOR_VIEWS,),
    ),
    "mutation-missing": Explanation(
        meaning=(
            "The schema declares that an argument is written to, but the op leaves it unchanged."
        ),
        why=(
            "Callers rely on a result that is never written, and torch.compile copies the "
            "argument around the call and orders other ops after it."
        ),
        fix=(
            "Write to the argument (x.copy_(result), not x = result), or take it out of "
            "mutates_args= (or the (a!) out of the schema)."
        ),
        before="""
@torch.library.custom_op("my::scale_", mutates_args={"x"})
def scale_(x: Tensor, factor: float) -> None:
    x = x * factor
""",
        after="""
@torch.library.custom_op("my::scale_", mutates_args={"x"})
def scale_(x: Tensor, factor: float) -> None:
    x.mul_(factor)
""",
        docs=(
            doc_links.LIBRARY,
            doc_links.PYTHON_CUSTOM_OPS,
        ),
    ),
    "version-not-bumped": Explanation(
        meaning=(
            "The op writes to an argument through raw memory (a pointer, numpy, .data), and "
            "the argument's version counter does not move."
        ),
        why=(
            "Autograd detects a changed saved tensor by its version. Without it, the "
            "backward of an earlier op computes with the new values, without an error."
        ),
        fix=(
            "Call torch.autograd.graph.increment_version(x) after the write (in C++ "
            "torch::autograd::increment_version), or define the op with "
            "torch.library.custom_op and mutates_args=, which does so."
        ),
        before="""
lib.impl("scale_", lambda x: x.numpy().__imul__(2) and None, "CPU")
""",
        after="""
def scale_(x):
    x.numpy()[...] *= 2
    torch.autograd.graph.increment_version(x)
lib.impl("scale_", scale_, "CPU")
""",
        docs=(
            doc_links.AUTOGRAD,
            doc_links.AUTOGRAD_NOTES,
        ),
    ),
}

CHECK = Check(
    name="values.mutation",
    summary="the op writes to what its schema declares and to nothing else, byte by byte",
    run=check_mutation,
    variants=("shape", "dtype", "values", "positions", "arguments", "pairs"),
    cheap=True,
    findings=FINDINGS,
    catches=(
        "Every byte of the arguments' storages that changes although the schema does not "
        "declare it, including guard zones before and after the elements and gaps between rows. A "
        "write that was undone shows in the version counter; one that changes only the sign of "
        "zero or the bits of a NaN shows in the bytes. Other layouts, extreme values, integers in "
        "reverse order and flipped bools are tried, to reach other branches. Declared arguments must "
        "be written to in at least one of these calls, and their version counter must move."
    ),
    cannot_see=(
        "A raw write that is undone, or one in a branch that none of these inputs takes. A "
        "declared write that may be conditional (on an `int`, a `str`, an optional that is "
        "None, zeros that may be a lock) is never reported as missing."
    ),
    cost="many calls",
)
