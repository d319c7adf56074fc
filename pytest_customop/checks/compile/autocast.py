"""`compile.autocast`: under torch.autocast, fake is compared with real and compiled with eager.

Compiled code contains the traced casts and runs with autocast off. A kernel that depends on the ambient
autocast state therefore computes something else than in eager mode.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from ...cases.arguments import Arguments
from ...cases.autocast import autocast_device, autocast_text
from ...cases.case import Case
from ...cases.fake_contract import FakeContract
from ...cases.fake_run import fake_run, skip_if_unfakeable
from ...cases.run import Run, gradients, random_like
from ...cases.tensors import DEFAULT_TOLERANCES, difference, output_leaves
from ...compat.compiler import counting_backend
from ...compat.ops import has_autocast_rule
from ...core.tracebacks import error_line, reraise_bug
from ...findings import NOT_ASKED, CheckFailed, CheckSkipped, Explanation, doc_links, fail, skip
from ..check import Check
from ..fake.metadata import SizeReader, compare_outputs, table, worst_mismatch
from .compare import CompiledRaises, assert_matches
from .eager import EagerRecord
from .errors import compiler_session, named_cause, read_exception
from .harness import OP_ONLY, CallRecord, Function, OpHarness
from .unsupported import skip_without_compiler


def check_autocast(case: Case) -> None:
    """Compare fake with real and compiled with eager under autocast, if autocast matters.

    It matters if it changes the results of eager mode, or if the op has a rule for it.
    """
    device = autocast_device(case)
    run = _run(case, device)
    if run.error is not None:
        reason = f"eager mode raises under {autocast_text(device)}: {error_line(run.error)}"
        raise skip("nothing-to-check", reason)
    has_rule = has_autocast_rule(case.op.overload, device)
    if not has_rule and _same_as_without(case, run):
        return
    _compare_fake(case, run, device, None if has_rule else NOT_ASKED)
    with compiler_session():
        _compare_compiled(case, device)


def _run(case: Case, device: str) -> Run:
    with torch.autocast(device):
        return case.run(case.inputs())


def _same_as_without(case: Case, run: Run) -> bool:
    """Whether eager mode gives the same results and gradients with and without autocast."""
    plain = case.eager
    leaves, plain_leaves = output_leaves(run.result), output_leaves(plain.result)
    if len(leaves) != len(plain_leaves):
        return False
    pairs = [*zip(leaves, plain_leaves, strict=True)]
    pairs += zip(run.arguments.mutated(), plain.arguments.mutated(), strict=True)
    if any(_differs(case, actual, expected) for (_, actual), (_, expected) in pairs):
        return False
    if not run.differentiable_outputs:
        return True
    try:
        after = gradients(
            run.arguments,
            run.differentiable_outputs,
            case.grad_outputs(run.differentiable_outputs),
        )
        before = case.eager_gradients
    except Exception as error:  # whatever a backward raises: backward.linear reports it
        reraise_bug(error)
        return True
    return not any(_differs(case, grad, before[name]) for name, grad in after.items())


def _differs(case: Case, actual: Any, expected: Any) -> bool:
    if not (isinstance(actual, torch.Tensor) and isinstance(expected, torch.Tensor)):
        return actual is not expected and actual != expected
    if case.op.nondeterministic:
        return actual.dtype != expected.dtype
    return (
        actual.stride() != expected.stride() or difference(actual, expected, 0.0, 0.0) is not None
    )


def _compare_fake(case: Case, run: Run, device: str, note: str | None) -> None:
    """Compare fake with real under autocast.

    Args:
        note: why a difference is not a failure. Only a rule declares that an op runs under autocast.
    """
    skip_if_unfakeable(run)
    with torch.autocast(device):
        fake = fake_run(case.inputs())
    if fake.error is not None:
        reason = f"the fake kernel raises {error_line(fake.error)}: see fake.forward"
        raise skip("nothing-to-check", reason, unjudged=False)
    outputs = compare_outputs(fake.run, run, SizeReader(fake.mode))
    mismatch = worst_mismatch(outputs)
    if mismatch is None:
        return
    plain = fake_run(case.inputs())
    if plain.error is None and worst_mismatch(
        compare_outputs(plain.run, case.eager, SizeReader(plain.mode))
    ):
        reason = "fake and real kernel disagree without autocast too: see fake.forward"
        raise skip("nothing-to-check", reason, unjudged=False)
    raise fail(
        "autocast-fake-mismatch",
        f"under {autocast_text(device)}, {case.op.name} {mismatch[1]}",
        table(outputs),
        repro=_SCRIPT.replace("DEVICE", repr(device)) + _FAKE.replace("DEVICE", repr(device)),
        note=note,
    )


class _UnderAutocast(OpHarness):
    """The op alone, with its forward under autocast and its backward outside of it."""

    def run(self, function: Function, arguments: Arguments) -> CallRecord:
        """Call the function, eager or compiled, under autocast."""
        with torch.autocast(torch.device(self.case.placement.device).type):
            return super().run(function, arguments)


def _compare_compiled(case: Case, device: str) -> None:
    rtol, atol = DEFAULT_TOLERANCES.get(torch.get_autocast_dtype(device), (1e-2, 1e-5))
    plain = {dtype: case.tolerance(dtype) for dtype in DEFAULT_TOLERANCES}
    loose = {
        dtype: (max(dtype_rtol, rtol), max(dtype_atol, atol))
        for dtype, (dtype_rtol, dtype_atol) in plain.items()
    }
    case = replace(case, tolerances=loose)
    failure = _failure(_UnderAutocast(case, OP_ONLY), case)
    if failure is None:
        return
    if _failure(OpHarness(case, OP_ONLY), case) is not None:
        reason = "compiled code is wrong without autocast too: see compile.static"
        raise skip("nothing-to-check", reason, unjudged=False)
    if isinstance(failure, CheckSkipped):
        raise failure
    raise fail(
        "compile-autocast-mismatch",
        f"under {autocast_text(device)}: {failure.finding.message}",
        failure.finding.evidence,
        repro=_SCRIPT.replace("DEVICE", repr(device)) + _COMPILED.replace("DEVICE", repr(device)),
    )


def _failure(harness: OpHarness, case: Case) -> CheckFailed | CheckSkipped | None:
    """The difference between the compiled function and eager mode; None if there is none."""
    try:
        expected = _run_eager(harness, case)
    except Exception as error:  # whatever a backward raises; the op itself runs under autocast
        reraise_bug(error)
        return skip("nothing-to-check", f"the backward raises {error_line(error)}", unjudged=False)
    try:
        function = harness.compiled(counting_backend(case.backend), dynamic=False)
        assert_matches(expected, lambda: harness.run(function, case.inputs()))
    except (CheckFailed, CheckSkipped) as wrong:
        return wrong
    except CompiledRaises as raised:
        skip_without_compiler(raised.error, case.placement.device)
        known = named_cause(raised.error, expected.contract)
        return known or read_exception(raised.error, case, expected.contract)
    return None


def _run_eager(harness: OpHarness, case: Case) -> EagerRecord:
    """The eager results. Ops are not recorded, because autocast is off under a dispatch mode."""
    record = harness.run(harness.function, case.inputs())
    grads = {
        name: random_like(tensor, case.seed + 1 + index)
        for index, (name, tensor) in enumerate(record.differentiable.items())
        if case.op.has_autograd
    }
    gradients = record.backward(grads) if grads else {}
    return EagerRecord(harness, case, record, grads, gradients, FakeContract())


_SCRIPT = """
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_leaves, tree_map_only


