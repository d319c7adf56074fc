"""Recognise the errors of torch's autograd about the gradients that a backward returned.

The texts come from `torch/csrc/autograd` and `torch._library.autograd`, seen in torch 2.4 to 2.15. Nothing
public distinguishes such an error from one that the backward itself raises.
"""

from __future__ import annotations

_TEXTS = (
    "returned an invalid gradient at index",
    "returned an incorrect number of gradients",
    "returned a gradient different than None at position",
    "expected Variable or None (got",
    "return from backward to be of the same structure",
)


def is_invalid_gradient(error: BaseException) -> bool:
    """Whether autograd raised because of the number, the sizes or the types of the gradients."""
    return isinstance(error, (RuntimeError, TypeError)) and any(
        text in str(error) for text in _TEXTS
    )
