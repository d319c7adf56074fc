"""Call an op under equal conditions, and compare the results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ....cases.arguments import Arguments
from ....cases.case import Case
from ....cases.documented import leaves_memory_unset
from ....cases.kept_state import may_keep_state
from ....cases.rounding import within_another_order
from ....cases.run import Run, gradients
from ....cases.tensors import difference, is_ordinary, is_plain, malformation, output_leaves
from ....core import rng
from ....core.tracebacks import reraise_bug
from ....findings import CheckSkipped, skip

Leaves = list[tuple[str, Any]]

GRADIENT = "the gradient of "  # how the names of gradients start


class Caller:
    """Calls the op of a case, with each random stream and `torch.Generator` in the same state.

    Raises:
        CheckSkipped: if the case's tensors have no values.
    """

    def __init__(self, case: Case) -> None:
        arguments = case.inputs()
        if any(tensor.is_meta for _, tensor in arguments.tensors()):
            reason = "tensors on the meta device have no values"
            raise skip("nothing-to-check", reason, unjudged=False)
        self.case = case
        self._generators = [
            (value, value.get_state())
            for _, value in arguments.named()
            if isinstance(value, torch.Generator)
        ]

    def __call__(self, arguments: Arguments) -> Run:
        """Call the op; what it raises is in `Run.error`."""
        for generator, state in self._generators:
            generator.set_state(state)
        rng.seed(self.case.seed)
        try:
            return Run(arguments, arguments.call())
        except Exception as error:  # whatever an op raises is a result here
            reraise_bug(error)
            return Run(arguments, error=error)


def skip_if_no_results(case: Case) -> None:
    """Skip an op that returns nothing and writes to nothing, and one whose results torch cannot read."""
    leaves = results(case.eager)
    if not leaves:
        reason = "the op returns nothing and writes to nothing"
        raise skip("nothing-to-check", reason, unjudged=False)
    for name, leaf in leaves:
        why = malformation(leaf) if isinstance(leaf, torch.Tensor) else None
        if why is not None:
            raise skip("nothing-to-check", f"torch cannot read {name}: {why}")


def skip_if_incomparable(case: Case) -> None:
    """Skip an op whose results of two calls cannot be compared: it has none, or is nondeterministic."""
    skip_if_no_results(case)
    if case.op.nondeterministic:
        reason = "the op is tagged as nondeterministic"
        raise skip("nondeterministic", reason, unjudged=False)
    skip_if_memory_unset(case)


def skip_if_memory_unset(case: Case) -> None:
    """Skip an op of which a docstring says that a part of its results is not written."""
    if leaves_memory_unset(case.op):
        reason = "a docstring says that a part of the results is uninitialized memory"
        raise skip("nondeterministic", reason, unjudged=False)


def skip_if_keeps_nothing(case: Case) -> None:
    """Skip an op whose Python code refers to nothing that one call could leave for another one."""
    if not may_keep_state(case.op, case.placement.device):
        reason = "the op's Python code refers to nothing that it could keep between calls"
        raise skip("nothing-to-check", reason, unjudged=False)


def results(run: Run) -> Leaves:
    """(name, value) of everything that a call returned, and of each argument that it may write to."""
    written = [
        (f"argument {name} after the call", tensor) for name, tensor in run.arguments.mutated()
    ]
    return [
        *((name, leaf) for name, leaf in output_leaves(run.result) if leaf is not None),
        *written,
    ]


def gradients_of(
    case: Case,
    run: Run,
    grad_outputs: Callable[[list[tuple[str, torch.Tensor]]], list[torch.Tensor]],
) -> Leaves | None:
    """(name, gradient) of each argument that requires gradients; None where the backward raises.

    Args:
        grad_outputs: (outputs) -> the grad_output of each.
    """
    outputs = [(name, output) for name, output in run.differentiable_outputs if is_plain(output)]
    if not (outputs and case.requires_grad and run.arguments.differentiable()):
        return []
    rng.seed(case.seed)
    try:
        grads = gradients(run.arguments, outputs, grad_outputs(outputs))
    except Exception as error:  # whatever a backward raises
        reraise_bug(error)
        return None
    return [(GRADIENT + name, grad) for name, grad in grads.items() if grad is not None]


def copied(leaves: Leaves) -> Leaves:
    """Copies of results, which no later call can change."""
    return [
        (name, leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf)
        for name, leaf in leaves
    ]


def copied_results(run: Run) -> Leaves | None:
    """Copies of the results of a call; None where the op raised."""
    return None if run.error is not None else copied(results(run))


def first_difference(
    actual: Leaves, expected: Leaves, tolerances: Case | None = None
) -> str | None:
    """The first difference as text; None if there is none. A NaN equals a NaN.

    Args:
        actual, expected: results of two calls.
        tolerances: the case whose tolerances apply; None compares exactly.
    """
    if [name for name, _ in actual] != [name for name, _ in expected]:
        return f"{len(actual)} results instead of {len(expected)}"
    for (name, left), (_, right) in zip(actual, expected, strict=True):
        wrong = _difference(left, right, tolerances)
        if wrong:
            return f"{name}: {wrong}"
    return None


def rounding_explains(case: Case, actual: Leaves, expected: Leaves) -> bool:
    """Whether another order of additions explains how the results of two equal calls differ.

    In double precision such a difference is smaller by nine digits. So if the op supports double precision,
    several calls in it must not differ by more than that.
    """
    inputs = [tensor for _, tensor in case.inputs().tensors()]
    return explained_by_order(actual, expected, inputs) and not _differs_in_double(case)


_CALLS = 4  # results that differ by chance may be equal in two of them


def _differs_in_double(case: Case) -> bool:
    """Whether calls in double precision differ by more than rounding; False if there are none."""
    try:
        calls = Caller(case.widened())
        runs = [calls(calls.case.inputs()) for _ in range(_CALLS)]
        inputs = [tensor for _, tensor in calls.case.inputs().tensors()]
    except (RuntimeError, CheckSkipped):  # no such dtype on the device
        return False
    if any(run.error is not None for run in runs):
        return False
    per_run = [copied(results(run)) for run in runs]
    return not all(explained_by_order(leaves, per_run[0], inputs) for leaves in per_run[1:])


def explained_by_order(actual: Leaves, expected: Leaves, inputs: Sequence[torch.Tensor]) -> bool:
    """Whether another order of additions explains how the results of two calls differ.

    Args:
        actual, expected: the results.
        inputs: the tensors that the op gets.
    """
    if [name for name, _ in actual] != [name for name, _ in expected]:
        return False
    return all(
        _difference(left, right, None) is None
        or within_another_order(_as_tensor(left), _as_tensor(right), inputs)
        for (_, left), (_, right) in zip(actual, expected, strict=True)
    )


def _as_tensor(leaf: Any) -> torch.Tensor:
    return leaf.detach() if isinstance(leaf, torch.Tensor) else torch.tensor(leaf)


def _difference(actual: Any, expected: Any, tolerances: Case | None) -> str | None:
    if not isinstance(actual, torch.Tensor) or not isinstance(expected, torch.Tensor):
        same = actual == expected or (actual != actual and expected != expected)
        return None if same else f"{actual!r} instead of {expected!r}"
    if not (comparable(actual) and comparable(expected)):
        return None
    if quickly_equal(actual.detach(), expected.detach()):
        return None
    rtol, atol = (0.0, 0.0) if tolerances is None else tolerances.tolerance(actual.dtype)
    return difference(actual, expected, rtol, atol)


def quickly_equal(actual: torch.Tensor, expected: torch.Tensor) -> bool:
    """Whether a cheap comparison finds two tensors equal; NaNs make it False."""
    alike = actual.shape == expected.shape and actual.dtype == expected.dtype
    if not alike or not is_plain(actual) or actual.dtype.itemsize == 1 or actual.is_conj():
        return False
    return actual.device == expected.device and torch.equal(actual, expected)


def comparable(tensor: torch.Tensor) -> bool:
    """Whether the values of a tensor can be compared."""
    return is_ordinary(tensor) and not (tensor.is_nested or tensor.is_mkldnn or tensor.is_meta)


def expression(case: Case, path: str) -> str:
    """The argument at a path as an expression for a script: `args[0]`, `kwargs['xs'][1]`."""
    base, bracket, rest = path.partition("[")
    names = case.op.positional_names[: len(case.sample.args)]
    place = f"args[{names.index(base)}]" if base in names else f"kwargs[{base!r}]"
    return place + bracket + rest


def plain_arguments(arguments: Arguments) -> Leaves:
    """(path, value) of the arguments that are not tensors."""
    named = [*arguments.named()]
    return [leaf for leaf in named if not isinstance(leaf[1], torch.Tensor)]


def with_argument(arguments: Arguments, path: str, value: Any) -> Arguments:
    """The same arguments with another value for one that is not a tensor, or for an element of a list."""
    name, bracket, index = path.partition("[")
    args, kwargs = list(arguments.args), dict(arguments.kwargs)
    positional = arguments.op.positional_names[: len(args)]
    if bracket:
        elements = list(args[positional.index(name)] if name in positional else kwargs[name])
        elements[int(index[:-1])] = value
        value = elements
    if name in positional:
        args[positional.index(name)] = value
    else:
        kwargs[name] = value
    return Arguments(arguments.op, tuple(args), kwargs)


CALL = """
from torch.utils._pytree import tree_leaves


def call(args, kwargs):
    torch.manual_seed(seed)
    result = op(*args, **kwargs)
    return [each for each in tree_leaves((result, args, kwargs)) if isinstance(each, torch.Tensor)]
"""
