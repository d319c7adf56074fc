"""Turn exceptions of `torch.library.opcheck`, whose long texts hide the cause, into findings and skips."""

from __future__ import annotations

import itertools
import re
import traceback
from pathlib import Path
from typing import Any

import torch

from ...cases.case import Case
from ...cases.deliberate import backward_raises, note_if_deliberate
from ...cases.fake_run import fake_run, kernel_failure
from ...cases.run import gradients
from ...cases.tensors import Copier, difference, is_plain, kind_of, output_leaves, readable
from ...compat.fakes import missing_fake_kernel
from ...core.paths import PACKAGE_PREFIX
from ...core.tracebacks import chain, error_line, reraise_bug, traceback_text
from ...core.wording import dtype_name
from ...findings import CheckFailed, CheckSkipped, fail, skip
from ..compile.errors import RETURNED_ARGUMENT, RETURNED_TEXT, quiet
from ..compile.opaque import opaque_ops
from ..compile.unsupported import triton_on_cpu
from ..values.memory.storage import share_memory

# torch compares storages: the outputs may share one and still have no element in common.
_SHARING = re.compile(r"Outputs (\d+) and (\d+) alias unexpectedly")
# (utility, or "" for any; pattern of torch's message; code of the finding; its message)
_MESSAGES: tuple[tuple[str, str, str, str], ...] = (
    (
        "test_schema",
        r"Argument (\w+) is not defined as mutable but was mutated",
        "undeclared-mutation",
        "argument {0} is written to, and the schema does not declare it",
    ),
    (
        "test_schema",
        r"Argument (\w+) is not defined to alias output but was aliasing",
        "undeclared-alias",
        "an output shares memory with argument {0}, and the schema does not declare it",
    ),
    (
        "test_schema",
        r"`?outputs\[(\d+)\] is (\w+)",
        "undeclared-alias",
        "output {0} is the argument {1} itself, and the schema does not declare it",
    ),
    (
        "test_schema",
        _SHARING.pattern,
        "outputs-share-memory",
        "outputs {0} and {1} share memory, and the schema does not declare it",
    ),
    (
        "",
        r"may not alias any inputs",
        "output-alias-rejected",
        "torch rejects what the op returns: an output is an argument, or shares memory with an argument "
        "or with another output",
    ),
    (
        "",
        RETURNED_ARGUMENT.pattern,
        "untagged-returned-argument",
        f"{{0}} {RETURNED_TEXT}",
    ),
    (
        "test_autograd_registration",
        r"at least one output of this operator has requires_grad=True but",
        "autograd-registration",
        "an output requires gradients, and no autograd kernel is registered at an autograd key",
    ),
    (
        "test_faketensor",
        r"mismatch in number of returns (\d+) != (\d+)",
        "fake-shape-mismatch",
        "the fake kernel returns {0} outputs, the real one {1}",
    ),
    (
        "test_faketensor",
        r"mismatched number of tensor outputs",
        "fake-shape-mismatch",
        "where one kernel returns a tensor, the other returns none",
    ),
    (
        "test_faketensor",
        r"mismatch in (outputs_\w+) check (\w+) != (\w+)",
        "fake-alias-mismatch",
        "{0} is {1} with the fake kernel and {2} with the real one",
    ),
    (
        "test_faketensor",
        r"mismatched (requires_grad|storage offset)",
        "fake-metadata-mismatch",
        "{0} differs between fake and real kernel",
    ),
    (
        "test_faketensor",
        r"Shapes (.*?) and (.*?) are not equal",
        "fake-shape-mismatch",
        "the real shape is {0}, the fake one {1}",
    ),
    (
        "test_faketensor",
        r"Dtypes (\S+) and (\S+) are not equal",
        "fake-dtype-mismatch",
        "the real dtype is {0}, the fake one {1}",
    ),
    (
        "test_faketensor",
        r"Devices (\S+) and (\S+) are not equal",
        "fake-device-mismatch",
        "the real device is {0}, the fake one {1}",
    ),
    (
        "test_faketensor",
        r"Strides are (.*?) and (.*?) \(mismatched",
        "fake-stride-mismatch",
        "the real strides are {0}, the fake ones {1}",
    ),
)
_WHERE = re.compile(r"mismatched tensor metadata for output\[(\d+)\]")
_CALLED = re.compile(r"When comparing the output of (\S+) on FakeTensor")
_DIFFERENT = re.compile(r"(Outputs|Gradients) of the operator are different in eager-mode")
_LIBRARY_CODE = (PACKAGE_PREFIX, str(Path(torch.__file__).parent))
# (file, function) of torch's utilities. An error that is raised there without a known message is a limit
# of the utility, not a defect of the op.
_CHECKER_CODE = (
    ("_subclasses/schema_check_mode.py", ""),
    ("_subclasses/fake_utils.py", ""),
    ("testing/_internal/optests/", ""),
    ("_dynamo/utils.py", "clone"),
    ("fx/proxy.py", "create_arg"),
)


