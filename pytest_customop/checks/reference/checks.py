"""The family `reference`: the op beside the function that the mark gives as `reference=`."""

from __future__ import annotations

from typing import Any

import torch

from ...cases.arguments import Arguments
from ...cases.case import Case, gradients
from ...cases.rounding import within_rounding
from ...cases.tensors import difference, is_differentiable, is_plain, output_leaves, readable
from ...core import rng
from ...core.tracebacks import error_line, raised_at, traceback_text
from ...core.wording import counted
from ...declare.samples import MarkError
from ...findings import fail, skip
from ..check import Check
from .scripts import ANY_GRADIENT, gradient_script, requiring, values_script

Named = dict[str, Any]


def check_values(case: Case) -> None:
    """Compare the outputs and the mutated arguments with those of the reference."""
    arguments, result = _call(case, _detached(case.inputs()))
    own = {**dict(output_leaves(case.eager.result)), **_written(case.eager.arguments)}
    wanted = {**_outputs(case, arguments, result), **_written(arguments)}
    exact: list[Named | None] = []
    for name in {**own, **wanted}:
        if name not in own or name not in wanted:
            there = "returned" if name in own else "missing"
            raise fail("reference-mismatch", f"{name} is {there}, unlike in the reference")
        wrong = _wrong(case, name, own[name], wanted[name], exact)
        if wrong:
            raise fail(
                "reference-mismatch",
                f"{case.op.name} {name}: {wrong}",
                repro=_script(case, name, own[name], wanted[name]),
            )


def check_gradients(case: Case) -> None:
    """Compare the gradients for one random grad_output an output with those of the reference."""
    for name, tensor in case.eager.differentiable_outputs:
        if not is_plain(tensor):
            raise skip("checker-limit", f"{name} is of a kind that no grad_output is drawn for")
    wanted = _reference_gradients(case, case)
    try:
        own = case.eager_gradients
    except Exception as error:  # whatever a backward raises is a finding
        text = f"the backward of {case.op.name} raises {error_line(error)}"
        raise fail("backward-raises", text, traceback_text(error), repro=ANY_GRADIENT) from None
    exact: list[Named | None] = []
    for name, gradient in own.items():
        wrong = _wrong_gradient(case, name, gradient, wanted.get(name), exact)
        if wrong:
            raise fail(
                "reference-gradient-mismatch",
                f"{case.op.name}: the gradient of `{name}`: {wrong}",
                repro=gradient_script(case, name, gradient, wanted.get(name)),
            )


# Calling the reference


def _detached(arguments: Arguments) -> Arguments:
    return arguments.map(lambda tensor: tensor.detach())


def _call(case: Case, arguments: Arguments) -> tuple[Arguments, Any]:
    """Call the reference; what it raises is a mistake of the mark."""
    assert case.reference is not None  # the checks of this family run on no other case
    rng.seed(case.seed)
    try:
        return arguments, case.reference(*arguments.args, **arguments.kwargs)
    except Exception as error:
        what = f"{error_line(error)} ({raised_at(error)})"
        raise MarkError(f"the reference of the mark raised {what}") from error


def _outputs(case: Case, arguments: Arguments, result: Any) -> Named:
    """The leaves of the reference's result, under the names that the op's outputs have."""
    count = len(case.op.schema.returns)
    if count == 0:
        _refuse_unwritten(case, arguments, result)
        return {"output": None}
    if count > 1:
        if not isinstance(result, (list, tuple)) or len(result) != count:
            found = len(result) if isinstance(result, (list, tuple)) else 1
            raise MarkError(
                f"the reference of the mark returned {counted(found, 'output')}, and "
                f"{case.op.name} returns {count}: return a tuple of {count}"
            )
        return dict(output_leaves(tuple(result)))
    if isinstance(result, tuple):
        result = list(result)
        if len(result) == 1 and not isinstance(case.eager.result, (list, tuple)):
            result = result[0]
    return dict(output_leaves(result))


