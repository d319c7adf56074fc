"""`reference.values`: outputs and written arguments equal the reference's."""

from __future__ import annotations

from typing import Any

import torch

from ...cases.case import Case
from ...cases.picture import picture_of
from ...cases.tensors import is_differentiable, output_leaves
from ...declare.mistakes import MarkError
from ...findings import Explanation, doc_links, fail, skip
from ..check import Check
from .calls import Named, call_reference, detached, difference_from, reference_outputs, written
from .scripts import assertion


def check_values(case: Case) -> None:
    """Compare the outputs and the mutated arguments with those of the reference."""
    arguments, result = call_reference(case, detached(case.inputs()))
    actual = {**dict(output_leaves(case.eager.result)), **written(case.eager.arguments)}
    expected = {**reference_outputs(case, arguments, result), **written(arguments)}
    exact: list[Named | None] = []
    for name in {**actual, **expected}:
        if name not in actual or name not in expected:
            status = "returned" if name in actual else "missing"
            raise fail("reference-mismatch", f"{name} is {status}, unlike in the reference")
        wrong = _output_difference(case, name, actual[name], expected[name], exact)
        if wrong:
            raise fail(
                "reference-mismatch",
                f"{case.op.name} {name}: {wrong}",
                repro=_script(case, name, actual[name], expected[name]),
                picture=picture_of(name, actual[name], _as_tensor(expected[name])),
            )


def _exact_outputs(case: Case, exact: list[Named | None]) -> Named:
    """The reference's results in double precision, computed once; empty if it does not support that."""
    if not exact:
        try:
            wide = case.widened()
            arguments, result = call_reference(wide, detached(wide.inputs()))
            exact.append({**reference_outputs(case, arguments, result), **written(arguments)})
        except (MarkError, RuntimeError):  # the reference, or the device, does not take float64
            exact.append(None)
    return exact[0] or {}


def _output_difference(
    case: Case, name: str, actual: Any, expected: Any, exact: list[Named | None]
) -> str | None:
    """How an output differs from the reference's, as text; None if it does not."""
    if not isinstance(actual, torch.Tensor):
        if isinstance(expected, torch.Tensor) and expected.numel() == 1:
            expected = expected.item()
        same = (
            actual is expected or actual == expected or (actual != actual and expected != expected)
        )
        return None if same else f"{actual!r} instead of {expected!r}"
    if actual.is_nested:
        raise skip("checker-limit", f"{name} is a nested tensor, which cannot be compared here")
    expected = _as_tensor(expected)
    if expected is None:
        return "a tensor instead of none"
    return difference_from(
        case, actual, _cast(expected, actual), lambda: _exact_outputs(case, exact).get(name)
    )


def _as_tensor(value: Any) -> torch.Tensor | None:
    """The value as a tensor, arrays of numpy included; None for anything else."""
    if isinstance(value, torch.Tensor):
        return value
    return torch.as_tensor(value) if hasattr(value, "__array__") else None


def _cast(expected: torch.Tensor, actual: torch.Tensor) -> torch.Tensor:
    """The reference's tensor on the op's device; a reference may compute in double precision."""
    expected = expected.detach().to(actual.device)
    wide = torch.complex128 if actual.dtype.is_complex else torch.float64
    if expected.dtype == wide and is_differentiable(actual.dtype):
        expected = expected.to(actual.dtype)
    return expected


def _script(case: Case, name: str, actual: Any, expected: Any) -> str:
    tensor = _as_tensor(expected) if isinstance(actual, torch.Tensor) else None
    return _values_script(case, name, actual, expected if tensor is None else _cast(tensor, actual))


def _values_script(case: Case, name: str, actual: Any, expected: Any) -> str:
    """Lines that compare one output, or one written argument, with the reference's."""
    call = "args, kwargs = inputs()\ntorch.manual_seed(seed)\nresult = op(*args, **kwargs)\n"
    if not isinstance(actual, torch.Tensor):
        return f"{call}assert result == {expected!r}\n" if name == "output" else ""
    if (
        not isinstance(expected, torch.Tensor)
        or actual.is_quantized
        or actual.layout != torch.strided
    ):
        return ""
    if name.startswith("argument "):
        at = [path for path, _ in case.eager.arguments.tensors()].index(name.split()[1])
        tree = "(args, kwargs)"
    else:
        tensors = [path for path, _ in case.eager.outputs]
        at, tree = tensors.index(name), "result"
    leaves = f"torch.utils._pytree.tree_leaves({tree})"
    line = f"found = [leaf for leaf in {leaves} if isinstance(leaf, torch.Tensor)][{at}].detach()\n"
    return call + line + assertion(case, actual, expected)


FINDINGS = {
    "reference-mismatch": Explanation(
        meaning=(
            "The op returns, or writes to a mutated argument, other values than the mark's "
            "reference."
        ),
        why="The op computes something else than its author specified.",
        fix=(
            "Correct the kernel. If only rounding differs, set tolerances= in the mark. If the "
            "reference is wrong, correct the reference."
        ),
        before="""
def kernel(x):
    return torch.from_numpy(np.sin(x.numpy())) * 180 / np.pi
""",
        after="""
def kernel(x):
    return torch.from_numpy(np.sin(x.numpy()))
""",
        docs=(doc_links.TESTING,),
    ),
}

CHECK = Check(
    name="reference.values",
    summary="outputs and mutated arguments equal those of the mark's reference",
    run=check_values,
    reference=True,
    variants=("layout", "shape", "long", "values", "positions", "arguments", "pairs", "alias"),
    cheap=True,
    findings=FINDINGS,
    catches=(
        "Outputs, elements of returned lists and written arguments that differ from those of "
        "the reference by more than the tolerances of the dtype (or the mark's "
        "`tolerances=`). NaN equals NaN. Shapes and dtypes must match too, but a reference may "
        "return double precision. A result passes if it is as close to the reference computed "
        "in double precision as the reference itself is: only rounding differs."
    ),
    cannot_see="A mistake that reference and op share.",
    cost="calls",
)
