"""`values.wide_strides`: kernels compute the offsets of elements in 64 bits.

Reports of kernels that do not; each showed only on tensors of several GB:

- Dao-AILab/flash-attention#2611: gradients are wrong where grad_output is a slice of a wide row
- thu-ml/SageAttention#386: wrong values, then a crash, for slices of a fused projection
- flagos-ai/FlagGems#6411: writes to a state with rows far apart go elsewhere
- vllm-project/vllm#34279, linkedin/Liger-Kernel#1296: the weights of many experts
- vllm-project/vllm-xpu-kernels#445: strides of a paged cache, kept in 32 bits
- state-spaces/mamba#880: strides kept in unsigned 32 bits
- pytorch/FBGEMM#5755: accessors with strides of 32 bits
- ml-explore/mlx#3836: 32 bits are chosen by the number of elements, not by how far they reach
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch

from ....cases.case import Case
from ....cases.crash_risk import may_crash
from ....findings import TORCH_LIMIT, CheckFailed, Explanation, doc_links, fail, skip
from ...check import Check
from ..memory.calls import Caller, skip_if_incomparable
from ..memory.placement import unshared
from ..memory.spread import AVAILABLE, beyond, just_below, near
from .script import script_of
from .trial import (
    CRASHED,
    GRAD_OUTPUT,
    REJECTED,
    SAME,
    UNJUDGED,
    WRONG,
    Outcome,
    Trial,
    outcomes,
)

_MOST = 6  # at most so many tensors, and dims of each, are tried
_DISTANCES = (just_below, beyond)


def check_wide_strides(case: Case) -> None:
    """Compare results for rows that are far apart with those for rows next to each other."""
    if torch.device(case.placement.device).type != "cpu" or not AVAILABLE:
        reason = "rows are laid out far apart only on the CPU, on Linux"
        raise skip("nothing-to-check", reason, unjudged=False)
    if not may_crash(case):
        reason = "a kernel in Python computes no offsets"
        raise skip("nothing-to-check", reason, unjudged=False)
    Caller(case)  # skips where tensors have no values
    skip_if_incomparable(case)
    trials = _trials(case)
    if not trials or case.placement.layout != "contiguous":
        reason = "no argument has rows that can be laid out far apart"
        raise skip("nothing-to-check", reason, unjudged=False)
    judged = outcomes(case, trials)
    bad = _first_finding(judged)
    single = [part for trial in _to_be_split(judged, bad) for part in trial.alone()]
    if single:
        alone = outcomes(case, single)
        judged |= alone
        bad = _first_finding(alone) or bad
    if bad is not None:
        outcome = outcomes(case, [bad])[bad]  # once more, by itself
        if outcome.is_finding:
            dense = outcomes(case, [bad], dense_for_torch=True)[bad]
            raise _finding(case, bad, outcome, dense.text if dense.verdict == SAME else "")
    if all(outcome.verdict != SAME for outcome in judged.values()):
        reason = (
            "the op rejects rows that are not next to each other, or treats them as if they were"
        )
        raise skip("nothing-to-check", reason, unjudged=False)


def _trials(case: Case) -> list[Trial]:
    """One trial for each dim and distance, with all arguments that have such rows, or all grad_outputs."""
    arguments = case.inputs()
    free = unshared(arguments)
    tensors = [(name, tensor) for name, tensor in arguments.tensors() if name in free][:_MOST]
    groups = [tensors]
    if case.requires_grad:
        groups.append([(GRAD_OUTPUT, output) for _, output in case.eager.differentiable_outputs])
    trials = []
    for group in groups:
        for dim in range(min(_MOST, max((tensor.dim() for _, tensor in group), default=0))):
            for distance in _DISTANCES:
                trial = Trial(tuple(dict.fromkeys(name for name, _ in group)), dim, distance)
                names = [name for name, tensor in group if trial.rows(name, tensor) is not None]
                if names:
                    trials.append(replace(trial, names=tuple(dict.fromkeys(names))))
    return trials


def _first_finding(judged: Mapping[Trial, Outcome]) -> Trial | None:
    return next((trial for trial, outcome in judged.items() if outcome.is_finding), None)


def _to_be_split(judged: Mapping[Trial, Outcome], bad: Trial | None) -> list[Trial]:
    """The trials to be repeated with one tensor at a time: the bad one, or those rejected or unjudged."""
    unknown = (REJECTED, UNJUDGED)
    chosen = (
        [bad] if bad else [trial for trial, outcome in judged.items() if outcome.verdict in unknown]
    )
    return [trial for trial in chosen if len(trial.names) > 1]


def _finding(case: Case, trial: Trial, outcome: Outcome, of_torch: str) -> CheckFailed:
    """The finding: a note if operators of torch are at fault.

    Args:
        of_torch: the names of these operators; empty if the op itself is at fault.
    """
    tensors = [*case.inputs().tensors()]
    tensors += [(GRAD_OUTPUT, output) for _, output in case.eager.differentiable_outputs]
    distances: dict[str, tuple[int, int]] = {}
    for name, tensor in tensors:
        rows = trial.rows(name, tensor)
        if rows is not None:
            distances.setdefault(name, (rows.stride, near(tensor, trial.dim).stride))
    name, (far, close) = next(iter(distances.items()))
    named = f"{name}.stride({trial.dim})"
    does = "gives other values than"
    if outcome.verdict == CRASHED:
        does = f"ends the process ({outcome.text}), and does not"
    how = f": {outcome.text}" if outcome.verdict == WRONG else ""
    return fail(
        "offset-overflow",
        f"{case.op.name}: with {named} = {far} it {does} with {named} = {close}{how}",
        f"(it does not if it calls {of_torch} with dense copies)" if of_torch else "",
        repro=script_of(case, trial.dim, distances),
        note=TORCH_LIMIT if of_torch else None,
        shown=f"with {named} = {far}",
    )


FINDINGS = {
    "offset-overflow": Explanation(
        meaning=(
            "If the rows of an argument (its slices along one dim) lie so far apart that the offsets of "
            "elements pass 2**31, the kernel reads or writes elsewhere: it gives other values than for the "
            "same rows near each other, or ends the process."
        ),
        why=(
            "The same happens with large tensors: a batch of long sequences, a paged cache, a slice of a "
            "fused projection, the weights of many experts. The values are wrong if the truncated offset "
            "happens to lead to memory; if not, the access is illegal."
        ),
        fix=(
            "Compute offsets in 64 bits: int64_t for strides, sizes, numel, and for an index before it is "
            "multiplied by a stride. In Triton cast the index with .to(tl.int64), in ctypes declare "
            "argtypes with c_int64. A kernel that is made for 32 bits must raise for tensors that "
            "reach further, or call .contiguous() on them."
        ),
        before="""
