"""A function around the op, compiled once and compared with eager mode at one size or two."""

from __future__ import annotations

from typing import Any

from ... import compat
from ...cases.arguments import Arguments
from ...cases.case import Case
from ...cases.tensors import is_plain
from ...core.tracebacks import chain
from ...findings import fail, skip
from .compare import CompiledRaises, NoneDiffers, Reference, agree, reference
from .errors import (
    certain_verdict,
    compiles,
    skip_without_compiler,
    verdict,
)
from .harness import OP_ONLY, Function, HarnessConfig, OpHarness


def skip_if_meta(case: Case) -> None:
    """Skip a case on the meta device."""
    if any(tensor.is_meta for _, tensor in case.inputs().tensors()):
        reason = "tensors on the meta device have no values to compare"
        raise skip("nothing-to-check", reason, unjudged=False)


class Compilation:
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
        alone = Compilation(self.case, OP_ONLY, self.dynamic)
        alone.compile()
        if case is not self.case:
            alone.run_at(self.case)
        alone.run_at(case, where)


def _refuse_broken(expected: Reference, where: str) -> None:
    """Report without running it what compiled code would do to memory that is not there."""
    own = expected.case.op.name
    for name, wrong in expected.promises.violations:
        called = "" if name == own else f"{name}, which the backward calls: "
        raise fail(
            "compile-output-mismatch",
            f"{where}{called}{wrong}",
            "The compiled code was not run: it would read and write memory by the promise.",
        )


def _is_recompile(error: Exception) -> bool:
    return any(type(one).__name__ == "RecompileError" for one in chain(error))


def _mark_dynamic(arguments: Arguments) -> None:
    for _, tensor in arguments.tensors():
        if is_plain(tensor):
            for dim, size in enumerate(tensor.shape):
                if size >= 2:
                    compat.maybe_mark_dynamic(tensor, dim)
