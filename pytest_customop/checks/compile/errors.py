"""Turn exceptions of the compiler and of compiled code into findings and skips."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from ...cases.case import Case
from ...cases.deliberate import note_if_deliberate
from ...cases.fake_contract import FakeContract
from ...cases.fake_run import fake_run
from ...compat.compiler import compile_session
from ...compat.fakes import missing_fake_kernel
from ...compat.ops import alias_error_text, is_alias_error
from ...compat.traces import traces_dropped
from ...core.paths import PACKAGE_PREFIX
from ...core.tracebacks import (
    chain,
    error_line,
    message_of,
    root_cause,
    traceback_text,
)
from ...findings import TORCH_LIMIT, CheckFailed, CheckSkipped, fail
from ...global_state import torch_logging
from .scripts import BACKWARD
from .unsupported import kinds_of, unsupported_call

_ASSERT = re.compile(r"expected size \d+==\d+, stride -?\d+==-?\d+ at dim=\d+")
_SIZES = re.compile(r"expected size (\d+)==(\d+)")
_DIMENSIONS = re.compile(r"wrong number of dimensions\d*")
_DTYPE = re.compile(r"expected dtype \S+ but got \S+")
_OP = re.compile(r"(?:Error in op:|for op:) torch\.ops\.([\w.]+)")
_SYMBOL = re.compile(r"[su]\d+")  # of a size in generated code
Tensors = Sequence[tuple[str, torch.Tensor]]
# `tensors[0]` is how guards name an argument of the function around the op; 2.4: `L['tensors'][0]`.
_TENSOR = r"tensors(?:'\])?\[(\d+)\]"
_PINNED = re.compile(
    rf"{_TENSOR}'? size mismatch at index (\d+)\. expected (\d+)"
    rf"|{_TENSOR}\.size\(\)\[(\d+)\] == (\d+)(?!\d| *[*/+%-])"
    rf"|Eq\((?:L\[')?{_TENSOR}\.size\(\)\[(\d+)\], (\d+)\)"
)
RETURNED_ARGUMENT = re.compile(r"operator whose output has alias annotations: ([\w:.]+)")
RETURNED_TEXT = "returns an argument that it writes to, and has no tag that says so"
_PINNED_STRIDE = re.compile(rf"{_TENSOR}'? stride mismatch at index (\d+)")
_NOISE = re.compile(
    r"\n\s*(?:Set TORCH_LOGS|Set TORCHDYNAMO_VERBOSE|You can suppress this|Developer debug context"
    r"|For more (?:details|information)|Use tlparse|For C\+\+ stack trace|User Stack|Original traceback"
    r"|While executing|from user code)"
)


@contextmanager
def compiler_session() -> Iterator[None]:
    """Compile with the settings of the checks; logs and warnings are dropped, torch's state restored."""
    with compile_session(), quiet():
        yield


@contextmanager
def tracing_session() -> Iterator[None]:
    """Run ops on fake tensors; torch's logs, warnings and kept traces are dropped."""
    with traces_dropped(), quiet():
        yield


@contextmanager
def quiet() -> Iterator[None]:
    """Drop torch's logs and warnings."""
    with warnings.catch_warnings(), torch_logging.silenced():
        warnings.simplefilter("ignore")
        yield


def pinned_size(message: str, before: Tensors, after: Tensors) -> tuple[str, int, int] | None:
    """The size that a failed guard requires to be constant: (argument, dim, size); None without one.

    Args:
        message: of the compiler, with the guards that failed.
        before, after: (name, tensor) of the first and of the second call.
    """
    for match in _PINNED.finditer(message):
        index, dim, size = (int(number) for number in match.groups() if number)
        if size >= 2:
            return before[index][0], dim, size
    for match in _PINNED_STRIDE.finditer(message):
        index, dim = (int(number) for number in match.groups())
        (name, first), (_, second) = before[index], after[index]
        if first.is_contiguous() and second.is_contiguous():
            for later in range(dim + 1, first.dim()):  # the stride is the product of these sizes
                if first.shape[later] != second.shape[later]:
                    return name, later, first.shape[later]
    return None


