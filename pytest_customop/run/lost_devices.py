"""Ops that leave a device unusable: that is their finding, and nothing else runs on it in this process."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from weakref import WeakSet

from ..cases.case import Case
from ..core.lost_device import is_assertion, loss, wait_for
from ..declare.variant import REJECTED
from ..findings import CheckFailed, Finding, skip

FIX = (
    "Look for a read or write out of bounds in the kernel: a mask or an offset that is wrong for this "
    "shape or these strides, a position that is not checked. compute-sanitizer names the kernel."
)

# Cases of samples whose plain call has left their device unusable; their variants are not run.
fatal_samples: WeakSet[Case] = WeakSet()


def skip_if_lost(case: Case) -> None:
    """Skip a case on a device that an earlier call has left unusable.

    Raises:
        CheckSkipped: `device-lost`.
    """
    device = case.placement.device
    error = wait_for(device)
    if error is not None:
        reason = (
            f"an earlier call has left {device} unusable in this process ({error}); "
            "--customop-isolate=on runs the remaining items in a new process"
        )
        raise skip("device-lost", reason)


def rejects(case: Case, error: str, *, in_plain_call: bool) -> bool:
    """Whether a kernel has rejected other values than those of the sample.

    Args:
        error: that of the lost device.
        in_plain_call: whether a plain call has caused it, and not a call of a check.
    """
    return is_assertion(error) and (case.base_case is not None or not in_plain_call)


@contextlib.contextmanager
def device_kept(case: Case, check: str | None = None) -> Iterator[None]:
    """Fail if the device of a case is unusable after a block, whatever the block raises.

    Args:
        check: the name of the check that the block runs; None: the block is a plain call of the op.

    Raises:
        CheckFailed: `crash`.
        CheckSkipped: `rejected`, if a kernel has rejected other values than the sample's.
    """
    try:
        yield
    finally:
        error = wait_for(case.placement.device)
        if error is not None:
            stage = f"under {check}" if check else "in a plain call"
            text = f"{case.op.name} {loss(case.placement.device, error)} {stage}"
            if rejects(case, error, in_plain_call=check is None):
                raise skip(REJECTED, text)
            if check is None and case.base_case is None:
                fatal_samples.add(case)
            raise CheckFailed(Finding("crash", text, fix=FIX))
