"""Remember on disk that torch's `test_aot_dispatch_dynamic` has passed, while all that decides it stays.

The utility traces the op with symbolic sizes, and compares what the traced graph gives with eager mode:

- What is traced is decided by versions and settings, and by what Python code does for the op on fake
  tensors. The key holds the code, the calls that it makes now, and all of the case but values.
- What kernels give in a graph now, `compile.dynamic` compares with eager mode, in a function that several
  cases share. The case has to agree there in this session; the group runs if it has not.
- Left are values that are NaN, and gradients that are one number in memory, which eager mode gets from the
  utility, and the graph does not. These are compared here.

Only success is stored. Whatever is not as usual has the utility run.
"""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path
from typing import Any

import torch

from ... import __version__
from ...cases.case import Case
from ...cases.crash_risk import crash_risk
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

    Call it, as the functions below, in a `compiler_session`.
    """
    if not functions_are_stored() or not is_grouped(case):
        return None
    tensors = [tensor for _, tensor in case.inputs().tensors()]
    if crash_risk(case.op, case.placement.device) is not None or not _are_cloned(tensors):
        return None  # compiled code may have changed unseen
    trace = symbolic_trace(case)
    if trace is None:
        return None
    ops = trace.ops | {case.op.overload}  # which is not among them if it is made of others
    sources = _sources(ops)
    if sources is None:
        return None
    digests = [trace.digest]
    if sources.asks_for_compiler:  # under the utility it is not told that it is compiled
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
    """Whether the utility has passed for this key, and the op gives now what it has to give then."""
    return _path(key).exists() and agrees_in_group(case) and _takes_expanded_gradients(case)


def store(key: str) -> None:
    """Remember that the utility has passed."""
    with contextlib.suppress(OSError):  # as on a full disk: it runs again then
        _path(key).parent.mkdir(parents=True, exist_ok=True)
        _path(key).touch()


def _path(key: str) -> Path:
    return stored_folder() / "test_aot_dispatch_dynamic" / key


def _sources(ops: frozenset[OpOverload]) -> Sources | None:
    """The code of everything that Python does for these ops; None if there is other code."""
    files: set[str] = set()
    for op in ops:
        op_files = defining_files(op)
        if op_files is None or not kernel_in_python(op, "cpu"):
            return None
        files |= op_files
    return sources_of(files)


def _are_cloned(tensors: list[torch.Tensor]) -> bool:
    """Whether clones, on which the utility calls the op, are laid out in memory as the tensors are."""
    homes = {storage_id(tensor) for tensor in tensors}
    return len(homes) == len(tensors) and all(map(_is_cloned, tensors))


def _is_cloned(tensor: torch.Tensor) -> bool:
    if tensor.storage_offset() or tensor.is_conj() or tensor.is_neg():
        return False
    return torch.empty_like(tensor).stride() == tensor.stride()


def _takes_expanded_gradients(case: Case) -> bool:
    """Whether eager mode repeats itself, with gradients that are one number in memory too.

    It is compared as torch compares it, with NaN unequal to NaN.
    """
    try:
        torch.testing.assert_close(_call(case, expanded=True), _call(case, expanded=False))
    except Exception as error:  # of every kind: the utility shows what it is worth
        reraise_bug(error)
        return False
    return True


def _call(case: Case, *, expanded: bool) -> list[Any]:
    """The outputs of a call on clones, and the gradients of the absolute values of the outputs' sums."""
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
