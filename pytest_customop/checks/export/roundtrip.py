"""`export.roundtrip`: `torch.export` of a module that calls the op; run, lowered, saved and loaded."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from ...cases.arguments import Arguments
from ...cases.case import Case
from ...cases.deliberate import note_if_deliberate
from ...cases.fake_contract import data_dependent
from ...cases.picture import picture_of
from ...cases.tensors import difference, is_plain, output_leaves
from ...core.tracebacks import error_line, raised_by_author, reraise_bug, root_cause, traceback_text
from ...findings import Explanation, doc_links, fail, skip
from ..check import Check
from ..compile.errors import compiler_session

_T = TypeVar("_T")


class _Module(torch.nn.Module):
    """Calls the op with the given tensors and the case's other arguments."""

    def __init__(self, arguments: Arguments) -> None:
        super().__init__()
        self.arguments = arguments

    def forward(self, *tensors: torch.Tensor) -> Any:
        """Return the tensors that the op returns, and those that it has written to."""
        left = iter(tensors)
        arguments = self.arguments.map(lambda _: next(left))
        leaves = output_leaves(arguments.call())
        mutated = tuple(tensor for _, tensor in arguments.mutated())
        return (*(leaf for _, leaf in leaves if isinstance(leaf, torch.Tensor)), *mutated)


def check_roundtrip(case: Case) -> None:
    """Compare the exported program with eager mode: as it is, lowered, and saved and loaded."""
    _skip_if_unsupported(case)
    with compiler_session(), torch.no_grad():
        program = _make_or_fail(case, "torch.export.export", lambda: _export(case))
        _compare_announced_metadata(case, program)
        lowered = _make_or_fail(case, "run_decompositions", program.run_decompositions)
        loaded = _make_or_fail(case, "torch.export.save and load", lambda: _reloaded(program))
        programs = {"": program, ", lowered by run_decompositions,": lowered}
        programs[", saved and loaded,"] = loaded
        for description, variant in programs.items():
            _compare(case, f"the exported program{description}", variant)


def _skip_if_unsupported(case: Case) -> None:
    tensors = case.eager.arguments.tensors()
    if not tensors or not case.eager.outputs:
        raise skip("nothing-to-check", "there is no tensor to pass or to compare", unjudged=False)
    if case.op.nondeterministic:
        raise skip("nondeterministic", "the op may give other values each time it runs")
    for name, tensor in (*tensors, *case.eager.outputs):
        if not is_plain(tensor) or tensor.is_meta:
            raise skip("checker-limit", f"{name} is of a kind that torch.export does not support")
    for name, value in case.inputs().named():
        if not isinstance(value, (torch.Tensor, int, float, str, type(None), torch.dtype)):
            kind = type(value).__name__
            raise skip("checker-limit", f"argument {name} is a {kind}, which cannot be saved")


def _tensors(case: Case) -> tuple[torch.Tensor, ...]:
    return tuple(tensor.detach() for _, tensor in case.inputs().tensors())


def _export(case: Case) -> Any:
    module = _Module(case.inputs())
    return torch.export.export(module, _tensors(case), strict=False)


def _reloaded(program: Any) -> Any:
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    buffer.seek(0)
    return torch.export.load(buffer)


def _make_or_fail(case: Case, description: str, make: Callable[[], _T]) -> _T:
    """The result of `make`; its exception is a finding if the author's code raised it, else a skip."""
    try:
        return make()
    except Exception as error:  # torch.export raises many types, and hands on what the op raises
        reraise_bug(error)
        root = root_cause(error)
        if raised_by_author(root) and not isinstance(root, NotImplementedError):
            raise fail(
                "export-mismatch",
                f"{case.op.name} in {description} raises {error_line(root)}, but works in eager mode",
                traceback_text(root),
                repro=_SCRIPT,
                note=note_if_deliberate(case.op.name, error),
            ) from None
        raise skip("checker-limit", f"{description} raises {error_line(root)}") from None


