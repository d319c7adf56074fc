"""Known failures: those that an author declares in the mark, with the reason why they stay for now."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from ..core.suggest import unknown
from ..core.wording import dtype_name
from .layouts import LAYOUTS
from .mistakes import MarkError

ANY_VARIANT = "*"


@dataclass(frozen=True, kw_only=True, eq=False)
class Known:
    """A known failure. It is expected, and does not fail the run.

    Every field except `reason` narrows down the failure; None leaves it open. A failure with another
    finding than the one named fails the run.

    Args:
        reason: why it is left as it is: a link to an issue, or a sentence.
        check: a check (`compile.dynamic`) or a family (`compile`).
        device: as on the command line; `cuda` means every CUDA device.
        dtype: a torch dtype.
        requires_grad: the cases with gradients, or those without.
        layout: a memory layout.
        sample: the id of a sample, or its position in the list.
        variant: the step of a variant (`empty0`), or `"*"` for any; None: the sample itself.
        finding: the code of the finding.
        strict: whether a case that passes fails the run; the message says which entry to delete. None:
            the value of pytest's ini key `xfail_strict`, or True without one.
        run: False: the case never runs. For cases that hang or crash.
    """

    reason: str
    check: str | None = None
    device: str | None = None
    dtype: Any = None
    requires_grad: bool | None = None
    layout: str | None = None
    sample: str | int | None = None
    variant: str | None = None
    finding: str | None = None
    strict: bool | None = None
    run: bool = True

    def __repr__(self) -> str:
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        default = {field.name: field.default for field in fields(self)}
        shown = [
            f"{name}={value!r}"
            for name, value in values
            if name == "reason" or value != default[name]
        ]
        return f"Known({', '.join([*shown[1:], shown[0]])})"

    @property
    def dtype_name(self) -> str | None:
        """The dtype's name as in test ids; None where it is left open."""
        return None if self.dtype is None else dtype_name(self.dtype)


def read_known(value: Any) -> tuple[Known, ...]:
    """The known failures of a mark.

    Raises:
        MarkError: for anything but a list of `Known`, and for wrong fields.
    """
    if value is None:
        return ()
    if isinstance(value, Known):
        raise MarkError("known is one Known: give a list of them")
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise MarkError(f"known is {value!r}: give a list of Known(..., reason=...)")
    entries = tuple(value)
    for index, entry in enumerate(entries):
        wrong = _why_wrong(entry)
        if wrong:
            raise MarkError(f"known[{index}] {wrong}")
    return entries


def _why_wrong(entry: Any) -> str | None:
    """What is wrong with an entry by itself; None if nothing is."""
    if not isinstance(entry, Known):
        return f'is {entry!r}: give Known(check=..., reason="...")'
    if not isinstance(entry.reason, str) or not entry.reason.strip():
        return f"has the reason {entry.reason!r}: say why the failure is left as it is"
    for name in ("check", "device", "layout", "variant", "finding"):
        value = getattr(entry, name)
        if value is not None and (not isinstance(value, str) or not value):
            return f"has {name}={value!r}: give a name"
    if entry.layout is not None and entry.layout not in LAYOUTS:
        return f"has an {unknown('layout', entry.layout, LAYOUTS)}"
    return _why_wrong_type(entry)


def _why_wrong_type(entry: Known) -> str | None:
    import torch

    if entry.dtype is not None and not isinstance(entry.dtype, torch.dtype):
        return f"has dtype={entry.dtype!r}: give a torch dtype, as torch.float32"
    if entry.sample is not None and type(entry.sample) not in (str, int):
        return f"has sample={entry.sample!r}: give the id of a sample, or its position"
    for name in ("requires_grad", "strict", "run"):
        value = getattr(entry, name)
        if value is not None and not isinstance(value, bool):
            return f"has {name}={value!r}: give True or False"
    if entry.run is None:
        return "has run=None: give True or False"
    return None
