"""The arguments of a case as Python source: a function `inputs()` that makes them again."""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.testing import make_tensor

from ..cases.arguments import Arguments
from ..cases.case import Case
from ..cases.tensors import DEFAULT_TOLERANCES, is_plain
from ..declare.inputs import TensorSpec

_INLINE = 64  # the most elements of a storage that is written out
_WRITABLE = {
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    *(dtype for dtype in DEFAULT_TOLERANCES if dtype != torch.complex32),
}


@dataclass(frozen=True)
class _Made:
    """How a script makes the tensors: lines that come first, then one expression per tensor."""

    first: Sequence[str]
    each: Sequence[str]


def inputs_source(case: Case, name: str = "inputs") -> tuple[str, dict[str, bytes]]:
    """The source of `inputs()`, and the files that it loads, by their endings.

    Small tensors are written out, with their strides, offsets and shared storages. Described tensors are
    drawn again if that gives the same values. Others are saved to a file.
    """
    arguments = case.inputs()
    tensors = [tensor for _, tensor in arguments.tensors()]
    if all(map(_is_small, tensors)):
        return _function(name, arguments, _written_out(tensors)), {}
    drawn = _drawn(case, tensors)
    if drawn is not None:
        return _function(name, arguments, drawn), {}
    buffer = io.BytesIO()
    torch.save([tensor.detach() for tensor in tensors], buffer)
    ending = f".{name}.pt"
    load = f"saved = torch.load(Path(__file__).with_suffix({ending!r}), weights_only=True)"
    loaded = _Made([load], [f"saved[{at}]" for at in range(len(tensors))])
    source = "from pathlib import Path\n\n\n" + _function(name, arguments, loaded)
    return source, {ending: buffer.getvalue()}


def _function(name: str, arguments: Arguments, source: _Made) -> str:
    lines = [*source.first]
    names = []
    for (path, tensor), expression in zip(arguments.tensors(), source.each, strict=True):
        names.append(_variable(path))
        grad = ".requires_grad_()" if tensor.requires_grad else ""
        lines.append(f"{names[-1]} = {expression}{grad}")
    rest = iter(names)
    args = "".join(f"{_expression(value, rest)}, " for value in arguments.args)
    kwargs = ", ".join(
        f"{key!r}: {_expression(value, rest)}" for key, value in arguments.kwargs.items()
    )
    lines.append(f"return ({args.rstrip()}), {{{kwargs}}}")
    return f"def {name}():\n" + textwrap.indent("\n".join(lines), "    ")


def _variable(path: str) -> str:
    plain = path.replace("[", "_").replace("]", "")
    return f"{plain}_" if plain in ("torch", "saved", "Path") else plain


def _expression(value: Any, tensors: Iterator[str]) -> str:
    if isinstance(value, torch.Tensor):
        return next(tensors)
    if isinstance(value, list):
        return f"[{', '.join(_expression(element, tensors) for element in value)}]"
    if isinstance(value, tuple):
        return f"({''.join(_expression(element, tensors) + ', ' for element in value)})"
    if isinstance(value, torch.device):
        return f"torch.device({str(value)!r})"
    if isinstance(value, torch.Generator):
        return f"torch.Generator({str(value.device)!r}).manual_seed({value.initial_seed()})"
    return _number(value)


def _number(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_number, value))}]"
    if isinstance(value, complex):
        return f"complex({_number(value.real)}, {_number(value.imag)})"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)


# Tensors that are written out


def _is_small(tensor: torch.Tensor) -> bool:
    return (
        is_plain(tensor)
        and tensor.dtype in _WRITABLE
        and not (tensor.is_conj() or tensor.is_neg())
        and tensor.untyped_storage().nbytes() <= _INLINE * tensor.element_size()
    )


def _written_out(tensors: Sequence[torch.Tensor]) -> _Made:
    """A line for each storage that tensors share or that has gaps, and views of it."""
    homes = [tensor.untyped_storage().data_ptr() for tensor in tensors]
    names: dict[int, str] = {}
    first, expressions = [], []
    for tensor, home in zip(tensors, homes, strict=True):
        is_whole = tensor.is_contiguous() and tensor.untyped_storage().nbytes() == tensor.nbytes
        if tensor.numel() == 0 or (is_whole and homes.count(home) == 1):
            expressions.append(_literal(tensor.detach()))
            continue
        if home not in names:
            names[home] = f"storage{len(names)}"
            count = tensor.untyped_storage().nbytes() // tensor.element_size()
            flat = tensor.detach().as_strided((count,), (1,), 0)
            first.append(f"{names[home]} = {_literal(flat)}")
        place = (tuple(tensor.shape), tuple(tensor.stride()), tensor.storage_offset())
        expressions.append(f"{names[home]}.as_strided{place}")
    return _Made(first, expressions)


def _literal(tensor: torch.Tensor) -> str:
    device = "" if tensor.device.type == "cpu" else f", device={str(tensor.device)!r}"
    source = f"torch.tensor({_number(tensor.tolist())}, dtype={tensor.dtype}{device})"
    return f"{source}.reshape({tuple(tensor.shape)})" if tensor.numel() == 0 else source


# Tensors that are drawn again


def _drawn(case: Case, tensors: Sequence[torch.Tensor]) -> _Made | None:
    """The calls that draw the tensors; None if they would not give the same values."""
    sample = case.sample
    specs = [
        element
        for value in (*sample.args, *sample.kwargs.values())
        for element in (value if isinstance(value, (list, tuple)) else [value])
        if isinstance(element, (TensorSpec, torch.Tensor))
    ]
    if len(specs) != len(tensors):
        return None
    expressions = []
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(case.seed)  # CUDA's streams stay where they are
        for spec, tensor in zip(specs, tensors, strict=True):
            if not isinstance(spec, TensorSpec) or not _redrawable(spec, tensor):
                return None
            redrawn, source = _draw_call(spec, tensor)
            if not torch.equal(redrawn, tensor.detach()):
                return None
            expressions.append(source)
    return _Made([f"torch.manual_seed({case.seed})"], expressions)


def _redrawable(spec: TensorSpec, tensor: torch.Tensor) -> bool:
    dense = is_plain(tensor) and tensor.is_contiguous()
    return dense and int(tensor.storage_offset()) == 0 and spec.values is None


def _draw_call(spec: TensorSpec, tensor: torch.Tensor) -> tuple[torch.Tensor, str]:
    """The tensor drawn again, and the call that does so."""
    shape, dtype = tuple(tensor.shape), tensor.dtype
    moved = "" if tensor.device.type == "cpu" else f".to({str(tensor.device)!r})"
    if spec.fill is not None:
        redrawn = torch.full(shape, spec.fill, dtype=dtype)
        source = f"torch.full({shape}, {_number(spec.fill)}, dtype={dtype})"
    else:
        redrawn = make_tensor(shape, dtype=dtype, device="cpu", low=spec.low, high=spec.high)
        limits = (("low", spec.low), ("high", spec.high))
        keywords = "".join(f", {name}={value!r}" for name, value in limits if value is not None)
        source = f'torch.testing.make_tensor({shape}, dtype={dtype}, device="cpu"{keywords})'
    return redrawn.to(tensor.device), source + moved