def _refuse_unwritten(case: Case, arguments: Arguments, result: Any) -> None:
    """A reference that returns what the op writes is a mistake of the mark."""
    before = dict(case.inputs().tensors())
    written = any(
        difference(tensor, before[name].detach(), 0.0, 0.0) for name, tensor in arguments.mutated()
    )
    given = {id(tensor) for _, tensor in arguments.tensors()}
    fresh = isinstance(result, torch.Tensor) and id(result) not in given
    if fresh and case.op.mutated and not written:
        names = ", ".join(sorted(case.op.mutated))
        raise MarkError(
            f"the reference of the mark returned a tensor and wrote to nothing; {case.op.name} "
            f"writes to {names} and returns nothing: write to {names} in the reference too"
        )


def _written(arguments: Arguments) -> Named:
    return {f"argument {name} after the call": tensor for name, tensor in arguments.mutated()}


def _widened(case: Case, exact: list[Named | None]) -> Named:
    """What the reference gives in double precision, computed once; empty if it cannot."""
    if not exact:
        try:
            wide = case.widened()
            arguments, result = _call(wide, _detached(wide.inputs()))
            exact.append({**_outputs(case, arguments, result), **_written(arguments)})
        except Exception:  # it does not take float64: then nobody can tell
            exact.append(None)
    return exact[0] or {}


# Comparing values


def _wrong(case: Case, name: str, own: Any, wanted: Any, exact: list[Named | None]) -> str | None:
    """How an output differs from the reference's, in words; None if it does not."""
    if not isinstance(own, torch.Tensor):
        if isinstance(wanted, torch.Tensor) and wanted.numel() == 1:
            wanted = wanted.item()
        same = own is wanted or own == wanted or (own != own and wanted != wanted)
        return None if same else f"{own!r} instead of {wanted!r}"
    if own.is_nested:
        raise skip("checker-limit", f"{name} is a nested tensor, which cannot be compared here")
    wanted = _as_tensor(wanted)
    if wanted is None:
        return "a tensor instead of none"
    return _differs(case, own, _cast(wanted, own), lambda: _widened(case, exact).get(name))


def _differs(case: Case, own: torch.Tensor, wanted: torch.Tensor, wide: Any) -> str | None:
    tolerance = case.tolerance(own.dtype)
    wrong = difference(own, wanted, *tolerance)
    if wrong is None or own.shape != wanted.shape or own.dtype != wanted.dtype:
        return wrong
    if own.dtype not in (case.tolerances or {}):  # an author's tolerance is meant as it stands
        exact = wide()
        if isinstance(exact, torch.Tensor) and within_rounding(
            own, wanted, exact.to(own.device), tolerance
        ):
            return None
    _refuse_unrepeatable(case)
    return wrong


def _refuse_unrepeatable(case: Case) -> None:
    again = case.run(case.inputs())
    for (_, one), (_, other) in zip(again.outputs, case.eager.outputs, strict=False):
        if difference(one, other, *case.tolerance(other.dtype)) is not None:
            raise skip(
                "nondeterministic",
                "the op gives other values each time it runs: there is nothing to compare",
            )


def _as_tensor(value: Any) -> torch.Tensor | None:
    """The value as a tensor, arrays of numpy included; None for anything else."""
    if isinstance(value, torch.Tensor):
        return value
    return torch.as_tensor(value) if hasattr(value, "__array__") else None


