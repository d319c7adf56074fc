"""Find out what it means that an op raises on a sample: a finding, or a case that it is not made for."""

from __future__ import annotations

import re

import torch

from ..cases.case import Case
from ..compat.ops import kernel_in_python
from ..core.tracebacks import (
    error_line,
    message_line,
    message_of,
    raised_on_purpose,
    traceback_text,
)
from ..declare.variant import REJECTED
from ..findings import Finding, skip
from .alias_rejection import alias_rejection

# Words in messages of native code that does not support gradients. torch's own messages have none of them.
_NO_GRADIENT = re.compile(
    r"not differentiable|no_grad|NoGradGuard|no gradient|inference only|inference-only"
    r"|(not (support|implement)|unsupported).*(gradient|backward|autograd|requires_grad)",
    re.IGNORECASE,
)


def eager_finding(case: Case, error: BaseException) -> Finding:
    """The finding where the op itself raises on a sample.

    Raises:
        CheckSkipped: if the op is not made for gradients, or not for the device.
    """
    guessed = not case.asks_gradients and _refuses_gradients(case, error)
    guessed = guessed or not case.op.has_autograd or case.placement.guesses_gradients
    if case.requires_grad and guessed and _works_without_gradients(case):
        reason = f"the op rejects inputs that require gradients ({message_line(error)})"
        raise skip("inference-only", reason, unjudged=False)
    if _is_given_elsewhere(case) and raised_on_purpose(error):
        reason = (
            f"the op rejects the sample's tensors on {case.placement.device}: {error_line(error)}"
        )
        raise skip(REJECTED, reason)
    message = f"{case.op.name} raises {error_line(error)}"
    raised = Finding("eager-raises", message, traceback_text(error))
    return alias_rejection(case, error) or raised


def _is_given_elsewhere(case: Case) -> bool:
    """Whether the author has given real tensors of a sample on another type of device."""
    here = torch.device(case.placement.device).type
    given = [leaf for leaf in case.sample.leaves() if isinstance(leaf, torch.Tensor)]
    return any(tensor.device.type not in ("cpu", here) for tensor in given)


def _refuses_gradients(case: Case, error: BaseException) -> bool:
    """Whether the op raises on purpose for inputs that require gradients, as its Autograd kernel may."""
    if raised_on_purpose(error):
        return True
    native = not kernel_in_python(case.op.overload, torch.device(case.placement.device).type)
    return native and _NO_GRADIENT.search(message_of(error)) is not None


def _works_without_gradients(case: Case) -> bool:
    arguments = case.inputs().map(lambda tensor: tensor.detach())
    return case.run(arguments).error is None
