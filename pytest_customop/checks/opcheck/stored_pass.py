"""Remember passes of `test_aot_dispatch_dynamic` on disk, until something that decides them changes.

The utility traces the op with symbolic sizes, and compares the traced graph with eager mode. Its result
depends on:

- The trace, which follows from versions, settings, and the Python code that runs for the op on fake
  tensors. The key holds this code, the calls that it makes now, and everything of the case but values.
- The results of kernels in a graph. `compile.dynamic` compares these with eager mode, in a function that
  several cases share. The case has to agree there in this session; the group runs if it has not yet.
- Values that are NaN, and gradients that are one number in memory, which the utility passes to eager mode
  but not to the graph. These are compared here.

Only success is stored. In any unusual situation, the utility runs.
"""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path
from typing import Any

import torch

from ... import __version__
from ...cases.case import Case
from ...cases.crash_risk import may_crash
from ...cases.tensors import output_leaves
from ...compat.ops import OpOverload, defining_files, kernel_in_python, registrations
from ...compat.stored_functions import functions_are_stored, stored_folder, tracer_fingerprint
from ...compat.tensors import storage_id
from ...core import rng
from ...core.sources import Sources, sources_of
from ...core.tracebacks import reraise_bug
from ..compile.disk_cache import symbolic_trace, trace_of
from ..compile.dynamic import agrees_in_group, is_grouped
from ..compile.harness import OP_ONLY, OpHarness


def key_of(case: Case) -> str | None:
    """The name under which a success is stored; None if the utility has to run.

    Call it, and then `passes`, in a `compiler_session`.
    """
    if not functions_are_stored() or not is_grouped(case):
        return None
    tensors = [tensor for _, tensor in case.inputs().tensors()]
    if may_crash(case) or not _are_cloned(tensors):
        return None  # native code may have changed unnoticed
    trace = symbolic_trace(case)
    if trace is None:
        return None
    ops = trace.ops | {case.op.overload}  # a composite op is not in its own trace
    sources = _sources(ops)
    if sources is None:
        return None
    digests = [trace.digest]
    if sources.asks_for_compiler:  # the utility does not set the compiling flag
        eager_trace = trace_of(OpHarness(case, OP_ONLY), case, symbolic=True, compiling=False)
        if eager_trace is None:
            return None
        digests.append(eager_trace.digest)
    parts = [
        *(__version__, tracer_fingerprint(), sources.digest, *digests),
        *sorted(map(registrations, ops)),
        *(
            f"{tensor.dtype} {[*tensor.shape]} {tensor.stride()} {tensor.requires_grad}"
            for tensor in tensors
        ),
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def passes(key: str, case: Case) -> bool:
    """Whether the utility has passed for this key, and the op still gives the right results."""
    return _path(key).exists() and agrees_in_group(case) and _takes_expanded_gradients(case)


def store(key: str) -> None:
    """Remember that the utility has passed."""
    with contextlib.suppress(OSError):  # e.g. a full disk: the utility runs again next time
        _path(key).parent.mkdir(parents=True, exist_ok=True)
        _path(key).touch()


def _path(key: str) -> Path:
    return stored_folder() / "test_aot_dispatch_dynamic" / key


def _sources(ops: frozenset[OpOverload]) -> Sources | None:
    """The Python code that runs for these ops; None if other code runs too."""
    files: set[str] = set()
    for op in ops:
        op_files = defining_files(op)
        if op_files is None or not kernel_in_python(op, "cpu"):
            return None
        files |= op_files
    return sources_of(files)


def _are_cloned(tensors: list[torch.Tensor]) -> bool:
    """Whether clones, on which the utility calls the op, have the same memory layout as the tensors."""
    homes = {storage_id(tensor) for tensor in tensors}
    return len(homes) == len(tensors) and all(map(_is_cloned, tensors))


def _is_cloned(tensor: torch.Tensor) -> bool:
    if tensor.storage_offset() or tensor.is_conj() or tensor.is_neg():
        return False
    return torch.empty_like(tensor).stride() == tensor.stride()


def _takes_expanded_gradients(case: Case) -> bool:
    """Whether eager mode repeats its results, also with gradients that are one number in memory.

    NaN is unequal to NaN, as in torch's comparison.
    """
    try:
        torch.testing.assert_close(_call(case, expanded=True), _call(case, expanded=False))
    except Exception as error:  # of any kind: the utility runs and reports it
        reraise_bug(error)
        return False
    return True


def _call(case: Case, *, expanded: bool) -> list[Any]:
    """The outputs of a call on clones, and the gradients of the sum of their absolute sums."""
    rng.seed(case.seed)
    arguments = case.inputs().map(torch.clone)
    leaves = [leaf for _, leaf in output_leaves(arguments.call())]
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    inputs = [tensor for _, tensor in arguments.tensors() if tensor.requires_grad]
    outputs = [tensor for tensor in tensors if tensor.requires_grad]
    if not inputs or not outputs:
        return leaves
    if expanded:
        total: Any = sum(tensor.sum().abs() for tensor in tensors)
        return [*leaves, *torch.autograd.grad(total, inputs, allow_unused=True)]
    grads = [torch.ones_like(output) * output.detach().sum().sgn() for output in outputs]
    return [*leaves, *torch.autograd.grad(outputs, inputs, grads, allow_unused=True)]