def _cast(wanted: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
    """The reference's tensor on the op's device; a reference may compute in double precision."""
    wanted = wanted.detach().to(own.device)
    wide = torch.complex128 if own.dtype.is_complex else torch.float64
    if wanted.dtype == wide and is_differentiable(own.dtype):
        wanted = wanted.to(own.dtype)
    return wanted


def _script(case: Case, name: str, own: Any, wanted: Any) -> str:
    tensor = _as_tensor(wanted) if isinstance(own, torch.Tensor) else None
    return values_script(case, name, own, wanted if tensor is None else _cast(tensor, own))


# Comparing gradients


def _reference_gradients(case: Case, of: Case) -> dict[str, torch.Tensor | None]:
    """The gradients that the reference gives on the inputs of `of`, the case or its wide twin.

    Raises:
        CheckSkipped: if it is not differentiable.
        CheckFailed: if an output of the op lacks gradients that the reference's has.
    """
    arguments, outputs = _differentiable_call(case, of)
    names = [name for name, _ in case.eager.differentiable_outputs]
    weights = dict(zip(names, case.grad_outputs(case.eager.differentiable_outputs), strict=True))
    both = {name: one for name, one in outputs.items() if name in weights}
    if any(one.shape != weights[name].shape for name, one in both.items()):
        reason = "the outputs differ in shape: see reference.values"
        raise skip("nothing-to-check", reason, unjudged=False)
    floating = [name for name, one in case.eager.outputs if is_differentiable(one.dtype)]
    missing = [name for name in outputs if name in floating and name not in weights]
    if missing:
        raise fail(
            "reference-gradient-mismatch",
            f"{case.op.name} {missing[0]} does not require gradients, and the reference's does",
            fix="Let gradients flow to this output, or detach it in the reference.",
            repro=requiring(case, missing[0]),
        )
    if not weights:
        raise skip("nothing-to-check", "no output requires gradients", unjudged=False)
    if not both:
        raise skip(
            "reference-not-differentiable",
            "no output of the reference requires gradients: write it with torch ops, and the "
            "gradients are compared too",
        )
    grads = [weights[name].to(one.dtype) for name, one in both.items()]
    try:
        return gradients(arguments, list(both.items()), grads)
    except Exception as error:
        what = f"{error_line(error)} ({raised_at(error)})"
        raise MarkError(f"the backward of the mark's reference raised {what}") from error


def _differentiable_call(case: Case, of: Case) -> tuple[Arguments, dict[str, torch.Tensor]]:
    """The reference's outputs that require gradients, and the arguments it was called with."""
    try:
        arguments, result = _call(of, of.inputs())
    except MarkError as mistake:
        _call(of, _detached(of.inputs()))
        raise skip(
            "reference-not-differentiable",
            f"the reference raises on inputs that require gradients: {mistake.__cause__}",
        ) from None
    named = _outputs(case, arguments, result)
    return arguments, {
        name: leaf
        for name, leaf in named.items()
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad
    }


def _wrong_gradient(
    case: Case,
    name: str,
    own: torch.Tensor | None,
    wanted: torch.Tensor | None,
    exact: list[Named | None],
) -> str | None:
    """How two gradients differ; no gradient and zeros are the same."""
    if own is None or wanted is None:
        given = wanted if own is None else own
        if given is None or not bool(readable(given).ne(0).any()):
            return None
        largest = float(readable(given).abs().max())
        if own is None:
            return f"None, and the reference gives one (largest magnitude {largest:.3g})"
        return f"a tensor (largest magnitude {largest:.3g}), and the reference gives None"

    def wide() -> Any:
        if not exact:
            try:
                exact.append(dict(_reference_gradients(case, case.widened())))
            except Exception:  # it does not take float64: then nobody can tell
                exact.append(None)
        return (exact[0] or {}).get(name)

    return _differs(case, own, wanted, wide)


CHECKS = [
    Check(
        "reference.gradients",
        "the gradients are those of the mark's reference, and None where it has none",
        check_gradients,
        gradients=True,
        needs_autograd=True,
        reference=True,
        variants=("layout", "shape", "positions", "arguments"),
        cheap=True,
    ),
    Check(
        "reference.values",
        "outputs and mutated arguments are those of the mark's reference",
        check_values,
        reference=True,
        variants=("layout", "shape", "values", "positions", "arguments", "alias"),
        cheap=True,
    ),
]
