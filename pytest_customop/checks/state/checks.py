"""The family `state`: random streams and global settings are after a call what they were before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ...cases.case import Case, gradients
from ...cases.fake_run import fake_run, shapes_of
from ...core import rng
from ...findings import CheckFailed, CheckSkipped, fail
from ...global_state.settings import ENVIRONMENT, SETTINGS, Setting, perturb, preserved
from ..check import Check


@dataclass(frozen=True)
class _Part:
    """One part of an op that is run.

    Args:
        words: "the forward".
        prepare: makes what is needed, under the settings as they are, and returns the call itself;
            None where there is nothing to call.
        script: the lines that make `run`, a function, from `op` and `inputs`.
    """

    words: str
    prepare: Callable[[], Callable[[], Any] | None]
    script: str


_STARTS = (1_905_347_881, 1_276_019_553)  # numbers that nobody seeds a stream with


def check_rng(case: Case) -> None:
    """Call the op, its fake kernel and its backward from two states of every random stream."""
    with preserved():
        for part in _parts(case):
            _random(case, part)


def _random(case: Case, part: _Part) -> None:
    ends: list[rng.State] = []
    consumed: list[str] = []
    for start in _STARTS:
        call = part.prepare()
        if call is None:
            return
        rng.seed(start)
        before = rng.states()
        if not _works(call):
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
            f"{case.op.name}: {part.words} sets {reseeded[0]} random stream to a fixed state",
            repro=part.script + _RESEEDED,
        )
    if part.words == "the forward" and case.op.tagged("nondeterministic_seeded"):
        return
    if part.words != "the backward":
        raise fail(
            "rng-undeclared",
            f"{case.op.name}: {part.words} takes numbers from {consumed[0]} random stream, and "
            + (
                "the op is not tagged torch.Tag.nondeterministic_seeded"
                if part.words == "the forward"
                else "a fake kernel computes no values"
            ),
            repro=part.script + _CONSUMED,
        )


def check_global_settings(case: Case) -> None:
    """Compare global settings before and after the op, its fake kernel and its backward.

    Twice: with the settings as they are, and with other ones, so that a setting that is put to the
    same value at each call shows too.
    """
    with preserved():
        for part in _parts(case):
            for others in (False, True):
                _settings(case, part, others)


def _settings(case: Case, part: _Part, others: bool) -> None:
    with preserved():
        call = part.prepare()
        if call is None:
            return
        if others:
            perturb()
        before = [setting.read() for setting in SETTINGS]
        if not _works(call):
            return
        for setting, value in zip(SETTINGS, before, strict=True):
            after = setting.read()
            if after != value:
                raise _changed(case, part, setting, value, after)


def _changed(case: Case, part: _Part, setting: Setting, value: Any, after: Any) -> CheckFailed:
    told, script = _told(value, after), _SETTING.format(read=setting.source)
    if setting.name == ENVIRONMENT:
        script = _VARIABLE.format(name=_first_key(value, after))
    return fail(
        "global-state-changed",
        f"{case.op.name}: {part.words} changes {setting.name}{told}",
        repro=part.script + script,
    )


def _first_key(before: dict[str, Any], after: dict[str, Any]) -> str:
    return min(name for name in {**before, **after} if before.get(name) != after.get(name))


def _told(before: Any, after: Any) -> str:
    if isinstance(before, dict):
        name = _first_key(before, after)
        return f": {name or 'root'} was {before.get(name)} and is {after.get(name)}"
    if isinstance(before, list):
        new = [one for one in after if one not in before]
        return f": {new[0]} is new" if new else ""
    return f" from {before} to {after}"


def _works(call: Callable[[], Any]) -> bool:
    try:
        call()
    except (Exception, CheckSkipped, CheckFailed):  # under other settings an op may refuse
        return False
    return True


def _parts(case: Case) -> Iterator[_Part]:
    yield _Part("the forward", lambda: case.inputs().call, _FORWARD)
    fake = _fake(case)
    yield _Part("the fake kernel", lambda: fake, _FAKE)
    if case.requires_grad and case.op.has_autograd:
        yield _Part("the backward", lambda: _backward(case), _BACKWARD)


def _fake(case: Case) -> Callable[[], Any] | None:
    arguments = shapes_of(case)
    try:
        failed = fake_run(arguments).error  # what torch imports the first time is imported here
    except CheckSkipped:
        return None
    return None if failed else lambda: fake_run(arguments)


def _backward(case: Case) -> Callable[[], Any] | None:
    run = case.run(case.inputs())
    outputs = run.differentiable_outputs
    if run.error is not None or not outputs or not run.arguments.differentiable():
        return None
    grads = case.grad_outputs(outputs)
    return lambda: gradients(run.arguments, outputs, grads)


_FORWARD = """
args, kwargs = inputs()
run = lambda: op(*args, **kwargs)
"""
_FAKE = """
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_map_only

mode = FakeTensorMode()
args, kwargs = tree_map_only(torch.Tensor, mode.from_tensor, inputs())


def run():
    with mode:
        op(*args, **kwargs)
"""
_BACKWARD = """
from torch.utils._pytree import tree_leaves

args, kwargs = inputs()
result = op(*args, **kwargs)
outputs = [each for each in tree_leaves(result) if getattr(each, "requires_grad", False)]


def run():
    torch.autograd.backward(outputs, [torch.ones_like(each) for each in outputs], retain_graph=True)
"""
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
_SETTING = """

def setting():
    return {read}


before = setting()
run()
assert setting() == before, f"{{before}} became {{setting()}}"
"""
_VARIABLE = """
import os

os.environ.pop({name!r}, None)
run()
assert {name!r} not in os.environ, "a variable of the environment is new"
"""

CHECKS = [
    Check(
        "state.globals",
        "global settings are after a call, a fake call and a backward what they were before",
        check_global_settings,
        variants=("arguments",),
    ),
    Check(
        "state.rng",
        "random numbers are taken only by ops tagged so, and no stream is reseeded",
        check_rng,
        variants=("arguments",),
    ),
]
