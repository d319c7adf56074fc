"""Run one of torch's four utilities, and skip where its success means nothing."""

from __future__ import annotations

import weakref
from typing import Any

import torch

from ...cases.case import Case
from ...cases.fake_contract import sized_by_data
from ...cases.fake_run import fake_run, kernel_failure
from ...compat.tensors import observe_calls
from ...core.tracebacks import reraise_bug
from ...findings import skip
from ..compile.errors import compiler_session, tracing_session
from .errors import read_failure

# torch does not compare fake and real kernels of ops with one of these tags.
_NOT_COMPARED = ("dynamic_output_shape", "data_dependent_output", "inplace_view")

# Utilities that do not compile. To set up the compiler would take longer than some of them run.
_COMPILES_NOTHING = ("test_schema", "test_autograd_registration", "test_faketensor")


def run_utility(case: Case, name: str) -> None:
    """Run one utility on a case, and turn its failure into a finding or a skip.

    Args:
        case: the case.
        name: of the utility: `test_schema`.
    """
    skip_if_nothing_runs(case, name)
    arguments = case.inputs()
    session = tracing_session if name in _COMPILES_NOTHING else compiler_session
    try:
        with session():
            torch.library.opcheck(
                case.op.overload, arguments.args, dict(arguments.kwargs), test_utils=(name,)
            )
    except Exception as error:  # OpCheckError is private, and torch passes on the op's errors
        reraise_bug(error)
        raise read_failure(case, name, error) from error
    if name == "test_faketensor":
        _skip_if_fake_not_compared(case)


def skip_if_nothing_runs(case: Case, name: str) -> None:
    """Skip where torch would report success although nothing runs."""
    tensors = [tensor for _, tensor in case.inputs().tensors()]
    if any(tensor.is_meta for tensor in tensors):
        reason = "torch's utilities do nothing for tensors on the meta device"
        raise skip("nothing-to-check", reason, unjudged=False)
    if name == "test_autograd_registration":
        if not any(tensor.requires_grad for tensor in tensors):
            raise skip("nothing-to-check", "no argument requires gradients", unjudged=False)
        return
    if name == "test_aot_dispatch_dynamic":
        if case.requires_grad and not case.op.has_autograd:
            raise skip(
                "checker-limit",
                "torch differentiates every output here, and the op has no autograd formula: look at "
                "the case without gradients",
            )
        return
    if not _reaches_dispatch_modes(case):
        raise skip(
            "checker-limit",
            f"torch sees only the ops that {case.op.name} calls above the level of kernels, not the op "
            "itself",
        )


_reaches: weakref.WeakKeyDictionary[Case, bool] = weakref.WeakKeyDictionary()


def _reaches_dispatch_modes(case: Case) -> bool:
    """Whether the op itself reaches dispatch modes, on which torch's utilities are built."""
    if case not in _reaches:
        _reaches[case] = _is_seen(case)
    return _reaches[case]


def _is_seen(case: Case) -> bool:
    seen = []

    def observe(overload: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        seen.append(overload)
        return overload(*args, **kwargs)

    with observe_calls(observe):
        case.run(case.inputs())
    return case.op.overload in seen


def _skip_if_fake_not_compared(case: Case) -> None:
    """After a success of `test_faketensor`: skip if torch compared no fake kernel.

    Raises:
        CheckFailed: if the fake kernel raises.
    """
    for tag in _NOT_COMPARED:
        if case.op.tagged(tag):
            raise skip(
                "checker-limit",
                f"torch does not compare the fake kernel of an op tagged torch.Tag.{tag}; "
                "fake.forward does",
            )
    if sized_by_data(case) is not None:
        return  # the op does not raise on fake tensors
    fake = fake_run(case.inputs())
    if fake.error is not None:
        raise kernel_failure(case.op.name, fake.error)


def script(name: str) -> str:
    """The lines of a script that call one utility."""
    return f"args, kwargs = inputs()\ntorch.library.opcheck(op, args, kwargs, test_utils={name!r})"
