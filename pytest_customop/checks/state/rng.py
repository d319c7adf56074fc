"""`state.rng`: only ops tagged as random draw random numbers, and nothing reseeds a stream."""

from __future__ import annotations

from ...cases.case import Case
from ...core import rng
from ...findings import Explanation, doc_links, fail
from ...global_state.settings import preserved
from ..check import Check
from .parts import Part, parts_of, runs

_STARTS = (1_905_347_881, 1_276_019_553)  # seeds that an op is unlikely to use itself


def check_rng(case: Case) -> None:
    """Call the op, its fake kernel and its backward from two states of each random stream."""
    with preserved():
        for part in parts_of(case):
            _check_streams(case, part)


def _check_streams(case: Case, part: Part) -> None:
    ends: list[rng.State] = []
    consumed: list[str] = []
    for start in _STARTS:
        call = part.prepare()
        if call is None:
            return
        rng.seed(start)
        before = rng.states()
        if not runs(call):
            return
        ends.append(rng.states())
        consumed = [*rng.changed(before, ends[-1])]
        if not consumed:
            return
    same = {*ends[0]} - {*rng.changed(*ends)}
    reseeded = [name for name in consumed if name in same]
    if reseeded:
        raise fail(
            "rng-reseeded",
            f"{case.op.name}: {part.description} sets {reseeded[0]} random stream to a fixed state",
            repro=part.script + _RESEEDED,
        )
    if part.description == "the forward" and case.op.tagged("nondeterministic_seeded"):
        return
    if part.description != "the backward":
        raise fail(
            "rng-undeclared",
            f"{case.op.name}: {part.description} draws numbers from {consumed[0]} random stream, and "
            + (
                "the op is not tagged torch.Tag.nondeterministic_seeded"
                if part.description == "the forward"
                else "a fake kernel computes no values"
            ),
            repro=part.script + _CONSUMED,
        )


_STATES = """
import random

import numpy


def states():
    return torch.get_rng_state().tolist(), random.getstate(), str(numpy.random.get_state())


def seed(number):
    torch.manual_seed(number), random.seed(number), numpy.random.seed(number)
"""
_CONSUMED = (
    _STATES
    + """

seed(1)
before = states()
run()
assert states() == before, "a random stream moved"
"""
)
_RESEEDED = (
    _STATES
    + """

def after(number):
    seed(number)
    before = states()
    run()
    return before, states()


(start, end), (other_start, other_end) = after(1), after(2)
for stream in range(len(end)):
    fixed = end[stream] == other_end[stream] and start[stream] != other_start[stream]
    assert not fixed, "a random stream is the same after runs from two states"
"""
)

FINDINGS = {
    "rng-undeclared": Explanation(
        meaning=(
            "The op draws numbers from a global random stream but is not tagged as random, "
            "or its fake kernel draws some."
        ),
        why=(
            "Activation checkpointing and torch.compile treat an untagged op as a function "
            "of its arguments: they run it again, merge two calls into one, and do not "
            "preserve the random state for it."
        ),
        fix=(
            "Define the op with tags=(torch.Tag.nondeterministic_seeded,); or take a seed or "
            "a torch.Generator as an argument. A fake kernel needs no random numbers."
        ),
        before="""
@torch.library.custom_op("my::noise", mutates_args=())
def noise(x: Tensor) -> Tensor:
    return x + torch.randn_like(x)
""",
        after="""
@torch.library.custom_op("my::noise", mutates_args=(),
                         tags=(torch.Tag.nondeterministic_seeded,))
def noise(x: Tensor) -> Tensor:
    return x + torch.randn_like(x)
""",
        docs=(doc_links.RANDOMNESS, doc_links.LIBRARY),
        follows=("rng-reseeded",),
    ),
    "rng-reseeded": Explanation(
        meaning="The op, its fake kernel or its backward seeds a global random stream.",
        why=(
            "Every random number after the call is the same in every step: dropout masks "
            "repeat, augmentation stops."
        ),
        fix=(
            "Use a generator of your own, torch.Generator(device).manual_seed(seed) or "
            "numpy.random.default_rng(seed); or wrap the kernel in torch.random.fork_rng()."
        ),
        before="""
torch.manual_seed(0)
mask = torch.rand_like(x) > 0.5
""",
        after="""
own = torch.Generator(x.device).manual_seed(0)
mask = torch.rand(x.shape, generator=own, device=x.device) > 0.5
""",
        docs=(doc_links.RANDOM, doc_links.RANDOMNESS),
    ),
}

CHECK = Check(
    name="state.rng",
    summary="only ops tagged as random draw random numbers, and nothing reseeds a stream",
    run=check_rng,
    variants=("arguments",),
    cheap=True,
    findings=FINDINGS,
    catches=(
        "Random numbers drawn from torch's, numpy's or Python's global streams by an op that "
        "is not tagged `nondeterministic_seeded`, or by a fake kernel. Also any part that "
        "seeds a stream, tagged or not: after runs from two different states, a stream must be "
        "in different states."
    ),
    cannot_see="The op's own generators.",
    cost="calls",
)
