"""Ops whose outputs have no gradients, where gradients are asked for and where they are not."""

import functools

import torch
from torch import Tensor

from pytest_customop import tensor

from . import registry
from .compiled import NO_GRADIENTS
from .registry import library, since

specimen = functools.partial(registry.specimen, backend="aot_eager")

MATRIX = tensor(4, 3)
FOUND = {"backward.connected": "gradients-disconnected"}
NO_FORMULA = {"opcheck.test_aot_dispatch_dynamic": "checker-limit"}


def _doubled(name, at_autograd=None, schema="(Tensor x) -> Tensor", fake=None, kernel=None):
    """A library op without a formula, and what is to be registered at the Autograd key."""
    lib = library()
    lib.define(name + schema)
    lib.impl(name, torch.no_grad()(kernel or (lambda x: x * 2)), "CPU")
    torch.library.register_fake(f"zoo::{name}", fake or torch.empty_like, lib=lib)
    if at_autograd is not None:
        lib.impl(name, at_autograd, "Autograd")
    return getattr(torch.ops.zoo, name).default


def _below(name, *arguments):
    """Call the op's kernel for the device from a kernel at the Autograd key."""
    with torch._C._AutoDispatchBelowAutograd():
        return getattr(torch.ops.zoo, name)(*arguments)


@specimen(
    (MATRIX,),
    requires_grad=True,
    expected={
        **FOUND,
        **dict.fromkeys(
            ("compile.static", "compile.dynamic"), since("2.5", None, "compile-gradient-mismatch")
        ),
    },
    skips=NO_FORMULA,
)
def gradients_asked_without_a_formula():
    """The mark asks for gradients of a library op that has no formula."""
    return _doubled("gradients_asked_without_a_formula")


@specimen(
    (MATRIX,),
    requires_grad=[False, True],
    expected=FOUND,
    skips=NO_FORMULA,
)
def gradients_asked_of_a_custom_op():
    """The same of an op of torch.library.custom_op, whose outputs require gradients all the same."""

    @torch.library.custom_op("zoo::gradients_asked_of_a_custom_op", mutates_args=())
    def double(x: Tensor) -> Tensor:
        return x * 2

    double.register_fake(torch.empty_like)
    return double


@specimen((MATRIX,), notes=FOUND, skips=NO_GRADIENTS)
def kernel_at_autograd_without_a_formula():
    """The kernel at the Autograd key goes on to the next one, and connects nothing: perhaps on purpose."""
    name = "kernel_at_autograd_without_a_formula"
    return _doubled(name, lambda x: _below(name, x))


@specimen((MATRIX,), requires_grad=True, expected=FOUND, skips=NO_GRADIENTS)
def gradients_asked_of_a_detached_output():
    """Detaches its output on purpose, and the mark asks for gradients."""
    name = "gradients_asked_of_a_detached_output"
    return _doubled(name, lambda x: _below(name, x).detach())


def _double(name):
    """A formula around an op that doubles."""

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return _below(name, x)

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    return Double.apply


@specimen((MATRIX,), expected=FOUND, skips=NO_GRADIENTS)
def formula_where_gradients_are_off():
    """Applies its formula where gradients are off, and connects nothing."""
    name = "formula_where_gradients_are_off"
    return _doubled(name, torch.no_grad()(_double(name)))


@specimen((MATRIX,), skips=NO_GRADIENTS)
def not_differentiable_by_its_docs():
    """Correct: the kernel at the Autograd key goes on, and a docstring says that there are no gradients."""
    name = "not_differentiable_by_its_docs"

    def fake(x):
        """Twice x. Not differentiable: the result never requires grad."""
        return torch.empty_like(x)

    return _doubled(name, lambda x: _below(name, x), fake=fake)


@specimen(
    (MATRIX,),
    requires_grad=[False, True],
    twin_of=(
        "formula_where_gradients_are_off",
        "gradients_asked_without_a_formula",
        "gradients_asked_of_a_custom_op",
        "gradients_asked_of_a_detached_output",
        "gradients_asked_of_an_op_without_a_formula",
    ),
)
def formula_where_gradients_are_asked():
    """A formula at the Autograd key, and gradients."""
    name = "formula_where_gradients_are_asked"
    return _doubled(name, _double(name))


class _Marked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        output = _below("marks_its_output_as_not_differentiable", x)
        ctx.mark_non_differentiable(output)
        return output

    @staticmethod
    def backward(ctx, grad):
        return None


@specimen((MATRIX,), skips=NO_GRADIENTS)
def marks_its_output_as_not_differentiable():
    """Correct: a formula that marks its only output as not differentiable."""
    return _doubled("marks_its_output_as_not_differentiable", _Marked.apply)


@specimen((MATRIX,), skips=NO_GRADIENTS)
def detaches_its_output():
    """Correct: the kernel at the Autograd key returns what it detached; the mark asks for nothing."""
    name = "detaches_its_output"
    return _doubled(name, lambda x: _below(name, x).detach())


@specimen((MATRIX,), skips=NO_GRADIENTS)
def falls_through_at_autograd():
    """Correct: says by a kernel that falls through that it has no gradients."""
    return _doubled("falls_through_at_autograd", torch.library.fallthrough_kernel)


@specimen((MATRIX, False), skips=NO_GRADIENTS)
def connected_with_a_flag_only():
    """Correct: has a formula that a flag turns on, which is off in the sample."""
    name = "connected_with_a_flag_only"

    def at_autograd(x, training):
        return x * 2 if training else _below(name, x, training)

    return _doubled(
        name,
        at_autograd,
        "(Tensor x, bool training) -> Tensor",
        lambda x, training: torch.empty_like(x),
        lambda x, training: x * 2,
    )


@specimen((MATRIX,), requires_grad=True, skips=NO_FORMULA)
def positions_of_the_largest():
    """Correct: returns integers, which have no gradients, whatever the mark asks for."""
    return _doubled(
        "positions_of_the_largest",
        fake=lambda x: x.new_empty(x.shape[:-1], dtype=torch.int64),
        kernel=lambda x: x.argmax(-1),
    )


# The kernel at the Autograd key does not go on to the op, at which torch's checkers look.
NOT_SEEN = dict.fromkeys(("opcheck.test_schema", "opcheck.test_faketensor"), "checker-limit")


@specimen((MATRIX,), skips=NOT_SEEN)
def heaviside_without_a_formula():
    """Correct: its backward raises, as torch has no formula for the op that it calls at Autograd."""
    step = lambda x: torch.heaviside(x, x.new_ones(()))  # noqa: E731
    return _doubled("heaviside_without_a_formula", step, kernel=step)


@specimen(
    (MATRIX,),
    requires_grad=True,
    expected={
        **FOUND,
        "compile.static": "backward-raises",
        "compile.dynamic": "backward-raises",
        "opcheck.test_aot_dispatch_dynamic": "backward-raises",
    },
    skips=NOT_SEEN,
)
def gradients_asked_of_an_op_without_a_formula():
    """The same, and the mark asks for gradients."""
    step = lambda x: torch.heaviside(x, x.new_ones(()))  # noqa: E731
    return _doubled("gradients_asked_of_an_op_without_a_formula", step, kernel=step)
