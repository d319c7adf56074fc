"""`vmap.loop`: a registered vmap rule compared with a loop over the batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from ...cases.case import Case
from ...cases.picture import picture_of
from ...cases.rounding import within_rounding
from ...cases.run import random_like
from ...cases.tensors import difference, is_plain, output_leaves
from ...compat.ops import has_vmap_rule
from ...core.tracebacks import error_line, reraise_bug, traceback_text
from ...declare.ops import Op
from ...findings import CheckSkipped, Explanation, doc_links, fail, skip
from ..check import Check
from .batch import Batch, Dims, Tensors
from .scripts import GRADIENTS, LOOP


def check_loop(case: Case) -> None:
    """Compare torch.vmap with a loop: all tensors batched, and each alone, with several batch dims."""
    _skip_if_unsupported(case)
    batch = Batch.of(case)
    patterns = list(_patterns([tensor.dim() for tensor in batch.tensors]))
    rejected: dict[str, list[str]] = {}
    for dims in patterns:
        try:
            _compare(case, batch, dims)
        except NotImplementedError as error:
            rejected.setdefault(error_line(error), []).append(_pattern_text(case, dims))
    if sum(map(len, rejected.values())) == len(patterns):
        reason = f"the vmap rule rejects everything: {'; '.join(rejected)}"
        raise skip("vmap-not-implemented", reason, unjudged=False)
    if rejected:
        parts = [f"{' and '.join(texts)} ({error})" for error, texts in rejected.items()]
        raise skip("vmap-not-implemented", f"the vmap rule rejects {'; '.join(parts)}")


def _has_rule(op: Op) -> bool:
    return has_vmap_rule(op.overload)


def _skip_if_unsupported(case: Case) -> None:
    if case.op.nondeterministic:
        raise skip("nondeterministic", "the op may give other values each time it runs")
    if case.op.mutated:
        raise skip(
            "checker-limit", "the op writes to its arguments, and torch.vmap supports no such op"
        )
    tensors = case.eager.arguments.tensors()
    if not tensors:
        raise skip("nothing-to-check", "there is no tensor argument", unjudged=False)
    leaves = output_leaves(case.eager.result)
    if not all(isinstance(leaf, torch.Tensor) for _, leaf in leaves) or not leaves:
        raise skip(
            "checker-limit", "torch.vmap supports only functions that return nothing but tensors"
        )
    for name, tensor in (*tensors, *case.eager.outputs):
        if not is_plain(tensor):
            raise skip("checker-limit", f"{name} is of a kind that cannot be stacked here")


def _patterns(ranks: Sequence[int]) -> Iterator[Dims]:
    """For each tensor the batch dim: 0 (first), 1, -1 (last) or None (not batched).

    Args:
        ranks: the number of dims of each, with the batch dim.
    """
    count = len(ranks)
    yield (0,) * count
    yield (-1,) * count
    if any(rank > 2 for rank in ranks):
        yield tuple(1 if rank > 2 else 0 for rank in ranks)
    if count > 1:
        yield tuple(0 if index % 2 else -1 for index in range(count))
        for dim in (0, -1):
            for alone in range(count):
                yield tuple(dim if index == alone else None for index in range(count))


def _pattern_text(case: Case, dims: Dims) -> str:
    names = [name for name, _ in case.eager.arguments.tensors()]
    parts = [
        f"{name} at dim {dim}" for name, dim in zip(names, dims, strict=True) if dim is not None
    ]
    alone = " alone" if None in dims else ""
    return f"a batch of {', '.join(parts)}{alone}"


def _compare(case: Case, batch: Batch, dims: Dims) -> None:
    where = _pattern_text(case, dims)
    expected_outputs = _stacked(_loop(batch, dims))
    inputs = [
        tensor[0] if dim is None else tensor.movedim(0, dim)
        for tensor, dim in zip(batch.tensors, dims, strict=True)
    ]
    inputs = [
        tensor.clone().requires_grad_(wants)
        for tensor, wants in zip(inputs, _wants(case), strict=True)
    ]
    vmapped = _vmapped(case, batch, dims, inputs, where)
    for (name, _), actual, expected in zip(
        case.eager.outputs, vmapped, expected_outputs, strict=True
    ):
        wrong = _output_difference(case, batch, dims, name, actual, expected)
        if wrong:
            raise fail(
                "vmap-mismatch",
                f"{case.op.name} {name} under torch.vmap with {where}: {wrong}",
                repro=LOOP.replace("{dims}", repr(dims)),
                picture=picture_of(name, actual, expected),
            )
    if case.requires_grad and case.op.has_autograd and dims == (0,) * len(dims):
        _compare_gradients(case, batch, dims, inputs, vmapped)


def _loop(batch: Batch, dims: Dims) -> list[Tensors]:
    """The outputs of each call."""
    outputs = []
    for index in range(len(batch.calls)):
        leaves = output_leaves(batch.call(index, dims).call())
        outputs.append([leaf for _, leaf in leaves])
    return outputs


def _stacked(calls: list[Tensors]) -> Tensors:
    try:
        return [torch.stack(column) for column in zip(*calls, strict=True)]
    except (RuntimeError, ValueError):
        reason = "the outputs of several calls differ in shape: they cannot be one batch"
        raise skip("nothing-to-check", reason, unjudged=False) from None


def _wants(case: Case) -> list[bool]:
    return [tensor.requires_grad for _, tensor in case.eager.arguments.tensors()]


def _vmapped(case: Case, batch: Batch, dims: Dims, inputs: Tensors, where: str) -> Tensors:
    def function(*tensors: torch.Tensor) -> Any:
        return tuple(_outputs(batch, tensors))

    try:
        return list(torch.vmap(function, in_dims=dims)(*inputs))
    except NotImplementedError:
        raise  # the rule rejects this pattern
    except Exception as error:  # whatever a vmap rule raises is a finding
        reraise_bug(error)
        raise fail(
            "vmap-raises",
            f"{case.op.name} under torch.vmap with {where} raises {error_line(error)}",
            traceback_text(error),
            repro=LOOP.replace("{dims}", repr(dims)),
        ) from None


def _output_difference(
    case: Case, batch: Batch, dims: Dims, name: str, actual: torch.Tensor, expected: torch.Tensor
) -> str | None:
    tolerance = case.tolerance(expected.dtype)
    wrong = difference(actual, expected, *tolerance)
    if wrong is None or actual.shape != expected.shape or actual.dtype != expected.dtype:
        return wrong
    at = [output for output, _ in case.eager.outputs].index(name)
    return None if within_rounding(actual, expected, _exact(batch, dims, at), tolerance) else wrong


def _exact(batch: Batch, dims: Dims, at: int) -> torch.Tensor | None:
    """An output of the loop in double precision.

    None if the op raises for it, or its outputs then differ in shape from call to call.
    """

    def wide(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.is_complex():
            return tensor.to(torch.complex128)
        return tensor.double() if tensor.is_floating_point() else tensor

    try:
        calls = [call.map(wide) for call in batch.calls]
        return _stacked(_loop(replace(batch, calls=calls), dims))[at]
    except CheckSkipped:
        return None
    except Exception as error:  # whatever an op raises for float64
        reraise_bug(error)
        return None


def _outputs(batch: Batch, tensors: Sequence[torch.Tensor]) -> Tensors:
    """The op's outputs for these tensors and the other arguments of the first call."""
    left = iter(tensors)
    result = batch.calls[0].map(lambda _: next(left)).call()
    return [leaf for _, leaf in output_leaves(result)]


