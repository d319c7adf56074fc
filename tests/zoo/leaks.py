"""Ops of which each call leaves something behind."""

import ctypes
import functools
import os
import threading

import torch
from torch import Tensor

from pytest_customop import tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager")
MATRIX = tensor(4, 3)
MEMORY = {"state.leaks": "memory-leaked"}
RESOURCE = {"state.leaks": "resource-leaked"}
ONCE = {"gradcheck.double": "no-second-order"}
ONE_BACKWARD = {"backward.intact": "once-only", "gradcheck.backward": "checker-limit"}


def op(name, then, of_gradient=None):
    """Doubles; `then` is called with the input. With `of_gradient`, the backward is an op of its own."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def operator(x: Tensor) -> Tensor:
        then(x)
        return x * 2

    operator.register_fake(lambda x: torch.empty_like(x))
    if of_gradient is not None:
        gradient = op(f"{name}_gradient", of_gradient)
        operator.register_autograd(
            torch.autograd.function.once_differentiable(lambda ctx, grad: gradient(grad))
        )
    return operator


@aot((MATRIX,), expected=MEMORY)
def keeps_every_input():
    """Appends a copy of each input to a list, and never looks at it."""
    kept = []
    return op("keeps_every_input", lambda x: kept.append(x.clone()))


@aot((MATRIX,), expected=MEMORY, skips=ONCE)
def backward_keeps_every_gradient():
    """Appends a copy of each gradient to a list."""
    kept = []
    return op("backward_keeps_every_gradient", lambda x: None, lambda g: kept.append(g.clone()))


@functools.cache
def _libc():
    library = ctypes.CDLL(None)
    library.malloc.restype = ctypes.c_void_p
    library.free.argtypes = [ctypes.c_void_p]
    return library


@aot((MATRIX,), expected=MEMORY)
def never_frees():
    """Allocates a workspace in C and does not free it."""
    return op("never_frees", lambda x: _libc().malloc(1024) and None)


@aot((MATRIX,), twin_of="never_frees")
def frees():
    """Allocates a workspace in C and frees it."""
    return op("frees", lambda x: _libc().free(_libc().malloc(1024)))


@aot((MATRIX,), twin_of=("keeps_every_input", "backward_keeps_every_gradient"), skips=ONCE)
def keeps_the_last_inputs():
    """Keeps copies of the last hundred inputs and gradients, and of no more."""
    kept = []

    def keep(x):
        kept.append(x.clone())
        del kept[:-100]

    return op("keeps_the_last_inputs", keep, keep)


@aot((MATRIX,), expected=RESOURCE)
def never_closes():
    """Opens a file and does not close it."""
    return op("never_closes", lambda x: os.open(os.devnull, os.O_RDONLY) and None)


@aot((MATRIX,), twin_of="never_closes")
def closes():
    """Opens a file and closes it."""
    return op("closes", lambda x: os.close(os.open(os.devnull, os.O_RDONLY)))


@aot((MATRIX,), expected=RESOURCE)
def never_joins():
    """Starts a thread that waits for a second call that it never gets."""

    def start(x):
        # It never ends: memory that a thread gives back would hide the leaks of later specimens.
        waiting = threading.Thread(target=threading.Event().wait, daemon=True)
        waiting.start()

    return op("never_joins", start)


@aot((MATRIX,), twin_of="never_joins")
def joins():
    """Starts a thread and joins it."""

    def start(x):
        working = threading.Thread(target=x.sum)
        working.start()
        working.join()

    return op("joins", start)


def _weighted(name, keep, kept):
    """A sum whose backward takes what `keep(ctx, weights)` has kept, by `kept(ctx)`."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def weighted(x: Tensor) -> Tensor:
        return (x * x.detach().sign()).sum()

    weighted.register_fake(lambda x: x.new_empty(()))
    weighted.register_autograd(
        torch.autograd.function.once_differentiable(lambda ctx, grad: grad * kept(ctx)),
        setup_context=lambda ctx, inputs, output: keep(ctx, inputs[0].sign()),
    )
    return weighted


@aot((MATRIX,), expected=MEMORY, skips={**ONCE, **ONE_BACKWARD})
def keeps_weights_until_the_backward():
    """Keeps what the backward needs in a dictionary of its own, from which only a backward takes it."""
    kept = {}

    def keep(ctx, weights):
        ctx.key = object()
        kept[ctx.key] = weights

    return _weighted("keeps_weights_until_the_backward", keep, lambda ctx: kept.pop(ctx.key))


@aot((MATRIX,), twin_of="keeps_weights_until_the_backward", skips=ONCE)
def keeps_weights_with_the_graph():
    """Keeps what the backward needs with the graph."""
    return _weighted(
        "keeps_weights_with_the_graph",
        lambda ctx, weights: ctx.save_for_backward(weights),
        lambda ctx: ctx.saved_tensors[0],
    )
