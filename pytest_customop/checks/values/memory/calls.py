"""Calls of an op under equal conditions, and what comes of them side by side."""

from __future__ import annotations

from typing import Any

import torch

from ....cases.arguments import Arguments
from ....cases.case import Case, Run
from ....cases.tensors import difference, is_plain, output_leaves
from ....core import rng
from ....core.tracebacks import reraise_bug
from ....findings import skip

Leaves = list[tuple[str, Any]]


class Caller:
    """Calls the op of a case, every random stream and `torch.Generator` at the same state each time.

    Raises:
        CheckSkipped: the case's tensors have no values.
    """

    def __init__(self, case: Case) -> None:
        arguments = case.inputs()
        if any(tensor.is_meta for _, tensor in arguments.tensors()):
            reason = "tensors on the meta device have no values"
            raise skip("nothing-to-check", reason, unjudged=False)
        self.case = case
        self._generators = [
            (one, one.get_state())
            for _, one in arguments.named()
            if isinstance(one, torch.Generator)
        ]

    def __call__(self, arguments: Arguments) -> Run:
        """One call; what the op raises is in `Run.error`."""
        for generator, state in self._generators:
            generator.set_state(state)
        rng.seed(self.case.seed)
        try:
            return Run(arguments, arguments.call())
        except Exception as error:  # whatever an op raises is a result here
            reraise_bug(error)
            return Run(arguments, error=error)


def skip_if_silent(case: Case) -> None:
    """Skip an op that returns nothing and writes to nothing."""
    if not results(case.eager):
        reason = "the op returns nothing and writes to nothing"
        raise skip("nothing-to-check", reason, unjudged=False)


def skip_if_random(case: Case) -> None:
    """Skip an op whose random numbers may fall on its elements in another order."""
    if case.op.nondeterministic:
        reason = "the op is tagged as nondeterministic"
        raise skip("nondeterministic", reason, unjudged=False)


def results(run: Run) -> Leaves:
    """What a call gave: every leaf that it returned, and every argument that it may write to."""
    written = [(f"argument {name} after the call", one) for name, one in run.arguments.mutated()]
    return [
        *((name, leaf) for name, leaf in output_leaves(run.result) if leaf is not None),
        *written,
    ]


def frozen(found: Leaves) -> Leaves:
    """Copies that no later call can change."""
    return [
        (name, leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf)
        for name, leaf in found
    ]


def differ(got: Leaves, expected: Leaves, tolerances: Case | None = None) -> str | None:
    """The first difference in words; None if there is none. A NaN is equal to a NaN.

    Args:
        tolerances: the case whose tolerances are allowed; None compares exactly.
    """
    if [name for name, _ in got] != [name for name, _ in expected]:
        return f"{len(got)} results instead of {len(expected)}"
    for (name, mine), (_, theirs) in zip(got, expected, strict=True):
        wrong = _differ(mine, theirs, tolerances)
        if wrong:
            return f"{name}: {wrong}"
    return None


def _differ(mine: Any, theirs: Any, tolerances: Case | None) -> str | None:
    if not isinstance(mine, torch.Tensor) or not isinstance(theirs, torch.Tensor):
        same = mine == theirs or (mine != mine and theirs != theirs)
        return None if same else f"{mine!r} instead of {theirs!r}"
    if not (comparable(mine) and comparable(theirs)):
        return None
    if _quickly_equal(mine.detach(), theirs.detach()):
        return None
    rtol, atol = (0.0, 0.0) if tolerances is None else tolerances.tolerance(mine.dtype)
    return difference(mine, theirs, rtol, atol)


def _quickly_equal(mine: torch.Tensor, theirs: torch.Tensor) -> bool:
    """Whether a cheap look says that they are equal; it does not see that a NaN is."""
    alike = mine.shape == theirs.shape and mine.dtype == theirs.dtype
    if not alike or not is_plain(mine) or mine.dtype.itemsize == 1 or mine.is_conj():
        return False
    return mine.device == theirs.device and torch.equal(mine, theirs)


def comparable(tensor: torch.Tensor) -> bool:
    """Whether the values of a tensor can be looked at."""
    ordinary = type(tensor) in (torch.Tensor, torch.nn.Parameter)
    return ordinary and not (tensor.is_nested or tensor.is_mkldnn or tensor.is_meta)


def expression(case: Case, path: str) -> str:
    """The argument of this path in a script: `args[0]`, `kwargs['xs'][1]`."""
    base, bracket, rest = path.partition("[")
    names = [argument.name for argument in case.op.positional][: len(case.sample.args)]
    place = f"args[{names.index(base)}]" if base in names else f"kwargs[{base!r}]"
    return place + bracket + rest


def plain_arguments(arguments: Arguments) -> Leaves:
    """The arguments that are not tensors, by path."""
    named = [*arguments.named()]
    return [leaf for leaf in named if not isinstance(leaf[1], torch.Tensor)]


def with_argument(arguments: Arguments, path: str, value: Any) -> Arguments:
    """The same arguments with another plain value at this path; only whole arguments, no elements."""
    names = [argument.name for argument in arguments.op.positional]
    args = list(arguments.args)
    kwargs = dict(arguments.kwargs)
    if path in names[: len(args)]:
        args[names.index(path)] = value
    else:
        kwargs[path] = value
    return Arguments(arguments.op, tuple(args), kwargs)


CALL = """
from torch.utils._pytree import tree_leaves


def call(args, kwargs):
    torch.manual_seed(seed)
    result = op(*args, **kwargs)
    return [each for each in tree_leaves((result, args, kwargs)) if isinstance(each, torch.Tensor)]
"""