@triton.jit
def kernel(x, out, stride, COLUMNS: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, COLUMNS)
    tl.store(out + row, tl.sum(tl.load(x + row * stride + columns)))
""",
        after="""
@triton.jit
def kernel(x, out, stride, COLUMNS: tl.constexpr):
    row, columns = tl.program_id(0).to(tl.int64), tl.arange(0, COLUMNS)
    tl.store(out + row, tl.sum(tl.load(x + row * stride + columns)))
""",
        docs=(
            doc_links.TENSOR_VIEWS,
            doc_links.MANUAL,
        ),
        follows=("layout-dependent-result", "thread-unsafe"),
    ),
}

CHECK = Check(
    name="values.wide_strides",
    summary="rows may lie billions of elements apart: native kernels compute offsets in 64 bits",
    run=check_wide_strides,
    variants=("shape",),
    cheap=True,
    in_copies=may_crash,
    findings=FINDINGS,
    catches=(
        "A native kernel (C++, C, ctypes, Triton's interpreter) that computes offsets of elements in 32 "
        "bits, or keeps strides in 32 bits. In a copy of the process, the rows of arguments and of "
        "grad_outputs, along each dim in turn, lie so far apart that offsets pass 2**31: first with "
        "strides that fit into 32 bits, then with one of 2**32. The memory between rows is reserved but "
        "never used. Other values or gradients than for the same rows near each other are a finding, and "
        "so is a crash. The finding names the argument. "
        "[Reports](#where-a-check-comes-from) of such kernels."
    ),
    cannot_see=(
        "Offsets within outputs and within the kernel's own memory. More than 2**31 elements: that takes "
        "tensors as large. A kernel that rejects such strides or calls `.contiguous()`. A kernel that "
        "ignores strides: `values.layouts` finds it. More than 256 rows. Devices other than the CPU, "
        "systems other than Linux."
    ),
    cost="calls",
)
