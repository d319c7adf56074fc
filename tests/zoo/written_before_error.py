"""In-place updates of lists that raise in the middle, or before they begin."""

import functools

import torch

from pytest_customop import tensor

from .memory import library_op
from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager", requires_grad=[False])
WRITTEN = {"errors.unchanged": "written-before-error"}
GRADS = ([tensor(4, 3), tensor(5)], 0.5)
SAID = "If one is not finite, RuntimeError is raised, and all are unchanged."


def _scaled(name, check_first, said=SAID):
    """Multiplies each of some gradients; `check_first` says when the numbers are looked at."""

    def kernel(grads, scale):
        norms = []
        for grad in grads if check_first else ():
            check(grad)
        for grad in grads:
            if not check_first:
                check(grad)
            norms.append(grad.norm())
            grad.mul_(scale)
        return torch.stack(norms)

    def check(grad):
        if not bool(grad.isfinite().all()):
            raise RuntimeError("a gradient is not finite")

    def fake(grads, scale):
        return grads[0].new_empty(len(grads))

    fake.__doc__ = f"Multiplies gradients in place, and returns their norms. {said}"
    return library_op(name, "(Tensor(a!)[] grads, float scale) -> Tensor", kernel, fake)


@aot(GRADS, expected=WRITTEN)
def scales_until_one_is_not_finite():
    """The gradients before the wrong one are scaled by then."""
    return _scaled("scales_until_one_is_not_finite", check_first=False)


@aot(GRADS, twin_of="scales_until_one_is_not_finite")
def scales_if_all_are_finite():
    """All gradients are looked at first."""
    return _scaled("scales_if_all_are_finite", check_first=True)


@aot(GRADS)
def scales_some_without_a_promise():
    """Correct: no docstring says that an error leaves all as they are."""
    said = "If one is not finite, RuntimeError is raised."
    return _scaled("scales_some_without_a_promise", check_first=False, said=said)
