"""The family `values`: what an op gives and writes in eager mode, and whose memory it touches."""

from __future__ import annotations

from ..check import Check
from .aliasing import aliasing, same_tensor
from .defaults import defaults
from .layouts import layouts
from .mutation import mutation
from .repeat import repeat
from .uninitialized import uninitialized

CHECKS = [
    Check(
        "values.aliasing",
        "outputs share no memory with arguments or each other, in any layout and dtype",
        aliasing,
        variants=("shape", "values", "positions", "arguments"),
        cheap=True,
    ),
    Check(
        "values.defaults",
        "the kernels' own defaults are those of the schema",
        defaults,
        variants=(),
    ),
    Check(
        "values.layouts",
        "the results do not depend on strides, offsets, padding, conjugate or negative bits",
        layouts,
    ),
    Check(
        "values.mutation",
        "the op writes to what its schema declares and to nothing else, byte by byte",
        mutation,
        variants=("shape", "values", "positions", "arguments"),
        cheap=True,
    ),
    Check(
        "values.repeat",
        "a further call gives the same values, also after inputs changed in place",
        repeat,
    ),
    Check(
        "values.same_tensor",
        "one tensor as two arguments gives what a tensor and its copy give",
        same_tensor,
    ),
    Check(
        "values.uninitialized",
        "the results do not depend on what fresh memory held",
        uninitialized,
        cheap=True,
    ),
]
