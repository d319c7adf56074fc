"""Variants that give an optional tensor that the sample leaves out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import torch

from ...cases.documented import lines_about
from ...cases.documented_dtypes import dtypes_of
from ...cases.documented_shapes import documented_shape
from ...declare.inputs import TensorSpec
from ...declare.variant import UNSHAPED, Step
from .sample_view import SampleView, TensorArgument

_MASK = re.compile(r"(^|_)masks?($|_)")
_BOOLEAN = re.compile(r"\bbool(ean)?s?\b", re.I)


def steps(view: SampleView, name: str) -> Iterator[Step]:
    """The tensor in the shape that a docstring gives it, or in several guessed ones.

    These are the shape of the first floating-point one, a row of it, a number per channel, and one number;
    without a floating-point tensor none is guessed.

    The dtype is that of the first floating-point tensor; a mask is tried as booleans too. Channels are the
    dim after the batch.
    """
    like = next((tensor for tensor in view.tensors if tensor.floating), None)
    shapes = {tensor.path: tensor.shape for tensor in view.tensors}
    documented = documented_shape(view.op, name, shapes)
    if documented is not None:
        stated = _of_stated_dtype(view, name, documented)
        spec = stated or (_resized(like, documented) if like else None)
        if spec is not None:
            yield _given(name, "given", f"{name} given, in the shape of the docstring", spec, 4)
        return
    if like is None:
        return
    shape = like.shape
    if _MASK.search(name):
        mask = TensorSpec(shape, torch.bool)
        yield _given(name, "mask", f"{name} given, booleans in the shape of {like.path}", mask, 4)
    same = _resized(like, shape)
    yield _given(name, "given", f"{name} given, as {like.path}", same, 5)
    if len(shape) > 1:
        row = _resized(like, shape[-1:])
        yield _given(name, "row", f"{name} given, as a row of {like.path}", row, 5)
    if len(shape) > 2 and shape[1] not in (1, shape[-1]):
        channels = _resized(like, shape[1:2])
        what = f"{name} given, a number for each of dim 1 of {like.path}"
        # Native code may not check the size.
        beyond = UNSHAPED if view.may_read_outside else None
        yield _given(name, "channels", what, channels, 5, beyond)
    if shape:
        single = _resized(like, ())
        yield _given(name, "number", f"{name} given, without dims", single, 9, UNSHAPED)


def _of_stated_dtype(view: SampleView, name: str, shape: tuple[int, ...]) -> TensorSpec | None:
    """Booleans, or the integers 0 and 1, where the text about the argument names such a dtype."""
    if _BOOLEAN.search(lines_about(view.op, name)):
        return TensorSpec(shape, torch.bool)
    dtype = next(iter(dtypes_of(view.op, name)), None)
    if dtype is None or dtype.is_floating_point:
        return None
    # Most integers are positions or lengths, of which these two are nearly always valid.
    return TensorSpec(shape, dtype, low=0, high=2)


def _resized(like: TensorArgument, shape: tuple[int, ...]) -> TensorSpec:
    """A description like an argument's at another size, with values drawn in the same range."""
    if like.resizable:
        return replace(like.resized(shape), layout=None, requires_grad=None)
    return TensorSpec(shape, like.spec.dtype)


def _given(
    name: str, step: str, description: str, spec: TensorSpec, rank: int, beyond: str | None = None
) -> Step:
    return Step(f"{name}.{step}", description, {name: spec}, rank, True, beyond=beyond)
