"""`compile.*`: the op under `torch.compile(fullgraph=True)`, held against itself in eager mode."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import torch

from ... import compat
from ...cases.arguments import Arguments
from ...cases.case import Case
from ...cases.resize import second_case, whole_numbers
from ...cases.tensors import is_plain
from ...findings import CheckFailed, CheckSkipped, fail, skip
from ..check import Check
from ..fake.scripts import traced
from .compare import CompiledRaises, NoneDiffers, Reference, agree, reference
from .disk_cache import tag_of
from .errors import (
    certain_verdict,
    chain,
    compiler_session,
    compiles,
    pinned_size,
    skip_without_compiler,
    verdict,
)
from .graph_cache import Graph, find, keep, key_of, unchanged
from .harness import OP_ONLY, Function, HarnessConfig, OpHarness
from .scripts import DYNAMIC, STATIC, TWO_SIZES

# Which graph of the process a guard belongs to; it depends on what was compiled before.
_NUMBER = re.compile(r"- \d+/\d+: ")


def check_static(case: Case) -> None:
    """Compiled with plain sizes, the op gives what it gives in eager mode."""
    _check(case, dynamic=False)


def check_dynamic(case: Case) -> None:
    """Compiled with dynamic sizes, the op gives what it gives in eager mode, at two sizes."""
    sizes = [size for _, tensor in case.inputs().tensors() for size in tensor.shape]
    if all(size < 2 for size in sizes):
        reason = "no tensor argument has a size of at least 2; 0 and 1 are constants to a compiler"
        raise skip("nothing-to-check", reason, unjudged=False)
    _check(case, dynamic=True)


def _check(case: Case, *, dynamic: bool) -> None:
    if any(tensor.is_meta for _, tensor in case.inputs().tensors()):
        reason = "tensors on the meta device have no values to compare"
        raise skip("nothing-to-check", reason, unjudged=False)
    with compiler_session():
        trial = _Trial(case, HarnessConfig(consumers="generated" if dynamic else "opaque"), dynamic)
        key = key_of(trial.surrounded, case) if dynamic else None
        if _agrees_on_shared(trial, find(key)) or (not dynamic and _agrees_on_stored(trial)):
            return
        trial.compile()
        trial.run_at(case)
        if dynamic:
            _at_second_size(trial)
        if trial.backend.graphs == 1:
            keep(key, Graph(trial.surrounded.function, trial.function, trial.backend))


def _agrees_on_shared(trial: _Trial, graph: Graph | None) -> bool:
    """Whether the case agrees with eager mode on the graph of another one, at both of its sizes."""
    if graph is None:
        return False
    trial.backend, trial.function = graph.backend, graph.function

    def compare() -> None:
        trial.compare(trial.expected)
        second = _second(trial.case)
        expected = None if second is None else trial.expected_at(second)
        if expected is not None:
            trial.compare(expected)

    return unchanged(graph, compare)


def _agrees_on_stored(trial: _Trial) -> bool:
    """Whether the case agrees with eager mode on graphs from disk, or on those that go there.

    Raises:
        Exception: what `_Trial.run_at` raises, if nothing of it came from disk.
    """
    tag = tag_of(trial.surrounded, trial.case)
    if tag is None:
        return False
    with compat.storing_graphs(tag) as taken:
        try:
            trial.compile()
            trial.run_at(trial.case)
        except Exception:
            if not taken():
                raise
            return False
    return True


class _Trial:
    """One function around the op, compiled once and called at one size or two."""

    function: Function
    backend: Any

    def __init__(self, case: Case, form: HarnessConfig, dynamic: bool) -> None:
        self.case = case
        self.dynamic = dynamic
        self.expected = reference(OpHarness(case, form), case)
        # A function that eager mode does not take around the op leaves the op alone.
        self.surrounded = self.expected.surrounded

    def compile(self) -> None:
        """Have it compiled at the next call."""
        self.backend = compat.counting_backend(self.case.backend)
        self.function = self.surrounded.compiled(self.backend, dynamic=self.dynamic)

    def expected_at(self, case: Case) -> Reference | None:
        """What eager mode gives at the sizes of a case; None if it needs other surroundings."""
        if case is self.case:
            return self.expected
        expected = reference(self.surrounded, case)
        return expected if expected.surrounded is self.surrounded else None

    def run_at(self, case: Case, where: str = "") -> None:
        """Compare at the sizes of a case, which has the same arguments otherwise.

        Raises:
            CheckFailed: for what is wrong, an exception of the compiled function included.
            CompiledRaises: if a recompilation was refused.
        """
        expected = self.expected_at(case)
        if expected is None:
            return
        try:
            self.compare(expected, where)
        except NoneDiffers:
            if self.surrounded.form == OP_ONLY:
                raise
            self._alone(case, where)
        except CompiledRaises as raised:
            if _is_recompile(raised.error):
                raise
            if "found no compiled frames" not in str(raised.error):
                return self._judge(case, expected, raised.error, where)
        if self.backend.graphs == 0:
            raise skip(
                "compiler-off",
                "torch.compile compiled nothing: it is switched off here (TORCH_COMPILE_DISABLE, "
                "TORCHDYNAMO_DISABLE or torch._dynamo.config.disable)",
            )

    def compare(self, expected: Reference, where: str = "") -> None:
        """Hold one call against what is expected of it."""
        _refuse_broken(expected, where)
        arguments = expected.case.inputs()
        if self.dynamic:
            _mark_dynamic(arguments)
        agree(expected, lambda: self.surrounded.run(self.function, arguments), where)

    def _judge(self, case: Case, expected: Reference, error: Exception, where: str) -> None:
        """Report an exception of compiled code, unless it is the surroundings that cannot compile."""
        skip_without_compiler(error)
        known = certain_verdict(error, expected.promises, where)
        if known is None and self.surrounded.form != OP_ONLY:
            self._alone(case, where)  # raises if the op alone is enough
            if not compiles(*self.surrounded.without_op(), self.case):
                return
        raise known or verdict(error, case, expected.promises, where) from error

    def _alone(self, case: Case, where: str) -> None:
        """The same with nothing around the op."""
        alone = _Trial(self.case, OP_ONLY, self.dynamic)
        alone.compile()
        if case is not self.case:
            alone.run_at(self.case)
        alone.run_at(case, where)


def _refuse_broken(expected: Reference, where: str) -> None:
    """Report without running it what compiled code would do to memory that is not there."""
    own = expected.case.op.name
    for name, wrong in expected.promises.broken:
        called = "" if name == own else f"{name}, which the backward calls: "
        raise fail(
            "compile-output-mismatch",
            f"{where}{called}{wrong}",
            "The compiled code was not run: it would read and write memory by the promise.",
        )


def _at_second_size(trial: _Trial) -> None:
    second = _second(trial.case)
    if second is None:
        return
    try:
        _compare_second(trial, second)
    except CheckFailed as failure:
        found = failure.finding
        if found.repro is not None:
            raise
        raise CheckFailed(replace(found, repro=TWO_SIZES, case=second)) from failure.__cause__


def _second(case: Case) -> Case | None:
    """The case at other sizes; None if it has no others with which it could use the same graph."""
    try:
        second = second_case(case)
    except CheckSkipped:
        return None
    # Another constant is another graph, whatever the sizes.
    return second if _constants(second) == _constants(case) else None


def _compare_second(trial: _Trial, second: Case) -> None:
    case = trial.case
    where = f"at the second size ({_shapes(second)}): "
    try:
        with compat.refusing_recompiles():
            trial.run_at(second, where)
    except CompiledRaises as raised:
        _refuse_pinned(raised.error, case, second, where)
        trial.run_at(second, where)


def _refuse_pinned(error: Exception, case: Case, second: Case, where: str) -> None:
    """Report a recompile that a size turned into a constant has forced."""
    pinned = pinned_size(str(error), case.inputs().tensors(), second.inputs().tensors())
    if pinned is None:
        return  # relations between sizes, sizes 0 and 1, strides: nothing that the op decided
    name, dim, size = pinned
    if size in whole_numbers(case):
        return  # the op may compare the two, as it may well do
    raise fail(
        "compile-recompiles",
        f"{where}compiled again, because size {size} at dim {dim} of {name} was made a constant; "
        f"{case.op.name} itself works at the other size",
        _NUMBER.sub("- ", str(error).strip()),
        repro=traced([(_index(case, name), dim)], insist=True),
    )


def _index(case: Case, argument: str) -> int:
    return [name for name, _ in case.inputs().tensors()].index(argument)


def _is_recompile(error: Exception) -> bool:
    return any(type(one).__name__ == "RecompileError" for one in chain(error))


def _mark_dynamic(arguments: Arguments) -> None:
    for _, tensor in arguments.tensors():
        if is_plain(tensor):
            for dim, size in enumerate(tensor.shape):
                if size >= 2:
                    compat.maybe_mark_dynamic(tensor, dim)


def _constants(case: Case) -> list[tuple[str, Any]]:
    named = case.inputs().named()
    return [(name, value) for name, value in named if not isinstance(value, torch.Tensor)]


def _shapes(case: Case) -> str:
    return ", ".join(f"{name} {list(tensor.shape)}" for name, tensor in case.inputs().tensors())


CHECKS = [
    Check(
        name="compile.dynamic",
        summary="compiled with dynamic sizes, the op agrees with eager mode, and so at a second size",
        run=check_dynamic,
        repro=DYNAMIC,
        variants=("layout", "dtype", "arguments"),
    ),
    Check(
        name="compile.static",
        summary="compiled with consumers around it, outputs, mutations and gradients equal eager's",
        run=check_static,
        repro=STATIC,
        variants=("layout", "shape", "dtype", "arguments", "gradients", "alias"),
    ),
]
