"""A function around the op, compiled once and compared with eager mode at one size or two."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...cases.arguments import Arguments
from ...cases.case import Case
from ...cases.tensors import is_plain
from ...compat.compiler import counting_backend, maybe_mark_dynamic
from ...core.tracebacks import chain, reraise_bug
from ...findings import TORCH_LIMIT, CheckFailed, Finding, fail, skip
from .compare import CompiledRaises, NoneDiffers, assert_matches
from .eager import EagerRecord, run_eager
from .errors import named_cause, read_exception
from .harness import OP_ONLY, Function, HarnessConfig, OpHarness
from .unsupported import compiles, skip_without_compiler

_OF_GENERATED_CODE = (
    "with the backend aot_eager, which generates no code, they agree, and the backward calls no op but "
    "torch's own: the code that Inductor generates for it is wrong"
)


def skip_if_meta(case: Case) -> None:
    """Skip a case on the meta device."""
    if any(tensor.is_meta for _, tensor in case.inputs().tensors()):
        reason = "tensors on the meta device have no values to compare"
        raise skip("nothing-to-check", reason, unjudged=False)


class Compilation:
    """A function around the op, compiled once and called at one size or two.

    Args:
        case: the case at whose sizes it is compiled.
        config: what surrounds the op.
        dynamic: whether sizes are marked as dynamic.
    """

    function: Function
    backend: Any

    def __init__(self, case: Case, config: HarnessConfig, dynamic: bool) -> None:
        self.case = case
        self.dynamic = dynamic
        self.expected = run_eager(OpHarness(case, config), case)
        # The op alone, if the function around it raises in eager mode.
        self.harness = self.expected.harness

    def compile(self) -> None:
        """Wrap the function, so that its next call compiles it."""
        self.backend = counting_backend(self.case.backend)
        self.function = self.harness.compiled(self.backend, dynamic=self.dynamic)

    def expected_at(self, case: Case) -> EagerRecord | None:
        """The eager results at the sizes of a case; None if they need another function."""
        if case is self.case:
            return self.expected
        expected = run_eager(self.harness, case)
        return expected if expected.harness is self.harness else None

    def run_at(self, case: Case, where: str = "") -> None:
        """Compare with eager mode at the sizes of a case.

        Args:
            case: one that differs from the first only in sizes and values.
            where: the start of a message: at which size.

        Raises:
            CheckFailed: for a difference, or an exception of the compiled function.
            CompiledRaises: if a recompilation was needed and not allowed.
        """
        expected = self.expected_at(case)
        if expected is None:
            return
        try:
            self.compare(expected, where)
        except NoneDiffers:
            if self.harness.config == OP_ONLY:
                raise
            self._compare_op_only(case, where)
        except CheckFailed as failure:
            if not self._is_of_generated_code(expected, failure.finding):
                raise
            text = f"{failure.finding.message}; {_OF_GENERATED_CODE}"
            noted = replace(failure.finding, message=text, note=TORCH_LIMIT)
            raise CheckFailed(noted) from failure.__cause__
        except CompiledRaises as raised:
            if _is_recompile(raised.error):
                raise
            if "found no compiled frames" not in str(raised.error):
                return self._report(case, expected, raised.error, where)
        if self.backend.graphs == 0:
            raise skip(
                "compiler-off",
                "torch.compile compiled nothing: it is switched off here (TORCH_COMPILE_DISABLE, "
                "TORCHDYNAMO_DISABLE or torch._dynamo.config.disable)",
            )

    def compare(self, expected: EagerRecord, where: str = "") -> None:
        """Compare one call with the eager results."""
        _fail_if_contract_broken(expected, where)
        arguments = expected.case.inputs()
        if self.dynamic:
            mark_dynamic(arguments)
        assert_matches(expected, lambda: self.harness.run(self.function, arguments), where)

    def _is_of_generated_code(self, expected: EagerRecord, finding: Finding) -> bool:
        """Whether gradients are wrong only in the code that Inductor generates for torch's own ops.

        The backward calls no op of its author, and the same graph agrees with eager mode if it is not
        turned into code. In torch 2.14, `index_add` at `arange(n) // 16` leaves numbers out.
        """
        contract = expected.contract
        if finding.code != "compile-gradient-mismatch" or self.case.backend != "inductor":
            return False
        if contract.calls_in_backward or contract.shares_memory or contract.errors:
            return False
        of_graph = replace(self.case, backend="aot_eager")
        traced = Compilation(of_graph, self.harness.config, self.dynamic)
        traced.compile()
        try:
            traced.run_at(of_graph)
            if expected.case is not self.case:
                traced.run_at(expected.case)
        except Exception as error:  # whatever a compiler or the op raises, a finding included
            reraise_bug(error)
            return False
        return True

    def _report(self, case: Case, expected: EagerRecord, error: Exception, where: str) -> None:
        """Report an exception of compiled code, unless the code around the op cannot be compiled."""
        skip_without_compiler(error, case.placement.device)
        known = named_cause(error, expected.contract, where)
        if known is None and self.harness.config != OP_ONLY:
            self._compare_op_only(case, where)  # raises if the op alone is enough
            if not compiles(*self.harness.without_op(), self.case):
                return
        raise known or read_exception(error, case, expected.contract, where) from error

    def _compare_op_only(self, case: Case, where: str) -> None:
        """Compare again with nothing around the op."""
        alone = Compilation(self.case, OP_ONLY, self.dynamic)
        alone.compile()
        if case is not self.case:
            alone.run_at(self.case)
        alone.run_at(case, where)


def _fail_if_contract_broken(expected: EagerRecord, where: str) -> None:
    """Fail without running compiled code that would read or write memory that does not exist."""
    for broken in expected.contract.violations:
        code, called = "compile-output-mismatch", ""
        if broken.op != expected.case.op.name:
            caller = "the backward" if broken.in_backward else "the op"
            code, called = broken.code, f"{broken.op}, which {caller} calls: "
        raise fail(
            code,
            f"{where}{called}{broken.text}",
            "The compiled code was not run: it would read and write memory as the fake kernel promises.",
        )


def _is_recompile(error: Exception) -> bool:
    return any(type(cause).__name__ == "RecompileError" for cause in chain(error))


def mark_dynamic(arguments: Arguments) -> None:
    """Mark every size above 1 as dynamic."""
    for _, tensor in arguments.tensors():
        if is_plain(tensor):
            for dim, size in enumerate(tensor.shape):
                if size >= 2:
                    maybe_mark_dynamic(tensor, dim)