def _compare_gradients(
    case: Case, batch: Batch, dims: Dims, inputs: Tensors, vmapped: Tensors
) -> None:
    """Compare the gradients of the batched tensors with those of a loop."""
    names = [name for name, _ in case.eager.arguments.tensors()]
    weights = [random_like(output, case.seed + 1 + index) for index, output in enumerate(vmapped)]
    copies = [tensor.detach().clone().requires_grad_(tensor.requires_grad) for tensor in inputs]
    columns: list[Tensors] = []
    for index in range(len(batch.calls)):
        columns.append(_outputs(batch, [tensor[index] for tensor in copies]))
    stacked = _stacked(columns)
    try:
        expected = _gradients(copies, stacked, weights)
    except Exception as error:  # whatever a backward raises
        reraise_bug(error)
        reason = f"the backward raises without torch.vmap too ({error_line(error)})"
        raise skip("nothing-to-check", reason, unjudged=False) from None
    try:
        actual = _gradients(inputs, vmapped, weights)
    except NotImplementedError:
        raise  # the rule rejects this pattern
    except Exception as error:  # whatever a backward raises
        reraise_bug(error)
        raise fail(
            "vmap-raises",
            f"the backward of {case.op.name} under torch.vmap raises {error_line(error)}, but not "
            "in a loop",
            traceback_text(error),
            repro=GRADIENTS,
        ) from None
    for name, left, right in zip(names, actual, expected, strict=True):
        wrong = None
        if left is not None and right is not None:
            wrong = difference(left, right, *_gradient_tolerance(case, right.dtype))
        elif left is not right:
            kinds = ["None" if gradient is None else "a tensor" for gradient in (left, right)]
            wrong = f"{kinds[0]}, and {kinds[1]} with a loop"
        if wrong:
            raise fail(
                "vmap-mismatch",
                f"the gradient of `{name}` through {case.op.name} under torch.vmap: {wrong}",
                repro=GRADIENTS,
            )


