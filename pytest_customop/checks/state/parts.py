"""The parts of an op that are run to see what they leave behind: forward, fake kernel, backward."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ...cases.case import Case
from ...cases.fake_run import fake_run, shapes_of
from ...cases.run import gradients
from ...findings import CheckFailed, CheckSkipped


@dataclass(frozen=True)
class Part:
    """One part of an op that is run.

    Args:
        description: `the forward`.
        prepare: makes the arguments, under the current settings, and returns the call itself; None
            if there is nothing to call.
        script: the script lines that define the function `run` from `op` and `inputs`.
        raises: True: the call counts only if it raises; False: only if it does not.
    """

    description: str
    prepare: Callable[[], Callable[[], Any] | None]
    script: str
    raises: bool = False


def runs(call: Callable[[], Any]) -> bool:
    """Make a call; returns whether it succeeded."""
    return error_of(call) is None


def error_of(call: Callable[[], Any]) -> BaseException | None:
    """Make a call; returns what it raised."""
    try:
        call()
    except (Exception, CheckSkipped, CheckFailed) as error:  # it may raise under other settings
        return error
    return None


def parts_of(case: Case, *, with_fake: bool = True) -> Iterator[Part]:
    """The forward, the fake kernel if `with_fake`, and for a case with gradients the backward."""
    yield Part("the forward", lambda: case.inputs().call, _FORWARD)
    if with_fake:
        fake = _fake(case)
        yield Part("the fake kernel", lambda: fake, _FAKE)
    if case.requires_grad and case.op.has_autograd:
        yield Part("the backward", lambda: _backward(case), _BACKWARD)


def _fake(case: Case) -> Callable[[], Any] | None:
    arguments = shapes_of(case)
    try:
        failed = fake_run(arguments).error  # the first run also imports modules of torch
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
