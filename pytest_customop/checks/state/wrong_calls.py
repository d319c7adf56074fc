"""Calls that an op may reject: what it changes before it raises has to be restored, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor

from ...cases.case import Case
from ...cases.tensors import is_plain
from ..values.memory.calls import expression, with_argument
from .parts import Part

# Changes of a tensor, as the script writes them.
_CHANGES: dict[str, Callable[[Tensor], Tensor]] = {
    "{}[0]": lambda tensor: tensor.detach()[0],
    "{}[:0]": lambda tensor: tensor.detach()[:0],
    "{}[None]": lambda tensor: tensor.detach()[None],
    "{}.bool()": lambda tensor: tensor.detach().bool(),
}


def wrong_calls(case: Case) -> Iterator[Part]:
    """The forward with one argument changed: a tensor, or a number that is above all sizes then."""
    given = case.inputs()
    above = 1 + max((size for _, one in given.tensors() for size in one.shape), default=0)
    for name, value in given.named():
        if "[" in name:  # an element of a list
            continue
        if isinstance(value, Tensor):
            changeable = is_plain(value) and value.dim() > 0 and value.shape[0] > 0
            for text, change in _CHANGES.items() if changeable else ():
                yield _part(case, name, text, change)
        elif type(value) is int:
            yield _part(case, name, str(above), lambda _: above)


def _part(case: Case, name: str, text: str, change: Callable[[Any], Any]) -> Part:
    def prepare() -> Callable[[], Any]:
        arguments = case.inputs()
        return with_argument(arguments, name, change(dict(arguments.named())[name])).call

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