def _compare_announced_metadata(case: Case, program: Any) -> None:
    """Compare the shapes and dtypes that the program announces for its outputs with the real ones."""
    by_data = data_dependent(case.eager.arguments) or frozenset()
    nodes = {node.name: node for node in program.graph.nodes}
    names = program.graph_signature.user_outputs[: len(case.eager.outputs)]
    for index, (node_name, (name, real)) in enumerate(zip(names, case.eager.outputs, strict=False)):
        announced = getattr(nodes.get(node_name), "meta", {}).get("val")
        if not isinstance(announced, torch.Tensor) or index in by_data:
            continue
        actual, expected = ((tuple(tensor.shape), tensor.dtype) for tensor in (announced, real))
        if actual != expected:
            raise fail(
                "export-mismatch",
                f"{case.op.name} {name}: the exported program promises {actual[1]} of shape "
                f"{actual[0]}, the op returns {expected[1]} of shape {expected[0]}",
                repro=_SCRIPT,
            )


def _compare(case: Case, description: str, program: Any) -> None:
    try:
        outputs = program.module()(*_tensors(case))
    except Exception as error:  # whatever the exported program raises is a finding
        reraise_bug(error)
        raise fail(
            "export-mismatch",
            f"{case.op.name}: {description} raises {error_line(error)}",
            traceback_text(error),
            repro=_SCRIPT,
        ) from None
    run = case.eager
    written = [
        (f"argument {name} after the call", tensor) for name, tensor in run.arguments.mutated()
    ]
    for actual, (name, expected) in zip(outputs, [*run.outputs, *written], strict=True):
        wrong = difference(actual, expected, *case.tolerance(expected.dtype))
        if wrong:
            raise fail(
                "export-mismatch",
                f"{case.op.name} {name}: {description} gives {wrong}",
                repro=_SCRIPT,
                picture=picture_of(name, actual, expected),
            )


_SCRIPT = """
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

leaves, spec = tree_flatten(inputs())
where = [index for index, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]


class Module(torch.nn.Module):
    def forward(self, *tensors):
        full = list(leaves)
        for index, tensor in zip(where, tensors):
            full[index] = tensor
        args, kwargs = tree_unflatten(full, spec)
        return tuple(tree_leaves(op(*args, **kwargs)))


given = tuple(leaves[index].detach() for index in where)
due = Module()(*[tensor.clone() for tensor in given])
program = torch.export.export(Module(), given, strict=False)
nodes = {node.name: node for node in program.graph.nodes}
for name, real in zip(program.graph_signature.user_outputs, due):
    said = nodes[name].meta["val"]
    assert (said.shape, said.dtype) == (real.shape, real.dtype), f"{said} promised, {real} due"
for each in (program, program.run_decompositions()):
    got = each.module()(*[tensor.clone() for tensor in given])
    torch.testing.assert_close(got, due, equal_nan=True)
"""

FINDINGS = {
    "export-mismatch": Explanation(
        meaning=(
            "The program that torch.export makes of the op gives other results or metadata "
            "than the op in eager mode, or it cannot be made because the op's own code "
            "raises."
        ),
        why=(
            "The exported program is what gets deployed, and it differs from what was "
            "trained and tested."
        ),
        fix=(
            "Behave the same while exporting: no torch.compiler.is_exporting() may change the "
            "result, in the kernel, the fake kernel or a Python implementation."
        ),
        before="""
def kernel(x):
    if torch.compiler.is_exporting():
        return x * torch.sigmoid(1.7 * x)  # the same, nearly
    return torch.nn.functional.gelu(x)
""",
        after="""
def kernel(x):
    return torch.nn.functional.gelu(x)
""",
        docs=(doc_links.EXPORT,),
        follows=("fake-raises", "fake-missing", "fake-shape-mismatch", "fake-dtype-mismatch"),
    ),
}

CHECK = Check(
    name="export.roundtrip",
    summary="the program of torch.export gives the results of eager mode: as it is, lowered, and reloaded",
    run=check_roundtrip,
    gradients=False,
    default=False,
    variants=("arguments",),
    findings=FINDINGS,
    catches=(
        "Results that differ from eager mode when `torch.export.export` exports a module that "
        "calls the op: in the program as it is, lowered by `run_decompositions`, or saved and "
        "loaded. Also outputs that lack the shapes and dtypes that the program announces. "
        "Most ops that fail here fail in `compile.*` too; only this check sees ops that test "
        "whether they are being exported."
    ),
    cannot_see=(
        "Dynamic sizes: `fake.symbolic` and `compile.dynamic` check these. A limit of "
        "torch.export itself is a skip, `checker-limit`."
    ),
    cost="trace",
)