def dtypes(result):
    return [leaf.dtype for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]


args, kwargs = inputs()
with torch.autocast(DEVICE):
    expected = op(*args, **kwargs)
"""
_FAKE = """
mode = FakeTensorMode()
args, kwargs = tree_map_only(torch.Tensor, mode.from_tensor, inputs())
with torch.autocast(DEVICE), mode:
    fake = op(*args, **kwargs)
assert dtypes(fake) == dtypes(expected), f"fake {dtypes(fake)}, real {dtypes(expected)}"
"""
_COMPILED = """
args, kwargs = inputs()
compiled = torch.compile(lambda *args, **kwargs: op(*args, **kwargs), backend=backend)
with torch.autocast(DEVICE):
    actual = compiled(*args, **kwargs)
assert dtypes(actual) == dtypes(expected), f"compiled {dtypes(actual)}, eager {dtypes(expected)}"
torch.testing.assert_close(actual, expected, rtol=2e-2, atol=2e-2)
"""

FINDINGS = {
    "autocast-fake-mismatch": Explanation(
        meaning="Under torch.autocast, the op returns another dtype than its fake kernel.",
        why=(
            "A Python kernel that calls matmul gets bfloat16 results under autocast. Fake "
            "kernels, and kernels inside compiled code, run with autocast off. The compiled "
            "model goes on in another dtype, or fails at the next op that requires equal "
            "dtypes."
        ),
        fix=(
            "Make the result independent of the ambient autocast state: compute under "
            "torch.autocast(x.device.type, enabled=False), or cast the result back to "
            "x.dtype. To run the op in lower precision under autocast, use "
            "torch.library.register_autocast."
        ),
        before="""
def kernel(x, w):
    return x @ w  # bfloat16 under autocast
""",
        after="""
def kernel(x, w):
    with torch.autocast(x.device.type, enabled=False):
        return x @ w
""",
        docs=(doc_links.REGISTER_AUTOCAST, doc_links.AMP),
    ),
    "compile-autocast-mismatch": Explanation(
        meaning="Under torch.autocast, the compiled op gives other results than the eager one.",
        why="Mixed-precision training computes something else as soon as it is compiled.",
        fix=(
            "Do not read the ambient autocast state in a kernel: compiled code runs with "
            "autocast off, because its casts are traced already. Use "
            "torch.library.register_autocast."
        ),
        before="""
def kernel(x):
    low = torch.is_autocast_enabled(x.device.type)
    return (x.half() ** 2).float() if low else x**2  # 300 overflows
""",
        after="""
def kernel(x):
    return x**2

torch.library.register_autocast("mylib::square", "cpu", torch.bfloat16)
""",
        docs=(doc_links.REGISTER_AUTOCAST, doc_links.AMP),
        follows=("autocast-fake-mismatch",),
    ),
}

CHECK = Check(
    name="compile.autocast",
    summary="under autocast, fake equals real and compiled equals eager, if autocast matters",
    run=check_autocast,
    variants=("arguments",),
    findings=FINDINGS,
    catches=(
        "Under `torch.autocast`, at its default dtype for the device: real dtypes that "
        "differ from those of the fake kernel, and compiled code that differs from eager mode "
        "by more than the precision of autocast. Fake kernels, and kernels in compiled code, "
        "run with autocast off: a kernel that calls matmul gives bfloat16 in eager mode and "
        "float32 compiled, unless it switches autocast off itself."
    ),
    cannot_see=(
        "Nothing is compiled if no autocast rule is registered and eager mode gives the same "
        "results, bit by bit, with and without autocast; the check then takes milliseconds. "
        "The backward runs outside of autocast, as it should."
    ),
    cost="compile",
)
