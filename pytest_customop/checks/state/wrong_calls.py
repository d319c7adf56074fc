"""Calls that an op may reject: it must also restore what it changes before it raises."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from ...cases.case import Case
from ...cases.tensors import is_differentiable, is_plain
from ..values.memory.calls import expression, with_argument
from .parts import Part

# Changes of a tensor, by their code in the script.
_CHANGES: dict[str, Callable[[Tensor], Tensor]] = {
    "{}[0]": lambda tensor: tensor.detach()[0],
    "{}[:0]": lambda tensor: tensor.detach()[:0],
    "{}[None]": lambda tensor: tensor.detach()[None],
    "{}.bool()": lambda tensor: tensor.detach().bool(),
    "{}.flip(0)": lambda tensor: tensor.detach().flip(0),  # numbers may have to be sorted
}
_OF_NUMBERS = {"{}.neg()": lambda tensor: tensor.detach().neg()}
_OF_FRACTIONS = {"{} * torch.nan": lambda tensor: tensor.detach() * torch.nan}


def wrong_calls(case: Case) -> Iterator[Part]:
    """The forward with one argument changed: a tensor, or an integer, which gets above all sizes."""
    arguments = case.inputs()
    above = 1 + max((size for _, tensor in arguments.tensors() for size in tensor.shape), default=0)
    for name, value in arguments.named():
        if "[" in name:  # an element of a list
            continue
        if isinstance(value, Tensor):
            if is_plain(value) and value.dim() > 0 and value.shape[0] > 0:
                for text, change in _changes(value).items():
                    yield _part(case, name, text, change)
        elif type(value) is int:
            yield _part(case, name, str(above), lambda _: above)


def _changes(tensor: Tensor) -> Mapping[str, Callable[[Tensor], Tensor]]:
    """The changes that a tensor's dtype allows, by their code in the script."""
    fractions = is_differentiable(tensor.dtype)
    if tensor.dtype == torch.bool or (fractions and tensor.dtype.itemsize == 1):
        return _CHANGES  # torch does not compute in float8
    return {**_CHANGES, **_OF_NUMBERS, **(_OF_FRACTIONS if fractions else {})}


def _part(case: Case, name: str, text: str, change: Callable[[Any], Any]) -> Part:
    def prepare() -> Callable[[], Any] | None:
        arguments = case.inputs()
        try:
            changed = change(dict(arguments.named())[name])
        except (NotImplementedError, RuntimeError):  # torch has no such kernel for the dtype
            return None
        return with_argument(arguments, name, changed).call

    place = expression(case, name)
    return Part(
        f"a call that raises (`{name}` is {text.format(name)})",
        prepare,
        _SCRIPT.format(place=place, value=text.format(f"{place}.detach()")),
        raises=True,
    )


_SCRIPT = """
args, kwargs = inputs()
args = list(args)
{place} = {value}


def run():
    try:
        op(*args, **kwargs)
    except Exception as error:
        print("raised:", error)


"""
