"""The loop that an author writes by hand today, in full: opcheck, torch.compile, gradcheck.

    python benchmarks/by_hand.py

Prints what it found and how long it took, as JSON. `loop.py` runs it.
"""

import json
import sys
import warnings
from typing import Any

import torch
from stopwatch import Stopwatch
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map_only, tree_unflatten
from workload import cases

CHECKS = ["opcheck", "compile.static", "gradcheck.backward"]


def check(op: Any, args: Any, kwargs: Any, gradcheck: bool, dynamic: bool) -> None:
    """Everything for one set of inputs; raises what fails."""
    torch._dynamo.reset()  # without it the limit of recompilations stops the loop
    torch.library.opcheck(op, copied(args), copied(kwargs))
    eager = outcome(op, args, kwargs)
    torch.testing.assert_close(outcome(torch.compile(op, fullgraph=True), args, kwargs), eager)
    if dynamic:
        torch._dynamo.reset()
        compiled = torch.compile(op, fullgraph=True, dynamic=True)
        torch.testing.assert_close(outcome(compiled, args, kwargs), eager)
    if gradcheck:
        gradients(op, copied(args), kwargs)


def outcome(op: Any, args: Any, kwargs: Any) -> list[Any]:
    """Outputs, arguments as they are after the call, and gradients."""
    args, kwargs = copied(args), copied(kwargs)
    outputs = tensors(op(*args, **kwargs))
    inputs = [tensor for tensor in tensors((args, kwargs)) if tensor.requires_grad]
    differentiable = [tensor for tensor in outputs if tensor.requires_grad]
    grads: Any = ()
    if inputs and differentiable:
        ones = [torch.ones_like(tensor) for tensor in differentiable]
        grads = torch.autograd.grad(differentiable, inputs, ones, allow_unused=True)
    return [*outputs, *tensors((args, kwargs)), *grads]


def gradients(op: Any, args: Any, kwargs: Any) -> None:
    """gradcheck, which knows neither lists of tensors nor outputs that are none."""
    leaves, tree = tree_flatten(args)
    at = [index for index, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def function(*values: torch.Tensor) -> Any:
        for index, tensor in zip(at, values, strict=True):
            leaves[index] = tensor
        return tuple(tensors(op(*tree_unflatten(leaves, tree), **kwargs)))

    torch.autograd.gradcheck(function, [leaves[index] for index in at])


def tensors(values: Any) -> list[torch.Tensor]:
    return [tensor for tensor in tree_leaves(values) if isinstance(tensor, torch.Tensor)]


def copied(values: Any) -> Any:
    return tree_map_only(
        torch.Tensor,
        lambda tensor: tensor.detach().clone().requires_grad_(tensor.requires_grad),
        values,
    )


def _has_gradcheck(case: Any, checks: list[str]) -> bool:
    """The plugin casts to float64 what is narrower; gradcheck does not, and fails."""
    return "gradcheck.backward" in checks and case.placement.dtype == torch.float64


def main(dynamic: int = 0, count: int | None = None) -> None:
    """Loop over the cases, or over the first `count`."""
    check_names = [*CHECKS, "compile.dynamic"] if dynamic else CHECKS
    planned = [
        (case.op.overload, case.inputs(), _has_gradcheck(case, checks))
        for case, checks in cases(check_names)[:count]
        if "compile.static" in checks  # a loop has no use for gradients where there is no formula
    ]
    failed = []
    start = Stopwatch()
    for op, inputs, gradcheck in planned:
        try:
            check(op, inputs.args, dict(inputs.kwargs), gradcheck, bool(dynamic))
        except Exception as error:  # whatever a test would fail with
            failed.append(f"{op}: {type(error).__name__}: {str(error).strip()[:200]}")
    took = start.read()
    print(json.dumps({"cases": len(planned), **took, "failed": failed}))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(*map(int, sys.argv[1:]))