def read_exception(
    error: Exception, case: Case, contract: FakeContract, where: str = ""
) -> CheckFailed | CheckSkipped:
    """The finding or skip for an exception of a compiled call.

    Args:
        error: the exception.
        case: the case whose op was compiled.
        contract: the fake kernels that ran when the same function ran in eager mode.
        where: the start of a message: at which size.
    """
    op = case.op.name
    texts = "\n".join(str(cause) for cause in chain(error))
    kinds = kinds_of(error)
    return (
        named_cause(error, contract, where)
        or _alias_rejected(error, op, where)
        or _untagged(texts, case, where)
        or unsupported_call(error, case)
        or _fake_kernel(case, kinds, contract, where)
        or _graph_break(error, op, kinds, where)
        or _other_error(error, op, texts, where)
    )


def named_cause(error: Exception, contract: FakeContract, where: str = "") -> CheckFailed | None:
    """The finding, if the exception names the op that causes it; arguments as for `read_exception`."""
    return _failed_assertion(error, where) or _missing_fake_kernel(error, contract, where)


def _failed_assertion(error: Exception, where: str) -> CheckFailed | None:
    """The finding for a failed assertion of generated code about an op's outputs."""
    texts = "\n".join(str(cause) for cause in chain(error))
    matches = [pattern.search(texts) for pattern in (_ASSERT, _DIMENSIONS, _DTYPE)]
    if not any(matches):
        return None
    named = _OP.search(texts)
    if named and named.group(1).startswith("pytest_customop."):
        return None  # one of the ops around the op
    who = _qualified(named.group(1)) if named else "an op"
    parts = "; ".join(_ASSERT.findall(texts)) or next(match.group(0) for match in matches if match)
    code = "compile-stride-assert"
    what = "other strides than its fake kernel promised"
    if matches[0] is None or any(real != promised for real, promised in _SIZES.findall(texts)):
        code, what = "compile-output-mismatch", "another output than its fake kernel promised"
    target = f" (torch.ops.{named.group(1)})" if named else ""
    message = f"{where}{who} returned {what}: {parts}, real == promised{target}"
    return fail(code, message, _evidence(error))


def _missing_fake_kernel(
    error: Exception, contract: FakeContract, where: str
) -> CheckFailed | None:
    for cause in (*chain(error), *contract.errors.values()):
        missing = missing_fake_kernel(cause)
        if missing and not missing.startswith("pytest_customop::"):
            return fail("fake-missing", f"{where}{missing} has no fake kernel")
    return None


def _alias_rejected(error: Exception, op: str, where: str) -> CheckFailed | None:
    """The finding for outputs that torch rejects because they share memory."""
    rejection = next((cause for cause in chain(error) if is_alias_error(cause)), None)
    if rejection is None:
        return None
    text = f"{where}compiled, {op} returns what torch rejects: an output that shares memory"
    return fail("output-alias-rejected", text, f"torch's message: {alias_error_text(rejection)}")


def _untagged(texts: str, case: Case, where: str) -> CheckFailed | None:
    """The finding for an op that returns an argument without a tag for that kind of op."""
    match = RETURNED_ARGUMENT.search(texts)
    if not match or not case.op.mutated:
        return None
    text = f"{where}{match.group(1)} {RETURNED_TEXT}"
    return fail("untagged-returned-argument", text, fix=_tags_fix())


def _tags_fix() -> str:
    tags = [f"torch.Tag.{tag}" for tag in ("inplace", "out") if hasattr(torch.Tag, tag)]
    fix = "Return nothing from an op that writes to its argument, or a copy."
    if tags:
        fix += f" An op that must return the argument is defined with {' or '.join(tags)}."
    return fix