def read_failure(case: Case, name: str, error: Exception) -> CheckFailed | CheckSkipped:
    """The finding or skip for a failure of a utility of `torch.library.opcheck`.

    Args:
        case: the case that it ran on.
        name: of the utility.
        error: what it raised.
    """
    links = list(chain(error))
    root = links[-1]
    texts = "\n".join(str(link) for link in reversed(links))
    different = _DIFFERENT.search(texts)
    if different:
        return _different_values(case, different.group(1), root, texts)
    return (
        triton_on_cpu(error, case)
        or _known_message(case, name, texts)
        or _checker_limit(case, name, root)
        or _fake_kernel(case, name, links)
        or _backward(case)
        or fail("opcheck-failure", f"{name}: {error_line(root)}", traceback_text(root))
    )


def _known_message(case: Case, name: str, texts: str) -> CheckFailed | None:
    for utility, pattern, code, message in _MESSAGES:
        match = re.search(pattern, texts) if utility in ("", name) else None
        if match is None or (code == "untagged-returned-argument" and not case.op.mutated):
            continue
        if pattern == _SHARING.pattern and not _overlap(case, *map(int, match.groups())):
            code = "outputs-share-storage"
        output, called = _WHERE.search(texts), _CALLED.search(texts)
        text = message.format(*(_argument(case, group) for group in match.groups()))
        text = f"output {output.group(1)}: {text}" if output else text
        if called and called.group(1) != str(case.op.overload):
            text = f"{called.group(1)}, called inside: {text}"
        start, end = texts.rfind("\n", 0, match.start()) + 1, texts.find("\n", match.end())
        return fail(
            code, text, f"torch's message: {texts[start : end if end > 0 else None].strip()}"
        )
    return None


def _overlap(case: Case, first_index: int, second_index: int) -> bool:
    """Whether two outputs that share a storage have an element in common."""
    outputs = [output_leaves(case.eager.result[index]) for index in (first_index, second_index)]
    tensors = [[leaf for _, leaf in output if isinstance(leaf, torch.Tensor)] for output in outputs]
    return any(share_memory(first, second) for first, second in itertools.product(*tensors))


def _argument(case: Case, word: str) -> str:
    """The argument's name in the schema: torch's checker calls `self` by the name `input`."""
    names = [argument.name for argument in case.op.arguments]
    return "self" if word == "input" and "input" not in names and "self" in names else word


def _different_values(
    case: Case, what: str, root: BaseException, texts: str
) -> CheckFailed | CheckSkipped:
    """The finding or skip for values that differ between eager mode and AOTDispatcher's tracing."""
    if _has_nan(case, gradients=what == "Gradients"):
        return skip(
            "checker-limit",
            f"{what.lower()} contain NaN, which torch's comparison treats as unequal to itself; "
            "compile.static and compile.dynamic treat NaN as equal to NaN",
        )
    if case.op.nondeterministic:
        return skip("checker-limit", "torch compares values, and the op is tagged nondeterministic")
    if not _repeats(case, gradients=what == "Gradients"):
        return skip(
            "nondeterministic",
            "the op gives other values each time it runs, and torch compares them: tag it with "
            "torch.Tag.nondeterministic_seeded if it should, or with nondeterministic_bitwise if the "
            "order of additions varies",
        )
    details = [line.strip() for line in str(root).splitlines() if line.strip()]
    actual = "" if str(root).startswith(what) else ": " + " ".join(details)
    message = f"{what.lower()} differ between eager mode and AOTDispatcher's tracing{actual}"
    return fail("opcheck-failure", message, texts)


def _has_nan(case: Case, *, gradients: bool) -> bool:
    tensors = [tensor for _, tensor in case.eager.outputs]
    if gradients:
        tensors += _gradients_of_sums(case)
    return any(bool(readable(tensor).isnan().any()) for tensor in tensors)


def _gradients_of_sums(case: Case) -> list[torch.Tensor]:
    """The gradients that torch's utility compares: those of the sum of all outputs."""
    run = case.run(case.inputs())
    outputs = run.differentiable_outputs
    grads = gradients(run.arguments, outputs, [torch.ones_like(tensor) for _, tensor in outputs])
    return [gradient for gradient in grads.values() if gradient is not None]