def _gradients(inputs: Tensors, outputs: Tensors, weights: Tensors) -> list[torch.Tensor | None]:
    leaves = [tensor for tensor in inputs if tensor.requires_grad]
    pairs = [
        (output, weight)
        for output, weight in zip(outputs, weights, strict=True)
        if output.requires_grad
    ]
    if not leaves or not pairs:
        return [None] * len(inputs)
    roots, grads = zip(*pairs, strict=True)
    gradients = iter(torch.autograd.grad(roots, leaves, grads, allow_unused=True))
    return [next(gradients) if tensor.requires_grad else None for tensor in inputs]


def _gradient_tolerance(case: Case, dtype: torch.dtype) -> tuple[float, float]:
    """Ten times the tolerance, because batched backward formulas sum in another order."""
    rtol, atol = case.tolerance(dtype)
    return 10 * rtol, 10 * atol


FINDINGS = {
    "vmap-mismatch": Explanation(
        meaning="torch.vmap of the op gives other results than a loop over the batch.",
        why=(
            "torch.vmap, torch.func.jacrev and per-sample gradients use the rule: they mix "
            "up samples without an error."
        ),
        fix=(
            "In the vmap rule, move each batched argument's dim to where the op expects it "
            "(x.movedim(in_dims[0], 0)), give unbatched arguments a dim of size 1, and "
            "return the dim at which the output really has the batch."
        ),
        before="""
def rule(info, in_dims, x, y):
    return scale(x, y), 0  # in_dims is not looked at
""",
        after="""
def rule(info, in_dims, x, y):
    x = x.movedim(in_dims[0], 0) if in_dims[0] is not None else x[None]
    y = y.movedim(in_dims[1], 0) if in_dims[1] is not None else y[None]
    return scale(x, y), 0
""",
        docs=(doc_links.REGISTER_VMAP, doc_links.VMAP),
    ),
    "vmap-raises": Explanation(
        meaning="The op's vmap rule raises on a batch although each single call works.",
        why="torch.vmap fails with an error from inside the rule, for a call that is right.",
        fix=(
            "Let the rule accept every in_dims: None where an argument is not batched, and "
            "any dim where it is. It can reject what it does not support with "
            "NotImplementedError."
        ),
        before="""
def rule(info, in_dims, x, y):
    return scale(x, y.movedim(in_dims[1], 0)), 0
""",
        after="""
def rule(info, in_dims, x, y):
    y = y if in_dims[1] is None else y.movedim(in_dims[1], 0)
    ...
""",
        docs=(doc_links.REGISTER_VMAP,),
    ),
}

CHECK = Check(
    name="vmap.loop",
    summary="where a vmap rule is registered, torch.vmap equals a loop over the batch",
    run=check_loop,
    needs=_has_rule,
    variants=("arguments",),
    cheap_variants=("arguments",),
    findings=FINDINGS,
    catches=(
        "Outputs, and in cases with gradients also gradients, that differ between `torch.vmap` and a "
        "loop: with all tensors batched and with each alone. The batch is the first, second or last dim, "
        "or the last of one tensor and the first of the next. A rule may reject a combination with "
        "`NotImplementedError`. The check runs only for ops with a vmap rule "
        "(`torch.library.register_vmap`, torch 2.5 and later)."
    ),
    cannot_see="Nested vmap, and ops that write to their arguments.",
    cost="many calls",
)