def _fake_kernel(
    case: Case, kinds: set[str], contract: FakeContract, where: str
) -> CheckFailed | None:
    """The finding for a fake kernel that raises outside of the compiler too."""
    if not kinds & {"TorchRuntimeError", "Unsupported", "UserError"}:
        return None
    failure = next(iter(contract.errors.items()), None)
    sizes = ""
    if failure is None:
        fake = _symbolic_error(case)
        failure = None if fake is None else (case.op.name, fake)
        sizes = ", given symbolic sizes,"
    if failure is None:
        return None
    name, raised = failure
    code = "compile-graph-break" if _needs_data(raised) else "compile-error"
    text = f"{where}the fake kernel of {name}{sizes} raises {error_line(raised)}"
    return fail(code, text, traceback_text(raised), note=note_if_deliberate(name, raised))


def _symbolic_error(case: Case) -> Exception | None:
    """What the fake kernel raises on symbolic sizes."""
    try:
        return fake_run(case.inputs(), symbolic=True, scalar_outputs=False).error
    except CheckSkipped:
        return None


def _needs_data(error: Exception) -> bool:
    names = {kind.__name__ for kind in type(error).__mro__}
    return bool(
        names
        & {
            "GuardOnDataDependentSymNode",
            "DataDependentOutputException",
            "DynamicOutputShapeException",
        }
    )


def _graph_break(error: Exception, op: str, kinds: set[str], where: str) -> CheckFailed | None:
    if not kinds & {"Unsupported", "UserError", "GuardOnDataDependentSymNode"}:
        return None
    text = _without_advice(message_of(error))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    reason = next((line for line in lines if not line.endswith("raised:")), text)
    explained = re.search(r"Explanation: *(\S.*)", text)
    if explained:
        reason = f"{reason}: {explained.group(1).strip()}"
    line = _user_line(error)
    message = f"{where}{op} cannot be traced without a graph break: {reason}"
    text_with_line = f"{message}{f' ({line})' if line else ''}"
    return fail("compile-graph-break", text_with_line, text, note=note_if_deliberate(op, error))


def _other_error(error: Exception, op: str, texts: str, where: str) -> CheckFailed:
    root = root_cause(error)
    kind, text = type(root).__name__, _without_advice(str(root)).strip()
    inner = re.search(r"got (\w+)\(['\"](.*)['\"]\)", text)
    if type(root).__name__ == "TorchRuntimeError":
        kind, text = inner.groups() if inner else ("RuntimeError", text.partition("\n")[2] or text)
    first = text.partition("\n")[0]
    fix = None
    if "alias annotations" in texts:
        fix = "torch.compile supports no op that returns a view of its argument: return a copy."
    of_torch = _names_no_size(root)
    return fail(
        "compile-error",
        f"{where}compiled, {op} raises {kind}: {first}",
        _evidence(error),
        fix,
        note=TORCH_LIMIT if of_torch else note_if_deliberate(op, error),
        repro=BACKWARD if of_torch else None,
    )


def _names_no_size(root: BaseException) -> bool:
    """Whether generated code uses the symbol of a size that it does not define, a defect of Inductor."""
    return isinstance(root, NameError) and _SYMBOL.fullmatch(root.name or "") is not None


def _qualified(dotted: str) -> str:
    """`ns::name` of `ns.name.default`."""
    namespace, _, rest = dotted.partition(".")
    return f"{namespace}::{rest.removesuffix('.default')}"


def _without_advice(text: str) -> str:
    """A message of the compiler without its advice on debugging."""
    match = _NOISE.search(text)
    return (text[: match.start()] if match else text).strip()


def _user_line(error: Exception) -> str | None:
    """The last line of the author's code that the compiler traced."""
    frames = re.findall(r'File "([^"]+)", line (\d+), in (\S+)', message_of(error))
    for filename, line, function in reversed(frames):
        if not filename.startswith((PACKAGE_PREFIX, str(torch.__file__).rpartition("__init__")[0])):
            return f"{filename}:{line} in {function}"
    return None


def _evidence(error: Exception) -> str:
    root = root_cause(error)
    return _cut(traceback_text(root))


def _cut(text: str, lines: int = 30) -> str:
    all_lines = text.splitlines()
    return text if len(all_lines) <= lines else "\n".join([*all_lines[:lines], "..."])