_CALLS = 3  # random values may be equal in two calls by chance


def _repeats(case: Case, *, gradients: bool) -> bool:
    """Whether eager mode gives the same values, bit by bit, in further calls."""
    first = _values(case, gradients=gradients)
    return all(
        difference(actual, expected, 0.0, 0.0) is None
        for _ in range(_CALLS)
        for actual, expected in zip(_values(case, gradients=gradients), first, strict=False)
    )


def _values(case: Case, *, gradients: bool) -> list[torch.Tensor]:
    """The outputs and, with `gradients`, the gradients of their sum."""
    outputs = [tensor for _, tensor in case.run(case.inputs()).outputs]
    return [*outputs, *_gradients_of_sums(case)] if gradients else outputs


def _checker_limit(case: Case, name: str, root: BaseException) -> CheckSkipped | None:
    """The skip for a failure that is a limit of the utility, not a defect of the op."""
    frames = traceback.extract_tb(root.__traceback__)
    last = (frames[-1].filename.replace("\\", "/"), frames[-1].name) if frames else ("", "")
    raised_by_utility = any(
        file in last[0] and function in last[1] for file, function in _CHECKER_CODE
    )
    if raised_by_utility:
        why = f"cannot take this op: {error_line(root)}"
        if "can't be cast to the desired output type" in str(root):
            why = "sums all outputs in the dtype of the first one, which is not a floating-point dtype"
        return skip("checker-limit", f"torch's {name} {why}")
    run = case.eager
    for place, tensor in (*run.arguments.tensors(), *run.outputs):
        if not is_plain(tensor):
            text = f"torch's {name} fails where {place} is {kind_of(tensor)}: {error_line(root)}"
            return skip("checker-limit", text)
        if _fails_for_a_copy(name, tensor):
            kind = dtype_name(tensor.dtype)
            text = f"torch's {name} fails for every op on {kind} tensors: {error_line(root)}"
            return skip("checker-limit", text)
    error = case.run(case.inputs().map(_dense_copy)).error
    if name == "test_aot_dispatch_dynamic" and error is not None:
        text = f"calls the op on dense copies, which it rejects: {error_line(error)}"
        return skip("checker-limit", f"torch's {name} {text}")
    again = case.inputs()
    within_torch = all(frame.filename.startswith(_LIBRARY_CODE) for frame in frames)
    if within_torch and _passes(name, case.op.overload, again.args, again.kwargs):
        reason = "failed, and then passed with the same arguments"
        return skip("checker-limit", f"torch's {name} {reason}: {error_line(root)}")
    return None


def _fails_for_a_copy(name: str, tensor: torch.Tensor) -> bool:
    """Whether the utility fails even for an op that only copies the tensor."""
    produce, _ = opaque_ops()
    copied = Copier()(tensor).requires_grad_(tensor.requires_grad)
    return not _passes(name, produce, (copied,), {})


def _dense_copy(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)


def _passes(name: str, overload: Any, args: Any, kwargs: Any) -> bool:
    try:
        with quiet():
            torch.library.opcheck(overload, args, dict(kwargs), test_utils=(name,))
    except Exception as error:  # torch's checkers raise many types, and pass on the op's errors
        reraise_bug(error)
        return False
    return True


def _fake_kernel(
    case: Case, name: str, links: list[BaseException]
) -> CheckFailed | CheckSkipped | None:
    """The finding for a fake kernel that is missing or raises, at plain or symbolic sizes."""
    if name not in ("test_faketensor", "test_aot_dispatch_dynamic"):
        return None
    op = case.op.name
    for link in links:
        if missing_fake_kernel(link):
            return kernel_failure(op, link)  # type: ignore[arg-type]
    try:
        fake = fake_run(case.inputs())
        if fake.error is not None:
            return kernel_failure(op, fake.error)
        if name == "test_faketensor":
            return None
        fake = fake_run(case.inputs(), symbolic=True, scalar_outputs=False)
    except CheckSkipped as skipped:
        return skipped
    if fake.error is None:
        return None
    text = f"{op}: with symbolic sizes it raises {error_line(fake.error)}"
    note = note_if_deliberate(op, fake.error)
    return fail("fake-not-symbolic", text, traceback_text(fake.error), note=note)


def _backward(case: Case) -> CheckFailed | None:
    """The finding for a backward that raises in eager mode too."""
    if not case.requires_grad:
        return None
    try:
        _gradients_of_sums(case)
    except Exception as error:  # whatever a backward raises
        reraise_bug(error)
        text = f"the backward raises {error_line(error)}"
        return backward_raises(text, error)
    return None
