"""Run the cases of a group in eager mode, and leave out those that must be judged alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from ...cases.case import Case
from ...cases.tensors import base_name, is_plain, same_bits
from ...compat.tensors import storage_id
from ...core import rng
from ...core.tracebacks import reraise_bug
from ...global_state.preserve import preserved_state
from .eager import EagerRecord, run_eager
from .harness import HarnessConfig, OpHarness

OtherSizes = Callable[[Case], "Case | None"]

# The eager calls of the last group, at the cases' own sizes. The next check may compare the same cases.
# Each call is used at most twice, and then dropped.
_last_calls: dict[Case, EagerRecord] = {}
_KEPT = 2**14  # the most elements of a sample's tensors


@dataclass(frozen=True, eq=False)
class Member:
    """A case of a group, with its eager calls: at its own sizes, then perhaps at others."""

    case: Case
    harness: OpHarness
    calls: list[EagerRecord]


def members_of(
    cases: Sequence[Case], config: HarnessConfig, other_sizes: OtherSizes | None
) -> list[Member]:
    """Run cases in eager mode.

    Args:
        cases: of a group.
        config: what surrounds each call.
        other_sizes: gives a case at other sizes, which runs too; None to run no other sizes.

    Returns:
        the cases that can be judged in a group.
    """
    known = dict(_last_calls)
    _last_calls.clear()
    members = []
    for case in cases:
        member = _member(case, config, other_sizes, known.get(case))
        if member is None:
            continue
        members.append(member)
        first = member.calls[0]
        if first is not known.get(case) and _is_small(case):
            _last_calls[case] = first
    return members


def _is_small(case: Case) -> bool:
    return sum(math.prod(leaf.shape) for _, leaf in case.sample_tensors()) <= _KEPT


def _member(
    case: Case,
    config: HarnessConfig,
    other_sizes: OtherSizes | None,
    known: EagerRecord | None,
) -> Member | None:
    """Run a case in eager mode; None if it must be judged alone, for example because the op raises.

    Args:
        case: the case.
        config: what surrounds the call.
        other_sizes: gives the case at other sizes, which runs too.
        known: the call of the case, if another check has made it.
    """
    try:
        with preserved_state() as restore:
            case.draw()
            failed = case.eager.error is not None
            if failed or not all(map(_is_usual, case.inputs().tensors())):
                return None
            restore()  # as before a check
            harness = OpHarness(case, config)
            if harness.plan.before:  # the op writes to an undeclared argument
                return None
            if known is not None and _is_alike(known.harness, harness):
                harness, calls = known.harness, [known]
            else:
                calls = [run_eager(harness, case)]
                if rng.drawn_since(case.seed):
                    return None  # at another place in a function it would draw other numbers
            other_case = None if other_sizes is None else other_sizes(case)
            if other_case is not None:
                calls.append(run_eager(harness, other_case))
    except Exception as error:  # of any kind: the case is then judged alone
        reraise_bug(error)
        return None
    usual = all(call.harness is harness and _is_usual_call(call) for call in calls)
    return Member(case, harness, calls) if usual else None


def _is_alike(left: OpHarness, right: OpHarness) -> bool:
    """Whether two functions around the op of a case are the same."""
    return left.config.producers == right.config.producers and left.plan == right.plan


def _is_usual(named: tuple[str, torch.Tensor]) -> bool:
    _, tensor = named
    return is_plain(tensor) and not tensor.is_meta


def _is_usual_call(call: EagerRecord) -> bool:
    """Whether a defect of the call shows in a group as it does alone.

    Compiled code reuses memory, and in a group it reuses other memory. So an output in the memory of
    something else may show its effect only if the case is compiled alone.
    """
    contract, before = call.contract, call.case.inputs()
    if contract.violations or contract.shares_memory or _shares_storage(call):
        return False
    declared = call.case.op.mutated
    pairs = zip(before.tensors(), call.record.arguments.tensors(), strict=True)
    return all(
        base_name(name) in declared or same_bits(left, right) for (name, left), (_, right) in pairs
    )


def _shares_storage(call: EagerRecord) -> bool:
    """Whether the op returned the same memory as in an earlier call, like an op that keeps a buffer."""
    first, second = (
        {storage_id(leaf) for _, leaf in outputs if isinstance(leaf, torch.Tensor) and leaf.numel()}
        for outputs in (call.case.eager.outputs, call.record.outputs)
    )
    return not first.isdisjoint(second)
